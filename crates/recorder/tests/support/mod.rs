//! A log directory, arenas, and a server's threads in miniature, for the tests of the writer.

// Each test file uses only a part of this.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tacho_logdir::{LogFiles, Options, RealFs};
use tacho_probe::{Probe, Thread, tacho_probe_emit, tacho_probe_session};
use tacho_recorder::arena_file::ArenaFile;
use tacho_recorder::control::{Control, Log, Severity, Status};
use tacho_recorder::recover::{self, RecoverError, Recovered};
use tacho_recorder::writer::Writer;
use tacho_ring::arena::Arena;
use tacho_ring::codec::{Bytes, Event, PRESENT_TEXT, RecordKind};
use tacho_ring::layout::ARENA_BYTES_MIN;
use tacho_ring::sys;

pub const DEADLINE: Duration = Duration::from_secs(600);

pub struct TestLog {
    _root: tempfile::TempDir,
    pub arenas: PathBuf,
    pub log: PathBuf,
    said: Arc<Mutex<Vec<(Severity, String)>>>,
}

pub fn place() -> TestLog {
    let root = tempfile::tempdir().expect("makes");
    let (arenas, log) = (root.path().join("arenas"), root.path().join("log"));
    fs::create_dir(&arenas).expect("makes");
    TestLog { _root: root, arenas, log, said: Arc::default() }
}

impl TestLog {
    pub fn arena(&self) -> ArenaFile {
        let made = ArenaFile::create(&self.arenas, ARENA_BYTES_MIN, &self.log, "").expect("makes");
        made.arena().shared().settings.0.logging.store(1, Ordering::Relaxed);
        made
    }

    /// An error log that can be read.
    pub fn log(&self) -> Log {
        let said = self.said.clone();
        Box::new(move |severity, text: &str| {
            said.lock().expect("no panic").push((severity, text.to_owned()));
        })
    }

    pub fn writer(&self, arena: Arena) -> Writer {
        self.writer_of(arena, Arc::new(Control::default()))
    }

    /// A writer with these settings.
    pub fn writer_of(&self, arena: Arena, control: Arc<Control>) -> Writer {
        let options = Options { rotate_bytes: 0 };
        let (files, opened) = LogFiles::open(RealFs, &self.log, options).expect("opens");
        let last_seq = opened.last_seq.expect("known").unwrap_or(0);
        Writer::new(arena, files, last_seq, control, Arc::new(Status::default()), self.log())
    }

    /// A writer with these settings of a log whose last line is `last_seq`, and its figures.
    pub fn writer_with(
        &self,
        arena: Arena,
        last_seq: u64,
        control: Arc<Control>,
    ) -> (Writer, Arc<Status>) {
        let options = Options { rotate_bytes: 0 };
        let (files, opened) = LogFiles::open(RealFs, &self.log, options).expect("opens");
        assert_eq!(opened.last_seq.expect("known"), Some(last_seq));
        let status = Arc::new(Status::default());
        (Writer::new(arena, files, last_seq, control, status.clone(), self.log()), status)
    }

    /// The names of the entries of the log directory.
    pub fn names(&self) -> impl Iterator<Item = String> + use<> {
        let entries = fs::read_dir(&self.log).expect("lists").map(|entry| entry.expect("lists"));
        entries.map(|entry| entry.file_name().into_string().expect("a name"))
    }

    pub fn recover(&self) -> (Writer, Result<Recovered, RecoverError>) {
        self.recover_from(&self.arenas)
    }

    pub fn recover_from(&self, arenas: &Path) -> (Writer, Result<Recovered, RecoverError>) {
        // A writer has an arena of its own; this one is elsewhere and never drained.
        let own = ArenaFile::create(self._root.path(), ARENA_BYTES_MIN, Path::new("/x"), "");
        let own = Box::leak(Box::new(own.expect("makes")));
        recover::recover_all(self.writer(own.arena()), arenas, &self.log)
    }

    /// The messages of the error log with this severity.
    pub fn said(&self, severity: Severity) -> Vec<String> {
        let said = self.said.lock().expect("no panic");
        said.iter().filter(|(s, _)| *s == severity).map(|(_, text)| text.clone()).collect()
    }

    pub fn lines(&self) -> Vec<String> {
        let mut paths: Vec<_> = fs::read_dir(&self.log)
            .expect("lists")
            .map(|entry| entry.expect("lists").path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
            .collect();
        paths.sort();
        let text: String = paths.iter().map(|p| fs::read_to_string(p).expect("reads")).collect();
        text.lines().map(str::to_owned).collect()
    }

    /// Nothing can be written until `mend_log`, not even as root.
    pub fn break_log(&self) {
        fs::remove_dir_all(&self.log).expect("removes");
        fs::write(&self.log, b"in the way").expect("writes");
    }

    pub fn mend_log(&self) {
        fs::remove_file(&self.log).expect("removes");
    }
}

pub fn event(kind: RecordKind, conn: u64, query_id: u64, text: &'static [u8]) -> Event {
    Event {
        kind: kind as u32,
        present: PRESENT_TEXT,
        conn,
        query_id,
        text_id: query_id,
        ts_us: sys::now_us(),
        errno_: if kind == RecordKind::Error { 1242 } else { 0 },
        shown_bytes: text.len() as u32,
        text: Bytes::of(text),
        ..Event::EMPTY
    }
}

pub fn emit(probe: &Probe, thread: &mut Thread, event: &Event) {
    // SAFETY: everything is valid, and of this thread.
    unsafe {
        let session = tacho_probe_session(probe, event.conn, event.ts_us);
        tacho_probe_emit(probe, thread, session, event);
    }
}

#[track_caller]
pub fn round_until(writer: &mut Writer, is_true: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_true() {
        assert!(Instant::now() < deadline);
        assert!(writer.round());
    }
}

/// Runs `produce` on a thread of its own, as a server would, while the writer works.
pub fn drain_while(arena: Arena, writer: &mut Writer, produce: impl FnOnce(&Probe) + Send) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            produce(&Probe::new(arena, 1));
            done.store(true, Ordering::Release);
        });
        let start = Instant::now();
        while !done.load(Ordering::Acquire) {
            assert!(writer.round(), "the log can be written");
            if start.elapsed() > DEADLINE {
                // Releases the thread, so that the test can fail.
                arena.shared().settings.0.logging.store(0, Ordering::Relaxed);
                panic!("the producer waits for a chunk that the writer never gives back");
            }
            std::thread::yield_now();
        }
    });
}
