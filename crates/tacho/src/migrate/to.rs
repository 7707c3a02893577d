//! The server that the fragment is for: the group of its option file, how it loads the recorder,
//! and its names of settings and of SQL commands.

use clap::ValueEnum;
use tacho_filter::known::Product;
use tacho_settings::{Setting, SettingNames};

use super::From;

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum To {
    /// MariaDB
    Mariadb,
    /// MySQL 9.7, which has the recorder as a component
    #[value(alias = "mysql-9.7")]
    Mysql,
    /// MySQL 8.0, which has it as a plugin
    #[value(name = "mysql-8.0")]
    Mysql80,
}

/// The SQL commands of MariaDB 10.11: a filter with any other is rejected, and no statement of this
/// server can have it.
const MARIADB_COMMANDS: &str = include_str!("sql_commands.txt");

/// Status counters of MySQL, by which both plugins name the SQL commands, and the names of the same
/// commands in events, which rules have.
const COUNTERS: [(&str, &str); 22] = [
    ("binlog", "binlog_base64_event"),
    ("call_procedure", "call"),
    ("change_replication_source", "change_master"),
    ("create_function", "create_spfunction"),
    ("create_udf", "create_function"),
    ("dealloc_sql", "deallocate_prepare"),
    ("execute_sql", "execute"),
    ("prepare_sql", "prepare"),
    ("purge_before_date", "purge_before"),
    ("replica_start", "slave_start"),
    ("replica_stop", "slave_stop"),
    ("show_binary_log_status", "show_master_stat"),
    ("show_create_table", "show_create"),
    ("show_function_code", "show_func_code"),
    ("show_function_status", "show_status_func"),
    ("show_master_status", "show_master_stat"),
    ("show_procedure_code", "show_proc_code"),
    ("show_procedure_status", "show_status_proc"),
    ("show_replica_status", "show_slave_stat"),
    ("show_replicas", "show_slave_hosts"),
    ("show_slave_status", "show_slave_stat"),
    ("show_warnings", "show_warns"),
];

impl To {
    /// The kind of a server by its version, as `SELECT VERSION()` shows it.
    pub(super) fn of_version(version: &str) -> To {
        if version.contains("MariaDB") {
            To::Mariadb
        } else if version.starts_with("8.0") {
            To::Mysql80
        } else {
            To::Mysql
        }
    }

    /// The kind of server that has this plugin, if only the plugin is known.
    pub(super) fn with_plugin(plugin: From) -> To {
        match plugin {
            From::ServerAudit => To::Mariadb,
            // No later release of Percona Server has it.
            From::Percona => To::Mysql80,
        }
    }

    /// For people.
    pub(super) fn name(self) -> &'static str {
        match self {
            To::Mariadb => "MariaDB",
            To::Mysql | To::Mysql80 => "MySQL",
        }
    }

    /// What a rule calls an SQL command; `None`: the server has none of this name.
    pub(super) fn sql_command(self, name: &str) -> Option<String> {
        if self == To::Mariadb {
            return MARIADB_COMMANDS.lines().find(|known| *known == name).map(str::to_owned);
        }
        let counter = COUNTERS.iter().find(|(counter, _)| *counter == name);
        let name = counter.map_or(name, |(_, event)| *event);
        Product::Mysql.server().sql_commands.into_iter().find(|known| known == name)
    }

    /// How its messages spell settings.
    fn names(self) -> SettingNames {
        match self {
            To::Mysql => SettingNames::Component,
            To::Mariadb | To::Mysql80 => SettingNames::Plugin,
        }
    }

    /// The name of a setting in an option file.
    pub(super) fn option(self, setting: Setting) -> String {
        // The server reads the file before it has the component.
        let prefix = if self == To::Mysql { "loose_" } else { "" };
        format!("{prefix}{}", self.names().name(setting))
    }

    /// A sentence that names settings and status variables as on MariaDB, with the server's own
    /// names.
    pub(super) fn spelled(self, sentence: &str) -> String {
        let mut text = sentence.to_owned();
        if self == To::Mysql {
            text = text.replace("Tacho_", "tacho.");
            for setting in Setting::ALL {
                let name = SettingNames::Plugin.name(setting);
                text = text.replace(&name, &self.names().name(setting));
            }
        }
        text
    }

    /// The beginning of the fragment: the group, and how the recorder is loaded.
    pub(super) fn head(self) -> &'static str {
        match self {
            To::Mariadb => "[mariadb]\nplugin_load_add = tacho\n",
            To::Mysql => {
                "# Load the component once, in the server: INSTALL COMPONENT \
                 'file://component_tacho';\n[mysqld]\n"
            }
            To::Mysql80 => "[mysqld]\nplugin_load_add = tacho.so\n",
        }
    }

    /// Whether the recorder is loaded by the option file, so that it can be forced.
    pub(super) fn is_plugin(self) -> bool {
        self != To::Mysql
    }

    /// Whether the server takes a directory in its data directory for a database.
    pub(super) fn shows_directories(self) -> bool {
        self == To::Mariadb
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_their_servers() {
        for (version, to) in [
            ("10.11.19-MariaDB-0+deb12u1-log", To::Mariadb),
            ("8.0.33", To::Mysql80),
            ("8.0.35-27", To::Mysql80),
            ("9.7.4", To::Mysql),
        ] {
            assert_eq!(To::of_version(version), to, "{version}");
        }
    }

    #[test]
    fn names_are_those_of_the_server() {
        assert_eq!(To::Mariadb.option(Setting::RotateBytes), "tacho_rotate_bytes");
        assert_eq!(To::Mysql.option(Setting::RotateBytes), "loose_tacho.rotate_bytes");
        assert_eq!(To::Mysql80.option(Setting::RotateBytes), "tacho_rotate_bytes");
        let sentence = "tacho_filter_file and tacho_filter, not tacho_x";
        assert_eq!(To::Mysql.spelled(sentence), "tacho.filter_file and tacho.filter, not tacho_x");
        assert_eq!(To::Mysql80.spelled(sentence), sentence);
        assert_eq!(To::Mysql.spelled("check Tacho_files_days"), "check tacho.files_days");
        let command = |to: To, name| to.sql_command(name).unwrap_or_default();
        assert_eq!(command(To::Mariadb, "call_procedure"), "call_procedure");
        assert_eq!(command(To::Mysql, "call_procedure"), "call");
        assert_eq!(command(To::Mysql80, "clone"), "clone");
        assert_eq!(command(To::Mariadb, "clone"), "");
    }

    #[test]
    fn every_command_of_an_event_is_one_that_rules_have() {
        let known = Product::Mysql.server().sql_commands;
        for (counter, event) in COUNTERS {
            assert!(known.iter().any(|name| name == event), "{event}");
            assert_eq!(To::Mysql.sql_command(counter).as_deref(), Some(event));
        }
    }
}
