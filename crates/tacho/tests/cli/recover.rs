//! `tacho recover` on the arenas of servers that died.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::Output;

use tacho_logdir::{LogFiles, Options, RealFs};
use tacho_recorder::arena_file::{self, ArenaFile};
use tacho_recorder::arena_list;

use crate::server::{Process, ServerDirs};
use crate::support::{stderr, stdout, tacho};

fn recover(place: &ServerDirs, args: &[&str]) -> Output {
    let (log, arenas) = (place.log(), place.arenas());
    let fixed = ["recover", log.to_str().unwrap(), "--arena-directory", arenas.to_str().unwrap()];
    tacho(&[&fixed, args].concat())
}

/// A dead arena with one statement that was answered and one that was not: three lines, with
/// the `start` line that its server had not written.
fn dead_arena(place: &ServerDirs) {
    let mut server = place.server();
    server.start_statement(7, 1, b"SELECT 1");
    server.end_statement(7, 1, b"SELECT 1", 0);
    server.start_statement(7, 2, b"SELECT 2");
}

#[track_caller]
fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}{}", stdout(output), stderr(output));
}

#[test]
fn nothing_is_created_if_nothing_is_found() {
    let place = ServerDirs::new();
    let output = recover(&place, &[]);
    assert_code(&output, 0);
    assert_eq!(stdout(&output), format!("Nothing to recover for {}.\n", place.log().display()));
    assert_eq!(std::fs::read_dir(place.log()).unwrap().count(), 0);
}

#[test]
fn records_of_a_killed_server_are_written_once() {
    let place = ServerDirs::new();
    let server = Process::start(&place);
    let pid = server.pid();
    server.kill();

    let output = recover(&place, &["--dry-run"]);
    assert_code(&output, 0);
    let text = stdout(&output);
    assert!(
        text.contains(&format!("process {pid}: ended, 3 records are not in the log")),
        "{text}"
    );
    assert_eq!((place.arena_count(), place.lines().len()), (1, 0));

    let output = recover(&place, &[]);
    assert_code(&output, 0);
    assert!(stdout(&output).ends_with(&format!("Wrote 3 lines to {}.\n", place.log().display())));
    let lines = place.lines();
    let shown: Vec<_> = lines.iter().map(|l| (&l["seq"], &l["sql"], &l["outcome"])).collect();
    assert_eq!(
        format!("{shown:?}"),
        r#"[(Number(1), Null, Null), (Number(2), String("SELECT 'answered'"), String("ok")), (Number(3), String("SELECT 'deadly'"), String("interrupted"))]"#
    );
    assert_eq!(place.arena_count(), 0);

    let output = recover(&place, &[]);
    assert_code(&output, 0);
    assert!(stdout(&output).starts_with("Nothing to recover"));
    assert_eq!(place.lines().len(), 3);
}

#[test]
fn a_running_server_is_left_alone() {
    let place = ServerDirs::new();
    let server = Process::start(&place);
    let output = recover(&place, &[]);
    assert_code(&output, 0);
    let text = stdout(&output);
    assert!(text.contains(&format!("process {}: running", server.pid())), "{text}");
    assert_eq!((place.arena_count(), place.lines().len()), (1, 0));
}

#[test]
fn a_log_that_another_process_writes_is_not_written() {
    let place = ServerDirs::new();
    dead_arena(&place);
    let _writer = LogFiles::open(RealFs, &place.log(), Options { rotate_bytes: 0 }).unwrap();
    let output = recover(&place, &[]);
    assert_code(&output, 1);
    let text = stderr(&output);
    let pid = std::process::id();
    assert!(text.contains(&format!("process {pid} is writing this log directory")), "{text}");
    assert_eq!(place.arena_count(), 1);
}

/// Data that SQL has appended to the log does not belong to it, with `--dry-run`, too.
#[test]
fn planted_files_do_not_move_the_numbers() {
    let place = ServerDirs::new();
    dead_arena(&place);
    drop(LogFiles::open(RealFs, &place.log(), Options { rotate_bytes: 0 }).unwrap());
    let planted = place.log().join("audit-20991231T235959Z-000007.jsonl");
    std::fs::write(&planted, "{\"v\":1,\"seq\":1000,\"event\":\"start\"}\n").unwrap();
    let output = recover(&place, &["--dry-run"]);
    assert_code(&output, 0);
    assert!(stdout(&output).contains("are not in the log"), "{}", stdout(&output));
    assert!(planted.exists());
    assert_code(&recover(&place, &[]), 0);
    assert!(!planted.exists());
    let aside = place.log().join("set-aside-1-audit-20991231T235959Z-000007.jsonl");
    std::fs::remove_file(aside).unwrap();
    let lines = place.lines();
    let seqs: Vec<u64> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=lines.len() as u64).collect::<Vec<_>>());
    let aside = |line: &&serde_json::Value| line["variable"] == "file_set_aside";
    assert_eq!(lines.iter().filter(aside).count(), 1, "{lines:?}");
}

#[test]
fn several_arenas_are_recovered_oldest_first() {
    let place = ServerDirs::new();
    for sql in [b"SELECT 'a'", b"SELECT 'b'", b"SELECT 'c'"] {
        place.server().start_statement(1, 1, sql);
    }
    assert_code(&recover(&place, &[]), 0);
    let shown: Vec<_> = place
        .lines()
        .iter()
        .map(|line| line["sql"].as_str().or(line["event"].as_str()).unwrap().to_owned())
        .collect();
    assert_eq!(shown, ["start", "SELECT 'a'", "start", "SELECT 'b'", "start", "SELECT 'c'"]);
}

#[test]
fn losses_are_reported_for_every_arena() {
    use std::sync::atomic::Ordering;
    let place = ServerDirs::new();
    for lost in [3, 4] {
        let server = place.server();
        server.file.arena().shared().counters.0.lost_dropped.store(lost, Ordering::Relaxed);
    }
    assert_code(&recover(&place, &["--utc"]), 0);
    let lines = place.lines();
    let told: Vec<_> = lines.iter().filter(|line| line["event"] == "lost").collect();
    assert_eq!(told.iter().map(|l| l["count"].as_u64()).collect::<Vec<_>>(), [Some(3), Some(4)]);
    for line in told {
        // Times in UTC are in the order of their texts.
        assert!(line["start_ts"].as_str() <= line["ts"].as_str(), "{line}");
        assert!(line["start_ts"].is_string(), "{line}");
    }
}

#[test]
fn an_arena_of_another_log_needs_an_option() {
    let place = ServerDirs::new();
    dead_arena(&place);
    let arena = arena_file::files(&place.arenas(), None).unwrap().remove(0);
    let moved = place.root().join("moved");
    std::fs::rename(place.log(), &moved).unwrap();
    let nowhere = place.root().join("nowhere");
    std::fs::create_dir(&nowhere).unwrap();
    let args = [
        "recover",
        moved.to_str().unwrap(),
        "--arena-directory",
        nowhere.to_str().unwrap(),
        "--arena",
        arena.to_str().unwrap(),
    ];
    let output = tacho(&args);
    assert_code(&output, 2);
    assert!(stderr(&output).contains("belongs to the log directory"), "{}", stderr(&output));
    assert!(arena.exists());
    assert_code(&tacho(&[&args[..], &["--moved"]].concat()), 0);
    assert!(!arena.exists());
    std::fs::rename(&moved, place.log()).unwrap();
    assert_eq!(place.lines().len(), 3);
}

#[test]
fn an_arena_that_is_named_and_found_is_recovered_once() {
    let place = ServerDirs::new();
    dead_arena(&place);
    let arena = arena_file::files(&place.arenas(), None).unwrap().remove(0);
    assert_code(&recover(&place, &["--arena", arena.to_str().unwrap()]), 0);
    assert_eq!((place.arena_count(), place.lines().len()), (0, 3));
}

/// A file with the mode of the recorder's files.
fn write_sealed(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o000)).unwrap();
}

#[test]
fn a_list_of_arenas_that_sql_can_have_created_is_reported_and_not_used() {
    let place = ServerDirs::new();
    dead_arena(&place);
    std::fs::create_dir_all(place.log()).unwrap();
    std::fs::write(place.log().join(arena_list::NAME), b"- /x/never.arena\n").unwrap();
    let output = recover(&place, &[]);
    assert_code(&output, 1);
    assert!(stderr(&output).contains("was not made by Tachograph"), "{}", stderr(&output));
    assert_eq!((place.arena_count(), place.lines().len()), (0, 3));
}

#[test]
fn an_unfinished_arena_is_not_a_problem() {
    let place = ServerDirs::new();
    dead_arena(&place);
    let name = format!("{}1-1.arena", arena_file::name_prefix(&place.log()));
    write_sealed(&place.arenas().join(&name), &[0; 4096]);
    assert_code(&recover(&place, &[]), 0);
    assert_eq!((place.arena_count(), place.lines().len()), (0, 3));
}

#[test]
fn damaged_files_are_reported_and_the_others_recovered() {
    let place = ServerDirs::new();
    dead_arena(&place);
    let name = format!("{}1-1.arena", arena_file::name_prefix(&place.log()));
    write_sealed(&place.arenas().join(&name), b"not an arena");
    let output = recover(&place, &[]);
    assert_code(&output, 1);
    assert!(stderr(&output).contains(&format!("{name} is not an arena")), "{}", stderr(&output));
    assert_eq!((place.arena_count(), place.lines().len()), (1, 3));
}

#[test]
fn a_log_with_an_invalid_end_is_not_continued() {
    let place = ServerDirs::new();
    dead_arena(&place);
    let file = place.log().join("audit-20261121T100000Z-000001.jsonl");
    std::fs::write(&file, b"no record\n").unwrap();
    // As the recorder creates them: a file that other users may access is not one of them.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let output = recover(&place, &[]);
    assert_code(&output, 1);
    assert!(stderr(&output).contains("last sequence number unknown"), "{}", stderr(&output));
    assert_eq!(std::fs::read(&file).unwrap(), b"no record\n");
    assert_eq!(place.arena_count(), 1);
}

#[test]
fn missing_paths_are_wrong_usage() {
    let place = ServerDirs::new();
    assert_code(&tacho(&["recover", "/nowhere/tacho"]), 2);
    assert_code(&tacho(&["recover"]), 2);
    let log = place.log();
    let args = ["recover", log.to_str().unwrap(), "--arena-directory", "/nowhere"];
    assert_code(&tacho(&args), 2);
}

/// Files that root creates must be accessible to the server.
#[test]
fn as_root_the_files_are_made_by_the_owner_of_the_directory() {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("not root: nothing to see");
        return;
    }
    const OWNER: u32 = 12_345;
    let place = ServerDirs::new();
    dead_arena(&place);
    let arena = arena_file::files(&place.arenas(), None).unwrap().remove(0);
    // Any user may enter it, as /var/lib, and write to the arenas' directory, as /dev/shm.
    let mode = |path: &Path, bits| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
    };
    mode(&place.root(), 0o755);
    mode(&place.arenas(), 0o1777);

    // Files of another user are not used.
    chown(place.log(), Some(OWNER), Some(OWNER)).unwrap();
    let output = recover(&place, &[]);
    assert_code(&output, 0);
    assert!(stderr(&output).contains("skipped 1 file of other users"), "{}", stderr(&output));
    assert!(stderr(&output).contains("belongs to user id 0"), "{}", stderr(&output));
    assert!(place.lines().is_empty());

    chown(&arena, Some(OWNER), Some(OWNER)).unwrap();
    assert_code(&recover(&place, &[]), 0);
    assert_eq!(place.lines().len(), 3);
    assert!(matches!(ArenaFile::open_dead(&arena), Err(arena_file::ArenaError::Io { .. })));
    for entry in std::fs::read_dir(place.log()).unwrap() {
        let metadata = entry.unwrap().metadata().unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (OWNER, OWNER));
    }
}

#[test]
fn arenas_of_an_earlier_directory_are_found() {
    let place = ServerDirs::new();
    dead_arena(&place);
    let arena = arena_file::files(&place.arenas(), None).unwrap().remove(0);
    arena_list::add(&place.log(), &arena).unwrap();
    let (log, root) = (place.log(), place.root());
    let args = ["recover", log.to_str().unwrap(), "--arena-directory", root.to_str().unwrap()];
    assert_code(&tacho(&args), 0);
    assert_eq!((place.arena_count(), place.lines().len()), (0, 3));
    assert_eq!(arena_list::read(&log).unwrap(), []);
}

#[test]
fn a_missing_arena_is_reported_and_left_to_the_server() {
    let place = ServerDirs::new();
    dead_arena(&place);
    let gone = place.arenas().join("tacho-1-2-3.arena");
    arena_list::add(&place.log(), &gone).unwrap();
    let output = recover(&place, &[]);
    assert_code(&output, 1);
    assert!(stderr(&output).contains("tacho-1-2-3.arena is missing"), "{}", stderr(&output));
    assert_eq!((place.arena_count(), place.lines().len()), (0, 3));
    assert!(arena_list::has(&arena_list::read(&place.log()).unwrap(), &gone));
}
