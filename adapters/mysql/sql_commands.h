// Zone: hot (sql_command_number), cold (the rest)
// SPDX-License-Identifier: GPL-2.0-only
//
// Numbers for the names of SQL commands in the server's events.
#ifndef TACHO_MYSQL_SQL_COMMANDS_H
#define TACHO_MYSQL_SQL_COMMANDS_H

#include "tacho_embed.h"

#include <cstdint>

namespace tacho {

constexpr int32_t kSqlSetOption = 31;
// Commands that may change a session's database: a procedure may drop it.
constexpr int32_t kSqlChangeDb = 35;
constexpr int32_t kSqlDropDb = 37;
constexpr int32_t kSqlCall = 91;
// The command with another text inside that is parsed, too.
constexpr int32_t kSqlPrepare = 99;

// Creates the table, and passes the names to the recorder. Before the first event.
void sql_commands_load(const tacho_embed* recorder) noexcept;

// The name of a number; null: there is none.
const char* sql_command_name(size_t number) noexcept;

// Number of a name in an event; -1: empty or unknown.
int32_t sql_command_number(const char* name) noexcept;

} // namespace tacho

#endif
