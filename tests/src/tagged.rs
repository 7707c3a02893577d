//! The tagging client: a load whose every statement has a unique id.
//!
//! Each thread marks an id as acknowledged once it has received the server's whole answer, be it a
//! result or an error. An id that was sent and not answered is in flight; a connection has at most
//! one. After the server has gone away, the threads reconnect until they are stopped. So the client
//! knows, independently of any log, what an audit log must contain (the acknowledged), and what it
//! may contain (the in-flight).

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::client::{self, Conn, Queryable};
use crate::wait;

/// The database that [`prepare`] makes and the client works in.
const DATABASE: &str = "tagged";

/// Rows of the table; each thread changes its own, so that threads never wait for each other.
const ROWS_PER_THREAD: u64 = 100;

/// Errors that the server sends without processing the statement, while it closes a connection:
/// `ER_SERVER_SHUTDOWN`, `ER_CONNECTION_KILLED`.
const GOODBYES: [u16; 2] = [1053, 1927];

/// Which client command carries a statement text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Command {
    /// `COM_QUERY`
    Query,
    /// `COM_STMT_PREPARE`. MariaDB 10.11 reports it to its general log, and to its audit plugins by
    /// GENERAL_LOG, only after the answer has been sent, and not at all if it failed.
    Prepare,
    /// `COM_STMT_EXECUTE`
    Execute,
}

impl Command {
    /// From the server's name of the command; `None` for commands without statement text.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "Query" => Some(Self::Query),
            "Prepare" => Some(Self::Prepare),
            "Execute" => Some(Self::Execute),
            _ => None,
        }
    }
}

/// One statement. A prepared text occurs twice, when it is prepared and when it is executed: these
/// are two tags with the same id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag {
    /// `<run>-<thread>-<number>`
    pub id: String,
    /// How it was sent.
    pub command: Command,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.id, self.command)
    }
}

/// The id that a statement text of run `run` carries.
pub fn find_id<'a>(sql: &'a str, run: &str) -> Option<&'a str> {
    let is_id_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    sql.match_indices("id:").find_map(|(at, mark)| {
        let rest = &sql[at + mark.len()..];
        let end = rest.bytes().position(|byte| !is_id_byte(byte)).unwrap_or(rest.len());
        let id = &rest[..end];
        let numbers = id.strip_prefix(run)?.strip_prefix('-')?;
        (!numbers.is_empty()).then_some(id)
    })
}

/// The settings of the client.
#[derive(Clone, Debug)]
pub struct Load {
    /// Socket of the server.
    pub socket: PathBuf,
    /// Its port on this machine, if the client connects over TCP instead.
    pub port: Option<u16>,
    /// Account without a password.
    pub user: String,
    /// First part of every id: letters and digits.
    pub run: String,
    /// Connections.
    pub threads: u64,
    /// Rest after each step (a step is up to three statements); zero for as fast as possible.
    pub pause: Duration,
    /// Every `n`th step sends a statement of 100 kB; 0 for never.
    pub big_every: u64,
    /// Whether statements that cannot be prepared are among the kinds.
    pub failing_prepares: bool,
    /// Acknowledged tags are also appended here, one a line, as `<id> <command>`.
    pub acknowledged_file: Option<PathBuf>,
}

impl Load {
    /// Four connections as root, as fast as possible.
    pub fn new(socket: &Path, run: &str) -> Self {
        Self {
            socket: socket.to_owned(),
            port: None,
            user: "root".to_owned(),
            run: run.to_owned(),
            threads: 4,
            pause: Duration::ZERO,
            big_every: 50,
            failing_prepares: true,
            acknowledged_file: None,
        }
    }

    fn connect(&self) -> mysql::Result<Conn> {
        match self.port {
            Some(port) => client::connect_tcp(port, &self.user, DATABASE),
            None => client::connect(&self.socket, &self.user, DATABASE),
        }
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// The file for acknowledged tags cannot be opened.
    pub fn start(&self) -> Result<Running> {
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged_count = Arc::new(AtomicU64::new(0));
        let mut threads = Vec::new();
        for thread_number in 0..self.threads {
            let file = match &self.acknowledged_file {
                Some(path) => Some(
                    OpenOptions::new()
                        .create(true)
                        .append(true)
                        .open(path)
                        .with_context(|| format!("opening {}", path.display()))?,
                ),
                None => None,
            };
            let worker = Worker {
                load: self.clone(),
                thread_number,
                statement_count: 0,
                file,
                stop: Arc::clone(&stop),
                acknowledged_count: Arc::clone(&acknowledged_count),
                tally: Tally::default(),
            };
            let name = format!("tagged-{thread_number}");
            threads.push(thread::Builder::new().name(name).spawn(move || worker.work())?);
        }
        Ok(Running { stop, acknowledged_count, threads })
    }
}

/// Makes the database, table and rows that the client needs; its statements carry no ids.
///
/// # Errors
/// The server refuses.
pub fn prepare(conn: &mut Conn, threads: u64) -> Result<()> {
    conn.query_drop(format!("CREATE DATABASE {DATABASE}"))?;
    conn.query_drop(format!(
        "CREATE TABLE {DATABASE}.things (number BIGINT PRIMARY KEY, count INT NOT NULL,
         note VARCHAR(200) NOT NULL) ENGINE=InnoDB"
    ))?;
    conn.query_drop(format!(
        "CREATE TABLE {DATABASE}.notes (number BIGINT PRIMARY KEY AUTO_INCREMENT,
         note VARCHAR(200) NOT NULL) ENGINE=InnoDB"
    ))?;
    let rows: Vec<String> =
        (1..=threads * ROWS_PER_THREAD).map(|row| format!("({row}, 0, 'first')")).collect();
    conn.query_drop(format!("INSERT INTO {DATABASE}.things VALUES {}", rows.join(", ")))?;
    Ok(())
}

/// A running client.
#[derive(Debug)]
pub struct Running {
    stop: Arc<AtomicBool>,
    acknowledged_count: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<Tally>>>,
}

impl Running {
    /// How many statements have been answered so far.
    pub fn acknowledged_count(&self) -> u64 {
        self.acknowledged_count.load(Ordering::Relaxed)
    }

    /// Waits until `count` more statements have been answered.
    ///
    /// # Panics
    /// No statement is answered any more.
    pub fn wait_for_more(&self, count: u64) {
        let goal = self.acknowledged_count() + count;
        wait::until("the load continues", || self.acknowledged_count() >= goal);
    }

    /// Ends every thread after its current step and adds up their counts.
    ///
    /// # Errors
    /// A thread got something that is neither an answer nor a lost connection.
    pub fn stop(self) -> Result<Tally> {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = Tally::default();
        for thread in self.threads {
            let tally = thread.join().map_err(|_| anyhow!("a tagging thread panicked"))??;
            sum.acknowledged.extend(tally.acknowledged);
            sum.in_flight.extend(tally.in_flight);
            sum.connect_count += tally.connect_count;
            sum.error_count += tally.error_count;
        }
        Ok(sum)
    }
}

/// The counts of the client.
#[derive(Debug, Default)]
pub struct Tally {
    /// Answered, with a result or an error: must be in the log.
    pub acknowledged: Vec<Tag>,
    /// Sent, never answered: may be in the log.
    pub in_flight: Vec<Tag>,
    /// Connections that were opened.
    pub connect_count: u64,
    /// Answers that were errors.
    pub error_count: u64,
}

/// Why a step ended early.
enum Trouble {
    /// The server is gone, or is closing this connection.
    Disconnected,
    /// The harness itself is broken.
    Fatal(anyhow::Error),
}

struct Worker {
    load: Load,
    thread_number: u64,
    statement_count: u64,
    file: Option<File>,
    stop: Arc<AtomicBool>,
    acknowledged_count: Arc<AtomicU64>,
    tally: Tally,
}

impl Worker {
    fn work(mut self) -> Result<Tally> {
        let mut step_number = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let Ok(mut conn) = self.load.connect() else {
                // The server is down, or not up again yet.
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            self.tally.connect_count += 1;
            while !self.stop.load(Ordering::Relaxed) {
                step_number += 1;
                match self.step(&mut conn, step_number) {
                    Ok(()) => {}
                    Err(Trouble::Disconnected) => break,
                    Err(Trouble::Fatal(error)) => return Err(error),
                }
                thread::sleep(self.load.pause);
            }
        }
        Ok(self.tally)
    }

    /// One to three statements of one kind; the kinds take turns.
    fn step(&mut self, conn: &mut Conn, step_number: u64) -> Result<(), Trouble> {
        let row = self.thread_number * ROWS_PER_THREAD + step_number % ROWS_PER_THREAD + 1;
        if self.load.big_every != 0 && step_number.is_multiple_of(self.load.big_every) {
            let padding = "x".repeat(100_000);
            return self.query(conn, |id| format!("SELECT LENGTH('{padding}') /* {id} */"));
        }
        match step_number % 9 {
            0 => {
                self.query(conn, |id| format!("SELECT /* {id} */ * FROM things WHERE number={row}"))
            }
            // The id only as a literal, once per row.
            1 => self.query(conn, |id| {
                format!("INSERT INTO notes (note) VALUES ('{id}'), ('{id}'), ('é – 🚚\n\\\"')")
            }),
            2 => self.query(conn, |id| {
                format!("/* {id} */ UPDATE things SET count=count+1 WHERE number={row}")
            }),
            3 => self.prepared(
                conn,
                |id| format!("SELECT count FROM things WHERE number=? /* {id} */"),
                row,
            ),
            4 => {
                self.query(conn, |id| format!("START TRANSACTION /* {id} */"))?;
                self.query(conn, |id| format!("UPDATE things SET note='{id}' WHERE number={row}"))?;
                let end = if step_number.is_multiple_of(2) { "COMMIT" } else { "ROLLBACK" };
                self.query(conn, |id| format!("{end} /* {id} */"))
            }
            5 => self.query(conn, |id| format!("SELECT * FROM no_such_table /* {id} */")),
            6 => self.query(conn, |id| format!("THIS IS NOT SQL /* {id} */")),
            7 if self.load.failing_prepares => self.prepared(
                conn,
                |id| format!("SELECT * FROM no_such_table WHERE number=? /* {id} */"),
                row,
            ),
            _ => self.query(conn, |id| format!("SET @tag='{id}'")),
        }
    }

    fn query(&mut self, conn: &mut Conn, text: impl FnOnce(&str) -> String) -> Result<(), Trouble> {
        let (tag, text) = self.next(Command::Query, text);
        let answer = conn.query_drop(text);
        self.note(tag, answer)
    }

    fn prepared(
        &mut self,
        conn: &mut Conn,
        text: impl FnOnce(&str) -> String,
        parameter: u64,
    ) -> Result<(), Trouble> {
        let (tag, text) = self.next(Command::Prepare, text);
        let execute = Tag { command: Command::Execute, ..tag.clone() };
        match conn.prep(text) {
            Ok(statement) => {
                self.note(tag, Ok(()))?;
                let answer = conn.exec_drop(&statement, (parameter,));
                self.note(execute, answer)?;
                // COM_STMT_CLOSE has no answer; the next statement shows whether it arrived.
                conn.close(statement).map_err(|_| Trouble::Disconnected)
            }
            Err(error) => self.note(tag, Err(error)),
        }
    }

    fn next(&mut self, command: Command, text: impl FnOnce(&str) -> String) -> (Tag, String) {
        self.statement_count += 1;
        let id = format!("{}-{}-{}", self.load.run, self.thread_number, self.statement_count);
        let text = text(&format!("id:{id}"));
        (Tag { id, command }, text)
    }

    fn note(&mut self, tag: Tag, answer: mysql::Result<()>) -> Result<(), Trouble> {
        match answer {
            Ok(()) => {}
            Err(mysql::Error::MySqlError(error)) if !GOODBYES.contains(&error.code) => {
                self.tally.error_count += 1;
            }
            Err(
                mysql::Error::MySqlError(_)
                | mysql::Error::IoError(_)
                | mysql::Error::CodecError(_),
            ) => {
                self.tally.in_flight.push(tag);
                return Err(Trouble::Disconnected);
            }
            Err(error) => {
                let error = anyhow::Error::new(error).context(format!("statement {tag}"));
                return Err(Trouble::Fatal(error));
            }
        }
        if let Some(file) = &mut self.file {
            // One write per line: several threads append to the same file.
            let line = format!("{} {:?}\n", tag.id, tag.command);
            file.write_all(line.as_bytes())
                .context("writing the acknowledged tags")
                .map_err(Trouble::Fatal)?;
        }
        self.tally.acknowledged.push(tag);
        self.acknowledged_count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_id_of_its_own_run_only() {
        assert_eq!(find_id("SELECT 1 /* id:r7-3-12 */", "r7"), Some("r7-3-12"));
        assert_eq!(find_id("VALUES ('id:r7-3-12'), ('id:r7-3-12')", "r7"), Some("r7-3-12"));
        assert_eq!(find_id("SELECT 'id:r8-1-1' /* id:r7-0-1", "r7"), Some("r7-0-1"));
        assert_eq!(find_id("SELECT 1 /* id:r77-3-12 */", "r7"), None);
        assert_eq!(find_id("SELECT id FROM t WHERE id=1 /* id:", "r7"), None);
        assert_eq!(find_id("é id:é", "r7"), None);
    }
}
