// Zone: hot and cold (declarations)
// SPDX-License-Identifier: GPL-2.0-only
//
// The services of the server that the component uses, all of them public. The server sets the
// pointers before it calls init.
#ifndef TACHO_MYSQL_SERVICES_H
#define TACHO_MYSQL_SERVICES_H

#include "../common/server_compat.h"

#include <mysql/components/component_implementation.h>
#include <mysql/components/service_implementation.h>
#include <mysql/components/services/bits/mysql_thd_attributes_bits.h>
#include <mysql/components/services/component_status_var_service.h>
#include <mysql/components/services/component_sys_var_service.h>
#include <mysql/components/services/dynamic_loader_service_notification.h>
#include <mysql/components/services/dynamic_privilege.h>
#include <mysql/components/services/event_tracking_authentication_service.h>
#include <mysql/components/services/event_tracking_command_service.h>
#include <mysql/components/services/event_tracking_connection_service.h>
#include <mysql/components/services/event_tracking_global_variable_service.h>
#include <mysql/components/services/event_tracking_lifecycle_service.h>
#include <mysql/components/services/event_tracking_message_service.h>
#include <mysql/components/services/event_tracking_parse_service.h>
#include <mysql/components/services/event_tracking_query_service.h>
#include <mysql/components/services/event_tracking_stored_program_service.h>
#include <mysql/components/services/event_tracking_table_access_service.h>
#include <mysql/components/services/mysql_audit_print_service_longlong_data_source.h>
#include <mysql/components/services/mysql_current_thread_reader.h>
#include <mysql/components/services/mysql_runtime_error_service.h>
#include <mysql/components/services/mysql_server_telemetry_traces_service.h>
#include <mysql/components/services/mysql_string.h>
#include <mysql/components/services/mysql_system_variable.h>
#include <mysql/components/services/mysql_thd_attributes.h>
#include <mysql/components/services/registry.h>
#include <mysql/components/services/security_context.h>
#include <mysql/components/services/udf_metadata.h>
#include <mysql/components/services/udf_registration.h>
#include <mysql/mysql_lex_string.h>

// Each required service, once: EACH(its name). The server passes them to the component, which needs
// all; the plugin looks them up, and can do without the last one.
#define TACHO_SERVICES(EACH)                                                                       \
    EACH(mysql_current_thread_reader)                                                              \
    EACH(mysql_thd_security_context)                                                               \
    EACH(mysql_security_context_options)                                                           \
    EACH(mysql_thd_attributes)                                                                     \
    EACH(mysql_runtime_error)                                                                      \
    EACH(mysql_string_factory)                                                                     \
    EACH(mysql_string_converter)                                                                   \
    EACH(mysql_string_get_data_in_charset)                                                         \
    EACH(mysql_audit_print_service_longlong_data_source)                                           \
    EACH(dynamic_privilege_register)                                                               \
    EACH(global_grants_check)                                                                      \
    EACH(udf_registration)                                                                         \
    EACH(udf_registration_aggregate)                                                               \
    EACH(mysql_udf_metadata)                                                                       \
    EACH(mysql_server_telemetry_traces_v1)

// Further services of the component: its events, variables and status are registered by services.
#define TACHO_COMPONENT_SERVICES(EACH)                                                             \
    EACH(registry_registration)                                                                    \
    EACH(component_sys_variable_register)                                                          \
    EACH(component_sys_variable_unregister)                                                        \
    EACH(status_variable_registration)                                                             \
    EACH(mysql_system_variable_reader)

#define TACHO_DECLARE_SERVICE(service) extern REQUIRES_SERVICE_PLACEHOLDER(service);
#define TACHO_DEFINE_SERVICE(service) REQUIRES_SERVICE_PLACEHOLDER(service);

TACHO_DECLARE_SERVICE(registry)
TACHO_SERVICES(TACHO_DECLARE_SERVICE)

#endif
