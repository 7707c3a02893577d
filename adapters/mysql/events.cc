// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// Server events into the arena. Runs on the server's query threads: it may read the clock and
// the server's own fields, and call the probe; nothing else, but for what the server gives as
// a copy only: the name of the current database when it may have changed, and the text of the
// command that installs this (docs/specs/mysql-events.md).
//
// What MySQL sends (seen on 9.7.4) and what becomes of it:
//   COMMAND START        a packet was read                    -> its name is kept for what follows
//   PARSE PREPARSE       before parsing; text to its packet's end -> START (COM_QUERY,
//   COM_STMT_PREPARE) QUERY START          before execution, has the SQL command -> START of what
//   was parsed before:
//                                                                COM_STMT_EXECUTE, what SQL EXECUTE
//                                                                executes
//   QUERY STATUS_END     before the reply and the commit      -> END of what SQL EXECUTE executes
//   COMMAND END          after the reply, has the error number -> END, or POINT where nothing
//   started
//                        (Ping, Quit, INSTALL COMPONENT itself)
//   CONNECTION           CONNECT (also refused), DISCONNECT, CHANGE_USER
// Several statements in a packet: each has its PREPARSE, which ends the one before; the last one
// has the COMMAND END. The statements of a replica's applier have no COMMAND: STATUS_END is their
// END.
#include "adapter.h"
#include "session.h"
#include "sql_commands.h"
#include "visits.h"

#include <atomic>
#include <cstring>

namespace tacho {

FigureNames g_figure_names = {};

namespace {

// Longest name of a database, bytes (NAME_LEN of the server).
constexpr size_t kDatabaseBytesMax = 192;
// How often the database of a session may have changed, by the low bits of its connection id: in a
// thread pool the session may have been on another thread then, and what this one knows is old.
// Those that share a counter ask once more than they must. Relaxed: whoever runs the session's next
// statement comes after its last one, which is the server's order.
constexpr size_t kDatabaseCounters = 1024;
std::atomic<uint32_t> g_database_changes[kDatabaseCounters];

// Statements in each other that are told apart: SQL EXECUTE, and what it executes.
constexpr uint32_t kDepthMax = 32;

// Private state of a server thread. Initial-exec: a dynamic TLS block would be allocated on first
// use, in the middle of an event.
struct ThreadState {
    tacho_thread probe;
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
    int32_t sql_command;
    // Where its text begins, not to be read; how long that was, and how much of it is its own.
    const char* text;
    size_t text_bytes;
    uint32_t shown_bytes;
    // What the server has counted for it, if another one follows in its packet.
    uint32_t figures_present;
    uint64_t figures[TACHO_FIGURE_COUNT];
    // Current database of the session `db_conn`.
    uint64_t db_conn;
    uint32_t db_changes;
    uint32_t db_bytes;
    char db[kDatabaseBytesMax];
};
thread_local ThreadState t_state __attribute__((tls_model("initial-exec")));

bool is(const char* name, size_t bytes, const char* wanted) noexcept {
    return bytes == strlen(wanted) && memcmp(name, wanted, bytes) == 0;
}

std::atomic<uint32_t>& database_changes(uint64_t conn) noexcept {
    return g_database_changes[conn % kDatabaseCounters];
}

void keep_database(uint64_t conn, tacho_bytes name) noexcept {
    const size_t bytes = name.len < kDatabaseBytesMax ? name.len : kDatabaseBytesMax;
    if (bytes != 0) {
        memcpy(t_state.db, name.data, bytes);
    }
    t_state.db_bytes = static_cast<uint32_t>(bytes);
    t_state.db_conn = conn;
    t_state.db_changes = database_changes(conn).load(std::memory_order_relaxed);
}

// The server gives it as an allocated copy only: asked once, and again when it may have changed.
[[gnu::cold, gnu::noinline]] void load_database(MYSQL_THD thd, uint64_t conn) noexcept {
    const ServerText name(thd, "schema");
    keep_database(conn, name.bytes());
}

tacho_bytes database_of(MYSQL_THD thd, uint64_t conn) noexcept {
    if (t_state.db_conn != conn ||
        t_state.db_changes != database_changes(conn).load(std::memory_order_relaxed)) {
        load_database(thd, conn);
    }
    return bytes_of(t_state.db, t_state.db_bytes);
}

// What the session runs next may have another database.
void forget_database(uint64_t conn) noexcept {
    database_changes(conn).fetch_add(1, std::memory_order_relaxed);
}

bool changes_database(int32_t sql_command) noexcept {
    return sql_command == kSqlChangeDb || sql_command == kSqlDropDb || sql_command == kSqlCall;
}

tacho_bytes command_name() noexcept {
    static const char kQuery[] = "Query";
    return t_state.command != nullptr ? bytes_of(t_state.command, t_state.command_bytes)
                                      : bytes_of(kQuery, sizeof(kQuery) - 1);
}

void set_identity(const Identity& who, tacho_event* out) noexcept {
    out->strings[TACHO_STRING_USER] = bytes_of(who.user);
    out->strings[TACHO_STRING_PRIV_USER] = bytes_of(who.priv_user);
    out->strings[TACHO_STRING_PROXY_USER] = {nullptr, 0};
    out->strings[TACHO_STRING_OS_USER] = {nullptr, 0};
    out->strings[TACHO_STRING_HOST] = bytes_of(who.host);
    out->strings[TACHO_STRING_IP] = bytes_of(who.ip);
}

void emit(const tacho_probe* probe, MYSQL_THD thd, tacho_session* session,
          const tacho_event& event) noexcept {
    t_state.probe.killed = thd == nullptr ? nullptr : is_killed;
    t_state.probe.session = thd;
    tacho_probe_emit(probe, &t_state.probe, session, &event);
}

// Whether a statement that starts is to be recorded.
uint32_t wanted(const tacho_probe* probe, MYSQL_THD thd, uint64_t conn) noexcept {
    const uint32_t answer = tacho_probe_wanted(probe, &t_state.probe, conn);
    if (answer != TACHO_WANTED_LOOK) {
        return answer;
    }
    const tacho_bytes db = database_of(thd, conn);
    const tacho_bytes command = command_name();
    const uint32_t kept = tacho_probe_look(probe, &t_state.probe, conn, &db, &command);
    if (kept != TACHO_WANTED_ASK) {
        return kept;
    }
    const Identity who = identity_of(thd);
    const tacho_facts facts = {bytes_of(who.user), bytes_of(who.host), bytes_of(who.ip), db,
                               command};
    return tacho_probe_decide(probe, &t_state.probe, conn, &facts);
}

// Of the texts that the session sends.
tacho_bytes charset_of(MYSQL_THD thd) noexcept {
    mysql_cstring_with_length name = {nullptr, 0};
    if (mysql_service_mysql_thd_attributes->get(thd, "query_charset", &name) != 0) {
        return {nullptr, 0};
    }
    return bytes_of(name);
}

// The rest of a packet, or a command, is of another session than what this thread has seen last.
void begin_session(uint64_t conn) noexcept {
    t_state.conn = conn;
    t_state.command = nullptr;
    t_state.command_bytes = 0;
    t_state.depth = 0;
    t_state.recorded = 0;
    t_state.skipped = false;
    t_state.announced = false;
    t_state.executes = false;
    t_state.begun = false;
    t_state.sql_command = -1;
    t_state.text = nullptr;
    t_state.shown_bytes = UINT32_MAX;
    t_state.figures_present = 0;
}

void set_figure(MYSQL_THD thd, my_h_string name, uint32_t bit, uint64_t* slot,
                tacho_event* out) noexcept {
    if (figure_of(thd, name, slot)) {
        out->present |= bit | TACHO_PRESENT_FIGURES;
    }
}

// `rows`: the command had a statement; others show the rows of the one before.
void set_figures(MYSQL_THD thd, bool rows, tacho_event* out) noexcept {
    memset(out->figures, 0, sizeof(out->figures));
    set_figure(thd, g_figure_names.query_time, TACHO_PRESENT_QUERY_TIME, &out->figures[3], out);
    if (rows) {
        set_figure(thd, g_figure_names.rows_sent, TACHO_PRESENT_ROWS_SENT, &out->figures[0], out);
        set_figure(thd, g_figure_names.rows_examined, TACHO_PRESENT_ROWS_EXAMINED, &out->figures[1],
                   out);
    }
}

// The end of the outermost statement. `last`: no other has begun, which sets what the server has
// counted to zero.
void end_outermost(const tacho_probe* probe, MYSQL_THD thd, uint64_t conn, uint32_t error_code,
                   bool last) noexcept {
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    tacho_event out;
    begin_event(TACHO_KIND_END, conn, now_us, &out);
    out.error_code = error_code;
    out.sql_command = t_state.sql_command;
    out.shown_bytes = t_state.shown_bytes;
    out.present = TACHO_PRESENT_OUTERMOST | TACHO_PRESENT_SQL_COMMAND;
    if (last) {
        set_figures(thd, true, &out);
    } else {
        out.present |= t_state.figures_present;
        memcpy(out.figures, t_state.figures, sizeof(out.figures));
    }
    t_state.recorded = 0;
    emit(probe, thd, tacho_probe_session(probe, conn, now_us), out);
}

void start(const tacho_probe* probe, MYSQL_THD thd, uint64_t conn, uint32_t depth, tacho_bytes text,
           tacho_bytes charset) noexcept {
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    tacho_event out;
    begin_event(TACHO_KIND_START, conn, now_us, &out);
    out.text_id = text_id(text.data);
    out.present = TACHO_PRESENT_TEXT;
    if (depth == 0) {
        out.present |= TACHO_PRESENT_OUTERMOST;
    }
    set_identity(identity_of(thd), &out);
    // Inside of a procedure it is that one's, for as long as it runs.
    if (t_state.sql_command == kSqlCall) {
        forget_database(conn);
    }
    out.strings[TACHO_STRING_DB] = database_of(thd, conn);
    out.strings[TACHO_STRING_COMMAND] = command_name();
    out.strings[TACHO_STRING_CHARSET] = charset;
    out.strings[TACHO_STRING_RESERVED] = {nullptr, 0};
    out.text = text;
    t_state.recorded |= 1U << depth;
    emit(probe, thd, tacho_probe_session(probe, conn, now_us), out);
}

// An outermost statement begins.
void start_outermost(const tacho_probe* probe, uint64_t conn, tacho_bytes text) noexcept {
    MYSQL_THD thd = current_session();
    if ((t_state.recorded & 1) != 0) {
        // The one before it in its packet: had it failed, this would not come.
        end_outermost(probe, thd, conn, 0, false);
    }
    t_state.recorded = 0;
    t_state.sql_command = -1;
    t_state.text = text.data;
    t_state.text_bytes = text.len;
    t_state.shown_bytes = UINT32_MAX;
    t_state.figures_present = 0;
    const uint32_t answer = wanted(probe, thd, conn);
    t_state.skipped = answer == TACHO_WANTED_SKIP;
    if (answer == TACHO_WANTED_RECORD) {
        start(probe, thd, conn, 0, text, charset_of(thd));
    }
}

void parse(const tacho_probe* probe, const mysql_event_tracking_parse_data* in) noexcept {
    const uint64_t conn = in->connection_id;
    if (t_state.conn != conn) {
        begin_session(conn);
    }
    if (t_state.depth != 0 || t_state.executes || t_state.command == nullptr) {
        // The text that SQL PREPARE is given, whose EXECUTE shows it; or what is prepared anew for
        // the command that runs; or what the event scheduler runs.
        return;
    }
    start_outermost(probe, conn, bytes_of(in->query));
    t_state.announced = true;
}

void query_start(const tacho_probe* probe, const mysql_event_tracking_query_data* in) noexcept {
    const uint64_t conn = in->connection_id;
    if (t_state.conn != conn) {
        begin_session(conn);
    }
    const uint32_t depth = t_state.depth++;
    if (depth == 0) {
        if (!t_state.announced && !(t_state.executes && t_state.begun)) {
            start_outermost(probe, conn, bytes_of(in->query));
        }
        t_state.announced = false;
        t_state.begun = true;
        t_state.sql_command = sql_command_number(in->sql_command);
        if (in->query.str == t_state.text) {
            // What follows it in its packet is not its own.
            t_state.shown_bytes = static_cast<uint32_t>(in->query.length);
        }
    } else if (!t_state.skipped && depth < kDepthMax && tacho_probe_logging(probe)) {
        // What a statement executes goes with it.
        start(probe, current_session(), conn, depth, bytes_of(in->query),
              bytes_of(in->query_charset));
    }
}

void query_end(const tacho_probe* probe, const mysql_event_tracking_query_data* in) noexcept {
    const uint64_t conn = in->connection_id;
    if (t_state.conn != conn || t_state.depth == 0) {
        return;
    }
    const uint32_t depth = --t_state.depth;
    const auto error_code = static_cast<uint32_t>(in->status);
    const int32_t sql_command =
        depth == 0 ? t_state.sql_command : sql_command_number(in->sql_command);
    if (changes_database(sql_command)) {
        forget_database(conn);
    }
    if (depth == 0) {
        if ((t_state.recorded & 1) == 0) {
            return;
        }
        if (t_state.command == nullptr) {
            end_outermost(probe, current_session(), conn, error_code, true);
        } else if (t_state.shown_bytes < t_state.text_bytes) {
            tacho_event counted;
            counted.present = 0;
            set_figures(current_session(), true, &counted);
            t_state.figures_present = counted.present;
            memcpy(t_state.figures, counted.figures, sizeof(t_state.figures));
        }
        return;
    }
    const uint32_t bit = depth < kDepthMax ? 1U << depth : 0;
    if ((t_state.recorded & bit) == 0) {
        return;
    }
    t_state.recorded &= ~bit;
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    tacho_event out;
    begin_event(TACHO_KIND_END, conn, now_us, &out);
    out.error_code = error_code;
    out.sql_command = sql_command;
    out.shown_bytes = UINT32_MAX;
    out.present = TACHO_PRESENT_INNERMOST | TACHO_PRESENT_SQL_COMMAND;
    emit(probe, current_session(), tacho_probe_session(probe, conn, now_us), out);
}

void command_start(const mysql_event_tracking_command_data* in) noexcept {
    begin_session(in->connection_id);
    // A constant of the server.
    t_state.command = in->command.str;
    t_state.command_bytes = in->command.length;
    t_state.executes = is(in->command.str, in->command.length, "Execute");
}

// Something that had no start.
void point(const tacho_probe* probe, MYSQL_THD thd, const mysql_event_tracking_command_data* in,
           tacho_bytes text) noexcept {
    const uint64_t conn = in->connection_id;
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    tacho_event out;
    begin_event(TACHO_KIND_POINT, conn, now_us, &out);
    out.error_code = static_cast<uint32_t>(in->status);
    out.shown_bytes = UINT32_MAX;
    out.present = TACHO_PRESENT_OUTERMOST;
    if (text.len != 0) {
        out.text = text;
        out.present |= TACHO_PRESENT_TEXT;
    }
    set_identity(identity_of(thd), &out);
    out.strings[TACHO_STRING_DB] = database_of(thd, conn);
    out.strings[TACHO_STRING_COMMAND] = bytes_of(in->command);
    out.strings[TACHO_STRING_CHARSET] = charset_of(thd);
    out.strings[TACHO_STRING_RESERVED] = {nullptr, 0};
    set_figures(thd, false, &out);
    emit(probe, thd, tacho_probe_session(probe, conn, now_us), out);
}

// The command that runs while this is installed: the server gives its text as a copy only.
[[gnu::cold, gnu::noinline]] void
point_of_first(const tacho_probe* probe, MYSQL_THD thd,
               const mysql_event_tracking_command_data* in) noexcept {
    const ServerText text(thd, "sql_text");
    point(probe, thd, in, text.bytes());
}

void command_end(const tacho_probe* probe, const mysql_event_tracking_command_data* in) noexcept {
    const uint64_t conn = in->connection_id;
    MYSQL_THD thd = current_session();
    const bool is_first = t_state.conn != conn;
    if (is_first) {
        // The command that has installed this, or one that a command of another session was
        // executed in.
        begin_session(conn);
        t_state.command = in->command.str;
        t_state.command_bytes = in->command.length;
    }
    if ((t_state.recorded & 1) != 0) {
        end_outermost(probe, thd, conn, static_cast<uint32_t>(in->status), true);
    } else if (!t_state.skipped && wanted(probe, thd, conn) == TACHO_WANTED_RECORD) {
        if (is_first) {
            point_of_first(probe, thd, in);
        } else {
            point(probe, thd, in, {nullptr, 0});
        }
    }
    // Of those that have no statement.
    if (is(in->command.str, in->command.length, "Init DB") ||
        is(in->command.str, in->command.length, "Reset Connection")) {
        forget_database(conn);
    }
    begin_session(0);
}

void connection(const tacho_probe* probe, const mysql_event_tracking_connection_data* in) noexcept {
    uint32_t kind = 0;
    switch (in->event_subclass) {
    case EVENT_TRACKING_CONNECTION_CONNECT:
        kind = TACHO_KIND_CONNECT;
        break;
    case EVENT_TRACKING_CONNECTION_DISCONNECT:
        kind = TACHO_KIND_DISCONNECT;
        break;
    case EVENT_TRACKING_CONNECTION_CHANGE_USER:
        kind = TACHO_KIND_CHANGE_USER;
        tacho_probe_identity_changed(probe);
        break;
    default:
        return;
    }
    const uint64_t conn = in->connection_id;
    keep_database(conn, bytes_of(in->database));
    // What a rule says of the statements of a session does not count for this, nor for the session
    // that comes to this thread next.
    t_state.probe.overflow = 0;
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    tacho_session* session = tacho_probe_session(probe, conn, now_us);
    if (tacho_probe_logging(probe) || tacho_probe_has_open(session)) {
        tacho_event out;
        begin_event(kind, conn, now_us, &out);
        out.error_code = static_cast<uint32_t>(in->status);
        out.strings[TACHO_STRING_USER] = bytes_of(in->user);
        out.strings[TACHO_STRING_PRIV_USER] = bytes_of(in->priv_user);
        out.strings[TACHO_STRING_PROXY_USER] = bytes_of(in->proxy_user);
        out.strings[TACHO_STRING_OS_USER] = bytes_of(in->external_user);
        out.strings[TACHO_STRING_HOST] = bytes_of(in->host);
        out.strings[TACHO_STRING_IP] = bytes_of(in->ip);
        out.strings[TACHO_STRING_DB] = bytes_of(in->database);
        out.strings[TACHO_STRING_COMMAND] = {nullptr, 0};
        out.strings[TACHO_STRING_CHARSET] = {nullptr, 0};
        out.strings[TACHO_STRING_RESERVED] = {nullptr, 0};
        emit(probe, current_session(), session, out);
    }
    const bool refused = kind == TACHO_KIND_CONNECT && in->status != 0;
    if (kind == TACHO_KIND_DISCONNECT || refused) {
        tacho_probe_forget(probe, &t_state.probe, session);
        forget_database(conn);
    }
}

} // namespace

uint64_t current_conn() noexcept {
    return t_state.conn;
}

// UNINSTALL COMPONENT is a statement, too: what executes it calls this when nothing can stop it any
// more, and nobody else is in an event.
void end_own_statement(const tacho_probe* probe) noexcept {
    if (t_state.conn != 0 && (t_state.recorded & 1) != 0) {
        end_outermost(probe, current_session(), t_state.conn, 0, true);
    }
}

// What this thread knows of a recorder that was stopped meanwhile counts no longer.
static void enter(const Visit& visit) noexcept {
    if (t_state.life != visit.life()) {
        t_state.life = visit.life();
        begin_session(0);
        t_state.db_conn = 0;
    }
}

// What these return is no answer to the server: an event is never refused.
mysql_service_status_t notify_query(const mysql_event_tracking_query_data* in) noexcept {
    const Visit visit(in->connection_id);
    if (visit.probe() == nullptr) {
        return 0;
    }
    enter(visit);
    if (in->event_subclass == EVENT_TRACKING_QUERY_START) {
        query_start(visit.probe(), in);
    } else if (in->event_subclass == EVENT_TRACKING_QUERY_STATUS_END) {
        query_end(visit.probe(), in);
    }
    return 0;
}

mysql_service_status_t notify_parse(mysql_event_tracking_parse_data* in) noexcept {
    const Visit visit(in->connection_id);
    if (visit.probe() != nullptr && in->event_subclass == EVENT_TRACKING_PARSE_PREPARSE) {
        enter(visit);
        parse(visit.probe(), in);
    }
    return 0;
}

mysql_service_status_t notify_command(const mysql_event_tracking_command_data* in) noexcept {
    const Visit visit(in->connection_id);
    if (visit.probe() == nullptr) {
        return 0;
    }
    enter(visit);
    if (in->event_subclass == EVENT_TRACKING_COMMAND_START) {
        command_start(in);
    } else if (in->event_subclass == EVENT_TRACKING_COMMAND_END) {
        command_end(visit.probe(), in);
    }
    return 0;
}

mysql_service_status_t notify_connection(const mysql_event_tracking_connection_data* in) noexcept {
    const Visit visit(in->connection_id);
    if (visit.probe() != nullptr) {
        enter(visit);
        connection(visit.probe(), in);
    }
    return 0;
}

void notify_error(uint64_t conn, uint32_t error_code, tacho_bytes message) noexcept {
    const Visit visit(conn);
    if (visit.probe() == nullptr) {
        return;
    }
    enter(visit);
    if ((t_state.conn == conn && t_state.skipped) || !tacho_probe_logging(visit.probe())) {
        return;
    }
    const int64_t now_us = microseconds(CLOCK_REALTIME_COARSE);
    tacho_event out;
    begin_event(TACHO_KIND_ERROR, conn, now_us, &out);
    out.error_code = error_code;
    out.text = message;
    out.present = TACHO_PRESENT_TEXT;
    emit(visit.probe(), current_session(), tacho_probe_session(visit.probe(), conn, now_us), out);
}

} // namespace tacho
