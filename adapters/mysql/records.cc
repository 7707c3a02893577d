// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
#include "records.h"

#include "charset.h"
#include "database.h"
#include "rules.h"
#include "sql_commands.h"
#include "thread_state.h"

#include <cstring>

namespace tacho {

FigureNames g_figure_names = {};

namespace {

void set_figure(MYSQL_THD thd, my_h_string name, uint32_t bit, uint64_t* slot,
                tacho_event* out) noexcept {
    if (figure_of(thd, name, slot)) {
        out->present |= bit | TACHO_PRESENT_FIGURES;
    }
}

void set_rows(MYSQL_THD thd, tacho_event* out) noexcept {
    set_figure(thd, g_figure_names.rows_sent, TACHO_PRESENT_ROWS_SENT, &out->figures[0], out);
    set_figure(thd, g_figure_names.rows_examined, TACHO_PRESENT_ROWS_EXAMINED, &out->figures[1],
               out);
}

// Index of a level; kRowLevels or more: none. The first stored program has level 2.
uint32_t row_place(uint32_t level) noexcept {
    return level - 2;
}

// No figure is better than a wrong one.
void count_from(uint64_t before, uint32_t bit, uint64_t* figure, tacho_event* out) noexcept {
    if (*figure < before) {
        *figure = 0;
        out->present &= ~bit;
    } else {
        *figure -= before;
    }
}

// The rows of a stored program's statement, including those of the routines that it called. A
// procedure continues to count where the previous statement ended. A function or a trigger begins
// at zero, and at its end the server adds its examined rows to the surrounding count. So in both
// cases the result is the difference to the beginning of the statement; the traces' own figures are
// not.
void set_rows_of_nested(MYSQL_THD thd, uint32_t level, tacho_event* out) noexcept {
    if (row_place(level) >= kRowLevels) {
        return;
    }
    const RowCounts& before = t_state.rows_before[row_place(level)];
    set_rows(thd, out);
    count_from(before.sent, TACHO_PRESENT_ROWS_SENT, &out->figures[0], out);
    count_from(before.examined, TACHO_PRESENT_ROWS_EXAMINED, &out->figures[1], out);
}

// Only DA_OK has these five characters: a result set (DA_EOF) has no count of changed rows.
bool is_ok(const telemetry_stmt_data_t& traced) noexcept {
    return traced.m_sqlstate != nullptr && strcmp(traced.m_sqlstate, "00000") == 0;
}

void set_traced_error(const telemetry_stmt_data_t& traced, tacho_event* out) noexcept {
    if (traced.m_sql_errno == 0 || traced.m_sqlstate == nullptr ||
        strnlen(traced.m_sqlstate, 6) != 5) {
        return;
    }
    memcpy(out->sqlstate, traced.m_sqlstate, 5);
    out->present |= TACHO_PRESENT_SQLSTATE;
}

void set_traced_changes(const telemetry_stmt_data_t& traced, tacho_event* out) noexcept {
    if (is_ok(traced)) {
        out->figures[2] = traced.m_rows_affected;
        out->present |= TACHO_PRESENT_FIGURES | TACHO_PRESENT_ROWS_AFFECTED;
    }
}

// All figures of an outermost statement.
void set_traced(MYSQL_THD thd, const telemetry_stmt_data_t& traced, tacho_event* out) noexcept {
    memset(out->figures, 0, sizeof(out->figures));
    if (t_state.has_nested) {
        // The trace lacks the rows that a stored program has sent.
        set_rows(thd, out);
    } else {
        out->figures[0] = traced.m_rows_sent;
        out->figures[1] = traced.m_rows_examined;
        out->present |= TACHO_PRESENT_ROWS_SENT | TACHO_PRESENT_ROWS_EXAMINED;
    }
    set_traced_changes(traced, out);
    set_traced_error(traced, out);
    out->figures[3] = static_cast<uint64_t>(microseconds(CLOCK_MONOTONIC) - t_state.started_us);
    out->figures[4] = traced.m_lock_time;
    out->present |= TACHO_PRESENT_FIGURES | TACHO_PRESENT_QUERY_TIME | TACHO_PRESENT_LOCK_TIME;
}

// A separate record, before the end that it belongs to.
void error_message(const tacho_probe* probe, MYSQL_THD thd, uint64_t conn, int64_t now_us,
                   const telemetry_stmt_data_t* traced) noexcept {
    if (traced == nullptr || traced->m_sql_errno == 0 || traced->m_message_text == nullptr) {
        return;
    }
    tacho_event out;
    begin_event(TACHO_KIND_ERROR, conn, now_us, &out);
    out.error_code = static_cast<uint32_t>(traced->m_sql_errno);
    out.text = bytes_of(traced->m_message_text);
    out.present = TACHO_PRESENT_TEXT;
    emit(probe, thd, tacho_probe_session(probe, conn, now_us), out);
}

} // namespace

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

void set_figures(MYSQL_THD thd, bool rows, tacho_event* out) noexcept {
    memset(out->figures, 0, sizeof(out->figures));
    set_figure(thd, g_figure_names.query_time, TACHO_PRESENT_QUERY_TIME, &out->figures[3], out);
    if (rows) {
        set_rows(thd, out);
    }
}

void note_rows(MYSQL_THD thd, uint32_t level) noexcept {
    if (row_place(level) >= kRowLevels) {
        return;
    }
    // An unknown count is larger than any later one.
    RowCounts counts = {UINT64_MAX, UINT64_MAX};
    (void)figure_of(thd, g_figure_names.rows_sent, &counts.sent);
    (void)figure_of(thd, g_figure_names.rows_examined, &counts.examined);
    t_state.rows_before[row_place(level)] = counts;
}

void start(const tacho_probe* probe, MYSQL_THD thd, uint64_t conn, uint32_t present,
           tacho_bytes text, tacho_bytes charset) noexcept {
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    tacho_event out;
    begin_event(TACHO_KIND_START, conn, now_us, &out);
    out.text_id = text_id(text.data);
    out.present = TACHO_PRESENT_TEXT | present;
    const Identity who = identity_of(thd);
    if ((present & TACHO_PRESENT_OUTERMOST) != 0) {
        remember_caller(who);
    }
    set_identity(who, &out);
    out.strings[TACHO_STRING_DB] = database_of(thd, conn);
    out.strings[TACHO_STRING_COMMAND] = command_name();
    out.strings[TACHO_STRING_CHARSET] = charset;
    out.strings[TACHO_STRING_RESERVED] = {nullptr, 0};
    out.text = text;
    emit(probe, thd, tacho_probe_session(probe, conn, now_us), out);
}

void end_outermost(const tacho_probe* probe, MYSQL_THD thd, uint32_t error_code, bool last,
                   const telemetry_stmt_data_t* traced) noexcept {
    const uint64_t conn = t_state.conn;
    t_state.recorded = 0;
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    error_message(probe, thd, conn, now_us, traced);
    tacho_event out;
    begin_event(TACHO_KIND_END, conn, now_us, &out);
    out.error_code = error_code;
    out.sql_command = t_state.sql_command;
    out.shown_bytes = t_state.shown_bytes;
    out.present = TACHO_PRESENT_OUTERMOST | TACHO_PRESENT_SQL_COMMAND;
    if (traced != nullptr) {
        set_traced(thd, *traced, &out);
    } else if (last) {
        set_figures(thd, true, &out);
    } else {
        out.present |= t_state.figures_present;
        memcpy(out.figures, t_state.figures, sizeof(out.figures));
    }
    emit(probe, thd, tacho_probe_session(probe, conn, now_us), out);
}

void end_innermost(const tacho_probe* probe, uint64_t conn, int32_t sql_command,
                   uint32_t error_code, const telemetry_stmt_data_t* traced,
                   uint32_t level) noexcept {
    MYSQL_THD thd = current_session();
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    error_message(probe, thd, conn, now_us, traced);
    tacho_event out;
    begin_event(TACHO_KIND_END, conn, now_us, &out);
    out.error_code = error_code;
    out.sql_command = sql_command;
    out.shown_bytes = UINT32_MAX;
    out.present = TACHO_PRESENT_INNERMOST | TACHO_PRESENT_SQL_COMMAND;
    if (traced != nullptr) {
        memset(out.figures, 0, sizeof(out.figures));
        set_rows_of_nested(thd, level, &out);
        set_traced_changes(*traced, &out);
        set_traced_error(*traced, &out);
    }
    emit(probe, thd, tacho_probe_session(probe, conn, now_us), out);
}

void point(const tacho_probe* probe, MYSQL_THD thd, tacho_bytes text,
           const telemetry_stmt_data_t* traced) noexcept {
    const uint64_t conn = t_state.conn;
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    error_message(probe, thd, conn, now_us, traced);
    tacho_event out;
    begin_event(TACHO_KIND_POINT, conn, now_us, &out);
    out.error_code = t_state.error_code;
    out.shown_bytes = UINT32_MAX;
    out.present = TACHO_PRESENT_OUTERMOST;
    if (text.len != 0) {
        out.text = text;
        out.present |= TACHO_PRESENT_TEXT;
    }
    set_identity(identity_of(thd), &out);
    out.strings[TACHO_STRING_DB] = database_of(thd, conn);
    out.strings[TACHO_STRING_COMMAND] = command_name();
    out.strings[TACHO_STRING_CHARSET] = charset_as_shown(thd);
    out.strings[TACHO_STRING_RESERVED] = {nullptr, 0};
    set_figures(thd, false, &out);
    if (traced != nullptr) {
        set_traced_error(*traced, &out);
    }
    emit(probe, thd, tacho_probe_session(probe, conn, now_us), out);
}

} // namespace tacho
