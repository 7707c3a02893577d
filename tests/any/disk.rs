//! Zone: outside. Log directories that cannot be written: full, failing, gone, replaced.
//!
//! Recording resumes automatically when the problem is over, every answered statement is in the log
//! once, and the error log reports it once.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use tacho_tests::arena::Arena;
use tacho_tests::audit::Audit;
use tacho_tests::client::{Conn, Queryable as _};
use tacho_tests::disk::{Disk, FAILED_WRITES};
use tacho_tests::recording::{Builder, Recording};
use tacho_tests::tagged::{self, Load, Running, Tally};
use tacho_tests::{log, recorded, wait};

const THREADS: u64 = 4;
const SMALL_DISK_BYTES: u64 = 96 << 20;
const EIO: i32 = 5;

/// Messages of a server that these tests accept.
const ALLOWED: &[&str] = &[
    "max_open_files",
    "Aborted connection",
    "its seal cannot be written",
    // MySQL ends the remaining sessions when it stops, and reports it.
    "Forcing close of thread",
];

/// The same one for the same name, so that a test can find it again.
fn directory(name: &str) -> std::path::PathBuf {
    tacho_tests::build_directory().join(format!("test/disk-{name}-{}", std::process::id()))
}

fn builder() -> Builder {
    Recording::builder().option("tacho-arena-bytes=1M")
}

/// A server that records to a disk of ours, and a load on it.
struct Scene {
    disk: Disk,
    server: Recording,
    conn: Conn,
    arena: Arena,
    running: Running,
    run: String,
}

impl Scene {
    fn on_small_disk(name: &str) -> Self {
        let disk = Disk::small(&directory(name), SMALL_DISK_BYTES).expect("a disk");
        Self::on(disk, name, &[])
    }

    fn on_plain_disk(name: &str) -> Self {
        let disk = Disk::plain(&directory(name)).expect("a disk");
        Self::on(disk, name, &[])
    }

    fn on(disk: Disk, name: &str, options: &[&str]) -> Self {
        Self::under(disk, name, options, |load| load)
    }

    fn under(disk: Disk, name: &str, options: &[&str], change: impl FnOnce(Load) -> Load) -> Self {
        let server = builder().options(options).on(&disk).start().expect("a server");
        let mut conn = server.connect().expect("a connection");
        tagged::prepare(&mut conn, THREADS).expect("preparing");
        let arena = Arena::of(&mut conn).expect("an arena");
        let run = name.replace('-', "");
        let load = Load { threads: THREADS, ..Load::new(server.socket(), &run) };
        let running = change(load).start().expect("a load");
        let scene = Self { disk, server, conn, arena, running, run };
        scene.running.wait_for_more(500);
        scene
    }

    /// A status variable that is a number.
    fn number(&mut self, name: &str) -> u64 {
        self.server.number(&mut self.conn, name)
    }

    /// A status variable.
    fn status(&mut self, name: &str) -> String {
        self.server.status_over(&mut self.conn, name)
    }

    /// A connection waits for a free chunk, or with a large statement until it is in the file.
    fn wait_until_one_waits(&self) {
        wait::until("a connection waits", || self.arena.waiters().expect("the arena") > 0);
    }

    /// No connection gets an answer.
    fn wait_until_all_wait(&self) {
        self.wait_until_one_waits();
        wait::until_steady("answers stop", || self.running.acknowledged_count());
    }

    /// Reads the error log: a statement would also have to wait while the arena is full.
    fn wait_for_write_error(&self) {
        wait::until("a write fails", || count_of(&self.server, "[ERROR] tacho: ") > 0);
    }

    /// Stops load and server, reads the log.
    fn end(self) -> (Tally, Audit, Recording, Disk) {
        let Self { disk, mut server, running, run, .. } = self;
        let tally = running.stop().expect("a tally");
        server.stop().expect("stopping");
        let audit = Audit::of(&disk.log_directory_here(), &run).expect("a readable log");
        (tally, audit, server, disk)
    }
}

fn count_of(server: &Recording, text: &str) -> usize {
    server.error_log().lines().filter(|line| line.contains(text)).count()
}

/// How many Prepares may be missing after a kill: MariaDB answers them before it reports them.
fn late_prepares(server: &Recording) -> usize {
    if server.product.is_mariadb() { THREADS as usize } else { 0 }
}

fn clean_up(disk: Disk, directory: &Path) {
    drop(disk);
    fs::remove_dir_all(directory).expect("removing");
    for ending in ["fault", "write_fault.so"] {
        let name = directory.file_name().expect("a name").to_string_lossy();
        for separator in [".", "-"] {
            let path = directory.with_file_name(format!("{name}{separator}{ending}"));
            if path.exists() {
                fs::remove_file(path).expect("removing");
            }
        }
    }
}

#[test]
fn a_full_disk_makes_statements_wait_and_loses_none() {
    let mut scene = Scene::on_small_disk("full-block");
    scene.disk.fill().expect("filling");
    scene.wait_until_all_wait();
    scene.disk.free().expect("freeing");
    scene.running.wait_for_more(500);

    let errors = scene.number("Tacho_write_errors");
    assert!(errors > 1, "{errors} failed writes are no retries");
    let error = scene.status("Tacho_last_error");
    assert!(error.contains("Free space"), "{error}");
    assert_eq!(scene.number("Tacho_records_lost"), 0);
    assert_ne!(scene.number("Tacho_blocked_count"), 0);
    assert_ne!(scene.number("Tacho_blocked_time_us"), 0);

    // Again: each time is reported, and only once.
    scene.disk.fill().expect("filling");
    scene.wait_until_all_wait();
    scene.disk.free().expect("freeing");
    scene.running.wait_for_more(500);
    let (tally, audit, server, disk) = scene.end();
    audit.assert_complete(&tally);
    assert_eq!(count_of(&server, "[ERROR] tacho: cannot append to"), 2);
    assert_eq!(count_of(&server, "can be written again"), 2);
    server.assert_clean_log(&[ALLOWED, FAILED_WRITES].concat());
    clean_up(disk, &directory("full-block"));
}

#[test]
fn a_nearly_full_disk_is_reported_in_advance() {
    const SHORT: &str = "[Warning] tacho: the file system of the audit log has";
    const ENOUGH: &str = "there is enough room for the audit log again";
    let disk = Disk::small(&directory("room"), SMALL_DISK_BYTES).expect("a disk");
    let builder = builder().option("tacho-disk-warn-percent=0");
    let mut server = builder.on(&disk).start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    let mut free_bytes = 0;
    wait::until("the disk was checked", || {
        free_bytes = server.number(&mut conn, "Tacho_disk_free_bytes");
        free_bytes > 0
    });
    assert!(!disk.is_small() || free_bytes < SMALL_DISK_BYTES, "{free_bytes}");
    assert_eq!(count_of(&server, SHORT), 0);
    // There is always something on it.
    server.set("tacho_disk_warn_percent = 100");
    wait::until("it is reported", || count_of(&server, SHORT) == 1);
    if disk.is_small() {
        server.set("tacho_disk_warn_percent = 10");
        disk.fill().expect("filling");
        wait::until("it is reported again", || count_of(&server, SHORT) == 2);
        disk.free().expect("freeing");
        wait::until("there is room", || count_of(&server, ENOUGH) == 1);
    }
    drop(conn);
    server.stop().expect("stopping");
    server.assert_clean_log(&[ALLOWED, FAILED_WRITES].concat());
    drop(server);
    clean_up(disk, &directory("room"));
}

#[test]
fn a_full_disk_under_drop_declares_its_losses() {
    let disk = Disk::small(&directory("full-drop"), SMALL_DISK_BYTES).expect("a disk");
    let mut scene = Scene::on(disk, "fulldrop", &["tacho-overflow=DROP"]);
    scene.disk.fill().expect("filling");
    // It continues, and so does the connection of the test.
    scene.running.wait_for_more(5_000);
    wait::until("records are dropped", || scene.number("Tacho_records_lost_dropped") > 100);
    scene.disk.free().expect("freeing");
    scene.running.wait_for_more(500);
    let (missing, declared) = finish_with_losses(scene, "dropped", "full-drop");
    assert!(missing > 0 && declared > 100, "{missing} missing, {declared} declared");
}

#[test]
fn a_full_disk_under_timeout_declares_its_losses() {
    let disk = Disk::small(&directory("full-timeout"), SMALL_DISK_BYTES).expect("a disk");
    let options = ["tacho-overflow=TIMEOUT", "tacho-overflow-timeout-ms=5"];
    let mut scene = Scene::on(disk, "fulltimeout", &options);
    scene.disk.fill().expect("filling");
    scene.running.wait_for_more(1_000);
    wait::until("records are given up", || scene.number("Tacho_records_lost_timeout") > 100);
    assert!(scene.number("Tacho_blocked_count") > 100);
    assert!(scene.number("Tacho_blocked_time_us") > 500_000);
    scene.disk.free().expect("freeing");
    scene.running.wait_for_more(500);
    let (missing, declared) = finish_with_losses(scene, "timeout", "full-timeout");
    assert!(missing > 0 && declared > 100, "{missing} missing, {declared} declared");
}

/// The counts of status, log and verdict must agree.
fn finish_with_losses(scene: Scene, cause: &str, name: &str) -> (u64, u64) {
    let Scene { disk, mut server, mut conn, running, run, .. } = scene;
    let tally = running.stop().expect("a tally");
    // The last connections end, and may be lost, too.
    let all = wait::until_steady("losses end", || server.number(&mut conn, "Tacho_records_lost"));
    let name_of_cause = format!("Tacho_records_lost_{cause}");
    let of_cause = server.number(&mut conn, &name_of_cause);
    assert_eq!(all, of_cause, "other causes");
    server.stop().expect("stopping");
    let audit = Audit::of(&disk.log_directory_here(), &run).expect("a readable log");
    let both = audit.assert_declared(&tally);
    assert_eq!(both.1, all, "declared in the log and counted in the status");
    assert_eq!(audit.lost_count(cause).expect("lost lines"), all);
    assert_eq!(count_of(&server, "[ERROR] tacho: cannot append to"), 1);
    server.assert_clean_log(&[ALLOWED, FAILED_WRITES, &["records were lost"]].concat());
    clean_up(disk, &directory(name));
    both
}

#[test]
fn an_operator_ends_the_waiting_from_outside() {
    let scene = Scene::on_small_disk("escape");
    scene.disk.fill().expect("filling");
    scene.wait_until_all_wait();
    scene.arena.set_overflow(2).expect("the arena");
    scene.running.wait_for_more(1_000);
    scene.disk.free().expect("freeing");
    scene.running.wait_for_more(500);
    let (missing, declared) = finish_with_losses(scene, "dropped", "escape");
    assert!(missing > 0 && declared > 0, "{missing} missing, {declared} declared");
}

#[test]
fn recording_waits_for_a_failing_device() {
    // Nothing, half, or all of a write arrives although it fails.
    for percent in [0, 50, 100] {
        let name = format!("device-{percent}");
        let mut scene = Scene::on_plain_disk(&name);
        scene.disk.fail_writes(EIO, percent).expect("a fault");
        scene.wait_for_write_error();
        scene.disk.mend_writes().expect("mending");
        scene.running.wait_for_more(500);
        scene.disk.fail_writes(EIO, percent).expect("a fault");
        scene.wait_until_one_waits();
        if percent == 0 {
            // Otherwise each retry writes a batch and frees its space.
            scene.wait_until_all_wait();
        }
        scene.disk.mend_writes().expect("mending");
        scene.running.wait_for_more(500);
        let error = scene.status("Tacho_last_error");
        assert!(error.contains("kernel log"), "{error}");
        let (tally, audit, server, disk) = scene.end();
        audit.assert_complete(&tally);
        // Where part of a write arrives, batches get through in turns with errors.
        if percent == 0 {
            assert_eq!(count_of(&server, "[ERROR] tacho: cannot append to"), 2);
            assert_eq!(count_of(&server, "can be written again"), 2);
        }
        let allowed = [ALLOWED, FAILED_WRITES, &["could not be written"]].concat();
        server.assert_clean_log(&allowed);
        clean_up(disk, &directory(&name));
    }
}

/// A device that fails and recovers all the time does not fill the error log.
#[test]
fn reports_of_an_intermittent_device_are_rate_limited() {
    const TIMES: usize = 15;
    // The number of immediate reports; then one per minute.
    const AT_ONCE: usize = 3;
    let disk = Disk::plain(&directory("flapping")).expect("a disk");
    // The arena must never be full: the connection of the query would also wait for a device that
    // is repaired only after its answer. Only few lines are written between two faults, so the
    // whole load must fit.
    let mut scene = Scene::under(disk, "flapping", &["tacho-arena-bytes=128M"], |load| Load {
        pause: Duration::from_millis(5),
        big_every: 0,
        ..load
    });
    let begin = Instant::now();
    for _ in 0..TIMES {
        let Scene { conn, disk, server, .. } = &mut scene;
        let mut number = |name: &str| server.number(conn, name);
        let errors = number("Tacho_write_errors");
        disk.fail_writes(EIO, 0).expect("a fault");
        wait::until("a write fails", || number("Tacho_write_errors") > errors);
        let written = number("Tacho_records_written");
        disk.mend_writes().expect("mending");
        wait::until("a write succeeds", || number("Tacho_records_written") > written);
    }
    let minutes = begin.elapsed().as_secs() as usize / 60;
    let (tally, audit, server, disk) = scene.end();
    audit.assert_complete(&tally);
    let told = count_of(&server, "[ERROR] tacho: cannot append to");
    assert!((AT_ONCE..=AT_ONCE + minutes).contains(&told), "{told} of {TIMES}, {minutes} minutes");
    assert_eq!(count_of(&server, "can be written again"), told);
    clean_up(disk, &directory("flapping"));
}

#[test]
fn a_deleted_file_is_written_again() {
    let mut scene = Scene::on_plain_disk("deleted");
    for times in 1..=3 {
        let files = log::files(&scene.disk.log_directory()).expect("the files");
        fs::remove_file(files.last().expect("a file")).expect("removing");
        scene.running.wait_for_more(500);
        // On a busy machine the load may be faster than the writer.
        wait::until("the file is there again", || {
            count_of(&scene.server, "the log file was deleted") == times
        });
    }
    let error = scene.status("Tacho_last_error");
    assert!(error.contains("Do not delete"), "{error}");
    let (tally, audit, server, disk) = scene.end();
    audit.assert_complete(&tally);
    assert_eq!(count_of(&server, "the log file was deleted"), 3);
    server.assert_clean_log(&[ALLOWED, &["the log file was deleted"]].concat());
    clean_up(disk, &directory("deleted"));
}

/// Removes a directory in which the server may make a file at any time.
fn remove_directory(path: &Path) {
    while let Err(error) = fs::remove_dir_all(path) {
        assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty, "{error}");
    }
}

#[test]
fn a_removed_directory_is_made_again() {
    let scene = Scene::on_plain_disk("removed");
    remove_directory(&scene.disk.log_directory());
    scene.running.wait_for_more(500);
    let (tally, audit, server, disk) = scene.end();
    audit.assert_complete(&tally);
    // More than once, or with an error that passes, if the server was in the middle of it.
    assert!(count_of(&server, "the log file was deleted") > 0);
    let passing = ["the log file was deleted", "tacho: cannot"];
    server.assert_clean_log(&[ALLOWED, &passing].concat());
    clean_up(disk, &directory("removed"));
}

#[test]
fn a_renamed_file_keeps_its_lines_and_a_new_one_continues() {
    let scene = Scene::on_plain_disk("renamed");
    let kept = directory("renamed").join("kept");
    fs::create_dir(&kept).expect("a directory");
    let file = log::files(&scene.disk.log_directory()).expect("the files").remove(0);
    fs::rename(&file, kept.join(file.file_name().expect("a name"))).expect("renaming");
    scene.running.wait_for_more(500);
    // Later files sort after it: concatenated, they are the whole log.
    let Scene { disk, mut server, running, run, .. } = scene;
    let tally = running.stop().expect("a tally");
    server.stop().expect("stopping");
    for path in log::files(&disk.log_directory()).expect("the files") {
        fs::copy(&path, kept.join(path.file_name().expect("a name"))).expect("copying");
    }
    Audit::of(&kept, &run).expect("a readable log").assert_complete(&tally);
    assert_eq!(count_of(&server, "was renamed by another process"), 1);
    server.assert_clean_log(&[ALLOWED, &["was renamed by another process"]].concat());
    clean_up(disk, &directory("renamed"));
}

#[test]
fn recording_waits_while_the_directory_is_replaced() {
    let mut scene = Scene::on_plain_disk("replaced");
    let path = scene.disk.log_directory();
    remove_directory(&path);
    // Until the load has seen it: the writer makes a missing directory again.
    loop {
        match fs::write(&path, "in the way\n") {
            Ok(()) => break,
            Err(_) => drop(fs::remove_dir_all(&path)),
        }
    }
    scene.wait_for_write_error();
    scene.wait_until_all_wait();
    fs::remove_file(&path).expect("removing");
    scene.running.wait_for_more(500);
    assert!(!scene.status("Tacho_last_error").is_empty());
    let (tally, audit, server, disk) = scene.end();
    audit.assert_complete(&tally);
    assert_eq!(count_of(&server, "[ERROR] tacho: cannot"), 1);
    assert_eq!(count_of(&server, "can be written again"), 1);
    clean_up(disk, &directory("replaced"));
}

#[test]
fn recording_waits_for_the_target_of_a_dangling_link() {
    let scene = Scene::on_plain_disk("dangling");
    let path = scene.disk.log_directory();
    let elsewhere = directory("dangling").join("elsewhere");
    // The directory is moved away, and a link shows where a file system was mounted once.
    fs::rename(&path, &elsewhere).expect("renaming");
    if let Err(error) = symlink("/nonexistent/tacho", &path) {
        // The writer was faster and made a new one: nothing to wait for in this history.
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    } else {
        fs::remove_file(log::files(&elsewhere).expect("the files").last().expect("a file"))
            .expect("removing");
        scene.wait_for_write_error();
        fs::remove_file(&path).expect("removing");
        fs::rename(&elsewhere, &path).expect("renaming");
    }
    scene.running.wait_for_more(500);
    let Scene { disk, mut server, running, run, .. } = scene;
    let tally = running.stop().expect("a tally");
    server.stop().expect("stopping");
    let mut tags = Audit::of(&disk.log_directory(), &run).expect("a readable log").counts;
    if elsewhere.exists() {
        tags.extend(Audit::of(&elsewhere, &run).expect("a readable log").counts);
    }
    let verdict = tacho_tests::verdict::Verdict::new(&tally, &tags);
    assert!(verdict.is_good(), "{verdict}");
    clean_up(disk, &directory("dangling"));
}

#[test]
fn a_server_killed_while_the_disk_is_full_leaves_nothing_behind() {
    let mut scene = Scene::on_small_disk("full-kill");
    scene.disk.fill().expect("filling");
    scene.wait_until_all_wait();
    scene.server.kill9().expect("killing");
    scene.disk.free().expect("freeing");
    scene.server.restart().expect("restarting");
    scene.running.wait_for_more(500);
    let (tally, audit, server, disk) = scene.end();
    audit.assert_complete_but(&tally, late_prepares(&server));
    assert_eq!(count_of(&server, "tacho: recovered "), 1);
    assert_no_arena(&disk);
    clean_up(disk, &directory("full-kill"));
}

#[test]
fn servers_killed_one_after_the_other_while_the_disk_is_full_leave_nothing_behind() {
    let place = directory("full-kills");
    let disk = Disk::small(&place, SMALL_DISK_BYTES).expect("a disk");
    let mut server = builder().on(&disk).start().expect("a server");
    tagged::prepare(&mut server.connect().expect("a connection"), THREADS).expect("preparing");
    let mut tallies = Vec::new();
    // A new load each time: one that continued would fill the arena of a server that starts on a
    // full disk, and the harness could not connect to check whether it is up.
    let mut run_until_full = |server: &mut Recording, disk: &Disk| {
        let arena = Arena::of(&mut server.connect().expect("a connection")).expect("an arena");
        let run = format!("kills{}", tallies.len());
        let running =
            Load { threads: THREADS, ..Load::new(server.socket(), &run) }.start().expect("a load");
        running.wait_for_more(100);
        disk.fill().expect("filling");
        wait::until("a connection waits", || arena.waiters().expect("the arena") > 0);
        wait::until_steady("answers stop", || running.acknowledged_count());
        server.kill9().expect("killing");
        tallies.push((run, running.stop().expect("a tally")));
    };
    for _ in 0..2 {
        run_until_full(&mut server, &disk);
        // It starts although the disk is full: the lines of the dead server wait, new records go
        // into its own arena.
        server.restart().expect("restarting");
        run_until_full(&mut server, &disk);
        server.restart().expect("restarting");
        // This one lives long enough to write the records of both.
        disk.free().expect("freeing");
    }
    server.stop().expect("stopping");
    for (run, tally) in &tallies {
        let audit = Audit::of(&disk.log_directory_here(), run).expect("a readable log");
        audit.assert_complete_but(tally, late_prepares(&server));
    }
    assert_no_arena(&disk);
    drop(server);
    clean_up(disk, &place);
}

/// The thread that changes a setting records it in the arena, in order: a kill immediately after it
/// loses nothing.
#[test]
fn settings_that_were_changed_before_a_kill_are_in_the_log() {
    let place = directory("config");
    let disk = Disk::plain(&place).expect("a disk");
    let mut server = builder().on(&disk).start().expect("a server");
    disk.fail_writes(EIO, 100).expect("failing");
    let mut conn = server.connect().expect("a connection");
    // Larger than a chunk.
    let rules: Vec<String> =
        (0..400).map(|n| format!(r#"{{"user": "other{n}", "action": "skip"}}"#)).collect();
    let filter = format!(r#"{{"rules": [{}]}}"#, rules.join(", "));
    let settings = [
        ("tacho_flush_bytes", "65536".to_owned()),
        ("tacho_filter", format!("'{filter}'")),
        ("tacho_filter", "''".to_owned()),
    ];
    let mut expected = vec!["SELECT 'first'".to_owned()];
    conn.query_drop("SELECT 'first'").expect("an answer");
    for (number, (variable, value)) in settings.iter().enumerate() {
        let set = server.product.named(&format!("SET GLOBAL {variable} = {value}"));
        let then = format!("SELECT 'then {number}'");
        for sql in [&set, &then] {
            conn.query_drop(sql).expect("an answer");
        }
        let new = value.trim_matches('\'');
        let old = if number == 2 { &*filter } else { "" };
        let variable = server.product.named(variable);
        expected.extend([format!("{variable} {old} {new} root"), set, then]);
    }
    server.kill9().expect("killing");
    disk.mend_writes().expect("mending");
    server.restart().expect("restarting");
    server.stop().expect("stopping");
    let lines = recorded::read(&disk.log_directory_here()).expect("a readable log");
    let mine = conn_of(&lines, "SELECT 'first'");
    let told = lines.iter().filter(|line| recorded::number(line, "conn") == Some(mine));
    let told = told.filter_map(|line| match recorded::text(line, "event")? {
        "config" => {
            let text = |field| recorded::text(line, field).unwrap_or_default();
            let variable = text("variable");
            // Its default is irrelevant here.
            let old = if variable.ends_with("filter") { text("old_value") } else { "" };
            Some(format!("{variable} {old} {} {}", text("new_value"), text("priv_user")))
        }
        "statement" => recorded::text(line, "sql").map(str::to_owned),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert_no_arena(&disk);
    drop(server);
    clean_up(disk, &place);
}

/// Connection of the statement.
fn conn_of(lines: &[recorded::Line], sql: &str) -> u64 {
    let is_it = |line: &&recorded::Line| recorded::text(line, "sql") == Some(sql);
    let line = lines.iter().find(is_it).expect("the statement");
    recorded::number(line, "conn").expect("a connection")
}

#[test]
fn losses_are_declared_also_by_the_next_server() {
    let disk = Disk::small(&directory("lost-kill"), SMALL_DISK_BYTES).expect("a disk");
    let mut scene = Scene::on(disk, "lostkill", &["tacho-overflow=DROP"]);
    scene.disk.fill().expect("filling");
    wait::until("records are dropped", || scene.number("Tacho_records_lost_dropped") > 100);
    scene.server.kill9().expect("killing");
    scene.disk.free().expect("freeing");
    scene.server.restart().expect("restarting");
    scene.running.wait_for_more(500);
    let (tally, audit, _server, disk) = scene.end();
    let (missing, declared) = audit.assert_declared(&tally);
    assert!(missing > 0 && declared > 100, "{missing} missing, {declared} declared");
    assert_no_arena(&disk);
    clean_up(disk, &directory("lost-kill"));
}

#[test]
fn a_server_stops_although_the_log_cannot_be_written() {
    let mut scene = Scene::on_small_disk("full-stop");
    scene.disk.fill().expect("filling");
    scene.wait_until_all_wait();
    scene.server.stop().expect("stopping");
    assert_eq!(count_of(&scene.server, "the audit log could not be completed"), 1);
    scene.disk.free().expect("freeing");
    scene.server.restart().expect("restarting");
    scene.running.wait_for_more(500);
    let (tally, audit, server, disk) = scene.end();
    // Only records that were given up at the end are lost: nothing that was answered. For the
    // sessions that it has killed, MySQL answers that their statements were not executed.
    let (missing, _) = audit.assert_declared(&tally);
    assert!(missing == 0 || (!server.product.is_mariadb() && missing <= THREADS), "{missing}");
    assert_eq!(count_of(&server, "tacho: recovered "), 1);
    assert_no_arena(&disk);
    clean_up(disk, &directory("full-stop"));
}

fn assert_no_arena(disk: &Disk) {
    let mut left = Vec::new();
    for entry in fs::read_dir("/dev/shm").expect("arenas") {
        let path = entry.expect("an entry").path();
        let is_arena = path.extension().is_some_and(|ending| ending == "arena");
        // Its header names the log directory.
        if is_arena && let Ok(bytes) = fs::read(&path) {
            let name = disk.log_directory();
            let name = name.as_os_str().as_encoded_bytes();
            if bytes[..4096.min(bytes.len())].windows(name.len()).any(|part| part == name) {
                left.push(path);
            }
        }
    }
    assert!(left.is_empty(), "{left:?}");
}
