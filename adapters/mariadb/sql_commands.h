// Zone: hot (the two getters), cold (sql_commands_load)
// SPDX-License-Identifier: GPL-2.0-only
//
// The server's own names of its SQL commands: "select", "create_table", as in SHOW STATUS LIKE
// 'Com\_%'. Their numbers differ between releases, so they are read from the running server.
#ifndef TACHO_MARIADB_SQL_COMMANDS_H
#define TACHO_MARIADB_SQL_COMMANDS_H

#include <cstddef>

namespace tacho {

// sql_command_count() is never above it. MariaDB 10.11 has 161.
constexpr size_t kSqlCommandsMax = 1024;

// Reads the names from the server. Call it in the plugin's init function.
// On failure: returns false, `why` has the reason (terminated, truncated to why_bytes), and every
// name is "".
bool sql_commands_load(char* why, size_t why_bytes) noexcept;

// Number of SQL commands: thd_sql_command() is below it for every SQL statement, and equal to it
// for anything else (a parse error, COM_PING, COM_QUIT ...). 0 before a successful load.
int sql_command_count() noexcept;

// The name for a result of thd_sql_command(). "" if the server has none. Terminated, ASCII, lower
// case, valid while the process lives.
const char* sql_command_name(int sqlcom) noexcept;

} // namespace tacho

#endif
