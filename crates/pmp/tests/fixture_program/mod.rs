//! Builds and runs the program with the known stacks.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use tacho_pmp::task::Tasks;

/// The running program. It is killed on drop.
pub struct Fixture {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Fixture {
    /// Starts it and waits until all its threads run.
    pub fn start() -> Self {
        Self::with_threads(&[])
    }

    /// The same with only some threads.
    pub fn with_threads(names: &[&str]) -> Self {
        let mut child = Command::new(program())
            .args(names)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Self { child, stdout }
    }

    /// How many signals its thread `counter` has handled.
    pub fn signals(&mut self) -> u64 {
        let stdin = self.child.stdin.as_mut().expect("its input");
        stdin.write_all(b"?").expect("asking");
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line.trim().parse().expect("a number")
    }

    /// State letters of its threads, as in `ps`.
    pub fn states(&self) -> String {
        let tasks = Tasks::new(self.pid());
        let tids = tasks.list().expect("its threads");
        tids.into_iter().map(|tid| tasks.stat(tid).expect("a state").state).collect()
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The stacks that elfutils finds: functions by the name of the thread, innermost first.
    pub fn eu_stack(&self) -> BTreeMap<String, Vec<String>> {
        let output = Command::new("eu-stack")
            .args(["-n", "0", "-p", &self.pid().to_string()])
            .output()
            .expect("eu-stack is installed (Debian: elfutils)");
        let text = String::from_utf8_lossy(&output.stdout);
        let mut stacks: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut name = String::new();
        for line in text.lines() {
            if let Some(tid) = line.strip_prefix("TID ") {
                let tid = tid.trim_end_matches(':');
                let comm = format!("/proc/{}/task/{tid}/comm", self.pid());
                name = fs::read_to_string(comm).expect("a name").trim().to_owned();
            } else if let Some(frame) = line.strip_prefix('#') {
                // `#12 0x00007f84d67278ec - 1 name`; without a name, there is nothing after the
                // address.
                let mut words = frame.split_whitespace().skip(2).peekable();
                if words.next_if_eq(&"-").is_some() {
                    words.next();
                }
                let function = words.next().unwrap_or_default().to_owned();
                stacks.entry(name.clone()).or_default().push(function);
            }
        }
        stacks
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // Its own handle; a program that has already ended needs no kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compiles it, once per run of the tests.
fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixture/threads.c");
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let program = directory.join(format!("threads-{}", std::process::id()));
        let status = Command::new("cc")
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
            .arg(&program)
            .arg(source)
            .status()
            .expect("a C compiler");
        assert!(status.success(), "compiling {source}");
        program
    })
}
