//! The classes of statements, by the server's own names of SQL commands (`SHOW GLOBAL STATUS LIKE
//! 'Com\_%'` without the prefix; all those of MariaDB 10.11 and MySQL 8.0 and 9.7).
//!
//! The SQL command's number decides, never the text: a comment or an unusual spelling in a
//! statement's text does not move it to another class (CVE-2026-3494).

/// A class of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Definitions: CREATE, ALTER, DROP, RENAME, TRUNCATE, except of accounts.
    Ddl,
    /// Changes of rows: INSERT, UPDATE, DELETE, REPLACE, LOAD DATA.
    Dml,
    /// Accounts, roles and privileges.
    Dcl,
    /// SELECT, SHOW, HELP, HANDLER, CHECKSUM.
    Read,
    /// Transaction control, XA, LOCK TABLES.
    Transaction,
    /// The server itself: FLUSH, KILL, SHUTDOWN, plugins, replication, maintenance of tables.
    Admin,
    /// CALL, DO, EXECUTE, PREPARE, compound statements, SIGNAL.
    Program,
    /// SET and USE. (MariaDB counts SET PASSWORD as SET.)
    Session,
    /// All other commands of the server, and statements without a number: parse errors, commands
    /// that are not SQL.
    Other,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 9] = [
        Class::Ddl,
        Class::Dml,
        Class::Dcl,
        Class::Read,
        Class::Transaction,
        Class::Admin,
        Class::Program,
        Class::Session,
        Class::Other,
    ];

    /// Its name in a filter.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Ddl => "ddl",
            Class::Dml => "dml",
            Class::Dcl => "dcl",
            Class::Read => "read",
            Class::Transaction => "transaction",
            Class::Admin => "admin",
            Class::Program => "program",
            Class::Session => "session",
            Class::Other => "other",
        }
    }

    /// Whether a SQL command is about accounts, privileges, settings or what the server loads: an
    /// audit should have these, whatever else it leaves out.
    pub fn is_vital(sql_command: &str) -> bool {
        match Class::of(sql_command) {
            Class::Dcl => true,
            Class::Session => sql_command == "set_option",
            Class::Admin => ["install_", "uninstall_", "flush", "shutdown", "kill", "change_"]
                .iter()
                .any(|head| sql_command.starts_with(head)),
            _ => false,
        }
    }

    /// The class of a SQL command.
    pub fn of(sql_command: &str) -> Class {
        match sql_command {
            "create_user"
            | "create_role"
            | "alter_user"
            | "drop_user"
            | "drop_role"
            | "rename_user"
            | "alter_user_default_role"
            | "set_password"
            | "set_role"
            | "grant"
            | "grant_role"
            | "grant_roles"
            | "revoke"
            | "revoke_all"
            | "revoke_role"
            | "revoke_roles" => Class::Dcl,
            "insert" | "insert_select" | "replace" | "replace_select" | "update"
            | "update_multi" | "delete" | "delete_multi" | "load" => Class::Dml,
            "select" | "ha_open" | "ha_read" | "ha_close" | "help" | "checksum"
            | "explain_other" => Class::Read,
            "begin"
            | "commit"
            | "rollback"
            | "rollback_to_savepoint"
            | "savepoint"
            | "release_savepoint"
            | "lock_tables"
            | "unlock_tables"
            | "xa_start"
            | "xa_end"
            | "xa_prepare"
            | "xa_commit"
            | "xa_rollback"
            | "xa_recover" => Class::Transaction,
            "call_procedure" | "call" | "compound_sql" | "do" | "execute_sql" | "execute"
            | "execute_immediate" | "prepare_sql" | "prepare" | "dealloc_sql"
            | "deallocate_prepare" | "signal" | "resignal" | "get_diagnostics" => Class::Program,
            "set_option" | "change_db" | "set_resource_group" => Class::Session,
            "rename_table" | "truncate" | "import" => Class::Ddl,
            "alter_instance"
            | "create_resource_group"
            | "alter_resource_group"
            | "drop_resource_group"
            | "analyze"
            | "assign_to_keycache"
            | "backup"
            | "backup_lock"
            | "lock_instance"
            | "unlock_instance"
            | "binlog"
            | "binlog_base64_event"
            | "change_master"
            | "change_replication_source"
            | "change_repl_filter"
            | "change_replication_filter"
            | "check"
            | "clone"
            | "flush"
            | "group_replication_start"
            | "group_replication_stop"
            | "start_group_replication"
            | "stop_group_replication"
            | "install_component"
            | "install_plugin"
            | "uninstall_component"
            | "uninstall_plugin"
            | "kill"
            | "optimize"
            | "preload_keys"
            | "purge"
            | "purge_before_date"
            | "purge_before"
            | "repair"
            | "reset"
            | "restart"
            | "restart_server"
            | "shutdown"
            | "start_all_slaves"
            | "start_slave"
            | "stop_all_slaves"
            | "stop_slave"
            | "replica_start"
            | "replica_stop"
            | "slave_start"
            | "slave_stop" => Class::Admin,
            name if name.starts_with("show_") => Class::Read,
            name if ["create_", "alter_", "drop_"].iter().any(|head| name.starts_with(head)) => {
                Class::Ddl
            }
            _ => Class::Other,
        }
    }
}
