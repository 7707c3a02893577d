//! Audit methods, declared in TOML: how to switch one on and off on a server.
//!
//! Those of `crates/bench/methods` are built in; `docs/specs/bench.md` has the format.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::companion;
use tacho_sandbox::dialect::{Dialect, Library};
use tacho_sandbox::installation::Product;

/// The built-in files.
const BUILT_IN: [(&str, &str); 9] = [
    ("nothing", include_str!("../methods/nothing.toml")),
    ("tacho", include_str!("../methods/tacho.toml")),
    ("server_audit", include_str!("../methods/server_audit.toml")),
    ("general_log", include_str!("../methods/general_log.toml")),
    ("general_log_table", include_str!("../methods/general_log_table.toml")),
    ("slow_log", include_str!("../methods/slow_log.toml")),
    ("init_connect", include_str!("../methods/init_connect.toml")),
    ("rewriter", include_str!("../methods/rewriter.toml")),
    ("tacho-rewrite", include_str!("../methods/tacho-rewrite.toml")),
];

/// The method that all others are compared with: the server without auditing.
pub const NONE: &str = "none";

/// The same again. Its difference from [`NONE`] shows how far a figure can be trusted.
pub const NONE_AGAIN: &str = "none-again";

/// What must be restarted to switch a method on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// Nothing: it is switched while the load's sessions run.
    Live,
    /// The load's connections. This is for a setting that sessions copy when they begin, and for a
    /// plugin: MariaDB 10.11 does not report events to one that is installed later in a session
    /// that has already had an audit plugin.
    Reconnect,
    /// The server.
    Restart,
}

impl Switch {
    /// Its spelling in the files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Reconnect => "reconnect",
            Self::Restart => "restart",
        }
    }
}

/// A file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Declaration {
    name: String,
    title: String,
    #[serde(default)]
    versions: BTreeMap<String, String>,
    switch: Switch,
    switch_installed: Option<Switch>,
    plugin: Option<String>,
    component: Option<Component>,
    #[serde(default)]
    private_only: bool,
    needs_variable: Option<String>,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    setup: Vec<String>,
    #[serde(default)]
    on: Vec<String>,
    #[serde(default)]
    off: Vec<String>,
    #[serde(default)]
    teardown: Vec<String>,
    #[serde(default)]
    log: Vec<String>,
    #[serde(default)]
    shrink: Vec<String>,
    bytes_status: Option<String>,
    records_status: Option<String>,
    companion: Option<companion::Declaration>,
    #[serde(default, rename = "variant")]
    variants: Vec<Variant>,
}

/// The component of a method, for servers that have components.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// Its library, without ".so". Its settings are `plugin.x` instead of `plugin_x`.
    pub name: String,
    /// What must be restarted to switch it, if it differs from the plugin.
    pub switch: Option<Switch>,
}

/// The same method with other settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    title: String,
    needs_variable: Option<String>,
    companion: Option<companion::Declaration>,
    #[serde(default)]
    private_only: bool,
    #[serde(default)]
    on: Vec<String>,
}

/// One way to audit a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Method {
    /// `tacho`, or `tacho:drop` for a variant.
    pub name: String,
    /// The displayed title.
    pub title: String,
    /// The oldest supported versions of "mariadb" and "mysql"; empty if all are.
    pub versions: BTreeMap<String, String>,
    /// What must be restarted to switch it.
    pub switch: Switch,
    /// The same if the server already has its plugin.
    pub switch_installed: Option<Switch>,
    /// The plugin that is installed to switch it on.
    pub plugin: Option<String>,
    /// The component instead of the plugin, for servers that have components.
    pub component: Option<Component>,
    /// The plugin's library, on the server that the method is for.
    pub library: Option<Library>,
    /// Never on a user's server.
    pub private_only: bool,
    /// System variable that the server must have. Checked with the plugin installed.
    pub needs_variable: Option<String>,
    /// Server options it needs, for [`Switch::Restart`].
    pub options: Vec<String>,
    /// Executed once, before the first block.
    pub setup: Vec<String>,
    /// Switches it on.
    pub on: Vec<String>,
    /// Switches it off.
    pub off: Vec<String>,
    /// Executed once, when it stays off.
    pub teardown: Vec<String>,
    /// Its log: paths, relative to the data directory, `*` in the last part, and `{variable}` for a
    /// system variable of the server.
    pub log: Vec<String>,
    /// Empties its log, if that takes more than removing the files.
    pub shrink: Vec<String>,
    /// Status variable with the number of bytes written.
    pub bytes_status: Option<String>,
    /// Status variable with the number of records written.
    pub records_status: Option<String>,
    /// A process that it needs beside the server.
    pub companion: Option<companion::Declaration>,
}

impl Method {
    /// The baseline, or the repeated baseline.
    pub fn none(name: &str) -> Self {
        let title = if name == NONE { "no audit" } else { "no audit, again (A/A)" };
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            versions: BTreeMap::new(),
            switch: Switch::Live,
            switch_installed: None,
            plugin: None,
            component: None,
            library: None,
            private_only: false,
            needs_variable: None,
            options: Vec::new(),
            setup: Vec::new(),
            on: Vec::new(),
            off: Vec::new(),
            teardown: Vec::new(),
            log: Vec::new(),
            shrink: Vec::new(),
            bytes_status: None,
            records_status: None,
            companion: None,
        }
    }

    /// The method as it is on a server.
    #[must_use]
    pub fn for_server(mut self, dialect: &Dialect) -> Self {
        let Some(plugin) = self.plugin.clone() else { return self };
        let component = self.component.take().filter(|_| dialect.has_components());
        self.library = Some(match (dialect.product(), component) {
            (Product::MariaDb, _) => Library::Soname(plugin),
            (Product::MySql, None) => {
                // Sessions keep it until they end, including ours (8.0.33, 9.7.4).
                self.switch = Switch::Restart;
                Library::Plugin(plugin)
            }
            (Product::MySql, Some(component)) => {
                self.switch = component.switch.unwrap_or(self.switch);
                self.name_as_component(&plugin);
                Library::Component(component.name)
            }
        });
        self
    }

    /// A component's settings and status variables are `name.x`, a plugin's `name_x`.
    fn name_as_component(&mut self, plugin: &str) {
        let rename = |name: &str| -> Option<String> {
            let (start, rest) = (name.get(..plugin.len())?, name.get(plugin.len()..)?);
            let rest = rest.strip_prefix('_')?;
            start.eq_ignore_ascii_case(plugin).then(|| format!("{plugin}.{rest}"))
        };
        let statements =
            [&mut self.setup, &mut self.on, &mut self.off, &mut self.teardown, &mut self.shrink];
        for statement in statements.into_iter().flatten() {
            if let Some(name) = variable_set_by(statement)
                && let Some(renamed) = rename(name)
            {
                *statement = statement.replacen(name, &renamed, 1);
            }
        }
        let names = [&mut self.needs_variable, &mut self.bytes_status, &mut self.records_status];
        let companion_status = self.companion.as_mut().map(|companion| &mut companion.status);
        for name in names.into_iter().flatten().chain(companion_status) {
            if let Some(renamed) = rename(name) {
                *name = renamed;
            }
        }
        let words = self.companion.iter_mut().flat_map(|companion| &mut companion.command);
        for text in self.log.iter_mut().chain(words) {
            if let Some((before, rest)) = text.split_once('{')
                && let Some((name, after)) = rest.split_once('}')
                && let Some(renamed) = rename(name)
            {
                *text = format!("{before}{{{renamed}}}{after}");
            }
        }
    }

    /// All statements that it may send.
    pub fn statements(&self) -> impl Iterator<Item = &String> {
        let all = [&self.setup, &self.on, &self.off, &self.teardown, &self.shrink];
        all.into_iter().flatten()
    }
}

/// The system variable that `SET GLOBAL name = value` sets; `None` for anything else, such as a
/// list of assignments.
pub fn variable_set_by(statement: &str) -> Option<&str> {
    let rest = strip_word(statement, "SET")?;
    let rest = strip_word(rest, "GLOBAL")?;
    let (name, value) = rest.split_once('=')?;
    let name = name.trim_end().trim_end_matches(':').trim_end();
    let good =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c));
    (good && !has_bare_comma(value)).then_some(name)
}

/// Whether there is a comma outside quotes and parentheses.
fn has_bare_comma(text: &str) -> bool {
    let (mut quote, mut depth) = (None, 0);
    for c in text.chars() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ',') if depth == 0 => return true,
            (None, _) => {}
        }
    }
    false
}

fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let text = text.trim_start();
    let start = text.get(..word.len())?;
    let rest = &text[word.len()..];
    (start.eq_ignore_ascii_case(word) && rest.starts_with(char::is_whitespace))
        .then(|| rest.trim_start())
}

/// All known methods.
#[derive(Clone, Debug, Default)]
pub struct Methods(Vec<Method>);

impl Methods {
    /// The built-in methods.
    ///
    /// # Errors
    /// One of them is wrong, which a test detects first.
    pub fn built_in() -> Result<Self> {
        let mut methods = Self::default();
        for (name, text) in BUILT_IN {
            methods.add(text).with_context(|| format!("the built-in method {name}"))?;
        }
        Ok(methods)
    }

    /// Adds the methods of a file.
    ///
    /// # Errors
    /// It cannot be read, or is wrong.
    pub fn add_file(&mut self, path: &Path) -> Result<()> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        self.add(&text).with_context(|| format!("{}", path.display()))
    }

    fn add(&mut self, text: &str) -> Result<()> {
        let file: Declaration = toml::from_str(text)?;
        let variants = file.variants.clone();
        let method = Method {
            name: file.name,
            title: file.title,
            versions: file.versions,
            switch: file.switch,
            switch_installed: file.switch_installed,
            library: None,
            plugin: file.plugin,
            component: file.component,
            private_only: file.private_only,
            needs_variable: file.needs_variable,
            options: file.options,
            setup: file.setup,
            on: file.on,
            off: file.off,
            teardown: file.teardown,
            log: file.log,
            shrink: file.shrink,
            bytes_status: file.bytes_status,
            records_status: file.records_status,
            companion: file.companion,
        };
        self.add_method(method.clone())?;
        for variant in variants {
            let mut on = method.on.clone();
            on.extend(variant.on);
            self.add_method(Method {
                name: format!("{}:{}", method.name, variant.name),
                title: variant.title,
                needs_variable: variant.needs_variable.or_else(|| method.needs_variable.clone()),
                companion: variant.companion.or_else(|| method.companion.clone()),
                private_only: variant.private_only || method.private_only,
                on,
                ..method.clone()
            })?;
        }
        Ok(())
    }

    fn add_method(&mut self, method: Method) -> Result<()> {
        let name = &method.name;
        ensure!(
            name.chars().all(|c| c.is_ascii_alphanumeric() || "_-:".contains(c))
                && !name.is_empty(),
            "{name:?} is no name for a method: letters, digits, _ and - only"
        );
        ensure!(name != NONE && name != NONE_AGAIN, "the method {name} is already defined");
        ensure!(self.get(name).is_none(), "the method {name} is already defined");
        ensure!(
            method.options.is_empty() || method.switch == Switch::Restart,
            "the method {name} has options, so it must have switch = \"restart\""
        );
        for statement in method.statements() {
            // Everything that is set is restored at the end; that needs its name.
            let set = strip_word(statement, "SET").is_some();
            ensure!(
                !set || variable_set_by(statement).is_some(),
                "{name}: {statement:?} must have the form SET GLOBAL variable = value"
            );
        }
        if let Some(plugin) = &method.plugin {
            let good = plugin.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
            ensure!(good && !plugin.is_empty(), "{name}: {plugin:?} is not a plugin name");
        }
        if let Some(component) = &method.component {
            let name = &component.name;
            let good = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
            ensure!(good && !name.is_empty(), "{}: {name:?} is not a component name", method.name);
            ensure!(method.plugin.is_some(), "{}: a component needs a plugin", method.name);
        }
        for server in method.versions.keys() {
            ensure!(
                matches!(&**server, "mariadb" | "mysql"),
                "{name}: unknown server {server:?}, expected mariadb or mysql"
            );
        }
        self.0.push(method);
        Ok(())
    }

    /// One method.
    pub fn get(&self, name: &str) -> Option<&Method> {
        self.0.iter().find(|method| method.name == name)
    }

    /// All methods, variants after their base.
    pub fn iter(&self) -> impl Iterator<Item = &Method> {
        self.0.iter()
    }

    /// The methods of a list of names; `name:*` stands for a method with all its variants.
    ///
    /// # Errors
    /// A name is unknown.
    pub fn choose(&self, names: &[String]) -> Result<Vec<Method>> {
        let mut chosen: Vec<Method> = Vec::new();
        for name in names {
            // They are always measured.
            if name == NONE || name == NONE_AGAIN {
                continue;
            }
            let stem = name.strip_suffix(":*");
            let found: Vec<&Method> = self
                .iter()
                .filter(|method| match stem {
                    Some(stem) => method.name.split(':').next() == Some(stem),
                    None => method.name == *name,
                })
                .collect();
            if found.is_empty() {
                let known: Vec<&str> = self.iter().map(|method| &*method.name).collect();
                bail!("unknown method {name:?}; known are {}", known.join(", "));
            }
            for method in found {
                if chosen.iter().all(|other| other.name != method.name) {
                    chosen.push(method.clone());
                }
            }
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests;
