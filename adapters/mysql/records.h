// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// Records of statements: their start, their end, and of a command that had no start. Which event
// makes which of them: events.cc, traces.cc.
#ifndef TACHO_MYSQL_RECORDS_H
#define TACHO_MYSQL_RECORDS_H

#include "session.h"

#include <mysql/components/services/mysql_server_telemetry_traces_service.h>

namespace tacho {

// The name of the command that runs on this thread.
tacho_bytes command_name() noexcept;

// Who executes it.
void set_identity(const Identity& who, tacho_event* out) noexcept;

void emit(const tacho_probe* probe, MYSQL_THD thd, tacho_session* session,
          const tacho_event& event) noexcept;

// Whether a statement that starts is to be recorded: TACHO_WANTED_*.
uint32_t wanted(const tacho_probe* probe, MYSQL_THD thd, uint64_t conn) noexcept;

// What the server counts for the statement that runs, by its getters. `rows`: it has some; other
// commands show those of the one before.
void set_figures(MYSQL_THD thd, bool rows, tacho_event* out) noexcept;

// A statement begins that has others around it: `present` says what it is to them.
void start(const tacho_probe* probe, MYSQL_THD thd, uint64_t conn, uint32_t present,
           tacho_bytes text, tacho_bytes charset) noexcept;

// A statement of a stored program begins: notes what has been counted before it. `level`: the
// number of its trace among those that are open.
void note_rows(MYSQL_THD thd, uint32_t level) noexcept;

// The end of the outermost statement. `traced`: what its trace says, or null. Without, `last` says
// that no other has begun, which sets what the server has counted to zero.
void end_outermost(const tacho_probe* probe, MYSQL_THD thd, uint32_t error_code, bool last,
                   const telemetry_stmt_data_t* traced) noexcept;

// The end of the innermost statement that is open. `level`: that of its trace, if it has one.
void end_innermost(const tacho_probe* probe, uint64_t conn, int32_t sql_command,
                   uint32_t error_code, const telemetry_stmt_data_t* traced,
                   uint32_t level = 0) noexcept;

// The command of this thread has ended, and nothing of it has started. `text`: what is known of it.
void point(const tacho_probe* probe, MYSQL_THD thd, tacho_bytes text,
           const telemetry_stmt_data_t* traced) noexcept;

} // namespace tacho

#endif
