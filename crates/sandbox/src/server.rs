//! A private MariaDB or MySQL: own directory, own socket, own port on the loopback interface.
//!
//! ```no_run
//! # use tacho_sandbox::server::Builder;
//! let mut server = Builder::new("/var/tmp/bench").option("max_connections=1300").start()?;
//! let mut conn = server.connect()?;
//! server.kill9()?;
//! server.restart()?;
//! # anyhow::Ok(())
//! ```
//!
//! The server ends with the thread that started it, so that an interrupted run leaves no process
//! behind. It is only ever ended by its own process id.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use crate::client::{self, Conn};
use crate::installation::{Installation, Product};
use crate::template;

/// How long a server may take to start or stop before that is a failure. Much more than it needs,
/// because the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(180);

/// `sun_path` of a Unix socket address holds 108 bytes with the final zero.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The directory for temporary tables, within the server's directory.
const TEMPORARY: &str = "tmp";

/// Another process may take a free port between the choice and the server's bind.
const PORT_ATTEMPTS_MAX: u32 = 20;

/// Settings of a server that is not started yet.
#[derive(Debug)]
pub struct Builder {
    root: PathBuf,
    installation: Installation,
    options: Vec<String>,
    directory: Option<PathBuf>,
    plugins: Vec<PathBuf>,
    prefix: Vec<String>,
    environment: Vec<(String, String)>,
    defaults: &'static str,
    keep: bool,
}

impl Builder {
    /// A server with small buffers and otherwise default settings. Its files, and those that
    /// servers of the same release share, are created below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            installation: Installation::system(),
            options: Vec::new(),
            directory: None,
            plugins: Vec::new(),
            prefix: Vec::new(),
            environment: Vec::new(),
            defaults: "--no-defaults",
            keep: false,
        }
    }

    /// Uses another installation than the one of this machine.
    #[must_use]
    pub fn installation(mut self, installation: Installation) -> Self {
        self.installation = installation;
        self
    }

    /// Adds a server option, with or without the leading dashes. Later options win.
    #[must_use]
    pub fn option(mut self, option: impl AsRef<str>) -> Self {
        self.options.push(format!("--{}", option.as_ref().trim_start_matches("--")));
        self
    }

    /// Uses this directory, which must not exist yet, instead of one below the root.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Puts a copy of this shared library into the server's plugin directory.
    #[must_use]
    pub fn plugin(mut self, library: impl Into<PathBuf>) -> Self {
        self.plugins.push(library.into());
        self
    }

    /// Starts the server through this command, which must end by executing its arguments.
    #[must_use]
    pub fn prefix<S: Into<String>>(mut self, command: impl IntoIterator<Item = S>) -> Self {
        self.prefix = command.into_iter().map(Into::into).collect();
        self
    }

    /// Adds an environment variable of the server.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Lets the server read persisted settings, which MySQL does not do with `--no-defaults`. It
    /// still reads no file of this machine.
    #[must_use]
    pub fn read_persisted(mut self) -> Self {
        self.defaults = "--defaults-file=/dev/null";
        self
    }

    /// Keeps the directory when the server is dropped.
    #[must_use]
    pub fn keep(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Initialises the data directory, starts the server and waits until it answers.
    ///
    /// # Errors
    /// The server is not installed, or did not start; the error has the end of its error log.
    pub fn start(self) -> Result<PrivateServer> {
        let directory = match self.directory {
            Some(directory) => directory,
            None => unique_directory(&self.root),
        };
        if directory.exists() {
            bail!("{} is there already", directory.display());
        }
        let data_directory = directory.join("data");
        let plugin_directory = directory.join("plugin");
        fs::create_dir_all(&plugin_directory)?;
        // A starting server removes every temporary table in this directory, also those of other
        // running servers.
        fs::create_dir_all(directory.join(TEMPORARY))?;
        template::fill_data_directory(&self.installation, &self.root, &data_directory)?;

        // Copies, because replacing a library that a server has mapped would crash it.
        let own = match self.installation.product() {
            Product::MariaDb => None,
            Product::MySql => Some(self.installation.usr().join(REFERENCE_CACHE)),
        };
        for library in self.plugins.iter().chain(&own) {
            let name = library.file_name().context("a plugin without a name")?;
            fs::copy(library, plugin_directory.join(name))
                .with_context(|| format!("copying {}", library.display()))?;
        }

        let mut server = PrivateServer {
            child: None,
            installation: self.installation,
            socket: socket_path(&directory).context("making room for the socket")?,
            error_log: directory.join("error.log"),
            port: 0,
            options: self.options,
            extra_options: Vec::new(),
            prefix: self.prefix,
            environment: self.environment,
            defaults: self.defaults,
            keep: self.keep,
            data_directory,
            plugin_directory,
            directory,
        };
        server.launch()?;
        Ok(server)
    }
}

/// A private server, running or stopped.
#[derive(Debug)]
pub struct PrivateServer {
    child: Option<Child>,
    installation: Installation,
    directory: PathBuf,
    data_directory: PathBuf,
    plugin_directory: PathBuf,
    socket: PathBuf,
    error_log: PathBuf,
    port: u16,
    options: Vec<String>,
    extra_options: Vec<String>,
    prefix: Vec<String>,
    environment: Vec<(String, String)>,
    defaults: &'static str,
    keep: bool,
}

impl PrivateServer {
    /// Its programs.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The directory with all of its files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its data directory.
    pub fn data_directory(&self) -> &Path {
        &self.data_directory
    }

    /// Its Unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its TCP port on 127.0.0.1; it changes with each start.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Process id, while the server runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Connects as root over the socket.
    pub fn connect(&self) -> mysql::Result<Conn> {
        client::connect(&self.socket, "root", "")
    }

    /// Kills the server as the kernel's out-of-memory killer would, and waits until it is gone.
    ///
    /// # Errors
    /// It was not running.
    pub fn kill9(&mut self) -> Result<()> {
        let mut child = self.child.take().context("the server is not running")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Stops the server in an orderly way and waits until it has ended.
    ///
    /// # Errors
    /// It was not running, did not stop in time (then it is killed), or crashed while stopping.
    pub fn stop(&mut self) -> Result<()> {
        let mut child = self.child.take().context("the server is not running")?;
        kill_process(Pid::from_child(&child), Signal::TERM)?;
        let deadline = Instant::now() + DEADLINE;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                let stacks = crate::stacks::kill(&mut child)?;
                let log = self.error_log_tail();
                bail!("the server did not stop; end of its log:\n{log}\nIts threads: {stacks}");
            }
            thread::sleep(Duration::from_millis(20));
        };
        if !status.success() {
            bail!("{} while stopping; its log:\n{}", describe(status), self.error_log_tail());
        }
        Ok(())
    }

    /// Starts it again with the same data, after stopping it if it runs.
    ///
    /// # Errors
    /// As [`PrivateServer::stop`] and [`Builder::start`].
    pub fn restart(&mut self) -> Result<()> {
        if self.child.is_some() {
            self.stop()?;
        }
        self.launch()
    }

    /// Keeps the directory when the server is dropped.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// Adds an option for the next [`PrivateServer::restart`].
    pub fn add_option(&mut self, option: &str) {
        self.options.push(format!("--{}", option.trim_start_matches("--")));
    }

    /// Sets the additional options of later starts.
    pub fn set_extra_options(&mut self, options: &[String]) {
        let dashed = |option: &String| format!("--{}", option.trim_start_matches("--"));
        self.extra_options = options.iter().map(dashed).collect();
    }

    /// Sets the command through which later starts run; see [`Builder::prefix`].
    pub fn set_prefix(&mut self, command: &[String]) {
        self.prefix = command.to_vec();
    }

    /// Waits until the server ends on its own, and returns its status.
    ///
    /// # Errors
    /// It was not running, or still runs after minutes.
    pub fn wait_for_exit(&mut self) -> Result<ExitStatus> {
        let child = self.child.as_mut().context("the server is not running")?;
        let deadline = Instant::now() + DEADLINE;
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait()? {
                self.child = None;
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(20));
        }
        bail!("the server still runs")
    }

    /// The contents of its error log since the first start.
    pub fn error_log(&self) -> String {
        match fs::read(&self.error_log) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => format!("[ERROR] cannot read {}: {error}", self.error_log.display()),
        }
    }

    fn error_log_tail(&self) -> String {
        let log = self.error_log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    fn launch(&mut self) -> Result<()> {
        for _ in 0..PORT_ATTEMPTS_MAX {
            let log_bytes_before = fs::metadata(&self.error_log).map_or(0, |meta| meta.len());
            self.port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
            self.child = Some(self.spawn()?);
            let Err(error) = self.wait_until_ready() else { return Ok(()) };
            if let Some(mut child) = self.child.take() {
                child.kill()?;
                child.wait()?;
            }
            let log = fs::read(&self.error_log)?;
            let new = String::from_utf8_lossy(&log[log_bytes_before as usize..]);
            if !new.contains("Bind on TCP/IP port") {
                return Err(error);
            }
            // Losing the race for the port is not the server's fault: it leaves no trace.
            OpenOptions::new().write(true).open(&self.error_log)?.set_len(log_bytes_before)?;
        }
        bail!("found no free port in {PORT_ATTEMPTS_MAX} attempts")
    }

    fn spawn(&self) -> Result<Child> {
        let log: File = OpenOptions::new().create(true).append(true).open(&self.error_log)?;
        let program = self.installation.program(self.installation.product().server_name())?;
        let mut command = match self.prefix.split_first() {
            None => Command::new(program),
            Some((first, others)) => {
                let mut command = Command::new(first);
                command.args(others).arg(program);
                command
            }
        };
        command
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .arg(self.defaults)
            .args(self.installation.options())
            .arg(format!("--datadir={}", self.data_directory.display()))
            .arg(format!("--plugin-dir={}", self.plugin_directory.display()))
            .arg(format!("--socket={}", self.socket.display()))
            .arg(format!("--pid-file={}", self.directory.join("pid").display()))
            .arg(format!("--log-error={}", self.error_log.display()))
            .arg(format!("--tmpdir={}", self.directory.join(TEMPORARY).display()))
            .arg(format!("--port={}", self.port))
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--max-allowed-packet={}", client::PACKET_BYTES_MAX))
            .arg("--innodb-buffer-pool-size=64M")
            .arg(self.installation.product().redo_log_option(template::REDO_LOG_MIB))
            .args(product_options(self.installation.product()))
            // Commits survive the death of the process, as the tests require; they need not wait
            // for the disk.
            .arg("--innodb-flush-log-at-trx-commit=2")
            .arg("--table-open-cache=400")
            .args(&self.options)
            .args(&self.extra_options)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        if rustix::process::geteuid().is_root() {
            command.arg("--user=root");
        }
        // An interrupt from the terminal must not reach the server; it is stopped at the end.
        command.process_group(0);
        // SAFETY: between fork and exec only async-signal-safe calls are allowed; this
        // closure makes one system call (prctl) and touches no memory of the parent.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
        }
        command.spawn().context("starting the server")
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let last_error = match self.connect() {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            let child = self.child.as_mut().context("the server is not running")?;
            if let Some(status) = child.try_wait()? {
                bail!("{} while starting; its log:\n{}", describe(status), self.error_log_tail());
            }
            if Instant::now() > deadline {
                let log = self.error_log_tail();
                bail!("the server does not answer ({last_error}); end of its log:\n{log}");
            }
            thread::sleep(Duration::from_millis(30));
        }
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        let stopped = if self.child.is_some() { self.stop() } else { Ok(()) };
        if let Err(error) = &stopped {
            eprintln!("{error:#}");
        }
        if thread::panicking() || stopped.is_err() {
            eprintln!("server files kept in {}", self.directory.display());
        } else if !self.keep
            && let Err(error) = fs::remove_dir_all(&self.directory)
        {
            eprintln!("cannot remove {}: {error}", self.directory.display());
        }
        if !self.socket.starts_with(&self.directory)
            && let Some(private) = self.socket.parent()
            && let Err(error) = fs::remove_dir_all(private)
        {
            eprintln!("cannot remove {}: {error}", private.display());
        }
    }
}

/// Options for servers of this product only.
fn product_options(product: Product) -> &'static [&'static str] {
    match product {
        Product::MariaDb => &[],
        // Otherwise it would listen for its other protocol on a port and socket shared by all.
        Product::MySql => &["--mysqlx=OFF", "--secure-file-priv=NULL"],
    }
}

/// A component that MySQL loads at start, without which it has no events.
const REFERENCE_CACHE: &str = "lib/mysql/plugin/component_reference_cache.so";

fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("the server was ended by signal {signal}"),
        None => format!("the server ended with {status}"),
    }
}

fn unique_directory(root: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // The test runner names the thread after the test.
    let name = thread::current().name().unwrap_or("server").replace("::", "-");
    root.join(format!("{name}-{}-{count}", std::process::id()))
}

/// In the server's directory, unless its path is too long for a socket address.
fn socket_path(directory: &Path) -> io::Result<PathBuf> {
    let usual = directory.join("socket");
    if usual.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return Ok(usual);
    }
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let short = std::env::temp_dir().join(format!("tacho-{}-{count}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&short) {
            Ok(()) => return Ok(short.join("socket")),
            // Left by an earlier process with the same id.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deep_directory_gets_a_short_socket_path() {
        let deep = PathBuf::from("/").join("d".repeat(200));
        let path = socket_path(&deep).expect("a short path");
        assert!(path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX);
        let private = path.parent().expect("a private directory");
        assert!(!private.starts_with(&deep) && private.is_dir());
        fs::remove_dir(private).expect("removing the private directory");
        let usual = socket_path(Path::new("/a")).expect("the usual path");
        assert_eq!(usual, Path::new("/a/socket"));
    }
}
