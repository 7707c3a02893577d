//! Packing through deaths, faults and power failures: at any moment one complete copy is readable,
//! and in the end it is the compressed or encrypted one.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use super::aside::last_seq;
use super::ending::Content;
use super::error::LastSeqError;
use super::faulty::{Fault, FaultyFs, NamesAfter};
use super::form::Form;
use super::fs::Fs;
use super::name::FileName;
use super::pack::{PackError, Packed, Packing};
use super::recipients::Recipients;
use super::seal::SealOptions;
use super::write::{LogFiles, Options};

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

/// Two closed files, and a current one with a line.
fn filled() -> (FaultyFs, LogFiles<FaultyFs>) {
    let fs = FaultyFs::new();
    fs.set_now_s(951_827_696);
    fs.create_dir(Path::new("/data")).expect("an empty file system");
    let mut files = open(&fs);
    for (from, to) in [(471, 500), (501, 502)] {
        files.write(lines(from, to).as_bytes(), &mut 0).expect("writes");
        files.rotate_now().expect("rotates");
    }
    files.write(lines(503, 503).as_bytes(), &mut 0).expect("writes");
    (fs, files)
}

/// The key for encrypted files.
static IDENTITY: LazyLock<age::x25519::Identity> = LazyLock::new(age::x25519::Identity::generate);

fn packing(form: Form) -> Packing {
    let key = IDENTITY.to_public().to_string();
    let recipients = Arc::new(Recipients::parse(&key).expect("a key"));
    let recipients = form.is_encrypted().then_some(recipients);
    Packing { compress: form.is_compressed(), recipients }
}

fn run_to(form: Form, files: &mut LogFiles<FaultyFs>) -> Result<Option<Packed>, PackError> {
    match files.next_to_pack(&packing(form), |_, _| false)? {
        Some(packer) => packer.run(&AtomicBool::new(false)).map(Some),
        None => Ok(None),
    }
}

fn run(files: &mut LogFiles<FaultyFs>) -> Result<Option<Packed>, PackError> {
    run_to(Form::Compressed, files)
}

/// The lines of a file.
fn unpack(form: Form, bytes: &[u8]) -> String {
    let mut source: Box<dyn Read> = Box::new(bytes);
    if form.is_encrypted() {
        let decryptor = age::Decryptor::new(source).expect("an age file");
        let identity: &dyn age::Identity = &*IDENTITY;
        source = Box::new(decryptor.decrypt(std::iter::once(identity)).expect("for us"));
    }
    if form.is_compressed() {
        source = Box::new(zstd::Decoder::new(source).expect("a decoder"));
    }
    let mut text = String::new();
    source.read_to_string(&mut text).expect("complete");
    text
}

/// All lines of the log, as a reader finds them: of a file in several forms, the first one.
fn read(fs: &FaultyFs) -> String {
    let mut text = String::new();
    for number in 1..=3 {
        let stem = format!("audit-20000229T123456Z-{number:06}");
        let there = fs.files_in(Path::new(DIR));
        let is_there = |form: &Form| there.contains(&path(&stem, form.ending()));
        let form = Form::ALL.into_iter().find(is_there).expect("in some form");
        text += &unpack(form, &fs.read(&path(&stem, form.ending())));
    }
    text
}

fn endings(fs: &FaultyFs) -> Vec<String> {
    let names = fs.files_in(Path::new(DIR));
    let names = names.iter().filter_map(|path| path.file_name()?.to_str()?.split_once('.'));
    names.filter(|(stem, _)| !stem.is_empty()).map(|(_, ending)| ending.to_owned()).collect()
}

#[test]
fn closed_files_are_compressed_and_the_last_line_stays_plain() {
    let (fs, mut files) = filled();
    let done = run(&mut files).expect("compresses").expect("the first");
    assert_eq!(done.bytes, lines(471, 500).len() as u64);
    assert!(done.packed_bytes < done.bytes / 10, "{done:?}");
    assert!(run(&mut files).expect("compresses").is_some());
    assert!(run(&mut files).expect("nothing").is_none());
    assert_eq!(endings(&fs), ["jsonl.zst", "jsonl.zst", "jsonl"]);
    assert_eq!(read(&fs), lines(471, 503));
    // The current file is empty: the last line is in the previous one.
    files.rotate_now().expect("rotates");
    assert!(run(&mut files).expect("nothing").is_none());
    files.write(lines(504, 504).as_bytes(), &mut 0).expect("writes");
    assert!(run(&mut files).expect("compresses").is_some());
    assert_eq!(last_seq(&fs, Path::new(DIR), Path::new("")).expect("known"), Some(504));
}

#[test]
fn the_last_line_is_found_in_a_compressed_file() {
    let (fs, mut files) = filled();
    while run(&mut files).expect("compresses").is_some() {}
    files.close().expect("closes");
    // Removed by hand, or by a power failure that lost the newer lines.
    fs.unlink(&path("audit-20000229T123456Z-000003", "jsonl"));
    assert_eq!(last_seq(&fs, Path::new(DIR), Path::new("")).expect("known"), Some(502));
    files = open(&fs);
    files.write(lines(503, 503).as_bytes(), &mut 0).expect("writes");
    files.close().expect("closes");
    let newest = fs.files_in(Path::new(DIR)).pop().expect("a file");
    fs.unlink(&newest);
    // A long line, one that is not a record, a torn one, and no line at all.
    let second = path("audit-20000229T123456Z-000002", "jsonl.zst");
    let put = |text: &str| {
        fs.truncate(&second, 0);
        fs.append(&second, &zstd::encode_all(text.as_bytes(), 1).expect("compresses"));
        last_seq(&fs, Path::new(DIR), Path::new(""))
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
    assert!(matches!(
        last_seq(&fs, Path::new(DIR), Path::new("")),
        Err(LastSeqError::Unreadable(_))
    ));
}

#[test]
fn a_file_stays_unchanged_if_packing_stops_or_it_changes_meanwhile() {
    let (fs, mut files) = filled();
    let wanted = packing(Form::CompressedEncrypted);
    let packer = files.next_to_pack(&wanted, |_, _| false).expect("lists").expect("the first");
    let cancel = AtomicBool::new(true);
    assert!(matches!(packer.run(&cancel), Err(PackError::Cancelled)));
    assert_eq!(endings(&fs), ["jsonl"; 3]);
    cancel.store(false, Ordering::Relaxed);
    // Files that an interrupted attempt left are written anew.
    for form in [Form::Compressed, Form::CompressedEncrypted] {
        fs.append(&path(FIRST, form.new_ending()), b"left by a death");
    }
    // A complete file that was not made from it may be the only complete one.
    let beside = path(FIRST, "jsonl.zst");
    fs.append(&beside, b"not made from it");
    assert!(matches!(packer.run(&cancel), Err(PackError::Beside(path)) if path == beside));
    fs.unlink(&beside);
    packer.run(&cancel).expect("packs");
    assert_eq!(endings(&fs), ["jsonl.zst.age", "jsonl", "jsonl"]);
    // Skipped; the seal does not matter here.
    let second =
        files.next_to_pack(&wanted, |_, _| false).expect("lists").expect("the second").name();
    assert!(files.next_to_pack(&wanted, |name, _| name == second).expect("lists").is_none());
}

#[test]
fn an_encrypted_file_has_the_same_lines_for_its_recipients() {
    let (fs, mut files) = filled();
    let done = run_to(Form::Encrypted, &mut files).expect("encrypts").expect("the first");
    assert_eq!((done.from, done.form), (Form::Plain, Form::Encrypted));
    assert!(done.packed_bytes > done.bytes);
    let bytes = fs.read(&path(FIRST, "jsonl.age"));
    assert!(bytes.starts_with(b"age-encryption.org/v1\n"));
    assert!(!bytes.windows(9).any(|part| part == b"xxxxxxxxx"), "the lines can be read");
    assert!(run(&mut files).expect("compresses").is_some());
    assert_eq!(endings(&fs), ["jsonl.age", "jsonl.zst", "jsonl"]);
    // A compressed file is not compressed again, whatever the setting.
    let done = run_to(Form::Encrypted, &mut files).expect("encrypts").expect("the second");
    assert_eq!((done.from, done.form), (Form::Compressed, Form::CompressedEncrypted));
    assert!(run_to(Form::CompressedEncrypted, &mut files).expect("nothing").is_none());
    assert!(run(&mut files).expect("nothing").is_none());
    assert_eq!(endings(&fs), ["jsonl.age", "jsonl.zst.age", "jsonl"]);
    assert_eq!(read(&fs), lines(471, 503));
}

#[test]
fn the_packed_file_is_as_old_as_its_lines() {
    let (fs, mut files) = filled();
    let written_s = |ending: &str| fs.stat(&path(FIRST, ending)).expect("there").modified_s;
    let before_s = written_s("jsonl");
    fs.set_now_s(fs.now_s() + 1_000_000);
    run_to(Form::CompressedEncrypted, &mut files).expect("packs").expect("the first");
    assert_eq!(written_s("jsonl.zst.age"), before_s);
}

#[test]
fn the_newest_lines_stay_readable() {
    let (fs, mut files) = filled();
    files.rotate_now().expect("rotates");
    let pack_all = |files: &mut LogFiles<FaultyFs>| {
        while run_to(Form::CompressedEncrypted, files).expect("packs").is_some() {}
        endings(&fs)
    };
    assert_eq!(pack_all(&mut files), ["jsonl.zst.age", "jsonl.zst.age", "jsonl", "jsonl"]);
    assert_eq!(last_seq(&fs, Path::new(DIR), Path::new("")).expect("known"), Some(503));
    files.write(lines(504, 504).as_bytes(), &mut 0).expect("writes");
    files.rotate_now().expect("rotates");
    // The newest closed file has only a torn line now: the one before it counts.
    let newest = path("audit-20000229T123456Z-000004", "jsonl");
    fs.truncate(&newest, 0);
    fs.append(&newest, b"{\"v\":1,\"seq\":504,\"a\":\"");
    let packed = ["jsonl.zst.age", "jsonl.zst.age", "jsonl", "jsonl", "jsonl"];
    assert_eq!(pack_all(&mut files), packed);
    assert_eq!(last_seq(&fs, Path::new(DIR), Path::new("")).expect("known"), Some(503));
}

/// Sealed files, all encrypted except the last line, and the name of the last one.
fn sealed_and_encrypted() -> (FaultyFs, PathBuf) {
    let (fs, mut files) = filled();
    let options = SealOptions {
        key_file: PathBuf::from("/data/key"),
        checkpoint_interval_s: 60,
        may_break: true,
    };
    files.seal(&options, 503).expect("seals");
    files.write(lines(504, 505).as_bytes(), &mut 0).expect("writes");
    files.rotate_now().expect("rotates");
    files.write(lines(506, 506).as_bytes(), &mut 0).expect("writes");
    while run_to(Form::CompressedEncrypted, &mut files).expect("packs").is_some() {}
    let current = files.current_file().to_owned();
    files.close().expect("closes");
    (fs, current)
}

#[test]
fn a_sidecar_gives_the_last_number_of_an_encrypted_file() {
    let (fs, current) = sealed_and_encrypted();
    let seq = || last_seq(&fs, Path::new(DIR), Path::new(""));
    assert_eq!(seq().expect("known"), Some(506));
    fs.unlink(&current);
    assert_eq!(seq().expect("known"), Some(505), "by the sidecar of the encrypted file");
    // A sidecar that does not end with the checkpoint of the rotation may not have all lines.
    let sidecar = path("audit-20000229T123456Z-000004", "chain");
    let whole = fs.read(&sidecar);
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        fs.truncate(&sidecar, cut);
        assert!(matches!(seq(), Err(LastSeqError::Encrypted { .. })), "{cut} bytes");
        fs.truncate(&sidecar, 0);
        fs.append(&sidecar, &whole);
    }
    assert_eq!(seq().expect("known"), Some(505));
    fs.unlink(&sidecar);
    let error = seq().expect_err("it is unknown").to_string();
    assert!(error.contains("000004.jsonl.zst.age") && error.contains("age --decrypt"), "{error}");
    // A readable file beside it is enough.
    let encrypted = fs.read(&path("audit-20000229T123456Z-000004", "jsonl.zst.age"));
    let text = unpack(Form::CompressedEncrypted, &encrypted);
    fs.append(&path("audit-20000229T123456Z-000004", "jsonl"), text.as_bytes());
    assert_eq!(seq().expect("known"), Some(505));
}

#[test]
fn the_written_file_is_read_back_and_compared() {
    for form in [Form::Compressed, Form::CompressedEncrypted, Form::Encrypted] {
        let (fs, mut files) = filled();
        let everything = read(&fs);
        let packer = files.next_to_pack(&packing(form), |_, _| false).expect("lists").expect("one");
        // A device that loses a bit after it has reported success.
        fs.spoil(&path(FIRST, form.new_ending()));
        let error = packer.run(&AtomicBool::new(false)).expect_err("it differs");
        assert!(matches!(error, PackError::Differs(_)), "{error}");
        assert_eq!(read(&fs), everything);
        assert_eq!(endings(&fs), ["jsonl"; 3]);
    }
}

/// Returns whether the process died.
fn packing_with(form: Form, skipped: u64, fault: Fault, power: Option<NamesAfter>) -> bool {
    let when = format!("{form:?}, operation {skipped}, {fault:?}, power cut: {power:?}");
    let (fs, mut files) = filled();
    if form == Form::CompressedEncrypted {
        // From a compressed file, too.
        run(&mut files).expect("compresses");
    }
    fs.sync_all();
    let everything = read(&fs);
    fs.fault_after(skipped, fault);
    let result = (0..2).try_for_each(|_| run_to(form, &mut files).map(drop));
    let died = fs.is_dead();
    fs.repair();
    drop(files);
    if died {
        match power {
            Some(names) => fs.cut_power(names),
            None => fs.restart_process(),
        }
    } else if let Err(error) = result {
        assert!(!matches!(error, PackError::Cancelled), "{when}: {error}");
    }
    assert_eq!(read(&fs), everything, "{when}");
    let mut files = open(&fs);
    assert_eq!(last_seq(&fs, Path::new(DIR), Path::new("")).expect("known"), Some(503), "{when}");
    while run_to(form, &mut files).expect("nothing fails any more").is_some() {}
    assert_eq!(endings(&fs), [form.ending(), form.ending(), "jsonl"], "{when}");
    assert_eq!(read(&fs), everything, "{when}");
    died
}

fn at_any_moment(form: Form) {
    for power in [None, Some(NamesAfter::NoChange), Some(NamesAfter::Removals)] {
        for fault in [Fault::Die(0), Fault::Die(1), Fault::Die(200)] {
            let mut skipped = 0;
            while packing_with(form, skipped, fault, power) {
                skipped += 1;
            }
            assert!(skipped > 20, "{skipped}");
        }
    }
    for fault in [Fault::Fail(libc::EIO), Fault::Short(3), Fault::FailAfter(100, libc::ENOSPC)] {
        for skipped in 0..70 {
            assert!(!packing_with(form, skipped, fault, None));
        }
    }
}

#[test]
fn at_any_moment_one_complete_copy_is_there() {
    at_any_moment(Form::Compressed);
}

#[test]
fn at_any_moment_one_complete_copy_is_there_of_what_is_encrypted() {
    at_any_moment(Form::Encrypted);
}

#[test]
fn at_any_moment_one_complete_copy_is_there_of_what_is_compressed_and_encrypted() {
    at_any_moment(Form::CompressedEncrypted);
}

const CSV: &str = "20000229 12:34:56,host,root,localhost,1,2,QUERY,,'SELECT 1',0\n";

#[test]
fn a_rendition_is_packed_by_the_same_rules_and_after_its_log_file() {
    let (fs, mut files) = filled();
    let (second, last) = ("audit-20000229T123456Z-000002", "audit-20000229T123456Z-000003");
    fs.append(&path(FIRST, "csv"), CSV.repeat(100).as_bytes());
    fs.append(&path(second, "new.xml"), b"");
    fs.append(&path(last, "csv"), CSV.as_bytes());
    // Without a log file: of another process.
    fs.append(&path("audit-20000101T000000Z-000001", "csv"), CSV.as_bytes());
    let wanted = packing(Form::CompressedEncrypted);
    // While a file is needed unchanged, both are.
    let next = |files: &mut LogFiles<FaultyFs>, needed_from: u32| {
        let packer = files.next_to_pack(&wanted, |name, _| name.number() >= needed_from);
        packer.expect("lists").map(|packer| (packer.name().number(), packer.content(), packer))
    };
    assert!(next(&mut files, 1).is_none());
    let mut done = Vec::new();
    while let Some((number, content, packer)) = next(&mut files, 3) {
        packer.run(&AtomicBool::new(false)).expect("packs");
        done.push((number, content));
    }
    assert_eq!(done, [(1, Content::Lines), (1, Content::Csv), (2, Content::Lines)]);
    let packed = fs.read(&path(FIRST, "csv.zst.age"));
    assert!(!packed.windows(6).any(|part| part == b"SELECT"));
    assert_eq!(unpack(Form::CompressedEncrypted, &packed), CSV.repeat(100));
    let there = fs.files_in(Path::new(DIR));
    assert!(!there.contains(&path(FIRST, "csv")), "{there:?}");
    assert!(there.contains(&path("audit-20000101T000000Z-000001", "csv")), "{there:?}");
    // The rendition of the current file, and that of the last line.
    assert!(there.contains(&path(last, "csv")));
    files.rotate_now().expect("rotates");
    assert!(next(&mut files, 9).is_none());
    files.write(lines(504, 504).as_bytes(), &mut 0).expect("writes");
    assert_eq!(next(&mut files, 9).map(|(number, ..)| number), Some(3));
}

#[test]
fn at_any_moment_one_complete_copy_is_there_of_a_rendition() {
    let form = Form::CompressedEncrypted;
    let text = CSV.repeat(50);
    for fault in [Fault::Die(0), Fault::Die(1)] {
        let mut skipped = 0;
        loop {
            let (fs, mut files) = filled();
            fs.append(&path(FIRST, "csv"), text.as_bytes());
            assert!(run_to(form, &mut files).expect("packs the lines").is_some());
            fs.sync_all();
            fs.fault_after(skipped, fault);
            let result = run_to(form, &mut files);
            let died = fs.is_dead();
            assert!(died || result.is_ok(), "{skipped}");
            drop(files);
            fs.restart_process();
            let there = fs.files_in(Path::new(DIR));
            let ending = |form: &Form| format!("csv{}", form.suffix());
            let is_there = |form: &Form| there.contains(&path(FIRST, &ending(form)));
            let best = Form::ALL.into_iter().find(is_there).expect("in some form");
            assert_eq!(unpack(best, &fs.read(&path(FIRST, &ending(&best)))), text, "{skipped}");
            let mut files = open(&fs);
            while run_to(form, &mut files).expect("nothing fails any more").is_some() {}
            let left = ["csv.zst.age", "jsonl.zst.age", "jsonl.zst.age", "jsonl"];
            assert_eq!(endings(&fs), left, "{skipped}");
            if !died {
                break;
            }
            skipped += 1;
        }
        assert!(skipped > 15, "{skipped}");
    }
}

/// A file whose original cannot be removed is not packed again; the original is removed when that
/// is possible, if no process has changed it.
#[test]
fn a_file_whose_original_cannot_be_removed_is_packed_once() {
    let (fs, mut files) = filled();
    let plain = path(FIRST, "jsonl");
    fs.forbid(Some(&plain));
    let unremoved = match run(&mut files) {
        Err(PackError::Unremoved { unremoved, .. }) => unremoved,
        other => panic!("{other:?}"),
    };
    assert_eq!(endings(&fs), ["jsonl", "jsonl.zst", "jsonl", "jsonl"]);
    assert_eq!(read(&fs), lines(471, 503));
    let name = FileName::parse(&format!("{FIRST}.jsonl")).expect("a name").0;
    assert!(files.remove_unpacked(name, &unremoved).is_err(), "it still cannot be");
    fs.forbid(None);
    let packed = files.remove_unpacked(name, &unremoved).expect("removes").expect("as it was");
    assert_eq!(packed.bytes, lines(471, 500).len() as u64);
    assert_eq!(endings(&fs), ["jsonl.zst", "jsonl", "jsonl"]);
    assert!(files.remove_unpacked(name, &unremoved).expect("looks").is_none(), "it is gone");
    assert_eq!(read(&fs), lines(471, 503));
}

#[test]
fn a_file_that_was_changed_since_it_was_packed_is_not_removed() {
    for ending in ["jsonl", "jsonl.zst"] {
        let (fs, mut files) = filled();
        let plain = path(FIRST, "jsonl");
        fs.forbid(Some(&plain));
        let Err(PackError::Unremoved { unremoved, .. }) = run(&mut files) else { panic!() };
        fs.forbid(None);
        fs.replace(&path(FIRST, ending), b"another file", false).expect("replaces");
        let name = FileName::parse(&format!("{FIRST}.jsonl")).expect("a name").0;
        assert!(files.remove_unpacked(name, &unremoved).expect("looks").is_none());
        assert!(fs.files_in(Path::new(DIR)).contains(&plain));
    }
}
