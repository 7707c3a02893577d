// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The settings of the recorder, as an array for the adapters. The table is
// crates/settings/src/table.rs, from which include/tacho_settings.h is generated.
#ifndef TACHO_COMMON_SETTINGS_H
#define TACHO_COMMON_SETTINGS_H

#include "names.h"

#include "tacho_settings.h"

#include <cstddef>
#include <cstdint>

// For the columns of TACHO_SETTINGS: their arguments exist only on the servers that have the
// setting, or are used only if the setting can change.
#define TACHO_ON_ALL(...) __VA_ARGS__
#ifdef TACHO_SERVER_MYSQL
#define TACHO_ON_MYSQL(...) __VA_ARGS__
#else
#define TACHO_ON_MYSQL(...)
#endif
#define TACHO_IF_DYNAMIC(yes, no) yes
#define TACHO_IF_AT_START(yes, no) no
#define TACHO_IF_RECORDER(yes, no) yes
#define TACHO_IF_ADAPTER(yes, no) no
// The names of a choice, without parentheses.
#define TACHO_NAMES(...) __VA_ARGS__
// Removes a row.
#define TACHO_NOTHING(...)

namespace tacho {

enum class SettingKind {
    kSwitch,  // ON or OFF
    kNumber,  // within bounds
    kChoice,  // one of some names
    kText,    // a text
    kCommand, // a switch that always reads OFF: setting it does something
};

struct Setting {
    const char* name;      // without the server's prefix: `flush_bytes`
    const char* full_name; // as the server shows it
    SettingKind kind;
    bool is_dynamic;
    // tacho_embed_set() passes it to the recorder; the adapter uses all others itself.
    bool is_recorders;
    uint64_t default_value;
    uint64_t min;
    uint64_t max;
    uint64_t step;
    const char* default_text;
    const char* const* choices; // ends with null
    const char* comment;
};

#define TACHO_CHOICE(servers, change, owner, name, NAME, value, names, help)                       \
    inline constexpr const char* kChoices_##name[] = {TACHO_NAMES names, nullptr};
TACHO_SETTINGS(TACHO_NOTHING, TACHO_NOTHING, TACHO_CHOICE, TACHO_NOTHING, TACHO_NOTHING)
#undef TACHO_CHOICE

#define TACHO_BEGIN(kind, change, owner, name)                                                     \
#name, TACHO_VARIABLE(#name), SettingKind::kind, TACHO_IF_##change(true, false),               \
        TACHO_IF_##owner(true, false)
#define TACHO_NUMBER(servers, change, owner, name, NAME, value, min, max, step, help)              \
    {TACHO_BEGIN(kNumber, change, owner, name), value, min, max, step, nullptr, nullptr, help},
#define TACHO_SWITCH(servers, change, owner, name, NAME, value, help)                              \
    {TACHO_BEGIN(kSwitch, change, owner, name), value, 0, 1, 1, nullptr, nullptr, help},
#define TACHO_CHOICE(servers, change, owner, name, NAME, value, names, help)                       \
    {TACHO_BEGIN(kChoice, change, owner, name), value, 0, 0, 1, nullptr, kChoices_##name, help},
#define TACHO_TEXT(servers, change, owner, name, NAME, value, help)                                \
    {TACHO_BEGIN(kText, change, owner, name), 0, 0, 0, 1, value, nullptr, help},
#define TACHO_COMMAND(servers, change, owner, name, NAME, help)                                    \
    {TACHO_BEGIN(kCommand, change, owner, name), 0, 0, 1, 1, nullptr, nullptr, help},
// By enum tacho_setting: the settings of all servers.
inline constexpr Setting kSettings[] = {
    TACHO_SETTINGS(TACHO_NUMBER, TACHO_SWITCH, TACHO_CHOICE, TACHO_TEXT, TACHO_COMMAND)};
#undef TACHO_BEGIN
#undef TACHO_NUMBER
#undef TACHO_SWITCH
#undef TACHO_CHOICE
#undef TACHO_TEXT
#undef TACHO_COMMAND

static_assert(sizeof(kSettings) == TACHO_SETTING_COUNT * sizeof(Setting), "one for each number");

constexpr size_t choice_count(const Setting& setting) noexcept {
    size_t count = 0;
    while (setting.choices[count] != nullptr) {
        ++count;
    }
    return count;
}

// Calls `use` with the number of each setting that the recorder owns, in the order of the table,
// and logging last: a recorder that was just started begins to record when all settings are
// applied.
template <typename Use> void for_recorders_settings(Use use) noexcept {
    for (int32_t number = 0; number < TACHO_SETTING_COUNT; ++number) {
        if (kSettings[number].is_recorders && number != TACHO_SETTING_LOGGING) {
            use(number);
        }
    }
    use(TACHO_SETTING_LOGGING);
}

} // namespace tacho

#endif
