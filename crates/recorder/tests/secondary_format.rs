//! Renditions beside a writer: files with unknown state are kept, and a format that is switched on
//! while the current file is empty is still written.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use support::{TestLog, place, round_until};
use tacho_recorder::control::{ConfigChange, Control, Severity, Status};
use tacho_recorder::writer::Writer;
use tacho_ring::arena::Arena;
use tacho_settings::Setting;

const COUNT: u64 = 5;
const CSV: u64 = 1;

/// Old files of one line each; the newest is continued.
fn fill(place: &TestLog) {
    fs::create_dir(&place.log).expect("makes");
    for seq in 1..=COUNT {
        let path = place.log.join(format!("audit-20200101T0000{seq:02}Z-{seq:06}.jsonl"));
        let ts = format!("2020-01-01T00:00:{seq:02}.000000+00:00");
        let line = format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"{ts}\",\"event\":\"stop\"}}\n");
        fs::write(&path, line).expect("writes");
        let file = fs::File::options().append(true).open(path).expect("opens");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_577_840_000)).expect("an old one");
    }
}

fn with_ending(place: &TestLog, ending: &str) -> BTreeSet<String> {
    place.names().filter(|name| name.starts_with("audit-") && name.ends_with(ending)).collect()
}

fn writer(place: &TestLog, arena: Arena) -> (Writer, Arc<Control>, Arc<Status>) {
    let control = Arc::new(Control::default());
    let (writer, status) = place.writer_with(arena, COUNT, control.clone());
    (writer, control, status)
}

fn note(control: &Control, value: &str) {
    let change = ConfigChange {
        variable: b"tacho_test".to_vec(),
        new_value: value.as_bytes().to_vec(),
        ..ConfigChange::default()
    };
    control.config_changes.lock().expect("no panic").push(change);
}

#[test]
fn files_with_unknown_state_are_kept_unless_the_disk_is_full() {
    let place = place();
    fill(&place);
    let list = place.log.join(".renditions");
    let arena = place.arena();
    let (mut writer, control, status) = writer(&place, arena.arena());
    fs::create_dir(&list).expect("makes");
    let removed = || status.files_removed.load(Ordering::Relaxed);
    let compressed = || status.files_compressed.load(Ordering::Relaxed);
    control.set(Setting::Format, CSV);
    control.set(Setting::Compression, 1);
    control.set(Setting::RetentionDays, 183);
    control.set(Setting::RetentionFiles, 1);
    control.retain_now.store(true, Ordering::Relaxed);
    control.retain_files_now.store(true, Ordering::Relaxed);
    round_until(&mut writer, || !place.said(Severity::Warning).is_empty());
    (0..20).for_each(|_| assert!(writer.round()));
    let warnings = place.said(Severity::Warning);
    assert!(
        warnings[0].contains(".renditions") && warnings[0].contains("stay as they are"),
        "{warnings:?}"
    );
    assert!(status.last_error.lock().expect("no panic").contains(".renditions"));
    assert_eq!((removed(), compressed()), (0, 0));
    assert_eq!(with_ending(&place, ".jsonl").len() as u64, COUNT);

    // By size one is removed: a rendition is worth less than the space that the log needs.
    let bytes = |name: &String| fs::metadata(place.log.join(name)).expect("there").len();
    let all: u64 = with_ending(&place, ".jsonl").iter().map(bytes).sum();
    control.set(Setting::RetentionBytes, all - 1);
    round_until(&mut writer, || removed() == 1);
    assert_eq!(compressed(), 0);

    // Once the list can be read, everything continues as usual.
    fs::remove_dir(&list).expect("removes");
    round_until(&mut writer, || removed() == COUNT - 1);
    round_until(&mut writer, || with_ending(&place, ".csv").len() == 1);
    drop(writer);
    arena.remove().expect("removes");
}

#[test]
fn pending_renditions_are_listed_before_there_is_another_file() {
    let place = place();
    fill(&place);
    let arena = place.arena();
    let (mut writer, control, _) = writer(&place, arena.arena());
    control.set(Setting::Format, CSV);
    assert!(writer.round());
    // The thread may not have run yet when the server is killed.
    let listed = fs::read_to_string(place.log.join(".renditions")).expect("a list");
    let current = with_ending(&place, ".jsonl").pop_last().expect("one");
    assert!(listed.contains(current.trim_end_matches(".jsonl")), "{listed}");
    drop(writer);
    arena.remove().expect("removes");
}

#[test]
fn a_format_that_is_switched_off_and_on_before_there_is_a_line_has_its_file() {
    let place = place();
    fill(&place);
    let arena = place.arena();
    let (mut writer, control, status) = writer(&place, arena.arena());
    control.set(Setting::Format, CSV);
    round_until(&mut writer, || with_ending(&place, ".csv").len() == 1);
    control.set(Setting::Format, 0);
    // The previous file is complete, the new one must have no rendition.
    round_until(&mut writer, || !place.log.join(".renditions").exists());
    let current = with_ending(&place, ".jsonl").pop_last().expect("one");
    assert_eq!(fs::metadata(place.log.join(&current)).expect("there").len(), 0);

    control.set(Setting::Format, CSV);
    assert!(writer.round());
    assert_eq!(with_ending(&place, ".jsonl").pop_last().as_ref(), Some(&current));
    note(&control, "from now on");
    let csv = place.log.join(current.replace(".jsonl", ".csv"));
    let is_there = || fs::read_to_string(&csv).is_ok_and(|text| text.contains("from now on"));
    round_until(&mut writer, is_there);
    round_until(&mut writer, || status.format_behind_bytes.load(Ordering::Relaxed) == 0);
    drop(writer);
    arena.remove().expect("removes");
}
