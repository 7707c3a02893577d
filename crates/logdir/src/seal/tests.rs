//! The seal: an honest log verifies, and changes by others are reported.
//!
//! | module | content |
//! |---|---|
//! | `attacks` | changes by others, by name |
//! | `directories` | one key setting, several log directories |
//! | `faults` | failures that pass |
//! | `key_file` | the key file on a real disk |
//! | `lives` | deaths, faults and power failures at any operation |

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tacho_chain::entry::EpochReason;
use tacho_chain::verify::{self, LogState, Report};

mod attacks;
mod directories;
mod faults;
mod key_file;
mod lives;

use super::{SealOptions, Sealed, WAITING_MAX};
use crate::event::Event;
use crate::faulty::{Fault, FaultyFs};
use crate::fs::Fs;
use crate::write::{LogFiles, Options};

const DIR: &str = "/data/tacho";
const KEY: &str = "/data/key";

struct Dir<'a>(&'a FaultyFs);

impl verify::Directory for Dir<'_> {
    fn names(&self) -> io::Result<Vec<String>> {
        let paths = self.0.files_in(Path::new(DIR));
        Ok(paths.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(io::Cursor::new(self.0.read(&Path::new(DIR).join(name)))))
    }
}

fn new_fs() -> FaultyFs {
    let fs = FaultyFs::new();
    fs.set_now_s(951_827_696);
    fs.create_dir(Path::new("/data")).expect("an empty file system");
    fs
}

fn options() -> SealOptions {
    SealOptions { key_file: PathBuf::from(KEY), checkpoint_interval_s: 60, may_break: true }
}

fn start(fs: &FaultyFs) -> (LogFiles<FaultyFs>, Sealed) {
    let (mut files, opened) =
        LogFiles::open(fs.clone(), Path::new(DIR), Options { rotate_bytes: 0 }).expect("opens");
    let last_seq = opened.last_seq.expect("known").unwrap_or(0);
    let sealed = files.seal(&options(), last_seq).expect("seals");
    (files, sealed)
}

/// As long as the shortest line of a recorder, by which a verifier distinguishes an edit from a
/// cut.
fn line(seq: u64) -> String {
    format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"2000-02-29T12:34:56.000000+00:00\",\"a\":1}}\n")
}

fn lines(from: u64, to: u64) -> String {
    (from..=to).map(line).collect()
}

fn write(files: &mut LogFiles<FaultyFs>, batch: &str) {
    files.write(batch.as_bytes(), &mut 0).expect("writes");
}

fn check(fs: &FaultyFs, sealed: &Sealed) -> Report {
    let options = verify::Options { keys: vec![sealed.root.clone()], ..Default::default() };
    verify::verify(&Dir(fs), &options, &mut |_| {}).expect("reads")
}

#[track_caller]
fn assert_state(report: &Report, state: LogState) {
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(report.state(), state, "{findings:#?}");
}

fn path(entry: &str) -> PathBuf {
    Path::new(DIR).join(entry)
}

fn first() -> PathBuf {
    path("audit-20000229T123456Z-000001.jsonl")
}

fn first_sidecar() -> PathBuf {
    path("audit-20000229T123456Z-000001.chain")
}

fn put(fs: &FaultyFs, path: &Path, bytes: &[u8]) {
    fs.truncate(path, 0);
    fs.append(path, bytes);
}

#[test]
fn a_life_with_rotation_stop_and_start_verifies() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    assert!(sealed.is_new_root && sealed.declared.is_none());
    write(&mut files, &lines(1, 3));
    write(&mut files, &line(4));
    assert_state(&check(&fs, &sealed), LogState::UnsignedTail);
    files.rotate_now().expect("rotates");
    files.set_rotate_bytes(60);
    // Rotated within the batch.
    write(&mut files, &lines(5, 12));
    files.close().expect("closes");
    let report = check(&fs, &sealed);
    assert_state(&report, LogState::Ok);
    assert_eq!((report.lines, report.last_seq, report.is_closed), (12, 12, true));
    assert!(report.files >= 4);

    let (mut files, again) = start(&fs);
    assert_eq!(again.root, sealed.root);
    assert!(!again.is_new_root && again.declared.is_none() && again.recovered_bytes == 0);
    write(&mut files, &line(13));
    files.close().expect("closes");
    assert_state(&check(&fs, &sealed), LogState::Ok);
}

#[test]
fn the_interval_signs_an_idle_log_less_and_less_often() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &lines(1, 2));
    let mut now_s = 951_827_696 + 61;
    fs.set_now_s(now_s);
    files.tick();
    assert_state(&check(&fs, &sealed), LogState::Ok);
    let mut after_minutes = Vec::new();
    let mut bytes = fs.read(&first_sidecar()).len();
    for minute in 1..=2 + 4 + 8 {
        now_s += 60;
        fs.set_now_s(now_s);
        files.tick();
        let longer = fs.read(&first_sidecar()).len();
        if longer > bytes {
            after_minutes.push(minute);
        }
        bytes = longer;
    }
    assert_eq!(after_minutes, [2, 6, 14]);
    // The clock is set back: signed at once, and then in the new time.
    fs.set_now_s(1_000);
    files.tick();
    let before = fs.read(&first_sidecar());
    assert!(before.len() > bytes);
    // New lines are signed after one interval, however long the log was idle.
    fs.set_now_s(1_061);
    files.tick();
    assert_eq!(fs.read(&first_sidecar()), before);
    write(&mut files, &line(3));
    assert_state(&check(&fs, &sealed), LogState::Ok);
    files.set_checkpoint_interval_s(0);
    fs.set_now_s(9_000_000);
    write(&mut files, &line(4));
    assert_state(&check(&fs, &sealed), LogState::UnsignedTail);
}

#[test]
fn newlines_are_counted_across_runs() {
    for length in [0, 1, 254, 255, 256, 1000] {
        assert_eq!(super::newlines(&vec![b'\n'; length]), length as u64);
        assert_eq!(super::newlines(&vec![b'x'; length]), 0);
    }
}

#[test]
fn the_previous_key_is_destroyed() {
    let fs = new_fs();
    let (mut files, _) = start(&fs);
    let key = || String::from_utf8(fs.read(Path::new(KEY))).expect("text");
    let mut keys = vec![key()];
    write(&mut files, &line(1));
    fs.set_now_s(951_827_696 + 61);
    files.tick();
    keys.push(key());
    files.rotate_now().expect("rotates");
    keys.push(key());
    write(&mut files, &line(2));
    files.close().expect("closes");
    keys.push(key());
    drop(start(&fs));
    keys.push(key());
    let secrets = |head: &str| -> Vec<String> {
        let line =
            |key: &String| key.lines().find(|line| line.starts_with(head)).map(str::to_owned);
        keys.iter().map(|key| line(key).expect("one")).collect()
    };
    let signers = secrets("signer ");
    for (index, signer) in signers.iter().enumerate() {
        assert!(!signers[..index].contains(signer), "{index}");
    }
    // One for each file.
    let mut files = secrets("secret ");
    files.dedup();
    assert_eq!(files.len(), 2);
}

#[test]
fn lines_without_a_frame_are_recovered() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &lines(1, 2));
    // The death is between the line and its frame: fstat, stat, fstat of the lock, write.
    fs.fault_after(3, Fault::Die(line(3).len()));
    files.write(line(3).as_bytes(), &mut 0).expect_err("dies");
    drop(files);
    fs.restart_process();
    let (files, again) = start(&fs);
    assert_eq!(again.recovered_bytes, line(3).len() as u64);
    files.close().expect("closes");
    let report = check(&fs, &sealed);
    assert_state(&report, LogState::Recovered);
    assert_eq!((report.recovered_lines, report.lines), (1, 3));
    assert_eq!(report.findings[0].seqs, Some((3, 3)));
}

#[test]
fn a_sidecar_that_cannot_be_written_is_completed_later() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &line(1));
    fs.fault_after(4, Fault::FailAfter(10, libc::EIO));
    write(&mut files, &line(2));
    assert!(matches!(files.take_events()[..], [Event::SealFailed { .. }]));
    write(&mut files, &line(3));
    assert!(matches!(files.take_events()[..], [Event::SealResumed]));
    files.close().expect("closes");
    assert_state(&check(&fs, &sealed), LogState::Ok);
}

#[test]
fn a_directory_that_was_not_sealed_before_begins_with_a_new_file() {
    let fs = new_fs();
    let (mut files, _) =
        LogFiles::open(fs.clone(), Path::new(DIR), Options { rotate_bytes: 0 }).expect("opens");
    write(&mut files, &lines(1, 2));
    files.close().expect("closes");
    let (mut files, sealed) = start(&fs);
    write(&mut files, &line(3));
    files.close().expect("closes");
    assert_state(&check(&fs, &sealed), LogState::NotSealed);
    fs.unlink(&first());
    assert_state(&check(&fs, &sealed), LogState::Ok);
}

#[test]
fn a_start_without_the_key_is_declared() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &line(1));
    files.close().expect("closes");
    fs.unlink(Path::new(KEY));
    let (mut files, again) = start(&fs);
    assert_eq!((again.declared, again.is_new_root), (Some(EpochReason::NoKey), true));
    write(&mut files, &line(2));
    files.close().expect("closes");
    assert_state(&check(&fs, &sealed), LogState::WrongKey);
    let keys = vec![sealed.root, again.root];
    let options = verify::Options { keys, ..Default::default() };
    let report = verify::verify(&Dir(&fs), &options, &mut |_| {}).expect("reads");
    assert_state(&report, LogState::BrokenChain);
}

/// CVE-2023-31438: truncated at a former end, and then sealing is resumed.
#[test]
fn a_start_on_a_log_that_was_rolled_back_is_declared() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &line(1));
    fs.set_now_s(951_827_696 + 61);
    files.tick();
    let (log, sidecar) = (fs.read(&first()), fs.read(&first_sidecar()));
    write(&mut files, &lines(2, 5));
    files.close().expect("closes");
    put(&fs, &first(), &log);
    put(&fs, &first_sidecar(), &sidecar);
    assert_state(&check(&fs, &sealed), LogState::Ok);
    let (mut files, again) = start(&fs);
    assert_eq!(again.declared, Some(EpochReason::RolledBack));
    write(&mut files, &line(2));
    files.close().expect("closes");
    assert!(check(&fs, &sealed).state() >= LogState::BrokenChain);
}

#[test]
fn a_start_on_a_log_without_its_sidecar_is_declared() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &line(1));
    files.close().expect("closes");
    // To have changed lines sealed anew, as recovered ones.
    fs.unlink(&first_sidecar());
    put(&fs, &first(), line(1).replace("\"a\":1", "\"a\":2").as_bytes());
    let (files, again) = start(&fs);
    assert_eq!(again.declared, Some(EpochReason::RolledBack));
    files.close().expect("closes");
    assert!(check(&fs, &sealed).state() >= LogState::NotSealed);
}

#[test]
fn a_file_that_was_truncated_between_writers_is_found() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &lines(1, 3));
    files.close().expect("closes");
    fs.truncate(&first(), line(1).len());
    let (mut files, again) = start(&fs);
    assert_eq!(again.declared, Some(EpochReason::Damaged));
    write(&mut files, &lines(2, 4));
    files.close().expect("closes");
    assert_state(&check(&fs, &sealed), LogState::Truncated);
}

#[test]
fn changes_of_the_current_file_by_others_are_found() {
    type Deed = fn(&FaultyFs);
    let deeds: [(Deed, LogState); 4] = [
        // The next line is where other lines were: the rest is not the beginning of the file.
        (|fs| fs.truncate(&first(), line(1).len()), LogState::Modified),
        (|fs| fs.append(&first(), b"{\"v\":1,\"seq\":9}\n"), LogState::Modified),
        (|fs| fs.rename(&first(), Path::new("/elsewhere")), LogState::Gap),
        (|fs| put(fs, &first(), &fs.read(&first()).to_ascii_uppercase()), LogState::Modified),
    ];
    for (deed, state) in deeds {
        let fs = new_fs();
        let (mut files, sealed) = start(&fs);
        write(&mut files, &lines(1, 3));
        deed(&fs);
        write(&mut files, &line(4));
        write(&mut files, &line(5));
        files.close().expect("closes");
        assert_state(&check(&fs, &sealed), state);
    }
}

#[test]
fn deleted_files_are_written_again_and_verify() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &lines(1, 3));
    fs.unlink(&first());
    write(&mut files, &line(4));
    fs.unlink(&first_sidecar());
    write(&mut files, &line(5));
    fs.remove_dir_all(Path::new(DIR));
    write(&mut files, &line(6));
    files.close().expect("closes");
    let report = check(&fs, &sealed);
    assert_state(&report, LogState::Ok);
    assert_eq!(report.lines, 6);
}

#[test]
fn a_copy_under_another_name_does_not_hide_that_the_file_is_gone() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &lines(1, 3));
    fs.unlink(&first());
    fs.append(&path("audit-20000229T123456Z-000002.jsonl.sig"), b"");
    write(&mut files, &line(4));
    files.close().expect("closes");
    let report = check(&fs, &sealed);
    // Nor that the same lines are sealed a second time.
    assert_state(&report, LogState::Modified);
    assert!(report.findings.iter().any(|finding| finding.state == LogState::Gap));
    assert_eq!(report.recovered_lines, 3);
}

#[test]
fn the_number_of_unsealed_files_is_bounded() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &line(1));
    // The chain cannot leave the first file: another process has created an entry with the name of
    // the second sidecar after the second log file was created.
    let in_the_way = path("audit-20000229T123456Z-000002.chain");
    fs.fault_after(7, Fault::Fail(libc::EIO));
    files.rotate_now().expect("rotates");
    assert!(matches!(files.take_events()[..], [Event::Rotated { .. }, Event::SealFailed { .. }]));
    fs.append(&in_the_way, b"in the way");
    for seq in 2..WAITING_MAX as u64 + 20 {
        write(&mut files, &line(seq));
        files.rotate_now().expect("rotates");
    }
    fs.truncate(&in_the_way, 0);
    files.close().expect("closes");
    let report = check(&fs, &sealed);
    assert!(report.state() >= LogState::NotSealed);
    assert!(report.findings.iter().any(|finding| finding.state == LogState::BrokenChain));
    assert_eq!(report.last_seq, WAITING_MAX as u64 + 19);
}
