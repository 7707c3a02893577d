//! Files that are crafted to exhaust a reader's memory or time. Each command runs with a limited
//! address space, so that a test does not depend on the machine's memory.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Output;

use crate::support::{Log, command, statement, stderr, stdout};
use crate::verify::{SealedLog, assert_code};

const MIB: u64 = 1 << 20;
const TIME: &str = "2026-11-21T10:00:00.000000+00:00";

/// Runs the command with this much address space. A command that needs more is killed by its own
/// allocator, with an exit code that it never returns.
fn within(bytes: u64, args: &[&str]) -> Output {
    let mut command = command(args);
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: setrlimit is async-signal-safe, and `limit` is a copy of plain numbers.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_AS, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    command.output().unwrap()
}

/// A compressed file of a line, gigabytes without a newline, and another line.
fn bomb(path: &Path, first: &str, gigabytes: u64, last: &str) {
    let mut encoder = zstd::Encoder::new(fs::File::create(path).unwrap(), 3).unwrap();
    encoder.write_all(first.as_bytes()).unwrap();
    let zeros = vec![0; MIB as usize];
    for _ in 0..gigabytes * 1024 {
        encoder.write_all(&zeros).unwrap();
    }
    encoder.write_all(last.as_bytes()).unwrap();
    encoder.finish().unwrap();
}

#[test]
fn a_zstd_bomb_is_only_many_bytes() {
    let log = Log::new();
    let path = log.file("audit-20261121T100000Z-000001.jsonl.zst");
    let line = |seq| statement(seq, TIME, &format!("SELECT {seq}")) + "\n";
    bomb(&path, &line(1), 1, &format!("\n{}", line(2)));
    assert!(fs::metadata(&path).unwrap().len() < 200_000);
    let (directory, file) = (log.path().to_str().unwrap(), path.to_str().unwrap());
    for args in [
        &["tail", directory, "--format", "json"][..],
        &["convert", directory, "--format", "cef"],
        &["digest", file],
    ] {
        let output = within(400 * MIB, args);
        assert_code(&output, 1);
        let (text, told) = (stdout(&output), stderr(&output));
        assert_eq!(text.lines().count(), 2, "{args:?}: {text}");
        assert!(told.contains("longer than 134217728 bytes"), "{args:?}: {told}");
        assert!(told.contains("000001.jsonl.zst"), "{args:?}: {told}");
        assert!(args[0] == "digest" || told.contains("at byte "), "{args:?}: {told}");
    }
}

#[test]
fn the_limit_of_a_line_can_be_set() {
    let log = Log::new();
    let name = "audit-20261121T100000Z-000001.jsonl";
    for (seq, bytes) in [(1, 10), (2, 5000), (3, 10)] {
        log.append(name, statement(seq, TIME, &format!("SELECT '{}'", "x".repeat(bytes))) + "\n");
    }
    let shown = |args: &[&str]| {
        let output = log.tail(&[&["--format", "json"], args].concat());
        (output.status.code(), stdout(&output).lines().count())
    };
    assert_eq!(shown(&[]), (Some(0), 3));
    for lines in ["5", "all"] {
        assert_eq!(shown(&["--max-line-size", "4096", "-n", lines]), (Some(1), 2), "{lines}");
        assert_eq!(shown(&["--max-line-size", "8192", "-n", lines]), (Some(0), 3), "{lines}");
    }
    // Lines that are kept until they are shown have a common limit, too.
    assert_eq!(shown(&["--max-line-size", "5500", "-n", "3"]), (Some(0), 3));
    for seq in 4..8 {
        log.append(name, statement(seq, TIME, &format!("SELECT '{}'", "x".repeat(4900))) + "\n");
    }
    let output = log.tail(&["--max-line-size", "5500", "-n", "7", "--format", "json"]);
    assert_eq!((output.status.code(), stdout(&output).lines().count()), (Some(1), 2));
    assert!(stderr(&output).contains("older lines are not shown"), "{}", stderr(&output));
    assert_eq!(shown(&["--max-line-size", "5500", "-n", "2"]), (Some(0), 2));
}

/// Two million lines of header, and one without an end.
#[test]
fn a_crafted_header_of_an_encrypted_file_is_refused() {
    for rest in ["-> X25519 x\nAAAA\n".repeat(120_000), "x".repeat(2_000_000)] {
        let place = SealedLog::new();
        place.write(1);
        let log = place.files("jsonl").remove(0);
        let path = log.with_extension("jsonl.age");
        fs::remove_file(&log).unwrap();
        fs::write(&path, format!("age-encryption.org/v1\n{rest}")).unwrap();
        let directory = place.log();
        let directory = directory.to_str().unwrap();
        let output = within(400 * MIB, &["verify", directory, "--key", &place.public]);
        assert_code(&output, 14);
        assert!(stdout(&output).contains("longer than 4096 lines"), "{}", stdout(&output));
        let output = within(400 * MIB, &["tail", directory, "-n", "all"]);
        assert_code(&output, 1);
        assert!(stderr(&output).contains("longer than 4096 lines"), "{}", stderr(&output));
    }
}

/// Entries that cannot be parsed, entries of all kinds without end, and lines without end.
#[test]
fn tombstones_and_sidecars_are_read_in_bounded_memory() {
    for unit in ["x\n", "frame 1\n", "\n", "x", "— a b\n", "frame 0 9 9 9 00\n\n"] {
        let junk = unit.repeat(4_000_000 / unit.len());
        for name in ["removed.chain", "audit-20991231T235959Z-000009.chain"] {
            let place = SealedLog::new();
            place.write(1);
            fs::write(place.log().join(name), &junk).unwrap();
            let directory = place.log();
            let args = ["verify", directory.to_str().unwrap(), "--key", &place.public];
            let output = within(100 * MIB, &args);
            let code = output.status.code();
            assert!(matches!(code, Some(11..=19)), "{unit:?} {name}: {code:?} {}", stderr(&output));
        }
    }
}

/// A key, a checkpoint and a state are small files, whatever replaces them.
#[test]
fn small_files_are_read_in_bounded_memory() {
    let place = SealedLog::new();
    place.write(1);
    let directory = place.log();
    let directory = directory.to_str().unwrap();
    let huge = place.log().with_file_name("huge");
    fs::File::create(&huge).unwrap().set_len(2048 * MIB).unwrap();
    for file in [huge.to_str().unwrap(), "/dev/zero"] {
        for args in [
            &["verify", directory, "--key", file][..],
            &["verify", directory, "--key", &place.public, "--expect", file],
        ] {
            let output = within(400 * MIB, args);
            assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?}: {output:?}");
            assert!(!stderr(&output).contains("memory"), "{args:?}: {}", stderr(&output));
        }
    }
    let state = huge.to_str().unwrap();
    let to = ["--format", "syslog", "--send", "udp://127.0.0.1:9", "--state", state];
    let output = within(400 * MIB, &[&["convert", directory][..], &to].concat());
    assert!(matches!(output.status.code(), Some(1 | 2)), "{output:?}");
    let told = stderr(&output);
    assert!(told.contains("huge") && !told.contains("memory"), "{told}");
}
