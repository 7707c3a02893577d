//! The statements that have not ended.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use tacho_record::{Field, OwnedRecord};
use tacho_recorder::arena_file::ArenaError;

use crate::arena::running::{self, Known, Running};
use crate::recover::find;
use crate::report::cut;
use crate::status::advice;
use crate::view::View;

/// A statement with a `running` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Long {
    seq: u64,
    /// The rest.
    pub statement: Statement,
}

/// A statement that has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// Connection id.
    pub conn: u64,
    /// When it started, µs since 1970-01-01 UTC.
    pub ts_us: i64,
    /// User name.
    pub user: String,
    /// Host name, or address.
    pub host: String,
    /// Default database.
    pub db: String,
    /// Its text; empty if it is not known.
    pub text: String,
}

impl Long {
    /// The statement of a `running` line.
    pub fn of(record: &OwnedRecord) -> Self {
        record.with_line(|line| {
            let text = |field| line.text(field).into_owned();
            let statement = Statement {
                conn: line.number(Field::conn).unwrap_or(0),
                ts_us: line.ts().as_microsecond(),
                user: text(Field::user),
                host: line.client_host().into_owned(),
                db: text(Field::db),
                text: cut(&line.text(Field::sql)).to_owned(),
            };
            Self { seq: record.seq, statement }
        })
    }
}

/// Finds them.
#[derive(Debug)]
pub struct Finder {
    /// The log directory, as in the arenas, and the user that owns it.
    log: PathBuf,
    owner: u32,
    arena_directory: PathBuf,
    /// Those with `running` lines.
    long: Vec<Long>,
}

/// The statements, and why there may be others.
#[derive(Debug, Default)]
pub struct RunningNow {
    /// The statements, the oldest first.
    pub statements: Vec<Statement>,
    /// Why an arena cannot be read.
    pub problem: Option<String>,
    /// Servers that record to this log and run.
    pub servers: Vec<String>,
}

impl Finder {
    /// Of a log of the user `owner`.
    pub fn new(log: PathBuf, owner: u32, arena_directory: &Path) -> Self {
        Self { log, owner, arena_directory: arena_directory.to_owned(), long: Vec::new() }
    }

    /// The statements with `running` lines have changed.
    pub fn set_long(&mut self, long: Vec<Long>) {
        self.long = long;
    }

    /// The statements that have not ended.
    pub fn find(&self) -> RunningNow {
        let mut found = RunningNow::default();
        let mut all: BTreeMap<u64, Statement> = BTreeMap::new();
        for long in &self.long {
            all.insert(long.statement.conn, long.statement.clone());
        }
        match find::candidates(&self.arena_directory, &self.log, self.owner) {
            Ok(candidates) => {
                for path in candidates.paths {
                    self.look_into(&path, &mut all, &mut found);
                }
            }
            Err(error) => found.problem = Some(unreadable(&self.arena_directory, &error)),
        }
        found.statements = all.into_values().collect();
        found.statements.sort_by_key(|statement| (statement.ts_us, statement.conn));
        found
    }

    /// Adds the statements of one arena, if its server runs.
    fn look_into(&self, path: &Path, all: &mut BTreeMap<u64, Statement>, found: &mut RunningNow) {
        match find::open(path, self.owner) {
            Ok((arena, theirs)) if theirs == self.log && arena.alive => {
                found.servers.push(arena.server.clone());
                for running in running::statements(&arena.file) {
                    self.add(running, all);
                }
            }
            Ok(_) => {}
            Err(ArenaError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(ArenaError::Io { source, .. }) => found.problem = Some(unreadable(path, &source)),
            // Of a server that starts now, or of another user: `tacho status` reports those.
            Err(_) => {}
        }
    }

    fn add(&self, running: Running, all: &mut BTreeMap<u64, Statement>) {
        let Running { conn, ts_us, known } = running;
        let statement = match known {
            Known::Record { user, host, db, text } => {
                let text = text.unwrap_or_default();
                let text = cut(&text).to_owned();
                Statement { conn, ts_us, user, host, db, text }
            }
            // If its line was not read yet, the next update has it.
            Known::Line(seq) => match self.long.iter().find(|long| long.seq == seq) {
                Some(long) => long.statement.clone(),
                None => Statement { conn, ts_us, ..Statement::default() },
            },
            Known::Nothing => Statement { conn, ts_us, ..Statement::default() },
        };
        all.insert(conn, statement);
    }
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    let advice = advice(error);
    format!("statements under 10 s are not shown: {}: {error}{advice}", path.display())
}
