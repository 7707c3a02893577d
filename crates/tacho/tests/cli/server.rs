//! Acts on an arena as a server does: through the probe, like the plugin.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tacho_probe::{Probe, Thread, tacho_probe_emit, tacho_probe_end_known, tacho_probe_session};
use tacho_recorder::arena_file::ArenaFile;
use tacho_ring::codec::{
    Bytes, Event, PRESENT_SQL_COMMAND, PRESENT_TEXT, RecordKind, STRING_CHARSET, STRING_COMMAND,
    STRING_COUNT, STRING_HOST, STRING_USER,
};

/// A log directory and a directory for arenas, removed at the end of the test.
pub struct ServerDirs {
    directory: tempfile::TempDir,
}

impl ServerDirs {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("tacho")).unwrap();
        std::fs::create_dir(directory.path().join("shm")).unwrap();
        Self { directory }
    }

    /// Canonical, as in the recorder.
    pub fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    pub fn log(&self) -> PathBuf {
        self.root().join("tacho")
    }

    pub fn arenas(&self) -> PathBuf {
        self.root().join("shm")
    }

    /// A server in this process; it dies when it is dropped.
    pub fn server(&self) -> Server {
        Server::start(&self.arenas(), &self.log())
    }

    /// The lines of the log.
    pub fn lines(&self) -> Vec<serde_json::Value> {
        let mut paths: Vec<PathBuf> =
            std::fs::read_dir(self.log()).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
        paths.sort();
        let texts = paths.iter().map(|path| std::fs::read_to_string(path).unwrap());
        let text: String = texts.collect();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Names in the directory of the arenas.
    pub fn arena_count(&self) -> usize {
        std::fs::read_dir(self.arenas()).unwrap().count()
    }
}

pub struct Server {
    pub file: ArenaFile,
    probe: Probe,
    thread: Thread,
}

impl Server {
    pub fn start(arenas: &Path, log: &Path) -> Self {
        let file = ArenaFile::create(arenas, 1 << 20, log, "MariaDB 10.11.19-test").unwrap();
        let probe = Probe::new(file.arena(), 1);
        // As the plugin does when it applies its variables.
        probe.arena.shared().settings.0.logging.store(1, std::sync::atomic::Ordering::Relaxed);
        Self { file, probe, thread: Thread::default() }
    }

    /// A statement of a connection starts.
    pub fn start_statement(&mut self, conn: u64, id: u64, sql: &[u8]) {
        let event = event(RecordKind::Start, conn, id, sql);
        self.emit(&event);
    }

    /// It ends, with an error number or 0.
    pub fn end_statement(&mut self, conn: u64, id: u64, sql: &[u8], errno: u32) {
        let session = self.session(conn);
        // SAFETY: the slot comes from the probe.
        assert!(unsafe { tacho_probe_end_known(session, id, id, sql.len() as u32) });
        let mut event = event(RecordKind::End, conn, id, b"");
        event.present = PRESENT_SQL_COMMAND;
        event.errno_ = errno;
        event.shown_bytes = sql.len() as u32;
        self.emit(&event);
    }

    /// A message is being sent to the client.
    pub fn error(&mut self, conn: u64, id: u64, errno: u32, message: &[u8]) {
        let mut event = event(RecordKind::Error, conn, id, message);
        event.errno_ = errno;
        self.emit(&event);
    }

    fn session(&self, conn: u64) -> Option<&'static tacho_ring::layout::Session> {
        // SAFETY: the probe is valid; the slot lives as long as the mapping, which outlives
        // every use of it in this file.
        unsafe {
            let session = tacho_probe_session(&self.probe, conn, tacho_ring::sys::now_us());
            std::mem::transmute(session)
        }
    }

    fn emit(&mut self, event: &Event) {
        let session = self.session(event.conn);
        // SAFETY: the event borrows from arguments that live through the call.
        unsafe { tacho_probe_emit(&self.probe, &mut self.thread, session, event) };
    }
}

fn event(kind: RecordKind, conn: u64, id: u64, text: &[u8]) -> Event {
    let mut strings = [Bytes::EMPTY; STRING_COUNT];
    strings[STRING_USER] = Bytes::of(b"app");
    strings[STRING_HOST] = Bytes::of(b"10.0.0.7");
    strings[STRING_COMMAND] = Bytes::of(b"Query");
    strings[STRING_CHARSET] = Bytes::of(b"utf8mb4");
    Event {
        kind: kind as u32,
        present: PRESENT_TEXT,
        conn,
        query_id: id,
        text_id: id,
        ts_us: tacho_ring::sys::now_us(),
        sql_command: -1,
        errno_: 0,
        sqlstate: [0; 8],
        shown_bytes: 0,
        reserved: 0,
        figures: [0; 5],
        strings,
        text: Bytes::of(text),
    }
}

/// A server in a separate process, until it is killed.
pub struct Process {
    child: Child,
}

const LOG: &str = "TACHO_TEST_SERVER_LOG";
const ARENAS: &str = "TACHO_TEST_SERVER_ARENAS";

impl Process {
    /// Starts it and waits until its records are in its arena.
    pub fn start(place: &ServerDirs) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "server::plays_a_server", "--ignored", "--nocapture"])
            .env(LOG, place.log())
            .env(ARENAS, place.arenas())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let ready = out.lines().map(Result::unwrap).any(|line| line.ends_with("server is ready"));
        assert!(ready, "the server ended early");
        Self { child }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    /// A failed test must not leave a process behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "other tests run it as a process of its own"]
fn plays_a_server() {
    let path = |name| PathBuf::from(std::env::var_os(name).expect("run by another test"));
    let mut server = Server::start(&path(ARENAS), &path(LOG));
    server.start_statement(7, 1, b"SELECT 'answered'");
    server.end_statement(7, 1, b"SELECT 'answered'", 0);
    server.start_statement(8, 2, b"SELECT 'deadly'");
    println!("server is ready");
    // Until it is killed, or the test that started it has ended.
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}
