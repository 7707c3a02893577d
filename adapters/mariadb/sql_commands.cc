// Zone: hot (the two getters), cold (sql_commands_load)
// SPDX-License-Identifier: GPL-2.0-only
//
// The server builds sql_statement_info[] at start from the same array that SHOW STATUS uses, to
// name the statement events of the Performance Schema; it does so whether that is ON or OFF. Its
// element type is public (mysql/psi/psi.h); its length is the size of the symbol. Nothing here
// trusts that alone: each name must also be found in the SHOW STATUS array, where its place in
// the array of counters is its number.
#include "sql_commands.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include "../common/server_compat.h"

#include <mysql/psi/psi.h>

namespace tacho {
namespace {

constexpr int kCommandsMax = 1024;

const PSI_statement_info_v1* g_commands;
int g_count;

// The bytes of a data symbol of the server, or 0 if it has none of that name.
size_t find_symbol(const char* name, const void** address) noexcept {
    void* found = dlsym(RTLD_DEFAULT, name);
    Dl_info info;
    const ElfW(Sym)* symbol = nullptr;
    if (found == nullptr ||
        dladdr1(found, &info, const_cast<void**>(reinterpret_cast<const void**>(&symbol)),
                RTLD_DL_SYMENT) == 0) {
        return 0;
    }
    if (symbol == nullptr || info.dli_saddr != found) {
        return 0;
    }
    *address = found;
    return symbol->st_size;
}

// The place of a command's counter within the status variables, or UINTPTR_MAX.
uintptr_t find_counter(const st_mysql_show_var* variables, size_t count,
                       const char* name) noexcept {
    for (size_t i = 0; i < count && variables[i].name != nullptr; i++) {
        if (strcmp(variables[i].name, name) == 0) {
            return reinterpret_cast<uintptr_t>(variables[i].value);
        }
    }
    return UINTPTR_MAX;
}

} // namespace

bool sql_commands_load(char* why, size_t why_bytes) noexcept {
    g_count = 0;
    const void* address = nullptr;
    const size_t commands_bytes = find_symbol(symbols::kSqlStatementInfo, &address);
    const auto* commands = static_cast<const PSI_statement_info_v1*>(address);
    // The last element is SQLCOM_END, which is no command.
    const int count = static_cast<int>(commands_bytes / sizeof(PSI_statement_info_v1)) - 1;
    if (count < 1 || count > kCommandsMax || commands_bytes % sizeof(PSI_statement_info_v1) != 0) {
        snprintf(why, why_bytes, "sql_command: the server exports no array of names");
        return false;
    }
    const size_t variables_bytes = find_symbol(symbols::kComStatusVars, &address);
    const auto* variables = static_cast<const st_mysql_show_var*>(address);
    const size_t variables_count = variables_bytes / sizeof(st_mysql_show_var);
    const uintptr_t first =
        variables_count == 0 ? UINTPTR_MAX : find_counter(variables, variables_count, "select");
    // SQLCOM_SELECT is 0: it is the first of enum_sql_command in every release.
    if (first == UINTPTR_MAX || strcmp(commands[0].m_name, "select") != 0) {
        snprintf(why, why_bytes, "sql_command: the server's array does not begin with select");
        return false;
    }
    for (int i = 0; i < count; i++) {
        const char* name = commands[i].m_name;
        if (name == nullptr) {
            snprintf(why, why_bytes, "sql_command: the server has not named its commands yet");
            return false;
        }
        if (name[0] != '\0' && find_counter(variables, variables_count, name) !=
                                   first + static_cast<uintptr_t>(i) * sizeof(unsigned long)) {
            snprintf(why, why_bytes, "sql_command: the server's two arrays differ at %d (%s)", i,
                     name);
            return false;
        }
    }
    g_commands = commands;
    g_count = count;
    return true;
}

int sql_command_count() noexcept {
    return g_count;
}

const char* sql_command_name(int sqlcom) noexcept {
    if (sqlcom < 0 || sqlcom >= g_count) {
        return "";
    }
    return g_commands[sqlcom].m_name;
}

} // namespace tacho
