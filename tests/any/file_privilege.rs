//! What an account with the privilege FILE can do to the recorder if `secure_file_priv` is empty:
//! it reads and creates files as the server's user. It must neither read the contents of the arena
//! nor get its own lines recovered into the log.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{self, AtomicU32};

use tacho_probe::{Probe, Thread, tacho_probe_emit, tacho_probe_session};
use tacho_recorder::arena_file::{self, ArenaFile};
use tacho_ring::codec::{Bytes, Event, PRESENT_TEXT, RecordKind};
use tacho_ring::layout::ARENA_BYTES_MIN;
use tacho_ring::sync::Ordering;
use tacho_ring::sys;
use tacho_tests::client::{self, Conn, Queryable as _};
use tacho_tests::recording::Recording;
use tacho_tests::{log, wait};

/// In shared memory as elsewhere, and removed with the test.
struct Arenas(PathBuf);

impl Arenas {
    fn new() -> Arenas {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, atomic::Ordering::Relaxed);
        let name = format!("tacho-file-privilege-{}-{count}", std::process::id());
        let path = Path::new("/dev/shm").join(name);
        fs::DirBuilder::new().mode(0o700).create(&path).expect("a directory");
        Arenas(path)
    }
}

impl Drop for Arenas {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("removes");
    }
}

/// A server where FILE means all files, and an account that has nothing else except its own table.
fn start(arenas: &Path) -> Recording {
    start_with(arenas, &[])
}

fn start_with(arenas: &Path, options: &[&str]) -> Recording {
    let server = Recording::builder()
        .unprivileged()
        .options(options)
        .option("secure-file-priv=")
        .option(format!("tacho-arena-directory={}", arenas.display()))
        .start()
        .expect("starts");
    let mut root = server.connect().expect("connects");
    for sql in [
        "CREATE DATABASE loot",
        "CREATE TABLE loot.t (a LONGBLOB)",
        "CREATE USER mallory@localhost IDENTIFIED BY ''",
        "GRANT FILE ON *.* TO mallory@localhost",
        "GRANT ALL ON loot.* TO mallory@localhost",
    ] {
        root.query_drop(sql).expect(sql);
    }
    server
}

fn mallory(server: &Recording) -> Conn {
    client::connect(server.socket(), "mallory", "loot").expect("connects")
}

/// The result of the server's file functions for a path: the error, or how much they have read.
fn load(conn: &mut Conn, path: &str) -> Result<u64, String> {
    conn.query_drop("DELETE FROM t").expect("deletes");
    let sql = format!("LOAD DATA INFILE '{path}' INTO TABLE t CHARACTER SET binary");
    conn.query_drop(sql).map_err(|error| error.to_string())?;
    let read: Option<u64> = conn.query_first("SELECT SUM(LENGTH(a)) FROM t").expect("an answer");
    Ok(read.unwrap_or(0))
}

/// Names below `/proc/PID` that lead to the arena.
fn ways_through_proc(pid: u32, arena: &Path) -> Vec<String> {
    let mut ways = Vec::new();
    for kind in ["fd", "map_files"] {
        for entry in fs::read_dir(format!("/proc/{pid}/{kind}")).expect("lists") {
            let path = entry.expect("lists").path();
            if fs::read_link(&path).is_ok_and(|target| target == arena) {
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                ways.push(format!("/proc/self/{kind}/{name}"));
            }
        }
    }
    ways
}

#[test]
fn the_error_log_reports_the_files_that_file_can_read() {
    let arenas = Arenas::new();
    let everywhere = start(&arenas.0);
    let error_log = everywhere.error_log();
    assert_eq!(error_log.matches("secure_file_priv is empty").count(), 1, "{error_log}");
    assert!(!error_log.contains("CAP_DAC"), "{error_log}");
    let nowhere = Recording::builder().option("secure-file-priv=/tmp").start().expect("starts");
    assert!(!nowhere.error_log().contains("secure_file_priv"), "{}", nowhere.error_log());
}

#[test]
fn arena_and_signing_key_cannot_be_read() {
    let arenas = Arenas::new();
    let server = start(&arenas.0);
    let mut conn = mallory(&server);
    let arena = PathBuf::from(server.status("Tacho_arena_file"));
    let key = server.data_directory().join("tacho-signing.key");
    assert!(arena.exists() && key.exists(), "{} {}", arena.display(), key.display());
    // Permitted files are read: the functions work here.
    let read = load(&mut conn, "/etc/passwd").expect("reads");
    assert!(read > 0, "LOAD DATA INFILE reads nothing");
    let mut ways = ways_through_proc(server.pid().expect("runs"), &arena);
    assert!(ways.iter().any(|way| way.contains("map_files")), "{ways:?}");
    ways.extend([&arena, &key].map(|path| path.display().to_string()));
    for way in ways {
        let refused = load(&mut conn, &way).expect_err(&way);
        // The system denies it: EACCES. MariaDB 10.11.19 itself denies everything below /proc.
        let by_server = way.starts_with("/proc") && refused.contains("secure-file-priv");
        assert!(by_server || refused.contains("Permission denied"), "{way}: {refused}");
        let sql = format!("SELECT LENGTH(LOAD_FILE('{way}'))");
        // NULL, or an error, by release.
        let loaded = conn.query_first::<Option<u64>, _>(sql).ok().flatten().flatten();
        assert_eq!(loaded, None, "{way}");
    }
}

/// Data that SQL appends to the log neither stops the next start, nor becomes part of the log, nor
/// determines the names of files that the recorder creates meanwhile.
#[test]
fn files_that_sql_creates_in_the_log_directory_are_set_aside() {
    for sealing in [true, false] {
        let arenas = Arenas::new();
        let options: &[&str] = if sealing { &[] } else { &["tacho-signing-key-file="] };
        let mut server = start_with(&arenas.0, options);
        let directory = server.log_directory();
        let forged = "{\"v\":1,\"seq\":1000000,\"event\":\"start\"}\n";
        let planted = [
            ("audit-20991231T235959Z-000007.jsonl", "x\n"),
            ("audit-20991231T235959Z-000008.jsonl.age", "junk"),
            ("audit-20991231T235959Z-000009.jsonl.zst", "junk"),
            ("audit-20991231T235959Z-000010.jsonl", forged),
            ("audit-20991231T235959Z-000010.chain", "junk"),
            (
                "audit-99991231T235959Z-999999.jsonl",
                "{\"v\":1,\"seq\":18446744073709551615,\"event\":\"start\"}\n",
            ),
        ];
        let mut conn = mallory(&server);
        // Half of them before the log gets another file, half of them before the next start.
        let (early, late) = planted.split_at(3);
        plant(&mut conn, &directory, early);
        server.set("tacho_rotate_now = 1");
        wait::until("it rotates", || log_files(&directory) == 2);
        wait::until("the log says so", || text(&directory).matches("file_set_aside").count() == 3);
        plant(&mut conn, &directory, late);
        // Files of the recorder are not made by SQL.
        for name in [".log-files", "removed.chain"] {
            if sealing || name != "removed.chain" {
                let path = directory.join(name);
                let sql = format!("SELECT 'x' INTO DUMPFILE '{}'", path.display());
                conn.query_drop(sql).expect_err("it exists");
            }
        }
        drop(conn);
        server.kill9().expect("kills");
        server.restart().expect("starts again");
        let mut root = server.connect().expect("connects");
        root.query_drop("SELECT 'after the planting'").expect("an answer");
        server.stop().expect("stops");
        let (mut last, mut after_count, mut told) = (0, 0, Vec::new());
        log::read(&directory, |line, text| {
            assert_eq!(line.seq, last + 1, "{text}");
            last = line.seq;
            after_count += u32::from(text.contains("after the planting"));
            if text.contains("file_set_aside") {
                assert!(text.contains("\"run\":"), "{text}");
                told.push(text.to_owned());
            }
        })
        .expect("a log");
        assert_eq!(after_count, 1);
        let error_log = server.error_log();
        for (name, content) in planted {
            let aside = directory.join(format!("set-aside-1-{name}"));
            assert_eq!(fs::read_to_string(&aside).expect(name), content);
            assert_eq!(told.iter().filter(|line| line.contains(name)).count(), 1, "{told:?}");
            assert!(error_log.contains(&format!("set-aside-1-{name}")), "{error_log}");
        }
        let left = names(&directory).into_iter().filter(|name| name.starts_with("audit-"));
        assert_eq!(left.filter(|name| is_planted(name)).count(), 0);
    }
}

fn plant(conn: &mut Conn, directory: &Path, files: &[(&str, &str)]) {
    for (name, content) in files {
        let path = directory.join(name);
        let sql = format!("SELECT '{content}' INTO DUMPFILE '{}'", path.display());
        conn.query_drop(sql).expect("FILE makes files");
        let written = fs::read_to_string(&path).expect("reads");
        // The JSON has no backslash here, so the literal is unchanged.
        assert_eq!(written, *content);
    }
}

/// How many files the log has that the recorder has made.
fn log_files(directory: &Path) -> usize {
    names(directory).iter().filter(|name| name.ends_with(".jsonl") && !is_planted(name)).count()
}

/// The contents of these files.
fn text(directory: &Path) -> String {
    let mut names = names(directory);
    names.retain(|name| name.ends_with(".jsonl") && !is_planted(name));
    names.iter().map(|name| fs::read_to_string(directory.join(name)).expect("reads")).collect()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("lists");
    entries.map(|entry| entry.expect("lists").file_name().into_string().expect("UTF-8")).collect()
}

/// Whether a name is one of those that the tests plant.
fn is_planted(name: &str) -> bool {
    ["set-aside", "audit-2099", "audit-9999"].iter().any(|start| name.starts_with(start))
}

/// The bytes of an arena of this log, as a dead server might have left it, with one statement.
fn forged(directory: &Path, log_directory: &Path, text: &'static [u8]) -> (String, Vec<u8>) {
    let made = ArenaFile::create(directory, ARENA_BYTES_MIN, log_directory, "x").expect("makes");
    made.arena().shared().settings.0.logging.store(1, Ordering::Relaxed);
    let probe = Probe::new(made.arena(), 1);
    let mut thread = Thread::default();
    let event = Event {
        kind: RecordKind::Start as u32,
        present: PRESENT_TEXT,
        conn: 666,
        query_id: 1,
        text_id: 1,
        ts_us: sys::now_us(),
        shown_bytes: text.len() as u32,
        text: Bytes::of(text),
        ..Event::EMPTY
    };
    // SAFETY: everything is valid, and of this thread.
    unsafe {
        let session = tacho_probe_session(&probe, event.conn, event.ts_us);
        tacho_probe_emit(&probe, &mut thread, session, &event);
    }
    let name = format!("{}1000000000000000-1.arena", arena_file::name_prefix(log_directory));
    let bytes = fs::read(made.path()).expect("reads");
    (name, bytes)
}

#[test]
fn an_arena_that_sql_has_made_is_not_believed() {
    let arenas = Arenas::new();
    let mut server = start(&arenas.0);
    let log_directory = server.log_directory().canonicalize().expect("a directory");
    let workshop = tacho_tests::unused_directory("forgery");
    fs::create_dir_all(&workshop).expect("makes");
    let (name, bytes) = forged(&workshop, &log_directory, b"DELETE FROM forged.evidence");
    // The forgery is good: made by the recorder it would be recovered.
    let planted = arenas.0.join(&name);
    let mut sql = String::from("SELECT 0x");
    for byte in &bytes {
        write!(sql, "{byte:02x}").expect("a string grows");
    }
    write!(sql, " INTO DUMPFILE '{}'", planted.display()).expect("a string grows");
    mallory(&server).query_drop(sql).expect("FILE makes files");
    assert_eq!(fs::read(&planted).expect("reads"), bytes);

    server.restart().expect("starts again");
    let mut root = server.connect().expect("connects");
    root.query_drop("SELECT 'after the forgery'").expect("an answer");
    server.stop().expect("stops");
    let (mut forged_count, mut later_count) = (0, 0);
    log::read(&log_directory, |_, text| {
        forged_count += u32::from(text.contains("forged.evidence"));
        later_count += u32::from(text.contains("after the forgery"));
    })
    .expect("a log");
    assert_eq!((forged_count, later_count), (0, 1));
    let error_log = server.error_log();
    assert!(error_log.contains("was not made by Tachograph"), "{error_log}");
    assert!(planted.exists(), "left for who looks into it");
    fs::remove_dir_all(&workshop).expect("removes");
}

/// The same bytes, left by the recorder itself, are recovered: so the test above can fail.
#[test]
fn the_same_arena_made_by_the_recorder_is_recovered() {
    let arenas = Arenas::new();
    let mut server = start(&arenas.0);
    let log_directory = server.log_directory().canonicalize().expect("a directory");
    let workshop = tacho_tests::unused_directory("genuine");
    fs::create_dir_all(&workshop).expect("makes");
    let (name, bytes) = forged(&workshop, &log_directory, b"DELETE FROM genuine.evidence");
    server.stop().expect("stops");
    let planted = arenas.0.join(&name);
    fs::write(&planted, bytes).expect("writes");
    let sealed = std::os::unix::fs::PermissionsExt::from_mode(0o000);
    fs::set_permissions(&planted, sealed).expect("sets");
    server.restart().expect("starts again");
    server.stop().expect("stops");
    let mut found_count = 0;
    log::read(&log_directory, |_, text| {
        found_count += u32::from(text.contains("genuine.evidence"));
    })
    .expect("a log");
    assert_eq!(found_count, 1, "{}", server.error_log());
    fs::remove_dir_all(&workshop).expect("removes");
}
