// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// Records of statements: start, end, and commands without a start. Which event leads to which
// record: events.cc, traces.cc.
#ifndef TACHO_MYSQL_RECORDS_H
#define TACHO_MYSQL_RECORDS_H

#include "session.h"

#include <mysql/components/services/mysql_server_telemetry_traces_service.h>

namespace tacho {

// The name of the command that runs on this thread.
tacho_bytes command_name() noexcept;

// Sets the identity of the session.
void set_identity(const Identity& who, tacho_event* out) noexcept;

void emit(const tacho_probe* probe, MYSQL_THD thd, tacho_session* session,
          const tacho_event& event) noexcept;

// Whether to record a statement that starts: TACHO_WANTED_*.
uint32_t wanted(const tacho_probe* probe, MYSQL_THD thd, uint64_t conn) noexcept;

// The server's counts for the running statement, by its getters. `rows`: it has some; other
// commands show those of the previous one.
void set_figures(MYSQL_THD thd, bool rows, tacho_event* out) noexcept;

// Records the start of a statement inside others: `present` describes their relation.
void start(const tacho_probe* probe, MYSQL_THD thd, uint64_t conn, uint32_t present,
           tacho_bytes text, tacho_bytes charset) noexcept;

// A statement of a stored program begins: notes the counts before it. `level`: the number of its
// trace among the open ones.
void note_rows(MYSQL_THD thd, uint32_t level) noexcept;

// Records the end of the outermost statement. `traced`: the data of its trace, or null. Without a
// trace, `last` means that no other statement has begun, which would reset the server's counts.
void end_outermost(const tacho_probe* probe, MYSQL_THD thd, uint32_t error_code, bool last,
                   const telemetry_stmt_data_t* traced) noexcept;

// Records the end of the innermost open statement. `level`: that of its trace, if it has one.
void end_innermost(const tacho_probe* probe, uint64_t conn, int32_t sql_command,
                   uint32_t error_code, const telemetry_stmt_data_t* traced,
                   uint32_t level = 0) noexcept;

// Records the end of this thread's command, without a start. `text`: the known text.
void point(const tacho_probe* probe, MYSQL_THD thd, tacho_bytes text,
           const telemetry_stmt_data_t* traced) noexcept;

} // namespace tacho

#endif
