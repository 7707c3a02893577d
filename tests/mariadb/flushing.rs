//! Zone: outside. When a finished record gets into the file: after `tacho_flush_interval_ms`, on an
//! idle server, too; earlier when `tacho_flush_bytes` are waiting; immediately on request.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tacho_tests::client::{Conn, Queryable};
use tacho_tests::log;
use tacho_tests::server::TestServer;
use tacho_tests::wait;

/// The longest that the setting takes, and longer than anything here.
const INTERVAL: Duration = Duration::from_secs(60);
const INTERVAL_OPTION: &str = "tacho-flush-interval-ms=60000";
/// More than four times the default of `tacho_flush_bytes`, and many chunks of the arena.
const STATEMENTS: u32 = 4_000;

struct Scene {
    server: TestServer,
    conn: Conn,
}

impl Scene {
    fn new(options: &[&str]) -> Scene {
        let builder = TestServer::builder().option("plugin-load-add=tacho");
        let builder = options.iter().fold(builder, |builder, option| builder.option(option));
        let server = builder.start().expect("a server");
        let conn = server.connect().expect("a connection");
        Scene { server, conn }
    }

    fn query(&mut self, sql: &str) {
        self.conn.query_drop(sql).expect("an answer");
    }

    /// Only reads the files, which the server does not notice.
    fn is_in_log(&self, sql: &str) -> bool {
        let files = log::files(&self.server.data_directory().join("tacho")).expect("files");
        let has_it = |file: &PathBuf| fs::read_to_string(file).expect("a file").contains(sql);
        files.iter().any(has_it)
    }

    /// How often the writer has gone to sleep, or was woken.
    fn switches(&self) -> u64 {
        let tasks = format!("/proc/{}/task", self.server.pid().expect("it runs"));
        let mut tasks = fs::read_dir(tasks).expect("threads").filter_map(|task| {
            let path = task.ok()?.path();
            let name = fs::read_to_string(path.join("comm")).ok()?;
            (name.trim() == "tacho-writer").then_some(path)
        });
        let path = tasks.next().expect("a writer").join("status");
        let status = fs::read_to_string(path).expect("its status");
        let of = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            line.trim().parse().expect("a number")
        };
        of("voluntary_ctxt_switches:") + of("nonvoluntary_ctxt_switches:")
    }

    /// The writer has just written all there is, and now sleeps until the interval is over. Returns
    /// a moment before which that had not begun: so long the next round is away at least.
    fn let_it_sleep(&mut self) -> Instant {
        let before = Instant::now();
        self.query("SELECT 'before'");
        self.query("SET GLOBAL tacho_flush_now = 1");
        wait::until("it is written", || self.is_in_log("SELECT 'before'"));
        wait::until_steady("the writer sleeps", || self.switches());
        before
    }

    fn load(&mut self) {
        for _ in 0..STATEMENTS {
            self.query("SELECT 'one of many'");
        }
    }
}

#[test]
fn on_an_idle_server_a_line_is_written_without_a_request() {
    // So much never waits.
    for interval in ["tacho-flush-interval-ms=1", "tacho-flush-interval-ms=500"] {
        let mut scene = Scene::new(&[interval, "tacho-flush-bytes=1073741824"]);
        for round in 0..3 {
            // Its session does nothing, and there is no other.
            let sql = format!("SELECT 'finished {round}'");
            scene.query(&sql);
            wait::until("it is written", || scene.is_in_log(&sql));
        }
    }
}

#[test]
fn before_the_end_of_the_interval_lines_are_written_only_on_request() {
    let mut scene = Scene::new(&[INTERVAL_OPTION, "tacho-flush-bytes=1073741824"]);
    let slept = scene.let_it_sleep();
    scene.query("SELECT 'waits'");
    // It is not the number of bytes either.
    scene.load();
    // Time to detect an early write: with the defaults it would be written ten times over.
    thread::sleep(Duration::from_secs(1));
    let is_there = scene.is_in_log("SELECT 'waits'");
    assert!(!is_there || slept.elapsed() > INTERVAL, "it was not requested");
    scene.query("SET GLOBAL tacho_flush_now = 1");
    wait::until("it is written", || scene.is_in_log("SELECT 'waits'"));
}

#[test]
fn many_bytes_do_not_wait_for_the_interval() {
    for bytes in ["tacho-flush-bytes=1", "tacho-flush-bytes=262144"] {
        let mut scene = Scene::new(&[INTERVAL_OPTION, bytes]);
        let slept = scene.let_it_sleep();
        scene.query("SELECT 'the first'");
        scene.load();
        wait::until("it is written", || scene.is_in_log("SELECT 'the first'"));
        assert!(slept.elapsed() < INTERVAL, "{bytes} was not what had it written");
    }
}
