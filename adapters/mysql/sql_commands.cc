// Zone: hot (sql_command_number), cold (the rest)
// SPDX-License-Identifier: GPL-2.0-only
//
// MySQL's events name the SQL command; a record has a number. These numbers are indices of this
// list, whose order is that of 9.7's enum_sql_command (sql/command_mapping.cc). A name that a later
// release adds is not found, and left out of the record.
#include "sql_commands.h"

#include <cstdint>
#include <cstring>

namespace tacho {

namespace {

constexpr const char* kNames[] = {"select",
                                  "create_table",
                                  "create_index",
                                  "alter_table",
                                  "update",
                                  "insert",
                                  "insert_select",
                                  "delete",
                                  "truncate",
                                  "drop_table",
                                  "drop_index",
                                  "show_databases",
                                  "show_tables",
                                  "show_fields",
                                  "show_keys",
                                  "show_variables",
                                  "show_status",
                                  "show_engine_logs",
                                  "show_engine_status",
                                  "show_engine_mutex",
                                  "show_processlist",
                                  "show_master_stat",
                                  "show_slave_stat",
                                  "show_grants",
                                  "show_create",
                                  "show_charsets",
                                  "show_collations",
                                  "show_create_db",
                                  "show_table_status",
                                  "show_triggers",
                                  "load",
                                  "set_option",
                                  "lock_tables",
                                  "unlock_tables",
                                  "grant",
                                  "change_db",
                                  "create_db",
                                  "drop_db",
                                  "alter_db",
                                  "repair",
                                  "replace",
                                  "replace_select",
                                  "create_function",
                                  "drop_function",
                                  "revoke",
                                  "optimize",
                                  "check",
                                  "assign_to_keycache",
                                  "preload_keys",
                                  "flush",
                                  "kill",
                                  "analyze",
                                  "rollback",
                                  "rollback_to_savepoint",
                                  "commit",
                                  "savepoint",
                                  "release_savepoint",
                                  "slave_start",
                                  "slave_stop",
                                  "start_group_replication",
                                  "stop_group_replication",
                                  "begin",
                                  "change_master",
                                  "change_replication_filter",
                                  "rename_table",
                                  "reset",
                                  "purge",
                                  "purge_before",
                                  "show_binlogs",
                                  "show_open_tables",
                                  "ha_open",
                                  "ha_close",
                                  "ha_read",
                                  "show_slave_hosts",
                                  "delete_multi",
                                  "update_multi",
                                  "show_binlog_events",
                                  "do",
                                  "show_warns",
                                  "empty_query",
                                  "show_errors",
                                  "show_storage_engines",
                                  "show_privileges",
                                  "help",
                                  "create_user",
                                  "drop_user",
                                  "rename_user",
                                  "revoke_all",
                                  "checksum",
                                  "create_procedure",
                                  "create_spfunction",
                                  "call",
                                  "drop_procedure",
                                  "alter_procedure",
                                  "alter_function",
                                  "show_create_proc",
                                  "show_create_func",
                                  "show_status_proc",
                                  "show_status_func",
                                  "prepare",
                                  "execute",
                                  "deallocate_prepare",
                                  "create_view",
                                  "drop_view",
                                  "create_trigger",
                                  "drop_trigger",
                                  "xa_start",
                                  "xa_end",
                                  "xa_prepare",
                                  "xa_commit",
                                  "xa_rollback",
                                  "xa_recover",
                                  "show_proc_code",
                                  "show_func_code",
                                  "alter_tablespace",
                                  "install_plugin",
                                  "uninstall_plugin",
                                  "binlog_base64_event",
                                  "show_plugins",
                                  "create_server",
                                  "drop_server",
                                  "alter_server",
                                  "create_event",
                                  "alter_event",
                                  "drop_event",
                                  "show_create_event",
                                  "show_events",
                                  "show_create_trigger",
                                  "show_profile",
                                  "show_profiles",
                                  "signal",
                                  "resignal",
                                  "show_relaylog_events",
                                  "get_diagnostics",
                                  "alter_user",
                                  "explain_other",
                                  "show_create_user",
                                  "shutdown",
                                  "set_password",
                                  "alter_instance",
                                  "install_component",
                                  "uninstall_component",
                                  "create_role",
                                  "drop_role",
                                  "set_role",
                                  "grant_role",
                                  "revoke_role",
                                  "alter_user_default_role",
                                  "import",
                                  "create_resource_group",
                                  "alter_resource_group",
                                  "drop_resource_group",
                                  "set_resource_group",
                                  "clone",
                                  "lock_instance",
                                  "unlock_instance",
                                  "restart_server",
                                  "create_srs",
                                  "drop_srs",
                                  "show_parse_tree",
                                  "create_library",
                                  "drop_library",
                                  "show_create_library"};
constexpr size_t kNameCount = sizeof(kNames) / sizeof(kNames[0]);

constexpr bool same(const char* one, const char* other) {
    while (*one != '\0' && *one == *other) {
        ++one;
        ++other;
    }
    return *one == *other;
}
static_assert(same(kNames[kSqlChangeDb], "change_db") && same(kNames[kSqlDropDb], "drop_db") &&
                  same(kNames[kSqlCall], "call") && same(kNames[kSqlSetOption], "set_option") &&
                  same(kNames[kSqlPrepare], "prepare"),
              "their places");

// Open addressing; four times as many slots as names, so that a search ends soon.
constexpr size_t kPlaces = 1024;
static_assert(kPlaces >= 4 * kNameCount && kNameCount < 0xffff, "room, and numbers fit");
constexpr uint16_t kEmpty = 0xffff;
uint16_t g_places[kPlaces];

// FNV-1a: the names are short.
uint32_t hash_of(const char* name) noexcept {
    uint32_t hash = 2166136261U;
    for (; *name != '\0'; ++name) {
        hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619U;
    }
    return hash;
}

} // namespace

void sql_commands_load(const tacho_embed* recorder) noexcept {
    for (uint16_t& place : g_places) {
        place = kEmpty;
    }
    for (size_t number = 0; number < kNameCount; ++number) {
        uint32_t place = hash_of(kNames[number]);
        while (g_places[place % kPlaces] != kEmpty) {
            ++place;
        }
        g_places[place % kPlaces] = static_cast<uint16_t>(number);
        tacho_embed_set_name(recorder, static_cast<uint32_t>(number), kNames[number]);
    }
}

const char* sql_command_name(size_t number) noexcept {
    return number < kNameCount ? kNames[number] : nullptr;
}

int32_t sql_command_number(const char* name) noexcept {
    if (name == nullptr || name[0] == '\0') {
        return -1;
    }
    for (uint32_t place = hash_of(name);; ++place) {
        const uint16_t number = g_places[place % kPlaces];
        if (number == kEmpty) {
            return -1;
        }
        if (strcmp(kNames[number], name) == 0) {
            return number;
        }
    }
}

} // namespace tacho
