//! Zone: outside. The overflow policies if the writer cannot keep up, and when they are changed.

use std::fs;

use tacho_tests::arena::Arena;
use tacho_tests::audit::Audit;
use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::disk::{Disk, FAILED_WRITES};
use tacho_tests::server::TestServer;
use tacho_tests::tagged::{self, Load, Running};
use tacho_tests::wait;

const NO_SPACE: i32 = 28;

/// Messages of a server that these tests accept.
const ALLOWED: &[&str] = &["max_open_files", "Aborted connection", "records were lost"];

struct Scene {
    place: std::path::PathBuf,
    disk: Disk,
    server: TestServer,
    conn: Conn,
    arena: Arena,
    running: Running,
}

impl Scene {
    /// In an arena of this size the writer is not short of chunks before the disk fails, so
    /// the session of the test keeps its own, and gets through when the others wait.
    fn new(name: &str) -> Self {
        let place = tacho_tests::unused_directory(&format!("overflow-{name}"));
        let disk = Disk::plain(&place.join("disk")).expect("a disk");
        let builder =
            TestServer::builder().option("plugin-load-add=tacho.so").option("tacho-arena-bytes=8M");
        let server = disk.server(builder).start().expect("a server");
        let mut conn = server.connect().expect("a connection");
        tagged::prepare(&mut conn, 4).expect("preparing");
        let arena = Arena::of(&mut conn).expect("an arena");
        let running =
            Load { big_every: 0, ..Load::new(server.socket(), "over") }.start().expect("a load");
        let scene = Self { place, disk, server, conn, arena, running };
        scene.running.wait_for_more(200);
        scene
    }

    fn wait_until_all_wait(&self) {
        wait::until("all connections wait", || self.arena.waiters().expect("the arena") >= 4);
        wait::until_steady("answers stop", || self.running.acknowledged_count());
    }

    /// DROP is a word of the language, and needs quotes.
    fn set(&mut self, assignment: &str) {
        self.conn.query_drop(format!("SET GLOBAL {assignment}")).expect("setting");
    }

    fn status(&mut self, name: &str) -> u64 {
        client::status_number(&mut self.conn, name).expect("status")
    }

    /// Writes work again, the load ends; nothing is missing that is not declared, and log and
    /// status agree about it.
    fn end(self) {
        self.disk.mend_writes().expect("mending");
        self.running.wait_for_more(200);
        let Self { place, mut server, mut conn, running, disk, .. } = self;
        let tally = running.stop().expect("a tally");
        let mut number = |name: &str| client::status_number(&mut conn, name).expect("status");
        let lost = wait::until_steady("losses end", || number("Tacho_records_lost"));
        let causes = ["timeout", "dropped", "corrupt", "killed"];
        let counts = causes.map(|cause| number(&format!("Tacho_records_lost_{cause}")));
        assert_eq!(counts.iter().sum::<u64>(), lost);
        assert_eq!(counts[2..], [0, 0], "corrupt and killed");
        server.stop().expect("stopping");
        let audit = Audit::of(&disk.log_directory(), "over").expect("a readable log");
        audit.assert_declared(&tally);
        for (cause, count) in causes.into_iter().zip(counts) {
            assert_eq!(audit.lost_count(cause).expect("lost lines"), count, "{cause}");
        }
        server.assert_clean_log(&[ALLOWED, FAILED_WRITES].concat());
        drop(server);
        fs::remove_dir_all(place).expect("removing");
    }
}

#[test]
fn each_policy_takes_effect_at_once_also_for_those_that_wait() {
    let mut scene = Scene::new("policies");
    scene.conn.query_drop("SELECT 'a chunk of its own'").expect("an answer");
    scene.disk.fail_writes(NO_SPACE, 0).expect("a fault");
    scene.wait_until_all_wait();
    assert_eq!(scene.status("Tacho_records_lost"), 0);
    // Each connection waits once, and is still at it.
    assert!(scene.status("Tacho_blocked_count") >= 4);

    // An hour of TIMEOUT is as good as BLOCK for those that wait.
    scene.set("tacho_overflow_timeout_ms=3600000");
    scene.set("tacho_overflow=TIMEOUT");
    scene.wait_until_all_wait();
    assert_eq!(scene.status("Tacho_records_lost"), 0);
    scene.set("tacho_overflow_timeout_ms=2");
    scene.running.wait_for_more(200);
    assert!(scene.status("Tacho_records_lost_timeout") > 0);
    assert_eq!(scene.status("Tacho_records_lost_dropped"), 0);
    assert!(scene.status("Tacho_blocked_time_us") > 0);

    scene.set("tacho_overflow='DROP'");
    scene.running.wait_for_more(2000);
    assert!(scene.status("Tacho_records_lost_dropped") > 0);
    let timeouts = scene.status("Tacho_records_lost_timeout");
    let blocked = scene.status("Tacho_blocked_count");
    scene.running.wait_for_more(2000);
    assert_eq!(scene.status("Tacho_records_lost_timeout"), timeouts);
    assert_eq!(scene.status("Tacho_blocked_count"), blocked, "DROP does not wait");

    scene.set("tacho_overflow=BLOCK");
    scene.wait_until_all_wait();
    let dropped = scene.status("Tacho_records_lost_dropped");
    wait::until_steady("no session gets an answer", || scene.running.acknowledged_count());
    assert_eq!(scene.status("Tacho_records_lost_dropped"), dropped, "BLOCK loses nothing");
    scene.end();
}

#[test]
fn turning_recording_off_lets_those_go_that_wait() {
    let mut scene = Scene::new("off");
    scene.conn.query_drop("SELECT 'a chunk of its own'").expect("an answer");
    scene.disk.fail_writes(NO_SPACE, 0).expect("a fault");
    scene.wait_until_all_wait();
    scene.set("tacho_logging=OFF");
    scene.running.wait_for_more(2000);
    // The records that waited are counted: each session has lost the one it waited for.
    let lost = scene.status("Tacho_records_lost");
    assert!((1..=8).contains(&lost), "{lost}");
    scene.disk.mend_writes().expect("mending");
    scene.set("tacho_logging=ON");
    scene.running.wait_for_more(200);
    let tally = scene.running.stop().expect("a tally");
    let Scene { place, disk, mut server, mut conn, .. } = scene;
    // A session that has lost a record does not wait with an error: while the arena was still full,
    // each may have lost that of a statement that could not be prepared.
    let status = |conn: &mut Conn| client::status_number(conn, "Tacho_records_lost_dropped");
    let lost_in_all = status(&mut conn).expect("status");
    assert!((lost..=lost + 4).contains(&lost_in_all), "{lost} and {lost_in_all}");
    let lost = lost_in_all;
    drop(conn);
    assert!(!tally.acknowledged.is_empty());
    server.stop().expect("stopping");
    let audit = Audit::of(&disk.log_directory(), "over").expect("a readable log");
    assert_eq!(audit.problems, [""; 0]);
    assert_eq!(audit.lost_count("dropped").expect("lost lines"), lost);
    let changes = audit.others.iter().filter(|line| line["variable"] == "tacho_logging");
    assert_eq!(changes.count(), 2);
    server.assert_clean_log(&[ALLOWED, FAILED_WRITES].concat());
    drop(server);
    fs::remove_dir_all(place).expect("removing");
}
