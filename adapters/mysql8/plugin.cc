// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The plugin for MySQL 8.0: descriptor, required services, init, deinit. Its records and variables
// are those of the component (adapters/mysql).
#include "../common/message.h"
#include "../common/settings.h"
#include "../common/text_settings.h"
#include "../mysql/adapter.h"
#include "../mysql/event_classes.h"
#include "../mysql/privilege.h"
#include "../mysql/recorder.h"
#include "../mysql/rewrite_functions.h"
#include "../mysql/traces.h"
#include "../mysql/visits.h"
#include "attributes.h"
#include "events.h"
#include "persisted.h"
#include "variables.h"

#include <cstdio>

#include <dlfcn.h>

#include <mysql/service_plugin_registry.h>

TACHO_DEFINE_SERVICE(registry)
TACHO_SERVICES(TACHO_DEFINE_SERVICE)

// The server looks for this name when it loads a plugin, and replaces the requested version by its
// functions.
#define TACHO_REGISTRY_VERSION reinterpret_cast<decltype(plugin_registry_service)>(0x0100)
extern "C" {
decltype(plugin_registry_service) plugin_registry_service = TACHO_REGISTRY_VERSION;
}

namespace tacho {

namespace {

st_mysql_audit g_descriptor = {
    MYSQL_AUDIT_INTERFACE_VERSION,
    nullptr,
    notify,
    {
        0,
        MYSQL_AUDIT_CONNECTION_CONNECT | MYSQL_AUDIT_CONNECTION_DISCONNECT |
            MYSQL_AUDIT_CONNECTION_CHANGE_USER,
        MYSQL_AUDIT_PARSE_PREPARSE,
        0,
        0,
        0,
        0,
        0,
        MYSQL_AUDIT_COMMAND_START | MYSQL_AUDIT_COMMAND_END,
        MYSQL_AUDIT_QUERY_START | MYSQL_AUDIT_QUERY_NESTED_START | MYSQL_AUDIT_QUERY_STATUS_END,
        0,
        0,
        0,
    },
};

// Events that are raised only on request.
struct OnDemand {
    mysql_event_class_t event_class;
    uint32_t classes;
    unsigned long mask;
};

constexpr OnDemand kOnDemand[] = {
    {MYSQL_AUDIT_TABLE_ACCESS_CLASS, kClassTableAccess, MYSQL_AUDIT_TABLE_ACCESS_ALL},
    {MYSQL_AUDIT_AUTHENTICATION_CLASS, kClassAuthentication, MYSQL_AUDIT_AUTHENTICATION_ALL},
    {MYSQL_AUDIT_GLOBAL_VARIABLE_CLASS, kClassGlobalVariable, MYSQL_AUDIT_GLOBAL_VARIABLE_SET},
    {MYSQL_AUDIT_SERVER_STARTUP_CLASS, kClassLifecycle, MYSQL_AUDIT_SERVER_STARTUP_ALL},
    {MYSQL_AUDIT_SERVER_SHUTDOWN_CLASS, kClassLifecycle, MYSQL_AUDIT_SERVER_SHUTDOWN_ALL},
    {MYSQL_AUDIT_MESSAGE_CLASS, kClassMessage, MYSQL_AUDIT_MESSAGE_ALL},
    {MYSQL_AUDIT_STORED_PROGRAM_CLASS, kClassStoredProgram, MYSQL_AUDIT_STORED_PROGRAM_ALL},
};

// Destination of a service pointer: all of them are pointers.
struct Required {
    const char* name;
    const void** slot;
};

#define TACHO_REQUIRED(service)                                                                    \
    Required{#service, reinterpret_cast<const void**>(&mysql_service_##service)},

// The last one is only for traces.
const Required g_required[] = {TACHO_SERVICES(TACHO_REQUIRED)};
constexpr size_t kRequiredCount = sizeof(g_required) / sizeof(g_required[0]);

void release_services() noexcept {
    restore_attributes();
    for (const Required& required : g_required) {
        if (*required.slot != nullptr) {
            auto* service = const_cast<void*>(*required.slot);
            mysql_service_registry->release(reinterpret_cast<my_h_service>(service));
            *required.slot = nullptr;
        }
    }
    if (mysql_service_registry != nullptr) {
        mysql_plugin_registry_release(mysql_service_registry);
        mysql_service_registry = nullptr;
    }
    // The library stays mapped: the next INSTALL PLUGIN finds it in this state.
    plugin_registry_service = TACHO_REGISTRY_VERSION;
}

bool acquire_services() noexcept {
    mysql_service_registry = mysql_plugin_registry_acquire();
    if (mysql_service_registry == nullptr) {
        log(kError, "%s", "recording cannot start: the server has no registry of services");
        return false;
    }
    for (const Required& required : g_required) {
        my_h_service service = nullptr;
        if (mysql_service_registry->acquire(required.name, &service) != 0) {
            if (&required == &g_required[kRequiredCount - 1]) {
                break;
            }
            log(kError, "recording cannot start: the server has no service %s", required.name);
            return false;
        }
        *required.slot = service;
    }
    extend_attributes();
    return true;
}

// The server reads the masks after init.
void subscribe() noexcept {
    for (const OnDemand& one : kOnDemand) {
        g_descriptor.class_mask[one.event_class] = takes(one.classes) ? one.mask : 0;
    }
    g_descriptor.class_mask[MYSQL_AUDIT_GENERAL_CLASS] = MYSQL_AUDIT_GENERAL_ERROR;
    if (!sets_persisted_after_init()) {
        return;
    }
    // After init the server sets persisted variables, and raises an event for each, or an error.
    // For that it locks its list of plugins, which it already holds: it would hang for ever. These
    // events are raised then.
    g_descriptor.class_mask[MYSQL_AUDIT_GENERAL_CLASS] = 0;
    log(kWarning, "%s",
        "variables are persisted: until the server starts anew, errors of what is not traced have "
        "no message, since INSTALL PLUGIN could hang this server otherwise");
    if (takes(kClassGlobalVariable)) {
        g_descriptor.class_mask[MYSQL_AUDIT_GLOBAL_VARIABLE_CLASS] = 0;
        log(kWarning, "%s",
            "variables are persisted: GLOBAL_VARIABLE of tacho_event_classes begins when the "
            "server starts anew, since INSTALL PLUGIN would hang this server otherwise");
    }
}

bool begin() noexcept {
    if (!variables_are_complete()) {
        log(kError, "%s", "recording cannot start: this build has more variables than room");
        return false;
    }
    // Before a thread is started. The server keeps the addresses of trace callbacks in sessions,
    // and continues to call them.
    if (!keep_library()) {
        log(kError, "recording cannot start: the library cannot be kept: %s", dlerror());
        return false;
    }
    if (!acquire_services() || !read_event_classes()) {
        return false;
    }
    const auto* version = static_cast<const char*>(dlsym(RTLD_DEFAULT, symbols::kServerVersion));
    char server[256];
    snprintf(server, sizeof(server), "MySQL %s", version != nullptr ? version : "8.0");
    if (!start_recorder(server)) {
        return false;
    }
    make_figure_names();
    check_command_numbers();
    if (!register_privileges()) {
        log(kError, "%s", "recording cannot start: the server does not take what is needed");
        return false;
    }
    subscribe();
    open_visits(tacho_embed_probe(g_recorder));
    note_own_statement();
    apply_traces(variable_number(TACHO_SETTING_TRACES));
    open_rewrite_functions(g_recorder);
    return true;
}

// Between a successful init and its deinit.
bool g_runs;

// The error log alone has the reason for a refused INSTALL PLUGIN: the server replaces a plugin's
// message to the client by its own.
int init(MYSQL_PLUGIN) noexcept {
    g_runs = begin();
    if (g_runs) {
        return 0;
    }
    if (g_recorder != nullptr) {
        (void)unregister_privileges();
        stop_recorder();
        free_figure_names();
    }
    give_back_texts();
    release_services();
    return 1;
}

// UNINSTALL PLUGIN begins. Each session that had an event holds the plugin until it ends.
int begin_uninstall(MYSQL_PLUGIN) noexcept {
    // Until then the server continues to look up the plugins of new sessions at each event of this
    // class, and the event of INSTALL PLUGIN for any other plugin would hang it: as in `subscribe`.
    if (g_descriptor.class_mask[MYSQL_AUDIT_GLOBAL_VARIABLE_CLASS] != 0) {
        log(kError, "%s",
            "UNINSTALL PLUGIN is refused: with GLOBAL_VARIABLE in tacho_event_classes the next "
            "INSTALL PLUGIN could hang this server; take it away, and start the server anew");
        return 1;
    }
    log(kNote, "%s",
        "UNINSTALL PLUGIN: sessions that are recorded stay so until they end, and new ones are not "
        "recorded from now on");
    return 0;
}

// The server calls this when no session uses the plugin any more: none of its events is in flight,
// and none waits for space. A trace may be, of a session that is not recorded. It is also called
// after a failed init (8.0.33), which has left nothing behind.
int deinit(MYSQL_PLUGIN) noexcept {
    if (!g_runs) {
        return 0;
    }
    g_runs = false;
    apply_traces(TACHO_TRACES_OFF);
    while (!close_visits(kStopTimeoutMs)) {
        log(kWarning, "%s", "the end of a trace takes long: the plugin waits for it");
    }
    (void)unregister_privileges();
    close_rewrite_functions();
    stop_recorder();
    give_back_texts();
    forget_texts();
    free_figure_names();
    release_services();
    return 0;
}

} // namespace
} // namespace tacho

mysql_declare_plugin(tacho){
    MYSQL_AUDIT_PLUGIN,
    &tacho::g_descriptor,
    "tacho",
    "Tachograph",
    "Records everything, loses nothing",
    PLUGIN_LICENSE_GPL,
    tacho::init,
    tacho::begin_uninstall,
    tacho::deinit,
    0x0001,
    tacho::status_variables(),
    tacho::g_system_variables,
    nullptr,
    0,
} mysql_declare_plugin_end;
