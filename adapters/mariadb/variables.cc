// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// System variables, from the table of settings, and status variables. An update function runs with
// LOCK_global_system_variables held: it stores a value and wakes the writer, and never waits.
#include "../common/digits.h"
#include "../common/retention.h"
#include "../common/settings.h"
#include "../common/text_settings.h"
#include "adapter.h"
#include "text_variables.h"
#include "who.h"

#include <climits>
#include <cstdio>
#include <cstring>

#include <typelib.h>

namespace tacho {

namespace {

// The value of one variable; its kind decides which member is valid.
union Value {
    char flag;
    unsigned long choice;
    unsigned long long number;
    char* text;
};

// By enum tacho_setting. Texts that can change are in g_texts.
Value g_values[TACHO_SETTING_COUNT];

// Absolute paths that are shown instead of the configured ones.
char g_paths[TACHO_SETTING_COUNT][PATH_MAX];

// The server identifies the variable by the address of its value.
int32_t number_of(const void* value) noexcept {
    return static_cast<int32_t>(static_cast<const Value*>(value) - g_values);
}

void record_change(MYSQL_THD thd, const char* variable, const char* old_value,
                   const char* new_value) noexcept {
    const tacho_who who = who_of(thd);
    tacho_embed_note_config(g_recorder, &who, variable, old_value, new_value);
}

void note(MYSQL_THD thd, const char* variable, const char* old_value,
          const char* new_value) noexcept {
    if (g_recorder != nullptr && strcmp(old_value, new_value) != 0) {
        record_change(thd, variable, old_value, new_value);
    }
}

void set(int32_t setting, unsigned long long value) noexcept {
    if (g_recorder != nullptr) {
        tacho_embed_set(g_recorder, setting, value);
    }
}

// As the server declares numbers.
extern DECLARE_MYSQL_SYSVAR_SIMPLE(number, unsigned long long);
using Number = decltype(MYSQL_SYSVAR_NAME(number));

// The server would adjust a value that is out of range: -1 to 0, which means "never" or "unlimited"
// for many. It has a message for refused values.
int check_number(MYSQL_THD, st_mysql_sys_var* self, void* save, st_mysql_value* value) noexcept {
    const auto* range = reinterpret_cast<const Number*>(self);
    long long number = 0;
    if (value->val_int(value, &number) != 0) {
        return 1;
    }
    const bool negative = number < 0 && value->is_unsigned(value) == 0;
    const auto wanted = static_cast<unsigned long long>(number);
    if (negative || wanted < range->min_val || wanted > range->max_val) {
        return 1;
    }
    *static_cast<unsigned long long*>(save) = wanted;
    return 0;
}

void update_number(MYSQL_THD thd, st_mysql_sys_var*, void* variable, const void* value) noexcept {
    const int32_t setting = number_of(variable);
    const char* name = kSettings[setting].full_name;
    auto* current = static_cast<unsigned long long*>(variable);
    const auto before = *current;
    const auto wanted = *static_cast<const unsigned long long*>(value);
    const Digits old_value(before);
    const Digits new_value(wanted);
    note(thd, name, old_value.text, new_value.text);
    *current = wanted;
    set(setting, wanted);
    if (g_recorder == nullptr || !confirms_removal(setting, before, wanted)) {
        return;
    }
    if (wanted == before) {
        // It changes no setting, but removes files: a line records the account.
        record_change(thd, name, old_value.text, new_value.text);
    }
    tacho_embed_retain(g_recorder, setting);
}

void update_choice(MYSQL_THD thd, st_mysql_sys_var*, void* variable, const void* value) noexcept {
    const Setting& setting = kSettings[number_of(variable)];
    auto* current = static_cast<unsigned long*>(variable);
    const auto wanted = *static_cast<const unsigned long*>(value);
    note(thd, setting.full_name, setting.choices[*current], setting.choices[wanted]);
    *current = wanted;
    set(number_of(variable), wanted);
}

void update_switch(MYSQL_THD thd, st_mysql_sys_var*, void* variable, const void* value) noexcept {
    const int32_t setting = number_of(variable);
    auto* current = static_cast<char*>(variable);
    const char wanted = *static_cast<const char*>(value);
    note(thd, kSettings[setting].full_name, *current != 0 ? "ON" : "OFF",
         wanted != 0 ? "ON" : "OFF");
    *current = wanted;
    set(setting, wanted != 0 ? 1 : 0);
}

// Commands, not states: they always read OFF.
void update_command(MYSQL_THD, st_mysql_sys_var*, void* variable, const void* value) noexcept {
    if (*static_cast<const char*>(value) == 0 || g_recorder == nullptr) {
        return;
    }
    if (number_of(variable) == TACHO_SETTING_ROTATE_NOW) {
        tacho_embed_rotate(g_recorder);
    } else {
        tacho_embed_flush(g_recorder);
    }
}

template <int32_t kSetting> constexpr TextNumber text_of() noexcept {
    constexpr TextNumber number = text_number(kSetting);
    static_assert(number != kTextCount, "../common/text_settings.h has the texts that can change");
    return number;
}

template <int32_t kSetting>
int check_text(MYSQL_THD thd, st_mysql_sys_var*, void* save, st_mysql_value* value) noexcept {
    return check_text_variable(text_of<kSetting>(), thd, save, value);
}

template <int32_t kSetting>
void update_text(MYSQL_THD thd, st_mysql_sys_var*, void*, const void* save) noexcept {
    update_text_variable(text_of<kSetting>(), thd, save);
}

// The server does not write to the names, although it does not declare this.
#define TACHO_CHOICE(servers, change, owner, name, NAME, value, names, help)                       \
    TACHO_ON_##servers(TYPELIB g_##name##_lib = {choice_count(kSettings[TACHO_SETTING_##NAME]),    \
                                                 #name, const_cast<const char**>(kChoices_##name), \
                                                 nullptr};)
TACHO_SETTINGS(TACHO_NOTHING, TACHO_NOTHING, TACHO_CHOICE, TACHO_NOTHING, TACHO_NOTHING)
#undef TACHO_CHOICE

#define TACHO_VALUE(NAME, member) g_values[TACHO_SETTING_##NAME].member
#define TACHO_FLAGS(change, argument)                                                              \
    (PLUGIN_VAR_##argument | TACHO_IF_##change(0, PLUGIN_VAR_READONLY))
#define TACHO_NUMBER(servers, change, owner, name, NAME, value, min, max, step, help)              \
    TACHO_ON_##servers(                                                                            \
        MYSQL_SYSVAR_ULONGLONG(name, TACHO_VALUE(NAME, number), TACHO_FLAGS(change, RQCMDARG),     \
                               help, TACHO_IF_##change(check_number, nullptr),                     \
                               TACHO_IF_##change(update_number, nullptr), value, min, max, step);)
#define TACHO_SWITCH(servers, change, owner, name, NAME, value, help)                              \
    TACHO_ON_##servers(MYSQL_SYSVAR_BOOL(name, TACHO_VALUE(NAME, flag),                            \
                                         TACHO_FLAGS(change, OPCMDARG), help, nullptr,             \
                                         TACHO_IF_##change(update_switch, nullptr), value);)
#define TACHO_CHOICE(servers, change, owner, name, NAME, value, names, help)                       \
    TACHO_ON_##servers(MYSQL_SYSVAR_ENUM(name, TACHO_VALUE(NAME, choice),                          \
                                         TACHO_FLAGS(change, RQCMDARG), help, nullptr,             \
                                         TACHO_IF_##change(update_choice, nullptr), value,         \
                                         &g_##name##_lib);)
#define TACHO_TEXT(servers, change, owner, name, NAME, value, help)                                \
    TACHO_ON_##servers(                                                                            \
        MYSQL_SYSVAR_STR(name,                                                                     \
                         TACHO_IF_##change(g_texts[text_of<TACHO_SETTING_##NAME>()].shown,         \
                                           TACHO_VALUE(NAME, text)),                               \
                         TACHO_FLAGS(change, RQCMDARG), help,                                      \
                         TACHO_IF_##change(check_text<TACHO_SETTING_##NAME>, nullptr),             \
                         TACHO_IF_##change(update_text<TACHO_SETTING_##NAME>, nullptr), value);)
#define TACHO_COMMAND(servers, change, owner, name, NAME, help)                                    \
    TACHO_ON_##servers(MYSQL_SYSVAR_BOOL(name, TACHO_VALUE(NAME, flag),                            \
                                         TACHO_FLAGS(change, OPCMDARG), help, nullptr,             \
                                         update_command, 0);)
TACHO_SETTINGS(TACHO_NUMBER, TACHO_SWITCH, TACHO_CHOICE, TACHO_TEXT, TACHO_COMMAND)
#undef TACHO_VALUE
#undef TACHO_FLAGS
#undef TACHO_NUMBER
#undef TACHO_SWITCH
#undef TACHO_CHOICE
#undef TACHO_TEXT
#undef TACHO_COMMAND

// A figure for SHOW STATUS. The server provides a buffer for the value.
template <uint64_t tacho_embed_status::*Member>
int show_number(MYSQL_THD, st_mysql_show_var* out, void* buffer, system_status_var*,
                enum_var_type) noexcept {
    tacho_embed_status status = {};
    if (g_recorder != nullptr) {
        tacho_embed_read_status(g_recorder, &status);
    }
    auto* value = static_cast<unsigned long long*>(buffer);
    *value = status.*Member;
    out->type = SHOW_ULONGLONG;
    out->value = value;
    return 0;
}

template <int32_t Which>
int show_text(MYSQL_THD, st_mysql_show_var* out, void* buffer, system_status_var*,
              enum_var_type) noexcept {
    auto* text = static_cast<char*>(buffer);
    text[0] = '\0';
    if (g_recorder != nullptr) {
        tacho_embed_read_text(g_recorder, Which, text, SHOW_VAR_FUNC_BUFF_SIZE);
    }
    out->type = SHOW_CHAR;
    out->value = text;
    return 0;
}

void* function(mysql_show_var_func f) noexcept {
    return reinterpret_cast<void*>(f);
}

} // namespace

const char* variable_text(int32_t setting) noexcept {
    const char* text = g_values[setting].text;
    return text != nullptr ? text : kSettings[setting].default_text;
}

unsigned long long variable_number(int32_t setting) noexcept {
    switch (kSettings[setting].kind) {
    case SettingKind::kNumber:
        return g_values[setting].number;
    case SettingKind::kChoice:
        return g_values[setting].choice;
    default:
        return g_values[setting].flag != 0 ? 1 : 0;
    }
}

void show_text(int32_t setting, const char* path) noexcept {
    char* shown = g_paths[setting];
    snprintf(shown, sizeof(g_paths[setting]), "%s", path);
    g_values[setting].text = shown;
}

void apply_variables(const tacho_embed* recorder) noexcept {
    apply_texts(recorder);
    for_recorders_settings([recorder](int32_t setting) noexcept {
        tacho_embed_set(recorder, setting, variable_number(setting));
    });
}

#define TACHO_ELEMENT(servers, change, owner, name, ...) TACHO_ON_##servers(MYSQL_SYSVAR(name), )
st_mysql_sys_var* g_system_variables[] = {
    TACHO_SETTINGS(TACHO_ELEMENT, TACHO_ELEMENT, TACHO_ELEMENT, TACHO_ELEMENT,
                   TACHO_ELEMENT) nullptr,
};
#undef TACHO_ELEMENT

using Status = tacho_embed_status;
st_mysql_show_var g_status_variables[] = {
    {"Tacho_records_written", function(show_number<&Status::records_written>), SHOW_SIMPLE_FUNC},
    {"Tacho_bytes_written", function(show_number<&Status::bytes_written>), SHOW_SIMPLE_FUNC},
    {"Tacho_records_filtered", function(show_number<&Status::records_filtered>), SHOW_SIMPLE_FUNC},
    {"Tacho_records_lost", function(show_number<&Status::records_lost>), SHOW_SIMPLE_FUNC},
    {"Tacho_records_lost_timeout", function(show_number<&Status::records_lost_timeout>),
     SHOW_SIMPLE_FUNC},
    {"Tacho_records_lost_dropped", function(show_number<&Status::records_lost_dropped>),
     SHOW_SIMPLE_FUNC},
    {"Tacho_records_lost_corrupt", function(show_number<&Status::records_lost_corrupt>),
     SHOW_SIMPLE_FUNC},
    {"Tacho_records_lost_killed", function(show_number<&Status::records_lost_killed>),
     SHOW_SIMPLE_FUNC},
    {"Tacho_blocked_count", function(show_number<&Status::blocked_count>), SHOW_SIMPLE_FUNC},
    {"Tacho_blocked_time_us", function(show_number<&Status::blocked_time_us>), SHOW_SIMPLE_FUNC},
    {"Tacho_arena_bytes_used", function(show_number<&Status::arena_bytes_used>), SHOW_SIMPLE_FUNC},
    {"Tacho_write_errors", function(show_number<&Status::write_errors>), SHOW_SIMPLE_FUNC},
    {"Tacho_sync_count", function(show_number<&Status::sync_count>), SHOW_SIMPLE_FUNC},
    {"Tacho_sync_time_us", function(show_number<&Status::sync_time_us>), SHOW_SIMPLE_FUNC},
    {"Tacho_sync_given_up", function(show_number<&Status::sync_given_up>), SHOW_SIMPLE_FUNC},
    {"Tacho_files_removed", function(show_number<&Status::files_removed>), SHOW_SIMPLE_FUNC},
    {"Tacho_files_compressed", function(show_number<&Status::files_compressed>), SHOW_SIMPLE_FUNC},
    {"Tacho_files_encrypted", function(show_number<&Status::files_encrypted>), SHOW_SIMPLE_FUNC},
    {"Tacho_files", function(show_number<&Status::files>), SHOW_SIMPLE_FUNC},
    {"Tacho_files_bytes", function(show_number<&Status::files_bytes>), SHOW_SIMPLE_FUNC},
    {"Tacho_files_days", function(show_number<&Status::files_days>), SHOW_SIMPLE_FUNC},
    {"Tacho_files_to_pack", function(show_number<&Status::files_to_pack>), SHOW_SIMPLE_FUNC},
    {"Tacho_oldest_file", function(show_text<TACHO_TEXT_OLDEST_FILE>), SHOW_SIMPLE_FUNC},
    {"Tacho_oldest_time", function(show_text<TACHO_TEXT_OLDEST_TIME>), SHOW_SIMPLE_FUNC},
    {"Tacho_checkpoint_time", function(show_text<TACHO_TEXT_CHECKPOINT_TIME>), SHOW_SIMPLE_FUNC},
    {"Tacho_rotate_due_time", function(show_text<TACHO_TEXT_ROTATE_DUE_TIME>), SHOW_SIMPLE_FUNC},
    {"Tacho_format_behind_bytes", function(show_number<&Status::format_behind_bytes>),
     SHOW_SIMPLE_FUNC},
    {"Tacho_disk_free_bytes", function(show_number<&Status::disk_free_bytes>), SHOW_SIMPLE_FUNC},
    {"Tacho_sessions", function(show_number<&Status::sessions>), SHOW_SIMPLE_FUNC},
    {"Tacho_sessions_max", function(show_number<&Status::sessions_max>), SHOW_SIMPLE_FUNC},
    {"Tacho_last_error", function(show_text<TACHO_TEXT_LAST_ERROR>), SHOW_SIMPLE_FUNC},
    {"Tacho_current_file", function(show_text<TACHO_TEXT_CURRENT_FILE>), SHOW_SIMPLE_FUNC},
    {"Tacho_filter_error", function(show_text<TACHO_TEXT_FILTER_ERROR>), SHOW_SIMPLE_FUNC},
    {"Tacho_encryption_error", function(show_text<TACHO_TEXT_ENCRYPTION_ERROR>), SHOW_SIMPLE_FUNC},
    {"Tacho_filter_rules", function(show_number<&Status::filter_rules>), SHOW_SIMPLE_FUNC},
    {"Tacho_writer", function(show_text<TACHO_TEXT_WRITER>), SHOW_SIMPLE_FUNC},
    {"Tacho_arena_file", function(show_text<TACHO_TEXT_ARENA>), SHOW_SIMPLE_FUNC},
    {nullptr, nullptr, SHOW_UNDEF},
};

} // namespace tacho
