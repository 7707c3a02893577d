//! Foreign files beside those of the recorder: other forms, links, strange names.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::support::{Following, Log, by_columns, statement, stderr, stdout, tacho};
use crate::verify::{SealedLog, assert_code};

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

/// The first log file and its text.
fn first(place: &SealedLog) -> (PathBuf, String) {
    let path = place.files("jsonl").remove(0);
    let text = fs::read_to_string(&path).unwrap();
    (path, text)
}

#[test]
fn a_second_form_with_other_lines_is_found() {
    let compressed = |text: &str| zstd::encode_all(text.as_bytes(), 3).unwrap();
    let place = SealedLog::new();
    place.write(1);
    let (path, text) = first(&place);
    let put = |suffix: &str, bytes: &[u8]| fs::write(with_suffix(&path, suffix), bytes).unwrap();
    // The state after a crash of the packing.
    put(".zst", &compressed(&text));
    let output = place.verify(&[]);
    assert_code(&output, 0);
    assert!(stdout(&output).contains("note: audit-"), "{}", stdout(&output));
    put(".zst", &compressed(&text.replacen("statement", "Statement", 1)));
    let output = place.verify(&["--format", "json"]);
    assert_code(&output, 14);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = &json["findings"][0];
    assert!(finding["file"].as_str().unwrap().ends_with(".jsonl.zst"), "{json}");
    assert_eq!(finding["line"], 1, "{json}");
    put(".zst", b"junk");
    assert_code(&place.verify(&[]), 14);
    fs::remove_file(with_suffix(&path, ".zst")).unwrap();
    put(".tcol", &by_columns(text.as_bytes()));
    assert_code(&place.verify(&[]), 0);
    put(".tcol", &by_columns(text.replacen("statement", "Statement", 1).as_bytes()));
    assert_code(&place.verify(&[]), 14);
    fs::remove_file(with_suffix(&path, ".tcol")).unwrap();
    put(".age", b"junk");
    assert_code(&place.verify(&[]), 14);
    // Encrypted to an unknown key.
    let other = age::x25519::Identity::generate();
    put(".age", &age::encrypt(&other.to_public(), b"anything").unwrap());
    assert_code(&place.verify(&[]), 19);
    // And to a known one.
    let key = place.directory.path().join("identity");
    fs::write(&key, age::secrecy::ExposeSecret::expose_secret(&other.to_string())).unwrap();
    let identity = ["--identity", key.to_str().unwrap()];
    assert_code(&place.verify(&identity), 14);
    put(".age", &age::encrypt(&other.to_public(), text.as_bytes()).unwrap());
    assert_code(&place.verify(&identity), 0);
}

/// A log, a sidecar, the tombstones: a link to a valid text is not one of them.
#[test]
fn links_are_not_followed() {
    let place = SealedLog::new();
    place.write(1);
    let elsewhere = place.directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(place.log().join("removed.chain"), "").unwrap();
    assert_code(&place.verify(&[]), 0);
    for ending in ["jsonl", "chain"] {
        for path in place.files(ending) {
            let target = elsewhere.join(path.file_name().unwrap());
            fs::rename(&path, &target).unwrap();
            symlink(&target, &path).unwrap();
            let output = place.verify(&[]);
            assert_code(&output, 14);
            assert!(stdout(&output).contains("symbolic link"), "{}", stdout(&output));
            fs::remove_file(&path).unwrap();
            fs::rename(&target, &path).unwrap();
        }
    }
    assert_code(&place.verify(&[]), 0);
    // A hard link is the same file, as in backups.
    fs::hard_link(&place.files("jsonl")[0], elsewhere.join("hard")).unwrap();
    assert_code(&place.verify(&[]), 0);
    // The user may name a directory that is a link.
    let link = place.directory.path().join("link");
    symlink(place.log(), &link).unwrap();
    assert_code(&tacho(&["verify", link.to_str().unwrap(), "--key", &place.public]), 0);
}

/// Whatever has the name of a newer log file, a sidecar or an older one: there is a result.
#[test]
fn nothing_in_the_directory_ends_the_verification() {
    type Put = fn(&Path);
    let kinds: [(&str, Put); 4] = [
        ("dangling link", |path| symlink("/nonexistent/file", path).unwrap()),
        ("link to itself", |path| symlink(path.file_name().unwrap(), path).unwrap()),
        ("socket", |path| drop(UnixListener::bind(path).unwrap())),
        ("directory", |path| fs::create_dir(path).unwrap()),
    ];
    for (what, put) in kinds {
        for name in [
            "audit-20991231T235959Z-000009.jsonl",
            "audit-20991231T235959Z-000009.jsonl.zst",
            "audit-20991231T235959Z-000009.jsonl.age",
            "audit-20991231T235959Z-000009.chain",
            "audit-20000101T000000Z-000001.jsonl",
            "removed.chain",
        ] {
            let place = SealedLog::new();
            place.write(1);
            let path = place.log().join(name);
            if name == "removed.chain" {
                fs::remove_file(&path).unwrap();
            }
            put(&path);
            let output = place.verify(&[]);
            assert_eq!(output.status.code(), Some(14), "{what} {name}: {}", stderr(&output));
            let text = stdout(&output);
            assert!(text.contains(name) && text.contains("6 records"), "{what} {name}: {text}");
        }
    }
}

#[test]
fn names_that_only_look_like_log_files_are_named() {
    let place = SealedLog::new();
    place.write(1);
    let (_, text) = first(&place);
    let stray = place.log().join("audit-20991231T235959Z-0000009.jsonl");
    fs::write(&stray, &text).unwrap();
    let output = place.verify(&[]);
    assert_code(&output, 15);
    assert!(stdout(&output).contains("-0000009.jsonl: looks like"), "{}", stdout(&output));
    fs::rename(&stray, place.log().join("kept.jsonl")).unwrap();
    let output = place.verify(&[]);
    assert_code(&output, 0);
    assert!(stdout(&output).contains("note: kept.jsonl: not a file"), "{}", stdout(&output));
}

/// Readers do not show lines that `verify` skips.
#[test]
fn names_that_only_look_like_log_files_are_not_read() {
    let log = Log::new();
    for (seq, number) in [(1, "000001"), (2, "0000002"), (3, "2")] {
        let line = statement(seq, "2026-11-21T10:00:00.000000+00:00", &format!("SELECT {seq}"));
        log.append(&format!("audit-20261121T100000Z-{number}.jsonl"), line + "\n");
    }
    let text = stdout(&log.tail(&["-n", "all", "--format", "json"]));
    assert!(text.contains("SELECT 1") && text.lines().count() == 1, "{text}");
}

/// Commands that read a directory of the log skip links, report them, and exit with 1; a link that
/// the user names is read.
#[test]
fn readers_do_not_follow_links() {
    let log = Log::new();
    let line = statement(1, "2026-11-21T10:00:00.000000+00:00", "SELECT 1") + "\n";
    log.append("audit-20261121T100000Z-000001.jsonl", &line);
    let elsewhere = tempfile::tempdir().unwrap();
    let secret = elsewhere.path().join("secret");
    fs::write(&secret, statement(2, "2026-11-21T10:00:01.000000+00:00", "SECRET") + "\n").unwrap();
    let newest = log.file("audit-20261121T100001Z-000002.jsonl");
    symlink(&secret, &newest).unwrap();
    let path = log.path().to_str().unwrap();
    for args in [
        &["tail", path, "--format", "json"][..],
        &["tail", path, "--format", "json", "-n", "all"],
        &["convert", path, "--format", "cef"],
        &["slowlog", path],
    ] {
        let output = tacho(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", stderr(&output));
        assert!(stdout(&output).contains("SELECT 1"), "{args:?}: {}", stdout(&output));
        assert!(!stdout(&output).contains("SECRET"), "{args:?}: {}", stdout(&output));
        assert!(stderr(&output).contains("symbolic link"), "{args:?}: {}", stderr(&output));
    }
    let named = tacho(&["tail", newest.to_str().unwrap(), "--format", "json"]);
    assert!(named.status.success() && stdout(&named).contains("SECRET"), "{}", stderr(&named));

    // The real newest file is followed, and a link that appears later is reported once.
    let following = Following::start(log.path(), &["-n", "1"]);
    assert!(following.next().contains("SELECT 1"));
    let more = statement(3, "2026-11-21T10:00:02.000000+00:00", "SELECT 3") + "\n";
    let newer = log.file("audit-20261121T100002Z-000003.jsonl");
    fs::write(&newer, &more).unwrap();
    assert!(following.next().contains("SELECT 3"));
    symlink(&secret, log.file("audit-20261121T100003Z-000004.jsonl")).unwrap();
    log.append("audit-20261121T100004Z-000005.jsonl", more.replace("SELECT 3", "SELECT 5"));
    assert!(following.next().contains("SELECT 5"));
    let (_, rest, errors) = following.end("-INT");
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!(errors.matches("000004.jsonl: a symbolic link").count(), 1, "{errors}");
}
