// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// Logins, including refused ones, changes of the user, and the end of a session.
#include "database.h"
#include "events.h"
#include "records.h"
#include "thread_state.h"

namespace tacho {

namespace {

// False: not recorded.
bool kind_of(const mysql_event_tracking_connection_data* in, uint32_t* kind) noexcept {
    switch (in->event_subclass) {
    case EVENT_TRACKING_CONNECTION_CONNECT:
        *kind = TACHO_KIND_CONNECT;
        return true;
    case EVENT_TRACKING_CONNECTION_DISCONNECT:
        *kind = TACHO_KIND_DISCONNECT;
        return true;
    case EVENT_TRACKING_CONNECTION_CHANGE_USER:
        *kind = TACHO_KIND_CHANGE_USER;
        return true;
    default:
        return false;
    }
}

void record(const tacho_probe* probe, tacho_session* session, uint32_t kind, int64_t now_us,
            const mysql_event_tracking_connection_data* in) noexcept {
    tacho_event out;
    begin_event(kind, in->connection_id, now_us, &out);
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

void connection(const tacho_probe* probe, const mysql_event_tracking_connection_data* in) noexcept {
    uint32_t kind = 0;
    if (!kind_of(in, &kind)) {
        return;
    }
    if (kind == TACHO_KIND_CHANGE_USER) {
        tacho_probe_identity_changed(probe);
    }
    const uint64_t conn = in->connection_id;
    keep_database(conn, bytes_of(in->database));
    // A rule for the statements of a session does not apply to this, nor to the next session on
    // this thread.
    t_state.probe.overflow = 0;
    const int64_t now_us = microseconds(CLOCK_REALTIME);
    tacho_session* session = tacho_probe_session(probe, conn, now_us);
    if (tacho_probe_logging(probe) || tacho_probe_has_open(session)) {
        record(probe, session, kind, now_us, in);
    }
    const bool refused = kind == TACHO_KIND_CONNECT && in->status != 0;
    if (kind == TACHO_KIND_DISCONNECT || refused) {
        tacho_probe_forget(probe, &t_state.probe, session);
        forget_database(conn);
    }
}

} // namespace

mysql_service_status_t notify_connection(const mysql_event_tracking_connection_data* in) noexcept {
    const Visit visit(in->connection_id);
    if (visit.probe() != nullptr) {
        enter(visit);
        settle(visit.probe());
        connection(visit.probe(), in);
    }
    return 0;
}

} // namespace tacho
