//! Retention through deaths, faults and power failures: in the end all due files are removed,
//! nothing else is, and a verifier sees why.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tacho_chain::entry::RemovalReason;
use tacho_chain::verify::{self, LogState, Report};

use super::aside::last_seq;
use super::faulty::{Fault, FaultyFs, NamesAfter};
use super::fs::Fs;
use super::retain::{Keep, RetainError};
use super::seal::{SealOptions, Sealed};
use super::write::{LogFiles, Options};

const DIR: &str = "/data/tacho";
const DAY_S: i64 = 86_400;
const BEGIN_S: i64 = 951_827_696;
const ALL: Keep = Keep { days: 0, bytes: 0, files: 0 };

struct Dir<'a>(&'a FaultyFs);

impl verify::Directory for Dir<'_> {
    fn names(&self) -> io::Result<Vec<String>> {
        let paths = self.0.files_in(Path::new(DIR));
        Ok(paths.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(io::Cursor::new(self.0.read(&path(name)))))
    }
}

fn path(entry: &str) -> PathBuf {
    Path::new(DIR).join(entry)
}

fn new_fs() -> FaultyFs {
    let fs = FaultyFs::new();
    fs.set_now_s(BEGIN_S);
    fs.create_dir(Path::new("/data")).expect("an empty file system");
    fs
}

fn open(fs: &FaultyFs) -> (LogFiles<FaultyFs>, u64) {
    let (files, opened) =
        LogFiles::open(fs.clone(), Path::new(DIR), Options { rotate_bytes: 0 }).expect("opens");
    (files, opened.last_seq.expect("known").unwrap_or(0))
}

fn seal(fs: &FaultyFs) -> (LogFiles<FaultyFs>, Sealed) {
    let (mut files, last_seq) = open(fs);
    let options = SealOptions {
        key_file: PathBuf::from("/data/key"),
        checkpoint_interval_s: 0,
        may_break: true,
    };
    let sealed = files.seal(&options, last_seq).expect("seals");
    (files, sealed)
}

/// `count` files of one line each, one per day, and an empty current file.
fn fill(fs: &FaultyFs, files: &mut LogFiles<FaultyFs>, count: u64) {
    for seq in 1..=count {
        let line = format!("{{\"v\":1,\"seq\":{seq},\"a\":1}}\n");
        files.write(line.as_bytes(), &mut 0).expect("writes");
        fs.set_now_s(BEGIN_S + DAY_S * seq as i64);
        files.rotate_now().expect("rotates");
    }
}

/// The next due file, by its number.
fn due(files: &mut LogFiles<FaultyFs>, keep: &Keep) -> Option<(u32, RemovalReason)> {
    let due = files.outlook(keep).expect("lists").due;
    due.first().map(|due| (due.name.number(), due.reason))
}

fn go(files: &mut LogFiles<FaultyFs>, keep: &Keep) -> Result<bool, RetainError> {
    let Some(&due) = files.outlook(keep)?.due.first() else { return Ok(false) };
    files.bury(due)?;
    files.remove(due.name)?;
    Ok(true)
}

/// Numbers of the existing log files.
fn numbers(fs: &FaultyFs, ending: &str) -> Vec<u32> {
    let names = fs.files_in(Path::new(DIR));
    let names = names.iter().filter_map(|path| path.file_name()?.to_str());
    let names = names
        .filter_map(|name| name.strip_prefix("audit-")?.strip_suffix(ending)?.rsplit('-').next());
    names.map(|number| number.parse().expect("digits")).collect()
}

fn check(fs: &FaultyFs, sealed: &Sealed) -> Report {
    let options = verify::Options { keys: vec![sealed.root.clone()], ..Default::default() };
    verify::verify(&Dir(fs), &options, &mut |_| {}).expect("reads")
}

#[track_caller]
fn assert_state(report: &Report, state: LogState, when: &str) {
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(report.state(), state, "{when}: {findings:#?}");
}

/// The next file was begun while the clock was behind: its name has an earlier time.
#[test]
fn a_recently_written_file_is_not_old_whatever_the_next_name_says() {
    let fs = new_fs();
    let (mut files, _) = open(&fs);
    files.write(b"{\"v\":1,\"seq\":1,\"a\":1}\n", &mut 0).expect("writes");
    fs.set_now_s(BEGIN_S + 200 * DAY_S);
    files.write(b"{\"v\":1,\"seq\":2,\"a\":1}\n", &mut 0).expect("writes");
    fs.set_now_s(0);
    files.rotate_now().expect("rotates");
    files.write(b"{\"v\":1,\"seq\":3,\"a\":1}\n", &mut 0).expect("writes");
    let keep = Keep { days: 183, bytes: 0, files: 0 };
    fs.set_now_s(BEGIN_S + 201 * DAY_S);
    assert_eq!(files.outlook(&keep).expect("lists").old_count, 1, "by its name");
    assert_eq!(due(&mut files, &keep), None);
    fs.set_now_s(BEGIN_S + 384 * DAY_S);
    assert_eq!(due(&mut files, &keep), Some((1, RemovalReason::Age)));
}

#[test]
fn the_age_of_a_file_counts_from_the_next_one() {
    let fs = new_fs();
    let (mut files, _) = open(&fs);
    fill(&fs, &mut files, 4);
    // Four days after the beginning: the first file ended after one day.
    let keep = |days| Keep { days, bytes: 0, files: 0 };
    assert_eq!(due(&mut files, &ALL), None);
    assert_eq!(due(&mut files, &keep(3)), None, "exactly at the limit");
    fs.set_now_s(BEGIN_S + 4 * DAY_S + 1);
    assert_eq!(due(&mut files, &keep(3)), Some((1, RemovalReason::Age)));
    let outlook = files.outlook(&keep(1)).expect("lists");
    assert_eq!((outlook.old_count, outlook.closed_count, outlook.is_ahead), (3, 4, false));
    // A clock that was set back makes no file old, one that was set forward makes all files old.
    fs.set_now_s(BEGIN_S - 1000 * DAY_S);
    assert_eq!(due(&mut files, &keep(1)), None);
    assert!(files.outlook(&keep(1)).expect("lists").is_ahead);
    fs.set_now_s(BEGIN_S + 10_000 * DAY_S);
    assert_eq!(files.outlook(&keep(183)).expect("lists").old_count, 4);
}

#[test]
fn the_oldest_are_removed_and_the_last_line_stays() {
    let fs = new_fs();
    let (mut files, _) = open(&fs);
    fill(&fs, &mut files, 4);
    fs.append(&path("audit-20000101T000000Z-000001.csv"), b"a stranger\n");
    fs.append(&path("audit.jsonl"), b"another\n");
    let line_bytes = 22;
    assert_eq!(due(&mut files, &Keep { days: 0, bytes: 4 * line_bytes, files: 0 }), None);
    let keep = Keep { days: 0, bytes: 4 * line_bytes - 1, files: 0 };
    assert_eq!(due(&mut files, &keep), Some((1, RemovalReason::Size)));
    assert!(go(&mut files, &keep).expect("goes"));
    assert!(!go(&mut files, &keep).expect("enough"));
    // However low the limits: the current file is empty, and the next start needs a number.
    let keep = Keep { days: 1, bytes: 1, files: 0 };
    fs.set_now_s(BEGIN_S + 1000 * DAY_S);
    while go(&mut files, &keep).expect("goes") {}
    assert_eq!(numbers(&fs, ".jsonl"), [4, 5]);
    assert_eq!(last_seq(&fs, Path::new(DIR), Path::new("")).expect("known"), Some(4));
    files.write(b"{\"v\":1,\"seq\":5,\"a\":1}\n", &mut 0).expect("writes");
    assert!(go(&mut files, &keep).expect("goes"));
    assert!(!go(&mut files, &keep).expect("the current one stays"));
    assert_eq!(numbers(&fs, ".jsonl"), [5]);
    assert_eq!(numbers(&fs, ".csv"), [1]);
    assert_eq!(fs.read(&path("audit.jsonl")), b"another\n");
}

/// This many closed files stay besides the current one, in any forms.
#[test]
fn the_oldest_are_removed_until_the_limit_of_closed_files() {
    let fs = new_fs();
    let (mut files, _) = open(&fs);
    fill(&fs, &mut files, 5);
    let keep = |files| Keep { days: 0, bytes: 0, files };
    assert_eq!(due(&mut files, &keep(0)), None);
    assert_eq!(due(&mut files, &keep(5)), None, "the current one does not count");
    // One file in two forms, a rendition without a log file and foreign files do not count.
    fs.append(&path("audit-20000229T123456Z-000001.jsonl.zst"), b"the same, smaller");
    fs.append(&path("audit-20000229T123456Z-000001.csv"), b"the same, in other words");
    fs.append(&path("audit-20000101T000000Z-000001.csv"), b"a stranger\n");
    fs.append(&path("audit.jsonl"), b"another\n");
    assert_eq!(due(&mut files, &keep(5)), None);
    // A skipped entry does not count.
    fs.create_dir(&path("audit-20000101T000000Z-000001.jsonl")).expect("made");
    assert_eq!(due(&mut files, &keep(5)), None);
    assert_eq!(files.outlook(&keep(3)).expect("lists").excess_count, 2);
    assert_eq!(due(&mut files, &keep(3)), Some((1, RemovalReason::Count)));
    while go(&mut files, &keep(3)).expect("goes") {}
    fs.remove_dir_all(&path("audit-20000101T000000Z-000001.jsonl"));
    assert_eq!(numbers(&fs, ".jsonl"), [3, 4, 5, 6]);
    // The current file is empty, and the next start needs a number.
    while go(&mut files, &keep(1)).expect("goes") {}
    assert_eq!(numbers(&fs, ".jsonl"), [5, 6]);
    // One more file, and the oldest is removed.
    files.write(b"{\"v\":1,\"seq\":6,\"a\":1}\n", &mut 0).expect("writes");
    files.rotate_now().expect("rotates");
    assert_eq!(due(&mut files, &keep(1)), Some((5, RemovalReason::Count)));
}

/// The first reason that applies is enough.
#[test]
fn a_file_is_removed_for_any_of_the_reasons() {
    let fs = new_fs();
    let (mut files, _) = open(&fs);
    fill(&fs, &mut files, 4);
    fs.set_now_s(BEGIN_S + 4 * DAY_S + 1);
    let line_bytes = 22;
    let reasons = |files: &mut LogFiles<FaultyFs>, days, bytes, count| {
        let outlook = files.outlook(&Keep { days, bytes, files: count }).expect("lists");
        let reasons: Vec<_> = outlook.due.iter().map(|due| due.reason).collect();
        assert!(outlook.due.iter().all(|due| due.name.number() == 1));
        reasons
    };
    use RemovalReason::{Age, Count, Size};
    for (days, is_old) in [(0, false), (4, false), (3, true)] {
        for (bytes, is_large) in [(0, false), (4 * line_bytes, false), (4 * line_bytes - 1, true)] {
            for (count, is_many) in [(0, false), (4, false), (3, true)] {
                let wanted = [(is_large, Size), (is_many, Count), (is_old, Age)];
                let wanted: Vec<_> =
                    wanted.iter().filter(|(is, _)| *is).map(|(_, reason)| *reason).collect();
                let found = reasons(&mut files, days, bytes, count);
                assert_eq!(found, wanted, "{days} {bytes} {count}");
            }
        }
    }
}

/// `.shipped` does not change what is due, and is no part of the log.
#[test]
fn a_due_file_that_a_hub_does_not_have_is_noted() {
    let fs = new_fs();
    let (mut files, sealed) = seal(&fs);
    fill(&fs, &mut files, 3);
    let keep = Keep { days: 0, bytes: 0, files: 1 };
    let mut acknowledged = "-".to_owned();
    for _ in 0..2 {
        let text = format!("{acknowledged} https://hub db1\n");
        fs.replace(&path(super::shipped::NAME), text.as_bytes(), true).expect("writes");
        let outlook = files.outlook(&keep).expect("lists");
        let lack = outlook.unshipped.map(|it| it.to_string());
        assert_eq!(lack.as_deref(), Some("not shipped to https://hub as db1"));
        acknowledged = outlook.due[0].name.to_string();
        assert!(go(&mut files, &keep).expect("goes"));
    }
    files.close().expect("closes");
    assert_state(&check(&fs, &sealed), LogState::Ok, "a shipper's file is there");
}

/// The event for which the brake by count gives an allowance.
#[test]
fn only_a_file_that_is_full_or_old_is_followed_by_a_due_one() {
    let fs = new_fs();
    let (mut files, _) = open(&fs);
    let line = |seq: u64| format!("{{\"v\":1,\"seq\":{seq},\"a\":\"{}\"}}\n", "x".repeat(4096));
    fill(&fs, &mut files, 3);
    assert_eq!(files.due_rotations(), 0, "they were requested");
    files.set_rotate_bytes(5000);
    let batch: String = (4..9).map(line).collect();
    files.write(batch.as_bytes(), &mut 0).expect("writes");
    assert_eq!(files.due_rotations(), 4, "a line in each");
    files.rotate_when_older(3600);
    assert_eq!(files.due_rotations(), 4, "not yet");
    fs.set_now_s(BEGIN_S + 10 * DAY_S);
    files.rotate_when_older(3600);
    assert_eq!(files.due_rotations(), 5);
    files.write(line(9).as_bytes(), &mut 0).expect("writes");
    files.rotate_now().expect("rotates");
    assert_eq!(files.due_rotations(), 5);
    files.write(line(10).as_bytes(), &mut 0).expect("writes");
    files.write(line(11).as_bytes(), &mut 0).expect("writes");
    assert_eq!(files.due_rotations(), 6);
    // Small files cost nothing, and do not count as full.
    files.rotate_now().expect("rotates");
    files.set_rotate_bytes(1);
    for seq in 12..20 {
        let line = format!("{{\"v\":1,\"seq\":{seq},\"a\":1}}\n");
        files.write(line.as_bytes(), &mut 0).expect("writes");
    }
    fs.set_now_s(BEGIN_S + 20 * DAY_S);
    files.rotate_when_older(3600);
    assert_eq!(files.due_rotations(), 6);
    assert!(files.outlook(&Keep::default()).expect("lists").closed_count > 16);
}

#[test]
fn a_torn_or_moved_line_is_not_the_last_one() {
    let fs = new_fs();
    let (mut files, _) = open(&fs);
    fill(&fs, &mut files, 2);
    let names = fs.files_in(Path::new(DIR));
    let plain: Vec<_> =
        names.iter().filter(|path| path.extension().is_some_and(|e| e == "jsonl")).collect();
    let keep = Keep { days: 0, bytes: 1, files: 0 };
    assert_eq!(due(&mut files, &keep), Some((1, RemovalReason::Size)));
    // The result of a full disk and a death.
    fs.truncate(plain[1], 10);
    assert_eq!(due(&mut files, &keep), None);
    assert_eq!(last_seq(&fs, Path::new(DIR), Path::new("")).expect("known"), Some(1));

    // The current file has the last line, but was moved away, and no new file can be created.
    files.write(b"{\"v\":1,\"seq\":2,\"a\":1}\n", &mut 0).expect("writes");
    assert_eq!(due(&mut files, &keep), Some((1, RemovalReason::Size)));
    fs.rename(plain[2], Path::new("/data/elsewhere"));
    for skipped in 0..30 {
        fs.fault_after(skipped, Fault::Fail(libc::EIO));
        if let Ok(outlook) = files.outlook(&keep) {
            assert_eq!(outlook.due, [], "operation {skipped}");
        }
        fs.repair();
    }
}

#[test]
fn all_forms_of_a_file_are_removed_and_its_sidecar_last() {
    let fs = new_fs();
    let (mut files, sealed) = seal(&fs);
    fill(&fs, &mut files, 3);
    fs.append(&path("audit-20000229T123456Z-000001.jsonl.zst"), b"the same, smaller");
    fs.append(&path("audit-20000229T123456Z-000001.csv.zst.age"), b"the same, in other words");
    let keep = Keep { days: 1, bytes: 0, files: 0 };
    fs.set_now_s(BEGIN_S + 2 * DAY_S + 1);
    let due = files.outlook(&keep).expect("lists").due[0];
    files.bury(due).expect("buried");
    // At first, the sidecar cannot be removed.
    let (listing, forms, sync) = (1, 3, 1);
    fs.fault_after(listing + forms + sync, Fault::Fail(libc::EIO));
    files.remove(due.name).expect_err("an error");
    assert_eq!((numbers(&fs, ".jsonl")[0], numbers(&fs, ".chain")[0]), (2, 1));
    assert!(numbers(&fs, ".jsonl.zst").is_empty() && numbers(&fs, ".age").is_empty());
    files.remove(due.name).expect("goes");
    assert_eq!(numbers(&fs, ".chain")[0], 2);
    files.close().expect("closes");
    let report = check(&fs, &sealed);
    assert_state(&report, LogState::Ok, "after the removal");
    assert_eq!((report.removed_files, report.last_seq), (1, 3));
}

#[test]
fn sealed_files_stay_without_a_key_and_unsealed_ones_are_removed() {
    let fs = new_fs();
    let (mut files, _) = open(&fs);
    fill(&fs, &mut files, 2);
    files.close().expect("closes");
    let (mut files, _) = seal(&fs);
    let line = "{\"v\":1,\"seq\":3,\"a\":1}\n";
    files.write(line.as_bytes(), &mut 0).expect("writes");
    files.rotate_now().expect("rotates");
    files.close().expect("closes");
    let keep = Keep { days: 1, bytes: 0, files: 0 };
    fs.set_now_s(BEGIN_S + 10 * DAY_S);
    // Files without a sidecar need no key and no tombstone.
    let (mut files, _) = open(&fs);
    files.write(b"{\"v\":1,\"seq\":4,\"a\":1}\n", &mut 0).expect("writes");
    assert!(go(&mut files, &keep).expect("goes") && go(&mut files, &keep).expect("goes"));
    assert!(matches!(go(&mut files, &keep), Err(RetainError::NoKey(_))));
    assert!(fs.read(&path(tacho_chain::REMOVED_FILE)).is_empty());
    files.close().expect("closes");
    let (mut files, sealed) = seal(&fs);
    while go(&mut files, &keep).expect("goes") {}
    files.close().expect("closes");
    assert_eq!(check(&fs, &sealed).removed_files, 1);
}

#[test]
fn a_file_stays_until_the_seal_has_left_it() {
    let fs = new_fs();
    let (mut files, _) = seal(&fs);
    let keep = Keep { days: 1, bytes: 0, files: 0 };
    fill(&fs, &mut files, 1);
    fs.set_now_s(BEGIN_S + 10 * DAY_S);
    files.write(b"{\"v\":1,\"seq\":2,\"a\":1}\n", &mut 0).expect("writes");
    // The next file exists, but its key cannot be written.
    let in_the_way = Path::new("/data/key");
    fs.unlink(in_the_way);
    fs.create_dir(in_the_way).expect("made");
    files.rotate_now().expect("rotates");
    fs.set_now_s(BEGIN_S + 20 * DAY_S);
    assert!(go(&mut files, &keep).expect("the first is in its sidecar, all of it"));
    assert_eq!(files.outlook(&keep).expect("lists").old_count, 1);
    assert_eq!(due(&mut files, &keep), None);
}

/// Until the next checkpoint, the key file shows what must be in the previous sidecar.
#[test]
fn the_previous_file_may_be_gone_at_a_start() {
    for names in [NamesAfter::NoChange, NamesAfter::Removals, NamesAfter::AllChanges] {
        let fs = new_fs();
        let (mut files, first) = seal(&fs);
        fill(&fs, &mut files, 1);
        files.write(b"{\"v\":1,\"seq\":2,\"a\":1}\n", &mut 0).expect("writes");
        fs.set_now_s(BEGIN_S + 10 * DAY_S);
        assert!(go(&mut files, &Keep { days: 1, bytes: 0, files: 0 }).expect("goes"));
        drop(files);
        fs.cut_power(names);
        let (mut files, again) = seal(&fs);
        assert_eq!(again.declared, None, "{names:?}");
        files.finish_removals().expect("nothing fails");
        files.close().expect("closes");
        let report = check(&fs, &first);
        assert_state(&report, LogState::Recovered, &format!("{names:?}"));
        assert_eq!((report.removed_files, report.last_seq), (1, 2), "{names:?}");
    }
}

/// Removes old files, and dies at the operation after `skipped` others; then another process
/// continues. Returns whether it died.
fn removal_with_a_death(skipped: u64, fault: Fault, power: Option<NamesAfter>) -> bool {
    let when = format!("operation {skipped}, {fault:?}, power cut: {power:?}");
    let fs = new_fs();
    let (mut files, sealed) = seal(&fs);
    fill(&fs, &mut files, 4);
    files.write(b"{\"v\":1,\"seq\":5,\"a\":1}\n", &mut 0).expect("writes");
    files.tick();
    fs.set_now_s(BEGIN_S + 4 * DAY_S + 1);
    let keep = Keep { days: 1, bytes: 0, files: 0 };
    fs.sync_all();
    fs.fault_after(skipped, fault);
    let mut result = Ok(true);
    while matches!(result, Ok(true)) {
        result = go(&mut files, &keep);
    }
    let died = fs.is_dead();
    fs.repair();
    if died {
        drop(files);
        match power {
            Some(names) => fs.cut_power(names),
            None => fs.restart_process(),
        }
        let report = check(&fs, &sealed);
        assert!(report.state() <= LogState::UnsignedTail, "{when}: {:#?}", report.findings);
        let left = numbers(&fs, ".jsonl");
        assert!(left.ends_with(&[4, 5]) && left.is_sorted(), "{when}: {left:?}");
        (files, _) = seal(&fs);
    }
    files.finish_removals().expect("nothing fails any more");
    while go(&mut files, &keep).expect("nothing fails any more") {}
    assert_eq!(last_seq(&fs, Path::new(DIR), Path::new("")).expect("known"), Some(5), "{when}");
    assert_eq!(numbers(&fs, ".jsonl"), [4, 5], "{when}");
    assert_eq!(numbers(&fs, ".chain"), [4, 5], "{when}");
    files.close().expect("closes");
    let report = check(&fs, &sealed);
    assert_state(&report, LogState::Ok, &when);
    assert_eq!((report.removed_files, report.last_seq), (3, 5), "{when}");
    died
}

/// Any fault at any operation: no file is removed without its tombstone, and in the end all due
/// files are removed.
#[test]
fn a_removal_continues_after_a_death_at_any_operation() {
    for power in [None, Some(NamesAfter::NoChange), Some(NamesAfter::Removals)] {
        for fault in [Fault::Die(0), Fault::Die(1), Fault::Die(200)] {
            let mut skipped = 0;
            while removal_with_a_death(skipped, fault, power) {
                skipped += 1;
            }
            assert!(skipped > 30, "{skipped}");
        }
    }
    for fault in [Fault::Fail(libc::EIO), Fault::Short(3), Fault::FailAfter(100, libc::ENOSPC)] {
        for skipped in 0..80 {
            assert!(!removal_with_a_death(skipped, fault, None));
        }
    }
}

#[test]
fn the_cost_of_a_look_does_not_grow_with_the_log() {
    let fs = new_fs();
    let (mut files, _) = open(&fs);
    fill(&fs, &mut files, 20);
    let line_bytes = 22;
    let keep = Keep { days: 0, bytes: 21 * line_bytes, files: 0 };
    let cost = |files: &mut LogFiles<FaultyFs>| {
        let before = fs.operations();
        assert_eq!(due(files, &keep), None);
        fs.operations() - before
    };
    let once = cost(&mut files);
    let again = cost(&mut files);
    assert!(once >= again + 20, "each is looked at once: {once}, {again}");
    // All parts of a file count, in any form.
    fs.append(&path("audit-20000229T123456Z-000001.csv.zst"), &[b'x'; 45]);
    assert_eq!(due(&mut files, &keep), Some((1, RemovalReason::Size)));
    fs.unlink(&path("audit-20000229T123456Z-000001.csv.zst"));
    assert_eq!(due(&mut files, &keep), None);
    // Changed parts are looked at again: all files in their first form, and one in a larger form.
    let first = path("audit-20000229T123456Z-000001.jsonl");
    fs.append(&path("audit-20000229T123456Z-000001.jsonl.age"), &[b'x'; 45]);
    fs.unlink(&first);
    assert_eq!(due(&mut files, &keep), Some((1, RemovalReason::Size)));
}
