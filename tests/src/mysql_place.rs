//! Where a test with a MySQL keeps its log and its arenas.

use std::fs;
use std::path::{Path, PathBuf};

use crate::build_directory;
use crate::mysql_server::{Builder, MySql, named};

/// Log and arenas of one test.
#[derive(Debug)]
pub struct Place(PathBuf);

impl Place {
    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A folder of its own, by the name of the test.
    ///
    /// # Panics
    /// It cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let path = build_directory().join(format!("test/mysql-{name}-{}", std::process::id()));
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

    /// How many arenas there are.
    ///
    /// # Panics
    /// The folder cannot be read.
    #[must_use]
    pub fn arena_count(&self) -> usize {
        fs::read_dir(self.0.join("arenas")).expect("a directory").count()
    }

    /// Nothing of it is needed any more.
    ///
    /// # Panics
    /// It cannot be removed.
    pub fn remove(self) {
        fs::remove_dir_all(self.0).expect("removing");
    }
}
