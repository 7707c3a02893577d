//! Zone: outside. `kill -9` under load: no acknowledged statement is missing, none doubled.

use crate::scene::{Noise, Scene, start_load};
use tacho_tests::log;

/// Kills and restarts; `make crash` asks for many.
pub fn rounds() -> u64 {
    match std::env::var("TACHO_CRASH_ROUNDS") {
        Ok(text) => text.parse().expect("TACHO_CRASH_ROUNDS is a number"),
        Err(_) => 6,
    }
}

fn survive(options: &[&str], rounds: u64, run: &str, noise: bool) {
    let mut scene = Scene::new(options);
    if noise {
        Noise::prepare(&scene);
    }
    let running = start_load(&scene, run);
    for round in 1..=rounds {
        let noise = noise.then(|| Noise::start(&scene));
        scene.kill_under_load(&running, 100);
        drop(noise);
        scene.server.restart().expect("restarting");
        println!("{run}: round {round} of {rounds}, {} answered", running.acknowledged_count());
    }
    running.wait_for_more(100);
    let tally = running.stop().expect("a tally");
    scene.finish(&tally, run);
}

#[test]
fn kills_under_mixed_load() {
    survive(&[], rounds(), "mixed", true);
}

#[test]
fn kills_when_nearly_everything_is_in_the_arena() {
    let options =
        ["tacho-arena-bytes=1M", "tacho-flush-interval-ms=60000", "tacho-flush-bytes=16777216"];
    survive(&options, 3, "arena", false);
}

#[test]
fn kills_when_nearly_everything_is_in_the_file() {
    survive(&["tacho-flush-interval-ms=1", "tacho-flush-bytes=1024"], 3, "file", false);
}

#[test]
fn kills_amid_rotations() {
    survive(&["tacho-rotate-bytes=65536", "tacho-flush-interval-ms=1"], 3, "rotate", false);
}

/// The directory of the arenas is a setting. After a crash, an arena is in the previous directory.
#[test]
fn a_kill_and_another_directory_for_the_arenas() {
    let mut scene = Scene::new(&["tacho-flush-interval-ms=60000", "tacho-flush-bytes=16777216"]);
    let running = start_load(&scene, "moved");
    scene.kill_under_load(&running, 100);
    assert_eq!(scene.arena_files().len(), 1);
    let elsewhere = scene.arenas.join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a directory");
    scene.server.add_option(&format!("tacho-arena-directory={}", elsewhere.display()));
    scene.server.restart().expect("restarting");
    running.wait_for_more(100);
    let tally = running.stop().expect("a tally");
    scene.finish(&tally, "moved");
    assert_eq!(std::fs::read_dir(&elsewhere).expect("reading").count(), 0);
    assert!(!scene.log_directory().join(".arenas").exists(), "nothing is left to recover");
}

/// The effect of a restart of the machine on shared memory.
#[test]
fn a_kill_and_no_arena_any_more() {
    let mut scene = Scene::new(&[]);
    let running = start_load(&scene, "reboot");
    scene.kill_under_load(&running, 100);
    running.stop().expect("a tally");
    for path in scene.arena_files() {
        std::fs::remove_file(path).expect("removing");
    }
    scene.server.restart().expect("restarting");
    scene.server.restart().expect("restarting once more");
    scene.server.stop().expect("stopping");
    let mut events = Vec::new();
    log::read(&scene.log_directory(), |line, text| {
        if matches!(&*line.event, "start" | "stop" | "lost") {
            events.push(line.event.clone().into_owned());
            assert_eq!(line.event == "lost", text.contains("\"cause\":\"arena_gone\""), "{text}");
        }
    })
    .expect("a readable log");
    assert_eq!(events, ["start", "lost", "start", "stop", "start", "stop"]);
    let told = scene.server.complaints(&[]);
    assert_eq!(told.iter().filter(|line| line.contains("is gone: its server")).count(), 1);
}

/// Other servers have no pool of threads.
mod mariadb_only {
    use super::*;

    #[test]
    fn kills_with_a_thread_pool() {
        let options = ["thread-handling=pool-of-threads", "thread-pool-size=2"];
        survive(&options, 3, "pool", false);
    }
}
