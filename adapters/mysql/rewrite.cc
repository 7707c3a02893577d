// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
#include "rewrite.h"

#include "../common/message.h"
#include "charset.h"
#include "database.h"
#include "privilege.h"
#include "records.h"
#include "sql_mode.h"
#include "thread_state.h"

#include <dlfcn.h>

namespace tacho {

namespace {

void* (*g_my_malloc)(unsigned int key, size_t bytes, int flags);

// Key 0 is PSI_NOT_INSTRUMENTED; with flags 0, the server reports nothing when memory is exhausted.
void* allocate(size_t bytes) noexcept {
    return g_my_malloc(0, bytes, 0);
}

bool is_exempt_session() noexcept {
    return is_granted_exempt(current_session());
}

constexpr tacho_rewrite_server kServer = {is_exempt_session, allocate};

// The START of the statement, or of the one that prepares it, is in the arena, and is still open.
void record(const tacho_probe* probe, MYSQL_THD thd, uint64_t conn,
            const tacho_rewritten& rewritten) noexcept {
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    tacho_event out;
    begin_event(TACHO_KIND_REWRITE, conn, now_us, &out);
    clear_strings(&out);
    memset(out.figures, 0, sizeof(out.figures));
    out.figures[0] = rewritten.rule_id;
    out.text = rewritten.text;
    out.present = TACHO_PRESENT_TEXT | TACHO_PRESENT_FIGURES;
    emit(probe, thd, tacho_probe_session(probe, conn, now_us), out);
}

// The text of SQL PREPARE has the character set of the statement: the server reports binary while
// it has another text of that statement for its logs.
tacho_bytes charset(MYSQL_THD thd) noexcept {
    if (t_state.charset.len == 0) {
        t_state.charset = charset_of(thd);
    }
    return t_state.charset;
}

[[gnu::cold, gnu::noinline]] void ask(const tacho_probe* probe,
                                      mysql_event_tracking_parse_data* in) noexcept {
    const uint64_t conn = in->connection_id;
    MYSQL_THD thd = current_session();
    tacho_rewrite_facts facts;
    facts.text = bytes_of(in->query);
    facts.db = database_of(thd, conn);
    facts.charset = charset(thd);
    facts.conn = conn;
    facts.modes = sql_modes_of(thd);
    facts.reserved = 0;
    tacho_rewritten rewritten;
    if (!tacho_probe_rewrite(probe, &facts, &kServer, &rewritten)) {
        return;
    }
    if ((t_state.recorded & 1) != 0) {
        record(probe, thd, conn, rewritten);
    }
    *in->rewritten_query = {rewritten.text.data, rewritten.text.len};
    *in->flags |= EVENT_TRACKING_PARSE_REWRITE_QUERY_REWRITTEN;
}

} // namespace

void load_rewrite() noexcept {
    find_sql_mode();
    g_my_malloc = reinterpret_cast<decltype(g_my_malloc)>(dlsym(RTLD_DEFAULT, symbols::kMyMalloc));
    if (g_my_malloc == nullptr) {
        log(kWarning, "%s",
            "this server does not export its allocator: rules that rewrite do nothing");
    }
}

void rewrite(const tacho_probe* probe, mysql_event_tracking_parse_data* in) noexcept {
    // Another plugin's text is left alone: it is unknown here, and would be lost without being
    // freed.
    if (tacho_probe_may_rewrite(probe, bytes_of(in->query)) && g_my_malloc != nullptr &&
        (*in->flags & EVENT_TRACKING_PARSE_REWRITE_QUERY_REWRITTEN) == 0) {
        ask(probe, in);
    }
}

} // namespace tacho
