// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// Server events into the arena. Runs on the server's query threads: it may read the clock and the
// server's own fields, and call the probe. The only exceptions are texts that the server provides
// only as a copy: the name of the current database when it may have changed, and the text of the
// command that installs this component (docs/specs/mysql-events.md).
//
// What MySQL sends (verified on 9.7.4), and the resulting records:
//   COMMAND START        a packet was read: its name is kept for later events
//   PARSE PREPARSE       before parsing; text to its packet's end
//                        -> START (COM_QUERY, COM_STMT_PREPARE), and a new text if a rule
//                        rewrites it (also the text of a client's SQL PREPARE) -> REWRITE
//   PARSE POSTPARSE      it was parsed: whether it is a SELECT
//   QUERY START          before execution, has the SQL command of what was parsed before
//                        -> START (COM_STMT_EXECUTE, the statement of SQL EXECUTE)
//   QUERY NESTED_START   before a statement of a stored program -> START, if it is traced
//   QUERY STATUS_END     before the reply and the commit -> END of the statement of SQL EXECUTE
//   COMMAND END          after the reply, has the error number
//                        -> END, or POINT if nothing started (Ping, Quit, INSTALL itself)
//   the end of a trace   right after it, has all figures: it is then the END (traces.cc)
// Several statements in a packet: each has its PREPARSE; the previous one has ended with its trace
// or, without traces, ends then; the last one has the COMMAND END. The statements of a replica's
// applier have no COMMAND: the end of their trace, or their STATUS_END, is their END.
#include "events.h"

#include "charset.h"
#include "database.h"
#include "records.h"
#include "rewrite.h"
#include "rules.h"
#include "sql_commands.h"
#include "thread_state.h"

#include <cstring>

namespace tacho {

namespace {

bool is(const char* name, size_t bytes, const char* wanted) noexcept {
    return bytes == strlen(wanted) && memcmp(name, wanted, bytes) == 0;
}

bool changes_database(int32_t sql_command) noexcept {
    return sql_command == kSqlChangeDb || sql_command == kSqlDropDb || sql_command == kSqlCall;
}

// An outermost statement begins. `charset`: of its text, if already known.
void start_outermost(const tacho_probe* probe, uint64_t conn, tacho_bytes text,
                     tacho_bytes charset) noexcept {
    MYSQL_THD thd = current_session();
    if ((t_state.recorded & 1) != 0) {
        // The previous one in its packet: if it had failed, this event would not arrive.
        end_outermost(probe, thd, 0, false, nullptr);
    }
    t_state.recorded = 0;
    t_state.sql_command = -1;
    t_state.text = text.data;
    t_state.text_bytes = text.len;
    t_state.shown_bytes = UINT32_MAX;
    t_state.figures_present = 0;
    t_state.charset = {nullptr, 0};
    const uint32_t answer = wanted(probe, thd, conn);
    t_state.skipped = answer == TACHO_WANTED_SKIP;
    if (answer == TACHO_WANTED_RECORD) {
        t_state.recorded = 1;
        t_state.started_us = microseconds(CLOCK_MONOTONIC);
        t_state.charset = charset.len != 0 ? charset : charset_of(thd);
        start(probe, thd, conn, TACHO_PRESENT_OUTERMOST, text, t_state.charset);
    } else if (answer == TACHO_WANTED_OFF && tacho_probe_has_block(probe)) {
        // Rules block nevertheless, and need the caller inside a stored program, too.
        remember_caller(identity_of(thd));
    }
}

// INSTALL COMPONENT is followed by others in its packet. Its own text is no longer available.
[[gnu::cold, gnu::noinline]] void end_of_install(const tacho_probe* probe, uint64_t conn) noexcept {
    static const char kQuery[] = "Query";
    t_state.installs = false;
    // No other command has several statements.
    t_state.command = kQuery;
    t_state.command_bytes = sizeof(kQuery) - 1;
    t_state.error_code = 0;
    MYSQL_THD thd = current_session();
    if (wanted(probe, thd, conn) == TACHO_WANTED_RECORD) {
        point(probe, thd, {nullptr, 0}, nullptr);
    }
}

// The server has removed leading white space from the first statement of a packet.
bool begins_with_select(const mysql_cstring_with_length& text) noexcept {
    static const char kSelect[] = "select";
    constexpr size_t kBytes = sizeof(kSelect) - 1;
    if (text.length < kBytes) {
        return false;
    }
    for (size_t i = 0; i < kBytes; ++i) {
        // The bit that distinguishes lower-case from upper-case ASCII letters.
        if ((text.str[i] | 0x20) != kSelect[i]) {
            return false;
        }
    }
    return true;
}

const mysql_cstring_with_length& text_to_parse(const mysql_event_tracking_parse_data* in) noexcept {
    const bool is_new = (*in->flags & EVENT_TRACKING_PARSE_REWRITE_QUERY_REWRITTEN) != 0;
    return is_new && in->rewritten_query->str != nullptr ? *in->rewritten_query : in->query;
}

// Whether this is the text of a client's SQL PREPARE. Not a text that is prepared again for an
// EXECUTE: it was rewritten when it was first prepared. Nor the text that a stored program
// prepares: it has no line of its own, so the log could not show the original.
bool is_given_to_prepare() noexcept {
    return t_state.depth == 1 && !t_state.is_inner && t_state.command != nullptr &&
           t_state.runs == kSqlPrepare;
}

void parse(const tacho_probe* probe, mysql_event_tracking_parse_data* in) noexcept {
    const uint64_t conn = in->connection_id;
    if (t_state.conn != conn) {
        begin_session(conn);
        if (t_state.installs) {
            end_of_install(probe, conn);
        }
    }
    if (t_state.depth != 0 || t_state.executes || t_state.command == nullptr) {
        // The text of SQL PREPARE, which its EXECUTE shows; or a text that is prepared again for
        // the running command; or a statement of the event scheduler.
        if (is_given_to_prepare()) {
            rewrite(probe, in);
        }
        return;
    }
    start_outermost(probe, conn, bytes_of(in->query), {nullptr, 0});
    t_state.announced = true;
    rewrite(probe, in);
    t_state.selects = !kReportsParsed && begins_with_select(text_to_parse(in));
}

// Now that it is known to be no parser error, which only its trace has.
void parsed(const mysql_event_tracking_parse_data* in) noexcept {
    if (t_state.announced && t_state.conn == in->connection_id) {
        t_state.selects = begins_with_select(in->query);
    }
}

// Statements around the outermost QUERY START. The statement of a scheduled event is one: it has a
// NESTED_START instead of a QUERY START, and belongs to no command.
uint32_t around() noexcept {
    return t_state.command == nullptr && t_state.traced > 1 ? 1 : 0;
}

// A statement inside another one is treated like that one.
void start_inner(const tacho_probe* probe, const mysql_event_tracking_query_data* in,
                 uint32_t present) noexcept {
    const uint64_t conn = in->connection_id;
    // Inside a stored program, the database is the program's while it runs.
    if (present != 0 || t_state.sql_command == kSqlCall) {
        forget_database(conn);
    }
    start(probe, current_session(), conn, present, bytes_of(in->query),
          bytes_of(in->query_charset));
}

// The statement at `depth` is not executed: it has no further event, not even a STATUS_END.
[[gnu::cold, gnu::noinline]] void refused(const tacho_probe* probe, uint64_t conn, uint32_t depth,
                                          int32_t sql_command, uint32_t error_code) noexcept {
    --t_state.depth;
    const uint32_t bit = depth != 0 && depth < kDepthMax ? 1U << depth : 0;
    // The outermost one ends with its command.
    if ((t_state.recorded & bit) != 0) {
        t_state.recorded &= ~bit;
        end_innermost(probe, conn, sql_command, error_code, nullptr);
    }
}

// True: not executed, because a rule blocks it.
bool query_start(const tacho_probe* probe, const mysql_event_tracking_query_data* in) noexcept {
    const uint64_t conn = in->connection_id;
    if (t_state.conn != conn) {
        begin_session(conn);
    }
    const uint32_t depth = t_state.depth++ + around();
    const int32_t sql_command = sql_command_number(in->sql_command);
    if (depth == 0) {
        if (!t_state.announced && !(t_state.executes && t_state.begun)) {
            // The server may have created this text, without passwords, in a character set of its
            // own.
            start_outermost(probe, conn, bytes_of(in->query), bytes_of(in->query_charset));
        }
        t_state.announced = false;
        t_state.begun = true;
        t_state.sql_command = sql_command;
        if (in->query.str == t_state.text) {
            // The rest of its packet does not belong to it.
            t_state.shown_bytes = static_cast<uint32_t>(in->query.length);
        }
    } else if (!t_state.skipped && depth < kDepthMax && tacho_probe_logging(probe)) {
        t_state.recorded |= 1U << depth;
        start_inner(probe, in, 0);
    }
    const uint32_t error_code = block_statement(probe, conn, sql_command, depth != 0);
    if (error_code != 0) {
        refused(probe, conn, depth, sql_command, error_code);
    }
    return error_code != 0;
}

// A statement of a stored program. Only its trace shows how it ends: functions and triggers have no
// event for that.
void record_nested(const tacho_probe* probe, const mysql_event_tracking_query_data* in,
                   int32_t sql_command) noexcept {
    const uint64_t conn = in->connection_id;
    const uint32_t level = t_state.traced;
    // Statements of the event scheduler have no caller.
    const bool called = t_state.command != nullptr || t_state.depth != 0;
    if (level < 2 || level >= kTraceLevels || (called && t_state.skipped) ||
        t_state.nested[level] != kNotRecorded) {
        // The same statement again, after it had to be prepared again.
        return;
    }
    if (!called) {
        // Its tables, and the statements inside it, are treated like it.
        t_state.skipped = wanted(probe, current_session(), conn) == TACHO_WANTED_SKIP;
    }
    if (t_state.skipped || !tacho_probe_logging(probe)) {
        return;
    }
    t_state.nested[level] = traced_command(sql_command);
    note_rows(current_session(), level);
    start_inner(probe, in, TACHO_PRESENT_NESTED);
}

// True: not executed. Its trace ends nevertheless, with the error.
bool nested_start(const tacho_probe* probe, const mysql_event_tracking_query_data* in) noexcept {
    const uint64_t conn = in->connection_id;
    if (t_state.conn != conn) {
        begin_session(conn);
    }
    if (t_state.command == nullptr && t_state.depth == 0) {
        t_state.event_conn = conn;
    }
    const int32_t sql_command = sql_command_number(in->sql_command);
    record_nested(probe, in, sql_command);
    return block_statement(probe, conn, sql_command, true) != 0;
}

// The outermost statement has been executed, but its reply and its commit are still to come.
void outermost_executed(const tacho_probe* probe, uint32_t error_code) noexcept {
    if ((t_state.recorded & 1) == 0 || is_outermost_traced()) {
        return;
    }
    if (t_state.command == nullptr) {
        end_outermost(probe, current_session(), error_code, true, nullptr);
    } else if (t_state.shown_bytes < t_state.text_bytes) {
        tacho_event counted;
        counted.present = 0;
        set_figures(current_session(), true, &counted);
        t_state.figures_present = counted.present;
        memcpy(t_state.figures, counted.figures, sizeof(t_state.figures));
    }
}

void query_end(const tacho_probe* probe, const mysql_event_tracking_query_data* in) noexcept {
    const uint64_t conn = in->connection_id;
    if (t_state.conn != conn || t_state.depth == 0) {
        return;
    }
    const uint32_t depth = --t_state.depth + around();
    const auto error_code = static_cast<uint32_t>(in->status);
    const int32_t sql_command =
        depth == 0 ? t_state.sql_command : sql_command_number(in->sql_command);
    if (changes_database(sql_command)) {
        forget_database(conn);
    }
    if (depth == 0) {
        outermost_executed(probe, error_code);
        return;
    }
    const uint32_t bit = depth < kDepthMax ? 1U << depth : 0;
    if ((t_state.recorded & bit) != 0) {
        t_state.recorded &= ~bit;
        end_innermost(probe, conn, sql_command, error_code, nullptr);
    }
}

void command_start(const mysql_event_tracking_command_data* in) noexcept {
    // Inside a statement of another session, to which the traces belong. A declined one is an old
    // one: none has begun since.
    const bool is_inside = t_state.conn != 0 && t_state.conn != in->connection_id;
    if (is_inside || t_state.is_declined) {
        forget_traces();
    }
    begin_session(in->connection_id);
    t_state.installs = false;
    // A constant of the server.
    t_state.command = in->command.str;
    t_state.command_bytes = in->command.length;
    t_state.executes = is(in->command.str, in->command.length, "Execute");
    // Its trace began when its packet was read. Others that are left never reported their end.
    if (t_state.traced > 1) {
        t_state.traced = 1;
    }
}

// The command that runs during the installation: the server provides its text only as a copy.
[[gnu::cold, gnu::noinline]] void point_of_first(const tacho_probe* probe, MYSQL_THD thd) noexcept {
    const ServerText text(thd, "sql_text");
    point(probe, thd, text.bytes(), nullptr);
}

void command_end(const tacho_probe* probe, const mysql_event_tracking_command_data* in) noexcept {
    const uint64_t conn = in->connection_id;
    if (t_state.conn == conn) {
        t_state.error_code = static_cast<uint32_t>(in->status);
        t_state.end_waits = is_outermost_traced();
        if (!t_state.end_waits) {
            end_command(probe, nullptr);
            forget_traces();
        }
        return;
    }
    // The command that installed this component, or one in which a command of another session was
    // executed.
    begin_session(conn);
    t_state.installs = false;
    t_state.command = in->command.str;
    t_state.command_bytes = in->command.length;
    t_state.error_code = static_cast<uint32_t>(in->status);
    MYSQL_THD thd = current_session();
    if (wanted(probe, thd, conn) == TACHO_WANTED_RECORD) {
        point_of_first(probe, thd);
    }
    begin_session(0);
}

} // namespace

// An event other than the end of a trace: a trace that is still awaited will not arrive. (The
// thread executes another command by now, or the server has stopped tracing.)
void settle(const tacho_probe* probe) noexcept {
    if (t_state.end_waits) {
        end_command(probe, nullptr);
    }
}

void end_command(const tacho_probe* probe, const telemetry_stmt_data_t* traced) noexcept {
    const uint64_t conn = t_state.conn;
    MYSQL_THD thd = current_session();
    t_state.end_waits = false;
    if ((t_state.recorded & 1) != 0) {
        end_outermost(probe, thd, t_state.error_code, true, traced);
    } else if (!t_state.skipped && wanted(probe, thd, conn) == TACHO_WANTED_RECORD) {
        point(probe, thd, {nullptr, 0}, traced);
    }
    // Commands without a statement.
    if (is(t_state.command, t_state.command_bytes, "Init DB") ||
        is(t_state.command, t_state.command_bytes, "Reset Connection")) {
        forget_database(conn);
    }
    begin_session(0);
}

void note_own_statement() noexcept {
    t_state.installs = true;
}

// UNINSTALL COMPONENT is a statement, too: deinit calls this when it can no longer fail and no
// other thread is in an event.
void end_own_statement(const tacho_probe* probe) noexcept {
    if (t_state.conn != 0 && (t_state.recorded & 1) != 0) {
        end_outermost(probe, current_session(), 0, true, nullptr);
    }
}

// The return values tell the server whether to continue, before it executes a statement and before
// it accesses tables.
mysql_service_status_t notify_query(const mysql_event_tracking_query_data* in) noexcept {
    const Visit visit(in->connection_id);
    if (visit.probe() == nullptr) {
        return 0;
    }
    enter(visit);
    switch (in->event_subclass) {
    case EVENT_TRACKING_QUERY_START:
        settle(visit.probe());
        return query_start(visit.probe(), in) ? 1 : 0;
    case EVENT_TRACKING_QUERY_NESTED_START:
        return nested_start(visit.probe(), in) ? 1 : 0;
    case EVENT_TRACKING_QUERY_STATUS_END:
        query_end(visit.probe(), in);
        break;
    default:
        break;
    }
    return 0;
}

mysql_service_status_t notify_parse(mysql_event_tracking_parse_data* in) noexcept {
    const Visit visit(in->connection_id);
    if (visit.probe() == nullptr) {
        return 0;
    }
    enter(visit);
    if (in->event_subclass == EVENT_TRACKING_PARSE_PREPARSE) {
        settle(visit.probe());
        parse(visit.probe(), in);
    } else if (in->event_subclass == EVENT_TRACKING_PARSE_POSTPARSE) {
        parsed(in);
    }
    return 0;
}

mysql_service_status_t notify_command(const mysql_event_tracking_command_data* in) noexcept {
    const Visit visit(in->connection_id);
    if (visit.probe() == nullptr) {
        return 0;
    }
    enter(visit);
    settle(visit.probe());
    if (in->event_subclass == EVENT_TRACKING_COMMAND_START) {
        command_start(in);
    } else if (in->event_subclass == EVENT_TRACKING_COMMAND_END) {
        command_end(visit.probe(), in);
    }
    return 0;
}

namespace {

// Whether an error that is raised now will be in a trace whose end is recorded. Not all
// instructions of a stored program have one.
bool is_in_a_trace() noexcept {
    if (is_outermost_traced()) {
        return true;
    }
    for (uint32_t level = 2; level <= t_state.traced && level < kTraceLevels; ++level) {
        if (t_state.nested[level] != kNotRecorded) {
            return true;
        }
    }
    return false;
}

} // namespace

void notify_error(uint64_t conn, uint32_t error_code, tacho_bytes message) noexcept {
    const Visit visit(conn);
    if (visit.probe() == nullptr) {
        return;
    }
    enter(visit);
    if (is_in_a_trace()) {
        // If this arrives before the server asks whether to continue that trace: yes.
        t_state.selects = false;
        return;
    }
    if ((t_state.conn == conn && t_state.skipped) || !tacho_probe_logging(visit.probe())) {
        return;
    }
    const int64_t now_us = microseconds(CLOCK_REALTIME_COARSE);
    tacho_session* session = tacho_probe_session(visit.probe(), conn, now_us);
    tacho_event out;
    begin_event(TACHO_KIND_ERROR, conn, session == nullptr ? microseconds(CLOCK_REALTIME) : now_us,
                &out);
    out.error_code = error_code;
    out.text = message;
    out.present = TACHO_PRESENT_TEXT;
    emit(visit.probe(), current_session(), session, out);
}

} // namespace tacho
