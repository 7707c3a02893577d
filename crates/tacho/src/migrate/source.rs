//! Their settings: from a running server, or from its option file.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use tacho_sandbox::client::{Login, Queryable as _};

use super::{From, To};
use crate::cli::size;
use crate::option_file::{self, Reader};

/// Settings of the other plugin.
#[derive(Debug)]
pub(super) struct Theirs {
    /// The plugin.
    pub(super) from: From,
    /// Their source, for messages.
    pub(super) place: String,
    /// By name without the prefix, in lower case with underscores.
    pub(super) values: BTreeMap<String, String>,
    /// The load option of the plugin: `ON`, `FORCE`, `FORCE_PLUS_PERMANENT`, `OFF`.
    pub(super) load_option: String,
    /// The kind of server that has them.
    pub(super) server: To,
}

impl Theirs {
    /// A value, or the plugin's default.
    pub(super) fn text<'t>(&'t self, name: &str, default: &'t str) -> &'t str {
        self.values.get(name).map_or(default, String::as_str)
    }

    /// `server_audit_logging = ON`, for comments.
    pub(super) fn shown(&self, name: &str, default: &str) -> String {
        let value = self.text(name, default);
        format!("{}{name} = {}", self.from.prefix(), if value.is_empty() { "''" } else { value })
    }

    /// Whether a switch is on.
    pub(super) fn is_on(&self, name: &str, default: bool) -> bool {
        match self.values.get(name) {
            None => default,
            // An option without a value enables it.
            Some(value) => {
                value.is_empty()
                    || ["on", "1", "true", "yes"].contains(&value.to_ascii_lowercase().as_str())
            }
        }
    }

    /// A number, with the suffixes of option files.
    pub(super) fn number(&self, name: &str, default: u64) -> Option<u64> {
        self.values.get(name).map_or(Some(default), |value| size::bytes(value))
    }

    /// A comma list without blanks and empty items.
    pub(super) fn list(&self, name: &str) -> Vec<&str> {
        let text = self.text(name, "");
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()
    }
}

/// Reads the settings from a server.
///
/// # Errors
/// It does not answer, or does not have the plugin.
pub(super) fn from_server(from: From, login: &Login) -> anyhow::Result<Theirs> {
    let mut conn = login.connect().with_context(|| format!("cannot connect to {login:?}"))?;
    let pattern = from.prefix().replace('_', "\\_");
    let rows: Vec<(String, Option<String>)> = conn
        .query(format!("SHOW GLOBAL VARIABLES LIKE '{pattern}%'"))
        .context("cannot read the server's variables")?;
    ensure!(
        !rows.is_empty(),
        "the server has no variables {}*, because the plugin {} is not loaded; load it, or read an option \
         file with --config",
        from.prefix(),
        from.plugin()
    );
    let strip = |(name, value): (String, Option<String>)| {
        let name = name.to_ascii_lowercase();
        let name = name.strip_prefix(from.prefix())?.to_owned();
        Some((name, value.unwrap_or_default()))
    };
    let version: Option<String> = conn.query_first("SELECT VERSION()")?;
    let version = version.unwrap_or_default();
    let load_option: Option<String> = conn
        .exec_first(
            "SELECT LOAD_OPTION FROM information_schema.PLUGINS WHERE PLUGIN_NAME = ?",
            (from.plugin(),),
        )
        .context("cannot read information_schema.PLUGINS")?;
    Ok(Theirs {
        from,
        place: format!("{} ({})", login.address, version),
        values: rows.into_iter().filter_map(strip).collect(),
        load_option: load_option.unwrap_or_default(),
        server: To::of_version(&version),
    })
}

/// Reads an option file.
///
/// # Errors
/// It cannot be read, or has no setting of the plugin.
pub(super) fn from_file(from: From, file: &Path) -> anyhow::Result<Theirs> {
    let mut values = BTreeMap::new();
    let mut load_option = String::new();
    let mut is_named = false;
    for (name, value) in option_file::read(file, Reader::Server)? {
        if let Some(short) = name.strip_prefix(from.prefix()) {
            values.insert(short.to_owned(), value);
        } else if name == from.plugin() {
            load_option = value;
        } else {
            is_named |= name.starts_with("plugin_load") && value.contains(from.plugin());
        }
    }
    if values.is_empty() && load_option.is_empty() && !is_named {
        bail!(
            "{} has no setting of {}; name the file that has them",
            file.display(),
            from.plugin()
        );
    }
    let place = file.display().to_string();
    Ok(Theirs { from, place, values, load_option, server: To::with_plugin(from) })
}
