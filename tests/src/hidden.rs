//! Secrets that are sent to a server, and must not occur in its log directory.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::log::all_files;
use crate::recorded::{Line, text};

/// Unique marks: secrets, which must not be found, and names, which must be.
#[derive(Debug)]
pub struct Marks {
    random: u64,
    count: u64,
    secrets: Vec<String>,
    /// With the statement that contained each.
    names: Vec<(String, String)>,
}

impl Default for Marks {
    fn default() -> Self {
        Self::new()
    }
}

impl Marks {
    /// None yet.
    ///
    /// # Panics
    /// There is no clock.
    #[must_use]
    pub fn new() -> Self {
        let random = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_nanos();
        Self { random: random as u64, count: 0, secrets: Vec::new(), names: Vec::new() }
    }

    fn next(&mut self, prefix: &str) -> String {
        self.count += 1;
        let spread = (self.random ^ self.count).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("{prefix}{spread:016x}{}", self.count)
    }

    /// One more secret.
    pub fn secret(&mut self) -> String {
        let secret = self.next("S3");
        self.secrets.push(secret.clone());
        secret
    }

    /// A text of the caller's that must not be found.
    pub fn hide(&mut self, secret: String) {
        self.secrets.push(secret);
    }

    /// A statement with a new secret for `%` and a new name for `#`, which must be kept if
    /// `is_name_kept`.
    pub fn fill(&mut self, statement: &str, is_name_kept: bool) -> String {
        let (secret, name) = (self.secret(), self.next("u"));
        let sql = statement.replace('%', &secret).replace('#', &name);
        if is_name_kept {
            self.names.push((name, statement.to_owned()));
        }
        sql
    }

    /// # Panics
    /// A file of this directory contains a secret.
    pub fn assert_hidden(&self, directory: &Path) {
        for file in all_files(directory) {
            let contents = fs::read(&file).expect("a file");
            for line in contents.split(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(line);
                let found = self.secrets.iter().find(|secret| line.contains(&***secret));
                assert!(found.is_none(), "{}: {line}", file.display());
            }
        }
    }

    /// # Panics
    /// A name is missing.
    pub fn assert_named(&self, lines: &[Line]) {
        for (name, statement) in &self.names {
            let has_name = |sql: &str| sql.contains(name);
            assert!(
                lines.iter().filter_map(|line| text(line, "sql")).any(has_name),
                "the subject of this statement is lost: {statement}"
            );
        }
    }
}
