//! A private MySQL below `build/`, with the component, or the plugin, that was built for it: the
//! counterpart of [`crate::server`] for MariaDB.
//!
//! The server is the one that `scripts/setup-mysql.sh` has put into a folder.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use anyhow::{Result, ensure};
use tacho_sandbox::installation::Installation;
use tacho_sandbox::server as private;

use crate::client::{Conn, Queryable as _};
use crate::{server, wait};

/// MySQL's warnings at every start in a test: none of them concerns our code.
pub(crate) const KNOWN: &[&str] = &[
    // The certificates that it generates.
    "CA certificate",
    // Running as root in a container.
    "Please read the \"Security\" section",
    "running mysqld as root",
    // Small files on a small disk.
    "innodb_redo_log_capacity",
    "Insecure configuration for --pid-file",
    "Aborted connection",
    // It reads its options before our component is loaded.
    "unknown variable 'loose-tacho",
];

/// The tested MySQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// 9.7, with the component: the default.
    Mysql97,
    /// 8.0, with the plugin: with `TACHO_SERVER=mysql-8.0`.
    Mysql80,
}

/// Which one it is.
pub fn release() -> Release {
    match std::env::var("TACHO_SERVER").as_deref() {
        Ok("mysql-8.0") => Release::Mysql80,
        _ => Release::Mysql97,
    }
}

fn folder() -> &'static str {
    match release() {
        Release::Mysql97 => "mysql-9.7",
        Release::Mysql80 => "mysql-8.0",
    }
}

/// Its programs.
pub fn installation() -> Installation {
    Installation::in_folder(server::cache_directory().join("tachograph").join(folder()))
}

/// Our library's file.
pub fn library_name() -> &'static str {
    match release() {
        Release::Mysql97 => "component_tacho.so",
        Release::Mysql80 => "tacho.so",
    }
}

/// Our library as it is built for it.
pub fn library() -> PathBuf {
    crate::build_directory().join(folder()).join(library_name())
}

/// The statement that installs it.
pub fn install() -> &'static str {
    match release() {
        Release::Mysql97 => "INSTALL COMPONENT 'file://component_tacho'",
        Release::Mysql80 => "INSTALL PLUGIN tacho SONAME 'tacho.so'",
    }
}

/// The statement that removes it.
pub fn uninstall() -> &'static str {
    match release() {
        Release::Mysql97 => "UNINSTALL COMPONENT 'file://component_tacho'",
        Release::Mysql80 => "UNINSTALL PLUGIN tacho",
    }
}

/// The id of a connection, by a statement that is recorded.
///
/// # Panics
/// There is no answer.
pub fn conn_id(conn: &mut Conn) -> u64 {
    conn.query_first("SELECT CONNECTION_ID()").expect("an answer").expect("a row")
}

/// Waits until a session has ended. A server that shuts down ends all of them, and may not read
/// what they have sent: a Quit.
pub fn wait_for_end(root: &mut Conn, conn: u64) {
    wait::until("a session has ended", || {
        let sessions = "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_ID = ?";
        root.exec_first(sessions, (conn,)).expect("an answer") == Some(0_u64)
    });
}

/// Whether 8.0 has the plugin, which remains after UNINSTALL PLUGIN until the last session that had
/// an event has ended.
pub fn has_plugin(conn: &mut Conn) -> bool {
    let plugins = "SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name = 'tacho'";
    conn.query_first(plugins).expect("an answer") == Some(1_u64)
}

/// A text with names of variables, `tacho.overflow`, as they are there.
pub fn named(text: &str) -> String {
    match release() {
        Release::Mysql97 => text.to_owned(),
        Release::Mysql80 => text.replace("tacho.", "tacho_"),
    }
}

/// A status figure as it is called there.
pub fn status_name(name: &str) -> String {
    match release() {
        Release::Mysql97 => format!("tacho.{name}"),
        Release::Mysql80 => format!("Tacho_{name}"),
    }
}

/// Settings of a server that is not started yet.
#[derive(Debug)]
pub struct Builder(private::Builder);

impl Builder {
    /// Adds a server option, with or without the leading dashes. Later ones win.
    #[must_use]
    pub fn option(self, option: impl AsRef<str>) -> Self {
        Self(self.0.option(option))
    }

    /// Adds an environment variable of the server.
    #[must_use]
    pub fn environment(self, name: &str, value: &str) -> Self {
        Self(self.0.environment(name, value))
    }

    /// Puts a copy of this shared library into the server's plugin directory.
    #[must_use]
    pub fn plugin(self, library: impl Into<PathBuf>) -> Self {
        Self(self.0.plugin(library))
    }

    /// Puts a plugin or component of the server's own, by the name of its file, into the plugin
    /// directory.
    #[must_use]
    pub fn library(self, name: &str) -> Self {
        Self(self.0.plugin(installation().usr().join("lib/mysql/plugin").join(name)))
    }

    /// Lets it read persisted settings.
    #[must_use]
    pub fn read_persisted(self) -> Self {
        Self(self.0.read_persisted())
    }

    /// Initialises the data directory, starts the server and waits until it answers. The
    /// library is in its plugin directory, and not installed.
    ///
    /// # Errors
    /// The library is not built, the server is not there, or did not come up.
    pub fn start(self) -> Result<MySql> {
        let built = library();
        ensure!(built.exists(), "{} is missing: make build-mysql", built.display());
        Ok(MySql(self.0.plugin(built).start()?))
    }
}

/// A running, or stopped, private server.
#[derive(Debug)]
pub struct MySql(private::PrivateServer);

impl MySql {
    /// A server with small buffers and otherwise default settings.
    pub fn builder() -> Builder {
        let builder = private::Builder::new(crate::build_directory().join("test"));
        Builder(builder.installation(installation()).option(server::NO_NATIVE_AIO))
    }

    /// Lines of the error log that are errors, warnings or marks of a crash and contain
    /// none of the `allowed` texts.
    pub fn complaints(&self, allowed: &[&str]) -> Vec<String> {
        server::complaints(&self.error_log(), &[allowed, KNOWN].concat())
    }

    /// # Panics
    /// The error log has a line that [`MySql::complaints`] names.
    pub fn assert_clean_log(&self, allowed: &[&str]) {
        server::assert_none(&self.complaints(allowed));
    }
}

impl Deref for MySql {
    type Target = private::PrivateServer;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for MySql {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Drop for MySql {
    /// # Panics
    /// The server does not stop in the orderly way although the test has passed so far.
    fn drop(&mut self) {
        server::stop_or_keep(&mut self.0);
    }
}
