//! A log file as it grows, is closed and packed.

use std::path::PathBuf;

use tacho_chain::entry::{Checkpoint, CheckpointReason, Frame};
use tacho_chain::hash::Hash;
use tacho_chain::key::SecretKey;
use tacho_chain::note;

use super::*;

const ONE: &str = "audit-20261121T100000Z-000001";
const TWO: &str = "audit-20261121T110000Z-000002";
const ALL: usize = 1 << 20;

/// A log directory with one file.
struct Log {
    directory: tempfile::TempDir,
    lines: String,
    chain: String,
}

impl Log {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory, lines: String::new(), chain: String::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn line(&mut self, text: &str) -> &mut Self {
        self.lines.push_str(text);
        std::fs::write(self.path(&format!("{ONE}.jsonl")), &self.lines).unwrap();
        self
    }

    fn entry(&mut self, text: &str) -> &mut Self {
        self.chain.push_str(text);
        std::fs::write(self.path(&format!("{ONE}.chain")), &self.chain).unwrap();
        self
    }

    /// The frame of all lines from `start` on.
    fn frame(&mut self, start: usize) -> &mut Self {
        let bytes = &self.lines.as_bytes()[start..];
        let frame = Frame {
            start: start as u64,
            end: self.lines.len() as u64,
            last_seq: 1,
            lines: 1,
            digest: Hash::of(bytes),
            recovered: false,
        };
        self.entry(&frame.to_line())
    }

    fn rotate(&mut self) -> &mut Self {
        let key = SecretKey::from_bytes(&[1; 32]);
        let checkpoint = Checkpoint {
            origin: key.root().origin().to_owned(),
            seq: 1,
            chain: Hash::ZERO,
            time_s: 1,
            file: format!("{ONE}.jsonl"),
            offset: self.lines.len() as u64,
            reason: CheckpointReason::Rotate,
            next: None,
        };
        let note = note::sign(&checkpoint.to_text(), key.root().origin(), &key);
        self.entry(&note);
        std::fs::write(self.path(&format!("{TWO}.jsonl")), "").unwrap();
        self
    }

    fn step_with(&self, track: &mut Track, budget: usize, patience: Patience) -> Step {
        let look = Look::at(self.directory.path()).unwrap();
        track.next(&look, &Access::default(), budget, patience).unwrap()
    }

    fn step(&self, track: &mut Track) -> Step {
        self.step_with(track, ALL, Patience::Wait)
    }

    /// Ships until there is nothing to ship: the endings of the names and the texts.
    fn ship(&self, track: &mut Track, budget: usize) -> (Vec<(String, String)>, Step) {
        let mut shipped = Vec::new();
        loop {
            match self.step_with(track, budget, Patience::Wait) {
                Step::Ship(portion) => {
                    let name = portion.name.to_string();
                    let text = String::from_utf8(portion.bytes).unwrap();
                    track.set(&portion.name, portion.offset + text.len() as u64);
                    shipped.push((name.split_once('.').unwrap().1.to_owned(), text));
                }
                step => return (shipped, step),
            }
        }
    }
}

fn track() -> Track {
    Track::new(ONE.parse().unwrap(), 0, 0)
}

fn pair(ending: &str, text: &str) -> (String, String) {
    (ending.to_owned(), text.to_owned())
}

#[test]
fn lines_go_before_their_frame_and_only_with_one() {
    let mut log = Log::new();
    let mut track = track();
    log.line("one\n").frame(0).line("two\n").line("torn");
    let (shipped, step) = log.ship(&mut track, ALL);
    assert_eq!(shipped, [pair("jsonl", "one\n"), pair("chain", &log.chain)]);
    assert_eq!(step, Step::Wait(4));
    let first = log.chain.len();
    // A recorder that starts again cuts the torn line and seals what it finds.
    log.lines.truncate(8);
    log.line("").frame(4);
    let (shipped, step) = log.ship(&mut track, ALL);
    assert_eq!(shipped, [pair("jsonl", "two\n"), pair("chain", &log.chain[first..])]);
    assert_eq!(step, Step::Idle);
}

#[test]
fn bodies_are_as_large_as_they_may_be() {
    let mut log = Log::new();
    log.line("one\n").frame(0).line("two\n").frame(4).line("three\n").frame(8);
    let (shipped, _) = log.ship(&mut track(), 4);
    let frames: Vec<_> = log.chain.split_inclusive('\n').collect();
    assert_eq!(
        shipped[..4],
        [
            pair("jsonl", "one\n"),
            pair("chain", frames[0]),
            pair("jsonl", "two\n"),
            pair("chain", frames[1]),
        ]
    );
    assert_eq!(
        shipped[4..],
        [pair("jsonl", "thre"), pair("jsonl", "e\n"), pair("chain", frames[2])]
    );
}

#[test]
fn a_few_bytes_more_than_the_budget_are_no_body_of_their_own() {
    let mut log = Log::new();
    log.line("four\n").frame(0);
    let (shipped, _) = log.ship(&mut track(), 4);
    assert_eq!(shipped, [pair("jsonl", "four\n"), pair("chain", &log.chain)]);
}

#[test]
fn the_bytes_before_a_portion_are_with_it() {
    let mut log = Log::new();
    log.line(&format!("{}\n", "x".repeat(5000))).frame(0).line("two\n").frame(5001);
    let mut track = Track::new(ONE.parse().unwrap(), 5001, 0);
    let Step::Ship(portion) = log.step(&mut track) else { panic!("nothing to ship") };
    assert_eq!((portion.offset, &portion.bytes[..]), (5001, &b"two\n"[..]));
    assert_eq!(portion.before, &log.lines.as_bytes()[905..5001]);
}

#[test]
fn lines_that_no_recorder_will_seal_do_not_wait() {
    let mut log = Log::new();
    log.line("one\n").frame(0).line("two\n").line("torn");
    let mut track = track();
    log.ship(&mut track, ALL);
    let Step::Ship(portion) = log.step_with(&mut track, ALL, Patience::None) else {
        panic!("nothing to ship")
    };
    assert_eq!((portion.offset, &portion.bytes[..]), (4, &b"two\n"[..]));
    track.set(&portion.name, 8);
    assert_eq!(log.step_with(&mut track, ALL, Patience::None), Step::Idle);
}

#[test]
fn a_log_without_a_seal_is_shipped_by_lines() {
    let mut log = Log::new();
    let mut track = track();
    log.line("one\ntwo\nto");
    assert_eq!(log.ship(&mut track, ALL), (vec![pair("jsonl", "one\ntwo\n")], Step::Idle));
    log.line("rn\n");
    assert_eq!(log.ship(&mut track, ALL), (vec![pair("jsonl", "torn\n")], Step::Idle));
    // A line that is longer than a body.
    log.line("very long\n");
    let (shipped, _) = log.ship(&mut track, 6);
    assert_eq!(shipped, [pair("jsonl", "very l"), pair("jsonl", "ong\n")]);
}

#[test]
fn a_closed_file_is_complete_and_may_be_compressed() {
    let mut log = Log::new();
    log.line("one\n").frame(0);
    let mut track = track();
    log.ship(&mut track, ALL);
    log.line("two\n").frame(4).rotate();
    let plain = log.path(&format!("{ONE}.jsonl"));
    let packed = zstd::encode_all(log.lines.as_bytes(), 3).unwrap();
    std::fs::write(plain.with_extension("jsonl.zst"), packed).unwrap();
    std::fs::remove_file(plain).unwrap();
    let mut from_start = Track::new(ONE.parse().unwrap(), 0, 0);
    for (track, lines) in [(&mut track, "two\n"), (&mut from_start, "one\ntwo\n")] {
        let chain = track.chain as usize;
        let (shipped, step) = log.ship(track, ALL);
        assert_eq!(shipped, [pair("jsonl", lines), pair("chain", &log.chain[chain..])]);
        assert_eq!(step, Step::Complete);
    }
    // A new start knows it from the sidecar alone.
    let (lines, chain) = (log.lines.len() as u64, log.chain.len() as u64);
    std::fs::remove_file(log.path(&format!("{ONE}.jsonl.zst"))).unwrap();
    let mut again = Track::new(ONE.parse().unwrap(), lines, chain);
    assert_eq!(log.step(&mut again), Step::Complete);
}

#[test]
fn a_sidecar_that_has_grown_since_the_look_is_not_shorter() {
    let mut log = Log::new();
    log.line("one\n").frame(0);
    let look = Look::at(log.directory.path()).unwrap();
    log.line("two\n").frame(4);
    let (mut track, access) = (track(), Access::default());
    let next = |track: &mut Track| track.next(&look, &access, ALL, Patience::Wait).unwrap();
    for _ in 0..2 {
        let Step::Ship(portion) = next(&mut track) else { panic!("nothing to ship") };
        track.set(&portion.name, portion.offset + portion.bytes.len() as u64);
    }
    assert_eq!((track.lines, track.chain), (8, log.chain.len() as u64));
    assert_eq!(next(&mut track), Step::Idle);
}

#[test]
fn a_file_that_ends_before_the_hubs_copy_is_shorter() {
    let mut log = Log::new();
    log.line("one\n").frame(0);
    let chain = log.chain.len() as u64;
    let (lines_name, chain_name) = (format!("{ONE}.jsonl"), format!("{ONE}.chain"));
    let mut track = Track::new(ONE.parse().unwrap(), 5, chain);
    assert_eq!(log.step(&mut track), Step::Shorter(lines_name.parse().unwrap()));
    let mut track = Track::new(ONE.parse().unwrap(), 4, chain + 1);
    assert_eq!(log.step(&mut track), Step::Shorter(chain_name.parse().unwrap()));
}
