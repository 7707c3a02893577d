//! The client of a hub against a small hub in this process, which keeps what it gets in memory and
//! fails on demand. The real one is tested in its own crate.

mod memory;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory::{MemoryHub, TOKEN};
use tacho_chain::entry::Frame;
use tacho_chain::hash::Hash;
use tacho_logdir::read::content::Access;
use tacho_ship::hub::{Client, ClientOptions, Options, Shipper, Verdict};

const ONE: &str = "audit-20261121T100000Z-000001";
const TWO: &str = "audit-20261121T110000Z-000002";

/// A log directory, a hub, and what the shipper said.
struct Bench {
    directory: tempfile::TempDir,
    hub: MemoryHub,
    said: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    /// Retention waits for the hub.
    retain: bool,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("token"), format!("{TOKEN}\n")).unwrap();
        std::fs::create_dir(directory.path().join("log")).unwrap();
        let (said, stop) = (Arc::default(), Arc::default());
        Self { directory, hub: MemoryHub::start(), said, stop, retain: true }
    }

    /// A file of the log directory.
    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.directory.path().join("log").join(name), content).unwrap();
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.directory.path().join("log").join(name)).unwrap();
    }

    /// Lines with a frame for each.
    fn write_sealed(&self, stem: &str, lines: &[&str]) {
        let (text, frames) = sealed(lines);
        self.write(&format!("{stem}.jsonl"), text);
        self.write(&format!("{stem}.chain"), frames);
    }

    fn shipper(&self, give_up_after: Option<Duration>) -> Shipper {
        let client = Client::new(&ClientOptions {
            address: self.hub.url().parse().unwrap(),
            origin: "db1".parse().unwrap(),
            token_file: self.directory.path().join("token"),
            ca: None,
        });
        let said = Arc::clone(&self.said);
        let options = Options {
            directory: self.directory.path().join("log"),
            access: Access::default(),
            once: true,
            bytes_per_second: 0,
            give_up_after,
            state: Some(self.directory.path().join("state")),
            retain: self.retain,
            activity: None,
            host: "host".to_owned(),
            stop: Arc::clone(&self.stop),
            report: Arc::new(move |text| said.lock().unwrap().push(text.to_owned())),
        };
        Shipper::new(client.unwrap(), options)
    }

    fn ship(&self) -> Verdict {
        self.shipper(None).run().unwrap()
    }

    /// The lines of `.shipped`, without the hub and the name there.
    fn shipped(&self) -> Option<String> {
        let path = self.directory.path().join("log").join(".shipped");
        let text = std::fs::read_to_string(path).ok()?;
        Some(text.replace(&format!(" {} db1\n", self.hub.url()), ""))
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }

    /// The current generation at the hub has the same bytes as the directory in these files.
    fn assert_same(&self, names: &[&str]) {
        for name in names {
            let here = std::fs::read(self.directory.path().join("log").join(name)).unwrap();
            let there = self.hub.file(name);
            assert_eq!(String::from_utf8_lossy(&there), String::from_utf8_lossy(&here), "{name}");
        }
    }
}

fn sealed(lines: &[&str]) -> (String, String) {
    let (mut text, mut frames) = (String::new(), String::new());
    for line in lines {
        let frame = Frame {
            start: text.len() as u64,
            end: (text.len() + line.len()) as u64,
            last_seq: 1,
            lines: 1,
            digest: Hash::of(line.as_bytes()),
            recovered: false,
        };
        text.push_str(line);
        frames.push_str(&frame.to_line());
    }
    (text, frames)
}

fn names(stem: &str) -> [String; 2] {
    [format!("{stem}.jsonl"), format!("{stem}.chain")]
}

#[test]
fn everything_is_shipped_and_nothing_twice() {
    let bench = Bench::new();
    bench.write_sealed(ONE, &["one\n", "two\n"]);
    bench.write_sealed(TWO, &["three\n"]);
    bench.write("removed.chain", "");
    bench.write(&format!("{TWO}.csv"), "not shipped");
    assert_eq!(bench.ship().problem_count, 0);
    let [one, one_chain] = names(ONE);
    let [two, two_chain] = names(TWO);
    bench.assert_same(&[&one, &one_chain, &two, &two_chain]);
    assert_eq!(bench.hub.names(), [one_chain, one, two_chain.clone(), two.clone()]);
    // The lines before the frame that covers them.
    let order = bench.hub.taken();
    let place = |name: &str| order.iter().position(|(taken, _)| taken == name).unwrap();
    assert!(place(&two) < place(&two_chain), "{order:?}");
    let bytes = bench.hub.taken_bytes();
    assert_eq!(bench.ship().problem_count, 0);
    assert_eq!(bench.hub.taken_bytes(), bytes);
    bench.write_sealed(TWO, &["three\n", "four\n"]);
    bench.ship();
    bench.assert_same(&[&two, &two_chain]);
    assert_eq!(bench.said(), "");
    let heartbeat = bench.hub.heartbeat();
    assert_eq!((heartbeat.host.as_str(), heartbeat.next_s), ("host", 0));
    assert_eq!(heartbeat.newest.unwrap().as_str(), TWO);
    assert_eq!(heartbeat.recorder, Some(false));
}

#[test]
fn a_large_file_goes_in_several_bodies_that_are_compressed() {
    let bench = Bench::new();
    let lines: Vec<String> = (0..20_000)
        .map(|seq| {
            format!("{{\"v\":1,\"seq\":{seq},\"sql\":\"SELECT {seq} {}\"}}\n", "x".repeat(200))
        })
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    bench.write_sealed(ONE, &lines);
    let plain = bench.directory.path().join("log").join(format!("{ONE}.jsonl"));
    let text = std::fs::read(&plain).unwrap();
    bench.write(&format!("{ONE}.jsonl.zst"), zstd::encode_all(&text[..], 3).unwrap());
    std::fs::remove_file(plain).unwrap();
    assert_eq!(bench.ship().problem_count, 0);
    let [lines, chain] = names(ONE);
    assert!(bench.hub.file(&lines) == text);
    bench.assert_same(&[&chain]);
    assert!(bench.hub.taken().len() > 4);
    assert!(bench.hub.body_bytes() < text.len() as u64 / 2);
}

#[test]
fn a_state_saves_work_and_is_not_trusted() {
    let bench = Bench::new();
    bench.write(&format!("{ONE}.jsonl"), "one\n");
    bench.write(&format!("{TWO}.jsonl"), "two\n");
    bench.ship();
    let state = std::fs::read_to_string(bench.directory.path().join("state")).unwrap();
    // Only a file that is not written any more.
    assert!(state.contains(&format!("\"complete\":{{\"{ONE}\":[4,0]}}")), "{state}");
    assert_eq!(bench.ship().problem_count, 0);
    // A hub that has lost the end of the file gets it again.
    bench.hub.cut(&names(ONE)[0], 2);
    assert_eq!(bench.ship().problem_count, 0);
    bench.assert_same(&[&names(ONE)[0], &names(TWO)[0]]);
}

#[test]
fn failures_are_waited_for() {
    let bench = Bench::new();
    bench.write_sealed(ONE, &["one\n"]);
    for (status, body) in [
        (503, r#"{"code":"unavailable","message":"the hub starts"}"#),
        (507, r#"{"code":"disk_full","message":"the disk is full"}"#),
        (502, "<html>"),
        (400, r#"{"code":"digest","message":"damaged"}"#),
    ] {
        bench.hub.fail_next(status, body);
    }
    assert_eq!(bench.ship().problem_count, 0);
    bench.assert_same(&[&names(ONE)[0], &names(ONE)[1]]);
    let said = bench.said();
    assert!(said.contains("the hub starts (unavailable); retrying"), "{said}");
    assert!(said.contains("status 502 and is not that of a hub"), "{said}");
    assert!(
        said.ends_with("accepts data again after 0 s") || said.contains("accepts data again"),
        "{said}"
    );
}

#[test]
fn an_answer_that_was_lost_is_asked_for() {
    let bench = Bench::new();
    bench.write_sealed(ONE, &["one\n", "two\n"]);
    bench.hub.lose_answers(2);
    assert_eq!(bench.ship().problem_count, 0);
    bench.assert_same(&[&names(ONE)[0], &names(ONE)[1]]);
}

#[test]
fn a_hub_that_was_restored_gets_the_rest_again() {
    let bench = Bench::new();
    bench.write_sealed(ONE, &["one\n", "two\n"]);
    bench.ship();
    let [lines, chain] = names(ONE);
    // Between two requests of one run: the shipper still believes what was acknowledged.
    bench.hub.cut_before_next_put(&lines, 4);
    bench.write_sealed(ONE, &["one\n", "two\n", "three\n"]);
    assert_eq!(bench.ship().problem_count, 0);
    bench.assert_same(&[&lines, &chain]);
    assert_eq!(bench.hub.generation(), 1);
}

#[test]
fn a_log_that_was_changed_begins_a_generation() {
    let bench = Bench::new();
    bench.write_sealed(ONE, &["one\n"]);
    bench.write_sealed(TWO, &["two\n", "three\n"]);
    bench.ship();
    let before = bench.hub.file(&names(TWO)[0]);
    // As after a power failure: the end is lost, and other lines come.
    bench.write_sealed(TWO, &["two\n", "other\n", "more\n"]);
    assert_eq!(bench.ship().problem_count, 1);
    assert_eq!(bench.hub.generation(), 2);
    bench.assert_same(&[&names(ONE)[0], &names(TWO)[0], &names(TWO)[1]]);
    assert_eq!(bench.hub.file_of(1, &names(TWO)[0]), before);
    let request = bench.hub.generation_request();
    assert_eq!(request["file"], names(TWO)[0]);
    assert_eq!(request["reason"], "different");
    let said = bench.said();
    assert!(said.contains(".jsonl: it has other bytes than the hub's copy\n"), "{said}");
    assert!(said.ends_with("shipping continues as generation 2"), "{said}");
}

#[test]
fn a_log_that_was_cut_or_reset_begins_a_generation() {
    let bench = Bench::new();
    bench.write_sealed(ONE, &["one\n"]);
    bench.write_sealed(TWO, &["two\n", "three\n"]);
    bench.ship();
    bench.write_sealed(TWO, &["two\n"]);
    assert_eq!(bench.ship().problem_count, 1);
    assert_eq!(bench.hub.generation(), 2);
    assert_eq!(bench.hub.generation_request()["reason"], "shorter");
    bench.assert_same(&[&names(TWO)[0], &names(TWO)[1]]);
    for name in names(TWO) {
        bench.remove(&name);
    }
    assert_eq!(bench.ship().problem_count, 1);
    assert_eq!(
        (bench.hub.generation(), bench.hub.names()),
        (3, {
            let mut names = names(ONE);
            names.sort();
            names.to_vec()
        })
    );
    assert_eq!(bench.hub.generation_request()["reason"], "missing");
}

#[test]
fn shipped_files_are_listed_for_retention() {
    let mut bench = Bench::new();
    bench.write_sealed(ONE, &["one\n", "two\n"]);
    bench.write_sealed(TWO, &["three\n"]);
    // Before the hub answers, there is a line: the recorder waits.
    bench.hub.fail_next(503, r#"{"code":"unavailable","message":"the hub starts"}"#);
    let verdict = bench.shipper(Some(Duration::ZERO)).run().unwrap();
    assert_eq!((verdict.problem_count, bench.shipped().as_deref()), (1, Some("-")));
    bench.ship();
    assert_eq!(bench.shipped().as_deref(), Some(ONE), "the newest one may grow");
    // Without the line, the recorder waits for no hub.
    bench.retain = false;
    bench.ship();
    assert_eq!(bench.shipped(), None);
    bench.ship();
    assert!(!bench.said().contains(".shipped"), "{}", bench.said());
}

#[test]
fn a_file_without_a_key_is_not_acknowledged() {
    let bench = Bench::new();
    bench.write_sealed(ONE, &["one\n"]);
    bench.remove(&names(ONE)[0]);
    let key = age::x25519::Identity::generate().to_public();
    bench.write(&format!("{ONE}.jsonl.age"), age::encrypt(&key, b"one\n").unwrap());
    bench.write_sealed(TWO, &["two\n"]);
    for _ in 0..2 {
        // Also if the state has been written.
        assert_eq!(bench.ship().problem_count, 1);
        assert!(bench.said().contains("encrypted before all of it was shipped"));
        assert_eq!(bench.shipped().as_deref(), Some("-"));
    }
    bench.assert_same(&[&names(ONE)[1], &names(TWO)[0]]);
}

#[test]
fn a_hub_that_has_lost_a_file_does_not_count_as_having_it() {
    let bench = Bench::new();
    bench.write_sealed(ONE, &["one\n", "two\n"]);
    bench.write_sealed(TWO, &["three\n"]);
    bench.ship();
    assert_eq!(bench.shipped().as_deref(), Some(ONE));
    // Between two requests of one run, the hub loses the ends of both files.
    let [lines, chain] = names(ONE);
    bench.hub.cut_before_next_put(&lines, 4);
    bench.hub.cut_before_next_put(&names(TWO)[0], 0);
    bench.write_sealed(TWO, &["three\n", "four\n"]);
    assert_eq!(bench.ship().problem_count, 0);
    bench.assert_same(&[&lines, &chain, &names(TWO)[0], &names(TWO)[1]]);
    assert_eq!(bench.shipped().as_deref(), Some(ONE));
}

#[test]
fn an_operator_has_to_help() {
    let bench = Bench::new();
    bench.write_sealed(ONE, &["one\n"]);
    std::fs::write(bench.directory.path().join("token"), "wrong").unwrap();
    assert_eq!(bench.ship().problem_count, 1);
    assert!(bench.said().ends_with("no such token (token)"), "{}", bench.said());
}

#[test]
fn a_hub_that_takes_nothing_is_given_up() {
    let bench = Bench::new();
    bench.write_sealed(ONE, &["one\n"]);
    for _ in 0..3 {
        bench.hub.fail_next(503, r#"{"code":"unavailable","message":"the hub starts"}"#);
    }
    let verdict = bench.shipper(Some(Duration::ZERO)).run().unwrap();
    assert_eq!(verdict.problem_count, 1);
    assert!(bench.said().contains("giving up (--give-up-after)"), "{}", bench.said());
}

#[test]
fn a_check_changes_nothing() {
    let bench = Bench::new();
    bench.write_sealed(ONE, &["one\n"]);
    bench.ship();
    bench.write_sealed(TWO, &["two\n"]);
    let taken = bench.hub.taken_bytes();
    let check = bench.shipper(None).check().unwrap();
    assert_eq!((check.files, check.new_files, check.found), (2, 1, None));
    bench.write_sealed(ONE, &["another\n"]);
    let found = bench.shipper(None).check().unwrap().found.unwrap();
    assert_eq!(found.file.to_string(), names(ONE)[0]);
    assert_eq!((bench.hub.taken_bytes(), bench.hub.generation()), (taken, 1));
}

#[test]
fn a_signal_ends_it() {
    let bench = Bench::new();
    bench.write_sealed(ONE, &["one\n"]);
    bench.stop.store(true, Ordering::Relaxed);
    bench.hub.fail_next(503, "{}");
    assert_eq!(bench.ship().problem_count, 0);
}

#[test]
fn a_token_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let options = |path: &Path| ClientOptions {
        address: "http://127.0.0.1:1".parse().unwrap(),
        origin: "db1".parse().unwrap(),
        token_file: path.to_owned(),
        ca: None,
    };
    let path = directory.path().join("token");
    let error = |path: &Path| Client::new(&options(path)).err().unwrap().to_string();
    assert!(error(&path).starts_with("cannot read the token file"));
    for content in ["", "\n", "two words", "a\nb"] {
        std::fs::write(&path, content).unwrap();
        assert!(error(&path).contains("has no token"), "{content}");
    }
}
