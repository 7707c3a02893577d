// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// State of a server thread between the events of the command that it executes.
#ifndef TACHO_MYSQL_THREAD_STATE_H
#define TACHO_MYSQL_THREAD_STATE_H

#include "adapter.h"
#include "visits.h"

#include <cstddef>
#include <cstdint>

namespace tacho {

// Longest name of a database, bytes (NAME_LEN of the server).
constexpr size_t kDatabaseBytesMax = 192;
// Most nested statements that are distinguished: SQL EXECUTE, and the statement that it executes.
constexpr uint32_t kDepthMax = 32;
// Most nested stored programs whose statements are recorded.
constexpr uint32_t kTraceLevels = 128;
// How many of these have the rows of their statements: the state of a thread must be small.
constexpr uint32_t kRowLevels = 8;
// In ThreadState.nested: no START in the arena; a command without a number.
constexpr uint8_t kNotRecorded = 255;
constexpr uint8_t kNoNumber = 254;

// An SQL command as stored in ThreadState.nested, and back. The servers have fewer than 200.
constexpr uint8_t traced_command(int32_t number) noexcept {
    return number < 0 || number >= kNoNumber ? kNoNumber : static_cast<uint8_t>(number);
}
constexpr int32_t command_of_traced(uint8_t traced) noexcept {
    return traced == kNoNumber ? -1 : traced;
}

// Row counts of a session so far.
struct RowCounts {
    uint64_t sent;
    uint64_t examined;
};

// The connected user; terminated, null: unknown. Statements inside a stored program have the names
// of its definer.
struct Caller {
    const char* user;
    const char* host;
    const char* ip;
};

struct ThreadState {
    tacho_thread probe;
    // Which rules block, for the session that this thread saw last.
    tacho_blocking blocking;
    Caller caller;
    // The event scheduler runs on this thread, with this connection; 0 = it does not.
    uint64_t event_conn;
    // SQL command of the statement that began last, to which opened tables belong.
    int32_t runs;
    // `caller` belongs to the outermost running statement.
    bool has_caller;
    // Another statement executes the one that began last.
    bool is_inner;
    // The run of the recorder to which the following members belong.
    uint32_t life;
    // The session whose command or statement runs on this thread; 0 = none.
    uint64_t conn;
    // Its command; null: not a command of a client.
    const char* command;
    size_t command_bytes;
    // Number of statements that have started and not reported their STATUS_END.
    uint32_t depth;
    // Bit n: the statement at depth n has a START in the arena, and no END.
    uint32_t recorded;
    // The filter discards the outermost statement of the command.
    bool skipped;
    // Its PREPARSE announced it, but it does not run yet.
    bool announced;
    // The command is COM_STMT_EXECUTE, which is repeated after a statement had to be prepared
    // again.
    bool executes;
    // It has begun to run.
    bool begun;
    // The command has installed the component: it had no COMMAND START.
    bool installs;
    // Its COMMAND END has arrived, but its trace, which has all figures, has not ended.
    bool end_waits;
    uint32_t error_code;
    int32_t sql_command;
    // Address of its text, not to be read; the length of the text, and of its own part.
    const char* text;
    size_t text_bytes;
    uint32_t shown_bytes;
    // Its character set, a name that stays valid; empty: not fetched yet.
    tacho_bytes charset;
    // When it began, CLOCK_MONOTONIC.
    int64_t started_us;
    // The server's counts for it, if another statement follows in its packet.
    uint32_t figures_present;
    uint64_t figures[TACHO_FIGURE_COUNT];
    // Number of open traces (traces.cc): 1 = only the outermost statement.
    uint32_t traced;
    // The outermost trace was declined, though it still counts, because the statements inside it
    // are traced.
    bool is_declined;
    // The outermost trace has had others inside.
    bool has_nested;
    // The outermost statement begins with SELECT.
    bool selects;
    // For each level of nesting: SQL command of the stored program's statement that has a START in
    // the arena; kNotRecorded if there is none. Valid up to `traced`.
    uint8_t nested[kTraceLevels];
    // The counts at its beginning, from the outermost stored program on. Valid like `nested`.
    RowCounts rows_before[kRowLevels];
    // Current database of the session `db_conn`.
    uint64_t db_conn;
    uint32_t db_changes;
    uint32_t db_bytes;
    char db[kDatabaseBytesMax];
};

// Initial-exec: a dynamic TLS block would be allocated on first use, in the middle of an event.
// `__thread`: for a `thread_local` that is defined elsewhere, C++ generates a call to test for a
// constructor.
extern __thread ThreadState t_state __attribute__((tls_model("initial-exec")));

// Whether the end of the outermost statement is the end of its trace.
inline bool is_outermost_traced() noexcept {
    return t_state.traced != 0 && !t_state.is_declined;
}

// This thread has no open trace.
inline void forget_traces() noexcept {
    t_state.traced = 0;
    t_state.is_declined = false;
}

// The rest of a packet, or a command, belongs to another session than the previous event of this
// thread.
void begin_session(uint64_t conn) noexcept;

// Drops the state of a recorder that was stopped meanwhile.
void enter(const Visit& visit) noexcept;

} // namespace tacho

#endif
