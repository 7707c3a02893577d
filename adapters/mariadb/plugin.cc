// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The plugin: descriptor, init, deinit.
#include "../common/message.h"
#include "../common/settings.h"
#include "../common/text_settings.h"
#include "adapter.h"
#include "figures.h"
#include "sql_commands.h"

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Exported by the server, declared in no public header (mysqld.cc).
extern char server_version[];

namespace tacho {

tacho_embed* g_recorder = nullptr;

namespace {

st_mysql_audit g_descriptor = {
    MYSQL_AUDIT_INTERFACE_VERSION,
    nullptr,
    notify,
    {MYSQL_AUDIT_GENERAL_CLASSMASK | MYSQL_AUDIT_CONNECTION_CLASSMASK},
};

void learn_commands(const tacho_embed* recorder) noexcept {
    if (sql_command_count() > 0) {
        // SQLCOM_END: the number after the last one.
        g_event_context.no_command = sql_command_count();
    }
    for (int number = 0; number < sql_command_count(); ++number) {
        const char* name = sql_command_name(number);
        tacho_embed_set_name(recorder, static_cast<uint32_t>(number), name);
        if (strcmp(name, "execute_sql") == 0) {
            g_event_context.execute_command = number;
        }
    }
}

// The absolute path of a setting, which is then shown. Empty stays empty, but the log needs a
// directory.
bool absolute_setting(int32_t setting, char* path) noexcept {
    const char* given = variable_text(setting);
    if (given[0] == '\0' && setting == TACHO_SETTING_DIRECTORY) {
        given = kSettings[setting].default_text;
    }
    path[0] = '\0';
    if (given[0] != '\0' && !absolute_path(given, path, PATH_MAX)) {
        log(kError, "%s: the path is too long", kSettings[setting].full_name);
        return false;
    }
    show_text(setting, path);
    return true;
}

int init(void*) noexcept {
    char why[512] = "";
    if (!sql_commands_load(why, sizeof(why))) {
        log(kWarning, "the log will have no sql_command: %s", why);
    }
    const bool calibrated = figures_calibrate(why, sizeof(why));
    if (why[0] != '\0') {
        log(calibrated ? kNote : kWarning,
            "some statement figures are not available on this server: %s", why);
    }
    const bool tables = variable_number(TACHO_SETTING_TABLES) != 0;
    if (tables) {
        g_descriptor.class_mask[0] |= MYSQL_AUDIT_TABLE_CLASSMASK;
    } else {
        g_descriptor.class_mask[0] &= ~static_cast<unsigned long>(MYSQL_AUDIT_TABLE_CLASSMASK);
    }
    char directory[PATH_MAX];
    char signing_key_file[PATH_MAX];
    if (!absolute_setting(TACHO_SETTING_DIRECTORY, directory) ||
        !absolute_setting(TACHO_SETTING_SIGNING_KEY_FILE, signing_key_file)) {
        return 1;
    }
    char server[256];
    snprintf(server, sizeof(server), "MariaDB %s", server_version);
    const tacho_embed_config config = {
        directory, variable_text(TACHO_SETTING_ARENA_DIRECTORY), signing_key_file, server,
        variable_number(TACHO_SETTING_ARENA_BYTES), &abort_loop, tables,
        // MariaDB's plugins have no access to connection attributes.
        false, variable_number(TACHO_SETTING_WRITER) == TACHO_WRITER_EXTERNAL,
        // Nor can they stop a statement.
        false};
    char error[1024] = "";
    g_recorder = tacho_embed_start(&config, error, sizeof(error));
    if (g_recorder == nullptr) {
        log(kError, "recording cannot start: %s", error);
        my_printf_error(1, "tacho: recording cannot start: %s", MYF(0), error);
        return 1;
    }
    learn_commands(g_recorder);
    apply_variables(g_recorder);
    g_probe = tacho_embed_probe(g_recorder);
    log(kNote, "recording to %s", directory);
    return 0;
}

// The server calls this when no session uses the plugin any more: no event is in flight.
int deinit(void*) noexcept {
    g_probe = nullptr;
    tacho_embed* recorder = g_recorder;
    g_recorder = nullptr;
    if (recorder != nullptr) {
        tacho_embed_stop(recorder, kStopTimeoutMs);
    }
    forget_texts();
    return 0;
}

} // namespace
} // namespace tacho

maria_declare_plugin(tacho){
    MYSQL_AUDIT_PLUGIN,
    &tacho::g_descriptor,
    "tacho",
    "Tachograph",
    "Records everything, loses nothing",
    PLUGIN_LICENSE_GPL,
    tacho::init,
    tacho::deinit,
    0x0001,
    tacho::g_status_variables,
    tacho::g_system_variables,
    TACHO_VERSION,
    MariaDB_PLUGIN_MATURITY_STABLE,
} maria_declare_plugin_end;
