//! A running load: sysbench with our measuring script around its own, or the user's command.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};

use crate::histogram::{Counts, SharedFile};
use crate::stop::Stop;
use crate::workload::{StatementSource, Workload};
use tacho_sandbox::client::{Address, Login};
use tacho_sandbox::sysbench::Sysbench;

/// The schema of the load and of the bench.
pub const SCHEMA: &str = "tacho_bench";

const MEASURE_LUA: &str = include_str!("../lua/measure.lua");

/// How long connections may take to be established.
const START_DEADLINE: Duration = Duration::from_secs(120);

/// How long events may take to end after a stop request.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// The workload, and its server.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The account that the load uses.
    pub login: Login,
    /// The workload.
    pub workload: Workload,
    /// Connections.
    pub threads: u32,
    /// Events per second of all connections together; without it, as fast as they can.
    pub rate: Option<f64>,
    /// Tables and rows in each.
    pub tables: (u32, u32),
    /// By the binary protocol, prepared.
    pub prepared: bool,
}

/// A running load.
#[derive(Debug)]
pub struct Load {
    child: Child,
    output: PathBuf,
    shared: Option<SharedFile>,
    threads: u32,
}

impl LoadPlan {
    /// Creates and fills the tables.
    ///
    /// # Errors
    /// sysbench or the server reports an error.
    pub fn fill(&self, work: &Path) -> Result<()> {
        self.sysbench(work, "oltp_read_write")?.fill()
    }

    fn sysbench(&self, work: &Path, script: &str) -> Result<Sysbench> {
        let (tables, rows) = self.tables;
        let mut sysbench = Sysbench::on(&self.login, SCHEMA, script)
            .tables(tables, rows)
            .threads(self.threads)
            // Until it is stopped.
            .seconds(0)
            .option("--events=0")
            .option(if self.prepared { "--db-ps-mode=auto" } else { "--db-ps-mode=disable" });
        if !self.login.password.is_empty() {
            let file = password_file(work, &self.login.password)?;
            sysbench = sysbench.option(&format!("--config-file={}", file.display()));
        }
        Ok(sysbench)
    }

    /// Starts it, and waits until every connection has begun to work.
    ///
    /// # Errors
    /// It does not start; the error has the end of its output.
    pub fn start(&self, work: &Path, stop: &Stop) -> Result<Load> {
        let mut shared = None;
        let mut command = match &self.workload.source {
            StatementSource::Command(line) => self.own_command(line),
            StatementSource::Stock(_) | StatementSource::Ours(..) => {
                let measure = write(work, "measure.lua", MEASURE_LUA)?;
                let interval_ns =
                    self.rate.map_or(0.0, |rate| 1e9 * f64::from(self.threads) / rate);
                let file = SharedFile::create(&work.join("latencies"), self.threads, interval_ns)?;
                let script = match &self.workload.source {
                    StatementSource::Ours(name, text) => write(work, name, text)?,
                    StatementSource::Stock(name) => PathBuf::from(name),
                    StatementSource::Command(_) => bail!("not a script"),
                };
                let mut command =
                    self.sysbench(work, &measure.display().to_string())?.command("run");
                command
                    .env("TACHO_BENCH_FILE", file.path())
                    .env("TACHO_BENCH_SCRIPT", script)
                    .env("TACHO_BENCH_STATEMENT_BYTES", self.workload.statement_bytes.to_string());
                shared = Some(file);
                command
            }
        };
        let output = work.join("load.log");
        let log = File::create(&output).with_context(|| format!("{}", output.display()))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // Its own process group: an interrupt from the terminal must not reach the load, which is
        // ended in the right order.
        command.process_group(0);
        // SAFETY: between fork and exec only async-signal-safe calls are allowed; this closure
        // makes one system call (prctl) and touches no memory of the parent.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
        }
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        let mut load = Load { child, output, shared, threads: self.threads };
        load.wait_until_busy(stop)?;
        Ok(load)
    }

    fn own_command(&self, line: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]);
        match &self.login.address {
            Address::Socket(path) => {
                command.env("MYSQL_UNIX_PORT", path);
            }
            Address::Tcp(host, port) => {
                command.env("MYSQL_HOST", host).env("MYSQL_TCP_PORT", port.to_string());
            }
        }
        command
            .env("MYSQL_PWD", &self.login.password)
            .env("TACHO_BENCH_USER", &self.login.user)
            .env("TACHO_BENCH_SCHEMA", SCHEMA)
            .env("TACHO_BENCH_THREADS", self.threads.to_string());
        command
    }
}

impl Load {
    fn wait_until_busy(&mut self, stop: &Stop) -> Result<()> {
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            self.check()?;
            match &self.shared {
                // Its only known property is that it runs.
                None => return Ok(()),
                Some(shared) if shared.threads_started() == self.threads as usize => return Ok(()),
                Some(_) => {}
            }
            ensure!(Instant::now() < deadline, "the load did not start in time:\n{}", self.said());
            stop.sleep(Duration::from_millis(20))?;
        }
    }

    /// # Errors
    /// It has ended on its own.
    pub fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the load has ended ({status}) with this output:\n{}", self.said());
        }
        Ok(())
    }

    /// The counts since it began; `None` for a user's command.
    pub fn counts(&self) -> Option<Counts> {
        self.shared.as_ref().map(SharedFile::read)
    }

    /// Makes every thread open a new connection; nothing else of the load restarts.
    ///
    /// # Errors
    /// It does not happen, or is a user's command.
    pub fn connect_again(&mut self, stop: &Stop) -> Result<()> {
        self.shared.as_ref().context("not our load")?.ask_for_new_connections();
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            self.check()?;
            let connected = self.shared.as_ref().map_or(0, SharedFile::threads_connected);
            if connected == self.threads as usize {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "{connected} of {} threads have connected again:\n{}",
                self.threads,
                self.said()
            );
            stop.sleep(Duration::from_millis(5))?;
        }
    }

    /// Stops all of its processes, wherever they are, until [`Load::resume`].
    ///
    /// # Errors
    /// It has ended.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP).context("cannot pause the load")
    }

    /// Continues it.
    ///
    /// # Errors
    /// It has ended.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT).context("cannot continue the load")
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process_group(Pid::from_child(&self.child), signal)?)
    }

    /// Signals that another method has begun.
    pub fn begin_epoch(&self) {
        if let Some(shared) = &self.shared {
            shared.begin_epoch();
        }
    }

    /// Ends it, and waits until its connections are closed.
    ///
    /// # Errors
    /// It cannot be ended.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        let group = Pid::from_child(&self.child);
        // It does not end while it is paused.
        self.resume()?;
        match &self.shared {
            Some(shared) => shared.stop(),
            None => kill_process_group(group, Signal::TERM)?,
        }
        let deadline = Instant::now() + STOP_DEADLINE;
        while Instant::now() < deadline {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        // It waits for a server that does not answer, or ignores signals.
        kill_process_group(group, Signal::KILL)?;
        self.child.wait()?;
        Ok(())
    }

    fn said(&self) -> String {
        let text = fs::read(&self.output).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("cannot end the load: {error:#}");
        }
    }
}

fn write(work: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = work.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// All users can see the command line of a process, but not a file with mode 0600.
fn password_file(work: &Path, password: &str) -> Result<PathBuf> {
    ensure!(
        !password.contains(char::is_whitespace) && !password.starts_with(['"', '\'']),
        "cannot pass the password to sysbench: it has white space or begins with a quote"
    );
    let path = work.join("sysbench.cnf");
    let mut file = fs::OpenOptions::new();
    let mut file = file.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    std::io::Write::write_all(&mut file, format!("mysql-password={password}\n").as_bytes())?;
    Ok(path)
}
