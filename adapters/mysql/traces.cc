// Zone: hot (the callbacks), cold (the rest)
// SPDX-License-Identifier: GPL-2.0-only
//
// The server's telemetry traces (tacho.traces=ON): when a statement has ended they have its rows,
// its lock time, its error and the message of that, and they are the only sign that a statement of
// a stored program has ended. There can be one taker in a server.
//
// A trace begins when a packet was read, before its COMMAND START, and ends right after its COMMAND
// END, on the same thread; one of a stored program's statement begins and ends inside. So what is
// known of one is how many are open on this thread, and that is all that is kept.
#include "traces.h"

#include "../common/message.h"
#include "database.h"
#include "events.h"
#include "records.h"
#include "thread_state.h"

#include <atomic>

namespace tacho {

namespace {

// Traces of SELECT are declined. Relaxed: whichever value a statement sees, it gets its line.
std::atomic<bool> g_only_changes{false};

// No session is told from another: what belongs to one the server's other events know.
char g_any;

// The connection is not known here. Stacks of threads do not lie in one megabyte: a counter of its
// own for nearly each.
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
    // Nothing runs inside of one that has been executed: this one follows it in its packet.
    if (t_state.is_declined && t_state.depth == 0) {
        forget_traces();
    }
    const uint32_t level = ++t_state.traced;
    t_state.has_nested = level > 1;
    if (level < kTraceLevels) {
        t_state.nested[level] = kNotRecorded;
    }
    // Whatever the Performance Schema is set up to look at.
    *flags = TRACE_STATEMENTS;
    return reinterpret_cast<telemetry_locker_t*>(&g_any);
}

// The statement has been parsed. What is not recorded needs no figures, and is seen without a trace
// around what it executes; nor does a SELECT, with CHANGES. The server spares itself the text of a
// digest then.
telemetry_locker_t* statement_notify_qa(telemetry_locker_t* locker, bool,
                                        uint64_t* flags) noexcept {
    if (t_state.traced != 1 || !t_state.announced) {
        return locker;
    }
    if ((t_state.recorded & 1) == 0) {
        t_state.traced = 0;
    } else if (t_state.selects && g_only_changes.load(std::memory_order_relaxed)) {
        // COMMAND END is its end. What it executes is recorded, and is one level further in.
        t_state.is_declined = true;
    } else {
        return locker;
    }
    *flags = TRACE_NOTHING;
    return nullptr;
}

// Takes the innermost trace off; 0: this thread has none.
uint32_t leave() noexcept {
    return t_state.traced == 0 ? 0 : t_state.traced--;
}

void outermost_ended(const tacho_probe* probe, const telemetry_stmt_data_t* data) noexcept {
    if (t_state.end_waits) {
        end_command(probe, data);
    } else if ((t_state.recorded & 1) != 0) {
        // Another one follows in its packet; or it is a replica's.
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
        // Around it is another program, or none.
        forget_database(t_state.conn);
    }
}

void statement_abort(telemetry_locker_t*) noexcept {
    const Visit visit(place_of_thread());
    if (visit.probe() != nullptr) {
        enter(visit);
        // What waits for it has its end without it; what runs, when it has ended.
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

// The server keeps the address of this one for as long as it runs.
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
        // False: somebody else has taken them since, which is no trouble.
        (void)traces->unregister_telemetry(&g_callbacks);
    } else if (traces->register_telemetry(&g_callbacks)) {
        log(kWarning, "%s", kNone);
    }
}

} // namespace tacho
