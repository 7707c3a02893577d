// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// System variables, from the table of settings. An update function runs with the server's lock on
// system variables held: it stores a value and wakes the writer, and never waits. It also checks
// the privilege, because the check function is not called for `SET GLOBAL … = DEFAULT`: the error
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

// The value of one variable; its kind decides which member is valid. By enum tacho_setting.
union Value {
    bool flag;
    unsigned long choice;
    unsigned long long number;
    char* text;
};

Value g_values[TACHO_SETTING_COUNT];
bool g_registered[TACHO_SETTING_COUNT];
TYPE_LIB g_choices[TACHO_SETTING_COUNT];
char g_paths[TACHO_SETTING_COUNT][PATH_MAX];
// Texts that the server has allocated, and will free, in whose place an absolute path is shown.
char* g_given[TACHO_SETTING_COUNT];

// The server identifies the variable by the address of its value.
int32_t number_of(const void* value) noexcept {
    return static_cast<int32_t>(static_cast<const Value*>(value) - g_values);
}

void record_change(MYSQL_THD thd, const Setting& setting, const char* before,
                   const char* after) noexcept {
    const tacho_who who = who_of(thd);
    tacho_embed_note_config(g_recorder, &who, setting.full_name, before, after);
}

void note(MYSQL_THD thd, const Setting& setting, const char* before, const char* after) noexcept {
    if (g_recorder != nullptr && strcmp(before, after) != 0) {
        record_change(thd, setting, before, after);
    }
}

void set(int32_t number, uint64_t value) noexcept {
    if (number == TACHO_SETTING_TRACES) {
        apply_traces(value);
    } else if (g_recorder != nullptr) {
        tacho_embed_set(g_recorder, number, value);
    }
}

void update_flag(MYSQL_THD thd, SYS_VAR*, void* variable, const void* save) noexcept {
    if (!may_change(thd)) {
        return;
    }
    const int32_t number = number_of(variable);
    const Setting& setting = kSettings[number];
    auto* current = static_cast<bool*>(variable);
    const bool wanted = *static_cast<const bool*>(save);
    note(thd, setting, *current ? "ON" : "OFF", wanted ? "ON" : "OFF");
    *current = wanted;
    set(number, wanted ? 1 : 0);
}

// Always reads OFF.
void update_command(MYSQL_THD, SYS_VAR*, void* variable, const void* save) noexcept {
    if (!*static_cast<const bool*>(save) || g_recorder == nullptr) {
        return;
    }
    if (number_of(variable) == TACHO_SETTING_ROTATE_NOW) {
        tacho_embed_rotate(g_recorder);
    } else {
        tacho_embed_flush(g_recorder);
    }
}

void update_number(MYSQL_THD thd, SYS_VAR*, void* variable, const void* save) noexcept {
    if (!may_change(thd)) {
        return;
    }
    const int32_t number = number_of(variable);
    const Setting& setting = kSettings[number];
    auto* current = static_cast<unsigned long long*>(variable);
    const auto before = *current;
    const auto wanted = *static_cast<const unsigned long long*>(save);
    const Digits old_value(before);
    const Digits new_value(wanted);
    note(thd, setting, old_value.text, new_value.text);
    *current = wanted;
    set(number, wanted);
    if (g_recorder == nullptr || !confirms_removal(number, before, wanted)) {
        return;
    }
    if (wanted == before) {
        // It changes no setting, but removes files: a line records the account.
        record_change(thd, setting, old_value.text, new_value.text);
    }
    tacho_embed_retain(g_recorder, number);
}

void update_choice(MYSQL_THD thd, SYS_VAR*, void* variable, const void* save) noexcept {
    if (!may_change(thd)) {
        return;
    }
    const int32_t number = number_of(variable);
    const Setting& setting = kSettings[number];
    auto* current = static_cast<unsigned long*>(variable);
    const auto wanted = *static_cast<const unsigned long*>(save);
    note(thd, setting, setting.choices[*current], setting.choices[wanted]);
    *current = wanted;
    set(number, wanted);
}

bool add(int32_t number, int flags, mysql_sys_var_update_func update, void* check_arg) noexcept {
    const Setting& setting = kSettings[number];
    const bool fixed = !setting.is_dynamic;
    return register_variable(setting.name, fixed ? flags | PLUGIN_VAR_READONLY : flags,
                             setting.comment, fixed ? nullptr : check_of(number),
                             fixed ? nullptr : update, check_arg, &g_values[number]);
}

bool add_number(int32_t number) noexcept {
    const Setting& setting = kSettings[number];
    INTEGRAL_CHECK_ARG(ulonglong) arg;
    arg.def_val = setting.default_value;
    arg.min_val = setting.min;
    arg.max_val = setting.max;
    arg.blk_sz = setting.step;
    return add(number, PLUGIN_VAR_LONGLONG | PLUGIN_VAR_UNSIGNED | PLUGIN_VAR_RQCMDARG,
               update_number, &arg);
}

bool add_choice(int32_t number) noexcept {
    const Setting& setting = kSettings[number];
    // The server does not write to the names, although it does not declare this.
    g_choices[number] = TYPE_LIB{choice_count(setting), setting.name,
                                 const_cast<const char**>(setting.choices), nullptr};
    ENUM_CHECK_ARG(choice) arg;
    arg.def_val = setting.default_value;
    arg.typelib = &g_choices[number];
    return add(number, PLUGIN_VAR_ENUM | PLUGIN_VAR_RQCMDARG, update_choice, &arg);
}

bool add_flag(int32_t number) noexcept {
    const Setting& setting = kSettings[number];
    BOOL_CHECK_ARG(flag) arg;
    arg.def_val = setting.default_value != 0;
    return add(number, PLUGIN_VAR_BOOL | PLUGIN_VAR_OPCMDARG,
               setting.kind == SettingKind::kCommand ? update_command : update_flag, &arg);
}

// The server reads a text that is persisted, or given with INSTALL COMPONENT, into memory that it
// frees when the variable is registered, or the statement ends (9.7.4): MEMALLOC makes it copy the
// text. It frees its copy when the variable is removed, so no other text may be in its place by
// then.
bool add_text(int32_t number) noexcept {
    STR_CHECK_ARG(text) arg;
    // Only read.
    arg.def_val = const_cast<char*>(kSettings[number].default_text);
    return add(number, PLUGIN_VAR_STR | PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC, nullptr, &arg);
}

// text_variables.cc has the texts that can change.
bool is_ours(const Setting& setting) noexcept {
    return setting.kind != SettingKind::kText || !setting.is_dynamic;
}

bool register_one(int32_t number) noexcept {
    switch (kSettings[number].kind) {
    case SettingKind::kNumber:
        return add_number(number);
    case SettingKind::kChoice:
        return add_choice(number);
    case SettingKind::kText:
        return add_text(number);
    case SettingKind::kSwitch:
    case SettingKind::kCommand:
        return add_flag(number);
    }
    return false;
}

} // namespace

bool register_variables() noexcept {
    for (int32_t number = 0; number < TACHO_SETTING_COUNT; ++number) {
        if (!is_ours(kSettings[number])) {
            continue;
        }
        g_registered[number] = register_one(number);
        if (!g_registered[number]) {
            log(kError, "the variable %s cannot be registered", kSettings[number].full_name);
            return false;
        }
    }
    return true;
}

bool unregister_variables() noexcept {
    give_back_texts();
    for (int32_t number = 0; number < TACHO_SETTING_COUNT; ++number) {
        if (!g_registered[number]) {
            continue;
        }
        if (!unregister_variable(kSettings[number].name)) {
            log(kError, "the variable %s cannot be taken away", kSettings[number].full_name);
            return false;
        }
        g_registered[number] = false;
    }
    return true;
}

const char* variable_text(int32_t number) noexcept {
    const char* text = g_values[number].text;
    return text != nullptr ? text : "";
}

uint64_t variable_number(int32_t number) noexcept {
    switch (kSettings[number].kind) {
    case SettingKind::kNumber:
        return g_values[number].number;
    case SettingKind::kChoice:
        return g_values[number].choice;
    default:
        return g_values[number].flag ? 1 : 0;
    }
}

void show_text(int32_t number, const char* path) noexcept {
    snprintf(g_paths[number], sizeof(g_paths[number]), "%s", path);
    char** shown = &g_values[number].text;
    if (*shown != g_paths[number]) {
        g_given[number] = *shown;
        *shown = g_paths[number];
    }
}

void give_back_texts() noexcept {
    for (int32_t number = 0; number < TACHO_SETTING_COUNT; ++number) {
        if (kSettings[number].kind == SettingKind::kText &&
            g_values[number].text == g_paths[number]) {
            g_values[number].text = g_given[number];
        }
    }
}

void apply_variables(const tacho_embed* recorder) noexcept {
    for_recorders_settings([recorder](int32_t number) noexcept {
        tacho_embed_set(recorder, number, variable_number(number));
    });
}

} // namespace tacho
