// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// Rules of the filter that block (docs/specs/filter.md): whether what this thread is about to run
// is not executed. Where no rule blocks, that costs a look at one word; where some rules do, but
// none of these statements of this session, a few comparisons.
//
// Only a statement that a rule blocks takes a slow path: its privileges are asked for, which may
// take the server's lock of them, and the server makes an error, which allocates.
#ifndef TACHO_MYSQL_RULES_H
#define TACHO_MYSQL_RULES_H

#include "session.h"

namespace tacho {

// Looks up what the server exports. Before the first event.
void load_rules() noexcept;

// Who is connected, for the statements that what it begins will run. The strings stay where they
// are until the session's user changes.
void remember_caller(const Identity& who) noexcept;

// The error number, if a rule blocks the statement; 0: it runs. The record says by which rule, the
// server has been told, and the event's callback must not return 0.
// `is_inner`: another one executes it.
uint32_t block_statement(const tacho_probe* probe, uint64_t conn, int32_t sql_command,
                         bool is_inner) noexcept;

// The same for a table that the statement is about to touch.
uint32_t block_table(const tacho_probe* probe, uint64_t conn, tacho_bytes db,
                     tacho_bytes table) noexcept;

} // namespace tacho

#endif
