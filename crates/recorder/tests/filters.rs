//! A writer whose filters come from another process: what a record was judged by may be later than it.

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

/// A rule that is asked when the statement has ended.
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

    /// The socket brings what is new.
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
fn what_a_filter_has_let_through_waits_for_it() {
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
        assert!(!pair.writer.finish(), "also where it is to end");
    }
    assert!(!pair.writer.may_let_go(), "what is found is in nobody's hands but its own");
    assert_eq!(texts(&place).len(), 1);
    // One that changes on and on keeps nothing back for longer than its own way.
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

/// The number in the arena is not true, or the server's thread hangs: statements do not wait for ever, and
/// nothing gets into the log that a filter might keep out.
#[test]
fn a_filter_that_never_comes_is_not_waited_for_for_ever() {
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
    assert!(said.len() == 1 && said[0].contains("has not come"), "{said:?}");
    pair.statement();
    assert!(pair.writer.round(), "not again");
    assert_eq!(texts(&place), ["<redacted>", "<redacted>"]);
    assert_eq!(place.said(Severity::Error).len(), 1);
}
