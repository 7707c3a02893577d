// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The plugin's variables. 8.0 requires a list of structures instead of calls, and reads it as soon
// as the library is loaded: so they are "registered" by the library's initialisation, from the same
// tables as those of the component.
#include "variables.h"

#include "../common/settings.h"
#include "../mysql/adapter.h"
#include "../mysql/text_variables.h"

#include <cstddef>

#include <typelib.h>

namespace tacho {

namespace {

constexpr size_t kVariablesMax = TACHO_SETTING_COUNT;

// As DECLARE_MYSQL_SYSVAR_* define them, but filled at run time.
struct Flag {
    MYSQL_PLUGIN_VAR_HEADER;
    bool* value;
    bool def_val;
};
struct Text {
    MYSQL_PLUGIN_VAR_HEADER;
    char** value;
    char* def_val;
};
struct Number {
    MYSQL_PLUGIN_VAR_HEADER;
    unsigned long long* value;
    unsigned long long def_val;
    unsigned long long min_val;
    unsigned long long max_val;
    unsigned long long blk_sz;
};
struct Choice {
    MYSQL_PLUGIN_VAR_HEADER;
    unsigned long* value;
    unsigned long def_val;
    TYPE_LIB* typelib;
};

extern DECLARE_MYSQL_SYSVAR_BASIC(flag, bool);
extern DECLARE_MYSQL_SYSVAR_BASIC(text, char*);
extern DECLARE_MYSQL_SYSVAR_SIMPLE(number, unsigned long long);
extern DECLARE_MYSQL_SYSVAR_TYPELIB(choice, unsigned long);
static_assert(sizeof(Flag) == sizeof(MYSQL_SYSVAR_NAME(flag)) &&
                  sizeof(Text) == sizeof(MYSQL_SYSVAR_NAME(text)) &&
                  sizeof(Number) == sizeof(MYSQL_SYSVAR_NAME(number)) &&
                  sizeof(Choice) == sizeof(MYSQL_SYSVAR_NAME(choice)),
              "as the server declares them");

union Variable {
    Flag flag;
    Text text;
    Number number;
    Choice choice;
};

Variable g_variables[kVariablesMax];
size_t g_count;

bool fill(Variable* out, int flags, void* check_arg, void* value) noexcept {
    switch (flags & 0x007f) {
    case PLUGIN_VAR_BOOL: {
        using Arg = BOOL_CHECK_ARG(flag);
        out->flag.value = static_cast<bool*>(value);
        out->flag.def_val = static_cast<const Arg*>(check_arg)->def_val;
        return true;
    }
    case PLUGIN_VAR_STR: {
        using Arg = STR_CHECK_ARG(text);
        out->text.value = static_cast<char**>(value);
        out->text.def_val = static_cast<const Arg*>(check_arg)->def_val;
        return true;
    }
    case PLUGIN_VAR_LONGLONG: {
        using Arg = INTEGRAL_CHECK_ARG(ulonglong);
        const auto* arg = static_cast<const Arg*>(check_arg);
        out->number.value = static_cast<unsigned long long*>(value);
        out->number.def_val = arg->def_val;
        out->number.min_val = arg->min_val;
        out->number.max_val = arg->max_val;
        out->number.blk_sz = arg->blk_sz;
        return true;
    }
    case PLUGIN_VAR_ENUM: {
        using Arg = ENUM_CHECK_ARG(choice);
        const auto* arg = static_cast<const Arg*>(check_arg);
        out->choice.value = static_cast<unsigned long*>(value);
        out->choice.def_val = arg->def_val;
        out->choice.typelib = arg->typelib;
        return true;
    }
    default:
        return false;
    }
}

} // namespace

SYS_VAR* g_system_variables[kVariablesMax + 1];

bool register_variable(const char* name, int flags, const char* comment,
                       mysql_sys_var_check_func check, mysql_sys_var_update_func update,
                       void* check_arg, void* value) noexcept {
    if (g_count == kVariablesMax) {
        return false;
    }
    Variable* variable = &g_variables[g_count];
    if (!fill(variable, flags, check_arg, value)) {
        return false;
    }
    // All have the same beginning.
    variable->flag.flags = flags;
    variable->flag.name = name;
    variable->flag.comment = comment;
    variable->flag.check = check;
    variable->flag.update = update;
    g_system_variables[g_count] = reinterpret_cast<SYS_VAR*>(variable);
    ++g_count;
    return true;
}

// The server removes all of them itself.
bool unregister_variable(const char*) noexcept {
    return true;
}

namespace {

// When the library is loaded. It reads only constants, so the order of initialisation does not
// matter.
const bool g_complete = register_variables() && register_text_variables();

} // namespace

bool variables_are_complete() noexcept {
    return g_complete;
}

} // namespace tacho
