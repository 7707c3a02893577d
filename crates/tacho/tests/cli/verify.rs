//! `tacho keygen`, `tacho verify` and `tacho checkpoint` on logs that the recorder's library has
//! written.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use tacho_logdir::{FileErrorKind, Fs as _, LogFiles, Options, RealFs, SealOptions};

use crate::support::{by_columns, command, stderr, stdout, tacho};

pub struct SealedLog {
    pub directory: tempfile::TempDir,
    pub public: String,
}

impl SealedLog {
    /// A directory with a key from `tacho keygen`.
    pub fn new() -> SealedLog {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("key");
        let output = tacho(&["keygen", "--output", key.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        SealedLog { public: stdout(&output).trim().to_owned(), directory }
    }

    fn key(&self) -> PathBuf {
        self.directory.path().join("key")
    }

    pub fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn open(&self) -> LogFiles {
        let (mut files, opened) =
            LogFiles::open(RealFs, &self.log(), Options { rotate_bytes: 0 }).unwrap();
        let options =
            SealOptions { key_file: self.key(), checkpoint_interval_s: 60, may_break: true };
        files.seal(&options, opened.last_seq.unwrap().unwrap_or(0)).unwrap();
        files
    }

    /// Lines of two files, stopped.
    pub fn write(&self, from: u64) {
        let mut files = self.open();
        for seq in from..from + 6 {
            let line = format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"t\",\"event\":\"statement\"}}\n");
            files.write(line.as_bytes(), &mut 0).unwrap();
            if seq == from + 3 {
                files.rotate_now().unwrap();
            }
        }
        files.close().unwrap();
    }

    pub fn verify(&self, args: &[&str]) -> Output {
        let log = self.log();
        tacho(&[&["verify", log.to_str().unwrap(), "--key", &self.public], args].concat())
    }

    /// Files of the log with an ending, oldest first.
    pub fn files(&self, ending: &str) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = fs::read_dir(self.log())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|found| found == ending))
            .filter(|path| path.file_stem().is_some_and(|stem| stem != "removed"))
            .collect();
        paths.sort();
        paths
    }
}

#[track_caller]
pub fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}{}", stdout(output), stderr(output));
}

#[test]
fn a_key_is_made_once_and_kept_secret() {
    let place = SealedLog::new();
    assert!(place.public.starts_with("tachograph/"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.key()), 0o600);
    let public = fs::read_to_string(place.key().with_extension("pub")).unwrap();
    assert_eq!(public.trim(), place.public);
    let before = fs::read(place.key()).unwrap();
    let output = tacho(&["keygen", "--output", place.key().to_str().unwrap()]);
    assert_code(&output, 2);
    assert!(stderr(&output).contains("not overwritten"));
    assert_eq!(fs::read(place.key()).unwrap(), before);
}

#[test]
fn an_untouched_log_is_ok_by_any_form_of_the_key() {
    let place = SealedLog::new();
    place.write(1);
    place.write(7);
    let output = place.verify(&[]);
    assert_code(&output, 0);
    let text = stdout(&output);
    assert!(text.starts_with("OK: ") && text.contains("12 records, the last one 12"), "{text}");
    let log = place.log();
    for key in [place.key(), place.key().with_extension("pub")] {
        let (log, key) = (log.to_str().unwrap(), key.to_str().unwrap());
        assert_code(&tacho(&["verify", log, "--key", key]), 0);
    }
    let output = place.verify(&["--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["state"], &json["records"]), (&"ok".into(), &12.into()));
    assert_eq!((&json["closed"], &json["checkpoint"]["seq"]), (&true.into(), &12.into()));
    // The previous secrets are destroyed, and the newest is only with its owner.
    assert_eq!(fs::metadata(place.key()).unwrap().permissions().mode() & 0o777, 0);
}

#[test]
fn compressed_files_are_read_as_well() {
    let place = SealedLog::new();
    place.write(1);
    let first = &place.files("jsonl")[0];
    let text = fs::read(first).unwrap();
    let compressed = zstd::encode_all(&text[..], 3).unwrap();
    let target = PathBuf::from(format!("{}.zst", first.display()));
    fs::remove_file(first).unwrap();
    fs::write(&target, &compressed).unwrap();
    assert_code(&place.verify(&[]), 0);
    // Not the bytes of the container, but those of the lines.
    fs::write(&target, zstd::encode_all(&text[..], 19).unwrap()).unwrap();
    assert_code(&place.verify(&[]), 0);
    fs::write(&target, &compressed[..compressed.len() - 3]).unwrap();
    assert_code(&place.verify(&[]), 14);
    let other = String::from_utf8(text).unwrap().replace("statement", "Statement");
    fs::write(&target, zstd::encode_all(other.as_bytes(), 3).unwrap()).unwrap();
    assert_code(&place.verify(&[]), 14);
}

#[test]
fn files_of_a_hub_are_read_as_well() {
    let place = SealedLog::new();
    place.write(1);
    let first = &place.files("jsonl")[0];
    let text = fs::read(first).unwrap();
    let target = PathBuf::from(format!("{}.tcol", first.display()));
    fs::remove_file(first).unwrap();
    let stored = by_columns(&text);
    fs::write(&target, &stored).unwrap();
    assert_code(&place.verify(&[]), 0);
    // Of each byte one bit. Some bits mean nothing; then the lines are the same.
    let without_meaning = |at: &usize| {
        let mut changed = stored.clone();
        changed[*at] ^= 1 << (at % 8);
        fs::write(&target, &changed).unwrap();
        match place.verify(&[]).status.code() {
            Some(14) => false,
            Some(0) => true,
            code => panic!("byte {at}: {code:?}"),
        }
    };
    let places: Vec<usize> = (0..stored.len()).filter(without_meaning).collect();
    assert!(places.len() < stored.len() / 20, "{places:?} of {}", stored.len());
    fs::write(&target, &stored[..stored.len() - 1]).unwrap();
    assert_code(&place.verify(&[]), 14);
    let other = String::from_utf8(text).unwrap().replace("statement", "Statement");
    fs::write(&target, by_columns(other.as_bytes())).unwrap();
    assert_code(&place.verify(&[]), 14);
}

#[test]
fn each_state_has_its_exit_code() {
    let code = |deed: fn(&SealedLog), code: i32| {
        let place = SealedLog::new();
        place.write(1);
        deed(&place);
        let output = place.verify(&["--format", "json"]);
        assert_code(&output, code);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["exit_code"], code);
    };
    let edit = |path: &Path, from: &str, to: &str| {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains(from));
        fs::write(path, text.replacen(from, to, 1)).unwrap();
    };
    code(
        |place| {
            let mut files = place.open();
            let line = "{\"v\":1,\"seq\":7,\"ts\":\"t\",\"event\":\"lost\",\"count\":2}\n";
            files.write(line.as_bytes(), &mut 0).unwrap();
            files.close().unwrap();
        },
        10,
    );
    let add = |place: &SealedLog, line: &str| {
        let path = &place.files("jsonl")[1];
        let text = fs::read_to_string(path).unwrap();
        fs::write(path, text + line).unwrap();
    };
    // Killed, and not restarted.
    code(
        |place| {
            let mut files = place.open();
            files.write(b"{\"v\":1,\"seq\":7}\n", &mut 0).unwrap();
        },
        11,
    );
    // Killed, and lines added, which the next start finds.
    let place = SealedLog::new();
    place.write(1);
    drop(place.open());
    add(&place, "{\"v\":1,\"seq\":7}\n");
    place.open().close().unwrap();
    let output = place.verify(&[]);
    assert_code(&output, 18);
    assert!(stdout(&output).contains("-000002.jsonl, record 7: recovered"), "{}", stdout(&output));
    // Stopped, and lines added.
    let place = SealedLog::new();
    place.write(1);
    add(&place, "{\"v\":1,\"seq\":7}\n");
    assert_code(&place.verify(&[]), 14);
    code(
        |place| {
            fs::remove_file(&place.files("jsonl")[0]).unwrap();
            fs::remove_file(&place.files("chain")[0]).unwrap();
        },
        12,
    );
    code(
        |place| {
            let path = &place.files("jsonl")[1];
            let text = fs::read(path).unwrap();
            fs::write(path, &text[..text.len() - 1]).unwrap();
        },
        13,
    );
    code(
        |place| fs::remove_dir_all(place.log()).and_then(|()| fs::create_dir(place.log())).unwrap(),
        15,
    );
    code(
        |place| {
            fs::remove_file(place.key()).unwrap();
            place.write(7);
        },
        16,
    );
    let place = SealedLog::new();
    place.write(1);
    edit(&place.files("jsonl")[0], "\"seq\":2", "\"seq\":3");
    let output = place.verify(&[]);
    assert_code(&output, 14);
    let text = stdout(&output);
    assert!(text.contains("-000001.jsonl, line 2, record 2: not what was sealed"), "{text}");
}

#[test]
fn a_checkpoint_that_was_kept_finds_an_older_copy() {
    let place = SealedLog::new();
    place.write(1);
    let copy = place.directory.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(place.log()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    place.write(7);
    let checkpoint = place.directory.path().join("kept");
    let output = tacho(&["checkpoint", place.log().to_str().unwrap()]);
    assert_code(&output, 0);
    fs::write(&checkpoint, &output.stdout).unwrap();
    let expect = ["--expect", checkpoint.to_str().unwrap()];
    assert_code(&place.verify(&expect), 0);
    fs::remove_dir_all(place.log()).unwrap();
    fs::rename(copy, place.log()).unwrap();
    assert_code(&place.verify(&[]), 0);
    let output = place.verify(&expect);
    assert_code(&output, 13);
    assert!(stdout(&output).contains("records 7 to 12"), "{}", stdout(&output));
    fs::write(&checkpoint, "nonsense").unwrap();
    assert_code(&place.verify(&expect), 2);
}

#[test]
fn a_log_that_is_not_sealed_is_never_ok() {
    let place = SealedLog::new();
    let (mut files, _) = LogFiles::open(RealFs, &place.log(), Options { rotate_bytes: 0 }).unwrap();
    files.write(b"{\"v\":1,\"seq\":1}\n", &mut 0).unwrap();
    files.close().unwrap();
    assert_code(&place.verify(&[]), 15);
    assert_code(&tacho(&["checkpoint", place.log().to_str().unwrap()]), 1);
    assert_code(&tacho(&["verify", "/nonexistent", "--key", &place.public]), 2);
    assert_code(&tacho(&["verify", place.log().to_str().unwrap(), "--key", "nonsense"]), 2);
    assert_code(&tacho(&["verify", place.log().to_str().unwrap()]), 2);
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let place = SealedLog::new();
    for mode in [0o640, 0o604] {
        fs::set_permissions(place.key(), fs::Permissions::from_mode(mode)).unwrap();
        let (mut files, _) =
            LogFiles::open(RealFs, &place.log(), Options { rotate_bytes: 0 }).unwrap();
        let options =
            SealOptions { key_file: place.key(), checkpoint_interval_s: 60, may_break: true };
        let error = files.seal(&options, 0).unwrap_err();
        assert_eq!(error.kind(), FileErrorKind::KeyNotSecret);
        assert!(
            error.to_string().contains("others can read it, or made it. The signing key"),
            "{error}"
        );
    }
    fs::set_permissions(place.key(), fs::Permissions::from_mode(0o600)).unwrap();
    place.write(1);
    assert_code(&place.verify(&[]), 0);
}

/// Secrets that could not be stored are not left behind.
#[test]
fn a_key_file_that_cannot_be_written_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    fs::create_dir(&key).unwrap();
    fs::write(key.join("in"), "the way").unwrap();
    RealFs.replace(&key, b"secret", true).unwrap_err();
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

/// The sidecar was replaced by something that is not a file.
#[test]
fn a_sidecar_that_is_not_a_file_is_a_finding_and_not_a_failure() {
    type Put = fn(&Path);
    let kinds: [Put; 2] = [
        |path| fs::create_dir(path).unwrap(),
        |path| {
            let status = std::process::Command::new("mkfifo").arg(path).status().unwrap();
            assert!(status.success());
        },
    ];
    for put in kinds {
        let place = SealedLog::new();
        place.write(1);
        let newest = place.files("chain").pop().unwrap();
        fs::remove_file(&newest).unwrap();
        put(&newest);
        assert_code(&place.verify(&[]), 14);
        assert_code(&tacho(&["checkpoint", place.log().to_str().unwrap()]), 1);
        // A start accepts it, too.
        let mut files = place.open();
        files.write(b"{\"v\":1,\"seq\":7}\n", &mut 0).unwrap();
        files.close().unwrap();
        assert_code(&place.verify(&[]), 14);
    }
}

/// `tacho verify … | head -1` must not turn a changed log or bundle into a success.
#[test]
fn the_exit_code_is_that_of_the_log_even_if_nothing_reads_the_result() {
    let place = SealedLog::new();
    place.write(1);
    let log = place.files("jsonl").remove(0);
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replacen("statement", "statemend", 1)).unwrap();
    let bundle = place.directory.path().join("bundle.tar");
    fs::write(&bundle, "no bundle").unwrap();
    for path in [place.log(), bundle] {
        for format in ["text", "json"] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let mut command = command(&["verify", path.to_str().unwrap(), "--key", &place.public]);
            let status = command.args(["--format", format]).stdout(writer).status().unwrap();
            assert_eq!(status.code(), Some(14), "{} {format}", path.display());
        }
    }
}

/// The rest of what is said about bundles is tested in `crates/evidence` and `tests/any`.
#[test]
fn options_of_a_bundle_are_not_for_a_directory_and_the_reverse() {
    let place = SealedLog::new();
    place.write(1);
    let log = place.log();
    let log = log.to_str().unwrap();
    assert_code(&tacho(&["verify", log, "--hub-key", &place.public]), 2);
    let bundle = place.directory.path().join("bundle.tar");
    fs::write(&bundle, "no bundle").unwrap();
    let path = bundle.to_str().unwrap();
    let output = tacho(&["verify", path, "--hub-key", &place.public]);
    assert_code(&output, 14);
    assert!(stdout(&output).contains("not an evidence bundle"), "{}", stdout(&output));
    let checkpoint = place.directory.path().join("checkpoint");
    let newest = tacho(&["checkpoint", log]);
    fs::write(&checkpoint, newest.stdout).unwrap();
    let expect = checkpoint.to_str().unwrap();
    assert_code(&tacho(&["verify", path, "--key", &place.public, "--expect", expect]), 2);
    assert_code(&tacho(&["verify", path]), 2);
}
