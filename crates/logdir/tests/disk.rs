//! Log files on real file systems: a full one, a limited one, and the holder's lock.
//!
//! For a test without privileges, a real "no space left" comes from a tmpfs of two megabytes in a
//! user and mount namespace of its own. If the machine forbids namespaces (some container runtimes
//! do), the same history runs with a limit on file size, which makes the kernel also write short
//! and then fail at an exact byte; the test reports this. Each history runs in a process of its
//! own, because namespaces, limits and deaths belong to processes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tacho_logdir::{Event, FileErrorKind, LogFiles, Opened, Options, RealFs, last_seq};

const DIR_VARIABLE: &str = "TACHO_TEST_DIR";
const METHOD_VARIABLE: &str = "TACHO_TEST_METHOD";

fn open(dir: &Path, rotate_bytes: u64) -> (LogFiles<RealFs>, Opened) {
    LogFiles::open(RealFs, dir, Options { rotate_bytes }).expect("opens")
}

fn lines(from: u64, to: u64, padding: usize) -> String {
    (from..=to)
        .map(|seq| format!("{{\"v\":1,\"seq\":{seq},\"sql\":\"{}\"}}\n", "x".repeat(padding)))
        .collect()
}

fn log_paths(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .expect("lists")
        .map(|entry| entry.expect("lists").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .collect();
    paths.sort();
    paths
}

fn all_text(dir: &Path) -> String {
    log_paths(dir).iter().map(|path| fs::read_to_string(path).expect("reads")).collect()
}

/// One of the histories below, in a process of its own.
fn history(name: &str, dir: &Path, method: &str) -> Command {
    let program = std::env::current_exe().expect("this test");
    let mut command = if method == "tmpfs" {
        let mut command = Command::new("unshare");
        // "$0" is the directory, "$@" the history.
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
        command.arg("mount -t tmpfs -o size=2m tacho \"$0\" && exec \"$@\"").arg(dir);
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    command
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env(DIR_VARIABLE, dir)
        .env(METHOD_VARIABLE, method);
    command
}

fn run(mut command: Command) {
    let output = command.output().expect("starts");
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    // A history that was not found would pass, too.
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{command:?}");
}

fn dir_of_history() -> PathBuf {
    std::env::var_os(DIR_VARIABLE).expect("run by another test").into()
}

fn namespaces_work() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg("mount -t tmpfs -o size=2m tacho /tmp");
    command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Uses up the free space and frees it again.
enum Room {
    Ballast(PathBuf),
    Limit,
}

impl Room {
    fn take(dir: &Path) -> Room {
        if std::env::var(METHOD_VARIABLE).as_deref() == Ok("tmpfs") {
            let path = dir.join("ballast");
            let mut ballast = fs::File::create(&path).expect("is empty");
            while ballast.write_all(&[0; 4096]).is_ok() {}
            // Some pages are left, so that the batch begins, and ends in the middle of a line.
            let bytes = ballast.metadata().expect("is open").len();
            ballast.set_len(bytes - 100_000).expect("is larger");
            Room::Ballast(path)
        } else {
            limit_file_bytes(100_000);
            Room::Limit
        }
    }

    fn give(self) {
        match self {
            Room::Ballast(path) => fs::remove_file(path).expect("removes"),
            Room::Limit => limit_file_bytes(libc::RLIM_INFINITY),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this program is no server: its signals are ours")]
fn limit_file_bytes(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: both calls take plain values and a pointer to a local that outlives them; no
    // other thread of this process writes files meanwhile.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
}

#[test]
#[ignore = "run by others, in a namespace or under a limit"]
fn history_full_disk() {
    let mount = dir_of_history();
    let dir = mount.join("tacho");
    let (mut files, _) = open(&dir, 0);
    let room = Room::take(&mount);
    // One line that is larger than the free space: no rotation can help, and it is torn.
    let batch = lines(1, 1, 300_000) + &lines(2, 500, 100);
    let mut progress = 0;
    let error = files.write(batch.as_bytes(), &mut progress).expect_err("no room");
    assert!(
        matches!(error.kind(), FileErrorKind::DiskFull | FileErrorKind::FileTooLarge),
        "{error}"
    );
    let expected = if matches!(room, Room::Limit) { libc::EFBIG } else { libc::ENOSPC };
    assert_eq!(error.errno(), Some(expected));
    assert!(progress > 0 && progress < 300_000, "{progress}");
    assert_eq!(fs::metadata(files.current_file()).expect("is there").len(), progress as u64);
    files.write(batch.as_bytes(), &mut progress).expect_err("still no room");
    room.give();
    files.write(batch.as_bytes(), &mut progress).expect("room again");
    assert!(all_text(&dir) == batch, "not the batch, once and whole");

    // Full again in the middle of a line, without an orderly end.
    let room = Room::take(&mount);
    let more = lines(501, 502, 400_000);
    let mut progress = 0;
    files.write(more.as_bytes(), &mut progress).expect_err("no room");
    drop(files);
    let torn = progress as u64;
    let (mut files, opened) = open(&dir, 0);
    assert_eq!(opened.torn_bytes, torn);
    assert_eq!(opened.last_seq.expect("known"), Some(500));
    room.give();
    files.write(more.as_bytes(), &mut 0).expect("room again");
    files.close().expect("closes");
    assert!(all_text(&dir) == batch + &more, "not both batches, once and whole");
    assert_eq!(last_seq(&RealFs, &dir, Path::new("")).expect("known"), Some(502));
}

#[test]
fn a_full_disk_loses_nothing() {
    let dir = tempfile::tempdir().expect("makes");
    let method = if namespaces_work() {
        "tmpfs"
    } else {
        eprintln!("namespaces are forbidden here: a limit on file size stands in for ENOSPC");
        "limit"
    };
    run(history("history_full_disk", dir.path(), method));
}

#[test]
fn a_limit_in_the_middle_of_a_line_loses_nothing() {
    let dir = tempfile::tempdir().expect("makes");
    run(history("history_full_disk", dir.path(), "limit"));
}

#[test]
#[ignore = "run by a_limit_on_file_size_moves_lines_to_new_files"]
fn history_file_size_limit() {
    let dir = dir_of_history().join("tacho");
    let (mut files, _) = open(&dir, 0);
    limit_file_bytes(10_000);
    let batch = lines(1, 500, 100);
    files.write(batch.as_bytes(), &mut 0).expect("goes into several files");
    files.close().expect("closes");
    let paths = log_paths(&dir);
    assert_eq!(paths.len(), batch.len().div_ceil(10_000 / 129 * 129));
    for path in paths {
        assert!(fs::read(&path).expect("reads").ends_with(b"\"}\n"), "{}", path.display());
    }
    assert!(all_text(&dir) == batch, "not the batch, once and whole");
}

#[test]
fn a_limit_on_file_size_moves_lines_to_new_files() {
    let dir = tempfile::tempdir().expect("makes");
    run(history("history_file_size_limit", dir.path(), "limit"));
}

#[test]
#[ignore = "run by others, and killed by them"]
fn history_writer() {
    let (mut files, opened) = open(&dir_of_history(), 20_000);
    let mut seq = opened.last_seq.expect("known").unwrap_or(0);
    let mut out = std::io::stdout();
    loop {
        // Some lines are larger than a pipe or a page, so that a kill can tear them.
        let batch = lines(seq + 1, seq + 20, 300);
        files.write(batch.as_bytes(), &mut 0).expect("writes");
        seq += 20;
        writeln!(out, "accepted {seq}").expect("the test reads");
    }
}

/// Starts a writer and waits until it has accepted lines; its output is read from the pipe.
fn start_writer(dir: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child =
        history("history_writer", dir, "plain").stdout(Stdio::piped()).spawn().expect("starts");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.starts_with("accepted") {
        line.clear();
        assert_ne!(output.read_line(&mut line).expect("reads"), 0, "the writer ended");
    }
    (child, output)
}

#[test]
fn a_killed_writer_has_kept_what_it_accepted() {
    let dir = tempfile::tempdir().expect("makes");
    for _ in 0..5 {
        let (mut child, mut output) = start_writer(dir.path());
        child.kill().expect("is there");
        child.wait().expect("ends");
        let mut said = Vec::new();
        output.read_to_end(&mut said).expect("reads");
        let said = String::from_utf8(said).expect("ASCII");
        // The last line of the output may be torn as well.
        let accepted: u64 = said
            .split_inclusive('\n')
            .filter_map(|line| line.strip_prefix("accepted ")?.strip_suffix('\n')?.parse().ok())
            .next_back()
            .unwrap_or(20);
        let (files, opened) = open(dir.path(), 20_000);
        let last = opened.last_seq.expect("known").expect("there are lines");
        assert!(last >= accepted, "{last} < {accepted}");
        files.close().expect("closes");
        assert!(all_text(dir.path()) == lines(1, last, 300), "not every line, once and whole");
    }
}

#[test]
fn a_second_writer_is_refused_with_the_pid_of_the_first() {
    let dir = tempfile::tempdir().expect("makes");
    let (mut child, output) = start_writer(dir.path());
    let error =
        LogFiles::open(RealFs, dir.path(), Options { rotate_bytes: 0 }).err().expect("refused");
    assert_eq!(error.kind(), FileErrorKind::Locked { holder_pid: Some(child.id()) });
    assert!(error.to_string().contains(&format!("process {}", child.id())), "{error}");
    child.kill().expect("is there");
    child.wait().expect("ends");
    drop(output);
    open(dir.path(), 0).0.close().expect("the kernel has released the lock");
}

#[test]
fn modes_and_names() {
    let above = tempfile::tempdir().expect("makes");
    let dir = above.path().join("server").join("tacho");
    let (files, _) = open(&dir, 0);
    let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o7777;
    // The umask can only remove bits.
    assert_eq!(mode(&dir) & !0o750, 0);
    assert_eq!(mode(files.current_file()) & !0o640, 0);
    assert_eq!(mode(files.current_file()) & 0o600, 0o600);
    let name = files.current_file().file_name().and_then(|name| name.to_str()).expect("ASCII");
    assert_eq!(name.len(), "audit-20000229T123456Z-000001.jsonl".len());
    assert!(name.starts_with("audit-2") && name.ends_with("Z-000001.jsonl"), "{name}");

    let deep = above.path().join("a/b/c");
    let error = LogFiles::open(RealFs, &deep, Options { rotate_bytes: 0 }).err().expect("refused");
    assert_eq!(error.kind(), FileErrorKind::DirectoryGone);
}

#[test]
fn housekeeping_by_others_on_a_real_disk() {
    let above = tempfile::tempdir().expect("makes");
    let dir = above.path().join("tacho");
    let (mut files, _) = open(&dir, 0);
    let write = |files: &mut LogFiles<RealFs>, seq| {
        files.write(lines(seq, seq, 10).as_bytes(), &mut 0).expect("writes");
    };
    write(&mut files, 1);
    fs::remove_file(files.current_file()).expect("removes");
    write(&mut files, 2);
    assert_eq!(all_text(&dir), lines(1, 2, 10));

    fs::remove_dir_all(&dir).expect("removes");
    write(&mut files, 3);
    assert_eq!(all_text(&dir), lines(1, 3, 10));

    fs::rename(&dir, above.path().join("old")).expect("renames");
    write(&mut files, 4);
    assert_eq!(all_text(&above.path().join("old")), lines(1, 3, 10));
    assert_eq!(all_text(&dir), lines(4, 4, 10));

    fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(files.current_file())
        .expect("truncates");
    write(&mut files, 5);
    assert_eq!(all_text(&dir), lines(5, 5, 10));
    let size = fs::metadata(files.current_file()).expect("is there");
    assert_eq!(size.size(), lines(5, 5, 10).len() as u64, "no hole");

    fs::remove_dir_all(&dir).expect("removes");
    fs::write(&dir, "in the way").expect("writes");
    let batch = lines(6, 6, 10);
    let mut progress = 0;
    let error = files.write(batch.as_bytes(), &mut progress).expect_err("in the way");
    assert_eq!(error.kind(), FileErrorKind::NotADirectory, "{error}");
    fs::remove_file(&dir).expect("removes");
    files.write(batch.as_bytes(), &mut progress).expect("continues");
    assert_eq!(all_text(&dir), lines(5, 6, 10));

    let events = files.take_events();
    assert!(
        matches!(
            &events[..],
            [
                Event::Recreated { .. },
                Event::Recreated { .. },
                Event::Moved { .. },
                Event::Truncated { .. },
                Event::Recreated { .. }
            ]
        ),
        "{events:?}"
    );
    files.set_durable(true);
    assert!(files.sync().expect("syncs"));
    assert!(!files.sync().expect("nothing to sync"));
    files.close().expect("closes");
}

#[test]
fn only_regular_files_are_written() {
    let above = tempfile::tempdir().expect("makes");
    let dir = above.path().join("tacho");
    let (files, _) = open(&dir, 0);
    let path = files.current_file().to_owned();
    files.close().expect("closes");
    let target = above.path().join("target");
    fs::write(&target, "precious\n").expect("writes");
    fs::remove_file(&path).expect("removes");
    std::os::unix::fs::symlink(&target, &path).expect("links");
    let (mut files, opened) = open(&dir, 0);
    assert!(opened.last_seq.is_err());
    files.write(lines(1, 1, 0).as_bytes(), &mut 0).expect("writes");
    files.close().expect("closes");
    assert_eq!(fs::read_to_string(target).expect("reads"), "precious\n");
}
