//! Compression beside a writer: all closed files are compressed, failures are reported and leave
//! the file unchanged, and a writer that ends stops its thread.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use support::{TestLog, place, round_until};
use tacho_recorder::control::{Control, Severity, Status};
use tacho_recorder::writer::Writer;
use tacho_ring::arena::Arena;
use tacho_settings::Setting;

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

/// The closed files in the directory.
fn closed(place: &TestLog) -> BTreeSet<String> {
    place.names().filter(|name| (1..COUNT).any(|it| name.starts_with(&stem(it)))).collect()
}

fn with_ending(ending: &str) -> BTreeSet<String> {
    (1..COUNT).map(|number| format!("{}.{ending}", stem(number))).collect()
}

fn writer(place: &TestLog, arena: Arena) -> (Writer, Arc<Control>, Arc<Status>) {
    let control = Arc::new(Control::default());
    // Until the format is known to be off, a file may be needed unchanged.
    control.set(Setting::Format, 0);
    let (writer, status) = place.writer_with(arena, COUNT, control.clone());
    (writer, control, status)
}

#[test]
fn closed_files_are_compressed_and_failures_are_retried() {
    let place = place();
    fill(&place, 10_000);
    let arena = place.arena();
    let (mut writer, control, status) = writer(&place, arena.arena());
    let compressed = || status.files_compressed.load(Ordering::Relaxed);
    (0..5).for_each(|_| assert!(writer.round()));
    assert_eq!(closed(&place), with_ending("jsonl"), "unchanged without the setting");

    // An obstacle for the second file.
    let obstacle = place.log.join(format!("{}.jsonl.zst.new", stem(2)));
    fs::create_dir(&obstacle).expect("makes");
    control.set(Setting::Compression, 1);
    round_until(&mut writer, || !place.said(Severity::Warning).is_empty());
    let warnings = place.said(Severity::Warning);
    assert!(warnings[0].contains(&stem(2)) && warnings[0].contains("is not compressed"));
    assert!(place.log.join(format!("{}.jsonl", stem(2))).exists());
    assert_eq!(compressed(), 1, "not the next one at once: it may be the disk");

    fs::remove_dir(&obstacle).expect("removes");
    control.set(Setting::Compression, 0);
    assert!(writer.round());
    control.set(Setting::Compression, 1);
    round_until(&mut writer, || compressed() == COUNT - 1);
    assert_eq!(closed(&place), with_ending("jsonl.zst"));
    for seq in 1..COUNT {
        let bytes = fs::read(place.log.join(format!("{}.jsonl.zst", stem(seq)))).expect("reads");
        let text = String::from_utf8(zstd::decode_all(&bytes[..]).expect("zstd")).expect("a text");
        assert!(text.starts_with(&format!("{{\"v\":1,\"seq\":{seq},")) && text.len() > 10_000);
        assert!(bytes.len() < 1000);
    }
    // The file with the last line is continued.
    assert!(place.lines()[0].starts_with(&format!("{{\"v\":1,\"seq\":{COUNT},")));
    drop(writer);
    arena.remove().expect("removes");
}

#[test]
fn a_writer_that_ends_stops_its_thread() {
    let place = place();
    // Long enough that the thread is usually at work when the writer ends; the assertions hold in
    // any case.
    fill(&place, 20_000_000);
    let arena = place.arena();
    let (mut writer, control, _) = writer(&place, arena.arena());
    control.set(Setting::Compression, 1);
    assert!(writer.round());
    assert!(writer.finish());
    drop(writer);
    let left = closed(&place);
    let plain = with_ending("jsonl");
    assert!(left.is_superset(&plain.into_iter().skip(1).collect()), "one at a time: {left:?}");
    assert_eq!(left.len() as u64, COUNT - 1, "nothing half done: {left:?}");
    arena.remove().expect("removes");
}
