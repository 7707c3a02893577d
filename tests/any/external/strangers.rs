//! Processes that connect to the server's socket, or hold its log, and are not proper recorders.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tacho_logdir::{LogFiles, Options, RealFs};
use tacho_recorder::arena_file::name_prefix;
use tacho_recorder::external::channel::{Channel, Received, wait};
use tacho_recorder::external::message::{Attach, Figures, PROTOCOL, ToRecorder, ToServer};
use tacho_recorder::external::socket;
use tacho_tests::client::{self, Queryable as _};
use tacho_tests::wait;

use super::{GONE, RecorderProcess, finish, scene, set, status, writer};
use crate::scene::{Scene, start_load};

fn knock(scene: &Scene) -> UnixStream {
    let log = scene.log_directory().canonicalize().expect("a directory");
    let mut found = None;
    wait::until("the server listens", || {
        found = socket::connect(&scene.arenas, &log).ok();
        found.is_some()
    });
    found.expect("connected")
}

/// Sends the messages of a recorder, and gets the log.
fn get_the_log(scene: &Scene) -> (Channel, Box<Attach>) {
    let mut zone = None;
    loop {
        let mut channel = Channel::new(knock(scene)).expect("a channel");
        let hello = ToServer::Hello { protocol: PROTOCOL.to_owned(), zone: zone.clone() };
        channel.send(&hello).expect("it is there");
        match answer(&mut channel) {
            ToRecorder::Attach(attach) => return (channel, attach),
            ToRecorder::Zone(theirs) => zone = theirs,
            other => panic!("{other:?}"),
        }
    }
}

fn answer(channel: &mut Channel) -> ToRecorder {
    let since = Instant::now();
    loop {
        match channel.receive().expect("a message") {
            Received::Message(message) => return message,
            Received::Nothing => {
                assert!(since.elapsed() < wait::DEADLINE, "no answer");
                wait(&[(channel.descriptor(), false)], 100).expect("waits");
            }
            Received::End => panic!("the server has hung up"),
        }
    }
}

fn lines_written(scene: &Scene) -> u64 {
    status(scene, "Tacho_records_written").parse().expect("a number")
}

#[test]
fn one_that_never_takes_the_log_is_left_alone() {
    let scene = scene(&[]);
    let running = start_load(&scene, "hesitates");
    let (channel, attach) = get_the_log(&scene);
    assert_eq!(Some(attach.pid), scene.server.pid());
    // It was offered the log, and has not got it.
    assert_eq!(writer(&scene), "EMBEDDED");
    let told = "it has not taken the log";
    wait::until("it is left alone", || scene.server.error_log().contains(told));
    running.wait_for_more(50);
    assert_eq!(writer(&scene), "EMBEDDED");
    drop(channel);
    let recorder = RecorderProcess::start(&scene);
    recorder.wait_until_it_writes(&scene);
    let scene = finish(scene, running, "hesitates", Some(recorder));
    scene.server.assert_clean_log(GONE);
}

/// It has the log, reports its state, and writes nothing; then it reports that it has stopped,
/// unasked.
#[test]
fn a_recorder_that_talks_but_does_not_write_is_reported() {
    let scene = scene(&[]);
    let running = start_load(&scene, "speaks");
    running.wait_for_more(50);
    let before = lines_written(&scene);
    let (mut channel, _) = get_the_log(&scene);
    let log = scene.log_directory();
    let files = LogFiles::open(RealFs, &log, Options { rotate_bytes: 0 }).expect("it is ours").0;
    for message in [ToServer::Opened, ToServer::Attached] {
        channel.send(&message).expect("it is there");
    }
    let hangs = format!("process {}, does not answer", std::process::id());
    let mut figures = Figures::default();
    wait::until("the error log says so", || {
        figures.bytes_written += 1;
        channel.send(&ToServer::Figures(Box::new(figures.clone()))).expect("it is there");
        std::thread::sleep(Duration::from_millis(100));
        scene.server.error_log().contains(&hangs)
    });
    channel.send(&ToServer::Stopped { is_drained: true }).expect("it is there");
    drop(files);
    wait::until("the server writes", || writer(&scene) == "EMBEDDED");
    running.wait_for_more(50);
    wait::until("its figures increase", || lines_written(&scene) > before);
    let scene = finish(scene, running, "speaks", None);
    assert!(scene.server.error_log().contains("it stopped without a request"));
    scene.server.assert_clean_log(&[GONE, &["does not answer"]].concat());
}

#[test]
fn a_silent_connection_does_not_block_a_recorder() {
    let scene = scene(&[]);
    let silent = knock(&scene);
    let recorder = RecorderProcess::start(&scene);
    recorder.wait_until_it_writes(&scene);
    drop(silent);
    recorder.end();
    wait::until("the server writes", || writer(&scene) == "EMBEDDED");
    let mut scene = scene;
    scene.server.stop().expect("stopping");
    scene.server.assert_clean_log(&[]);
}

/// Every user may create files in the arena's directory, if that is /dev/shm.
#[test]
fn files_of_other_users_do_not_block_the_recorder() {
    let scene = scene(&["tacho-writer=EMBEDDED"]);
    let elsewhere = scene.arenas.join("elsewhere");
    let listener = UnixListener::bind(&elsewhere).expect("binds");
    listener.set_nonblocking(true).expect("a flag");
    let log = scene.log_directory().canonicalize().expect("a directory");
    let taken = |name: &str| scene.arenas.join(format!("{}{name}.sock", name_prefix(&log)));
    symlink(&elsewhere, taken("writer")).expect("links");
    symlink(&elsewhere, taken("9")).expect("links");
    fs::create_dir(taken("8")).expect("makes");
    let recorder = RecorderProcess::start(&scene);
    set(&scene, "tacho_writer = 'EXTERNAL'");
    recorder.wait_until_it_writes(&scene);
    assert!(listener.accept().is_err(), "no connection");
    recorder.end();
    let mut scene = scene;
    wait::until("the server writes", || writer(&scene) == "EMBEDDED");
    scene.server.stop().expect("stopping");
    scene.server.assert_clean_log(&[]);
}

/// A record that is incomplete when the server dies never becomes complete: the recorder does not
/// wait for it, and the next start, although it only waits for seconds, gets the log.
#[test]
fn a_large_text_does_not_keep_the_log_from_the_next_start() {
    let mut scene = scene(&["tacho-arena-bytes=1M", "max-allowed-packet=64M"]);
    let recorder = RecorderProcess::start(&scene);
    for _ in 0..3 {
        recorder.wait_until_it_writes(&scene);
        let socket = scene.server.socket().to_owned();
        let is_begun = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut conn = client::connect(&socket, "root", "").expect("a connection");
                let text = format!("DO LENGTH('{}')", "x".repeat(16 << 20));
                is_begun.store(true, Ordering::Relaxed);
                while conn.query_drop(&text).is_ok() {}
            });
            wait::until("it has begun", || is_begun.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(scene.below(500)));
            scene.server.kill9().expect("killing");
        });
        scene.server.restart().expect("restarting");
        // Whichever process has recovered: this server records.
        let mut conn = scene.server.connect().expect("a connection");
        conn.query_drop("SELECT 'recorded'").expect("an answer");
    }
    recorder.wait_until_it_writes(&scene);
    recorder.end();
    scene.server.stop().expect("stopping");
    assert!(!scene.server.error_log().contains("is writing this log directory"));
}

/// The message about it in the error log.
const WAITS: &str = "It recovers what a dead server left; this start waits";

/// With `tacho_writer = EMBEDDED`, too, a start waits as long as a dead server's arena is being recovered.
#[test]
fn a_start_waits_for_a_recovery_that_gets_on() {
    let mut scene = scene(&["tacho-writer=EMBEDDED"]);
    scene.server.kill9().expect("killing");
    let log = scene.log_directory();
    let (mut files, _) = LogFiles::open(RealFs, &log, Options { rotate_bytes: 0 }).expect("opens");
    files.announce_recovery();
    let error_log = scene.server.directory().join("error.log");
    let is_started = AtomicBool::new(false);
    let held = std::thread::scope(|scope| {
        let holder = scope.spawn(|| {
            let mut other = File::create(log.join("progress")).expect("a file");
            let since = Instant::now();
            // Longer than the wait for any other holder, and until it has waited for a while: some
            // servers take seconds to get there.
            let waits = || fs::read_to_string(&error_log).is_ok_and(|log| log.contains(WAITS));
            while since.elapsed() < Duration::from_secs(8) || !waits() {
                assert!(!is_started.load(Ordering::Relaxed), "it did not wait");
                assert!(since.elapsed() < wait::DEADLINE, "it does not say that it waits");
                // The progress that a start accepts.
                other.write_all(b"x").expect("writes");
                std::thread::sleep(Duration::from_millis(200));
            }
            files.close().expect("closes");
        });
        scene.server.restart().expect("restarting");
        is_started.store(true, Ordering::Relaxed);
        holder.join()
    });
    held.expect("it waited");
    fs::remove_file(log.join("progress")).expect("removes");
    assert_eq!(writer(&scene), "EMBEDDED", "it records");
    let said = scene.server.error_log();
    assert!(said.contains(WAITS), "{said}");
    scene.server.stop().expect("stopping");
    let starts = super::others(&log).iter().filter(|(event, _)| event == "start").count();
    assert_eq!(starts, 2);
}

/// The recorder reports what it does with the log of a dead server.
#[test]
fn a_recorder_reports_that_it_recovers() {
    let mut scene = scene(&["tacho-flush-interval-ms=60000", "tacho-flush-bytes=16777216"]);
    let running = start_load(&scene, "tells");
    let recorder = RecorderProcess::start(&scene);
    recorder.wait_until_it_writes(&scene);
    scene.kill_under_load(&running, 100);
    wait::until("the arena is gone without a new server", || scene.arena_files().is_empty());
    let note = fs::read_to_string(scene.log_directory().join(".lock")).expect("the lock's file");
    assert_eq!(note, format!("{}\nrecovers\n", recorder.child.id()));
    scene.server.restart().expect("restarting");
    recorder.wait_until_it_writes(&scene);
    finish(scene, running, "tells", Some(recorder));
}
