//! Zone: outside. INSTALL and UNINSTALL under load, and reasons why an INSTALL fails.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::Value;
use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::disk::Disk;
use tacho_tests::log::{self, Invariants};
use tacho_tests::server::{Builder, TestServer};
use tacho_tests::wait;

/// Messages of a server that these tests accept.
const ALLOWED: &[&str] = &["max_open_files", "Aborted connection", "unknown variable 'loose-tacho"];

fn directory(name: &str) -> PathBuf {
    let path = tacho_tests::unused_directory(&format!("uninstall-{name}"));
    fs::create_dir_all(path.join("arenas")).expect("a directory");
    path
}

/// A server whose plugin, once installed, uses only this directory.
fn builder(directory: &Path) -> Builder {
    TestServer::builder()
        .option(format!("loose-tacho-directory={}/log", directory.display()))
        .option(format!("loose-tacho-arena-directory={}/arenas", directory.display()))
        .option("loose-tacho-arena-bytes=2M")
}

fn count_files(directory: &Path) -> usize {
    fs::read_dir(directory).expect("a directory").count()
}

/// Every statement text in the log, and how often; every other line, parsed.
fn read_log(directory: &Path) -> (BTreeMap<String, u64>, Vec<Value>) {
    let mut texts = BTreeMap::new();
    let mut others = Vec::new();
    let mut invariants = Invariants::default();
    log::read(directory, |line, text| {
        invariants.see(line);
        if let (true, Some(sql)) = (line.is_statement(), line.sql.as_deref()) {
            *texts.entry(sql.to_owned()).or_default() += 1;
        }
        if !matches!(&*line.event, "statement" | "connect" | "disconnect") {
            others.push(serde_json::from_str(text).expect("JSON"));
        }
    })
    .expect("a readable log");
    assert_eq!(invariants.finish(), [""; 0]);
    (texts, others)
}

/// Resources of a process that must not grow.
#[derive(Debug)]
struct Footprint {
    resident_kib: u64,
    files: usize,
    writers: usize,
    mappings: usize,
}

impl Footprint {
    fn of(pid: u32) -> Self {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let status = fs::read_to_string(proc.join("status")).expect("status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|text| text.trim().strip_suffix(" kB"));
        let writers = fs::read_dir(proc.join("task"))
            .expect("threads")
            .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
            .filter(|name| name.trim() == "tacho-writer")
            .count();
        let maps = fs::read_to_string(proc.join("maps")).expect("maps");
        Self {
            resident_kib: resident.expect("VmRSS").parse().expect("a number"),
            files: count_files(&proc.join("fd")),
            writers,
            mappings: maps.lines().filter(|line| is_ours(line)).count(),
        }
    }
}

/// Whether a mapping belongs to the library or to an arena. A folder of that name is in many paths.
fn is_ours(mapping: &str) -> bool {
    let file = mapping.rsplit('/').next().unwrap_or(mapping);
    file.contains("tacho") && file != mapping
}

/// Sends statements, and returns those that must be in the log: sent and answered while the plugin
/// was installed, in sessions that began while it was.
///
/// Older sessions are unpredictable. While others still hold a plugin that was uninstalled, the
/// server does not give it to further sessions, and a session that was once refused is refused
/// until it ends (observed on 10.11.19).
fn say_things(
    socket: &Path,
    name: &str,
    statements_per_session: u64,
    phase: &AtomicU64,
    stop: &AtomicBool,
) -> Vec<String> {
    let mut recorded = Vec::new();
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        let began = phase.load(Ordering::SeqCst);
        let mut conn = client::connect(socket, "root", "").expect("a connection");
        for _ in 0..statements_per_session {
            number += 1;
            let text = format!("SELECT '{name}-{number}'");
            conn.query_drop(&text).expect("an answer");
            let now = phase.load(Ordering::SeqCst);
            if now == began && now % 2 == 1 {
                recorded.push(text);
            }
            if stop.load(Ordering::SeqCst) {
                break;
            }
        }
    }
    recorded
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Installs it as soon as it can be.
///
/// By name: while sessions still hold a plugin that was uninstalled, this form answers with an
/// error. `INSTALL SONAME` would answer that all is well and install nothing (seen on 10.11.19).
fn install(conn: &mut Conn) {
    const ALREADY_INSTALLED: u16 = 1968;
    wait::until("the plugin can be installed", || {
        match conn.query_drop("INSTALL PLUGIN tacho SONAME 'tacho'") {
            Ok(()) => true,
            Err(mysql::Error::MySqlError(error)) if error.code == ALREADY_INSTALLED => false,
            Err(error) => panic!("{error}"),
        }
    });
}

/// `make crash` asks for many rounds.
#[test]
fn a_plugin_is_installed_and_removed_under_load() {
    let rounds: u64 = match std::env::var("TACHO_UNINSTALL_ROUNDS") {
        Ok(text) => text.parse().expect("TACHO_UNINSTALL_ROUNDS is a number"),
        Err(_) => 20,
    };
    let place = directory("load");
    let server = builder(&place).start().expect("a server");
    let pid = server.pid().expect("it runs");
    let mut conn = server.connect().expect("a connection");
    let before = Footprint::of(pid);
    let (phase, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut footprints = Vec::new();
    let recorded: Vec<String> = thread::scope(|scope| {
        // Some sessions see several rounds, most only a part of one.
        let threads = [("a", 20), ("b", 50), ("c", 50), ("d", 2000)].map(|(name, count)| {
            let (server, phase, stop) = (&server, &phase, &stop);
            scope.spawn(move || say_things(server.socket(), name, count, phase, stop))
        });
        // Also if a round fails: the clients would continue forever.
        let stopping = StopAtEnd(&stop);
        for _ in 0..rounds {
            install(&mut conn);
            phase.fetch_add(1, Ordering::SeqCst);
            let written = "Tacho_records_written";
            wait::until("statements are recorded", || {
                client::status_number(&mut conn, written).expect("status") > 200
            });
            phase.fetch_add(1, Ordering::SeqCst);
            conn.query_drop("UNINSTALL SONAME 'tacho'").expect("uninstalling");
            footprints.push(Footprint::of(pid));
        }
        drop(stopping);
        threads.into_iter().flat_map(|thread| thread.join().expect("a client")).collect()
    });
    // The last session that holds it releases it.
    drop(conn);
    wait::until("it has ended", || Footprint::of(pid).writers == 0);
    // The thread that waited for that session removes the arena then.
    wait::until("its arena is gone", || count_files(&place.join("arenas")) == 0);
    let after = Footprint::of(pid);
    println!("before {before:?}\nfirst {:?}\nafter {after:?}", footprints[0]);
    assert!(after.files <= before.files + 4, "{before:?} {after:?}");
    // Threads that the server keeps for later sessions may hold the library, but only one.
    assert!(after.mappings <= footprints[0].mappings, "{:?} {after:?}", footprints[0]);
    // The first rounds warm caches up.
    let warm = &footprints[footprints.len() / 4];
    assert!(after.resident_kib < warm.resident_kib + 8192, "{warm:?} {after:?}");

    let (texts, others) = read_log(&place.join("log"));
    let missing: Vec<_> = recorded.iter().filter(|text| !texts.contains_key(*text)).collect();
    let twice: Vec<_> =
        texts.iter().filter(|(text, n)| text.starts_with("SELECT '") && **n > 1).collect();
    println!(
        "{rounds} rounds: {} statements that must be in the log, {} missing, {} doubled",
        recorded.len(),
        missing.len(),
        twice.len()
    );
    assert!(missing.is_empty(), "{} of {}: {:?}", missing.len(), recorded.len(), missing.first());
    assert!(twice.is_empty(), "{twice:?}");
    let count = |event: &str| others.iter().filter(|line| line["event"] == event).count() as u64;
    assert_eq!((count("start"), count("stop"), count("lost")), (rounds, rounds, 0));
    assert!(recorded.len() as u64 > rounds * 10, "{} statements", recorded.len());
    server.assert_clean_log(ALLOWED);
    drop(server);
    fs::remove_dir_all(place).expect("removing");
}

#[test]
fn loaded_at_the_start_it_records_from_the_first_session_on() {
    for option in ["tacho=ON", "tacho=FORCE_PLUS_PERMANENT"] {
        let place = directory(option.trim_start_matches("tacho="));
        let mut server = builder(&place)
            .option("plugin-load-add=tacho.so")
            .option(option)
            .start()
            .expect("a server");
        let mut conn = server.connect().expect("a connection");
        conn.query_drop("SELECT 'first'").expect("an answer");
        let gone = conn.query_drop("UNINSTALL SONAME 'tacho'");
        // Loaded by an option, or permanently: it stays.
        assert_eq!(gone.is_err(), option.ends_with("PERMANENT"), "{option}");
        conn.query_drop("SELECT 'second'").expect("an answer");
        drop(conn);
        server.stop().expect("stopping");
        let (texts, others) = read_log(&place.join("log"));
        assert_eq!(texts.get("SELECT 'first'"), Some(&1));
        assert_eq!(texts.contains_key("SELECT 'second'"), option.ends_with("PERMANENT"));
        let events: Vec<&str> = others.iter().filter_map(|line| line["event"].as_str()).collect();
        assert_eq!(events, ["start", "stop"]);
        assert_eq!(count_files(&place.join("arenas")), 0);
        server.assert_clean_log(ALLOWED);
        drop(server);
        fs::remove_dir_all(place).expect("removing");
    }
}

/// An INSTALL that fails reports the reason to the client and in the error log; when the cause is
/// removed, the next one works.
fn fails_and_then_works(
    name: &str,
    breaks: impl FnOnce(&Path),
    mends: impl FnOnce(&Path),
    says: &str,
) {
    let place = directory(name);
    breaks(&place);
    let server = builder(&place).start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    for _ in 0..3 {
        let error = conn.query_drop("INSTALL SONAME 'tacho'").expect_err("it was installed");
        assert!(
            error.to_string().contains("tacho") || error.to_string().contains("initialization")
        );
        let warnings: Vec<(String, u32, String)> = conn.query("SHOW WARNINGS").expect("warnings");
        let found = warnings.iter().any(|(_, _, text)| text.contains(says));
        assert!(found, "{error}: {warnings:?}");
    }
    let complaints = server.complaints(ALLOWED);
    assert!(complaints.iter().any(|line| line.contains(says)), "{complaints:?}");
    assert_eq!(Footprint::of(server.pid().expect("it runs")).mappings, 0);
    mends(&place);
    conn.query_drop("INSTALL SONAME 'tacho'").expect("installing");
    conn.query_drop("SELECT 'works'").expect("an answer");
    conn.query_drop("UNINSTALL SONAME 'tacho'").expect("uninstalling");
    drop(conn);
    wait::until("it is gone", || count_files(&place.join("arenas")) == 0);
    let (texts, _) = read_log(&place.join("log"));
    assert_eq!(texts.get("SELECT 'works'"), Some(&1));
    drop(server);
    fs::remove_dir_all(place).expect("removing");
}

#[test]
fn a_log_directory_that_is_a_file_is_refused() {
    fails_and_then_works(
        "file",
        |place| fs::write(place.join("log"), "").expect("writing"),
        |place| fs::remove_file(place.join("log")).expect("removing"),
        "in the place of the log directory",
    );
}

#[test]
fn a_missing_arena_directory_is_refused() {
    fails_and_then_works(
        "arena",
        |place| fs::remove_dir(place.join("arenas")).expect("removing"),
        |place| fs::create_dir(place.join("arenas")).expect("making"),
        "No such file or directory",
    );
}

#[test]
fn a_log_directory_of_another_server_is_refused() {
    let place = directory("locked");
    let one = builder(&place).start().expect("a server");
    let two = builder(&place).start().expect("another server");
    let mut first = one.connect().expect("a connection");
    first.query_drop("INSTALL SONAME 'tacho'").expect("installing");
    let mut second = two.connect().expect("a connection");
    second.query_drop("INSTALL SONAME 'tacho'").expect_err("it was installed");
    let warnings: Vec<(String, u32, String)> = second.query("SHOW WARNINGS").expect("warnings");
    let holder = format!("process {}", one.pid().expect("it runs"));
    assert!(warnings.iter().any(|(_, _, text)| text.contains(&holder)), "{warnings:?}");
    assert!(two.complaints(ALLOWED).iter().any(|line| line.contains(&holder)));
    drop(first);
    drop(one);
    second.query_drop("INSTALL SONAME 'tacho'").expect("installing");
    drop(second);
    drop(two);
    fs::remove_dir_all(place).expect("removing");
}

#[test]
fn a_full_arena_file_system_is_refused() {
    let place = directory("shm");
    let disk = Disk::small(&place.join("small"), 1 << 20).expect("a disk");
    if !disk.is_small() {
        tacho_tests::without_namespaces("a full file system of arenas is not tested");
        return;
    }
    let server = disk
        .server(TestServer::builder())
        .option(format!("loose-tacho-directory={}/log", place.display()))
        .option(format!("loose-tacho-arena-directory={}/small", place.display()))
        .option("loose-tacho-arena-bytes=2M")
        .start()
        .expect("a server");
    let mut conn = server.connect().expect("a connection");
    conn.query_drop("INSTALL SONAME 'tacho'").expect_err("it was installed");
    let warnings: Vec<(String, u32, String)> = conn.query("SHOW WARNINGS").expect("warnings");
    assert!(warnings.iter().any(|(_, _, text)| text.contains("No space left")), "{warnings:?}");
    assert!(server.complaints(ALLOWED).iter().any(|line| line.contains("allocating the arena")));
    drop(conn);
    drop(server);
    drop(disk);
    fs::remove_dir_all(place).expect("removing");
}

#[test]
fn the_statement_that_installs_it_is_in_the_log() {
    let place = directory("itself");
    let server = builder(&place).start().expect("a server");
    let mut older = server.connect().expect("a connection");
    older.query_drop("SELECT 'before'").expect("an answer");
    let mut conn = server.connect().expect("a connection");
    conn.query_drop("INSTALL SONAME 'tacho'").expect("installing");
    conn.query_drop("SELECT 'after'").expect("an answer");
    older.query_drop("SELECT 'in an older session'").expect("an answer");
    conn.query_drop("UNINSTALL SONAME 'tacho'").expect("uninstalling");
    drop((conn, older));
    wait::until("it is gone", || count_files(&place.join("arenas")) == 0);
    let (texts, _) = read_log(&place.join("log"));
    assert_eq!(texts.get("INSTALL SONAME 'tacho'"), Some(&1), "{texts:?}");
    assert_eq!(texts.get("SELECT 'in an older session'"), Some(&1), "{texts:?}");
    assert_eq!(texts.get("UNINSTALL SONAME 'tacho'"), Some(&1), "{texts:?}");
    drop(server);
    fs::remove_dir_all(place).expect("removing");
}

#[test]
fn every_variable_takes_effect_and_is_noted() {
    let place = directory("variables");
    let log_directory = place.join("log");
    let server = builder(&place).option("plugin-load-add=tacho.so").start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    let changes = [
        ("tacho_logging", "OFF", "ON"),
        ("tacho_flush_interval_ms", "20", "100"),
        ("tacho_flush_bytes", "1000", "262144"),
        ("tacho_overflow", "TIMEOUT", "BLOCK"),
        ("tacho_overflow_timeout_ms", "7", "1000"),
        ("tacho_timestamps", "UTC", "SYSTEM"),
        ("tacho_rotate_bytes", "4096", "268435456"),
        ("tacho_rotate_interval_s", "1", "0"),
        ("tacho_digest", "OFF", "ON"),
        ("tacho_redact", "LITERALS", "SECRETS"),
        ("tacho_max_statement_bytes", "30", "0"),
    ];
    for (name, value, default) in changes {
        conn.query_drop(format!("SET GLOBAL {name}={value}")).expect("setting");
        match name {
            "tacho_logging" => conn.query_drop("SELECT 'unheard'").expect("an answer"),
            "tacho_timestamps" => conn.query_drop("SELECT 'in UTC'").expect("an answer"),
            "tacho_max_statement_bytes" => {
                conn.query_drop(format!("SELECT '{}'", "long".repeat(50))).expect("an answer");
                // Cut when it is written.
                wait::until("it is written", || {
                    let files = log::files(&log_directory).expect("files");
                    let file = files.last().expect("a file");
                    fs::read_to_string(file).expect("a file").contains("SELECT 'longlong")
                });
            }
            // The last statement is in the current file, which then is idle.
            "tacho_rotate_interval_s" => {
                let files_before = log::files(&log_directory).expect("files").len();
                wait::until("a file is old", || {
                    log::files(&log_directory).expect("files").len() > files_before
                });
            }
            "tacho_rotate_bytes" => {
                let files_before = log::files(&log_directory).expect("files").len();
                wait::until("a file is full", || {
                    conn.query_drop("SELECT 'more and more'").expect("an answer");
                    log::files(&log_directory).expect("files").len() > files_before
                });
            }
            _ => {}
        }
        let restored = if default.parse::<u64>().is_ok() {
            default.to_owned()
        } else {
            format!("'{default}'")
        };
        conn.query_drop(format!("SET GLOBAL {name}={restored}")).expect("setting");
    }
    let files_before = log::files(&log_directory).expect("files").len();
    conn.query_drop("SET GLOBAL tacho_rotate_now=1").expect("setting");
    assert_eq!(client::variable(&mut conn, "tacho_rotate_now").expect("a variable"), "OFF");
    wait::until("a new file is begun", || {
        log::files(&log_directory).expect("files").len() == files_before + 1
    });
    for (name, value) in [("tacho_directory", "'/tmp'"), ("tacho_arena_bytes", "1048576")] {
        conn.query_drop(format!("SET GLOBAL {name}={value}")).expect_err("a read-only variable");
    }
    drop(conn);
    drop(server);
    let (texts, others) = read_log(&log_directory);
    let noted: HashSet<(&str, &str, &str)> = others
        .iter()
        .filter(|line| line["event"] == "config")
        .filter_map(|line| {
            let text = |name: &str| line[name].as_str();
            Some((text("variable")?, text("old_value")?, text("new_value")?))
        })
        .collect();
    for (name, value, default) in changes {
        assert!(noted.contains(&(name, default, value)), "{name}: {noted:?}");
        assert!(noted.contains(&(name, value, default)), "{name}: {noted:?}");
    }
    assert!(!texts.contains_key("SELECT 'unheard'"));
    assert!(texts.keys().any(|text| text.starts_with("SELECT 'longlong") && text.len() <= 30));
    fs::remove_dir_all(place).expect("removing");
}
