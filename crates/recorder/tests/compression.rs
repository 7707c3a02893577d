//! Compression beside a writer: all that is closed becomes smaller, what does not work is told and
//! left as it is, and a writer that goes away takes the thread with it.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use support::{TestLog, place, round_until};
use tacho_recorder::control::{Control, Severity, Status};
use tacho_recorder::writer::Writer;
use tacho_ring::arena::Arena;

const COUNT: u64 = 5;

fn stem(number: u64) -> String {
    format!("audit-20200101T0000{number:02}Z-{number:06}")
}

fn fill(place: &TestLog, bytes: usize) {
    fs::create_dir(&place.log).expect("makes");
    for seq in 1..=COUNT {
        let line = format!("{{\"v\":1,\"seq\":{seq},\"sql\":\"{}\"}}\n", "x".repeat(bytes));
        fs::write(place.log.join(format!("{}.jsonl", stem(seq))), line).expect("writes");
    }
}

/// What there is of the closed files.
fn closed(place: &TestLog) -> BTreeSet<String> {
    place.names().filter(|name| (1..COUNT).any(|it| name.starts_with(&stem(it)))).collect()
}

fn with_ending(ending: &str) -> BTreeSet<String> {
    (1..COUNT).map(|number| format!("{}.{ending}", stem(number))).collect()
}

fn writer(place: &TestLog, arena: Arena) -> (Writer, Arc<Control>, Arc<Status>) {
    let control = Arc::new(Control::default());
    // Before it is said that there is no other format, a file may be needed as it is.
    control.format.store(0, Ordering::Relaxed);
    let (writer, status) = place.writer_with(arena, COUNT, control.clone());
    (writer, control, status)
}

#[test]
fn what_is_closed_becomes_smaller_and_what_fails_is_tried_again() {
    let place = place();
    fill(&place, 10_000);
    let arena = place.arena();
    let (mut writer, control, status) = writer(&place, arena.arena());
    let compressed = || status.files_compressed.load(Ordering::Relaxed);
    (0..5).for_each(|_| assert!(writer.round()));
    assert_eq!(closed(&place), with_ending("jsonl"), "who says nothing keeps them as they are");

    // Something is in the way of the second one.
    let obstacle = place.log.join(format!("{}.jsonl.zst.new", stem(2)));
    fs::create_dir(&obstacle).expect("makes");
    control.compress.store(true, Ordering::Relaxed);
    round_until(&mut writer, || !place.said(Severity::Warning).is_empty());
    let warnings = place.said(Severity::Warning);
    assert!(warnings[0].contains(&stem(2)) && warnings[0].contains("is not compressed"));
    assert!(place.log.join(format!("{}.jsonl", stem(2))).exists());
    assert_eq!(compressed(), 1, "not at once the next: it may be the disk");

    fs::remove_dir(&obstacle).expect("removes");
    control.compress.store(false, Ordering::Relaxed);
    assert!(writer.round());
    control.compress.store(true, Ordering::Relaxed);
    round_until(&mut writer, || compressed() == COUNT - 1);
    assert_eq!(closed(&place), with_ending("jsonl.zst"));
    for seq in 1..COUNT {
        let bytes = fs::read(place.log.join(format!("{}.jsonl.zst", stem(seq)))).expect("reads");
        let text = String::from_utf8(zstd::decode_all(&bytes[..]).expect("zstd")).expect("a text");
        assert!(text.starts_with(&format!("{{\"v\":1,\"seq\":{seq},")) && text.len() > 10_000);
        assert!(bytes.len() < 1000);
    }
    // The one with the last line, gone on with.
    assert!(place.lines()[0].starts_with(&format!("{{\"v\":1,\"seq\":{COUNT},")));
    drop(writer);
    arena.remove().expect("removes");
}

#[test]
fn a_writer_that_goes_takes_the_thread_with_it() {
    let place = place();
    // Long enough that the thread is at it when the writer goes, mostly; whatever it was at, the same holds.
    fill(&place, 20_000_000);
    let arena = place.arena();
    let (mut writer, control, _) = writer(&place, arena.arena());
    control.compress.store(true, Ordering::Relaxed);
    assert!(writer.round());
    assert!(writer.finish());
    drop(writer);
    let left = closed(&place);
    let plain = with_ending("jsonl");
    assert!(left.is_superset(&plain.into_iter().skip(1).collect()), "one at a time: {left:?}");
    assert_eq!(left.len() as u64, COUNT - 1, "nothing half done: {left:?}");
    arena.remove().expect("removes");
}
