// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// Blocking rules of the filter (docs/specs/filter.md): whether the next statement of this thread is
// not executed. Without blocking rules this costs one load; with rules that do not apply to the
// statements of this session, a few comparisons.
//
// Only a blocked statement takes a slow path: its privileges are looked up, which may take the
// server's lock of them, and the server creates an error, which allocates.
#ifndef TACHO_MYSQL_RULES_H
#define TACHO_MYSQL_RULES_H

#include "session.h"

namespace tacho {

// Looks up symbols of the server. Before the first event.
void load_rules() noexcept;

// Stores the connected user for the statements inside the one that begins. The strings stay valid
// until the session's user changes.
void remember_caller(const Identity& who) noexcept;

// The error number, if a rule blocks the statement; 0: it runs. The record then has the rule, the
// error was raised in the server, and the event's callback must not return 0. `is_inner`: another
// statement executes it.
uint32_t block_statement(const tacho_probe* probe, uint64_t conn, int32_t sql_command,
                         bool is_inner) noexcept;

// The same for a table that the statement is about to access.
uint32_t block_table(const tacho_probe* probe, uint64_t conn, tacho_bytes db,
                     tacho_bytes table) noexcept;

} // namespace tacho

#endif
