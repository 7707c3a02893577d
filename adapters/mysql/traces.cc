// Zone: hot (the callbacks), cold (the rest)
// SPDX-License-Identifier: GPL-2.0-only
//
// The server's telemetry traces (tacho.traces=ON): at the end of a statement they have its rows,
// its lock time, its error and the error message, and they are the only sign that a statement of a
// stored program has ended. Only one component can subscribe to traces.
//
// A trace begins when a packet was read, before its COMMAND START, and ends right after its COMMAND
// END, on the same thread; the trace of a stored program's statement begins and ends inside. So
// only the number of open traces on this thread must be known, and only that is kept.
#include "traces.h"

#include "../common/message.h"
#include "database.h"
#include "events.h"
#include "records.h"
#include "thread_state.h"

#include <atomic>

namespace tacho {

namespace {

// Traces of SELECT are declined. Relaxed: with either value, a statement gets its line.
std::atomic<bool> g_only_changes{false};

// Sessions are not distinguished here: the server's other events identify them.
char g_any;

// The connection is unknown here. Stacks of threads do not share a megabyte, so nearly each has a
// counter of its own.
uint64_t place_of_thread() noexcept {
    return reinterpret_cast<uintptr_t>(&t_state) >> 12;
}

telemetry_session_t* session_create() noexcept {
    return reinterpret_cast<telemetry_session_t*>(&g_any);
}

void session_destroy(telemetry_session_t*) noexcept {}

telemetry_locker_t* statement_start(telemetry_session_t*, uint64_t* flags) noexcept {
    const Visit visit(place_of_thread());
    if (visit.probe() == nullptr) {
        *flags = TRACE_NOTHING;
        return nullptr;
    }
    enter(visit);
    // Nothing runs inside a statement that has been executed: this one follows it in its packet.
    if (t_state.is_declined && t_state.depth == 0) {
        forget_traces();
    }
    const uint32_t level = ++t_state.traced;
    t_state.has_nested = level > 1;
    if (level < kTraceLevels) {
        t_state.nested[level] = kNotRecorded;
    }
    // Independent of the configuration of the Performance Schema.
    *flags = TRACE_STATEMENTS;
    return reinterpret_cast<telemetry_locker_t*>(&g_any);
}

// The statement has been parsed. One that is not recorded needs no figures, and neither does a
// SELECT with CHANGES: its trace is declined, and the statements inside it are processed without a
// trace around them. The server then skips the text of a digest.
telemetry_locker_t* statement_notify_qa(telemetry_locker_t* locker, bool,
                                        uint64_t* flags) noexcept {
    if (t_state.traced != 1 || !t_state.announced) {
        return locker;
    }
    if ((t_state.recorded & 1) == 0) {
        t_state.traced = 0;
    } else if (t_state.selects && g_only_changes.load(std::memory_order_relaxed)) {
        // COMMAND END is its end. The statements inside it are recorded, one level deeper.
        t_state.is_declined = true;
    } else {
        return locker;
    }
    *flags = TRACE_NOTHING;
    return nullptr;
}

// Removes the innermost trace; 0: this thread has none.
uint32_t leave() noexcept {
    return t_state.traced == 0 ? 0 : t_state.traced--;
}

void outermost_ended(const tacho_probe* probe, const telemetry_stmt_data_t* data) noexcept {
    if (t_state.end_waits) {
        end_command(probe, data);
    } else if ((t_state.recorded & 1) != 0) {
        // Another one follows in its packet; or it belongs to a replica.
        end_outermost(probe, current_session(), static_cast<uint32_t>(data->m_sql_errno), true,
                      data);
        t_state.begun = false;
    }
}

void ended(const tacho_probe* probe, const telemetry_stmt_data_t* data) noexcept {
    const uint32_t level = leave();
    if (level == 1) {
        outermost_ended(probe, data);
    } else if (level != 0 && level < kTraceLevels && t_state.nested[level] != kNotRecorded) {
        end_innermost(probe, t_state.conn, command_of_traced(t_state.nested[level]),
                      static_cast<uint32_t>(data->m_sql_errno), data, level);
        // The surrounding context is another program, or none.
        forget_database(t_state.conn);
    }
}

void statement_abort(telemetry_locker_t*) noexcept {
    const Visit visit(place_of_thread());
    if (visit.probe() != nullptr) {
        enter(visit);
        // A command that waits for it gets its end without it; a running one when it has ended.
        if (leave() == 1 && t_state.end_waits) {
            end_command(visit.probe(), nullptr);
        }
    }
}

void statement_end(telemetry_locker_t*, telemetry_stmt_data_t* data) noexcept {
    const Visit visit(place_of_thread());
    if (visit.probe() != nullptr) {
        enter(visit);
        ended(visit.probe(), data);
    }
}

// The server keeps the address of this structure while it runs.
telemetry_t g_callbacks = {session_create,      session_destroy, statement_start,
                           statement_notify_qa, statement_abort, statement_end};

} // namespace

void apply_traces(uint64_t wanted) noexcept {
    const bool on = wanted != TACHO_TRACES_OFF;
    g_only_changes.store(wanted == TACHO_TRACES_CHANGES, std::memory_order_relaxed);
    static const char kNone[] =
        "this server has no telemetry traces: " TACHO_VARIABLE("traces") " has no effect";
    const auto* traces = mysql_service_mysql_server_telemetry_traces_v1;
    if (traces == nullptr) {
        if (on) {
            log(kWarning, "%s", kNone);
        }
    } else if (!on) {
        // False: another component has subscribed since, which is harmless.
        (void)traces->unregister_telemetry(&g_callbacks);
    } else if (traces->register_telemetry(&g_callbacks)) {
        log(kWarning, "%s", kNone);
    }
}

} // namespace tacho
