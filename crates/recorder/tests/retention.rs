//! Retention by the writer: each file has its line before it is removed, few are removed by age at
//! once, and the numbers of the lines continue.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use support::{TestLog, place};
use tacho_recorder::control::{ConfigChange, Control, Severity};
use tacho_settings::Setting;

const OLD_COUNT: u64 = 250;

/// Files of the year 2020, one line each; the newest is continued.
fn fill(place: &TestLog) {
    fs::create_dir(&place.log).expect("makes");
    for seq in 1..=OLD_COUNT {
        let name = format!("audit-20200101T{:02}{:02}00Z-{seq:06}.jsonl", seq / 60, seq % 60);
        let line = format!("{{\"v\":1,\"seq\":{seq},\"event\":\"statement\"}}\n");
        let path = place.log.join(name);
        fs::write(&path, line).expect("writes");
        let file = fs::File::options().append(true).open(path).expect("opens");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_577_840_000)).expect("an old one");
    }
}

/// A change whose line has a value of this many bytes.
fn change(bytes: usize) -> ConfigChange {
    let new_value = vec![b'x'; bytes];
    ConfigChange { variable: b"tacho_test".to_vec(), new_value, ..ConfigChange::default() }
}

fn first_lines(place: &TestLog, variable: &str) -> Vec<String> {
    let wanted = format!("\"variable\":\"{variable}\"");
    place.lines().into_iter().filter(|line| line.contains(&wanted)).collect()
}

#[test]
fn by_age_few_are_removed_at_once_and_all_on_request() {
    let place = place();
    fill(&place);
    let arena = place.arena();
    let control = Arc::new(Control::default());
    control.set(Setting::Format, 0);
    let (mut writer, status) = place.writer_with(arena.arena(), OLD_COUNT, control.clone());
    let removed = || status.files_removed.load(Ordering::Relaxed);
    let mut run = |count: u64| (0..count).for_each(|_| assert!(writer.round()));

    run(5);
    assert_eq!(removed(), 0, "everything is kept by default");
    control.set(Setting::RetentionDays, 183);
    run(20);
    assert_eq!(removed(), 0, "nothing is removed by age in the first hour");
    assert!(place.said(Severity::Warning)[0].contains("is the clock right?"));
    // Two for each new file. The line of a removal is in it, so that there is something to rotate.
    control.rotate_now.store(true, Ordering::Relaxed);
    run(20);
    assert_eq!(removed(), 2);
    control.retain_now.store(true, Ordering::Relaxed);
    run(2 * OLD_COUNT);
    // The file that was current at first ended today.
    assert_eq!(removed(), OLD_COUNT - 1);
    let texts = first_lines(&place, "file_removed");
    assert_eq!(texts.len() as u64, OLD_COUNT - 1);
    let first = "\"old_value\":\"audit-20200101T000100Z-000001.jsonl\",\"new_value\":\"age\"}";
    assert!(texts[0].ends_with(first), "{}", texts[0]);
    assert_eq!(
        place.said(Severity::Note).iter().filter(|t| t.contains("was removed")).count(),
        249
    );

    // By size, with the present content of the files.
    control.set(Setting::RetentionBytes, 1);
    run(20);
    assert_eq!(removed(), OLD_COUNT, "the current file stays");
    let seqs: Vec<u64> = place.lines().iter().map(|line| seq(line)).collect();
    assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seqs:?}");
    drop(writer);
    arena.remove().expect("removes");
}

/// Files that are begun by command do not displace the evidence before them; full ones do, one for
/// one.
#[test]
fn by_count_one_is_removed_for_each_full_file_and_none_for_a_requested_one() {
    let place = place();
    fill(&place);
    let arena = place.arena();
    let control = Arc::new(Control::default());
    control.set(Setting::Format, 0);
    let (mut writer, status) = place.writer_with(arena.arena(), OLD_COUNT, control.clone());
    let removed = || status.files_removed.load(Ordering::Relaxed);
    let closed = || place.names().filter(|name| name.ends_with(".jsonl")).count() as u64 - 1;
    let mut run = |count: u64| (0..count).for_each(|_| assert!(writer.round()));
    let line = |bytes| control.config_changes.lock().expect("no panic").push(change(bytes));

    // As many as there are.
    control.set(Setting::RetentionFiles, OLD_COUNT - 1);
    run(5);
    assert_eq!((removed(), closed()), (0, OLD_COUNT - 1));
    // A flood: an account that may set `tacho_rotate_now` does so again and again.
    for _ in 0..30 {
        line(1);
        run(2);
        control.rotate_now.store(true, Ordering::Relaxed);
        run(2);
    }
    assert_eq!((removed(), closed()), (0, OLD_COUNT + 29));
    let texts = place.said(Severity::Warning);
    assert!(texts[0].contains("there are 1 more closed log files than tacho_retention_files=249"));
    assert!(texts[0].contains("was tacho_rotate_now set again and again"), "{texts:?}");
    assert!(status.last_error.lock().expect("no panic").contains("tacho_retention_files"));

    // Nor does a small size limit help.
    control.set(Setting::RotateBytes, 1);
    for _ in 0..30 {
        line(1);
        run(2);
    }
    assert_eq!((removed(), closed()), (0, OLD_COUNT + 58));
    // Each of these lines fills a file, and one file is removed for each full one.
    control.set(Setting::RotateBytes, 5000);
    for _ in 0..8 {
        line(4500);
        run(10);
    }
    assert_eq!((removed(), closed()), (7, OLD_COUNT + 58));

    // An operator requests it: all surplus files of now are removed, but not those of a later
    // flood.
    control.retain_files_now.store(true, Ordering::Relaxed);
    run(200);
    assert_eq!(closed(), OLD_COUNT - 1);
    let texts = first_lines(&place, "file_removed");
    assert_eq!(texts.len() as u64, removed());
    let first = "\"old_value\":\"audit-20200101T000100Z-000001.jsonl\",\"new_value\":\"count\"}";
    assert!(texts[0].ends_with(first), "{}", texts[0]);
    let notes = place.said(Severity::Note);
    let note = "audit-20200101T000100Z-000001.jsonl was removed (tacho_retention_files)";
    assert!(notes.iter().any(|text| text == note), "{notes:?}");
    control.rotate_now.store(true, Ordering::Relaxed);
    run(20);
    assert_eq!(closed(), OLD_COUNT);

    // Removal by size is not rate-limited.
    control.set(Setting::RetentionBytes, 1);
    run(2 * OLD_COUNT + 20);
    assert!(closed() <= 1);
    drop(writer);
    arena.remove().expect("removes");
}

#[test]
fn an_entry_that_is_not_a_file_is_skipped_and_blocks_nothing() {
    let place = place();
    fill(&place);
    // Older than all files of the log.
    let obstacle = place.log.join("audit-20200101T000000Z-000001.jsonl");
    fs::create_dir(&obstacle).expect("makes");
    let arena = place.arena();
    let control = Arc::new(Control::default());
    control.set(Setting::Format, 0);
    let (mut writer, status) = place.writer_with(arena.arena(), OLD_COUNT, control.clone());
    control.set(Setting::RetentionBytes, 1);
    (0..2 * OLD_COUNT + 20).for_each(|_| assert!(writer.round()));
    assert_eq!(status.files_removed.load(Ordering::Relaxed), OLD_COUNT - 1);
    assert!(obstacle.exists());
    let texts = place.said(Severity::Warning);
    assert_eq!(
        texts.iter().filter(|text| text.contains("not a regular file")).count(),
        1,
        "{texts:?}"
    );
    drop(writer);
    arena.remove().expect("removes");
}

/// The list of a shipper: one hub, which has the log up to this file.
fn ship(place: &TestLog, acknowledged: &str) {
    let path = place.log.join(tacho_logdir::shipped::NAME);
    fs::write(&path, format!("{acknowledged} https://hub db1\n")).expect("writes");
    let mode = fs::Permissions::from_mode(tacho_logdir::shipped::MODE);
    fs::set_permissions(&path, mode).expect("changes");
}

#[test]
fn files_that_a_hub_does_not_have_stay_for_any_reason() {
    let place = place();
    fill(&place);
    let arena = place.arena();
    let control = Arc::new(Control::default());
    control.set(Setting::Format, 0);
    let (mut writer, status) = place.writer_with(arena.arena(), OLD_COUNT, control.clone());
    let removed = || status.files_removed.load(Ordering::Relaxed);
    let mut run = || (0..30).for_each(|_| assert!(writer.round()));
    ship(&place, "-");
    control.set(Setting::RetentionBytes, 1);
    control.set(Setting::RetentionFiles, 1);
    control.set(Setting::RetentionDays, 1);
    control.retain_now.store(true, Ordering::Relaxed);
    control.retain_files_now.store(true, Ordering::Relaxed);
    run();
    assert_eq!(removed(), 0);
    let warnings = place.said(Severity::Warning);
    assert!(warnings[0].contains("is not shipped to https://hub as db1"), "{warnings:?}");
    assert_eq!(warnings.len(), 1, "{warnings:?}");

    // The hub has three files. Any change of a limit is a reason to look.
    ship(&place, "audit-20200101T000300Z-000003");
    control.set(Setting::RetentionDays, 2);
    run();
    assert_eq!(removed(), 3);
    let is_bare = |line: &String| line.ends_with("\"new_value\":\"size\"}");
    assert!(first_lines(&place, "file_removed").iter().all(is_bare));

    // A file that SQL may have created is ignored.
    let path = place.log.join(tacho_logdir::shipped::NAME);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("changes");
    control.set(Setting::RetentionDays, 3);
    (0..2).for_each(|_| run());
    assert!(removed() > 5, "{}", removed());
    let warnings = place.said(Severity::Warning);
    let ignored = warnings.iter().filter(|text| text.contains("its mode is 0644; it is ignored"));
    assert_eq!(ignored.count(), 1, "{warnings:?}");

    // With the other value they are removed, and the line says what was lost.
    ship(&place, "-");
    let before = removed();
    control.set(Setting::RetentionUnshipped, 1);
    run();
    assert!(removed() > before);
    let lines = first_lines(&place, "file_removed");
    let last = lines.last().expect("a line");
    assert!(last.ends_with("\"new_value\":\"size, not shipped to https://hub as db1\"}"), "{last}");
    let warnings = place.said(Severity::Warning);
    let last = warnings.last().expect("a warning");
    assert!(last.ends_with("(tacho_retention_bytes), not shipped to https://hub as db1"), "{last}");
    drop(writer);
    arena.remove().expect("removes");
}

fn seq(line: &str) -> u64 {
    let rest = line.strip_prefix("{\"v\":1,\"seq\":").expect("a record");
    rest.split(',').next().expect("a number").parse().expect("a number")
}
