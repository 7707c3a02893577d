//! sysbench: prepare, run, and its reports.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::client::{Address, Conn, Login, Queryable};

/// Default database of the test tables.
const DATABASE: &str = "sbtest";

/// One way to run sysbench.
#[derive(Clone, Debug)]
pub struct Sysbench {
    login: Login,
    database: String,
    script: String,
    tables: u32,
    rows_per_table: u32,
    threads: u32,
    seconds: u64,
    options: Vec<String>,
}

impl Sysbench {
    /// `script` is a built-in one ("oltp_read_write", "oltp_point_select" …).
    pub fn new(socket: &Path, script: &str) -> Self {
        Self::on(&Login::by_socket(socket, "root"), DATABASE, script)
    }

    /// As [`Sysbench::new`], on any server. Pass a password in an option that other users cannot
    /// see, such as `--config-file`.
    pub fn on(login: &Login, database: &str, script: &str) -> Self {
        Self {
            login: login.clone(),
            database: database.to_owned(),
            script: script.to_owned(),
            tables: 4,
            rows_per_table: 10_000,
            threads: 4,
            seconds: 5,
            options: Vec::new(),
        }
    }

    /// Connects as this account, which [`Sysbench::prepare`] creates.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.login.user = user.to_owned();
        self
    }

    /// Number and size of the tables.
    #[must_use]
    pub fn tables(mut self, tables: u32, rows_per_table: u32) -> Self {
        self.tables = tables;
        self.rows_per_table = rows_per_table;
        self
    }

    /// Number of connections.
    #[must_use]
    pub fn threads(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    /// Length of the run.
    #[must_use]
    pub fn seconds(mut self, seconds: u64) -> Self {
        self.seconds = seconds;
        self
    }

    /// Any other option, with its dashes ("--db-ps-mode=disable").
    #[must_use]
    pub fn option(mut self, option: &str) -> Self {
        self.options.push(option.to_owned());
        self
    }

    /// Creates the database, the account and the tables.
    ///
    /// # Errors
    /// The server or sysbench reports an error.
    pub fn prepare(&self, conn: &mut Conn) -> Result<()> {
        conn.query_drop(format!("CREATE DATABASE IF NOT EXISTS {}", self.database))?;
        self.create_user(conn)?;
        // Filled as root, so that the account is used only by the measured load.
        self.clone().user("root").fill()
    }

    /// Creates and fills the tables, in an existing database.
    ///
    /// # Errors
    /// The server or sysbench reports an error.
    pub fn fill(&self) -> Result<()> {
        let filling = Self { threads: 1, ..self.clone() };
        let output = filling.command("prepare").output().context("cannot start sysbench")?;
        if !output.status.success() {
            bail!("sysbench prepare: {}", String::from_utf8_lossy(&output.stdout));
        }
        Ok(())
    }

    /// Creates only the account: for another run on existing tables.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn create_user(&self, conn: &mut Conn) -> Result<()> {
        if self.login.user != "root" {
            let (user, database) = (&self.login.user, &self.database);
            conn.query_drop(format!("CREATE USER IF NOT EXISTS '{user}'@localhost"))?;
            conn.query_drop(format!("GRANT ALL ON {database}.* TO '{user}'@localhost"))?;
        }
        Ok(())
    }

    /// Runs to the end; `each_second` is called with the report of every second.
    ///
    /// # Errors
    /// sysbench fails, or its output cannot be parsed.
    pub fn run(&self, mut each_second: impl FnMut(Second)) -> Result<Report> {
        let mut child = self.command("run").spawn().context("cannot start sysbench")?;
        let stdout = child.stdout.take().context("sysbench without output")?;
        let mut text = String::new();
        for line in BufReader::new(stdout).lines() {
            let line = line.context("cannot read from sysbench")?;
            if let Some(second) = Second::parse(&line) {
                each_second(second);
            }
            text.push_str(&line);
            text.push('\n');
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("sysbench: {status}\n{text}");
        }
        Report::parse(&text)
    }

    /// Starts without waiting, for a load whose report is not needed.
    ///
    /// # Errors
    /// sysbench cannot be started.
    pub fn start_quietly(&self) -> Result<Child> {
        self.command("run").stdout(Stdio::null()).spawn().context("cannot start sysbench")
    }

    /// The command line for `prepare` or `run`.
    pub fn command(&self, what: &str) -> Command {
        let mut command = Command::new("sysbench");
        match &self.login.address {
            Address::Socket(path) => {
                command.arg(format!("--mysql-socket={}", path.display()));
            }
            Address::Tcp(host, port) => {
                command.arg(format!("--mysql-host={host}")).arg(format!("--mysql-port={port}"));
            }
        }
        command
            .arg(&self.script)
            .args(["--db-driver=mysql", "--report-interval=1"])
            .arg(format!("--mysql-db={}", self.database))
            .arg(format!("--mysql-user={}", self.login.user))
            .arg(format!("--tables={}", self.tables))
            .arg(format!("--table-size={}", self.rows_per_table))
            .arg(format!("--threads={}", self.threads))
            .arg(format!("--time={}", self.seconds))
            .args(&self.options)
            .arg(what)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Errors are shown to the user directly.
            .stderr(Stdio::inherit());
        command
    }
}

/// One of the lines that sysbench prints every second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Second {
    /// Seconds since the start.
    pub at_s: u64,
    /// Transactions per second.
    pub tps: f64,
    /// Statements per second.
    pub qps: f64,
}

impl Second {
    /// `[ 7s ] thds: 8 tps: 948.68 qps: 19037.51 (r/w/o: …) …`
    fn parse(line: &str) -> Option<Self> {
        let (at_s, rest) = line.strip_prefix("[ ")?.split_once("s ]")?;
        let number_after = |name: &str| {
            let mut words = rest.split_whitespace().skip_while(|word| *word != name);
            words.nth(1)?.parse().ok()
        };
        Some(Self {
            at_s: at_s.parse().ok()?,
            tps: number_after("tps:")?,
            qps: number_after("qps:")?,
        })
    }
}

/// The report of sysbench at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// Statements that were answered without an error. With prepared statements (the default) each
    /// is one Execute, without them one Query; preparing does not count.
    pub statements: u64,
    /// Statements that were answered with an error that sysbench ignores (deadlocks).
    pub ignored_errors: u64,
    /// Connections that were lost and reopened.
    pub reconnects: u64,
    /// Transactions.
    pub transactions: u64,
    /// Transactions per second over the whole run.
    pub tps: f64,
}

impl Report {
    /// Answers of the server, with and without an error.
    pub fn answered(&self) -> u64 {
        self.statements + self.ignored_errors
    }

    fn parse(text: &str) -> Result<Self> {
        // "    queries:                             52807  (17566.11 per sec.)"
        let words_after = |name: &str| -> Result<Vec<&str>> {
            text.lines()
                .find_map(|line| line.trim().strip_prefix(name))
                .map(|rest| rest.split_whitespace().collect())
                .with_context(|| format!("sysbench did not say {name:?}:\n{text}"))
        };
        let count = |name: &str| -> Result<u64> {
            let words = words_after(name)?;
            let word = words.first().copied().unwrap_or_default();
            word.parse().with_context(|| format!("sysbench said {name} {word:?}"))
        };
        let rate = words_after("transactions:")?;
        let rate = rate.get(1).copied().unwrap_or_default().trim_start_matches('(');
        Ok(Self {
            statements: count("queries:")?,
            ignored_errors: count("ignored errors:")?,
            reconnects: count("reconnects:")?,
            transactions: count("transactions:")?,
            tps: rate.parse().with_context(|| format!("sysbench said {rate:?} per second"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_report_of_every_second() {
        let line = "[ 12s ] thds: 8 tps: 816.43 qps: 16438.59 (r/w/o: 11528.00/3269.73/1640.86) \
                    lat (ms,95%): 15.55 err/s: 0.00 reconn/s: 0.00";
        let second = Second::parse(line).expect("a line of a second");
        assert_eq!(second, Second { at_s: 12, tps: 816.43, qps: 16438.59 });
        assert_eq!(Second::parse("Threads started!"), None);
    }

    #[test]
    fn reads_the_report_at_the_end() {
        let text = "SQL statistics:\n    queries performed:\n        read:     36974\n\
                    \x20       total:                           52807\n\
                    \x20   transactions:                        2637   (877.19 per sec.)\n\
                    \x20   queries:                             52807  (17566.11 per sec.)\n\
                    \x20   ignored errors:                      4      (1.33 per sec.)\n\
                    \x20   reconnects:                          0      (0.00 per sec.)\n";
        let report = Report::parse(text).expect("a report");
        assert_eq!((report.statements, report.answered()), (52807, 52811));
        assert_eq!((report.transactions, report.tps, report.reconnects), (2637, 877.19, 0));
        assert!(Report::parse("FATAL: cannot connect").is_err());
    }
}
