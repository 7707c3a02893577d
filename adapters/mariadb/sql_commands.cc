// Zone: hot (the two getters), cold (sql_commands_load)
// SPDX-License-Identifier: GPL-2.0-only
//
// The names are those of the server's own SHOW STATUS LIKE 'Com\_%' array. Each element has a name
// and the position of a counter within the status variables; the counters of SQL commands are one
// array indexed by the number, and other counters (Com_stmt_close ...) follow it. Its length is
// that of another array of the server with one element for each number. (That array also has names,
// but they are null unless the Performance Schema is ON.)
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

const char* g_names[kSqlCommandsMax];
int g_count;

// The size of a data symbol of the server, or 0 if it does not exist.
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

} // namespace

bool sql_commands_load(char* why, size_t why_bytes) noexcept {
    g_count = 0;
    const void* address = nullptr;
    const size_t info_bytes = find_symbol(symbols::kSqlStatementInfo, &address);
    // Its last element is for SQLCOM_END, which is not a command.
    const size_t count = info_bytes / sizeof(PSI_statement_info_v1) - 1;
    if (info_bytes < 2 * sizeof(PSI_statement_info_v1) || count > kSqlCommandsMax ||
        info_bytes % sizeof(PSI_statement_info_v1) != 0) {
        snprintf(why, why_bytes, "sql_command: the server does not show how many there are");
        return false;
    }
    const size_t variables_bytes = find_symbol(symbols::kComStatusVars, &address);
    const auto* variables = static_cast<const st_mysql_show_var*>(address);
    const size_t variable_count = variables_bytes / sizeof(st_mysql_show_var);
    const st_mysql_show_var* select = nullptr;
    for (size_t i = 0; i < variable_count && variables[i].name != nullptr; i++) {
        if (strcmp(variables[i].name, "select") == 0) {
            select = &variables[i];
        }
    }
    if (select == nullptr) {
        snprintf(why, why_bytes, "sql_command: the server exports no array of names");
        return false;
    }
    for (size_t i = 0; i < kSqlCommandsMax; i++) {
        g_names[i] = "";
    }
    // SQLCOM_SELECT is 0, the first of enum_sql_command, in every release. Smaller positions wrap
    // to numbers that are out of range.
    const uintptr_t first = reinterpret_cast<uintptr_t>(select->value);
    for (size_t i = 0; i < variable_count && variables[i].name != nullptr; i++) {
        const uintptr_t distance = reinterpret_cast<uintptr_t>(variables[i].value) - first;
        const uintptr_t number = distance / sizeof(unsigned long);
        if (variables[i].type != select->type || distance % sizeof(unsigned long) != 0 ||
            number >= count) {
            continue;
        }
        if (g_names[number][0] != '\0') {
            snprintf(why, why_bytes, "sql_command: the server has two names for %zu",
                     static_cast<size_t>(number));
            return false;
        }
        g_names[number] = variables[i].name;
    }
    g_count = static_cast<int>(count);
    return true;
}

int sql_command_count() noexcept {
    return g_count;
}

const char* sql_command_name(int sqlcom) noexcept {
    if (sqlcom < 0 || sqlcom >= g_count) {
        return "";
    }
    return g_names[sqlcom];
}

} // namespace tacho
