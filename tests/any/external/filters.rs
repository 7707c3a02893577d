//! A recorder receives filters through its socket and records through the arena: each record must
//! wait for the filter that applied to it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tacho_tests::client::Queryable as _;
use tacho_tests::raw::Raw;

use super::{GONE, RecorderProcess, scene, set, writer};
use tacho_tests::log;
use tacho_tests::wait;

/// The action of a filter's rule for the statements of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole,
    Skip,
    NoLiterals,
    NoText,
}

/// The new lines of a log that grows all the time.
struct Tail {
    directory: PathBuf,
    /// How far each file was read, bytes.
    read: HashMap<PathBuf, u64>,
}

impl Tail {
    fn has(&mut self, mark: &str) -> bool {
        log::files(&self.directory).expect("files").into_iter().any(|path| {
            let mut file = File::open(&path).expect("a log file");
            let read = self.read.entry(path).or_default();
            file.seek(SeekFrom::Start(*read)).expect("seeks");
            let mut new = Vec::new();
            file.read_to_end(&mut new).expect("reads");
            // Half a line is looked at again.
            let end = new.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            *read += end as u64;
            new[..end].windows(mark.len()).any(|part| part == mark.as_bytes())
        })
    }
}

/// Changes of the filter before all recorded statements must be in the log: 64 filters are kept.
const AT_ONCE: usize = 40;

/// A rule that only the writer can apply, as the class is known at the end, after so many others
/// that the filter takes longer to the recorder than the statements that follow it.
fn filter(kind: Kind) -> String {
    let rule = match kind {
        Kind::Whole => return String::new(),
        Kind::Skip => r#""action": "skip""#,
        Kind::NoLiterals => r#""action": "record", "redact": "LITERALS""#,
        Kind::NoText => r#""action": "no_text""#,
    };
    let others = (0..1_000).map(|n| format!(r#"{{"user": "other{n}", "action": "skip"}},"#));
    let others: String = others.collect();
    format!(r#"{{"rules": [{others} {{"user": "judged", "class": "read", {rule}}}]}}"#)
}

/// Records of a dead server are filtered as if it had lived: the recorder knows its filters.
#[test]
fn records_of_a_dead_server_are_filtered_by_its_filters() {
    let mut scene = scene(&["tacho-flush-interval-ms=60000", "tacho-flush-bytes=16777216"]);
    let recorder = RecorderProcess::start(&scene);
    recorder.wait_until_it_writes(&scene);
    let mut root = scene.server.connect().expect("a connection");
    root.query_drop("CREATE USER judged@localhost").expect("a user");
    let mut judged = Raw::connect(scene.server.socket(), "judged").expect("a session");
    let directory = scene.log_directory();
    let set_filter = scene.server.product.named("SET GLOBAL tacho_filter = ?");
    root.exec_drop(set_filter, (filter(Kind::NoLiterals),)).expect("a filter");
    // After the filter in the same channel: when this is done, so is the filter.
    let before = log::files(&directory).expect("files").len();
    set(&scene, "tacho_rotate_now = 1");
    wait::until("the filter is there", || log::files(&directory).expect("files").len() > before);
    judged.must(&["SELECT 'secret' AS mark_1"]);
    root.query_drop("SELECT 'no secret' AS mark_2").expect("an answer");
    scene.server.kill9().expect("killing");
    wait::until("the arena is gone without a new server", || scene.arena_files().is_empty());
    let mut texts = Vec::new();
    log::read(&directory, |line, _| {
        texts.extend(line.sql.as_deref().filter(|sql| sql.contains("mark_")).map(str::to_owned));
    })
    .expect("a readable log");
    texts.sort();
    assert_eq!(texts, ["SELECT 'no secret' AS mark_2", "SELECT ? AS `mark_1`"]);
    recorder.end();
}

#[test]
fn each_statement_is_judged_by_the_filter_of_its_time() {
    let scene = scene(&["tacho-flush-interval-ms=1"]);
    let is_over = Arc::new(AtomicBool::new(false));
    // Enough that the recorder always has something to write, and the log can be read in the end.
    let load = {
        let (is_over, mut other) = (is_over.clone(), scene.server.connect().expect("a connection"));
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                other.query_drop("SELECT 'of another session'").expect("an answer");
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    };
    let mut root = scene.server.connect().expect("a connection");
    root.query_drop("CREATE USER judged@localhost").expect("a user");
    let set_filter = scene.server.product.named("SET GLOBAL tacho_filter = ?");
    let kinds = [Kind::Whole, Kind::Skip, Kind::NoLiterals, Kind::NoText];
    let filters = kinds.map(filter);
    let mut judged = Raw::connect(scene.server.socket(), "judged").expect("a session");
    let directory = scene.log_directory();
    let mut recorder = RecorderProcess::start(&scene);
    let mut expected = Vec::new();
    let mut tail = Tail { directory: directory.clone(), read: HashMap::new() };
    for batch in 0..4 {
        recorder.wait_until_it_writes(&scene);
        for change in 0..AT_ONCE {
            // Each kind follows each other one.
            let which = [0, 1, 2, 3, 0, 2, 1, 3, 2, 0, 3, 1][change % 12];
            root.exec_drop(&set_filter, (&filters[which],)).expect("a filter");
            for _ in 0..2 {
                let number = expected.len();
                judged.must(&[&format!("SELECT 'secret {number}' AS mark_{number}")]);
                expected.push(kinds[which]);
            }
        }
        match batch {
            // The next writer continues with what this one has not written.
            0 => {
                recorder.signal(Signal::STOP);
                root.exec_drop(&set_filter, (&filters[1],)).expect("a filter");
                for _ in 0..2 {
                    let number = expected.len();
                    judged.must(&[&format!("SELECT 'secret {number}' AS mark_{number}")]);
                    expected.push(Kind::Skip);
                }
                recorder.kill9();
                recorder = RecorderProcess::start(&scene);
            }
            1 => {
                set(&scene, "tacho_writer = 'EMBEDDED'");
                wait::until("the server writes", || writer(&scene) == "EMBEDDED");
                set(&scene, "tacho_writer = 'EXTERNAL'");
            }
            _ => {}
        }
        root.exec_drop(&set_filter, ("",)).expect("no filter");
        let number = expected.len();
        judged.must(&[&format!("SELECT 'secret {number}' AS mark_{number}")]);
        expected.push(Kind::Whole);
        let last = format!("mark_{}\"", expected.len() - 1);
        wait::until("all of it is in the log", || tail.has(&last));
    }
    is_over.store(true, Ordering::Relaxed);
    load.join().expect("it has ended");
    drop(judged);
    drop(root);
    recorder.end();
    let mut scene = scene;
    scene.server.stop().expect("stopping");
    scene.server.assert_clean_log(GONE);

    // By their numbers in the session: each statement takes one, whatever its result.
    let mut lines: HashMap<u64, Value> = HashMap::new();
    let mut first = None;
    log::read(&directory, |line, text| {
        if line.user.as_deref() == Some("judged") && line.event == "statement" {
            let number = line.conn_seq.expect("it has a slot");
            if line.sql.as_deref().is_some_and(|sql| sql.ends_with("mark_0")) {
                first = Some(number);
            }
            lines.insert(number, serde_json::from_str(text).expect("JSON"));
        }
    })
    .expect("a readable log");
    let first = first.expect("the first one is recorded whole");
    for (number, kind) in expected.into_iter().enumerate() {
        let line = lines.get(&(first + number as u64));
        let sql = line.map(|line| line["sql"].as_str());
        let whole = format!("SELECT 'secret {number}' AS mark_{number}");
        let redacted = format!("SELECT ? AS `mark_{number}`");
        let wanted = match kind {
            Kind::Whole => Some(Some(&*whole)),
            Kind::NoLiterals => Some(Some(&*redacted)),
            Kind::NoText => Some(None),
            Kind::Skip => None,
        };
        assert_eq!(sql, wanted, "statement {number}, {kind:?}: {line:?}");
    }
}
