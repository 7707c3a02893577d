// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The component: required services, init, deinit.
//
// init registers the event services; they are not listed as services that the component provides.
// The server refuses to unload a component while a session holds a reference to one of its
// services, and every session holds one from its first event to its end; and the attempt, although
// refused, turns the events off (9.7.4). So this library stays mapped (RTLD_NODELETE), its services
// stay registered, and after UNINSTALL COMPONENT they do nothing. docs/specs/mysql-events.md,
// "Install and uninstall".
#include "../common/message.h"
#include "../common/settings.h"
#include "adapter.h"
#include "event_classes.h"
#include "events.h"
#include "privilege.h"
#include "recorder.h"
#include "rewrite_functions.h"
#include "session.h"
#include "text_variables.h"
#include "traces.h"
#include "visits.h"

#include <cstdio>
#include <cstring>

#include <mysql_version.h>

TACHO_SERVICES(TACHO_DEFINE_SERVICE)
TACHO_COMPONENT_SERVICES(TACHO_DEFINE_SERVICE)

namespace tacho {

namespace {

struct EventService {
    const char* name;
    void* implementation;
    // Registered if one of these classes is requested; 0: always.
    uint32_t classes;
};

SERVICE_TYPE_NO_CONST(event_tracking_query) g_query = {notify_query};
SERVICE_TYPE_NO_CONST(event_tracking_parse) g_parse = {notify_parse};
SERVICE_TYPE_NO_CONST(event_tracking_command) g_command = {notify_command};
SERVICE_TYPE_NO_CONST(event_tracking_connection) g_connection = {notify_connection};
SERVICE_TYPE_NO_CONST(event_tracking_table_access) g_table_access = {notify_table_access};
SERVICE_TYPE_NO_CONST(event_tracking_authentication) g_authentication = {notify_authentication};
SERVICE_TYPE_NO_CONST(event_tracking_global_variable)
g_global_variable = {notify_global_variable};
SERVICE_TYPE_NO_CONST(event_tracking_lifecycle) g_lifecycle = {notify_startup, notify_shutdown};
SERVICE_TYPE_NO_CONST(event_tracking_message) g_message = {notify_message};
SERVICE_TYPE_NO_CONST(event_tracking_stored_program) g_stored_program = {notify_stored_program};

EventService g_services[] = {
    {"event_tracking_command.tacho", &g_command, 0},
    {"event_tracking_connection.tacho", &g_connection, 0},
    {"event_tracking_parse.tacho", &g_parse, 0},
    {"event_tracking_query.tacho", &g_query, 0},
    {"event_tracking_table_access.tacho", &g_table_access, kClassTableAccess},
    {"event_tracking_authentication.tacho", &g_authentication, kClassAuthentication},
    {"event_tracking_global_variable.tacho", &g_global_variable, kClassGlobalVariable},
    {"event_tracking_lifecycle.tacho", &g_lifecycle, kClassLifecycle},
    {"event_tracking_message.tacho", &g_message, kClassMessage},
    {"event_tracking_stored_program.tacho", &g_stored_program, kClassStoredProgram},
};
constexpr size_t kServiceCount = sizeof(g_services) / sizeof(g_services[0]);

// The library is loaded once in the life of a server, so this is still known at the next INSTALL.
bool g_registered[kServiceCount];

bool is_wanted(const EventService& service) noexcept {
    return service.classes == 0 || takes(service.classes);
}

// How long deinit waits after recording was stopped.
constexpr uint64_t kCloseTimeoutMs = 1000;

bool register_services() noexcept {
    for (size_t i = 0; i < kServiceCount; ++i) {
        if (g_registered[i] || !is_wanted(g_services[i])) {
            continue;
        }
        if (mysql_service_registry_registration->register_service(
                g_services[i].name, reinterpret_cast<my_h_service>(g_services[i].implementation)) !=
            0) {
            log(kError, "the server does not take the service %s", g_services[i].name);
            return false;
        }
        g_registered[i] = true;
    }
    return true;
}

// Notifies the server's caches of services.
template <typename Notification> bool notify(const char* notification) noexcept {
    my_h_service handle = nullptr;
    if (mysql_service_registry->acquire(notification, &handle) != 0) {
        return false;
    }
    const char* names[kServiceCount];
    size_t count = 0;
    for (const EventService& service : g_services) {
        if (is_wanted(service)) {
            names[count++] = service.name;
        }
    }
    const bool accepted = reinterpret_cast<Notification*>(handle)->notify(
                              names, static_cast<unsigned int>(count)) == 0;
    mysql_service_registry->release(handle);
    return accepted;
}

// The server's own component, without which there are no events.
bool has_events() noexcept {
    my_h_service handle = nullptr;
    if (mysql_service_registry->acquire("reference_caching_channel", &handle) != 0) {
        log(kError, "%s",
            "this server raises no events: component_reference_cache.so is missing in its plugin "
            "directory");
        return false;
    }
    mysql_service_registry->release(handle);
    return true;
}

// From now on the component's services receive events.
bool notify_loaded() noexcept {
    return notify<SERVICE_TYPE(dynamic_loader_services_loaded_notification)>(
        "dynamic_loader_services_loaded_notification");
}

// From now on they receive none.
bool notify_unloaded() noexcept {
    return notify<SERVICE_TYPE(dynamic_loader_services_unload_notification)>(
        "dynamic_loader_services_unload_notification");
}

SHOW_VAR* g_status;

bool register_status() noexcept {
    SHOW_VAR* variables = status_variables();
    if (mysql_service_status_variable_registration->register_variable(variables) != 0) {
        return false;
    }
    g_status = variables;
    return true;
}

bool unregister_status() noexcept {
    if (g_status != nullptr &&
        mysql_service_status_variable_registration->unregister_variable(g_status) != 0) {
        return false;
    }
    g_status = nullptr;
    return true;
}

// The value of a global variable; `component` is "mysql_server" for one of the server's own. False:
// it does not exist, or is too long.
template <size_t kSize>
bool read_variable(const char* component, const char* name, char (&value)[kSize]) noexcept {
    memset(value, 0, kSize);
    void* room = value;
    // Leaves space for a NUL.
    size_t bytes = kSize - 1;
    return mysql_service_mysql_system_variable_reader->get(current_session(), "GLOBAL", component,
                                                           name, &room, &bytes) == 0;
}

// Whether the server's own subscriber has the traces, before this component subscribes.
bool has_other_subscriber() noexcept {
    char value[8];
    return read_variable("telemetry", "trace_enabled", value) && strcmp(value, "ON") == 0;
}

// The server's name in the log.
void name_server(char* name, size_t room) noexcept {
    char version[256];
    // If the server does not report its version, that of the headers: the server may be a newer one
    // of the same series.
    const bool is_known = read_variable("mysql_server", "version", version) && version[0] != '\0';
    snprintf(name, room, "MySQL %s", is_known ? version : MYSQL_SERVER_VERSION);
}

bool begin() noexcept {
    if (!has_events() || !register_variables() || !register_text_variables() ||
        !read_event_classes()) {
        return false;
    }
    char server[264];
    name_server(server, sizeof(server));
    if (!start_recorder(server)) {
        return false;
    }
    make_figure_names();
    if (!register_privileges() || !register_status() || !keep_library() || !register_services()) {
        log(kError, "%s", "recording cannot start: the server does not take what is needed");
        return false;
    }
    open_visits(tacho_embed_probe(g_recorder));
    note_own_statement();
    if (!notify_loaded()) {
        log(kError, "%s", "recording cannot start: the server has no cache of services");
        // The server knows no service yet, so no thread is inside.
        (void)close_visits(0);
        return false;
    }
    const uint64_t traces = variable_number(TACHO_SETTING_TRACES);
    if (traces != TACHO_TRACES_OFF && has_other_subscriber()) {
        log(kWarning, "%s",
            "tacho.traces takes the server's traces from component_telemetry, which exports none "
            "from now on: tacho.traces=OFF leaves them there");
    }
    apply_traces(traces);
    open_rewrite_functions(g_recorder);
    return true;
}

mysql_service_status_t init() noexcept {
    if (begin()) {
        return 0;
    }
    // None of this is in use yet, and unregistering has no effect on the rest.
    (void)unregister_privileges();
    (void)unregister_status();
    (void)unregister_text_variables();
    (void)unregister_variables();
    stop_recorder();
    free_figure_names();
    return 1;
}

// The component stays.
void resume() noexcept {
    if (!register_privileges()) {
        log(kWarning, "%s", "TACHO_ADMIN and TACHO_EXEMPT are gone: only SUPER counts");
    }
    (void)notify_loaded();
    apply_traces(variable_number(TACHO_SETTING_TRACES));
}

mysql_service_status_t deinit() noexcept {
    static const char kWaits[] =
        "a session waits for space in the arena: the component stays, and recording continues";
    // Nothing was changed: no record is lost.
    if (!await_visits(kStopTimeoutMs)) {
        log(kError, "%s", kWaits);
        return 1;
    }
    // This may wait for the commit of another session's GRANT, so it is done while recording is
    // still on.
    if (!unregister_privileges()) {
        log(kError, "%s", "the privileges cannot be taken back: the component stays");
        // One of them may be unregistered.
        (void)register_privileges();
        return 1;
    }
    apply_traces(TACHO_TRACES_OFF);
    if (!notify_unloaded()) {
        log(kWarning, "%s", "the server still raises events for a component that is gone");
    }
    // The arena may have become full since, but this is unlikely.
    if (!close_visits(kCloseTimeoutMs)) {
        log(kError, "%s", kWaits);
        log(kWarning, "%s", "what other sessions did in the last second is not recorded");
        resume();
        return 1;
    }
    if (!unregister_status() || !unregister_text_variables() || !unregister_variables()) {
        log(kError, "%s", "a variable is in use: the component stays, and recording continues");
        open_visits(tacho_embed_probe(g_recorder));
        resume();
        return 1;
    }
    // From here on, deinit cannot fail.
    close_rewrite_functions();
    end_own_statement(tacho_embed_probe(g_recorder));
    stop_recorder();
    free_figure_names();
    return 0;
}

} // namespace

bool register_variable(const char* name, int flags, const char* comment,
                       mysql_sys_var_check_func check, mysql_sys_var_update_func update,
                       void* check_arg, void* value) noexcept {
    return mysql_service_component_sys_variable_register->register_variable(
               "tacho", name, flags, comment, check, update, check_arg, value) == 0;
}

bool unregister_variable(const char* name) noexcept {
    return mysql_service_component_sys_variable_unregister->unregister_variable("tacho", name) == 0;
}

} // namespace tacho

BEGIN_COMPONENT_PROVIDES(component_tacho)
END_COMPONENT_PROVIDES();

#define TACHO_REQUIRE_SERVICE(service) REQUIRES_SERVICE(service),

BEGIN_COMPONENT_REQUIRES(component_tacho)
TACHO_SERVICES(TACHO_REQUIRE_SERVICE)
TACHO_COMPONENT_SERVICES(TACHO_REQUIRE_SERVICE)
END_COMPONENT_REQUIRES();

BEGIN_COMPONENT_METADATA(component_tacho)
METADATA("mysql.author", "Tachograph"), METADATA("mysql.license", "GPL"),
    METADATA("tacho.version", TACHO_VERSION), END_COMPONENT_METADATA();

DECLARE_COMPONENT(component_tacho, "tacho")
tacho::init, tacho::deinit END_DECLARE_COMPONENT();

DECLARE_LIBRARY_COMPONENTS& COMPONENT_REF(component_tacho) END_DECLARE_LIBRARY_COMPONENTS
