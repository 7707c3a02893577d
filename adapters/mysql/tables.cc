// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// The tables that a statement accesses (tacho.tables=ON). The server raises one event for each
// table that it has opened, and does not execute the statement if the callback refuses.
#include "event_classes.h"
#include "events.h"
#include "records.h"
#include "rules.h"
#include "thread_state.h"

namespace tacho {

namespace {

// A digit, and letters for what the server does not report (crates/recorder/src/line/calls.rs): F
// the tables of stored functions, K child tables of foreign keys.
constexpr tacho_bytes kRead =
    kEngineChecksForeignKeys ? tacho_bytes{"0FK", 3} : tacho_bytes{"0F", 2};
constexpr tacho_bytes kWrite =
    kEngineChecksForeignKeys ? tacho_bytes{"1FK", 3} : tacho_bytes{"1F", 2};

void table(const tacho_probe* probe, const mysql_event_tracking_table_access_data* in) noexcept {
    const uint64_t conn = in->connection_id;
    if ((t_state.conn == conn && t_state.skipped) || !tacho_probe_logging(probe)) {
        return;
    }
    const bool reads = in->event_subclass == EVENT_TRACKING_TABLE_ACCESS_READ;
    const int64_t now_us = microseconds(CLOCK_REALTIME_COARSE);
    tacho_session* session = tacho_probe_session(probe, conn, now_us);
    tacho_event out;
    begin_event(TACHO_KIND_TABLE, conn, session == nullptr ? microseconds(CLOCK_REALTIME) : now_us,
                &out);
    clear_strings(&out);
    out.strings[TACHO_STRING_USER] = reads ? kRead : kWrite;
    out.strings[TACHO_STRING_DB] = bytes_of(in->table_database);
    out.strings[TACHO_STRING_PRIV_USER] = bytes_of(in->table_name);
    emit(probe, current_session(), session, out);
}

} // namespace

mysql_service_status_t
notify_table_access(const mysql_event_tracking_table_access_data* in) noexcept {
    const Visit visit(in->connection_id);
    if (visit.probe() != nullptr && takes(kClassTableAccess)) {
        enter(visit);
        table(visit.probe(), in);
        return block_table(visit.probe(), in->connection_id, bytes_of(in->table_database),
                           bytes_of(in->table_name)) != 0
                   ? 1
                   : 0;
    }
    return 0;
}

} // namespace tacho
