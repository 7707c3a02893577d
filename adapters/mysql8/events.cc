// Zone: hot (notify), cold (the rest)
// SPDX-License-Identifier: GPL-2.0-only
//
// Converts events of the audit plugin API to those of the event services that replaced it: the same
// events at the same moments (docs/specs/mysql-events.md lists the differences). The structures are
// on the stack, and point to the same data as the server's own.
#include "events.h"

#include "../common/message.h"
#include "../mysql/adapter.h"
#include "../mysql/events.h"
#include "../mysql/session.h"
#include "../mysql/sql_commands.h"

#include <dlfcn.h>

namespace tacho {

namespace {

static_assert(
    MYSQL_AUDIT_QUERY_START == EVENT_TRACKING_QUERY_START &&
        MYSQL_AUDIT_QUERY_NESTED_START == EVENT_TRACKING_QUERY_NESTED_START &&
        MYSQL_AUDIT_TABLE_ACCESS_READ == EVENT_TRACKING_TABLE_ACCESS_READ &&
        MYSQL_AUDIT_QUERY_STATUS_END == EVENT_TRACKING_QUERY_STATUS_END &&
        MYSQL_AUDIT_PARSE_PREPARSE == EVENT_TRACKING_PARSE_PREPARSE &&
        static_cast<unsigned>(MYSQL_AUDIT_PARSE_REWRITE_PLUGIN_QUERY_REWRITTEN) ==
            EVENT_TRACKING_PARSE_REWRITE_QUERY_REWRITTEN &&
        MYSQL_AUDIT_COMMAND_START == EVENT_TRACKING_COMMAND_START &&
        MYSQL_AUDIT_COMMAND_END == EVENT_TRACKING_COMMAND_END &&
        MYSQL_AUDIT_CONNECTION_CONNECT == EVENT_TRACKING_CONNECTION_CONNECT &&
        MYSQL_AUDIT_CONNECTION_DISCONNECT == EVENT_TRACKING_CONNECTION_DISCONNECT &&
        MYSQL_AUDIT_CONNECTION_CHANGE_USER == EVENT_TRACKING_CONNECTION_CHANGE_USER &&
        MYSQL_AUDIT_AUTHENTICATION_FLUSH == EVENT_TRACKING_AUTHENTICATION_FLUSH &&
        MYSQL_AUDIT_AUTHENTICATION_AUTHID_CREATE == EVENT_TRACKING_AUTHENTICATION_AUTHID_CREATE &&
        MYSQL_AUDIT_AUTHENTICATION_CREDENTIAL_CHANGE ==
            EVENT_TRACKING_AUTHENTICATION_CREDENTIAL_CHANGE &&
        MYSQL_AUDIT_AUTHENTICATION_AUTHID_RENAME == EVENT_TRACKING_AUTHENTICATION_AUTHID_RENAME &&
        MYSQL_AUDIT_AUTHENTICATION_AUTHID_DROP == EVENT_TRACKING_AUTHENTICATION_AUTHID_DROP &&
        MYSQL_AUDIT_GLOBAL_VARIABLE_SET == EVENT_TRACKING_GLOBAL_VARIABLE_SET &&
        static_cast<unsigned>(MYSQL_AUDIT_MESSAGE_USER) == EVENT_TRACKING_MESSAGE_USER,
    "the same bits");

// The attributes of messages differ only in the numbers of their types.
static_assert(sizeof(mysql_event_message_key_value_t) ==
                      sizeof(mysql_event_tracking_message_key_value_t) &&
                  offsetof(mysql_event_message_key_value_t, value_type) ==
                      offsetof(mysql_event_tracking_message_key_value_t, value_type) &&
                  sizeof(mysql_event_message_key_value_t::value_type) ==
                      sizeof(mysql_event_tracking_message_key_value_t::value_type) &&
                  offsetof(mysql_event_message_key_value_t, value) ==
                      offsetof(mysql_event_tracking_message_key_value_t, value),
              "the same layout");

// By the numbers of enum_server_command, which are the protocol's; with the names of 8.0.
constexpr const char* kCommands[] = {
    "Sleep",
    "Quit",
    "Init DB",
    "Query",
    "Field List",
    "Create DB",
    "Drop DB",
    "Refresh",
    "Shutdown",
    "Statistics",
    "Processlist",
    "Connect",
    "Kill",
    "Debug",
    "Ping",
    "Time",
    "Delayed insert",
    "Change user",
    "Binlog Dump",
    "Table Dump",
    "Connect Out",
    "Register Replica",
    "Prepare",
    "Execute",
    "Long Data",
    "Close stmt",
    "Reset stmt",
    "Set option",
    "Fetch",
    "Daemon",
    "Binlog Dump GTID",
    "Reset Connection",
    "clone",
    "Group Replication Data Stream subscription",
};
constexpr size_t kCommandCount = sizeof(kCommands) / sizeof(kCommands[0]);
static_assert(kCommandCount == COM_END, "one for each");

// How many of 8.0's numbers of SQL commands correspond to those of 9.7, whose names are used here,
// too: all, unless a server derived from it has inserted others. Later numbers belong to such a
// server.
size_t g_sql_command_count;

mysql_cstring_with_length text_of(const MYSQL_LEX_CSTRING& text) noexcept {
    return {text.str, text.length};
}

int query(const mysql_event_query* in) noexcept {
    mysql_event_tracking_query_data out = {};
    out.event_subclass = in->event_subclass;
    out.status = in->status;
    out.connection_id = in->connection_id;
    const auto number = static_cast<size_t>(in->sql_command_id);
    out.sql_command = number < g_sql_command_count ? sql_command_name(number) : nullptr;
    out.query = text_of(in->query);
    out.query_charset = in->query_charset == nullptr ? nullptr : in->query_charset->csname;
    return notify_query(&out);
}

void parse(MYSQL_THD thd, const mysql_event_parse* in) noexcept {
    mysql_event_tracking_parse_data out = {};
    out.event_subclass = in->event_subclass;
    out.connection_id = thd_get_thread_id(thd);
    out.query = text_of(in->query);
    auto flags = static_cast<mysql_event_tracking_parse_rewrite_plugin_flag>(*in->flags);
    mysql_cstring_with_length rewritten = {nullptr, 0};
    out.flags = &flags;
    out.rewritten_query = &rewritten;
    (void)notify_parse(&out);
    if (rewritten.str != nullptr) {
        *in->rewritten_query = {rewritten.str, rewritten.length};
        *in->flags = static_cast<mysql_event_parse_rewrite_plugin_flag>(flags);
    }
}

void command(MYSQL_THD thd, const mysql_event_command* in) noexcept {
    mysql_event_tracking_command_data out = {};
    out.event_subclass = in->event_subclass;
    out.status = in->status;
    // The event's own id is always 1: the server stores a condition there (8.0.33).
    out.connection_id = thd_get_thread_id(thd);
    const auto number = static_cast<size_t>(in->command_id);
    const char* name = number < kCommandCount ? kCommands[number] : "Error";
    out.command = {name, strlen(name)};
    (void)notify_command(&out);
}

void connection(const mysql_event_connection* in) noexcept {
    mysql_event_tracking_connection_data out = {};
    out.event_subclass = in->event_subclass;
    out.status = in->status;
    out.connection_id = in->connection_id;
    out.user = text_of(in->user);
    out.priv_user = text_of(in->priv_user);
    out.external_user = text_of(in->external_user);
    out.proxy_user = text_of(in->proxy_user);
    out.host = text_of(in->host);
    out.ip = text_of(in->ip);
    out.database = text_of(in->database);
    out.connection_type = in->connection_type;
    (void)notify_connection(&out);
}

int table_access(const mysql_event_table_access* in) noexcept {
    mysql_event_tracking_table_access_data out = {};
    out.event_subclass =
        static_cast<mysql_event_tracking_table_access_subclass_t>(in->event_subclass);
    out.connection_id = in->connection_id;
    out.table_database = text_of(in->table_database);
    out.table_name = text_of(in->table_name);
    return notify_table_access(&out);
}

void general(const mysql_event_general* in) noexcept {
    // The message is in the field that has the command's name in other events of this class.
    notify_error(in->general_thread_id, static_cast<uint32_t>(in->general_error_code),
                 bytes_of(in->general_command));
}

void authentication(const mysql_event_authentication* in) noexcept {
    mysql_event_tracking_authentication_data out = {};
    out.event_subclass = in->event_subclass;
    out.status = in->status;
    out.connection_id = in->connection_id;
    out.user = text_of(in->user);
    out.host = text_of(in->host);
    (void)notify_authentication(&out);
}

void global_variable(const mysql_event_global_variable* in) noexcept {
    mysql_event_tracking_global_variable_data out = {};
    out.event_subclass = in->event_subclass;
    out.connection_id = in->connection_id;
    out.variable_name = text_of(in->variable_name);
    out.variable_value = text_of(in->variable_value);
    (void)notify_global_variable(&out);
}

void message(MYSQL_THD thd, const mysql_event_message* in) noexcept {
    mysql_event_tracking_message_data out = {};
    out.event_subclass = in->event_subclass;
    out.connection_id = thd_get_thread_id(thd);
    out.component = text_of(in->component);
    out.producer = text_of(in->producer);
    out.message = text_of(in->message);
    out.key_value_map =
        reinterpret_cast<mysql_event_tracking_message_key_value_t*>(in->key_value_map);
    out.key_value_map_length = in->key_value_map_length;
    record_message(&out, MYSQL_AUDIT_MESSAGE_VALUE_TYPE_STR);
}

void stored_program(const mysql_event_stored_program* in) noexcept {
    mysql_event_tracking_stored_program_data out = {};
    out.event_subclass = in->event_subclass;
    out.connection_id = in->connection_id;
    out.database = text_of(in->database);
    out.name = text_of(in->name);
    (void)notify_stored_program(&out);
}

void startup(const mysql_event_server_startup* in) noexcept {
    mysql_event_tracking_startup_data out = {};
    out.argv = in->argv;
    out.argc = in->argc;
    (void)notify_startup(&out);
}

void shutdown(const mysql_event_server_shutdown* in) noexcept {
    mysql_event_tracking_shutdown_data out = {};
    out.exit_code = in->exit_code;
    out.reason = in->reason == MYSQL_AUDIT_SERVER_SHUTDOWN_REASON_ABORT
                     ? EVENT_TRACKING_SHUTDOWN_REASON_ABORT
                     : EVENT_TRACKING_SHUTDOWN_REASON_SHUTDOWN;
    (void)notify_shutdown(&out);
}

} // namespace

void check_command_numbers() noexcept {
    g_sql_command_count = numbers::kSqlCommandCount;
    const auto* servers =
        static_cast<const MYSQL_LEX_CSTRING*>(dlsym(RTLD_DEFAULT, symbols::kSqlStatementNames));
    if (servers == nullptr) {
        return;
    }
    // Its names are not always the same. But a common name must be at the same index.
    for (size_t number = 0; number < numbers::kSqlCommandCount; ++number) {
        const int32_t ours = sql_command_number(servers[number].str);
        if (ours >= 0 && static_cast<size_t>(ours) != number &&
            number != numbers::kCreateStoredFunction) {
            g_sql_command_count = number;
            log(kWarning, "some lines will have no sql_command: this server has others from %s on",
                servers[number].str);
            return;
        }
    }
}

int notify(MYSQL_THD thd, mysql_event_class_t event_class, const void* event) noexcept {
    switch (event_class) {
    case MYSQL_AUDIT_GENERAL_CLASS:
        general(static_cast<const mysql_event_general*>(event));
        break;
    case MYSQL_AUDIT_CONNECTION_CLASS:
        connection(static_cast<const mysql_event_connection*>(event));
        break;
    case MYSQL_AUDIT_PARSE_CLASS:
        parse(thd, static_cast<const mysql_event_parse*>(event));
        break;
    case MYSQL_AUDIT_TABLE_ACCESS_CLASS:
        return table_access(static_cast<const mysql_event_table_access*>(event));
    case MYSQL_AUDIT_COMMAND_CLASS:
        command(thd, static_cast<const mysql_event_command*>(event));
        break;
    case MYSQL_AUDIT_QUERY_CLASS:
        return query(static_cast<const mysql_event_query*>(event));
    case MYSQL_AUDIT_AUTHENTICATION_CLASS:
        authentication(static_cast<const mysql_event_authentication*>(event));
        break;
    case MYSQL_AUDIT_GLOBAL_VARIABLE_CLASS:
        global_variable(static_cast<const mysql_event_global_variable*>(event));
        break;
    case MYSQL_AUDIT_MESSAGE_CLASS:
        message(thd, static_cast<const mysql_event_message*>(event));
        break;
    case MYSQL_AUDIT_STORED_PROGRAM_CLASS:
        stored_program(static_cast<const mysql_event_stored_program*>(event));
        break;
    case MYSQL_AUDIT_SERVER_STARTUP_CLASS:
        startup(static_cast<const mysql_event_server_startup*>(event));
        break;
    case MYSQL_AUDIT_SERVER_SHUTDOWN_CLASS:
        shutdown(static_cast<const mysql_event_server_shutdown*>(event));
        break;
    default:
        break;
    }
    return 0;
}

} // namespace tacho
