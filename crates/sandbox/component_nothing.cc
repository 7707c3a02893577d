/* SPDX-License-Identifier: MIT
 *
 * A component that does nothing: the cost of MySQL's events alone. It uses the services
 * that component_tacho uses, so the difference between the two is tacho.
 *
 * As there, the services are registered by init and stay so: a component that lists them as
 * provided cannot be uninstalled while sessions hold them (docs/specs/mysql-events.md).
 *
 * Compiled against the server's headers it is under GPL-2.0-only as a whole, taking this under MIT.
 */
#include <dlfcn.h>

#include <mysql/components/component_implementation.h>
#include <mysql/components/service_implementation.h>
#include <mysql/components/services/dynamic_loader_service_notification.h>
#include <mysql/components/services/event_tracking_command_service.h>
#include <mysql/components/services/event_tracking_connection_service.h>
#include <mysql/components/services/event_tracking_parse_service.h>
#include <mysql/components/services/event_tracking_query_service.h>
#include <mysql/components/services/registry.h>

// Defined by BEGIN_COMPONENT_REQUIRES.
extern REQUIRES_SERVICE_PLACEHOLDER(registry);
REQUIRES_SERVICE_PLACEHOLDER(registry_registration);

namespace {

mysql_service_status_t command(const mysql_event_tracking_command_data*) {
    return 0;
}
mysql_service_status_t connection(const mysql_event_tracking_connection_data*) {
    return 0;
}
mysql_service_status_t parse(mysql_event_tracking_parse_data*) {
    return 0;
}
mysql_service_status_t query(const mysql_event_tracking_query_data*) {
    return 0;
}

SERVICE_TYPE_NO_CONST(event_tracking_command) g_command = {command};
SERVICE_TYPE_NO_CONST(event_tracking_connection) g_connection = {connection};
SERVICE_TYPE_NO_CONST(event_tracking_parse) g_parse = {parse};
SERVICE_TYPE_NO_CONST(event_tracking_query) g_query = {query};

const char* g_names[] = {"event_tracking_command.nothing", "event_tracking_connection.nothing",
                         "event_tracking_parse.nothing", "event_tracking_query.nothing"};
void* const g_services[] = {&g_command, &g_connection, &g_parse, &g_query};
constexpr unsigned kCount = 4;

// Known again at the next INSTALL: the library stays where it is.
bool g_registered = false;

template <typename Notification> bool tell(const char* notification) {
    my_h_service handle = nullptr;
    if (mysql_service_registry->acquire(notification, &handle)) {
        return false;
    }
    const bool told = !reinterpret_cast<Notification*>(handle)->notify(g_names, kCount);
    mysql_service_registry->release(handle);
    return told;
}

mysql_service_status_t init() {
    Dl_info info;
    if (dladdr(&g_registered, &info) == 0 ||
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) == nullptr) {
        return 1;
    }
    for (unsigned i = 0; !g_registered && i < kCount; ++i) {
        if (mysql_service_registry_registration->register_service(
                g_names[i], reinterpret_cast<my_h_service>(g_services[i]))) {
            return 1;
        }
    }
    g_registered = true;
    return tell<SERVICE_TYPE(dynamic_loader_services_loaded_notification)>(
               "dynamic_loader_services_loaded_notification")
               ? 0
               : 1;
}

mysql_service_status_t deinit() {
    return tell<SERVICE_TYPE(dynamic_loader_services_unload_notification)>(
               "dynamic_loader_services_unload_notification")
               ? 0
               : 1;
}

} // namespace

BEGIN_COMPONENT_PROVIDES(component_nothing)
END_COMPONENT_PROVIDES();

BEGIN_COMPONENT_REQUIRES(component_nothing)
REQUIRES_SERVICE(registry_registration), END_COMPONENT_REQUIRES();

BEGIN_COMPONENT_METADATA(component_nothing)
METADATA("mysql.author", "Tachograph"), METADATA("mysql.license", "GPL"), END_COMPONENT_METADATA();

DECLARE_COMPONENT(component_nothing, "nothing")
init, deinit END_DECLARE_COMPONENT();

DECLARE_LIBRARY_COMPONENTS& COMPONENT_REF(component_nothing) END_DECLARE_LIBRARY_COMPONENTS
