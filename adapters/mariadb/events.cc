// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// Server events into the arena. Runs on the server's query threads: it may read the clock and
// the server's own fields, and call the probe; nothing else.
//
// What MariaDB sends (verified on 10.11.19), and the resulting records:
//   LOG     before execution, has the text              -> START
//   STATUS  after the reply                             -> END, or POINT without a LOG
//           (Ping, Quit, the second of several statements in a packet, INSTALL itself)
//   ERROR   before the error is sent, has its message   -> ERROR
//   RESULT  after the last result of a packet           -> END, for SQL EXECUTE only
// The text's address joins them: the query id changes inside stored programs.
//
// SQL EXECUTE is different. Its inner statement has a LOG (not in a stored program) and a STATUS.
// Its own end is a second STATUS with the inner text if something follows in the packet or the
// routine, a RESULT if nothing does, and nothing at all after an error. SQL PREPARE and EXECUTE
// IMMEDIATE announce the text that they have prepared by a LOG without a STATUS.
//
// The threads of a replica that apply statements raise LOG after each, and never STATUS: a POINT.
#include "../common/event.h"
#include "adapter.h"
#include "figures.h"
#include "figures_read.h"
#include "who.h"

#include <cstring>

#include <m_ctype.h>

// Exported by the server for its plugins, declared in no public header (sql_class.cc).
extern "C" {
// Only the lowest byte of its result is set.
bool thd_is_slave(MYSQL_THD thd);
}

namespace tacho {

const tacho_probe* g_probe = nullptr;
EventContext g_event_context = {-2, -2};

namespace {

// More functions with these names follow below.
using tacho::begin_event;
using tacho::bytes_of;

// Private state of a server thread. Initial-exec: a dynamic TLS block would be allocated on
// first use, in the middle of a callback.
struct ThreadState {
    tacho_thread probe;
    // End of the packet whose first statement was the last to start on this thread, and the address
    // of its beginning: the rest of the packet starts when that statement ends.
    const char* packet_begin;
    const char* packet_end;
    // Text of the running statement if the filter discards it, otherwise null: nothing is recorded
    // until its end.
    const char* skipped;
    // Connection of the last LOG without a later STATUS, otherwise 0: then a RESULT of that
    // connection is not the end of SQL EXECUTE, and no call of the server is needed.
    uint64_t begun_conn;
    // Time of the last start on this thread, us since 1970.
    int64_t started_us;
};
thread_local ThreadState t_state __attribute__((tls_model("initial-exec")));

// How much of the text after a statement in its packet is recorded ahead of time.
constexpr size_t kRemainderBytesMax = 4096;

tacho_bytes bytes_of(const MYSQL_CONST_LEX_STRING& text) noexcept {
    return bytes_of(text.str, text.length);
}

tacho_bytes name_of(const charset_info_st* charset) noexcept {
    if (charset == nullptr) {
        return {nullptr, 0};
    }
    const auto* info = reinterpret_cast<const CHARSET_INFO*>(charset);
    return bytes_of(info->cs_name.str, info->cs_name.length);
}

// The identity of the session. The getters return pointers into the session's security context; the
// audit API's own general_user is one string, whose parts cannot be separated with certainty.
[[gnu::always_inline]] inline void set_identity(MYSQL_THD thd, tacho_event* out) noexcept {
    size_t length = 0;
    const char* priv_user = thd_priv_user(thd, &length);
    out->strings[TACHO_STRING_USER] = bytes_of(thd_user_name(thd));
    out->strings[TACHO_STRING_PRIV_USER] = bytes_of(priv_user, length);
    out->strings[TACHO_STRING_PROXY_USER] = {nullptr, 0};
    out->strings[TACHO_STRING_OS_USER] = {nullptr, 0};
    out->strings[TACHO_STRING_HOST] = bytes_of(thd_client_host(thd));
    out->strings[TACHO_STRING_IP] = bytes_of(thd_client_ip(thd));
}

void set_identity(const mysql_event_connection* in, tacho_event* out) noexcept {
    out->strings[TACHO_STRING_USER] = bytes_of(in->user, in->user_length);
    out->strings[TACHO_STRING_PRIV_USER] = bytes_of(in->priv_user, in->priv_user_length);
    out->strings[TACHO_STRING_PROXY_USER] = bytes_of(in->proxy_user, in->proxy_user_length);
    out->strings[TACHO_STRING_OS_USER] = bytes_of(in->external_user, in->external_user_length);
    out->strings[TACHO_STRING_HOST] = bytes_of(in->host, in->host_length);
    out->strings[TACHO_STRING_IP] = bytes_of(in->ip, in->ip_length);
}

// Whether KILL requires the session's thread to stop. A shutdown kills all sessions, but their
// records are not given up at once: the recorder decides how long it waits.
bool is_killed(const void* thd) noexcept {
    if (thd == nullptr || (&abort_loop != nullptr && abort_loop != 0)) {
        return false;
    }
    return thd_kill_level(static_cast<MYSQL_THD>(const_cast<void*>(thd))) != THD_IS_NOT_KILLED;
}

void emit(MYSQL_THD thd, tacho_session* session, const tacho_event& event) noexcept {
    t_state.probe.killed = is_killed;
    t_state.probe.session = thd;
    tacho_probe_emit(g_probe, &t_state.probe, session, &event);
}

void begin_event(uint32_t kind, const mysql_event_general* in, int64_t now_us,
                 tacho_event* out) noexcept {
    begin_event(kind, in->general_thread_id, now_us, out);
    out->query_id = in->query_id;
    out->text_id = text_id(in->general_query);
}

tacho_bytes command_of(const mysql_event_general* in) noexcept {
    return bytes_of(in->general_command, in->general_command_length);
}

// Identity and text of a general event with this command.
[[gnu::always_inline]] inline void set_statement(MYSQL_THD thd, const mysql_event_general* in,
                                                 tacho_bytes command, tacho_event* out) noexcept {
    if (thd != nullptr) {
        set_identity(thd, out);
    } else {
        clear_strings(out);
    }
    out->strings[TACHO_STRING_DB] = bytes_of(in->database);
    out->strings[TACHO_STRING_COMMAND] = command;
    out->strings[TACHO_STRING_CHARSET] = name_of(in->general_charset);
    out->text = bytes_of(in->general_query, in->general_query_length);
    if (in->general_query_length != 0) {
        out->present |= TACHO_PRESENT_TEXT;
    }
}

// The applier thread of a replica, if it is the only one, has only the server's name.
void name_applier(tacho_event* out) noexcept {
    static const char kApplier[] = "<replication_slave>";
    if (out->strings[TACHO_STRING_USER].len == 0) {
        out->strings[TACHO_STRING_USER] = bytes_of(kApplier, sizeof(kApplier) - 1);
    }
}

[[gnu::cold, gnu::noinline]] uint32_t decide(MYSQL_THD thd, const mysql_event_general* in,
                                             tacho_bytes db, tacho_bytes command) noexcept {
    tacho_event who;
    if (thd != nullptr) {
        set_identity(thd, &who);
        if (thd_is_slave(thd)) {
            name_applier(&who);
        }
    } else {
        clear_strings(&who);
    }
    const tacho_facts facts = {who.strings[TACHO_STRING_USER], who.strings[TACHO_STRING_HOST],
                               who.strings[TACHO_STRING_IP], db, command};
    return tacho_probe_decide(g_probe, &t_state.probe, in->general_thread_id, &facts);
}

template <size_t Bytes>
bool is_command(const mysql_event_general* in, const char (&name)[Bytes]) noexcept {
    return in->general_command_length == Bytes - 1 &&
           memcmp(in->general_command, name, Bytes - 1) == 0;
}

[[gnu::noinline]] uint32_t look(MYSQL_THD thd, const mysql_event_general* in) noexcept {
    // With general_log=ON, a login before its session event: the user is not known yet, and `start`
    // ignores this event. The connection is new, so it always gets here.
    if (is_command(in, "Connect")) {
        return TACHO_WANTED_RECORD;
    }
    const tacho_bytes db = bytes_of(in->database);
    const tacho_bytes command = bytes_of(in->general_command, in->general_command_length);
    const uint64_t conn = in->general_thread_id;
    const uint32_t answer = tacho_probe_look(g_probe, &t_state.probe, conn, &db, &command);
    if (answer != TACHO_WANTED_ASK) {
        return answer;
    }
    if (figures_nested(thd)) {
        return t_state.skipped != nullptr ? TACHO_WANTED_SKIP : TACHO_WANTED_RECORD;
    }
    return decide(thd, in, db, command);
}

// Whether to record a statement, as far as this is known before it runs: TACHO_WANTED_*. A
// statement inside a stored program is treated like the calling statement, because the server then
// reports the definer as the user, and the program's database.
[[gnu::always_inline]] inline uint32_t wanted(MYSQL_THD thd,
                                              const mysql_event_general* in) noexcept {
    const uint32_t answer = tacho_probe_wanted(g_probe, &t_state.probe, in->general_thread_id);
    return answer == TACHO_WANTED_LOOK ? look(thd, in) : answer;
}

// Pointers into a packet must not outlive it, because its memory is reused.
void forget_packet() noexcept {
    t_state.packet_begin = nullptr;
    t_state.packet_end = nullptr;
}

// A statement has ended and others follow in its packet: the next one starts now. The server
// announces only the first one (dispatch_command in sql_parse.cc).
[[gnu::cold, gnu::noinline]] void start_remainder(MYSQL_THD thd, const mysql_event_general* in,
                                                  tacho_session* session) noexcept {
    const char* next = in->general_query + in->general_query_length;
    if (next < t_state.packet_end && *next == ';') {
        ++next;
    }
    while (next < t_state.packet_end && (*next == ' ' || (*next >= '\t' && *next <= '\r'))) {
        ++next;
    }
    if (next >= t_state.packet_end) {
        return;
    }
    size_t length = static_cast<size_t>(t_state.packet_end - next);
    if (length > kRemainderBytesMax) {
        length = kRemainderBytesMax;
    }
    tacho_event out;
    begin_event(TACHO_KIND_START, in, microseconds(CLOCK_REALTIME), &out);
    set_statement(thd, in, command_of(in), &out);
    out.query_id = 0;
    out.text_id = text_id(next);
    out.text = bytes_of(next, length);
    out.present |= TACHO_PRESENT_TEXT | TACHO_PRESENT_REMAINDER;
    emit(thd, session, out);
}

// A statement that is not the first one in its packet.
bool is_later_in_packet(MYSQL_THD thd, const mysql_event_general* in) noexcept {
    return in->general_query > t_state.packet_begin && in->general_query < t_state.packet_end &&
           is_command(in, "Query") && !figures_nested(thd);
}

bool more_follows(MYSQL_THD thd, const mysql_event_general* in) noexcept {
    const char* begin = in->general_query;
    return begin != nullptr && is_command(in, "Query") && in->general_error_code == 0 &&
           begin >= t_state.packet_begin && begin + in->general_query_length < t_state.packet_end &&
           !figures_nested(thd);
}

// Which figures an event has of its own. One packet of array binding raises an event for each row
// of parameters without restarting the counts, and commands without a statement (Ping, Quit) have
// no rows.
uint32_t wanted_figures(const mysql_event_general* in) noexcept {
    if (is_command(in, "Bulk_execute")) {
        return kFiguresOfBulk;
    }
    return in->general_query_length == 0 ? kFigureQueryTime | kFigureError : kFiguresAll;
}

// Returns the error number, if it is wanted.
[[gnu::always_inline]] inline uint32_t set_figures(MYSQL_THD thd, uint32_t wanted,
                                                   tacho_event* out) noexcept {
    out->sql_command = thd_sql_command(thd);
    out->present |= TACHO_PRESENT_SQL_COMMAND;
    Figures figures;
    const auto monotonic_us = static_cast<uint64_t>(microseconds(CLOCK_MONOTONIC));
    figures_read(thd, out->sql_command, wanted, monotonic_us, &figures);
    if (figures.present == 0) {
        return 0;
    }
    out->present |= TACHO_PRESENT_FIGURES;
    const uint64_t values[] = {figures.rows_sent, figures.rows_examined, figures.rows_affected,
                               figures.query_time_us, figures.lock_time_us};
    static_assert(sizeof(values) == sizeof(out->figures), "one slot each");
    memcpy(out->figures, values, sizeof(values));
    // The bits have the same order on both sides, but start at another position.
    static_assert(kFigureRowsSent == 1 && kFigureLockTime == 16, "see the shift");
    static_assert(TACHO_PRESENT_ROWS_SENT == 4 && TACHO_PRESENT_LOCK_TIME == 64, "see the shift");
    out->present |= (figures.present & 31U) << 2;
    if ((figures.present & kFigureError) != 0) {
        memcpy(out->sqlstate, figures.sqlstate, sizeof(figures.sqlstate));
        out->present |= TACHO_PRESENT_SQLSTATE;
    }
    return figures.errno_;
}

// A statement that a replica has applied. The counts and clocks of its thread are not those of the
// statement: BEGIN does not restart them.
[[gnu::cold, gnu::noinline]] void applied(MYSQL_THD thd, const mysql_event_general* in) noexcept {
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    tacho_event out;
    begin_event(TACHO_KIND_POINT, in, now_us, &out);
    set_statement(thd, in, command_of(in), &out);
    name_applier(&out);
    out.present |= TACHO_PRESENT_TEXT | TACHO_PRESENT_OUTERMOST;
    out.error_code = set_figures(thd, kFigureError, &out);
    emit(thd, tacho_probe_session(g_probe, out.conn, now_us), out);
}

// Commands that always have a LOG, besides Query. With general_log=ON everything in that log has
// one, even a Ping, which has its usual STATUS; but such a LOG cannot be attributed to it, so its
// start would never end.
bool is_announced(const mysql_event_general* in) noexcept {
    return is_command(in, "Execute") || is_command(in, "Prepare") ||
           is_command(in, "Bulk_execute") || is_command(in, "Init DB");
}

[[gnu::noinline]] void start(MYSQL_THD thd, const mysql_event_general* in) noexcept {
    t_state.skipped = nullptr;
    const bool nested = figures_nested(thd);
    // The statements of a trigger on a replica have a LOG first, and a STATUS.
    if (thd != nullptr && thd_is_slave(thd) && !nested) {
        applied(thd, in);
        return;
    }
    if (is_command(in, "Query")) {
        if (!nested) {
            t_state.packet_begin = in->general_query;
            t_state.packet_end = in->general_query + in->general_query_length;
        }
    } else if (!is_announced(in)) {
        return;
    }
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    t_state.started_us = now_us;
    // Between commands the server has no SQL command; within one it has that of the surrounding
    // statement. Only COM_STMT_EXECUTE is announced later, when it already has one.
    const bool within = thd == nullptr || thd_sql_command(thd) != g_event_context.no_command;
    const bool prepared = is_command(in, "Prepare");
    const bool announced_by_sql = prepared && within && g_event_context.no_command >= 0;
    tacho_event out;
    begin_event(announced_by_sql ? TACHO_KIND_POINT : TACHO_KIND_START, in, now_us, &out);
    // Compared above, so it exists.
    set_statement(thd, in, {in->general_command, in->general_command_length}, &out);
    out.present |= TACHO_PRESENT_TEXT;
    if (nested) {
        out.present |= TACHO_PRESENT_NESTED;
    }
    // A prepared statement may also be prepared again during its execution.
    if (!nested && !within && !prepared) {
        out.present |= TACHO_PRESENT_OUTERMOST;
    }
    emit(thd, tacho_probe_session(g_probe, out.conn, now_us), out);
}

// Whether the running statement is skipped. (Some commands have a LOG and never a STATUS, and in a
// thread pool the next one may belong to another connection.)
bool is_in_skipped(uint64_t conn) noexcept {
    return t_state.skipped != nullptr && t_state.probe.filter_conn == conn;
}

// Whether this event is about the last skipped statement.
bool is_skipped(const mysql_event_general* in) noexcept {
    return t_state.skipped != nullptr && t_state.skipped == in->general_query;
}

// Small and without a frame of its own, like all functions for skipped statements.
[[gnu::noinline]] void begin(MYSQL_THD thd, const mysql_event_general* in) noexcept {
    t_state.begun_conn = in->general_thread_id;
    const uint32_t answer = wanted(thd, in);
    if (answer == TACHO_WANTED_RECORD) {
        start(thd, in);
        return;
    }
    if (t_state.skipped != nullptr && figures_nested(thd)) {
        // Inside a skipped statement, whose end is still to come.
        return;
    }
    t_state.skipped = answer == TACHO_WANTED_SKIP ? in->general_query : nullptr;
    // A statement inside a recorded one is not skipped: nothing of this packet is recorded.
    forget_packet();
}

bool is_execute(MYSQL_THD thd) noexcept {
    return thd != nullptr && thd_sql_command(thd) == g_event_context.execute_command;
}

[[gnu::cold, gnu::noinline]] void end_part(MYSQL_THD thd, const mysql_event_general* in,
                                           tacho_session* session) noexcept {
    if (more_follows(thd, in) && tacho_probe_logging(g_probe)) {
        start_remainder(thd, in, session);
    } else if (!figures_nested(thd)) {
        forget_packet();
    }
}

[[gnu::always_inline]] inline void end_packet(MYSQL_THD thd, const mysql_event_general* in,
                                              tacho_session* session) noexcept {
    if (in->general_query + in->general_query_length < t_state.packet_end) {
        end_part(thd, in, session);
    } else if (in->general_query == t_state.packet_begin || !figures_nested(thd)) {
        // A statement inside another one has another text.
        forget_packet();
    }
}

// A STATUS whose text belongs to no recorded start.
[[gnu::cold, gnu::noinline]] void end_unknown(MYSQL_THD thd, const mysql_event_general* in,
                                              tacho_session* session, int64_t now_us) noexcept {
    // The own end of SQL EXECUTE, which has the text of the executed statement.
    const bool executed = is_execute(thd) && tacho_probe_has_open(session);
    // A statement that started while recording was on is completed even if it was turned off
    // meanwhile.
    if (!executed && wanted(thd, in) != TACHO_WANTED_RECORD) {
        forget_packet();
        return;
    }
    tacho_event out;
    begin_event(executed ? TACHO_KIND_END : TACHO_KIND_POINT, in, now_us, &out);
    out.error_code = static_cast<uint32_t>(in->general_error_code);
    if (thd != nullptr) {
        set_figures(thd, wanted_figures(in), &out);
    }
    if (executed) {
        // This event does not have the text: assume all of it.
        out.shown_bytes = UINT32_MAX;
        out.present |= TACHO_PRESENT_INNERMOST;
    } else {
        set_statement(thd, in, command_of(in), &out);
        if (figures_nested(thd)) {
            out.present |= TACHO_PRESENT_NESTED;
        }
        out.shown_bytes = in->general_query_length;
        if (in->general_query == nullptr) {
            out.shown_bytes = UINT32_MAX;
            out.present |= TACHO_PRESENT_OUTERMOST;
        }
    }
    if (!executed || (out.present & TACHO_PRESENT_QUERY_TIME) == 0) {
        out.ts_us = microseconds(CLOCK_REALTIME);
    }
    emit(thd, session, out);
    end_packet(thd, in, session);
}

// Time of an event, in whole seconds, but not before the start that it most likely belongs to. The
// event's seconds are the machine's: SET TIMESTAMP does not change them.
int64_t about(const mysql_event_general* in) noexcept {
    const auto second_us = static_cast<int64_t>(in->general_time * 1000000);
    return second_us > t_state.started_us ? second_us : t_state.started_us;
}

[[gnu::noinline]] void end_recorded(MYSQL_THD thd, const mysql_event_general* in) noexcept {
    // The recorder derives the exact time from the start and the query time. If the server does not
    // provide that, the clock is read below.
    const int64_t now_us = about(in);
    tacho_session* session = tacho_probe_session(g_probe, in->general_thread_id, now_us);
    if (!tacho_probe_end_known(session, text_id(in->general_query), in->query_id,
                               in->general_query_length)) {
        end_unknown(thd, in, session, now_us);
        return;
    }
    tacho_event out;
    begin_event(TACHO_KIND_END, in, now_us, &out);
    out.error_code = static_cast<uint32_t>(in->general_error_code);
    // An event without a text does not show how much was executed: assume all of it.
    out.shown_bytes = in->general_query == nullptr ? UINT32_MAX : in->general_query_length;
    if (in->general_query_length > kRemainderBytesMax && is_later_in_packet(thd, in)) {
        // The start has only the beginning.
        out.text = bytes_of(in->general_query, in->general_query_length);
        out.present |= TACHO_PRESENT_TEXT;
    }
    if (thd != nullptr) {
        set_figures(thd, wanted_figures(in), &out);
    }
    if ((out.present & (TACHO_PRESENT_QUERY_TIME | TACHO_PRESENT_TEXT)) !=
        TACHO_PRESENT_QUERY_TIME) {
        out.ts_us = microseconds(CLOCK_REALTIME);
    }
    emit(thd, session, out);
    end_packet(thd, in, session);
}

// The end of the skipped statement. An end that cannot belong to it is processed as usual.
void end_skipped(MYSQL_THD thd, const mysql_event_general* in) noexcept {
    const bool own = is_skipped(in);
    t_state.skipped = nullptr;
    if (!own) {
        end_recorded(thd, in);
    }
}

[[gnu::noinline]] void end(MYSQL_THD thd, const mysql_event_general* in) noexcept {
    t_state.begun_conn = 0;
    if (t_state.skipped == nullptr) {
        end_recorded(thd, in);
    } else if (is_skipped(in) || !figures_nested(thd)) {
        end_skipped(thd, in);
    }
}

// SQL EXECUTE has ended; only the inner statement had a STATUS event.
[[gnu::cold, gnu::noinline]] void end_execute(MYSQL_THD thd,
                                              const mysql_event_general* in) noexcept {
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    tacho_session* session = tacho_probe_session(g_probe, in->general_thread_id, now_us);
    if (!tacho_probe_has_open(session)) {
        return;
    }
    tacho_event out;
    begin_event(TACHO_KIND_END, in, now_us, &out);
    set_figures(thd, wanted_figures(in), &out);
    out.present |= TACHO_PRESENT_OUTERMOST;
    out.shown_bytes = UINT32_MAX;
    emit(thd, session, out);
}

// SQL EXECUTE itself failed, not the statement that it executes: no event will report its end. The
// server has not stored the error yet, so there are no figures.
void end_failed_execute(MYSQL_THD thd, const mysql_event_general* in, tacho_session* session,
                        int64_t now_us) noexcept {
    tacho_event out;
    begin_event(TACHO_KIND_END, in, now_us, &out);
    out.error_code = static_cast<uint32_t>(in->general_error_code);
    out.sql_command = g_event_context.execute_command;
    out.present |= TACHO_PRESENT_OUTERMOST | TACHO_PRESENT_SQL_COMMAND;
    const bool own_text = tacho_probe_end_known(session, text_id(in->general_query), in->query_id,
                                                in->general_query_length);
    out.shown_bytes = own_text ? in->general_query_length : UINT32_MAX;
    emit(thd, session, out);
}

[[gnu::noinline]] void error(MYSQL_THD thd, const mysql_event_general* in) noexcept {
    if (is_in_skipped(in->general_thread_id) || !tacho_probe_logging(g_probe)) {
        return;
    }
    const int64_t now_us = microseconds(CLOCK_REALTIME_COARSE);
    tacho_session* session = tacho_probe_session(g_probe, in->general_thread_id, now_us);
    tacho_event out;
    begin_event(TACHO_KIND_ERROR, in, session == nullptr ? microseconds(CLOCK_REALTIME) : now_us,
                &out);
    out.error_code = static_cast<uint32_t>(in->general_error_code);
    // The message is in the field that has the command's name in other events.
    out.text = bytes_of(in->general_command, in->general_command_length);
    out.present = TACHO_PRESENT_TEXT;
    emit(thd, session, out);
    if (is_execute(thd) && !figures_nested(thd) && tacho_probe_has_open(session)) {
        end_failed_execute(thd, in, session, microseconds(CLOCK_REALTIME));
    }
}

[[gnu::noinline]] void result(MYSQL_THD thd, const mysql_event_general* in) noexcept {
    if (is_execute(thd)) {
        end_execute(thd, in);
    }
}

void general(MYSQL_THD thd, const mysql_event_general* in) noexcept {
    switch (in->event_subclass) {
    case MYSQL_AUDIT_GENERAL_LOG:
        return begin(thd, in);
    case MYSQL_AUDIT_GENERAL_ERROR:
        return error(thd, in);
    case MYSQL_AUDIT_GENERAL_RESULT:
        return t_state.skipped != nullptr || t_state.begun_conn == in->general_thread_id
                   ? void()
                   : result(thd, in);
    case MYSQL_AUDIT_GENERAL_STATUS:
        return end(thd, in);
    default:
        return;
    }
}

[[gnu::noinline]] void connection(MYSQL_THD thd, const mysql_event_connection* in) noexcept {
    const bool ended = in->event_subclass == MYSQL_AUDIT_CONNECTION_DISCONNECT;
    if (in->event_subclass == MYSQL_AUDIT_CONNECTION_CHANGE_USER) {
        tacho_probe_identity_changed(g_probe);
    }
    // A rule for the statements of a session does not apply to this, nor to the next session on
    // this thread.
    t_state.probe.overflow = 0;
    if (ended) {
        t_state.skipped = nullptr;
    }
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    tacho_session* session = tacho_probe_session(g_probe, in->thread_id, now_us);
    if (tacho_probe_logging(g_probe) || tacho_probe_has_open(session)) {
        const bool began = in->event_subclass == MYSQL_AUDIT_CONNECTION_CONNECT;
        tacho_event out;
        begin_event(ended ? TACHO_KIND_DISCONNECT
                          : (began ? TACHO_KIND_CONNECT : TACHO_KIND_CHANGE_USER),
                    in->thread_id, now_us, &out);
        out.error_code = static_cast<uint32_t>(in->status);
        if (out.kind == TACHO_KIND_CHANGE_USER && thd != nullptr) {
            // The event has the previous names; the session has the requested ones.
            set_identity(thd, &out);
        } else {
            set_identity(in, &out);
        }
        out.strings[TACHO_STRING_DB] = bytes_of(in->database);
        out.strings[TACHO_STRING_COMMAND] = {nullptr, 0};
        out.strings[TACHO_STRING_CHARSET] = {nullptr, 0};
        emit(thd, session, out);
    }
    if (ended) {
        tacho_probe_forget(g_probe, &t_state.probe, session);
    }
}

// OPTION_TABLE_LOCK of the server's query_options.h, which no package of headers includes: LOCK
// TABLES or FLUSH TABLES ... WITH READ LOCK holds tables in this session.
constexpr long long kOptionTableLock = 1LL << 21;

// Whether the event comes from the thread that inserts for INSERT DELAYED, under the name of a
// session that continues meanwhile. Session data belongs to the session's own thread.
bool is_delayed_insert(const mysql_event_table* in) noexcept {
    // `delayed_user` of sql_insert.cc. For a user with this name, tables get lines of their own.
    return in->priv_user != nullptr && strcmp(in->priv_user, "delayed") == 0;
}

[[gnu::noinline]] void table(MYSQL_THD thd, const mysql_event_table* in) noexcept {
    if (is_in_skipped(in->thread_id) || !tacho_probe_logging(g_probe)) {
        return;
    }
    // See line/parts.rs. A digit: read, write, create, drop, rename, alter. L: tables that the
    // session locked before are not reported.
    static const char kAccess[] = "0L1L2L3L4L5L";
    size_t access = 0;
    switch (in->event_subclass) {
    case MYSQL_AUDIT_TABLE_LOCK:
        access = in->read_only != 0 ? 0 : 1;
        break;
    case MYSQL_AUDIT_TABLE_CREATE:
        access = 2;
        break;
    case MYSQL_AUDIT_TABLE_DROP:
        access = 3;
        break;
    case MYSQL_AUDIT_TABLE_RENAME:
        access = 4;
        break;
    default:
        access = 5;
        break;
    }
    const int64_t now_us = microseconds(CLOCK_REALTIME_COARSE);
    tacho_session* session =
        is_delayed_insert(in) ? nullptr : tacho_probe_session(g_probe, in->thread_id, now_us);
    tacho_event out;
    begin_event(TACHO_KIND_TABLE, in->thread_id,
                session == nullptr ? microseconds(CLOCK_REALTIME) : now_us, &out);
    clear_strings(&out);
    out.query_id = in->query_id;
    const bool locked = thd != nullptr && thd_test_options(thd, kOptionTableLock) != 0;
    out.strings[TACHO_STRING_USER] = bytes_of(kAccess + 2 * access, locked ? 2 : 1);
    out.strings[TACHO_STRING_DB] = bytes_of(in->database);
    out.strings[TACHO_STRING_PRIV_USER] = bytes_of(in->table);
    out.strings[TACHO_STRING_OS_USER] = bytes_of(in->new_database);
    out.strings[TACHO_STRING_PROXY_USER] = bytes_of(in->new_table);
    emit(thd, session, out);
}

} // namespace

void notify(MYSQL_THD thd, unsigned int event_class, const void* event) noexcept {
    if (g_probe == nullptr) {
        return;
    }
    if (event_class == MYSQL_AUDIT_GENERAL_CLASS) {
        general(thd, static_cast<const mysql_event_general*>(event));
    } else if (event_class == MYSQL_AUDIT_CONNECTION_CLASS) {
        connection(thd, static_cast<const mysql_event_connection*>(event));
    } else if (event_class == MYSQL_AUDIT_TABLE_CLASS) {
        table(thd, static_cast<const mysql_event_table*>(event));
    }
}

} // namespace tacho
