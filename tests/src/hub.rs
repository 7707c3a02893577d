//! A hub and shippers as processes, and a client of the hub's API. The processes are in groups of
//! their own, so that Ctrl-C reaches their owner alone, and they end with it, however it ends.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde_json::Value;

use crate::log::{Line, TagCounter};
use crate::verdict::TagCounts;
use crate::{program, wait};

/// Longest time for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A process that ends with its owner, and with the thread that has started it.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
}

impl Process {
    pub(crate) fn start(name: &'static str, command: &mut Command) -> Result<Self> {
        command.process_group(0);
        // SAFETY: between fork and exec only async-signal-safe calls are allowed; this closure
        // makes one system call (prctl) and touches no memory of the parent.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
        }
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        Ok(Self { name, child })
    }

    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Stops it with SIGSTOP, or continues it with SIGCONT.
    ///
    /// # Errors
    /// It has ended.
    pub fn pause(&self, is_paused: bool) -> Result<()> {
        let signal = if is_paused { Signal::STOP } else { Signal::CONT };
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Kills it with SIGKILL.
    ///
    /// # Errors
    /// It had ended before.
    pub fn kill9(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} had ended before: {status}", self.name);
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Stops it with SIGTERM.
    ///
    /// # Errors
    /// It had ended before, or does not end with success.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} had ended before: {status}", self.name);
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "{}: {status}", self.name);
        Ok(())
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// It does not end with success.
    pub fn wait(&mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "{}: {status}", self.name);
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hub_command() -> Command {
    Command::new(program("tacho-hub"))
}

/// The rest of the line that a hub prints, from a mark on.
fn printed(lines: &Receiver<String>, directory: &Path, mark: &str) -> Result<String> {
    while let Ok(line) = lines.recv_timeout(wait::DEADLINE) {
        if let Some(at) = line.find(mark) {
            return Ok(line[at..].trim().to_owned());
        }
    }
    let messages = fs::read_to_string(directory.join("hub.err"))?;
    bail!("the hub prints no {mark}: {messages}")
}

/// A hub.
#[derive(Debug)]
pub struct Hub {
    process: Process,
    address: SocketAddr,
    data: PathBuf,
    /// What it prints.
    lines: Receiver<String>,
}

impl Hub {
    /// Starts a hub with its data and messages in `directory`.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(directory: &Path) -> Result<Self> {
        Self::start_with(directory, &[])
    }

    /// The same with environment variables.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_with(directory: &Path, environment: &[(&str, &OsStr)]) -> Result<Self> {
        fs::create_dir_all(directory)?;
        Self::start_at(directory, "127.0.0.1:0", environment)
    }

    /// The same at an address.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_on(directory: &Path, listen: &str) -> Result<Self> {
        fs::create_dir_all(directory)?;
        Self::start_at(directory, listen, &[])
    }

    /// Starts it again at the same address, after it was stopped or killed, without variables.
    ///
    /// # Errors
    /// It does not start.
    pub fn restart(&mut self) -> Result<()> {
        let directory = self.data.parent().context("a directory")?.to_owned();
        *self = Self::start_at(&directory, &self.address.to_string(), &[])?;
        Ok(())
    }

    fn start_at(directory: &Path, listen: &str, environment: &[(&str, &OsStr)]) -> Result<Self> {
        let data = directory.join("data");
        let messages = File::options().create(true).append(true).open(directory.join("hub.err"))?;
        let mut command = hub_command();
        command.arg("serve").arg("--data").arg(&data).args(["--listen", listen]);
        command.envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(messages);
        let mut process = Process::start("tacho-hub", &mut command)?;
        let stdout = process.child.stdout.take().context("its output")?;
        let (send, lines) = channel();
        // A pipe that is not read would stop it when it is full.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // There may be no receiver left.
                let _ = send.send(line);
            }
        });
        let url = printed(&lines, directory, "http://")?;
        let address = url["http://".len()..].parse()?;
        Ok(Self { process, address, data, lines })
    }

    /// The one-time link to sign in, which a first start prints. It is given once.
    ///
    /// # Errors
    /// It prints none.
    pub fn sign_in_link(&self) -> Result<String> {
        printed(&self.lines, self.data.parent().context("a directory")?, &self.url())
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// `http://…`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Makes a token.
    ///
    /// # Errors
    /// `tacho-hub token create` fails.
    pub fn token(&self, role: &str, server: Option<&str>) -> Result<String> {
        let mut arguments = vec!["token", "create", "--role", role];
        arguments.extend(server.iter().flat_map(|server| ["--server", server]));
        Ok(self.run(&arguments)?.trim().to_owned())
    }

    /// Runs a subcommand of `tacho-hub` beside it; its output.
    ///
    /// # Errors
    /// It fails.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = hub_command().args(arguments).arg("--data").arg(&self.data).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// A client with a new token of that role.
    ///
    /// # Errors
    /// There is no token.
    pub fn client(&self, role: &str) -> Result<HubClient> {
        Ok(HubClient::new(&self.url(), &self.token(role, None)?))
    }

    /// Starts `tacho ship` for a log directory; its token and messages are beside the hub's data.
    ///
    /// # Errors
    /// It does not start.
    pub fn ship(&self, log_directory: &Path, name: &str) -> Result<Process> {
        self.ship_by(&self.url(), log_directory, name)
    }

    /// As [`Hub::ship`], with another URL of this hub.
    ///
    /// # Errors
    /// It does not start.
    pub fn ship_by(&self, url: &str, log_directory: &Path, name: &str) -> Result<Process> {
        Process::start("tacho ship", &mut self.ship_command(url, log_directory, name, &[])?)
    }

    /// As [`Hub::ship`], with more options.
    ///
    /// # Errors
    /// It does not start.
    pub fn ship_with(&self, log_directory: &Path, name: &str, more: &[&str]) -> Result<Process> {
        let command = &mut self.ship_command(&self.url(), log_directory, name, more)?;
        Process::start("tacho ship", command)
    }

    /// Kills the query processes that there are with SIGKILL; their number.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn kill_query_processes(&self) -> Result<usize> {
        let mut killed = 0;
        for process in procfs::process::all_processes()? {
            // Others end while they are listed.
            let Ok(stat) = process.and_then(|process| process.stat()) else { continue };
            if u32::try_from(stat.ppid).is_ok_and(|parent| parent == self.pid()) {
                let pid = Pid::from_raw(stat.pid).context("a process id")?;
                killed += usize::from(kill_process(pid, Signal::KILL).is_ok());
            }
        }
        Ok(killed)
    }

    /// Ships all that is there, and waits until the hub has acknowledged it.
    ///
    /// # Errors
    /// `tacho ship --once` fails.
    pub fn ship_once(&self, log_directory: &Path, name: &str) -> Result<()> {
        let mut command = self.ship_command(&self.url(), log_directory, name, &["--once"])?;
        Process::start("tacho ship --once", &mut command)?.wait()
    }

    fn ship_command(
        &self,
        url: &str,
        log_directory: &Path,
        name: &str,
        more: &[&str],
    ) -> Result<Command> {
        let directory = self.data.parent().context("a directory")?;
        let token_file = directory.join(format!("{name}.token"));
        if !token_file.exists() {
            fs::write(&token_file, self.token("agent", Some(name))?)?;
        }
        let messages = directory.join(format!("{name}.ship.err"));
        let messages = File::options().create(true).append(true).open(messages)?;
        let mut command = Command::new(program("tacho"));
        command.arg("ship").arg(log_directory).args(["--name", name, "--hub", url]);
        command.arg("--token-file").arg(&token_file).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages);
        Ok(command)
    }
}

/// A client of the API.
#[derive(Clone, Debug)]
pub struct HubClient {
    agent: ureq::Agent,
    url: String,
    token: String,
}

impl HubClient {
    /// For the hub at `url`, such as `http://127.0.0.1:7780`.
    pub fn new(url: &str, token: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(REQUEST_TIMEOUT))
            .http_status_as_error(false);
        Self { agent: config.build().into(), url: url.to_owned(), token: token.to_owned() }
    }

    /// `GET` of a path with these parameters.
    ///
    /// # Errors
    /// No answer, another status than 200, or no JSON.
    pub fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        for (name, value) in parameters {
            request = request.query(name, value);
        }
        let mut answer =
            request.header("Authorization", format!("Bearer {}", self.token)).call()?;
        let text = answer.body_mut().with_config().limit(1 << 30).read_to_string()?;
        ensure!(answer.status() == 200, "GET {path} {parameters:?}: {}: {text}", answer.status());
        serde_json::from_str(&text).with_context(|| format!("GET {path}: {text}"))
    }

    /// The answer to a `SELECT`.
    ///
    /// # Errors
    /// No answer, another status than 200, or no JSON.
    pub fn sql(&self, sql: &str) -> Result<Value> {
        let body = serde_json::json!({ "sql": sql }).to_string();
        let request = self.agent.post(format!("{}/api/v1/sql", self.url));
        let request = request.header("Authorization", format!("Bearer {}", self.token));
        let mut answer = request.header("Content-Type", "application/json").send(&body)?;
        let text = answer.body_mut().read_to_string()?;
        ensure!(answer.status() == 200, "{sql}: {}: {text}", answer.status());
        serde_json::from_str(&text).with_context(|| format!("{sql}: {text}"))
    }

    /// Calls `visit` with every record that a search finds, oldest first.
    ///
    /// # Errors
    /// A request fails.
    pub fn records(
        &self,
        server: &str,
        query: &str,
        mut visit: impl FnMut(&Value) -> Result<()>,
    ) -> Result<()> {
        let mut cursor: Option<String> = None;
        loop {
            let mut parameters = vec![
                ("server", server),
                ("q", query),
                ("order", "asc"),
                ("limit", "1000"),
                ("from", "1970-01-01T00:00:00Z"),
            ];
            if let Some(cursor) = &cursor {
                parameters.push(("cursor", cursor));
            }
            let page = self.get("/api/v1/records", &parameters)?;
            for record in page["records"].as_array().context("records")? {
                visit(record)?;
            }
            match page["next"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return Ok(()),
            }
        }
    }

    /// How often each tagged statement of a run is found.
    ///
    /// # Errors
    /// A request fails, or a record has an unknown form.
    pub fn tags(&self, server: &str, run: &str) -> Result<TagCounts> {
        let mut tags = TagCounter::new(run);
        self.records(server, &format!("\"id:{run}-\""), |record| {
            let text = record.to_string();
            let line: Line = serde_json::from_str(&text)?;
            tags.see(&line);
            Ok(())
        })?;
        Ok(tags.finish())
    }

    /// Waits until the hub has indexed and verified all that it has of a server; its state then.
    ///
    /// # Panics
    /// It never has.
    pub fn wait_until_complete(&self, server: &str) -> Value {
        let mut state = Value::Null;
        wait::until("the hub has indexed and verified everything", || {
            // A hub that starts does not answer yet.
            state = self.server(server).ok().flatten().unwrap_or_default();
            state["landed_seq"].is_u64()
                && state["indexed_seq"] == state["landed_seq"]
                && state["verified_to_seq"] == state["landed_seq"]
        });
        state
    }

    /// The state of a server; `None`: the hub does not know it.
    ///
    /// # Errors
    /// The request fails.
    pub fn server(&self, name: &str) -> Result<Option<Value>> {
        let servers = self.get("/api/v1/servers", &[])?;
        let servers = servers.as_array().context("a list of servers")?;
        Ok(servers.iter().find(|server| server["server"] == name).cloned())
    }
}
