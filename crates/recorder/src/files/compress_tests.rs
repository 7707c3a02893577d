//! Compression through deaths, faults and power failures: at any moment one complete copy is there
//! to be read, and in the end it is the small one.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::compress::{CompressError, Compressed};
use super::faulty::{Fault, FaultyFs, NamesAfter};
use super::fs::Fs;
use super::log::{LogFiles, Options};
use super::tail::{LastSeqError, last_seq};

const DIR: &str = "/data/tacho";
const FIRST: &str = "audit-20000229T123456Z-000001";

fn path(stem: &str, ending: &str) -> PathBuf {
    Path::new(DIR).join(format!("{stem}.{ending}"))
}

fn open(fs: &FaultyFs) -> LogFiles<FaultyFs> {
    let options = Options { rotate_bytes: 0 };
    LogFiles::open(fs.clone(), Path::new(DIR), options).expect("opens").0
}

fn lines(from: u64, to: u64) -> String {
    (from..=to)
        .map(|seq| format!("{{\"v\":1,\"seq\":{seq},\"a\":\"{}\"}}\n", "x".repeat(50)))
        .collect()
}

/// Two closed files and one with a line.
fn filled() -> (FaultyFs, LogFiles<FaultyFs>) {
    let fs = FaultyFs::new();
    fs.set_now_s(951_827_696);
    fs.create_dir(Path::new("/data")).expect("an empty file system");
    let mut files = open(&fs);
    for (from, to) in [(1, 500), (501, 502)] {
        files.write(lines(from, to).as_bytes(), &mut 0).expect("writes");
        files.rotate_now().expect("rotates");
    }
    files.write(lines(503, 503).as_bytes(), &mut 0).expect("writes");
    (fs, files)
}

fn run(files: &LogFiles<FaultyFs>) -> Result<Option<Compressed>, CompressError> {
    match files.next_to_compress(|_| false)? {
        Some(compressor) => compressor.run(&AtomicBool::new(false)).map(Some),
        None => Ok(None),
    }
}

/// All lines of the log, as a reader finds them: of a file in two forms, the plain one.
fn read(fs: &FaultyFs) -> String {
    let mut text = String::new();
    for number in 1..=3 {
        let stem = format!("audit-20000229T123456Z-{number:06}");
        let there = fs.files_in(Path::new(DIR));
        if there.contains(&path(&stem, "jsonl")) {
            text += std::str::from_utf8(&fs.read(&path(&stem, "jsonl"))).expect("lines");
        } else {
            let bytes = fs.read(&path(&stem, "jsonl.zst"));
            let mut decoder = zstd::Decoder::new(&bytes[..]).expect("a decoder");
            decoder.read_to_string(&mut text).expect("complete");
        }
    }
    text
}

fn endings(fs: &FaultyFs) -> Vec<String> {
    let names = fs.files_in(Path::new(DIR));
    let names = names.iter().filter_map(|path| path.file_name()?.to_str()?.split_once('.'));
    names.filter(|(stem, _)| !stem.is_empty()).map(|(_, ending)| ending.to_owned()).collect()
}

#[test]
fn closed_files_become_smaller_and_the_last_line_stays_plain() {
    let (fs, mut files) = filled();
    let done = run(&files).expect("compresses").expect("the first");
    assert_eq!(done.bytes, lines(1, 500).len() as u64);
    assert!(done.compressed_bytes < done.bytes / 10, "{done:?}");
    assert!(run(&files).expect("compresses").is_some());
    assert!(run(&files).expect("nothing").is_none());
    assert_eq!(endings(&fs), ["jsonl.zst", "jsonl.zst", "jsonl"]);
    assert_eq!(read(&fs), lines(1, 503));
    // The current file is empty: the last line is in the one before.
    files.rotate_now().expect("rotates");
    assert!(run(&files).expect("nothing").is_none());
    files.write(lines(504, 504).as_bytes(), &mut 0).expect("writes");
    assert!(run(&files).expect("compresses").is_some());
    assert_eq!(last_seq(&fs, Path::new(DIR)).expect("known"), Some(504));
}

#[test]
fn the_last_line_is_found_in_a_compressed_file() {
    let (fs, mut files) = filled();
    while run(&files).expect("compresses").is_some() {}
    files.close().expect("closes");
    // By hand, or by a power failure that took the newer lines.
    fs.unlink(&path("audit-20000229T123456Z-000003", "jsonl"));
    assert_eq!(last_seq(&fs, Path::new(DIR)).expect("known"), Some(502));
    files = open(&fs);
    files.write(lines(503, 503).as_bytes(), &mut 0).expect("writes");
    files.close().expect("closes");
    let newest = fs.files_in(Path::new(DIR)).pop().expect("a file");
    fs.unlink(&newest);
    // A long line, one that is no record, a torn one, and no line at all.
    let second = path("audit-20000229T123456Z-000002", "jsonl.zst");
    let put = |text: &str| {
        fs.truncate(&second, 0);
        fs.append(&second, &zstd::encode_all(text.as_bytes(), 1).expect("compresses"));
        last_seq(&fs, Path::new(DIR))
    };
    let long = format!("{}{{\"v\":1,\"seq\":7,\"a\":\"{}\"}}\n", lines(6, 6), "y".repeat(300_000));
    assert_eq!(put(&long).expect("known"), Some(7));
    assert_eq!(put(&(long.clone() + "{\"v\":1,\"seq\":8")).expect("known"), Some(7));
    let offset = long.len() as u64;
    for bad in ["theirs\n", "{\"v\":1,\"seq\":8,\"a\n", "\n"] {
        let Err(LastSeqError::Unparsable { offset: at, .. }) = put(&(long.clone() + bad)) else {
            panic!("{bad:?} has no number")
        };
        assert_eq!(at, offset);
    }
    assert_eq!(put("").expect("the file before"), Some(500));
    put(&long).expect("known");
    fs.truncate(&second, 30);
    assert!(matches!(last_seq(&fs, Path::new(DIR)), Err(LastSeqError::Unreadable(_))));
}

#[test]
fn what_is_stopped_or_changed_meanwhile_is_as_it_was() {
    let (fs, files) = filled();
    let compressor = files.next_to_compress(|_| false).expect("lists").expect("the first");
    let cancel = AtomicBool::new(true);
    assert!(matches!(compressor.run(&cancel), Err(CompressError::Cancelled)));
    assert_eq!(endings(&fs), ["jsonl"; 3]);
    cancel.store(false, Ordering::Relaxed);
    // What a death has left is written anew.
    let new = path(FIRST, "jsonl.zst.new");
    fs.append(&new, b"left by a death");
    compressor.run(&cancel).expect("compresses");
    assert_eq!(endings(&fs), ["jsonl.zst", "jsonl", "jsonl"]);
    // Passed over, and the seal has nothing to do with it here.
    let second = files.next_to_compress(|_| false).expect("lists").expect("the second").name();
    assert!(files.next_to_compress(|name| name == second).expect("lists").is_none());
}

/// Returns whether the process died.
fn compression_with(skipped: u64, fault: Fault, power: Option<NamesAfter>) -> bool {
    let when = format!("operation {skipped}, {fault:?}, power cut: {power:?}");
    let (fs, files) = filled();
    fs.sync_all();
    let everything = read(&fs);
    fs.fault_after(skipped, fault);
    let result = (0..2).try_for_each(|_| run(&files).map(drop));
    let died = fs.is_dead();
    fs.repair();
    drop(files);
    if died {
        match power {
            Some(names) => fs.cut_power(names),
            None => fs.restart_process(),
        }
    } else if let Err(error) = result {
        assert!(!matches!(error, CompressError::Cancelled), "{when}: {error}");
    }
    assert_eq!(read(&fs), everything, "{when}");
    let files = open(&fs);
    assert_eq!(last_seq(&fs, Path::new(DIR)).expect("known"), Some(503), "{when}");
    while run(&files).expect("nothing fails any more").is_some() {}
    assert_eq!(endings(&fs), ["jsonl.zst", "jsonl.zst", "jsonl"], "{when}");
    assert_eq!(read(&fs), everything, "{when}");
    died
}

#[test]
fn at_any_moment_one_complete_copy_is_there() {
    for power in [None, Some(NamesAfter::NoChange), Some(NamesAfter::Removals)] {
        for fault in [Fault::Die(0), Fault::Die(1), Fault::Die(200)] {
            let mut skipped = 0;
            while compression_with(skipped, fault, power) {
                skipped += 1;
            }
            assert!(skipped > 20, "{skipped}");
        }
    }
    for fault in [Fault::Fail(libc::EIO), Fault::Short(3), Fault::FailAfter(100, libc::ENOSPC)] {
        for skipped in 0..60 {
            assert!(!compression_with(skipped, fault, None));
        }
    }
}
