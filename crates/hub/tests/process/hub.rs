//! A hub as a process, and shippers to it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tacho_logdir::read::content::Access;
use tacho_replica::{ENDING, ReplicaFile};
use tacho_ship::hub::{Client, ClientOptions, Options, Shipper, Verdict};
use tacho_ship::protocol::Activity;

pub const HUB: &str = env!("CARGO_BIN_EXE_tacho-hub");
/// After this time, a test does not make progress: no limit to how long anything takes, however
/// much else the machine has to do.
pub const HANGS_AFTER: Duration = Duration::from_secs(600);

/// Repeats a question until the answer is good.
pub fn wait<T>(mut ask: impl FnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(last) => assert!(begin.elapsed() < HANGS_AFTER, "{last}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A hub that is killed when the test ends.
pub struct Hub {
    pub data: tempfile::TempDir,
    pub address: String,
    /// Where other processes find the data, if the hub has it on a disk of its own.
    inside: Option<PathBuf>,
    child: Option<Child>,
    stdout: Option<BufReader<ChildStdout>>,
}

/// A command that executes another one, which has to be added, with a small disk at a directory.
/// `None`: namespaces are forbidden, and the caller accepts that.
fn with_disk(mib: u32, directory: &Path) -> Option<Command> {
    const NAMESPACE: [&str; 3] = ["--user", "--map-root-user", "--mount"];
    let works = Command::new("unshare")
        .args(NAMESPACE)
        .args(["mount", "-t", "tmpfs", "x", "/tmp"])
        .stderr(Stdio::null())
        .status();
    if !works.is_ok_and(|status| status.success()) {
        let is_accepted = std::env::var_os("TACHO_WITHOUT_NAMESPACES").is_some();
        assert!(is_accepted, "namespaces are forbidden here; see CONTRIBUTING.md");
        return None;
    }
    let mut command = Command::new("unshare");
    // "$0" is the directory, "$@" the command.
    let script = format!("mount -t tmpfs -o size={mib}m tacho \"$0\" && exec \"$@\"");
    command.args(NAMESPACE).args(["sh", "-c", &script]).arg(directory);
    Some(command)
}

impl Hub {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(more: &[&str]) -> Self {
        let mut hub = Self {
            data: tempfile::tempdir().unwrap(),
            address: "127.0.0.1:0".into(),
            inside: None,
            child: None,
            stdout: None,
        };
        hub.spawn(more);
        hub
    }

    /// A hub whose data is on a disk of its own. `None`: namespaces are forbidden, and the caller
    /// accepts that.
    pub fn start_on_disk(mib: u32, more: &[&str]) -> Option<Self> {
        let data = tempfile::tempdir().unwrap();
        let mut command = with_disk(mib, data.path())?;
        command.arg(HUB);
        let address = "127.0.0.1:0".into();
        let mut hub = Self { data, address, inside: None, child: None, stdout: None };
        hub.spawn_as(command, more);
        let root = PathBuf::from(format!("/proc/{}/root", hub.pid()));
        hub.inside = Some(root.join(hub.data.path().strip_prefix("/").unwrap()));
        Some(hub)
    }

    /// The data directory, for reading and writing files.
    pub fn directory(&self) -> &Path {
        self.inside.as_deref().unwrap_or(self.data.path())
    }

    /// Starts the process, at the same address as before.
    pub fn spawn(&mut self, more: &[&str]) {
        self.spawn_as(Command::new(HUB), more);
    }

    /// The same with a command that executes the hub.
    pub fn spawn_as(&mut self, mut command: Command, more: &[&str]) {
        let mut child = command
            .args(["serve", "--reserve-mib", "1", "--listen", &self.address, "--data"])
            .arg(self.data.path())
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        self.stdout = Some(stdout);
        let (_, address) = line.trim_end().split_once("://").expect(&line);
        self.address = address.to_owned();
        self.child = Some(child);
    }

    /// A command that finds the same data directory.
    fn beside(&self) -> Command {
        if self.inside.is_none() {
            return Command::new(HUB);
        }
        // SQLite resolves links: a path in /proc would be one of this process.
        let mut command = Command::new("nsenter");
        command.args(["--user", "--mount", "--preserve-credentials", "--target"]);
        command.arg(self.pid().to_string()).arg(HUB);
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        let (first, rest) = args.split_at(2);
        let mut command = self.beside();
        command.args(first).arg("--data").arg(self.data.path()).args(rest).output().unwrap()
    }

    /// A subcommand of one word.
    pub fn command(&self, name: &str, args: &[&str]) -> Output {
        let mut command = self.beside();
        command.arg(name).arg("--data").arg(self.data.path()).args(args).output().unwrap()
    }

    pub fn token(&self, args: &[&str]) -> String {
        let output = self.run(&[&["token", "create"], args].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// The whole answer to a `GET`.
    pub fn get(&self, path: &str, token: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The link that it prints at its start; stops the hub.
    pub fn link(&mut self) -> Option<String> {
        self.stop();
        let mut text = String::new();
        self.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        text.split_whitespace().find(|word| word.starts_with("http://")).map(str::to_owned)
    }

    /// SIGTERM; the exit code.
    pub fn stop(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        child.wait().unwrap().code()
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Makes an account.
    pub fn account(&self, name: &str, roles: &str, password: &str) {
        let mut child = Command::new(HUB)
            .args(["account", "create", "--role", roles, "--data"])
            .arg(self.data.path())
            .arg(name)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// Directory of a generation.
    pub fn replica(&self, origin: &str, generation: u64) -> PathBuf {
        self.directory().join("replica").join(origin).join(generation.to_string())
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A shipper in a thread.
pub struct Shipping {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Verdict>,
    said: Arc<Mutex<Vec<String>>>,
}

impl Shipping {
    /// Ships `log` as `origin`.
    pub fn start(hub: &Hub, log: &Path, origin: &str, once: bool) -> Self {
        Self::to(hub, &format!("http://{}", hub.address), None, log, origin, once)
    }

    /// The same, to a URL, trusting an authority.
    pub fn to(
        hub: &Hub,
        url: &str,
        ca: Option<&Path>,
        log: &Path,
        origin: &str,
        once: bool,
    ) -> Self {
        let token = hub.token(&["--role", "agent", "--server", origin]);
        let token_file = hub.data.path().join(format!("token-{origin}"));
        std::fs::write(&token_file, token).unwrap();
        let client = Client::new(&ClientOptions {
            address: url.parse().unwrap(),
            origin: origin.parse().unwrap(),
            token_file,
            ca: ca.map(Path::to_owned),
        });
        let (stop, said): (Arc<AtomicBool>, Arc<Mutex<Vec<String>>>) = Default::default();
        let heard = Arc::clone(&said);
        let options = Options {
            directory: log.to_owned(),
            access: Access::default(),
            once,
            bytes_per_second: 0,
            give_up_after: None,
            state: None,
            retain: true,
            host: "test".to_owned(),
            activity: Some(Arc::new(|| Some(Activity::default()))),
            stop: Arc::clone(&stop),
            report: Arc::new(move |text| heard.lock().unwrap().push(text.to_owned())),
        };
        let client = client.unwrap();
        let thread = std::thread::spawn(move || Shipper::new(client, options).run().unwrap());
        Self { stop, thread, said }
    }

    /// Waits until everything is shipped (`once`). Returns what it said.
    pub fn finish(self) -> (Verdict, String) {
        let verdict = self.thread.join().unwrap();
        (verdict, self.said.lock().unwrap().join("\n"))
    }

    pub fn stop(self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// The files of a replica as they have landed: the hub may have compressed them since.
pub fn landed(replica: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for name in tacho_replica::names(replica).unwrap() {
        let name = name.strip_suffix(ENDING).unwrap_or(&name);
        if name.starts_with('.') {
            continue;
        }
        match ReplicaFile::open(&replica.join(name)) {
            // Retention has removed it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            file => {
                let mut bytes = Vec::new();
                file.unwrap().read_from(0).read_to_end(&mut bytes).unwrap();
                files.insert(name.to_owned(), bytes);
            }
        }
    }
    files
}

/// Every file of the log that is shipped has the same bytes in the replica.
pub fn assert_same(log: &Path, replica: &Path) {
    let mut count = 0;
    let landed = landed(replica);
    for entry in std::fs::read_dir(log).unwrap() {
        let name = entry.unwrap().file_name();
        let text = name.to_str().unwrap();
        if text.ends_with(".jsonl") || text.ends_with(".chain") {
            let here = std::fs::read(log.join(&name)).unwrap();
            let there = landed.get(text).cloned().unwrap_or_default();
            assert!(here == there, "{text}: {} bytes, {} at the hub", here.len(), there.len());
            count += 1;
        }
    }
    assert!(count > 0);
}
