//! A writer whose filters come from another process: a record may arrive before its filter.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use support::{DEADLINE, TestLog, emit, event, place};
use tacho_filter::compile::{Server, compile};
use tacho_logdir::{LogFiles, Options, RealFs};
use tacho_probe::{Probe, Thread};
use tacho_recorder::control::{Control, Severity, Status};
use tacho_recorder::external::message::FilterList;
use tacho_recorder::writer::Writer;
use tacho_ring::arena::Arena;
use tacho_ring::codec::RecordKind;

/// A rule that is evaluated at the end of a statement.
const NO_LITERALS: &str = r#"{"rules": [{"errno": "any", "not": {"errno": 1}, "redact": "LITERALS", "action": "record"}]}"#;

/// A server and its recorder.
struct Pair {
    server: Control,
    recorder: Arc<Control>,
    arena: Arena,
    writer: Writer,
    thread: Thread,
    next: u64,
}

impl Pair {
    fn new(place: &TestLog, arena: Arena) -> Pair {
        let files =
            LogFiles::open(RealFs, &place.log, Options { rotate_bytes: 0 }).expect("opens").0;
        let (recorder, status) = (Arc::new(Control::default()), Arc::new(Status::default()));
        let mut writer = Writer::new(arena, files, 0, recorder.clone(), status, place.log());
        writer.wait_for_filters();
        Pair {
            server: Control::default(),
            recorder,
            arena,
            writer,
            thread: Thread::default(),
            next: 0,
        }
    }

    /// As the server does it.
    fn set_filter(&self, text: &str) {
        let bytes = compile(text, &Server::default()).expect("a filter");
        let version = self.server.set_filter(bytes.into());
        self.arena.shared().settings.0.filter_version.store(version, Ordering::Relaxed);
    }

    /// Transfers new filters, as the socket does.
    fn bring(&self, known: u64) {
        FilterList::newer_than(&self.server, known).expect("there is one").apply(&self.recorder);
    }

    fn statement(&mut self) {
        let probe = Probe::new(self.arena, 1);
        self.next += 1;
        for kind in [RecordKind::Start, RecordKind::End] {
            let mut it = event(kind, 1, self.next, b"SELECT 'secret'");
            it.errno_ = if kind == RecordKind::End { 7 } else { 0 };
            emit(&probe, &mut self.thread, &it);
        }
    }
}

fn texts(place: &TestLog) -> Vec<String> {
    let lines = place.lines();
    let parsed = lines.iter().map(|line| serde_json::from_str(line).expect("JSON"));
    parsed.map(|line: serde_json::Value| line["sql"].as_str().unwrap_or("").to_owned()).collect()
}

#[test]
fn records_wait_for_the_filter_that_let_them_through() {
    let place = place();
    let file = place.arena();
    let mut pair = Pair::new(&place, file.arena());
    pair.statement();
    assert!(pair.writer.round());
    assert_eq!(texts(&place), ["SELECT 'secret'"]);

    pair.set_filter(NO_LITERALS);
    pair.statement();
    for _ in 0..3 {
        assert!(!pair.writer.round(), "it waits");
        assert!(!pair.writer.finish(), "also at the end");
    }
    assert!(!pair.writer.may_release(), "the records are only in its memory");
    assert_eq!(texts(&place).len(), 1);
    // A filter that changes all the time delays records only until it arrives.
    pair.set_filter("");
    pair.bring(0);
    pair.set_filter(NO_LITERALS);
    pair.statement();
    assert!(!pair.writer.round(), "the last one is not here");
    assert_eq!(texts(&place), ["SELECT 'secret'", "<redacted>"]);
    pair.bring(2);
    assert!(pair.writer.round());
    assert_eq!(texts(&place), ["SELECT 'secret'", "<redacted>", "<redacted>"]);
    assert_eq!(place.said(Severity::Error), Vec::<String>::new());
}

/// The number in the arena is wrong, or the server's thread hangs: statements do not wait for ever,
/// and the log gets nothing that a filter might remove.
#[test]
fn the_writer_does_not_wait_for_ever_for_a_filter() {
    let place = place();
    let file = place.arena();
    let mut pair = Pair::new(&place, file.arena());
    file.arena().shared().settings.0.filter_version.store(u64::MAX, Ordering::Relaxed);
    pair.statement();
    let since = Instant::now();
    while !pair.writer.round() {
        assert!(since.elapsed() < DEADLINE, "it waits for ever");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(texts(&place), ["<redacted>"]);
    let said = place.said(Severity::Error);
    assert!(said.len() == 1 && said[0].contains("not received after 10 s"), "{said:?}");
    pair.statement();
    assert!(pair.writer.round(), "no second wait");
    assert_eq!(texts(&place), ["<redacted>", "<redacted>"]);
    assert_eq!(place.said(Severity::Error).len(), 1);
}
