//! A process that a method needs beside the server, such as an external recorder.
//!
//! It is started when the method is first on, and lives until the bench ends: the method's switch
//! gives it work.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::method::Method;
use crate::stop::Stop;
use crate::target::{data_directory, fill_in};
use tacho_sandbox::client::{self, Conn};

/// How long it may take to become ready after its method was switched on, which takes a second. A
/// deadline only ends a run that hangs.
const READY_DEADLINE: Duration = Duration::from_secs(60);

/// Its declaration in a method.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// Program and arguments. `{tacho}` is this program, any other `{name}` a system variable of
    /// the server whose value is a path; a relative path is in the data directory.
    pub command: Vec<String>,
    /// Status variable that shows whether it is active.
    pub status: String,
    /// Beginning of the value when it is active.
    pub ready: String,
}

/// A running process; it is killed on drop.
#[derive(Debug)]
pub struct Companion {
    process: Child,
    said: PathBuf,
}

impl Companion {
    /// Starts the process of a method that is on. Its output goes to `work`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(conn: &mut Conn, declaration: &Declaration, work: &Path) -> Result<Self> {
        let data_directory = data_directory(conn)?;
        let mut words = Vec::new();
        for word in &declaration.command {
            words.push(match &**word {
                "{tacho}" => std::env::current_exe()?,
                word if word.contains('{') => data_directory.join(fill_in(conn, word)?),
                word => PathBuf::from(word),
            });
        }
        let (program, arguments) = words.split_first().context("a companion without a command")?;
        let said = work.join("companion.log");
        let log =
            File::create(&said).with_context(|| format!("cannot create {}", said.display()))?;
        let process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { process, said })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until the server reports it as active and, if the method counts its records, until it
    /// has written one: while it takes over a log, nothing is written, which does not belong to the
    /// cost of the method. `conn`: a session that was opened for this change, which is recorded.
    ///
    /// # Errors
    /// It has ended, or does not get to work.
    pub fn wait_until_ready(
        &mut self,
        conn: &mut Conn,
        method: &Method,
        declaration: &Declaration,
        stop: &Stop,
    ) -> Result<()> {
        let deadline = Instant::now() + READY_DEADLINE;
        let mut written_before = None;
        loop {
            let status = client::status(conn, &declaration.status)?;
            let mut written = None;
            if status.values().any(|value| value.starts_with(&declaration.ready)) {
                let Some(records) = &method.records_status else { return Ok(()) };
                // This query is recorded, so there is something to write.
                let now = client::status_number(conn, records)?;
                if now > *written_before.get_or_insert(now) {
                    return Ok(());
                }
                written = Some(now);
            }
            let ended = self.process.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let said = fs::read_to_string(&self.said)
                    .with_context(|| format!("cannot read {}", self.said.display()))?;
                bail!(
                    "{}: its process {}; the server says {status:?}{}; it said: {}",
                    method.name,
                    ended.map_or("does not get to work".to_owned(), |how| format!("ended: {how}")),
                    written.map_or(String::new(), |count| format!(" and {count} records written")),
                    said.trim()
                );
            }
            stop.sleep(Duration::from_millis(10))?;
        }
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        // It may already have ended.
        let _ended_by_itself = self.process.kill();
        let _status = self.process.wait();
    }
}
