//! Zone: outside. `kill -9` under load: no acknowledged statement is missing, none doubled.

#[path = "crash/scene.rs"]
mod scene;

use scene::{Noise, Scene, start_load, wait_for_answers};

/// Kills and restarts; `make crash` asks for many.
fn rounds() -> u64 {
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
    wait_for_answers(&running, 100);
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

#[test]
fn kills_with_a_thread_pool() {
    let options = ["thread-handling=pool-of-threads", "thread-pool-size=2"];
    survive(&options, 3, "pool", false);
}
