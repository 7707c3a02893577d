// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// System variables, from the table of settings. An update function runs with the server's lock on
// system variables held: it stores a value and wakes the writer, and never waits. It asks for the
// privilege, too, because of `SET GLOBAL … = DEFAULT` the check function is not told: the error
// that it raises is the statement's.
#include "../common/digits.h"
#include "../common/message.h"
#include "../common/retention.h"
#include "../common/settings.h"
#include "adapter.h"
#include "checks.h"
#include "privilege.h"
#include "traces.h"
#include "who.h"

#include <climits>
#include <cstdio>
#include <cstring>

namespace tacho {

namespace {

constexpr size_t kNameBytes = 64;
constexpr size_t kChoicesMax = 8;

// The value of one variable; which member counts, its kind tells.
union Value {
    bool flag;
    unsigned long choice;
    unsigned long long number;
    char* text;
};

Value g_values[kSettingCount];
bool g_registered[kSettingCount];
TYPE_LIB g_choices[kSettingCount];
char g_paths[kSettingCount][PATH_MAX];
// What the server has allocated, and will free, of a text that a path of ours is shown in place of.
char* g_given[kSettingCount];

// The server tells which variable it is by the place of its value.
size_t index_of(const void* value) noexcept {
    return static_cast<size_t>(static_cast<const Value*>(value) - g_values);
}

void tell(MYSQL_THD thd, const Setting& setting, const char* before, const char* after) noexcept {
    char variable[kNameBytes];
    snprintf(variable, sizeof(variable), TACHO_VARIABLE("%s"), setting.name);
    const tacho_who who = who_of(thd);
    tacho_embed_note_config(g_recorder, &who, variable, before, after);
}

void note(MYSQL_THD thd, const Setting& setting, const char* before, const char* after) noexcept {
    if (g_recorder != nullptr && strcmp(before, after) != 0) {
        tell(thd, setting, before, after);
    }
}

void set(const Setting& setting, uint64_t value) noexcept {
    if (setting.number == kSettingTraces) {
        apply_traces(value);
    } else if (g_recorder != nullptr) {
        tacho_embed_set(g_recorder, setting.number, value);
    }
}

void update_flag(MYSQL_THD thd, SYS_VAR*, void* variable, const void* save) noexcept {
    if (!may_change(thd)) {
        return;
    }
    const Setting& setting = kSettings[index_of(variable)];
    auto* current = static_cast<bool*>(variable);
    const bool wanted = *static_cast<const bool*>(save);
    note(thd, setting, *current ? "ON" : "OFF", wanted ? "ON" : "OFF");
    *current = wanted;
    set(setting, wanted ? 1 : 0);
}

// It always reads OFF.
void update_command(MYSQL_THD, SYS_VAR*, void* variable, const void* save) noexcept {
    if (!*static_cast<const bool*>(save) || g_recorder == nullptr) {
        return;
    }
    if (kSettings[index_of(variable)].number == kSettingRotateNow) {
        tacho_embed_rotate(g_recorder);
    } else {
        tacho_embed_flush(g_recorder);
    }
}

void update_number(MYSQL_THD thd, SYS_VAR*, void* variable, const void* save) noexcept {
    if (!may_change(thd)) {
        return;
    }
    const Setting& setting = kSettings[index_of(variable)];
    auto* current = static_cast<unsigned long long*>(variable);
    const auto before = *current;
    const auto wanted = *static_cast<const unsigned long long*>(save);
    const Digits old_value(before);
    const Digits new_value(wanted);
    note(thd, setting, old_value.text, new_value.text);
    *current = wanted;
    set(setting, wanted);
    if (g_recorder == nullptr || !confirms_removal(setting.number, before, wanted)) {
        return;
    }
    if (wanted == before) {
        // It changes no setting, and removes files: a line says who wanted that.
        tell(thd, setting, old_value.text, new_value.text);
    }
    tacho_embed_retain(g_recorder, setting.number);
}

void update_choice(MYSQL_THD thd, SYS_VAR*, void* variable, const void* save) noexcept {
    if (!may_change(thd)) {
        return;
    }
    const Setting& setting = kSettings[index_of(variable)];
    auto* current = static_cast<unsigned long*>(variable);
    const auto wanted = *static_cast<const unsigned long*>(save);
    note(thd, setting, setting.choices[*current], setting.choices[wanted]);
    *current = wanted;
    set(setting, wanted);
}

bool add(size_t index, int flags, mysql_sys_var_update_func update, void* check_arg) noexcept {
    const Setting& setting = kSettings[index];
    return register_variable(setting.name, flags, setting.comment, check_of(index), update,
                             check_arg, &g_values[index]);
}

bool add_number(size_t index) noexcept {
    const Setting& setting = kSettings[index];
    // Only where the arena's size is given, and that cannot change.
    const bool fixed = setting.number < 0;
    INTEGRAL_CHECK_ARG(ulonglong) arg;
    arg.def_val = setting.default_value;
    arg.min_val = setting.min;
    arg.max_val = setting.max;
    arg.blk_sz = fixed ? 4096 : 1;
    const int flags = PLUGIN_VAR_LONGLONG | PLUGIN_VAR_UNSIGNED | PLUGIN_VAR_RQCMDARG;
    return add(index, fixed ? flags | PLUGIN_VAR_READONLY : flags, fixed ? nullptr : update_number,
               &arg);
}

bool add_choice(size_t index) noexcept {
    const Setting& setting = kSettings[index];
    size_t count = 0;
    while (setting.choices[count] != nullptr) {
        ++count;
    }
    // The server does not write to the names, though it does not say so.
    g_choices[index] =
        TYPE_LIB{count, setting.name, const_cast<const char**>(setting.choices), nullptr};
    ENUM_CHECK_ARG(choice) arg;
    arg.def_val = setting.default_value;
    arg.typelib = &g_choices[index];
    return add(index, PLUGIN_VAR_ENUM | PLUGIN_VAR_RQCMDARG, update_choice, &arg);
}

bool add_flag(size_t index) noexcept {
    const Setting& setting = kSettings[index];
    BOOL_CHECK_ARG(flag) arg;
    arg.def_val = setting.default_value != 0;
    return add(index, PLUGIN_VAR_BOOL | PLUGIN_VAR_OPCMDARG,
               setting.kind == SettingKind::kCommand ? update_command : update_flag, &arg);
}

bool add_fixed(size_t index) noexcept {
    BOOL_CHECK_ARG(flag) arg;
    arg.def_val = kSettings[index].default_value != 0;
    return add(index, PLUGIN_VAR_BOOL | PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY, nullptr, &arg);
}

// What is persisted, or given with INSTALL COMPONENT, the server reads into memory that it gives
// back when the variable is registered, or the statement ends (9.7.4): MEMALLOC makes it copy the
// text. It frees its copy when the variable goes, so no other text may be in its place by then.
bool add_text(size_t index) noexcept {
    STR_CHECK_ARG(text) arg;
    // Only read.
    arg.def_val = const_cast<char*>(kSettings[index].default_text);
    return add(index,
               PLUGIN_VAR_STR | PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY | PLUGIN_VAR_MEMALLOC,
               nullptr, &arg);
}

bool register_one(size_t index) noexcept {
    switch (kSettings[index].kind) {
    case SettingKind::kNumber:
        return add_number(index);
    case SettingKind::kChoice:
        return add_choice(index);
    case SettingKind::kText:
        return add_text(index);
    case SettingKind::kFixed:
        return add_fixed(index);
    case SettingKind::kSwitch:
    case SettingKind::kCommand:
        return add_flag(index);
    }
    return false;
}

} // namespace

bool register_variables() noexcept {
    for (size_t index = 0; index < kSettingCount; ++index) {
        g_registered[index] = register_one(index);
        if (!g_registered[index]) {
            log(kError, "the variable " TACHO_VARIABLE("%s") " cannot be registered",
                kSettings[index].name);
            return false;
        }
    }
    return true;
}

bool unregister_variables() noexcept {
    give_back_texts();
    for (size_t index = 0; index < kSettingCount; ++index) {
        if (!g_registered[index]) {
            continue;
        }
        if (!unregister_variable(kSettings[index].name)) {
            log(kError, "the variable " TACHO_VARIABLE("%s") " cannot be taken away",
                kSettings[index].name);
            return false;
        }
        g_registered[index] = false;
    }
    return true;
}

const char* variable_text(int32_t number) noexcept {
    const char* text = g_values[setting_index(number)].text;
    return text != nullptr ? text : "";
}

uint64_t variable_number(int32_t number) noexcept {
    const size_t index = setting_index(number);
    switch (kSettings[index].kind) {
    case SettingKind::kNumber:
        return g_values[index].number;
    case SettingKind::kChoice:
        return g_values[index].choice;
    default:
        return g_values[index].flag ? 1 : 0;
    }
}

void show_text(int32_t number, const char* path) noexcept {
    const size_t index = setting_index(number);
    snprintf(g_paths[index], sizeof(g_paths[index]), "%s", path);
    char** shown = &g_values[index].text;
    if (*shown != g_paths[index]) {
        g_given[index] = *shown;
        *shown = g_paths[index];
    }
}

void give_back_texts() noexcept {
    for (size_t index = 0; index < kSettingCount; ++index) {
        if (kSettings[index].kind == SettingKind::kText && g_values[index].text == g_paths[index]) {
            g_values[index].text = g_given[index];
        }
    }
}

void apply_variables(const tacho_embed* recorder) noexcept {
    for (const Setting& setting : kSettings) {
        if (setting.number >= 0) {
            tacho_embed_set(recorder, setting.number, variable_number(setting.number));
        }
    }
}

} // namespace tacho
