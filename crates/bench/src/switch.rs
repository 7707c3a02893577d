//! Switches methods on and off, and leaves the server as it was.
//!
//! Each change is made in a session of its own. A session that runs a statement on MariaDB while
//! the removal of an audit plugin is pending gets the events of no plugin that is installed later
//! (10.11.19). If it then switches `server_audit_logging`, the server hangs: `server_audit` reads
//! its session variable for the first time in the middle of `SET GLOBAL`, whose lock that needs
//! (`sync_dynamic_session_variables` in `sql/sql_plugin.cc`).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mysql::consts::ColumnType;

use crate::companion::Companion;
use crate::method::{Method, Switch, variable_set_by};
use crate::stop::Stop;
use crate::target::Target;
use crate::undo::{Undo, quote};
use tacho_sandbox::client::{Conn, Login, Queryable};
use tacho_sandbox::dialect::{Dialect, Library};

/// How long sessions may take to release a plugin. Each does so with its next statement.
const UNINSTALL_DEADLINE: Duration = Duration::from_secs(60);

/// Keeps the original state of the server, and the changes of the bench.
#[derive(Debug)]
pub struct Switcher {
    undo: Undo,
    /// Values before the first change, as SQL literals.
    original: BTreeMap<String, String>,
    /// Plugin libraries that the server had before.
    preinstalled: BTreeSet<String>,
    dialect: Dialect,
    on: Option<String>,
    /// Login of the bench, for sessions of their own.
    admin: Login,
    /// Processes of methods by their names, and the directory for their output.
    companions: BTreeMap<String, Companion>,
    work: PathBuf,
}

impl Switcher {
    /// Takes the current state of the server as the one to restore.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn new(conn: &mut Conn, target: &Target, undo: Undo, work: &Path) -> Result<Self> {
        let dialect = target.dialect();
        Ok(Self {
            undo,
            original: BTreeMap::new(),
            preinstalled: dialect.installed(conn)?,
            dialect: dialect.clone(),
            on: None,
            admin: target.admin.clone(),
            companions: BTreeMap::new(),
            work: work.to_owned(),
        })
    }

    /// Whether the server had the method's plugin before: then it is never removed, and the cost of
    /// the server's interface is in the baseline, too.
    pub fn was_installed(&self, method: &Method) -> bool {
        method.library.as_ref().is_some_and(|library| self.preinstalled.contains(library.name()))
    }

    /// Saves the values of all existing variables of a method, and checks whether they may be set,
    /// by setting them to their current values.
    ///
    /// # Errors
    /// A variable may not be set.
    pub fn prepare(&mut self, conn: &mut Conn, method: &Method) -> Result<()> {
        for statement in method.on.iter().chain(&method.off) {
            let Some(name) = variable_set_by(statement) else { continue };
            if self.original.contains_key(name) {
                continue;
            }
            // The variables of a plugin that is not installed yet appear later, and disappear with
            // it.
            let Some(value) = read_variable(conn, name)? else { continue };
            let undo = format!("SET GLOBAL {name} = {value}");
            conn.query_drop(&undo)
                .with_context(|| format!("{}: cannot change {name}", method.name))?;
            self.undo.note(conn, undo)?;
            self.original.insert(name.to_owned(), value);
        }
        Ok(())
    }

    /// What the owner of the server has switched on and the method's `off` would switch off.
    pub fn would_switch_off(&self, method: &Method) -> Option<String> {
        method.off.iter().find_map(|statement| {
            let name = variable_set_by(statement)?;
            let (_, value) = statement.split_once('=')?;
            let is_on = matches!(self.original.get(name)?.as_str(), "1" | "'ON'");
            (is_on && matches!(value.trim(), "OFF" | "0")).then(|| name.to_owned())
        })
    }

    /// Runs a method's statements before its first use; its tear-down runs at the end.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn set_up(&mut self, conn: &mut Conn, method: &Method) -> Result<()> {
        for statement in method.teardown.iter().rev() {
            self.undo.note(conn, statement.clone())?;
        }
        execute(conn, method, &method.setup)
    }

    /// Switches a method on. Another one must have been switched off.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn on(&mut self, method: &Method, stop: &Stop) -> Result<()> {
        ensure!(self.on.is_none(), "{:?} is still on", self.on);
        self.on = Some(method.name.clone());
        let conn = &mut self.admin.connect()?;
        if let Some(library) = &method.library
            && !self.was_installed(method)
        {
            self.undo.note(conn, library.uninstall())?;
            let install = library.install();
            conn.query_drop(&install).with_context(|| format!("{}: {install}", method.name))?;
        }
        if let Some(name) = &method.needs_variable {
            ensure!(
                read_variable(conn, name)?.is_some(),
                "{}: this server has no variable {name}",
                method.name
            );
        }
        execute(conn, method, &method.on)?;
        if let Some(declaration) = &method.companion {
            let companion = match self.companions.entry(method.name.clone()) {
                Entry::Occupied(running) => running.into_mut(),
                Entry::Vacant(none) => {
                    none.insert(Companion::start(conn, declaration, &self.work)?)
                }
            };
            companion.wait_until_ready(conn, method, declaration, stop)?;
        }
        Ok(())
    }

    /// The process of a method beside the server, if the method was on.
    pub fn companion_pid(&self, method: &Method) -> Option<u32> {
        self.companions.get(&method.name).map(Companion::pid)
    }

    /// Switches it off again, and restores what `on` has set. `used`: a session that was used while
    /// it was on, which releases the plugin with a statement.
    ///
    /// # Errors
    /// The server reports an error, or sessions do not release the plugin.
    pub fn off(&mut self, used: &mut Conn, method: &Method, stop: &Stop) -> Result<()> {
        let conn = &mut self.admin.connect()?;
        execute(conn, method, &method.off)?;
        let off: BTreeSet<&str> = method.off.iter().filter_map(|s| variable_set_by(s)).collect();
        for statement in method.on.iter().rev() {
            if let Some(name) = variable_set_by(statement)
                && !off.contains(name)
                && let Some(value) = self.original.get(name)
            {
                conn.query_drop(format!("SET GLOBAL {name} = {value}"))?;
            }
        }
        if let Some(library) = &method.library
            && !self.was_installed(method)
        {
            conn.query_drop(library.uninstall()).with_context(|| method.name.clone())?;
            // A server that is restarted for the next block forgets it anyway.
            if method.switch != Switch::Restart {
                wait_until_gone([conn, used], &self.dialect, library, stop)
                    .with_context(|| method.name.clone())?;
            }
        }
        self.on = None;
        Ok(())
    }

    /// The server was restarted: nothing is on.
    pub fn restarted(&mut self) {
        self.on = None;
    }

    /// Restores everything and removes the schema.
    ///
    /// # Errors
    /// Something could not be restored.
    pub fn finish(&mut self, conn: &mut Conn) -> Result<()> {
        self.undo.run(conn)
    }
}

fn execute(conn: &mut Conn, method: &Method, statements: &[String]) -> Result<()> {
    for statement in statements {
        conn.query_drop(statement).with_context(|| format!("{}: {statement}", method.name))?;
    }
    Ok(())
}

/// Waits until an uninstalled library is gone. Sessions that have used a plugin hold it until their
/// next statement; without one, the server keeps it until it stops.
fn wait_until_gone(
    [conn, other]: [&mut Conn; 2],
    dialect: &Dialect,
    library: &Library,
    stop: &Stop,
) -> Result<()> {
    let deadline = Instant::now() + UNINSTALL_DEADLINE;
    other.query_drop("DO 0")?;
    while dialect.installed(conn)?.contains(library.name()) {
        if Instant::now() > deadline {
            bail!(
                "cannot remove {}: an idle session holds it; end the session or let it run a statement",
                library.file()
            );
        }
        stop.sleep(Duration::from_millis(10))?;
    }
    Ok(())
}

/// The value of a global variable as a literal; `None` if it does not exist.
fn read_variable(conn: &mut Conn, name: &str) -> Result<Option<String>> {
    let there: Option<(String, String)> =
        conn.query_first(format!("SHOW GLOBAL VARIABLES WHERE Variable_name = '{name}'"))?;
    if there.is_none() {
        return Ok(None);
    }
    let mut rows = conn
        .query_iter(format!("SELECT @@GLOBAL.{name}"))
        .with_context(|| format!("cannot read {name}"))?;
    let row = rows.next().with_context(|| format!("no value of {name}"))??;
    let kind = row.columns_ref().first().map(mysql::Column::column_type);
    let value: Option<Vec<u8>> = row.get(0).with_context(|| format!("no value of {name}"))?;
    let Some(value) = value else { return Ok(Some("NULL".to_owned())) };
    let value = String::from_utf8(value).with_context(|| format!("the value of {name}"))?;
    let numeric = matches!(
        kind,
        Some(
            ColumnType::MYSQL_TYPE_TINY
                | ColumnType::MYSQL_TYPE_SHORT
                | ColumnType::MYSQL_TYPE_LONG
                | ColumnType::MYSQL_TYPE_LONGLONG
                | ColumnType::MYSQL_TYPE_DOUBLE
                | ColumnType::MYSQL_TYPE_NEWDECIMAL
        )
    );
    Ok(Some(if numeric { value } else { quote(&value) }))
}
