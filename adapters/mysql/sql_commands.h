// Zone: hot (sql_command_number), cold (the rest)
// SPDX-License-Identifier: GPL-2.0-only
//
// Numbers for the names that the server's events have for SQL commands.
#ifndef TACHO_MYSQL_SQL_COMMANDS_H
#define TACHO_MYSQL_SQL_COMMANDS_H

#include "tacho_embed.h"

#include <cstdint>

namespace tacho {

constexpr int32_t kSqlSetOption = 31;
// Those after which a session may have another database: a procedure may drop it.
constexpr int32_t kSqlChangeDb = 35;
constexpr int32_t kSqlDropDb = 37;
constexpr int32_t kSqlCall = 91;
// Whose text inside of it is parsed, too.
constexpr int32_t kSqlPrepare = 99;

// Makes the table, and tells the recorder the names. Before the first event.
void sql_commands_load(const tacho_embed* recorder) noexcept;

// The name of a number; null: there is none.
const char* sql_command_name(size_t number) noexcept;

// Number of a name as an event has it; -1: it is empty, or not known.
int32_t sql_command_number(const char* name) noexcept;

} // namespace tacho

#endif
