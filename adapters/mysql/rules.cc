// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
#include "rules.h"

#include "database.h"
#include "privilege.h"
#include "records.h"
#include "sql_commands.h"
#include "thread_state.h"

#include <dlfcn.h>
#include <mysqld_error.h>

namespace tacho {

namespace {

void (*g_my_message)(unsigned int, const char*, myf);

// Statements that no client has sent are not blocked: a replica must not stop for a rule.
// Statements of the event scheduler were sent when the event was created.
bool is_of_the_server(uint64_t conn) noexcept {
    return t_state.command == nullptr && t_state.event_conn != conn;
}

Caller caller_of(const Identity& who) noexcept {
    return {who.user.str, who.host.str, who.ip.str};
}

bool ask(const tacho_probe* probe, MYSQL_THD thd, uint64_t conn, tacho_bytes table_db,
         tacho_bytes table, tacho_blocked* out) noexcept {
    // The caller of the running program is unknown: the identity may be that of its definer. So no
    // result is cached.
    const bool unknown = t_state.is_inner && !t_state.has_caller;
    tacho_blocking once = {};
    if (!t_state.has_caller && !unknown) {
        remember_caller(identity_of(thd));
    }
    const Caller caller = unknown ? caller_of(identity_of(thd)) : t_state.caller;
    if (t_state.is_inner) {
        // The database of the program, which no event may have reported; its caller has another
        // one.
        forget_database(conn);
    }
    tacho_block_facts facts;
    facts.session = {bytes_of(caller.user), bytes_of(caller.host), bytes_of(caller.ip),
                     database_of(thd, conn), command_name()};
    facts.table_db = table_db;
    facts.table = table;
    facts.sql_command = t_state.runs;
    facts.reserved = 0;
    const bool blocks =
        tacho_probe_block(probe, unknown ? &once : &t_state.blocking, conn, &facts, out);
    if (t_state.is_inner) {
        forget_database(conn);
    }
    return blocks;
}

void record(const tacho_probe* probe, MYSQL_THD thd, uint64_t conn,
            const tacho_blocked& blocked) noexcept {
    if (!tacho_probe_logging(probe)) {
        return;
    }
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    tacho_event out;
    begin_event(TACHO_KIND_ERROR, conn, now_us, &out);
    out.error_code = blocked.error_code;
    out.text = bytes_of(blocked.name, blocked.name_bytes);
    out.present = TACHO_PRESENT_TEXT | TACHO_PRESENT_BLOCKED;
    emit(probe, thd, tacho_probe_session(probe, conn, now_us), out);
}

void raise_error(const tacho_blocked& blocked) noexcept {
    if (g_my_message != nullptr) {
        g_my_message(blocked.error_code, blocked.message, MYF(0));
    } else {
        mysql_error_service_printf(ER_AUDIT_API_ABORT, MYF(0), blocked.message, 1);
    }
}

[[gnu::cold, gnu::noinline]] uint32_t block(const tacho_probe* probe, uint64_t conn,
                                            tacho_bytes table_db, tacho_bytes table) noexcept {
    if (is_of_the_server(conn)) {
        return 0;
    }
    MYSQL_THD thd = current_session();
    tacho_blocked blocked;
    if (!ask(probe, thd, conn, table_db, table, &blocked) ||
        is_exempt(thd, t_state.runs == kSqlSetOption)) {
        return 0;
    }
    tacho_probe_note_blocked(probe);
    // Raising the error may raise an event with the message. A statement has reserved space in the
    // arena for one error: the rule is worth more. Of two errors without a known statement, the
    // last one counts.
    const bool is_open = t_state.recorded != 0;
    if (is_open) {
        record(probe, thd, conn, blocked);
    }
    raise_error(blocked);
    if (!is_open) {
        record(probe, thd, conn, blocked);
    }
    return blocked.error_code;
}

bool may_block(const tacho_probe* probe, uint64_t conn) noexcept {
    // A table that the first rule skips is still subject to later rules.
    return tacho_probe_may_block(probe, &t_state.blocking, conn, t_state.runs) &&
           !(t_state.conn == conn && t_state.skipped);
}

} // namespace

void load_rules() noexcept {
    g_my_message =
        reinterpret_cast<decltype(g_my_message)>(dlsym(RTLD_DEFAULT, symbols::kMyMessage));
}

void remember_caller(const Identity& who) noexcept {
    t_state.caller = caller_of(who);
    t_state.has_caller = true;
}

uint32_t block_statement(const tacho_probe* probe, uint64_t conn, int32_t sql_command,
                         bool is_inner) noexcept {
    t_state.runs = sql_command;
    t_state.is_inner = is_inner;
    return may_block(probe, conn) ? block(probe, conn, {nullptr, 0}, {nullptr, 0}) : 0;
}

uint32_t block_table(const tacho_probe* probe, uint64_t conn, tacho_bytes db,
                     tacho_bytes table) noexcept {
    return may_block(probe, conn) ? block(probe, conn, db, table) : 0;
}

} // namespace tacho
