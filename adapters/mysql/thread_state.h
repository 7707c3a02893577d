// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// What a server thread keeps between the events of the command that it executes.
#ifndef TACHO_MYSQL_THREAD_STATE_H
#define TACHO_MYSQL_THREAD_STATE_H

#include "adapter.h"
#include "visits.h"

#include <cstddef>
#include <cstdint>

namespace tacho {

// Longest name of a database, bytes (NAME_LEN of the server).
constexpr size_t kDatabaseBytesMax = 192;
// Statements in each other that are told apart: SQL EXECUTE, and what it executes.
constexpr uint32_t kDepthMax = 32;
// Stored programs in each other whose statements are recorded.
constexpr uint32_t kTraceLevels = 128;
// Of these, those whose statements have their rows: what a thread keeps has to be small.
constexpr uint32_t kRowLevels = 8;
// In ThreadState.nested: no START in the arena; a command without a number.
constexpr uint8_t kNotRecorded = 255;
constexpr uint8_t kNoNumber = 254;

// An SQL command as it stands in ThreadState.nested, and back. The servers have fewer than 200.
constexpr uint8_t traced_command(int32_t number) noexcept {
    return number < 0 || number >= kNoNumber ? kNoNumber : static_cast<uint8_t>(number);
}
constexpr int32_t command_of_traced(uint8_t traced) noexcept {
    return traced == kNoNumber ? -1 : traced;
}

// Rows that a session has counted so far.
struct RowCounts {
    uint64_t sent;
    uint64_t examined;
};

// Who is connected; terminated, null: not known. What a stored program runs has the names of its
// definer.
struct Caller {
    const char* user;
    const char* host;
    const char* ip;
};

struct ThreadState {
    tacho_thread probe;
    // What rules block in the session that this thread has seen last.
    tacho_blocking blocking;
    Caller caller;
    // The event scheduler runs on this thread, as this connection; 0 = it does not.
    uint64_t event_conn;
    // SQL command of the statement that began last: tables that are opened are its own.
    int32_t runs;
    // `caller` is that of the outermost statement that runs.
    bool has_caller;
    // Another one executes the statement that began last.
    bool is_inner;
    // Which life of the recorder the rest is about.
    uint32_t life;
    // The session whose command, or statement, runs on this thread; 0 = none.
    uint64_t conn;
    // Its command; null: what runs is not a client's command.
    const char* command;
    size_t command_bytes;
    // How many statements have started and not told their STATUS_END.
    uint32_t depth;
    // Bit n: the statement at depth n has a START in the arena, and no END.
    uint32_t recorded;
    // The outermost statement of the command is kept out by the filter.
    bool skipped;
    // It was announced by its PREPARSE, and does not run yet.
    bool announced;
    // The command is COM_STMT_EXECUTE, which tries anew what has to be prepared anew.
    bool executes;
    // It has begun to run.
    bool begun;
    // The command has installed the component: it had no COMMAND START.
    bool installs;
    // Its COMMAND END came, and its trace, which has all that the server knows, is still to end.
    bool end_waits;
    uint32_t error_code;
    int32_t sql_command;
    // Where its text begins, not to be read; how long that was, and how much of it is its own.
    const char* text;
    size_t text_bytes;
    uint32_t shown_bytes;
    // Its character set, a name that stays where it is; empty: nobody has asked.
    tacho_bytes charset;
    // When it began, CLOCK_MONOTONIC.
    int64_t started_us;
    // What the server has counted for it, if another one follows in its packet.
    uint32_t figures_present;
    uint64_t figures[TACHO_FIGURE_COUNT];
    // How many statements are open that the server traces (traces.cc): 1 = the outermost alone.
    uint32_t traced;
    // The outermost of them is not traced any more, though it counts: what it executes is.
    bool is_declined;
    // The outermost of them has had others inside.
    bool has_nested;
    // The outermost statement begins with SELECT.
    bool selects;
    // SQL command of the statement of a stored program that has a START in the arena, by the number
    // of statements around it; kNotRecorded where there is none. Valid up to `traced`.
    uint8_t nested[kTraceLevels];
    // What was counted when it began, from the outermost stored program on. Valid as `nested` is.
    RowCounts rows_before[kRowLevels];
    // Current database of the session `db_conn`.
    uint64_t db_conn;
    uint32_t db_changes;
    uint32_t db_bytes;
    char db[kDatabaseBytesMax];
};

// Initial-exec: a dynamic TLS block would be allocated on first use, in the middle of an event.
// `__thread`: of a `thread_local` that is defined elsewhere C++ asks by a call whether it has a
// constructor.
extern __thread ThreadState t_state __attribute__((tls_model("initial-exec")));

// Whether the end of the outermost statement is that of its trace.
inline bool is_outermost_traced() noexcept {
    return t_state.traced != 0 && !t_state.is_declined;
}

// No trace is open on this thread.
inline void forget_traces() noexcept {
    t_state.traced = 0;
    t_state.is_declined = false;
}

// The rest of a packet, or a command, is of another session than what this thread has seen last.
void begin_session(uint64_t conn) noexcept;

// What this thread knows of a recorder that was stopped meanwhile counts no longer.
void enter(const Visit& visit) noexcept;

} // namespace tacho

#endif
