//! `tacho migrate`: converts the settings of another audit plugin to ours.
//!
//! ```text
//! server or my.cnf ── source ──> Theirs ── server_audit, percona ──> Plan ── fragment ──> my.cnf
//! ```
//!
//! If a setting has no exact equivalent, ours records more rather than less, and the fragment says
//! so: a missing record would not be noticed.

mod fragment;
mod limits;
mod percona;
mod server_audit;
mod source;
mod to;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use tacho_settings::Setting;

use crate::login::LoginArgs;
use source::Theirs;
use to::To;

/// Shown at the end of `tacho migrate --help`.
const MIGRATE_NOTES: &str = "\
The result is a fragment of my.cnf on stdout. Its comments name the settings without an equivalent,
with the reason. The command changes nothing on the server. Both plugins can run side by side.

Exit code: 0 success, 1 the server or the file cannot be read, 2 wrong usage.";

/// Arguments of `tacho migrate`.
#[derive(Args, Debug)]
#[command(after_help = MIGRATE_NOTES)]
pub struct MigrateArgs {
    /// Plugin whose settings are converted
    #[arg(long, value_name = "PLUGIN", value_enum)]
    pub from: From,

    /// Product that the fragment is for [default: that of the server that is read; with
    /// --config MariaDB for server_audit, MySQL 8.0 for Percona's plugin]
    #[arg(long, value_name = "PRODUCT", value_enum)]
    pub to: Option<To>,

    /// The server to read.
    #[command(flatten)]
    pub server: LoginArgs,

    /// Read the settings from this option file (my.cnf) and its includes instead of from a server.
    /// Missing settings have the plugin's default
    #[arg(long, value_name = "FILE", conflicts_with_all = ["socket", "host", "defaults_file"])]
    pub config: Option<PathBuf>,

    /// Write the filter to this new file, for `tacho_filter_file`. Required if it is too long for a
    /// line of my.cnf
    #[arg(long, value_name = "FILE")]
    pub filter_file: Option<PathBuf>,
}

/// The plugin to migrate from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum From {
    /// MariaDB's server_audit
    ServerAudit,
    /// Percona's audit_log
    Percona,
}

impl From {
    /// The prefix of its variables.
    fn prefix(self) -> &'static str {
        match self {
            Self::ServerAudit => "server_audit_",
            Self::Percona => "audit_log_",
        }
    }

    /// Its name as a plugin.
    fn plugin(self) -> &'static str {
        match self {
            Self::ServerAudit => "server_audit",
            Self::Percona => "audit_log",
        }
    }
}

/// Why `tacho migrate` failed.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The command line is wrong.
    #[error("{0:#}")]
    Usage(anyhow::Error),
    /// The server or the file cannot be read.
    #[error("{0:#}")]
    Failed(anyhow::Error),
}

impl MigrateError {
    /// Whether the command line is at fault.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}

/// Runs `tacho migrate`.
///
/// # Errors
/// See [`MigrateError`].
pub fn run(args: &MigrateArgs) -> anyhow::Result<()> {
    let login = args.server.login().map_err(MigrateError::Usage)?;
    let theirs = match (&args.config, &login) {
        (Some(file), _) => source::from_file(args.from, file),
        (None, Some(login)) => source::from_server(args.from, login),
        (None, None) => {
            let error = anyhow::anyhow!(
                "no settings to read: add --socket, --host or --defaults-file, or --config FILE"
            );
            return Err(MigrateError::Usage(error).into());
        }
    };
    let theirs = theirs.map_err(MigrateError::Failed)?;
    let to = args.to.unwrap_or(theirs.server);
    let plan = match args.from {
        From::ServerAudit => server_audit::plan(&theirs, to),
        From::Percona => percona::plan(&theirs, to),
    };
    let text = fragment::render(&theirs, &plan, to, args.filter_file.as_deref())
        .map_err(MigrateError::Failed)?;
    fragment::write_out(&text).context("cannot write the fragment")
}

/// The configuration to write.
#[derive(Debug, Default)]
struct Plan {
    settings: Vec<Assignment>,
    filter: Filter,
    /// Settings without an equivalent, and the reasons.
    remarks: Vec<String>,
}

/// One variable of ours, and its value.
#[derive(Debug)]
struct Assignment {
    setting: Setting,
    value: String,
    /// The source of its value in their settings, and the differences.
    comment: String,
}

impl Plan {
    fn set(&mut self, setting: Setting, value: impl Into<String>, comment: impl Into<String>) {
        self.settings.push(Assignment { setting, value: value.into(), comment: comment.into() });
    }

    /// Sets a number, or the nearest value that it can have.
    fn set_number(&mut self, setting: Setting, value: u64, comment: impl Into<String>) {
        let [min, max] = setting.range();
        self.set(setting, value.clamp(min, max).to_string(), comment);
    }

    /// Sets a number to its default, so that it is visible and can be changed.
    fn set_default(&mut self, setting: Setting, comment: impl Into<String>) {
        self.set_number(setting, setting.default_number(), comment);
    }

    fn remark(&mut self, text: impl Into<String>) {
        self.remarks.push(text.into());
    }
}

/// A `tacho_filter` being made.
#[derive(Debug, Default)]
struct Filter {
    skips_by_default: bool,
    rules: Vec<Value>,
    comments: Vec<String>,
}

impl Filter {
    fn rule(&mut self, action: &str, conditions: &[(&str, Value)]) {
        let mut rule: Map<String, Value> =
            conditions.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        rule.insert("action".to_owned(), action.into());
        self.rules.push(rule.into());
    }

    /// The document; `None` if everything is recorded.
    fn json(&self) -> Option<String> {
        if self.rules.is_empty() && !self.skips_by_default {
            return None;
        }
        let mut document = json!({ "rules": self.rules });
        if self.skips_by_default {
            document["default"] = "skip".into();
        }
        Some(document.to_string())
    }
}

/// A name as a pattern of the filter that matches only this name.
fn pattern(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for character in name.chars() {
        if matches!(character, '*' | '?' | '\\' | '%') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// The commands that have a text. A statement of theirs without a class could not be parsed.
fn texts_of_sql() -> Value {
    json!(["Query", "Prepare", "Execute"])
}

/// The directory for our log beside one of their files; `None`: the default, in the data directory.
fn directory_beside(file: &str) -> Option<String> {
    let (directory, _) = file.rsplit_once('/')?;
    (!directory.is_empty()).then(|| format!("{directory}/tacho"))
}

/// The settings for file, sizes and rotation that both plugins have.
fn place(plan: &mut Plan, theirs: &Theirs, variable: &str, default: &str) {
    let file = theirs.text(variable, default);
    if let Some(directory) = directory_beside(file) {
        let comment = format!(
            "{}: a directory beside it. The server creates it if the parent directory exists",
            theirs.shown(variable, default)
        );
        plan.set(Setting::Directory, directory, comment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_patterns_that_match_them_alone() {
        for name in ["app", "a*b?c", r"back\slash", "50%", "ö'\"\n"] {
            let pattern = pattern(name);
            let filter = json!({"rules": [{"user": pattern, "action": "skip"}]}).to_string();
            let server = tacho_filter::compile::Server::default();
            tacho_filter::compile::compile(&filter, &server).expect(name);
            assert!(tacho_filter::glob::matches(pattern.as_bytes(), name.as_bytes(), false));
            assert!(!tacho_filter::glob::matches(pattern.as_bytes(), b"other", false));
        }
    }

    /// Every name of ours in a fragment, as a setting or in a comment, is in the table, and every
    /// value is permitted for its setting.
    #[test]
    fn fragments_name_settings_that_there_are() {
        type Values = &'static [(&'static str, &'static str)];
        let cases: [(From, Values); 4] = [
            (From::ServerAudit, &[("events", "CONNECT,QUERY_DDL"), ("logging", "ON")]),
            (From::ServerAudit, &[("query_log_limit", "99999999999"), ("output_type", "syslog")]),
            (From::Percona, &[("strategy", "PERFORMANCE"), ("buffer_size", "1G")]),
            (From::Percona, &[("rotate_on_size", "90E"), ("rotations", "x"), ("format", "OLD")]),
        ];
        let servers = [To::Mariadb, To::Mysql, To::Mysql80];
        let cases = cases.iter().flat_map(|case| servers.map(|to| (case.0, case.1, to)));
        for (from, values, to) in cases {
            let values = values.iter().map(|(name, value)| (*name, *value));
            let theirs = Theirs {
                from,
                place: "a server".to_owned(),
                values: values.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
                load_option: String::new(),
                server: to,
            };
            let plan = match from {
                From::ServerAudit => server_audit::plan(&theirs, to),
                From::Percona => percona::plan(&theirs, to),
            };
            for Assignment { setting, value, .. } in &plan.settings {
                assert!(setting.spec().takes(value), "{setting:?} = {value}");
            }
            let text = fragment::render(&theirs, &plan, to, None).expect("a fragment");
            let (own, other) =
                if to == To::Mysql { ("tacho.", "tacho_") } else { ("tacho_", "tacho.") };
            assert!(!text.replace("tacho.so", "").contains(other), "{text}");
            // A status variable.
            let text = text.replace("tacho.files_days", "");
            let names = text.split(own).skip(1);
            let names: Vec<&str> = names.filter(|rest| !rest.starts_with("so\n")).collect();
            assert!(names.len() > 2, "{text}");
            for rest in names {
                let end = rest.find(|it: char| !it.is_ascii_lowercase() && it != '_');
                let name = &rest[..end.unwrap_or(rest.len())];
                assert!(Setting::from_name(name).is_some(), "{own}{name} in:\n{text}");
            }
        }
    }

    #[test]
    fn our_directory_is_beside_their_file() {
        assert_eq!(directory_beside("server_audit.log"), None);
        assert_eq!(directory_beside("/var/log/mysql/a.log").unwrap(), "/var/log/mysql/tacho");
        assert_eq!(directory_beside("logs/a.log").unwrap(), "logs/tacho");
        assert_eq!(directory_beside("/var/log/mysql/").unwrap(), "/var/log/mysql/tacho");
        assert_eq!(directory_beside("/a.log"), None);
    }
}
