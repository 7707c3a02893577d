//! What the servers support in a filter, to check one without a server.
//!
//! A recorder asks its server for the names of the SQL commands. These lists have the names of all
//! supported releases. The numbers of the commands differ from those of a server.

use crate::compile::Server;

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// MariaDB 10.11 and 11.8.
    Mariadb,
    /// MySQL 8.0 and 9.7.
    Mysql,
    /// Whatever one of them supports.
    Any,
}

impl Product {
    /// What it supports. Tables are recorded.
    #[must_use]
    pub fn server(self) -> Server {
        let names = |lists: &[&[&str]]| -> Vec<String> {
            let mut names: Vec<String> = Vec::new();
            for name in lists.iter().copied().flatten() {
                if !names.iter().any(|known| known == name) {
                    names.push((*name).to_owned());
                }
            }
            names
        };
        let sql_commands = match self {
            Product::Mariadb => names(&[&MARIADB]),
            Product::Mysql => names(&[&MYSQL]),
            Product::Any => names(&[&MARIADB, &MYSQL]),
        };
        let blocks = self != Product::Mariadb;
        // No adapter reports the program of a connection.
        Server { sql_commands, program: false, blocks, ..Server::default() }
    }
}

/// `SHOW GLOBAL STATUS LIKE 'Com\_%'` of 10.11 and 11.8, without the counters that belong to no SQL
/// command.
#[rustfmt::skip]
const MARIADB: [&str; 159] = [
    "alter_db", "alter_db_upgrade", "alter_event", "alter_function", "alter_procedure",
    "alter_server", "alter_sequence", "alter_table", "alter_user", "analyze", "assign_to_keycache",
    "backup", "backup_lock", "begin", "binlog", "call_procedure", "change_db", "change_master",
    "check", "checksum", "commit", "compound_sql", "create_db", "create_event", "create_function",
    "create_index", "create_package", "create_package_body", "create_procedure", "create_role",
    "create_sequence", "create_server", "create_table", "create_trigger", "create_udf",
    "create_user", "create_view", "dealloc_sql", "delete", "delete_multi", "do", "drop_db",
    "drop_event", "drop_function", "drop_index", "drop_procedure", "drop_package",
    "drop_package_body", "drop_role", "drop_server", "drop_sequence", "drop_table", "drop_trigger",
    "drop_user", "drop_view", "empty_query", "execute_immediate", "execute_sql", "flush",
    "get_diagnostics", "grant", "grant_role", "ha_close", "ha_open", "ha_read", "help", "insert",
    "insert_select", "install_plugin", "kill", "load", "lock_tables", "optimize", "preload_keys",
    "prepare_sql", "purge", "purge_before_date", "release_savepoint", "rename_table", "rename_user",
    "repair", "replace", "replace_select", "reset", "resignal", "revoke", "revoke_all",
    "revoke_role", "rollback", "rollback_to_savepoint", "savepoint", "select", "set_option",
    "show_authors", "show_binlog_events", "show_binlogs", "show_charsets", "show_collations",
    "show_contributors", "show_create_db", "show_create_event", "show_create_func",
    "show_create_package", "show_create_package_body", "show_create_proc", "show_create_table",
    "show_create_trigger", "show_create_user", "show_databases", "show_engine_logs",
    "show_engine_mutex", "show_engine_status", "show_errors", "show_events", "show_explain",
    "show_analyze", "show_fields", "show_function_status", "show_generic", "show_grants",
    "show_keys", "show_binlog_status", "show_open_tables", "show_package_status",
    "show_package_body_status", "show_plugins", "show_privileges", "show_procedure_status",
    "show_processlist", "show_profile", "show_profiles", "show_relaylog_events", "show_slave_hosts",
    "show_slave_status", "show_status", "show_storage_engines", "show_table_status", "show_tables",
    "show_triggers", "show_variables", "show_warnings", "shutdown", "signal", "start_all_slaves",
    "start_slave", "stop_all_slaves", "stop_slave", "truncate", "uninstall_plugin", "unlock_tables",
    "update", "update_multi", "xa_commit", "xa_end", "xa_prepare", "xa_recover", "xa_rollback",
    "xa_start", "show_create_server",
];

/// The list of `adapters/mysql/sql_commands.cc`.
#[rustfmt::skip]
const MYSQL: [&str; 163] = [
    "select", "create_table", "create_index", "alter_table", "update", "insert", "insert_select",
    "delete", "truncate", "drop_table", "drop_index", "show_databases", "show_tables",
    "show_fields", "show_keys", "show_variables", "show_status", "show_engine_logs",
    "show_engine_status", "show_engine_mutex", "show_processlist", "show_master_stat",
    "show_slave_stat", "show_grants", "show_create", "show_charsets", "show_collations",
    "show_create_db", "show_table_status", "show_triggers", "load", "set_option", "lock_tables",
    "unlock_tables", "grant", "change_db", "create_db", "drop_db", "alter_db", "repair", "replace",
    "replace_select", "create_function", "drop_function", "revoke", "optimize", "check",
    "assign_to_keycache", "preload_keys", "flush", "kill", "analyze", "rollback",
    "rollback_to_savepoint", "commit", "savepoint", "release_savepoint", "slave_start",
    "slave_stop", "start_group_replication", "stop_group_replication", "begin", "change_master",
    "change_replication_filter", "rename_table", "reset", "purge", "purge_before", "show_binlogs",
    "show_open_tables", "ha_open", "ha_close", "ha_read", "show_slave_hosts", "delete_multi",
    "update_multi", "show_binlog_events", "do", "show_warns", "empty_query", "show_errors",
    "show_storage_engines", "show_privileges", "help", "create_user", "drop_user", "rename_user",
    "revoke_all", "checksum", "create_procedure", "create_spfunction", "call", "drop_procedure",
    "alter_procedure", "alter_function", "show_create_proc", "show_create_func", "show_status_proc",
    "show_status_func", "prepare", "execute", "deallocate_prepare", "create_view", "drop_view",
    "create_trigger", "drop_trigger", "xa_start", "xa_end", "xa_prepare", "xa_commit",
    "xa_rollback", "xa_recover", "show_proc_code", "show_func_code", "alter_tablespace",
    "install_plugin", "uninstall_plugin", "binlog_base64_event", "show_plugins", "create_server",
    "drop_server", "alter_server", "create_event", "alter_event", "drop_event", "show_create_event",
    "show_events", "show_create_trigger", "show_profile", "show_profiles", "signal", "resignal",
    "show_relaylog_events", "get_diagnostics", "alter_user", "explain_other", "show_create_user",
    "shutdown", "set_password", "alter_instance", "install_component", "uninstall_component",
    "create_role", "drop_role", "set_role", "grant_role", "revoke_role", "alter_user_default_role",
    "import", "create_resource_group", "alter_resource_group", "drop_resource_group",
    "set_resource_group", "clone", "lock_instance", "unlock_instance", "restart_server",
    "create_srs", "drop_srs", "show_parse_tree", "create_library", "drop_library",
    "show_create_library",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_mysql_are_those_of_the_adapter() {
        let text = include_str!("../../../adapters/mysql/sql_commands.cc");
        let list = text.split_once("kNames[] = {").unwrap().1.split_once("};").unwrap().0;
        let names: Vec<&str> = list.split(',').map(|name| name.trim().trim_matches('"')).collect();
        assert_eq!(names, MYSQL);
    }

    #[test]
    fn every_name_has_a_number() {
        for product in [Product::Mariadb, Product::Mysql, Product::Any] {
            let names = product.server().sql_commands;
            assert!(names.len() <= 256, "{product:?}");
            assert!(names.contains(&"select".to_owned()));
        }
        let has = |product: Product, name: &str| {
            product.server().sql_commands.iter().any(|known| known == name)
        };
        assert!(has(Product::Mariadb, "call_procedure") && !has(Product::Mysql, "call_procedure"));
        assert!(has(Product::Any, "call_procedure") && has(Product::Any, "call"));
    }
}
