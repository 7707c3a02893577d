//! A private MariaDB below `build/`, with the plugin that has been built.
//!
//! ```no_run
//! # use tacho_tests::server::TestServer;
//! let mut server = TestServer::builder().option("max_connections=1300").start()?;
//! let mut conn = server.connect()?;
//! server.kill9()?;
//! server.restart()?;
//! # anyhow::Ok(())
//! ```
//!
//! `tacho bench` starts its servers in the same way ([`tacho_sandbox::server`]). A test also
//! requires that the server reported no problem, and did not crash while stopping.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::thread;

use anyhow::Result;
use tacho_sandbox::dialect::{Dialect, Library};
use tacho_sandbox::installation::Installation;
use tacho_sandbox::{plugin as libraries, server as private};

/// The server's messages when it crashes.
const CRASH_MARKS: [&str; 5] =
    ["got signal", "Assertion", "Sanitizer:", "[FATAL]", "This could be because you hit a bug"];

/// Tests set filters that exclude everything irrelevant to them: `tests/filter_recipes.rs` tests
/// this warning.
const BROAD_FILTER: &str = "the filter can leave out statements about accounts";

/// The free space of this machine's disk is irrelevant for most tests.
const DISK_IS_FILLING: &str = "[Warning] tacho: the file system of the audit log has";

/// MariaDB's default, which the tests keep.
const FILES_ARE_OPEN: &str = "[Warning] tacho: secure_file_priv is empty";

/// The kernel limits I/O buffers for each user, and how many are left depends on other processes: a
/// server that gets none works without, and warns about it.
pub const NO_NATIVE_AIO: &str = "innodb-use-native-aio=0";

/// MariaDB's warnings at every start in a test.
pub const KNOWN: &[&str] = &["max_open_files"];

/// A wrapper that makes a server started by root obey file permissions, like one that runs as its
/// own user: the tests' directories may be below a home that only root can enter.
pub const OBEYS_PERMISSIONS: [&str; 2] =
    ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"];

/// The tested MariaDB: that of this machine, or with `TACHO_SERVER=mariadb-11.8` the one that
/// `scripts/setup-mariadb-11.8.sh` has put into a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// 10.11, installed on this machine.
    System,
    /// 11.8.
    Mariadb118,
}

/// # Panics
/// `TACHO_SERVER` has an unknown value.
pub fn release() -> Release {
    match std::env::var("TACHO_SERVER").as_deref() {
        Err(_) | Ok("" | "mariadb") => Release::System,
        Ok("mariadb-11.8") => Release::Mariadb118,
        Ok(other) => panic!("TACHO_SERVER={other}: there are mariadb and mariadb-11.8"),
    }
}

/// Whether our plugin supports how this release counts examined rows.
pub fn tells_rows_examined() -> bool {
    release() == Release::System
}

/// Its programs.
///
/// # Panics
/// There is no home directory to search.
pub fn installation() -> Installation {
    folder().map_or_else(Installation::system, Installation::in_folder)
}

/// Its folder, unless it is the one of this machine.
///
/// # Panics
/// There is no home directory to search.
pub fn folder() -> Option<PathBuf> {
    match release() {
        Release::System => None,
        Release::Mariadb118 => Some(cache_directory().join("tachograph/mariadb-11.8")),
    }
}

/// The folder for servers that are not installed on this machine.
///
/// # Panics
/// There is no home directory to search.
pub(crate) fn cache_directory() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(PathBuf::from(home).join(".cache"))
    });
    cache.expect("HOME or XDG_CACHE_HOME")
}

/// Our plugin as it is built for it.
pub fn plugin() -> PathBuf {
    let folder = match release() {
        Release::System => "mariadb",
        Release::Mariadb118 => "mariadb-11.8",
    };
    crate::build_directory().join(folder).join("tacho.so")
}

/// MariaDB's own audit plugin.
///
/// # Errors
/// This installation has none.
pub fn server_audit() -> Result<PathBuf> {
    let installation = installation();
    let dialect = Dialect::of_installation(&installation)?;
    let library = Library::Soname("server_audit".to_owned());
    libraries::find(&installation, &dialect, &library, &[], &crate::build_directory().join("test"))
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

    /// Uses this directory, which must not exist yet, instead of one under `build/test`.
    #[must_use]
    pub fn directory(self, directory: impl Into<PathBuf>) -> Self {
        Self(self.0.directory(directory))
    }

    /// Puts a copy of this shared library into the server's plugin directory.
    /// Our own is there anyway, if it has been built.
    #[must_use]
    pub fn plugin(self, library: impl Into<PathBuf>) -> Self {
        Self(self.0.plugin(library))
    }

    /// Starts the server through this command, which must end by executing its arguments.
    #[must_use]
    pub fn prefix<S: Into<String>>(self, command: impl IntoIterator<Item = S>) -> Self {
        Self(self.0.prefix(command))
    }

    /// Adds an environment variable of the server.
    #[must_use]
    pub fn environment(self, name: &str, value: &str) -> Self {
        Self(self.0.environment(name, value))
    }

    /// Keeps the directory when the server is dropped.
    #[must_use]
    pub fn keep(self) -> Self {
        Self(self.0.keep())
    }

    /// Changes what is below.
    pub(crate) fn map(self, change: impl FnOnce(private::Builder) -> private::Builder) -> Self {
        Self(change(self.0))
    }

    /// Initialises the data directory, starts the server and waits until it answers.
    ///
    /// # Errors
    /// The server is not installed, or did not come up; the end of its error log is in the error.
    pub fn start(self) -> Result<TestServer> {
        let built = plugin();
        let builder = if built.exists() { self.0.plugin(built) } else { self.0 };
        Ok(TestServer(builder.start()?))
    }
}

/// A running, or stopped, private server.
#[derive(Debug)]
pub struct TestServer(private::PrivateServer);

impl TestServer {
    /// A server with small buffers and otherwise default settings.
    pub fn builder() -> Builder {
        let builder = private::Builder::new(crate::build_directory().join("test"));
        Builder(builder.installation(installation()).option(NO_NATIVE_AIO))
    }

    /// Lines of the error log that are errors, warnings or marks of a crash and contain
    /// none of the `allowed` texts. The warning that the disk is nearly full is none.
    pub fn complaints(&self, allowed: &[&str]) -> Vec<String> {
        complaints(&self.error_log(), allowed)
    }

    /// # Panics
    /// The error log has a line that [`TestServer::complaints`] names.
    pub fn assert_clean_log(&self, allowed: &[&str]) {
        assert_none(&self.complaints(allowed));
    }
}

impl Deref for TestServer {
    type Target = private::PrivateServer;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for TestServer {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Drop for TestServer {
    /// # Panics
    /// The server does not stop in the orderly way although the test has passed so far.
    fn drop(&mut self) {
        stop_or_keep(&mut self.0);
    }
}

/// Ends a server with its test.
///
/// # Panics
/// It does not stop in the orderly way although the test has passed so far.
pub(crate) fn stop_or_keep(server: &mut private::PrivateServer) {
    if server.pid().is_none() {
        return;
    }
    if let Err(error) = server.stop() {
        server.keep();
        eprintln!("server files kept in {}", server.directory().display());
        if !thread::panicking() {
            panic!("{error:#}");
        }
        eprintln!("{error:#}");
    }
}

/// # Panics
/// There is one.
pub(crate) fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "the server complained:\n{}", complaints.join("\n"));
}

/// Lines of an error log that are errors, warnings or marks of a crash and contain none of the
/// `allowed` texts.
#[must_use]
pub fn complaints(log: &str, allowed: &[&str]) -> Vec<String> {
    log.lines()
        .filter(|line| {
            let bad = line.contains("[ERROR]") || line.contains("[Warning]");
            bad || CRASH_MARKS.iter().any(|mark| line.contains(mark))
        })
        .filter(|line| {
            ![DISK_IS_FILLING, FILES_ARE_OPEN, BROAD_FILTER].iter().any(|text| line.contains(text))
        })
        .filter(|line| !allowed.iter().any(|text| line.contains(text)))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_complaints_and_leaves_out_the_allowed_ones() {
        let log = "2026-01-01  1:00:00 0 [Note] ready\n\
                   2026-01-01  1:00:01 0 [Warning] Aborted connection 7\n\
                   2026-01-01  1:00:01 0 [Warning] tacho: the file system of the audit log has 1\n\
                   2026-01-01  1:00:02 0 [ERROR] Plugin 'x' failed\n\
                   260101  1:00:03 [ERROR] mysqld got signal 11 ;\n\
                   mariadbd: a.cc:1: f: Assertion `b' failed.\n";
        assert_eq!(complaints(log, &[]).len(), 4);
        let left = complaints(log, &["Aborted connection", "Plugin 'x'"]);
        assert_eq!(left.len(), 2);
        assert!(left[0].contains("signal 11") && left[1].contains("Assertion"));
    }
}
