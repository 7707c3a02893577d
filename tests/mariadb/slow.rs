//! Zone: outside. A log on a device where each write takes a tenth of a second to half a second.
//! Throughput may fall; nothing is lost that is not declared, and the server can be stopped.

use std::fs;
use std::path::PathBuf;

use tacho_tests::arena::Arena;
use tacho_tests::audit::Audit;
use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::disk::Disk;
use tacho_tests::server::TestServer;
use tacho_tests::tagged::{self, Load, Running, Tally};
use tacho_tests::wait;

const THREADS: u64 = 4;

/// Messages of a server that these tests accept.
const ALLOWED: &[&str] = &["max_open_files", "Aborted connection"];

/// A server on a slow disk, with a small arena, and a load with many large statements.
struct Scene {
    place: PathBuf,
    disk: Disk,
    server: TestServer,
    conn: Conn,
    arena: Arena,
    running: Running,
    run: String,
}

impl Scene {
    fn new(run: &str, options: &[&str]) -> Scene {
        let place = tacho_tests::unused_directory(&format!("slow-{run}"));
        let disk = Disk::plain(&place.join("disk")).expect("a disk");
        let mut builder =
            TestServer::builder().option("plugin-load-add=tacho.so").option("tacho-arena-bytes=1M");
        for option in options {
            builder = builder.option(option);
        }
        let server = disk.server(builder).start().expect("a server");
        let mut conn = server.connect().expect("a connection");
        tagged::prepare(&mut conn, THREADS).expect("preparing");
        let arena = Arena::of(&mut conn).expect("an arena");
        let load = Load { threads: THREADS, big_every: 10, ..Load::new(server.socket(), run) };
        let running = load.start().expect("a load");
        let scene = Scene { place, disk, server, conn, arena, running, run: run.to_owned() };
        scene.running.wait_for_more(100);
        scene
    }

    fn status(&mut self, name: &str) -> u64 {
        client::status_number(&mut self.conn, name).expect("status")
    }

    fn wait_for_status(&mut self, name: &str, more_than: u64) {
        let Scene { conn, .. } = self;
        wait::until(name, || client::status_number(conn, name).expect("status") > more_than);
    }

    /// Stops the load, then the server, and reads the log.
    fn end(self) -> (Tally, Audit, TestServer, PathBuf) {
        let Scene { place, disk, mut server, conn, running, run, .. } = self;
        let tally = running.stop().expect("a tally");
        drop(conn);
        if server.pid().is_some() {
            server.stop().expect("stopping");
        }
        let audit = Audit::of(&disk.log_directory(), &run).expect("a readable log");
        (tally, audit, server, place)
    }

    /// Ends it where records may be lost: status, log and load must agree about how many.
    fn end_with_losses(self, cause: &str) {
        let Scene { place, disk, mut server, mut conn, running, run, .. } = self;
        let tally = running.stop().expect("a tally");
        // The last connections end, and may be lost, too.
        let lost = wait::until_steady("losses end", || {
            client::status_number(&mut conn, "Tacho_records_lost").expect("status")
        });
        server.stop().expect("stopping");
        let audit = Audit::of(&disk.log_directory(), &run).expect("a readable log");
        let (missing, declared) = audit.assert_declared(&tally);
        assert!(missing > 0, "nothing is missing, though {declared} records are");
        assert_eq!(declared, lost, "declared in the log and counted in the status");
        assert_eq!(audit.lost_count(cause).expect("lost lines"), lost);
        server.assert_clean_log(&[ALLOWED, &["records were lost"]].concat());
        drop(server);
        fs::remove_dir_all(place).expect("removing");
    }
}

#[test]
fn sessions_wait_for_a_slow_disk_and_lose_nothing() {
    let mut scene = Scene::new("block", &[]);
    for ms in [50, 200, 500] {
        scene.disk.slow_writes(ms).expect("a fault");
        let waited = scene.status("Tacho_blocked_count");
        scene.wait_for_status("Tacho_blocked_count", waited);
        let written = scene.status("Tacho_records_written");
        scene.running.wait_for_more(100);
        scene.wait_for_status("Tacho_records_written", written + 100);
    }
    // A statement of the test's own session also gets through.
    scene.conn.query_drop("SELECT 'in between'").expect("an answer");
    assert_eq!(scene.status("Tacho_records_lost"), 0);
    assert_eq!(scene.status("Tacho_write_errors"), 0);
    assert!(scene.status("Tacho_blocked_time_us") > 0);
    // The server stops while writes are slow, and with everything in the log.
    let (tally, audit, server, place) = scene.end();
    audit.assert_complete(&tally);
    assert_eq!(audit.others.last().map(|line| &line["event"]), Some(&"stop".into()));
    server.assert_clean_log(ALLOWED);
    drop(server);
    fs::remove_dir_all(place).expect("removing");
}

#[test]
fn a_slow_disk_under_timeout_declares_its_losses() {
    let options = ["tacho-overflow=TIMEOUT", "tacho-overflow-timeout-ms=5"];
    let mut scene = Scene::new("timeout", &options);
    scene.disk.slow_writes(300).expect("a fault");
    scene.wait_for_status("Tacho_records_lost_timeout", 100);
    scene.running.wait_for_more(500);
    assert!(scene.status("Tacho_blocked_count") > 0);
    // The other records are still written.
    let written = scene.status("Tacho_records_written");
    scene.wait_for_status("Tacho_records_written", written + 100);
    scene.end_with_losses("timeout");
}

#[test]
fn a_slow_disk_under_drop_declares_its_losses() {
    let mut scene = Scene::new("drop", &["tacho-overflow=DROP"]);
    scene.disk.slow_writes(500).expect("a fault");
    scene.wait_for_status("Tacho_records_lost_dropped", 100);
    scene.running.wait_for_more(2000);
    let written = scene.status("Tacho_records_written");
    scene.wait_for_status("Tacho_records_written", written + 100);
    assert_eq!(scene.status("Tacho_blocked_count"), 0);
    scene.end_with_losses("dropped");
}

#[test]
fn it_is_uninstalled_while_a_write_takes_long() {
    let mut scene = Scene::new("uninstall", &[]);
    scene.disk.slow_writes(500).expect("a fault");
    let waited = scene.status("Tacho_blocked_count");
    scene.wait_for_status("Tacho_blocked_count", waited);
    scene.conn.query_drop("UNINSTALL SONAME 'tacho'").expect("uninstalling");
    // No session waits any longer for a writer that has ended.
    scene.running.wait_for_more(1000);
    let arena = scene.arena.path().to_owned();
    let Scene { conn, .. } = &mut scene;
    conn.query_drop("SELECT 'after'").expect("an answer");
    let (tally, audit, server, place) = scene.end();
    assert_eq!(audit.problems, [""; 0]);
    assert_eq!(audit.others.last().map(|line| &line["event"]), Some(&"stop".into()));
    let verdict = tacho_tests::verdict::Verdict::new(&tally, &audit.counts);
    assert!(verdict.duplicate.is_empty() && verdict.unknown.is_empty(), "{verdict}");
    assert!(verdict.missing.len() >= 500, "it was recorded after UNINSTALL: {verdict}");
    assert!(!arena.exists(), "the arena is left");
    server.assert_clean_log(ALLOWED);
    drop(server);
    fs::remove_dir_all(place).expect("removing");
}

#[test]
fn a_server_killed_during_a_slow_write_leaves_nothing_behind() {
    let mut scene = Scene::new("kill", &[]);
    for ms in [100, 500] {
        scene.disk.slow_writes(ms).expect("a fault");
        let waited = scene.status("Tacho_blocked_count");
        scene.wait_for_status("Tacho_blocked_count", waited);
        scene.server.kill9().expect("killing");
        scene.server.restart().expect("restarting");
        scene.conn = scene.server.connect().expect("a connection");
        scene.running.wait_for_more(100);
    }
    let (tally, audit, server, place) = scene.end();
    audit.assert_complete_but(&tally, 2 * THREADS as usize);
    assert_eq!(server.error_log().matches("tacho: recovered ").count(), 2);
    drop(server);
    fs::remove_dir_all(place).expect("removing");
}
