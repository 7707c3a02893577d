//! Statements that are larger than the arena, while the writer is killed.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tacho_recorder::spill;
use tacho_tests::client::{self, Queryable as _};
use tacho_tests::log;
use tacho_tests::wait;

use super::{GONE, RecorderProcess, kill_both, scene, writer};
use crate::scene::Scene;

const CLIENTS: usize = 2;

/// Three times as large as the arena. Its number is all over it, so that pieces of two could not
/// be taken for one.
fn text(number: u32) -> String {
    let filling = format!("{number:x} ");
    format!("DO LENGTH('large {number} {}')", filling.repeat((3 << 20) / filling.len()))
}

/// Whether there are fragments beside the arena now.
fn has_pieces(scene: &Scene) -> bool {
    let of = |arena: &PathBuf| spill::files(arena).expect("a directory");
    scene.arena_files().iter().any(|arena| !of(arena).is_empty())
}

/// Clients that send such statements, one after the other, until they are stopped or the server is
/// gone. Returns the numbers that the server has answered.
fn answered(socket: &Path, next: &AtomicU32, is_over: &AtomicBool) -> Vec<u32> {
    let mut conn = client::connect(socket, "root", "").expect("a connection");
    let mut answered = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if conn.query_drop(text(number)).is_err() {
            break;
        }
        answered.push(number);
    }
    answered
}

/// Also if the code in between panics: waiting for the clients would never end.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `disturb` while they do.
fn answered_while(
    scene: &mut Scene,
    next: &AtomicU32,
    disturb: impl FnOnce(&mut Scene),
) -> Vec<u32> {
    let is_over = AtomicBool::new(false);
    let socket = scene.server.socket().to_owned();
    std::thread::scope(|scope| {
        let ask = || answered(&socket, next, &is_over);
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask)).collect();
        let over = Over(&is_over);
        disturb(scene);
        drop(over);
        clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect()
    })
}

/// Each statement that was answered has one line with its complete text, and its end was reported
/// if `is_ended`.
fn assert_whole(scene: &Scene, answered: &[u32], is_ended: bool) {
    let mut whole: HashMap<u32, Vec<u64>> = HashMap::new();
    let mut ended: HashSet<u64> = HashSet::new();
    log::read(&scene.log_directory(), |line, json| {
        assert_ne!(line.event, "lost", "{json}");
        if line.outcome.as_deref() == Some("ok") {
            ended.insert(line.running_seq.unwrap_or(line.seq));
        }
        let sql = line.sql.as_deref().and_then(|sql| sql.strip_prefix("DO LENGTH('large "));
        let Some((number, _)) = sql.and_then(|sql| sql.split_once(' ')) else { return };
        let number = number.parse().expect("a number");
        // One that was in pieces when its server died had not begun, and may be a part.
        if line.sql.as_deref() == Some(&text(number)) {
            whole.entry(number).or_default().push(line.seq);
        }
    })
    .expect("a readable log");
    for number in answered {
        let lines = whole.get(number).map_or(&[][..], Vec::as_slice);
        let all_ended = lines.iter().all(|seq| ended.contains(seq));
        assert!(lines.len() == 1 && (all_ended || !is_ended), "statement {number}: {lines:?}");
    }
    let left: Vec<_> = fs::read_dir(&scene.arenas).expect("a directory").flatten().collect();
    let is_spill = |path: PathBuf| path.extension().is_some_and(|it| it == spill::ENDING);
    assert!(!left.iter().any(|entry| is_spill(entry.path())), "{left:?}");
}

#[test]
fn recorders_are_killed_with_pieces_of_texts() {
    let mut scene = scene(&["tacho-arena-bytes=1M", "max-allowed-packet=64M"]);
    let next = AtomicU32::new(0);
    let answered = answered_while(&mut scene, &next, |scene| {
        for _ in 0..6 {
            let recorder = RecorderProcess::start(scene);
            recorder.wait_until_it_writes(scene);
            let before = next.load(Ordering::Relaxed);
            wait::until("statements run", || next.load(Ordering::Relaxed) > before);
            wait::until("pieces are beside the arena", || has_pieces(scene));
            recorder.kill9();
            wait::until("the server writes", || writer(scene) == "EMBEDDED");
        }
    });
    scene.server.stop().expect("stopping");
    assert!(answered.len() > 6, "{answered:?}");
    assert_whole(&scene, &answered, true);
    scene.server.assert_clean_log(GONE);
}

#[test]
fn both_are_killed_with_pieces_of_texts() {
    let mut scene = scene(&["tacho-arena-bytes=1M", "max-allowed-packet=64M"]);
    let next = AtomicU32::new(0);
    let mut all = Vec::new();
    for round in 0..4 {
        let recorder = RecorderProcess::start(&scene);
        recorder.wait_until_it_writes(&scene);
        all.extend(answered_while(&mut scene, &next, |scene| {
            wait::until("some were answered", || next.load(Ordering::Relaxed) % 4 == 3);
            wait::until("pieces are beside the arena", || has_pieces(scene));
            kill_both(scene, recorder, round % 2 == 0);
        }));
        scene.server.restart().expect("restarting");
    }
    scene.server.stop().expect("stopping");
    assert!(!all.is_empty());
    assert_whole(&scene, &all, false);
}
