// Zone: hot (declarations)
// SPDX-License-Identifier: GPL-2.0-only
//
// Callbacks of the server's event services, and what they share.
#ifndef TACHO_MYSQL_EVENTS_H
#define TACHO_MYSQL_EVENTS_H

#include "adapter.h"

#include <mysql/components/services/mysql_server_telemetry_traces_service.h>

namespace tacho {

// events.cc
mysql_service_status_t notify_query(const mysql_event_tracking_query_data* in) noexcept;
mysql_service_status_t notify_parse(mysql_event_tracking_parse_data* in) noexcept;
mysql_service_status_t notify_command(const mysql_event_tracking_command_data* in) noexcept;
// The message of an error, when it is raised: on 8.0, whose plugins have an event for that.
void notify_error(uint64_t conn, uint32_t error_code, tacho_bytes message) noexcept;
// connections.cc
mysql_service_status_t notify_connection(const mysql_event_tracking_connection_data* in) noexcept;
// tables.cc
mysql_service_status_t
notify_table_access(const mysql_event_tracking_table_access_data* in) noexcept;

// notices.cc
mysql_service_status_t
notify_authentication(const mysql_event_tracking_authentication_data* in) noexcept;
mysql_service_status_t
notify_global_variable(const mysql_event_tracking_global_variable_data* in) noexcept;
mysql_service_status_t notify_message(const mysql_event_tracking_message_data* in) noexcept;
// `text_type`: the type of text attributes, which has another number on 8.0.
void record_message(const mysql_event_tracking_message_data* in, int text_type) noexcept;
mysql_service_status_t
notify_stored_program(const mysql_event_tracking_stored_program_data* in) noexcept;
mysql_service_status_t notify_startup(const mysql_event_tracking_startup_data* in) noexcept;
mysql_service_status_t notify_shutdown(const mysql_event_tracking_shutdown_data* in) noexcept;

// The command of this thread has ended: records its END, or a POINT if nothing has started.
void end_command(const tacho_probe* probe, const telemetry_stmt_data_t* traced) noexcept;

// For events that can only follow the end of a command: if the command still waits for its trace,
// the trace will not arrive.
void settle(const tacho_probe* probe) noexcept;

} // namespace tacho

#endif
