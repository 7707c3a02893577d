//! Zone: outside. A capture whose log has no space: packets wait, and those that the kernel drops
//! are declared. When there is space again, all that has waited is recorded, and the capture
//! continues. The log verifies.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tacho_chain::verify::LogState;
use tacho_tests::arena::Arena;
use tacho_tests::captured::Capture;
use tacho_tests::client::Queryable as _;
use tacho_tests::memory_disk::MemoryDisk;
use tacho_tests::raw::{Login, Raw, com};
use tacho_tests::recording::Recording;
use tacho_tests::sealed::{assert_state, check, key_in};
use tacho_tests::{log, namespace, unused_directory, wait};

/// Of the disk while it is too small: a few statements.
const SMALL_BYTES: u64 = 8 << 20;
/// Of the disk when there is space again.
const LARGE_BYTES: u64 = 1 << 30;
/// That of the arena, of which nothing can be freed while the disk is full.
const ARENA_BYTES: usize = 64 << 20;
/// A little more than the arena: also its directory has a limit.
const ARENA_DISK_BYTES: u64 = 80 << 20;
/// The smallest one.
const RING_BYTES: usize = 32 << 20;
/// The error of the system.
const FULL: &str = "No space left";
/// Each statement has more than this.
const STATEMENT_BYTES: usize = 1 << 20;

/// A server, and a capture of it whose log is on a small disk.
struct Scene {
    server: Recording,
    capture: Capture,
    disk: MemoryDisk,
    arena: Arena,
    directory: PathBuf,
    /// Keeps the file system of the arena.
    _arena_disk: MemoryDisk,
}

impl Scene {
    fn new() -> Scene {
        let server = Recording::builder().option("max-allowed-packet=64M").start();
        let server = server.expect("a server");
        let mut root = server.connect().expect("a connection");
        root.query_drop("CREATE USER guest@'127.0.0.1'").expect("an account");
        // It has nothing to do with it, and would need a disk, too.
        server.set("tacho_logging = 0");
        let directory = unused_directory("capture-disk");
        let arenas = directory.join("arenas");
        let disk = MemoryDisk::mount(&directory.join("log"), SMALL_BYTES).expect("a disk");
        let arena_disk = MemoryDisk::mount(&arenas, ARENA_DISK_BYTES).expect("a disk");
        let ring_size = RING_BYTES.to_string();
        let options = ["--arena-directory", arenas.to_str().expect("text"), "--ring-size"];
        let options = [&options[..], &[&ring_size]].concat();
        let capture = Capture::start_with(server.port(), &directory, &options).expect("a capture");
        let arena = Arena::only_one_in(&arenas).expect("an arena");
        Scene { server, capture, disk, arena, directory, _arena_disk: arena_disk }
    }

    fn log_in(&self) -> Raw {
        let session = Raw::login_tcp(self.server.port(), &Login::new("guest"));
        session.expect("a connection").expect("a session")
    }

    fn messages(&self) -> String {
        fs::read_to_string(self.directory.join("capture.err")).expect("messages")
    }
}

/// How many lines have a text so far. Those of large statements are not looked at.
fn count(log: &Path, text: &str) -> usize {
    let mut count = 0;
    for name in log::file_names(log, ".jsonl") {
        let mut file = BufReader::new(File::open(log.join(name)).expect("a log file"));
        let mut line = Vec::new();
        while file.read_until(b'\n', &mut line).expect("the log") > 0 {
            let is_large = line.len() > STATEMENT_BYTES;
            count += usize::from(!is_large && String::from_utf8_lossy(&line).contains(text));
            line.clear();
        }
    }
    count
}

fn wait_for(log: &Path, text: &str, wanted: usize) {
    wait::until(&format!("the log has {text}"), || count(log, text) >= wanted);
}

/// A large statement, and its number in it.
fn statement(number: usize) -> String {
    format!("SELECT /* {number} */ LENGTH('{}')", "z".repeat(STATEMENT_BYTES))
}

/// The number of a large statement.
fn number(line: &Value) -> Option<usize> {
    let text = line["sql"].as_str()?;
    let (number, _) = text.strip_prefix("SELECT /* ")?.split_once(" */")?;
    let number = number.parse().expect("a number");
    assert_eq!(text, statement(number), "it is whole");
    Some(number)
}

/// Sends large statements until the capture waits for space, and then more than its ring can hold.
/// Returns how many. The server answers all of them: nothing of this concerns it.
fn overflow(scene: &Scene, session: &mut Raw) -> usize {
    let mut count = 0;
    let mut send = || {
        session.must(&[&statement(count)]);
        count += 1;
    };
    wait::until("the capture waits for space", || {
        send();
        scene.arena.waiters().expect("the arena") > 0 && scene.messages().contains(FULL)
    });
    (0..2 * RING_BYTES / STATEMENT_BYTES).for_each(|_| send());
    count
}

/// Ends a session and its connection. Returns its id.
fn end(mut session: Raw) -> u64 {
    session.command(com::QUIT, b"").expect("an end");
    session.conn
}

#[test]
fn a_capture_with_a_full_disk_continues_when_there_is_space() {
    let test = "capture_disk::a_capture_with_a_full_disk_continues_when_there_is_space";
    if !namespace::enter(test, "a capture whose disk is full is not tested") {
        return;
    }
    let mut scene = Scene::new();
    let mut session = scene.log_in();
    session.must(&["SELECT 'before'"]);
    let log = scene.capture.log().to_owned();
    wait_for(&log, "SELECT 'before'", 1);
    let sent = overflow(&scene, &mut session);
    scene.disk.resize(LARGE_BYTES).expect("space");
    wait_for(&log, r#""cause":"kernel""#, 1);
    // The same session continues: a gap can cost the statements directly after it.
    wait::until("the session is recorded again", || {
        session.must(&["SELECT 'later'"]);
        count(&log, "SELECT 'later'") > 0
    });
    let conn = end(session);
    let mut other = scene.log_in();
    other.must(&["SELECT 'after'"]);
    let other = end(other);
    wait_for(&log, r#""event":"disconnect""#, 2);
    scene.capture.stop().expect("its end");

    let mut lines = Vec::<Value>::new();
    log::read(&log, |_, text| lines.push(serde_json::from_str(text).expect("JSON")))
        .expect("a readable log");
    assert_conserved(&lines, conn, sent);
    for line in lines.iter().filter(|line| line["cause"] == "kernel") {
        assert!(line["lost_packets"].as_u64() > Some(0), "{line}");
    }
    let of_other = lines.iter().filter(|line| line["conn"] == other);
    let of_other = of_other.inspect(|line| assert!(line["session"].is_null(), "{line}"));
    assert!(of_other.filter(|line| line["user"] == "guest").count() >= 3);
    assert_eq!(scene.messages().matches(FULL).count(), 1, "{}", scene.messages());
    // What is lost is declared, and sealed.
    assert_state(&check(&log, &key_in(&log)), LogState::Lost);
    let Scene { server, capture, disk, directory, _arena_disk: arena_disk, .. } = scene;
    drop((server, capture, disk, arena_disk));
    fs::remove_dir_all(&directory).expect("removing the log");
}

/// What the arena could hold is recorded, each statement once. What is missing is declared for its
/// connection, with its bytes.
fn assert_conserved(lines: &[Value], conn: u64, sent: usize) {
    let of_session = || lines.iter().filter(|line| line["conn"] == conn);
    let mut recorded = BTreeMap::<usize, usize>::new();
    for number in of_session().filter_map(number) {
        *recorded.entry(number).or_default() += 1;
    }
    assert!(recorded.values().all(|count| *count == 1), "{recorded:?}");
    // A statement that was only captured in part has no text. Nor has the second line of one that
    // took long.
    let in_part = of_session().filter(|line| {
        line["command"] == "Query" && line["sql"].is_null() && line["running_seq"].is_null()
    });
    let missing = sent - recorded.len() - in_part.count();
    let lost = of_session().filter(|line| line["event"] == "lost");
    let lost_bytes = lost.filter_map(|line| line["lost_bytes"].as_u64()).sum::<u64>();
    let kept_bytes = recorded.len() * STATEMENT_BYTES;
    assert!(kept_bytes > ARENA_BYTES * 3 / 4, "{kept_bytes} bytes recorded of {sent} statements");
    assert!(missing > 0, "all of {sent} statements are recorded");
    assert!(
        lost_bytes >= (missing * STATEMENT_BYTES) as u64,
        "{missing} of {sent} statements are missing, and {lost_bytes} bytes declared"
    );
}
