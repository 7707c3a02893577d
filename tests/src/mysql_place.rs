//! The log and arenas of a test with MySQL.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::client::{Conn, Queryable as _};
use crate::mysql_server::{Builder, MySql, install, named};
use crate::recorded::{self, Line};

/// Log and arenas of one test, which are removed when it has passed. Create it before the server
/// that records there, so that it is dropped after it.
#[derive(Debug)]
pub struct LogAndArenas(PathBuf);

impl LogAndArenas {
    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A folder named after the test.
    ///
    /// # Panics
    /// It cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let path = crate::unused_directory(&format!("mysql-{name}"));
        fs::create_dir_all(path.join("arenas")).expect("a directory");
        Self(path)
    }

    /// The log directory.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// A server that records there.
    #[must_use]
    pub fn builder(&self) -> Builder {
        MySql::builder()
            .option(named(&format!("loose-tacho.directory={}", self.log().display())))
            .option(named(&format!("loose-tacho.arena-directory={}/arenas", self.0.display())))
    }

    /// A server that records there from now on, and root's connection.
    ///
    /// # Panics
    /// It does not come up.
    #[must_use]
    pub fn start(&self, options: &[&str]) -> (MySql, Conn) {
        let with = |builder: Builder, option: &&str| builder.option(named(option));
        start(options.iter().fold(self.builder(), with))
    }

    /// Stops the server and reads what it has recorded.
    ///
    /// # Panics
    /// It does not stop in the orderly way, or the log cannot be read.
    #[must_use]
    pub fn end(&self, server: &mut MySql) -> Vec<Line> {
        server.stop().expect("stopping");
        recorded::read(&self.log()).expect("a readable log")
    }

    /// How many arenas there are.
    ///
    /// # Panics
    /// The folder cannot be read.
    #[must_use]
    pub fn arena_count(&self) -> usize {
        fs::read_dir(self.0.join("arenas")).expect("a directory").count()
    }
}

/// A server that records from now on, and root's connection.
///
/// # Panics
/// It does not come up.
#[must_use]
pub fn start(builder: Builder) -> (MySql, Conn) {
    let server = builder.start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    (server, root)
}

impl Drop for LogAndArenas {
    /// # Panics
    /// It cannot be removed although the test has passed so far.
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("log and arenas kept in {}", self.0.display());
        } else {
            fs::remove_dir_all(&self.0).expect("removing");
        }
    }
}
