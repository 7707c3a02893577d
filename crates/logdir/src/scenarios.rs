//! Named histories: one fault each, with its exact outcome.

use std::path::{Path, PathBuf};

use super::aside::last_seq;
use super::error::FileErrorKind;
use super::error::LastSeqError;
use super::event::Event;
use super::faulty::{Fault, FaultyFs};
use super::fs::Fs;
use super::lock::LOCK_FILE;
use super::made;
use super::write::{LogFiles, Opened, Options};

const DIR: &str = "/data/tacho";

fn new_fs() -> FaultyFs {
    let fs = FaultyFs::new();
    fs.set_now_s(951_827_696);
    fs
}

fn open(fs: &FaultyFs, rotate_bytes: u64) -> (LogFiles<FaultyFs>, Opened) {
    LogFiles::open(fs.clone(), Path::new(DIR), Options { rotate_bytes }).expect("opens")
}

fn path(entry: &str) -> PathBuf {
    Path::new(DIR).join(entry)
}

fn first() -> PathBuf {
    path("audit-20000229T123456Z-000001.jsonl")
}

fn second() -> PathBuf {
    path("audit-20000229T123456Z-000002.jsonl")
}

/// 22 bytes for one-digit numbers.
fn line(seq: u64) -> String {
    format!("{{\"v\":1,\"seq\":{seq},\"a\":1}}\n")
}

fn lines(from: u64, to: u64) -> String {
    (from..=to).map(line).collect()
}

fn write(files: &mut LogFiles<FaultyFs>, batch: &str) {
    let mut progress = 0;
    files.write(batch.as_bytes(), &mut progress).expect("writes");
    assert_eq!(progress, batch.len());
}

fn text(fs: &FaultyFs, path: &Path) -> String {
    String::from_utf8(fs.read(path)).expect("ASCII")
}

/// Content of the log directory, in the order of names.
fn all_text(fs: &FaultyFs) -> String {
    fs.files_in(Path::new(DIR)).iter().map(|path| text(fs, path)).collect()
}

#[test]
fn a_directory_is_made_with_one_above_it() {
    let fs = new_fs();
    let (files, opened) = open(&fs, 0);
    assert_eq!(opened.torn_bytes, 0);
    assert_eq!(opened.last_seq.expect("known"), None);
    assert_eq!(files.current_file(), first());

    let deep = Path::new("/a/b/c");
    let error = LogFiles::open(fs, deep, Options { rotate_bytes: 0 }).err().expect("refused");
    assert_eq!(error.kind(), FileErrorKind::DirectoryGone);
    assert_eq!(error.path(), Path::new("/a/b"));
}

#[test]
fn a_full_disk_in_the_middle_of_a_line_doubles_nothing() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    let batch = lines(1, 3);
    let mut progress = 0;
    fs.set_room(Some(30));
    let error = files.write(batch.as_bytes(), &mut progress).expect_err("full");
    assert_eq!(error.kind(), FileErrorKind::DiskFull);
    assert_eq!(error.errno(), Some(libc::ENOSPC));
    assert!(error.to_string().contains("Free space"), "{error}");
    assert_eq!(progress, 30);
    fs.set_room(Some(0));
    files.write(batch.as_bytes(), &mut progress).expect_err("still full");
    assert_eq!(progress, 30);
    fs.set_room(None);
    files.write(batch.as_bytes(), &mut progress).expect("room again");
    assert_eq!(text(&fs, &first()), batch);
    assert_eq!(files.bytes_written(), batch.len() as u64);
}

#[test]
fn a_full_disk_and_then_death_leave_a_torn_line_that_is_cut() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    fs.set_room(Some(30));
    files.write(lines(1, 3).as_bytes(), &mut 0).expect_err("full");
    drop(files);
    fs.restart_process();
    assert_eq!(last_seq(&fs, Path::new(DIR), Path::new("")).expect("known"), Some(1));
    let (mut files, opened) = open(&fs, 0);
    assert_eq!(opened.torn_bytes, 8);
    assert_eq!(opened.last_seq.expect("known"), Some(1));
    fs.set_room(None);
    write(&mut files, &lines(2, 3));
    assert_eq!(text(&fs, &first()), lines(1, 3));
}

#[test]
fn bytes_of_a_failed_write_are_recognised() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    let batch = lines(1, 3);
    let mut progress = 0;
    // The first write(2) of a batch follows fstat, stat and the fstat of the lock.
    fs.fault_after(3, Fault::FailAfter(30, libc::EIO));
    let error = files.write(batch.as_bytes(), &mut progress).expect_err("fails");
    assert_eq!((error.kind(), progress), (FileErrorKind::Io, 0));
    files.write(batch.as_bytes(), &mut progress).expect("works again");
    assert_eq!(text(&fs, &first()), batch);
    assert!(files.take_events().is_empty());
}

#[test]
fn a_batch_that_is_given_up_leaves_no_torn_line() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    fs.set_room(Some(30));
    files.write(lines(1, 3).as_bytes(), &mut 0).expect_err("full");
    fs.set_room(None);
    write(&mut files, &lines(7, 8));
    assert_eq!(text(&fs, &first()), line(1) + &lines(7, 8));
    files.close().expect("closes");
}

#[test]
fn closing_with_an_unfinished_batch_cuts_its_torn_line() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    fs.set_room(Some(30));
    files.write(lines(1, 3).as_bytes(), &mut 0).expect_err("full");
    files.close().expect("closes");
    assert_eq!(text(&fs, &first()), line(1));
}

#[test]
fn an_unlinked_file_is_written_again() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    write(&mut files, &lines(1, 2));
    fs.unlink(&first());
    write(&mut files, &line(3));
    assert_eq!(text(&fs, &first()), lines(1, 3));
    let events = files.take_events();
    assert!(matches!(&events[..], [Event::Recreated { bytes: 44, .. }]), "{events:?}");
}

/// Another process removes the file, or its directory, at two moments while a batch is written.
#[test]
fn a_file_is_written_again_whenever_it_is_removed() {
    for rotate_bytes in [0, 44] {
        for fault in [Fault::Unlink, Fault::RemoveDir] {
            for (at, then) in (0..24).flat_map(|at| (at..24).map(move |then| (at, then))) {
                let fs = new_fs();
                let (mut files, _) = open(&fs, rotate_bytes);
                write(&mut files, &lines(1, 1));
                fs.fault_after(at, fault);
                fs.fault_after(then, fault);
                let batch = line(2);
                let mut progress = 0;
                // An attempt may fail: it is repeated, as the writer does.
                let mut attempts = 0;
                while files.write(batch.as_bytes(), &mut progress).is_err() {
                    attempts += 1;
                    assert!(attempts < 4, "{at} {then}");
                }
                fs.repair();
                files.check().expect("heals");
                let all = all_text(&fs);
                assert!(all.ends_with(&lines(1, 2)), "{fault:?} {at} {then}: {all}");
                let events = files.take_events();
                let moved = events.iter().find(|event| matches!(event, Event::Moved { .. }));
                assert!(moved.is_none(), "{fault:?} {at} {then}: {moved:?}");
            }
        }
    }
}

/// The file was checked before the batch, and deleted while the batch was written. After the last
/// check (operation 4) it is a closed file like others.
#[test]
fn a_file_that_is_deleted_before_it_is_full_is_written_again() {
    for at in 0..5 {
        let fs = new_fs();
        let (mut files, _) = open(&fs, 44);
        write(&mut files, &line(1));
        fs.fault_after(at, Fault::Unlink);
        write(&mut files, &lines(2, 4));
        fs.repair();
        files.check().expect("heals");
        let all = all_text(&fs);
        assert!(all.ends_with(&lines(1, 4)), "{at}: {all}");
    }
}

/// The copy is deleted, too, before the writer leaves the file (operation 14 at the earliest).
#[test]
fn a_file_that_is_deleted_twice_before_it_is_full_is_written_again() {
    for (at, then) in (0..5).flat_map(|at| (at..14).map(move |then| (at, then))) {
        let fs = new_fs();
        let (mut files, _) = open(&fs, 44);
        write(&mut files, &line(1));
        fs.fault_after(at, Fault::Unlink);
        fs.fault_after(then, Fault::Unlink);
        write(&mut files, &lines(2, 4));
        fs.repair();
        files.check().expect("heals");
        let all = all_text(&fs);
        assert!(all.ends_with(&lines(1, 4)), "{at} {then}: {all}");
    }
}

#[test]
fn a_replaced_file_is_written_again_under_the_next_name() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    write(&mut files, &lines(1, 2));
    fs.unlink(&first());
    fs.append(&first(), b"theirs\n");
    write(&mut files, &line(3));
    assert_eq!(text(&fs, &first()), "theirs\n");
    assert_eq!(text(&fs, &second()), lines(1, 3));
}

#[test]
fn a_removed_directory_is_made_again_and_locked() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    write(&mut files, &lines(1, 2));
    fs.remove_dir_all(Path::new(DIR));
    files.check().expect("heals");
    assert_eq!(text(&fs, &first()), lines(1, 2));
    let second = LogFiles::open(fs, Path::new(DIR), Options { rotate_bytes: 0 });
    let error = second.err().expect("refused");
    let pid = Some(std::process::id());
    assert_eq!(error.kind(), FileErrorKind::Locked { holder_pid: pid });
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
}

#[test]
fn a_removed_lock_file_is_made_again() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    fs.unlink(&path(LOCK_FILE));
    write(&mut files, &line(1));
    let second = LogFiles::open(fs, Path::new(DIR), Options { rotate_bytes: 0 });
    assert!(second.is_err());
}

#[test]
fn a_removed_directory_that_another_writer_took_is_not_written() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    fs.remove_dir_all(Path::new(DIR));
    let (other, _) = open(&fs, 0);
    let batch = line(1);
    let mut progress = 0;
    let error = files.write(batch.as_bytes(), &mut progress).expect_err("two writers");
    assert!(matches!(error.kind(), FileErrorKind::Locked { .. }), "{error}");
    other.close().expect("closes");
    files.write(batch.as_bytes(), &mut progress).expect("alone again");
}

#[test]
fn a_directory_replaced_by_a_file_is_an_error_until_it_is_repaired() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    write(&mut files, &line(1));
    fs.remove_dir_all(Path::new(DIR));
    fs.append(Path::new(DIR), b"");
    let batch = line(2);
    let mut progress = 0;
    let error = files.write(batch.as_bytes(), &mut progress).expect_err("no directory");
    assert_eq!((error.kind(), progress), (FileErrorKind::NotADirectory, 0));
    fs.unlink(Path::new(DIR));
    files.write(batch.as_bytes(), &mut progress).expect("put right");
    assert_eq!(text(&fs, &first()), lines(1, 2));
}

#[test]
fn a_rescue_continues_after_a_full_disk() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    write(&mut files, &lines(1, 9));
    fs.unlink(&first());
    fs.set_room(Some(50));
    let batch = lines(10, 11);
    let mut progress = 0;
    let error = files.write(batch.as_bytes(), &mut progress).expect_err("full");
    assert_eq!((error.kind(), progress), (FileErrorKind::DiskFull, 0));
    assert_eq!(fs.read(&first()).len(), 50);
    fs.set_room(None);
    files.write(batch.as_bytes(), &mut progress).expect("room again");
    assert_eq!(text(&fs, &first()), lines(1, 11));
    assert!(!fs.files_in(Path::new(DIR)).contains(&second()));
}

#[test]
fn a_half_made_rescue_that_is_renamed_is_completed_there() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    write(&mut files, &lines(1, 9));
    fs.unlink(&first());
    fs.set_room(Some(50));
    files.check().expect_err("full");
    fs.rename(&first(), Path::new("/elsewhere"));
    fs.set_room(None);
    files.check().expect("completes the copy");
    write(&mut files, &line(10));
    assert_eq!(text(&fs, Path::new("/elsewhere")), lines(1, 9));
    assert_eq!(text(&fs, files.current_file()), line(10));
}

#[test]
fn a_renamed_file_keeps_whole_lines_and_a_new_one_takes_over() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    let batch = lines(1, 3);
    let mut progress = 0;
    fs.set_room(Some(30));
    files.write(batch.as_bytes(), &mut progress).expect_err("full");
    fs.rename(&first(), Path::new("/elsewhere"));
    fs.set_room(None);
    files.write(batch.as_bytes(), &mut progress).expect("continues");
    assert_eq!(text(&fs, Path::new("/elsewhere")), line(1));
    // The directory has no names, but the number was used.
    assert_eq!(text(&fs, &second()), lines(2, 3));
    assert!(matches!(&files.take_events()[..], [Event::Moved { .. }]));
}

#[test]
fn a_truncated_file_is_counted_and_gets_no_hole() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    write(&mut files, &lines(1, 3));
    fs.truncate(&first(), 30);
    write(&mut files, &line(4));
    assert_eq!(text(&fs, &first()), line(1) + &line(4));
    let events = files.take_events();
    let [Event::Truncated { gone_bytes: 44, rewritten_bytes: 0, .. }] = &events[..] else {
        panic!("{events:?}");
    };
}

#[test]
fn truncated_bytes_of_the_running_batch_are_written_again() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    write(&mut files, &line(1));
    let batch = lines(2, 4);
    let mut progress = 0;
    fs.set_room(Some(50));
    files.write(batch.as_bytes(), &mut progress).expect_err("full");
    fs.truncate(&first(), 10);
    fs.set_room(None);
    files.write(batch.as_bytes(), &mut progress).expect("continues");
    assert_eq!(text(&fs, &first()), batch);
    let events = files.take_events();
    let [Event::Truncated { gone_bytes: 22, rewritten_bytes: 50, .. }] = &events[..] else {
        panic!("{events:?}");
    };
}

#[test]
fn foreign_bytes_do_not_tear_a_line() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    write(&mut files, &line(1));
    fs.append(&first(), b"whole\nhalf");
    write(&mut files, &line(2));
    assert_eq!(text(&fs, &first()), line(1) + "whole\n" + &line(2));
    let batch = lines(3, 4);
    let mut progress = 0;
    fs.set_room(Some(30));
    files.write(batch.as_bytes(), &mut progress).expect_err("full");
    fs.set_room(None);
    fs.append(&first(), b"in the middle\n");
    files.write(batch.as_bytes(), &mut progress).expect("continues");
    assert_eq!(text(&fs, &first()), line(1) + "whole\n" + &lines(2, 4));
    let events = files.take_events();
    let [
        Event::Foreign { kept_bytes: 6, removed_bytes: 4, .. },
        Event::Foreign { kept_bytes: 0, removed_bytes: 14, .. },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
}

#[test]
fn files_are_rotated_at_line_ends_only() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 50);
    let long = format!("{{\"v\":1,\"seq\":4,\"a\":\"{}\"}}\n", "x".repeat(100));
    let batch = lines(1, 3) + &long + &lines(5, 6);
    write(&mut files, &batch);
    let contents: Vec<String> = (1..=4)
        .map(|n| text(&fs, &path(&format!("audit-20000229T123456Z-{n:06}.jsonl"))))
        .collect();
    assert_eq!(contents, [lines(1, 2), line(3), long, lines(5, 6)]);
    assert_eq!(files.take_events().len(), 3);
    files.set_rotate_bytes(0);
    write(&mut files, &lines(7, 9));
    assert_eq!(files.take_events().len(), 0);
}

#[test]
fn rotation_on_command_waits_for_the_end_of_the_line() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    files.rotate_now().expect("nothing to do for an empty file");
    assert_eq!(files.current_file(), first());
    let batch = lines(1, 3);
    let mut progress = 0;
    fs.set_room(Some(30));
    files.write(batch.as_bytes(), &mut progress).expect_err("full");
    files.rotate_now().expect("is put off");
    assert_eq!(files.current_file(), first());
    fs.set_room(None);
    files.write(batch.as_bytes(), &mut progress).expect("continues");
    assert_eq!(text(&fs, &first()), lines(1, 2));
    assert_eq!(text(&fs, &second()), line(3));
}

#[test]
fn rotation_by_time() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    fs.set_now_s(951_827_696 + 3_600);
    files.rotate_when_older(3_600);
    assert_eq!(files.current_file(), first(), "an empty file stays");
    write(&mut files, &line(1));
    files.rotate_when_older(0);
    files.rotate_when_older(3_601);
    assert_eq!(files.current_file(), first());
    files.rotate_when_older(3_600);
    let next = path("audit-20000229T133456Z-000002.jsonl");
    assert_eq!(files.current_file(), next);
    write(&mut files, &line(2));
    // A clock that is set back gives the file more time.
    fs.set_now_s(5);
    files.rotate_when_older(3_600);
    assert_eq!(files.current_file(), next);
    // In the middle of a line, the rotation waits for its end.
    fs.set_now_s(951_827_696 + 2 * 3_600);
    let batch = lines(3, 4);
    let mut progress = 0;
    fs.set_room(Some(10));
    files.write(batch.as_bytes(), &mut progress).expect_err("full");
    files.rotate_when_older(3_600);
    assert_eq!(files.current_file(), next);
    fs.set_room(None);
    files.write(batch.as_bytes(), &mut progress).expect("continues");
    assert_eq!(text(&fs, &next), lines(2, 3));
    assert_eq!(text(&fs, &path("audit-20000229T143456Z-000003.jsonl")), line(4));
}

#[test]
fn the_old_file_continues_when_no_new_one_can_be_created() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 30);
    write(&mut files, &line(1));
    for seq in 2..=3 {
        // fstat, stat, fstat of the lock, list; then open.
        fs.fault_after(4, Fault::Fail(libc::ENOSPC));
        write(&mut files, &line(seq));
    }
    assert_eq!(text(&fs, &first()), lines(1, 3));
    let events = files.take_events();
    assert!(matches!(&events[..], [Event::RotateFailed { .. }]), "said once: {events:?}");
    write(&mut files, &line(4));
    assert_eq!(text(&fs, &second()), line(4));
    fs.fault_after(4, Fault::Fail(libc::EROFS));
    let error = files.rotate_now().expect_err("the caller gets the error");
    assert_eq!(error.kind(), FileErrorKind::ReadOnly);
}

#[test]
fn a_limit_on_file_size_moves_the_line_to_a_new_file() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    fs.set_file_bytes_max(Some(60));
    write(&mut files, &lines(1, 3));
    assert_eq!(text(&fs, &first()), lines(1, 2));
    assert_eq!(text(&fs, &second()), line(3));
    fs.set_file_bytes_max(Some(20));
    let batch = line(4);
    let mut progress = 0;
    let error = files.write(batch.as_bytes(), &mut progress).expect_err("no file can hold it");
    assert_eq!(error.kind(), FileErrorKind::FileTooLarge);
    fs.set_file_bytes_max(None);
    files.write(batch.as_bytes(), &mut progress).expect("continues");
}

/// A file system created a file and reported an error; the process died in the old file.
#[test]
fn a_torn_line_behind_an_empty_file_is_cut() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    write(&mut files, &line(1));
    files.rotate_now().expect("rotates");
    drop(files);
    fs.append(&first(), b"{\"v\"");
    assert_eq!(text(&fs, &second()), "");
    let (mut files, opened) = open(&fs, 0);
    assert_eq!(opened.torn_bytes, 4);
    assert_eq!(opened.last_seq.expect("known"), Some(1));
    write(&mut files, &line(2));
    assert_eq!(text(&fs, &first()), line(1));
    assert_eq!(text(&fs, &second()), line(2));
}

#[test]
fn the_last_seq_is_never_guessed() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    write(&mut files, &lines(1, 2));
    drop(files);
    fs.append(&first(), b"theirs\n");
    let (_, opened) = open(&fs, 0);
    let Err(LastSeqError::Unparsable { path: at, offset: 44 }) = opened.last_seq else {
        panic!("{:?}", opened.last_seq);
    };
    assert_eq!(at, first());
    // A line with a valid beginning and end has lost its middle.
    fs.append(&first(), b"{\"v\":1,\"seq\":3,\"a\n");
    let unparsable = last_seq(&fs, Path::new(DIR), Path::new(""));
    assert!(matches!(unparsable, Err(LastSeqError::Unparsable { .. })));
    let list = Path::new(DIR).join(made::LIST);
    fs.append(&list, b"audit-20000301T000000Z-000002\n");
    fs.append(&path("audit-20000301T000000Z-000002.jsonl.zst"), b"\x28\xb5\x2f\xfd");
    let compressed = last_seq(&fs, Path::new(DIR), Path::new(""));
    assert!(matches!(compressed, Err(LastSeqError::Unreadable(_))));
}

#[test]
fn lines_longer_than_a_step_are_found_from_the_end() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    let long = |seq| format!("{{\"v\":1,\"seq\":{seq},\"a\":\"{}\"}}\n", "x".repeat(200_000));
    write(&mut files, &(long(1) + &long(2)));
    drop(files);
    fs.append(&first(), &long(3).as_bytes()[..150_000]);
    let (_, opened) = open(&fs, 0);
    assert_eq!(opened.torn_bytes, 150_000);
    assert_eq!(opened.last_seq.expect("known"), Some(2));
}

#[test]
fn names_keep_their_order_when_the_clock_steps_back() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    write(&mut files, &line(1));
    fs.set_now_s(1);
    files.rotate_now().expect("rotates");
    assert_eq!(files.current_file(), second());
    // Names of foreign files have no effect.
    fs.append(&path("audit-20010101T000000Z-000007.csv"), b"");
    write(&mut files, &line(2));
    files.rotate_now().expect("rotates");
    assert_eq!(files.current_file(), path("audit-20000229T123456Z-000003.jsonl"));
    write(&mut files, &line(3));
    drop(files);
    // Files of which only a rendition is left have used up their numbers, and so have removed ones.
    for file in [first(), second(), path("audit-20000229T123456Z-000003.jsonl")] {
        fs.unlink(&file);
    }
    drop(open(&fs, 0));
    let fourth = path("audit-20000229T123456Z-000004.jsonl");
    fs.unlink(&fourth);
    fs.unlink(&Path::new(DIR).join(made::LIST));
    fs.append(&path("audit-20010101T000000Z-000007.csv"), b"");
    let (files, _) = open(&fs, 0);
    assert_eq!(files.current_file(), path("audit-20010101T000000Z-000008.jsonl"));
}

#[test]
fn half_a_line_is_not_taken() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    let error = files.write(b"no newline", &mut 0).expect_err("refused");
    assert_eq!(error.kind(), FileErrorKind::InvalidBatch);
    assert_eq!(fs.read(&first()).len(), 0);
}

#[test]
fn a_full_newest_file_is_not_reopened_for_writing() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 40);
    write(&mut files, &lines(1, 1));
    files.set_rotate_bytes(0);
    write(&mut files, &line(2));
    drop(files);
    let (files, opened) = open(&fs, 40);
    assert_eq!(files.current_file(), second());
    assert_eq!(opened.last_seq.expect("known"), Some(2));
    assert!(fs.create_dir(Path::new(DIR)).is_err(), "the directory is still the same");
}

#[test]
fn a_file_written_again_does_not_sort_before_a_newer_name() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    write(&mut files, &line(1));
    let newer = path("audit-20000229T123456Z-000002.csv");
    fs.append(&newer, b"");
    fs.unlink(&first());
    write(&mut files, &line(2));
    assert_eq!(files.current_file(), second());
    assert_eq!(text(&fs, files.current_file()), lines(1, 2));
    assert!(!fs.files_in(Path::new(DIR)).contains(&newer), "set aside");
}

#[test]
fn foreign_lines_within_a_batch_are_not_taken_for_its_own() {
    let fs = new_fs();
    let (mut files, _) = open(&fs, 0);
    let batch = lines(1, 3);
    let mut progress = 0;
    fs.set_room(Some(22));
    files.write(batch.as_bytes(), &mut progress).expect_err("full");
    fs.append(&first(), b"whole\n");
    fs.set_room(Some(22));
    files.write(batch.as_bytes(), &mut progress).expect_err("full");
    assert_eq!(progress, 44);
    fs.truncate(&first(), 22);
    fs.set_room(None);
    files.write(batch.as_bytes(), &mut progress).expect("continues");
    assert_eq!(text(&fs, &first()), batch);
}
