//! Zone: outside. The writer in a separate process: the log is handed over to it and back under
//! load, and whichever of the two processes is killed, nothing is missing and nothing doubled.
//! `TACHO_SERVER` selects the server; `scripts/test-release.sh` runs the tests with MySQL.

mod filters;
mod large;
mod retention;
mod strangers;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::scene::{Scene, start_load};
use rustix::process::{Pid, Signal, kill_process};
use tacho_chain::key::VerifierKey;
use tacho_chain::verify::LogState;
use tacho_tests::client::{self, Queryable as _};
use tacho_tests::product::Product;
use tacho_tests::tagged::Running;
use tacho_tests::{log, program, sealed, wait};

/// `tacho recorder` of a scene.
struct RecorderProcess {
    child: Child,
    said: PathBuf,
}

impl RecorderProcess {
    fn start(scene: &Scene) -> RecorderProcess {
        let said = scene.arenas.join("recorder.log");
        let stderr = File::options().create(true).append(true).open(&said).expect("a file");
        let child = Command::new(program("tacho"))
            .args(["recorder"])
            .arg(scene.log_directory())
            .arg("--arena-directory")
            .arg(&scene.arenas)
            // Not that of the server: the recorder must restart with the server's one.
            .env("TZ", "Asia/Tokyo")
            .stdin(Stdio::null())
            .stderr(stderr)
            .spawn()
            .expect("the command is built");
        RecorderProcess { child, said }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process id");
        kill_process(pid, signal).expect("it lives");
    }

    fn kill9(mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it is ours");
    }

    /// In the orderly way.
    fn end(mut self) {
        self.signal(Signal::TERM);
        let status = self.child.wait().expect("it is ours");
        assert!(status.success(), "{status}: {}", self.said());
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).expect("its messages")
    }

    /// Waits until the server reports this writer.
    fn wait_until_it_writes(&self, scene: &Scene) {
        let mine = format!("EXTERNAL {}", self.child.id());
        wait::until("the recorder writes", || writer(scene) == mine);
    }
}

impl Drop for RecorderProcess {
    fn drop(&mut self) {
        // Most have already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn status(scene: &Scene, name: &str) -> String {
    scene.server.status(name)
}

fn writer(scene: &Scene) -> String {
    status(scene, "Tacho_writer")
}

fn set(scene: &Scene, setting: &str) {
    scene.server.set(setting);
}

fn scene(options: &[&str]) -> Scene {
    let own = ["tacho-writer=EXTERNAL", "tacho-checkpoint-interval-s=1"];
    Scene::new(&[&own, options].concat())
}

/// Each event that is not of a statement or session, with its `seq` and text.
fn others(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    log::read(directory, |line, text| {
        if matches!(&*line.event, "start" | "stop" | "config") {
            found.push((line.event.clone().into_owned(), text.to_owned()));
        }
    })
    .expect("a readable log");
    found
}

/// The load, the server and the recorder end, in this order; then everything is looked at.
fn finish(
    mut scene: Scene,
    running: Running,
    run: &str,
    recorder: Option<RecorderProcess>,
) -> Scene {
    let tally = running.stop().expect("a tally");
    let summary = scene.finish(&tally, run);
    assert!(summary.acknowledged > 0);
    if let Some(recorder) = recorder {
        recorder.end();
    }
    let directory = scene.log_directory();
    log::read(&directory, |line, text| assert!(!line.ts.ends_with("+09:00"), "{text}"))
        .expect("a readable log");
    let report = sealed::check(&directory, &key_in_log(&directory));
    // Lines that a kill has left without a frame are sealed later, and marked.
    assert!(matches!(report.state(), LogState::Ok | LogState::Recovered), "{report:?}");
    let stops = others(&directory).iter().filter(|(event, _)| event == "stop").count();
    assert_eq!(stops, 1, "the last server stopped once, the others were killed");
    scene
}

fn key_in_log(directory: &Path) -> VerifierKey {
    let first = others(directory).into_iter().next().expect("a start line").1;
    let line: serde_json::Value = serde_json::from_str(&first).expect("JSON");
    line["signing_key"].as_str().expect("a key").parse().expect("a public key")
}

const GONE: &[&str] = &["has gone", "Aborted connection", "not sealed"];

#[test]
fn the_log_goes_to_the_recorder_and_back_under_load() {
    let scene = scene(&[]);
    assert_eq!(writer(&scene), "EMBEDDED", "there is no recorder");
    let running = start_load(&scene, "back");
    for _ in 0..5 {
        let recorder = RecorderProcess::start(&scene);
        recorder.wait_until_it_writes(&scene);
        running.wait_for_more(100);
        recorder.end();
        wait::until("the server writes", || writer(&scene) == "EMBEDDED");
        running.wait_for_more(100);
    }
    let recorder = RecorderProcess::start(&scene);
    for _ in 0..5 {
        recorder.wait_until_it_writes(&scene);
        running.wait_for_more(100);
        set(&scene, "tacho_writer = 'EMBEDDED'");
        wait::until("the server writes", || writer(&scene) == "EMBEDDED");
        running.wait_for_more(100);
        set(&scene, "tacho_writer = 'EXTERNAL'");
    }
    recorder.wait_until_it_writes(&scene);
    // The figures are those of all writers together.
    let lines: u64 = status(&scene, "Tacho_records_written").parse().expect("a number");
    assert!(lines > 500, "{lines}");
    let scene = finish(scene, running, "back", Some(recorder));
    scene.server.assert_clean_log(&["Aborted connection"]);
    assert_eq!(scene.server.error_log().matches("is written by the recorder").count(), 11);
    assert_eq!(scene.server.error_log().matches("writes the audit log itself again").count(), 10);
}

#[test]
fn a_recorder_is_killed_under_load() {
    let mut scene = scene(&["tacho-rotate-bytes=262144"]);
    let running = start_load(&scene, "killed");
    for _ in 0..8 {
        let recorder = RecorderProcess::start(&scene);
        recorder.wait_until_it_writes(&scene);
        running.wait_for_more(100);
        std::thread::sleep(std::time::Duration::from_millis(scene.below(200)));
        recorder.kill9();
        wait::until("the server writes", || writer(&scene) == "EMBEDDED");
        running.wait_for_more(50);
    }
    // One that waits takes over from one that dies.
    let first = RecorderProcess::start(&scene);
    first.wait_until_it_writes(&scene);
    let second = RecorderProcess::start(&scene);
    first.kill9();
    second.wait_until_it_writes(&scene);
    running.wait_for_more(100);
    let scene = finish(scene, running, "killed", Some(second));
    scene.server.assert_clean_log(GONE);
}

#[test]
fn a_recorder_is_killed_when_nearly_everything_is_in_the_arena() {
    let late =
        ["tacho-arena-bytes=1M", "tacho-flush-interval-ms=60000", "tacho-flush-bytes=16777216"];
    let pool: &[&str] = match Product::wanted().expect("a server").is_mariadb() {
        true => &["thread-handling=pool-of-threads", "thread-pool-size=2"],
        false => &[],
    };
    let scene = scene(&[&late, pool].concat());
    let running = start_load(&scene, "arena");
    for _ in 0..4 {
        let recorder = RecorderProcess::start(&scene);
        recorder.wait_until_it_writes(&scene);
        running.wait_for_more(100);
        recorder.kill9();
        wait::until("the server writes", || writer(&scene) == "EMBEDDED");
    }
    let scene = finish(scene, running, "arena", None);
    scene.server.assert_clean_log(GONE);
}

/// Each statement waits for its line, and only the next writer releases it.
#[test]
fn a_recorder_is_killed_while_statements_wait_for_the_device() {
    let scene = scene(&["tacho-durability=SYNC"]);
    let running = start_load(&scene, "sync");
    for _ in 0..4 {
        let recorder = RecorderProcess::start(&scene);
        recorder.wait_until_it_writes(&scene);
        running.wait_for_more(50);
        recorder.kill9();
        running.wait_for_more(50);
    }
    let scene = finish(scene, running, "sync", None);
    assert!(scene.server.error_log().contains("has gone"));
    scene.server.assert_clean_log(GONE);
}

/// It did not write for that server, and yet.
#[test]
fn the_recorder_writes_the_records_of_a_killed_embedded_writer() {
    let mut scene = scene(&[
        "tacho-writer=EMBEDDED",
        "tacho-flush-interval-ms=60000",
        "tacho-flush-bytes=16777216",
    ]);
    let running = start_load(&scene, "adopted");
    let recorder = RecorderProcess::start(&scene);
    for _ in 0..2 {
        scene.kill_under_load(&running, 100);
        wait::until("the arena is gone without a new server", || scene.arena_files().is_empty());
        scene.server.restart().expect("restarting");
        assert_eq!(writer(&scene), "EMBEDDED");
    }
    running.wait_for_more(50);
    let tally = running.stop().expect("a tally");
    scene.finish(&tally, "adopted");
    recorder.end();
}

#[test]
fn the_recorder_writes_the_records_of_a_killed_server() {
    let mut scene = scene(&["tacho-flush-interval-ms=60000", "tacho-flush-bytes=16777216"]);
    let running = start_load(&scene, "server");
    let recorder = RecorderProcess::start(&scene);
    for round in 0..3 {
        recorder.wait_until_it_writes(&scene);
        let socket = scene.server.socket().to_owned();
        let text = format!("SELECT GET_LOCK('asleep {round}', 0), SLEEP(600)");
        let sql = text.clone();
        let asleep = std::thread::spawn(move || {
            let mut conn = client::connect(&socket, "root", "").expect("a connection");
            // It has no answer.
            conn.query_drop(sql).expect_err("killed");
        });
        let mut conn = scene.server.connect().expect("a connection");
        // The list of processes would show the load's texts, too, and MySQL fails where one of them
        // has an emoji.
        wait::until("a statement runs", || {
            let query = format!("SELECT IS_USED_LOCK('asleep {round}') IS NOT NULL");
            conn.query_first::<bool, _>(query).expect("an answer") == Some(true)
        });
        drop(conn);
        scene.kill_under_load(&running, 100);
        asleep.join().expect("it was killed");
        wait::until("the arena is gone without a new server", || scene.arena_files().is_empty());
        let mut interrupted = 0;
        log::read(&scene.log_directory(), |line, _| {
            let is_it = line.sql.as_deref() == Some(text.as_str());
            let is_interrupted = line.outcome.as_deref() == Some("interrupted");
            interrupted += u64::from(is_it && is_interrupted);
        })
        .expect("a readable log");
        assert_eq!(interrupted, 1, "{}", recorder.said());
        scene.server.restart().expect("restarting");
    }
    recorder.wait_until_it_writes(&scene);
    running.wait_for_more(100);
    finish(scene, running, "server", Some(recorder));
}

fn kill_both(scene: &mut Scene, recorder: RecorderProcess, recorder_first: bool) {
    if recorder_first {
        recorder.kill9();
        scene.server.kill9().expect("killing");
    } else {
        scene.server.kill9().expect("killing");
        recorder.kill9();
    }
}

#[test]
fn both_are_killed() {
    let mut scene = scene(&["tacho-rotate-bytes=262144"]);
    let running = start_load(&scene, "both");
    for round in 0..4 {
        let recorder = RecorderProcess::start(&scene);
        recorder.wait_until_it_writes(&scene);
        running.wait_for_more(100);
        kill_both(&mut scene, recorder, round % 2 == 0);
        scene.server.restart().expect("restarting");
    }
    running.wait_for_more(100);
    finish(scene, running, "both", None);
}

#[test]
fn the_order_of_starts_does_not_matter() {
    // The disk of the machine may be nearly full.
    let mut scene = scene(&["tacho-disk-warn-percent=0"]);
    scene.server.stop().expect("stopping");
    let recorder = RecorderProcess::start(&scene);
    scene.server.restart().expect("restarting");
    recorder.wait_until_it_writes(&scene);
    // The recorder stays when the server ends; there is nothing to recover.
    scene.server.restart().expect("restarting");
    recorder.wait_until_it_writes(&scene);
    scene.server.stop().expect("stopping");
    assert_eq!(scene.arena_files(), Vec::<PathBuf>::new());
    let said = recorder.said();
    recorder.end();
    assert!(!said.contains("error:") && !said.contains("warning:"), "{said}");
    let events: Vec<String> =
        others(&scene.log_directory()).into_iter().map(|(event, _)| event).collect();
    assert_eq!(events, ["start", "stop", "start", "stop", "start", "stop"]);
    scene.server.assert_clean_log(&[]);
}

#[test]
fn the_plugin_is_removed_under_load_while_the_recorder_writes() {
    let scene = scene(&[]);
    let running = start_load(&scene, "uninstall");
    let recorder = RecorderProcess::start(&scene);
    recorder.wait_until_it_writes(&scene);
    running.wait_for_more(100);
    let mut conn = scene.server.connect().expect("a connection");
    let arenas = scene.arena_files();
    assert_eq!(arenas.len(), 1);
    conn.query_drop(scene.server.product.uninstall).expect("uninstalling");
    drop(conn);
    running.wait_for_more(100);
    let tally = running.stop().expect("a tally");
    // The last session that holds it releases it.
    wait::until("the arena is removed", || scene.arena_files().is_empty());
    wait::until("the plugin can be installed", || {
        let mut conn = scene.server.connect().expect("a connection");
        // While MariaDB still has the one before, INSTALL SONAME answers, and installs nothing.
        conn.query_drop(scene.server.product.install).is_ok()
            && !scene.server.status_over(&mut conn, "Tacho_writer").is_empty()
    });
    set(&scene, "tacho_writer = 'EXTERNAL'");
    recorder.wait_until_it_writes(&scene);
    let directory = scene.log_directory();
    let events: Vec<String> = others(&directory).into_iter().map(|(event, _)| event).collect();
    assert_eq!(events.iter().filter(|event| *event == "stop").count(), 1, "{events:?}");
    assert!(tally.error_count > 0 || !tally.acknowledged.is_empty());
    recorder.end();
    wait::until("the server writes", || writer(&scene) == "EMBEDDED");
}

#[test]
fn settings_reach_the_recorder() {
    let scene = scene(&["tacho-flush-interval-ms=10"]);
    let recorder = RecorderProcess::start(&scene);
    recorder.wait_until_it_writes(&scene);
    let directory = scene.log_directory();
    let before = log::files(&directory).expect("files").len();
    set(&scene, "tacho_timestamps = UTC");
    set(&scene, "tacho_rotate_now = 1");
    wait::until("there is another file", || log::files(&directory).expect("files").len() > before);
    set(&scene, r#"tacho_filter = '{"rules": [{"user": "other", "action": "skip"}]}'"#);
    let mut conn = scene.server.connect().expect("a connection");
    conn.query_drop("SELECT 'after all of it'").expect("an answer");
    let mut found = String::new();
    wait::until("it is in the log", || {
        log::read(&directory, |_, text| {
            if text.contains("'after all of it'") {
                text.clone_into(&mut found);
            }
        })
        .is_ok()
            && !found.is_empty()
    });
    assert!(found.contains("+00:00\""), "{found}");
    // Its messages use the names of this server.
    set(&scene, "tacho_disk_warn_percent = 100");
    let warning = scene.server.product.named("less than tacho_disk_warn_percent. When it is full");
    wait::until("the recorder warns", || recorder.said().contains(&warning));
    // A change that the recorder received but did not live to write is still recorded.
    recorder.signal(Signal::STOP);
    set(&scene, "tacho_rotate_bytes = 123456789");
    recorder.kill9();
    wait::until("the server writes", || writer(&scene) == "EMBEDDED");
    let variables = || -> Vec<String> {
        let lines = others(&directory);
        let configs = lines.iter().filter(|(event, _)| event == "config");
        let parsed = configs.map(|(_, text)| serde_json::from_str(text).expect("JSON"));
        parsed
            .map(|line: serde_json::Value| line["variable"].as_str().unwrap_or("").to_owned())
            .collect()
    };
    let changed =
        ["tacho_timestamps", "tacho_filter", "tacho_disk_warn_percent", "tacho_rotate_bytes"];
    wait::until("the change is recorded", || variables().len() >= changed.len());
    drop(conn);
    let mut scene = scene;
    scene.server.stop().expect("stopping");
    assert_eq!(variables(), changed.map(|name| scene.server.product.named(name)));
    scene.server.assert_clean_log(GONE);
}

#[test]
fn a_recorder_that_hangs_is_reported() {
    let scene = scene(&[]);
    let running = start_load(&scene, "hang");
    let recorder = RecorderProcess::start(&scene);
    recorder.wait_until_it_writes(&scene);
    // With the log handed over, it may still be taking it over: if it hangs there, it is not
    // interrupted.
    let taken = format!("is written by the recorder, process {}", recorder.child.id());
    wait::until("it has the log", || scene.server.error_log().contains(&taken));
    running.wait_for_more(50);
    recorder.signal(Signal::STOP);
    let hangs = format!("process {}, does not answer", recorder.child.id());
    wait::until("the error log says so", || scene.server.error_log().contains(&hangs));
    recorder.signal(Signal::CONT);
    wait::until("the error log says so", || scene.server.error_log().contains("answers again"));
    running.wait_for_more(50);
    let scene = finish(scene, running, "hang", Some(recorder));
    scene.server.assert_clean_log(&["does not answer", "Aborted connection"]);
}

#[test]
fn the_figures_of_the_files_come_from_the_current_writer() {
    let scene = scene(&["tacho-format=CSV", "tacho-rotate-interval-s=86400"]);
    let directory = scene.log_directory();
    let are_right = || {
        let count = log::file_names(&directory, ".jsonl").len().to_string();
        let oldest = log::file_names(&directory, ".jsonl").pop_first().expect("a file");
        status(&scene, "Tacho_files") == count
            && status(&scene, "Tacho_oldest_file") == oldest
            && status(&scene, "Tacho_files_bytes") != "0"
            && status(&scene, "Tacho_oldest_time").starts_with("20")
            && status(&scene, "Tacho_checkpoint_time").starts_with("20")
            && status(&scene, "Tacho_rotate_due_time").starts_with("20")
    };
    wait::until("the server says it", are_right);
    let recorder = RecorderProcess::start(&scene);
    recorder.wait_until_it_writes(&scene);
    for _ in 0..3 {
        let before = status(&scene, "Tacho_files");
        set(&scene, "tacho_rotate_now = 1");
        wait::until("the recorder says it", || status(&scene, "Tacho_files") != before);
    }
    wait::until("the recorder says it", are_right);
    // Something that only the recorder can know of.
    let oldest = log::file_names(&directory, ".jsonl").pop_first().expect("a file");
    for ending in [".jsonl", ".csv", ".chain"] {
        let path = directory.join(oldest.replace(".jsonl", ending));
        if path.exists() {
            fs::remove_file(path).expect("removed");
        }
    }
    wait::until("the recorder sees it", || {
        are_right() && status(&scene, "Tacho_oldest_file") != oldest
    });
    recorder.kill9();
    wait::until("the server writes", || writer(&scene) == "EMBEDDED");
    set(&scene, "tacho_rotate_now = 1");
    wait::until("the server says it", are_right);
}
