//! A server that records, is killed, restarts, and a log that must contain everything.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tacho_tests::log::{self, Invariants, Line, TagCounter};
use tacho_tests::recording::Recording;
use tacho_tests::sysbench::Sysbench;
use tacho_tests::tagged::{self, Load, Running, Tag, Tally};
use tacho_tests::verdict::{TagCounts, Verdict};

/// A server with the recorder, and a directory in shared memory for its arenas.
pub struct Scene {
    pub server: Recording,
    pub arenas: PathBuf,
    random: u64,
}

impl Scene {
    /// With the recorder from the start, so that each start recovers.
    pub fn new(options: &[&str]) -> Scene {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tacho-crash-{}-{count}", std::process::id());
        let arenas = Path::new("/dev/shm").join(name);
        fs::create_dir(&arenas).expect("a directory in shared memory");
        let server = Recording::builder()
            .option(format!("tacho-arena-directory={}", arenas.display()))
            // A starting server removes temporary tables that it takes for its own.
            .option(format!("tmpdir={}", arenas.display()))
            .option("skip-stack-trace")
            .options(options)
            .start()
            .expect("a server");
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_nanos() as u64;
        println!("moments of death drawn from seed {seed}");
        Scene { server, arenas, random: seed | 1 }
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit
    }

    pub fn log_directory(&self) -> PathBuf {
        self.server.log_directory()
    }

    /// Arena files that are there now.
    pub fn arena_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.arenas).expect("the directory of the arenas");
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "arena"));
        paths.sort();
        paths
    }

    /// Kills the server at a moment of chance, after `statements` more have been answered.
    pub fn kill_under_load(&mut self, running: &Running, statements: u64) {
        running.wait_for_more(statements);
        thread::sleep(Duration::from_millis(self.below(300)));
        self.server.kill9().expect("killing");
    }

    /// Stops the server, reads the log and looks at everything that must be true of it.
    pub fn finish(&mut self, tally: &Tally, run: &str) -> Summary {
        self.server.stop().expect("stopping");
        assert_eq!(self.arena_files(), Vec::<PathBuf>::new(), "arenas are left");
        let summary = check(&self.log_directory(), tally, run);
        // MySQL reports a Prepare before it is parsed.
        assert!(summary.unannounced == 0 || self.server.product.is_mariadb(), "{summary:?}");
        summary
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // The server holds files in it until it is stopped, but they have no need of names.
        if let Err(error) = fs::remove_dir_all(&self.arenas) {
            eprintln!("cannot remove {}: {error}", self.arenas.display());
        }
    }
}

/// sysbench beside the tagging client. It ends with the server; its error message is discarded.
pub struct Noise(Child);

impl Noise {
    pub fn prepare(scene: &Scene) {
        let mut conn = scene.server.connect().expect("a connection");
        let sysbench = Sysbench::new(scene.server.socket(), "oltp_read_write").tables(2, 1_000);
        sysbench.prepare(&mut conn).expect("tables");
    }

    pub fn start(scene: &Scene) -> Noise {
        let child = Command::new("sysbench")
            .args(["oltp_read_write", "--db-driver=mysql", "--mysql-db=sbtest"])
            .arg(format!("--mysql-socket={}", scene.server.socket().display()))
            .args(["--mysql-user=root", "--tables=2", "--table-size=1000"])
            .args(["--threads=2", "--time=600", "run"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starting sysbench");
        Noise(child)
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        // Its server is gone, and it may have ended, too.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The findings in a log.
#[derive(Debug, Default)]
pub struct Summary {
    pub acknowledged: usize,
    pub missing: usize,
    pub doubled: usize,
    pub interrupted: usize,
    /// Prepares that the server answered and had no time to announce; see [`is_too_late`].
    pub unannounced: usize,
    pub lines: u64,
}

/// MariaDB 10.11 answers a COM_STMT_PREPARE first and announces it (GENERAL_LOG, or for one
/// that failed GENERAL_ERROR and GENERAL_STATUS) afterwards. A server that is killed between
/// the two has acknowledged a command that no audit plugin ever heard of. This can only be
/// the last command of its connection: the next one would have been read after the
/// announcement. So a missing Prepare is excused if the command that the client sent after it
/// was not answered, and is not in the log either. Nothing else is.
fn is_too_late(tag: &Tag, found: &TagCounts, in_flight: &HashSet<Tag>) -> bool {
    if tag.command != tagged::Command::Prepare {
        return false;
    }
    let execute = Tag { command: tagged::Command::Execute, ..tag.clone() };
    let next_id = tag.id.rsplit_once('-').and_then(|(thread, number)| {
        let number: u64 = number.parse().ok()?;
        Some(format!("{thread}-{}", number + 1))
    });
    let is_next = |other: &&Tag| **other == execute || Some(&other.id) == next_id.as_ref();
    in_flight.iter().find(is_next).is_some_and(|next| !found.contains_key(next))
}

/// For each connection of each recording: the last number, and that of the last interrupted
/// statement.
#[derive(Default)]
struct Interruptions {
    conns: HashMap<u64, (u64, Option<u64>)>,
    count: usize,
}

impl Interruptions {
    fn see(&mut self, line: &Line) {
        if line.event == "start" {
            self.end_recording();
        }
        let (Some(conn), Some(conn_seq)) = (line.conn, line.conn_seq) else { return };
        let (last, interrupted) = self.conns.entry(conn).or_default();
        *last = conn_seq.max(*last);
        if line.outcome.as_deref() == Some("interrupted") {
            assert_eq!(*interrupted, None, "connection {conn} was interrupted twice");
            *interrupted = Some(conn_seq);
            self.count += 1;
        }
    }

    fn end_recording(&mut self) {
        for (conn, (last, interrupted)) in self.conns.drain() {
            if let Some(interrupted) = interrupted {
                assert_eq!(interrupted, last, "connection {conn} continued after the interruption");
            }
        }
    }
}

/// Reads the whole log. Panics unless every acknowledged statement of `run` is in it once.
pub fn check(log_directory: &Path, tally: &Tally, run: &str) -> Summary {
    let mut invariants = Invariants::default();
    let mut counter = TagCounter::new(run);
    let mut interruptions = Interruptions::default();
    let mut lines = 0;
    log::read(log_directory, |line, text| {
        lines += 1;
        assert_ne!(line.event, "lost", "{text}");
        invariants.see(line);
        counter.see(line);
        interruptions.see(line);
    })
    .expect("a readable log");
    interruptions.end_recording();
    assert_eq!(invariants.finish(), [""; 0]);

    let found = counter.finish();
    let in_flight: HashSet<Tag> = tally.in_flight.iter().cloned().collect();
    let mut verdict = Verdict::new(tally, &found);
    let unannounced =
        verdict.missing.extract_if(.., |tag| is_too_late(tag, &found, &in_flight)).count();
    let summary = Summary {
        acknowledged: tally.acknowledged.len(),
        missing: verdict.missing.len(),
        doubled: verdict.duplicate.len(),
        interrupted: interruptions.count,
        unannounced,
        lines,
    };
    println!("{run}: {summary:?}");
    assert!(verdict.is_good(), "{verdict}");
    summary
}

/// Starts the tagging client on fresh tables.
pub fn start_load(scene: &Scene, run: &str) -> Running {
    start_paced_load(scene, run, Duration::ZERO)
}

/// The same with a rest after each step of a connection.
pub fn start_paced_load(scene: &Scene, run: &str, pause: Duration) -> Running {
    let load = Load { threads: 3, pause, ..Load::new(scene.server.socket(), run) };
    tagged::prepare(&mut scene.server.connect().expect("a connection"), load.threads)
        .expect("tables");
    load.start().expect("a load")
}
