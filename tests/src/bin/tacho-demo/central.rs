//! The hub and the shippers of the demonstration. They are in process groups of their own, so that
//! Ctrl-C reaches the demonstration alone, which stops everything in the right order; and they end
//! with it, however it ends.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use tacho_tests::build_directory;
use tacho_tests::hub::HubClient;
use tacho_tests::wait::DEADLINE;

/// A process that ends with its owner.
pub struct Process {
    name: String,
    child: Child,
}

impl Process {
    fn start(name: &str, command: &mut Command) -> Result<Self> {
        command.process_group(0);
        // SAFETY: between fork and exec only async-signal-safe calls are allowed; this closure
        // makes one system call (prctl) and touches no memory of the parent.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
        }
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        Ok(Self { name: name.to_owned(), child })
    }

    /// Stops it in the orderly way.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} has ended: {status}", self.name);
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
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

fn program(name: &str) -> Command {
    Command::new(build_directory().join("bin").join(name))
}

/// A hub.
pub struct Hub {
    process: Process,
    url: String,
    /// With its data, its messages, and the tokens of shippers.
    directory: PathBuf,
    lines: Receiver<String>,
}

impl Hub {
    /// Starts one with its files in `directory`.
    pub fn start(directory: &Path, listen: &str) -> Result<Self> {
        let mut command = program("tacho-hub");
        command.arg("serve").arg("--data").arg(directory.join("data")).args(["--listen", listen]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::create(directory.join("hub.err"))?);
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
        let directory = directory.to_owned();
        let mut hub = Self { process, url: String::new(), directory, lines };
        hub.url = hub.printed("http://")?;
        Ok(hub)
    }

    /// The rest of the line that it prints, from a mark on.
    fn printed(&self, mark: &str) -> Result<String> {
        while let Ok(line) = self.lines.recv_timeout(DEADLINE) {
            if let Some(at) = line.find(mark) {
                return Ok(line[at..].trim().to_owned());
            }
        }
        bail!("the hub prints no {mark}: see {}", self.directory.join("hub.err").display())
    }

    /// The one-time link to sign in.
    pub fn sign_in_link(&self) -> Result<String> {
        self.printed(&self.url)
    }

    /// A client that may search.
    pub fn client(&self) -> Result<HubClient> {
        Ok(HubClient::new(&self.url, &self.token(&["--role", "auditor"])?))
    }

    fn token(&self, arguments: &[&str]) -> Result<String> {
        let mut command = program("tacho-hub");
        command.args(["token", "create", "--data"]).arg(self.directory.join("data"));
        let output = command.args(arguments).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// Starts a shipper for a log directory.
    pub fn ship(&self, log_directory: &Path, name: &str) -> Result<Process> {
        let token_file = self.directory.join(format!("{name}.token"));
        fs::write(&token_file, self.token(&["--role", "agent", "--server", name])?)?;
        let mut command = program("tacho");
        command.arg("ship").arg(log_directory).args(["--name", name, "--hub", &self.url]);
        command.arg("--token-file").arg(&token_file);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(self.directory.join(format!("{name}.err")))?);
        Process::start(&format!("tacho ship of {name}"), &mut command)
    }

    /// Stops it in the orderly way.
    pub fn stop(&mut self) -> Result<()> {
        self.process.stop()
    }
}
