//! Retention as the writer does it: each file has its line before it goes, many do not go by age at
//! once, and the numbers of the lines go on.

mod support;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use support::{Place, place};
use tacho_recorder::control::{Control, Severity};

const OLD_COUNT: u64 = 250;

/// Files of the year 2020, one line each; the newest is gone on with.
fn fill(place: &Place) {
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

fn first_lines(place: &Place, variable: &str) -> Vec<String> {
    let wanted = format!("\"variable\":\"{variable}\"");
    place.lines().into_iter().filter(|line| line.contains(&wanted)).collect()
}

#[test]
fn by_age_few_go_at_once_and_all_when_somebody_says_so() {
    let place = place();
    fill(&place);
    let arena = place.arena();
    let control = Arc::new(Control::default());
    control.format.store(0, Ordering::Relaxed);
    let (mut writer, status) = place.writer_with(arena.arena(), OLD_COUNT, control.clone());
    let removed = || status.files_removed.load(Ordering::Relaxed);
    let mut run = |count: u64| (0..count).for_each(|_| assert!(writer.round()));

    run(5);
    assert_eq!(removed(), 0, "who says nothing keeps everything");
    control.retention_days.store(183, Ordering::Relaxed);
    run(20);
    assert_eq!(removed(), 0, "nothing goes by age in the first hour");
    assert!(place.said(Severity::Warning)[0].contains("is the clock right?"));
    // Two for each new file. The line of a removal is in it, so that there is one to rotate.
    control.rotate_now.store(true, Ordering::Relaxed);
    run(20);
    assert_eq!(removed(), 2);
    control.retain_now.store(true, Ordering::Relaxed);
    run(2 * OLD_COUNT);
    // The file that was current at first has ended today.
    assert_eq!(removed(), OLD_COUNT - 1);
    let told = first_lines(&place, "file_removed");
    assert_eq!(told.len() as u64, OLD_COUNT - 1);
    let first = "\"old_value\":\"audit-20200101T000100Z-000001.jsonl\",\"new_value\":\"age\"}";
    assert!(told[0].ends_with(first), "{}", told[0]);
    assert_eq!(
        place.said(Severity::Note).iter().filter(|t| t.contains("was removed")).count(),
        249
    );

    // By size, with what is in the files now.
    control.retention_bytes.store(1, Ordering::Relaxed);
    run(20);
    assert_eq!(removed(), OLD_COUNT, "the current file stays");
    let seqs: Vec<u64> = place.lines().iter().map(|line| seq(line)).collect();
    assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seqs:?}");
    drop(writer);
    arena.remove().expect("removes");
}

#[test]
fn what_is_no_file_is_left_alone_and_keeps_nothing_else() {
    let place = place();
    fill(&place);
    // Older than all files of the log.
    let obstacle = place.log.join("audit-20200101T000000Z-000001.jsonl");
    fs::create_dir(&obstacle).expect("makes");
    let arena = place.arena();
    let control = Arc::new(Control::default());
    control.format.store(0, Ordering::Relaxed);
    let (mut writer, status) = place.writer_with(arena.arena(), OLD_COUNT, control.clone());
    control.retention_bytes.store(1, Ordering::Relaxed);
    (0..2 * OLD_COUNT + 20).for_each(|_| assert!(writer.round()));
    assert_eq!(status.files_removed.load(Ordering::Relaxed), OLD_COUNT - 1);
    assert!(obstacle.exists());
    let told = place.said(Severity::Warning);
    assert_eq!(told.iter().filter(|text| text.contains("no plain file")).count(), 1, "{told:?}");
    drop(writer);
    arena.remove().expect("removes");
}

fn seq(line: &str) -> u64 {
    let rest = line.strip_prefix("{\"v\":1,\"seq\":").expect("a record");
    rest.split(',').next().expect("a number").parse().expect("a number")
}
