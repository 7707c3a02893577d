//! The states in the server's process list, read with the server's own client program, which
//! supports every way to log in, and reads the option files with the password.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::task::Tid;

/// Names of the client program; the first that exists is used.
const CLIENTS: [&str; 2] = ["mariadb", "mysql"];

/// Interval between queries.
const INTERVAL: Duration = Duration::from_millis(500);

const END: &str = "tacho-end";
const QUERY_MARIADB: &str = "SELECT TID, ID = CONNECTION_ID(), COMMAND, IFNULL(STATE, '') \
     FROM information_schema.PROCESSLIST; SELECT 'tacho-end';\n";
const QUERY_MYSQL: &str = "SELECT THREAD_OS_ID, PROCESSLIST_ID = CONNECTION_ID(), \
     PROCESSLIST_COMMAND, IFNULL(PROCESSLIST_STATE, '') FROM performance_schema.threads \
     WHERE THREAD_OS_ID IS NOT NULL AND PROCESSLIST_COMMAND IS NOT NULL; SELECT 'tacho-end';\n";

/// The server's states at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SqlStates {
    /// `command: state` of each thread.
    pub of: HashMap<Tid, String>,
    /// The thread of this connection.
    pub own: Option<Tid>,
}

/// The process list cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProcessListError {
    /// No client program is installed.
    #[error(
        "the process list needs the client program `mariadb` or `mysql`, which is not installed"
    )]
    NoClient,
    /// It ended without an answer.
    #[error("the client program could not read the process list: {0}")]
    Refused(String),
    /// Communication with it failed.
    #[error("cannot use the client program: {0}")]
    Io(#[from] io::Error),
}

/// A client that repeats the query.
#[derive(Debug)]
pub struct ProcessList {
    latest: Arc<Mutex<SqlStates>>,
    client: Child,
    asker: Option<thread::JoinHandle<()>>,
}

impl ProcessList {
    /// Logs in and queries once. `arguments` are options of the client program. `password` is used
    /// unless an option file has one.
    ///
    /// # Errors
    /// There is no client program, or the server rejects the login.
    pub fn start(arguments: &[OsString], password: Option<&str>) -> Result<Self, ProcessListError> {
        let mut client = spawn(arguments, password)?;
        let (Some(stdin), Some(stdout), Some(mut stderr)) =
            (client.stdin.take(), client.stdout.take(), client.stderr.take())
        else {
            return Err(ProcessListError::Refused("it has no pipes".to_owned()));
        };
        let mut session = Session { stdin, stdout: BufReader::new(stdout), query: QUERY_MARIADB };
        let first = session.ask_version().and_then(|()| session.ask());
        let first = match first {
            Ok(states) => states,
            Err(_) => {
                // It has printed the reason, and ends.
                let mut why = String::new();
                stderr.read_to_string(&mut why)?;
                client.wait()?;
                return Err(ProcessListError::Refused(why.trim().to_owned()));
            }
        };
        // Later messages have no reader, and must not block it.
        thread::spawn(move || io::copy(&mut stderr, &mut io::sink()));
        let latest = Arc::new(Mutex::new(first));
        let shared = Arc::clone(&latest);
        let asker = thread::spawn(move || {
            loop {
                thread::park_timeout(INTERVAL);
                // Fails when the client ends: because it was killed here, or the server is gone.
                let Ok(states) = session.ask() else { return };
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = states;
            }
        });
        Ok(Self { latest, client, asker: Some(asker) })
    }

    /// The states received since the last call: older ones say little about the present.
    pub fn take(&self) -> SqlStates {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let own = latest.own;
        SqlStates {
            own,
            ..std::mem::replace(&mut latest, SqlStates { own, ..SqlStates::default() })
        }
    }
}

impl Drop for ProcessList {
    fn drop(&mut self) {
        // If the client has already ended, there is nothing to kill.
        let _ = self.client.kill();
        let _ = self.client.wait();
        if let Some(asker) = self.asker.take() {
            asker.thread().unpark();
            // A panic there was printed there.
            let _ = asker.join();
        }
    }
}

fn spawn(arguments: &[OsString], password: Option<&str>) -> Result<Child, ProcessListError> {
    for program in CLIENTS {
        let mut command = Command::new(program);
        if let Some(password) = password {
            // Not as an argument: other users can read those.
            command.env("MYSQL_PWD", password);
        }
        let spawned = command
            .args(arguments)
            .args(["--batch", "--skip-column-names", "--unbuffered", "--connect-timeout=10"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        match spawned {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            spawned => return Ok(spawned?),
        }
    }
    Err(ProcessListError::NoClient)
}

struct Session {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    query: &'static str,
}

impl Session {
    fn ask_version(&mut self) -> io::Result<()> {
        self.stdin.write_all(b"SELECT VERSION();\n")?;
        if !self.line()?.contains("MariaDB") {
            self.query = QUERY_MYSQL;
        }
        Ok(())
    }

    fn ask(&mut self) -> io::Result<SqlStates> {
        self.stdin.write_all(self.query.as_bytes())?;
        let mut states = SqlStates::default();
        loop {
            let line = self.line()?;
            if line == END {
                return Ok(states);
            }
            if let Some((tid, is_own, text)) = parse(&line) {
                if is_own {
                    states.own = Some(tid);
                } else {
                    states.of.insert(tid, text);
                }
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches('\n').to_owned())
    }
}

fn parse(line: &str) -> Option<(Tid, bool, String)> {
    let mut fields = line.split('\t');
    let tid = fields.next()?.parse().ok()?;
    let is_own = fields.next()? == "1";
    let command = fields.next()?;
    let text = match fields.next()? {
        "" => command.to_owned(),
        state => format!("{command}: {state}"),
    };
    Some((tid, is_own, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_clients_lines() {
        let line = parse("2104\t0\tQuery\tWaiting for table metadata lock");
        let text = "Query: Waiting for table metadata lock".to_owned();
        assert_eq!(line, Some((2104, false, text)));
        assert_eq!(parse("7\t1\tSleep\t"), Some((7, true, "Sleep".to_owned())));
        assert_eq!(parse("NULL\t0\tDaemon\t"), None);
    }

    #[test]
    fn a_missing_server_is_reported() {
        let result =
            ProcessList::start(&["--no-defaults".into(), "--socket=/nowhere/s".into()], None);
        match result {
            Err(ProcessListError::Refused(why)) => assert!(why.contains("/nowhere/s"), "{why}"),
            // The client is not installed.
            Err(ProcessListError::NoClient) => {}
            other => panic!("{other:?}"),
        }
    }
}
