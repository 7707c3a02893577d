//! Zone: outside. `tacho_format` on a real server: the files beside the log are equal to the output
//! of `tacho convert`, under load, through switching, UNINSTALL, `kill -9` and a full disk.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tacho_chain::key::VerifierKey;
use tacho_chain::verify::LogState;
use tacho_tests::client::{self, Conn, Queryable as _};
use tacho_tests::converted::{wait_for_all_formats, wait_for_format};
use tacho_tests::disk::Disk;
use tacho_tests::log::bytes;
use tacho_tests::sealed::{assert_state, check};
use tacho_tests::server::{Builder, TestServer};
use tacho_tests::tagged::{self, Load};
use tacho_tests::{program, wait};

/// The setting, the ending of the files, and the name of the format for `tacho convert`.
type Format = [&'static str; 3];

const CSV: Format = ["CSV", "csv", "csv"];
const JSON: Format = ["PERCONA_JSON", "percona.json", "percona-json"];
const NEW: Format = ["PERCONA_NEW", "new.xml", "percona-new"];
const OLD: Format = ["PERCONA_OLD", "old.xml", "percona-old"];

const INSTALL: &str = "INSTALL PLUGIN tacho SONAME 'tacho'";

const HEADER: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<AUDIT>\n";
const FOOTER: &str = "</AUDIT>\n";

fn builder() -> Builder {
    TestServer::builder()
        .option("plugin-load-add=tacho")
        .option("loose-tacho-rotate-bytes=30000")
        .option("loose-tacho-tables=ON")
}

fn log_of(server: &TestServer) -> PathBuf {
    server.data_directory().join("tacho")
}

fn key_of(server: &TestServer) -> VerifierKey {
    let log = server.error_log();
    let (_, rest) = log.split_once("its public key").expect("a message with the key");
    let (_, rest) = rest.split_once(" is ").expect("the key");
    rest.split_whitespace().next().expect("the key").parse().expect("a public key")
}

/// Names of files with this ending, without it; oldest first.
fn stems(log: &Path, ending: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(log).expect("the log").map(|entry| entry.expect("an entry"));
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let ending = format!(".{ending}");
    names.filter_map(|name| name.strip_suffix(&ending).map(str::to_owned)).collect()
}

fn tacho(arguments: &[&str]) -> Output {
    Command::new(program("tacho")).args(arguments).output().expect("it runs")
}

/// The output of `tacho convert` for a log, or for one of its files.
#[track_caller]
fn converted(place: &Path, format: Format) -> String {
    let output = tacho(&["convert", "--format", format[2], place.to_str().expect("a path")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A text without the frame of XML files, and without the second in which the file was begun: that
/// is part of Percona's `record`, and a conversion takes it from the first record.
fn bare(text: &str, format: Format) -> String {
    let text = text.strip_prefix(HEADER).unwrap_or(text);
    let text = text.strip_suffix(FOOTER).unwrap_or(text);
    let keys = ["\"record\":\"", "<RECORD>", "RECORD=\""];
    let shorten = |line: &str| {
        let at = keys.iter().find_map(|key| Some(line.find(key)? + key.len()));
        let Some(begin) = at.filter(|_| format != CSV) else { return line.to_owned() };
        let digits = line[begin..].find('_').expect("a number and a time");
        format!(
            "{}{}",
            &line[..begin + digits],
            &line[begin + digits + "_2026-11-22T03:49:26".len()..]
        )
    };
    text.lines().map(|line| shorten(line) + "\n").collect()
}

/// All text beside the log in one format. Each file must be complete.
#[track_caller]
fn renditions(log: &Path, format: Format) -> String {
    let mut all = String::new();
    for stem in stems(log, format[1]) {
        let text = fs::read_to_string(log.join(format!("{stem}.{}", format[1]))).expect("UTF-8");
        if format[1].ends_with("xml") {
            assert!(text.starts_with(HEADER) && text.ends_with(FOOTER), "{stem}");
        }
        all.push_str(&bare(&text, format));
    }
    all
}

#[track_caller]
fn assert_same(found: &str, wanted: &str) {
    for (index, (found, wanted)) in found.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(found, wanted, "line {index}");
    }
    assert_eq!(found.lines().count(), wanted.lines().count());
}

/// Demands that all of the log is there in one format.
#[track_caller]
fn assert_whole(log: &Path, format: Format) {
    let logs: BTreeSet<String> = &stems(log, "jsonl") | &stems(log, "jsonl.zst");
    assert_eq!(stems(log, format[1]), logs, "each file of the log has one");
    assert_same(&renditions(log, format), &bare(&converted(log, format), format));
}

fn load(conn: &mut Conn, round: &str, count: usize) {
    for number in 0..count {
        let text = "x<&'\"\\,".repeat(20).replace('\'', "''").replace('\\', "\\\\");
        conn.query_drop(format!("SELECT '{round} {number}',\n '{text}'")).expect("an answer");
    }
}

/// Changes a setting that closes the current file.
fn begin_another(conn: &mut Conn, log: &Path, setting: &str) {
    let newest = || stems(log, "jsonl").pop_last();
    let before = newest();
    conn.query_drop(format!("SET GLOBAL {setting}")).expect("an answer");
    wait::until("the next file has begun", || newest() != before);
}

/// Closes the current file, and writes another line: the last file of all stays unchanged.
fn close_current(conn: &mut Conn, log: &Path) {
    begin_another(conn, log, "tacho_rotate_now = 1");
    conn.query_drop("DO 1").expect("an answer");
}

/// A load that is in the log when this returns: lines that are not yet written when the format is
/// switched, or when the server is killed, go to the next file.
#[track_caller]
fn written_load(conn: &mut Conn, log: &Path, round: &str, count: usize) {
    load(conn, round, count);
    let last = format!("SELECT '{round} {}'", count - 1);
    let is_there = |stem: &String| {
        fs::read_to_string(log.join(format!("{stem}.jsonl"))).expect("UTF-8").contains(&last)
    };
    wait::until("it is written", || stems(log, "jsonl").iter().any(is_there));
}

/// Under load with rotations, with a statement that begins in one file and ends in another.
fn equals_the_conversion(format: Format) {
    let mut server =
        builder().option(format!("loose-tacho-format={}", format[0])).start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    let mut other = server.connect().expect("a connection");
    let id: Option<u64> = other.query_first("SELECT CONNECTION_ID()").expect("an answer");
    let long = std::thread::spawn(move || other.query_drop("SELECT 'long', SLEEP(1000)"));
    conn.query_drop("CREATE DATABASE d").expect("an answer");
    conn.query_drop("CREATE TABLE d.t (a INT) SELECT 1 AS a").expect("an answer");
    let log = log_of(&server);
    let running = |log: &Path| converted(log, CSV).matches(",RUNNING,").count() > 0;
    load(&mut conn, "first", 300);
    wait::until("a statement runs long", || running(&log));
    load(&mut conn, "second", 300);
    conn.query_drop(format!("KILL QUERY {}", id.expect("a number"))).expect("an answer");
    // Whether it is an error for its client is the server's business.
    let _: Result<(), _> = long.join().expect("no panic");
    // It is there soon, not only at the end.
    conn.query_drop("SELECT 'the last one'").expect("an answer");
    let path = |stem: &String| log.join(format!("{stem}.{}", format[1]));
    let text = |stem: &String| fs::read_to_string(path(stem)).expect("UTF-8");
    let has_it = |stem: &String| text(stem).contains("the last one");
    wait::until("it is there", || stems(&log, format[1]).iter().any(has_it));
    drop(conn);
    server.stop().expect("stopped");
    assert!(stems(&log, "jsonl").len() > 5);
    assert_whole(&log, format);
    let all = renditions(&log, format);
    assert!(!all.contains("RUNNING") && !all.contains("Running"), "one record for a statement");
    assert!(!log.join(".renditions.new").exists());
    assert_state(&check(&log, &key_of(&server)), LogState::Ok);
    server.assert_clean_log(&[]);
}

#[test]
fn csv_equals_the_conversion() {
    equals_the_conversion(CSV);
}

#[test]
fn percona_json_equals_the_conversion() {
    equals_the_conversion(JSON);
}

#[test]
fn percona_new_equals_the_conversion() {
    equals_the_conversion(NEW);
}

#[test]
fn percona_old_equals_the_conversion() {
    equals_the_conversion(OLD);
}

#[test]
fn another_format_begins_with_another_file() {
    let mut server = TestServer::builder()
        .option("loose-tacho-rotate-bytes=30000")
        .option("loose-tacho-timestamps=UTC")
        .start()
        .expect("a server");
    let mut conn = server.connect().expect("a connection");
    conn.query_drop(INSTALL).expect("installed");
    let log = log_of(&server);
    let load = |conn: &mut Conn, round: &str| written_load(conn, &log, round, 200);
    load(&mut conn, "lines alone");
    for (format, round) in [(CSV, ""), (JSON, ""), (NEW, ""), (OLD, ""), (CSV, " again")] {
        begin_another(&mut conn, &log, &format!("tacho_format = '{}'", format[0]));
        load(&mut conn, &format!("{}{round}", format[0]));
    }
    begin_another(&mut conn, &log, "tacho_format = 'JSON'");
    load(&mut conn, "lines alone again");
    conn.query_drop("UNINSTALL PLUGIN tacho").expect("uninstalled");
    drop(conn);
    let connect = || server.connect().expect("a connection");
    wait::until("the plugin can be installed", || connect().query_drop(INSTALL).is_ok());
    let mut conn = connect();
    // It has to have started: the file that it continues would get the complete format.
    written_load(&mut conn, &log, "lines alone after the installation", 1);
    conn.query_drop("SET GLOBAL tacho_format = 'PERCONA_OLD'").expect("an answer");
    drop(conn);
    server.stop().expect("stopped");

    let logs = stems(&log, "jsonl");
    let mut seen = BTreeSet::new();
    for format in [CSV, JSON, NEW, OLD] {
        for stem in stems(&log, format[1]) {
            let name = log.join(format!("{stem}.{}", format[1]));
            let text = fs::read_to_string(&name).expect("UTF-8");
            let output = tacho(&[
                "convert",
                "--utc",
                "--format",
                format[2],
                log.join(format!("{stem}.jsonl")).to_str().expect("a path"),
            ]);
            let wanted = String::from_utf8(output.stdout).expect("UTF-8");
            assert_same(&bare(&text, format), &bare(&wanted, format));
            assert!(format[1] == "csv" || text.contains(" UTC"), "{stem}");
            assert!(seen.insert(stem), "one format for a file");
        }
        let text = renditions(&log, format);
        for number in 0..200 {
            let rounds = if format == CSV { &["", " again"][..] } else { &[""] };
            for round in rounds {
                let mark = format!("SELECT \\'{}{round} {number}\\'", format[0]);
                let mark = if format == CSV { mark } else { mark.replace('\\', "") };
                assert_eq!(text.matches(&mark).count(), 1, "{mark}");
            }
        }
        // The old file does not contain the change, and nothing else is in two files.
        assert!(!text.contains("lines alone"), "{}", format[0]);
    }
    assert!(logs.difference(&seen).count() > 2, "files with lines alone");
    assert_state(&check(&log, &key_of(&server)), LogState::Ok);
    server.assert_clean_log(&["unknown variable"]);
}

#[test]
fn a_start_continues_the_existing_files() {
    let mut server =
        TestServer::builder().option("loose-tacho-format=CSV").start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    conn.query_drop(INSTALL).expect("installed");
    let log = log_of(&server);
    load(&mut conn, "first", 50);
    wait::until("it has begun", || stems(&log, "csv").len() == 1);
    server.kill9().expect("killed");
    // A newest file without another format gets the complete one, whatever was there before.
    let [first] = &Vec::from_iter(stems(&log, "csv"))[..] else { panic!("one file") };
    fs::remove_file(log.join(format!("{first}.csv"))).expect("removed");
    fs::remove_file(log.join(".renditions")).expect("removed");
    server.restart().expect("started again");
    let mut conn = server.connect().expect("a connection");
    written_load(&mut conn, &log, "second", 50);
    // One that has another format keeps it, and the next one begins.
    begin_another(&mut conn, &log, "tacho_format = 'PERCONA_NEW'");
    written_load(&mut conn, &log, "third", 50);
    wait::until("it is listed", || {
        fs::read_to_string(log.join(".renditions")).is_ok_and(|list| list.contains("percona_new"))
    });
    server.kill9().expect("killed");
    server.restart().expect("started again");
    let mut conn = server.connect().expect("a connection");
    // At the end of a server nothing is begun.
    wait::until("the next one has begun", || stems(&log, "jsonl").len() == 3);
    load(&mut conn, "fourth", 50);
    drop(conn);
    server.stop().expect("stopped");
    let logs = Vec::from_iter(stems(&log, "jsonl"));
    let [_, second, third] = &logs[..] else { panic!("{logs:?}") };
    for (stem, format) in [(first, CSV), (second, NEW), (third, CSV)] {
        let text = fs::read_to_string(log.join(format!("{stem}.{}", format[1]))).expect("UTF-8");
        let wanted = converted(&log.join(format!("{stem}.jsonl")), format);
        assert_same(&bare(&text, format), &bare(&wanted, format));
    }
    assert_eq!((stems(&log, CSV[1]).len(), stems(&log, NEW[1]).len()), (2, 1));
}

#[test]
fn the_next_server_completes_the_files_of_a_killed_one() {
    for format in [CSV, NEW] {
        let builder = builder().option(format!("loose-tacho-format={}", format[0]));
        let mut server = builder.start().expect("a server");
        let log = log_of(&server);
        let mut conn = server.connect().expect("a connection");
        tagged::prepare(&mut conn, 4).expect("prepared");
        let mut harm_count = 0;
        for round in 0..6 {
            let run = format!("round{round}");
            let running = Load { big_every: 20, ..Load::new(server.socket(), &run) };
            let running = running.start().expect("a load");
            running.wait_for_more(300 + 100 * round);
            server.kill9().expect("killed");
            // The oldest incomplete file after a crash of the machine or an edit by hand.
            let list = fs::read_to_string(log.join(".renditions")).expect("a list");
            let (_, name) = list.lines().next().and_then(|line| line.split_once(' ')).expect("one");
            let path = log.join(format!("{name}.{}", format[1]));
            if let Ok(text) = fs::read(&path) {
                match round {
                    1 => fs::remove_file(&path).expect("removed"),
                    2 => fs::write(&path, "20261122 03:49").expect("written"),
                    3 => {
                        fs::write(&path, [&text[..], b"torn, and more"].concat()).expect("written")
                    }
                    4 => fs::write(&path, &text[..text.len() / 2]).expect("written"),
                    _ => {}
                }
                harm_count += 1;
            }
            server.restart().expect("started again");
            running.stop().expect("a tally");
        }
        wait_for_all_formats(&log, &mut server.connect().expect("a connection"));
        server.stop().expect("stopped");
        assert_whole(&log, format);
        assert!(harm_count > 0, "nothing was put right");
    }
}

#[test]
fn a_full_disk_stops_it_and_it_catches_up() {
    const BYTES: u64 = 96 << 20;
    let directory = tacho_tests::unused_directory("format-full");
    let disk = Disk::small(&directory, BYTES).expect("a disk");
    let builder = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option("loose-tacho-rotate-bytes=1000000")
        .option("loose-tacho-arena-bytes=1M")
        .option("loose-tacho-format=CSV");
    let mut server = disk.server(builder).start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    tagged::prepare(&mut conn, 4).expect("prepared");
    let pause = Duration::from_millis(2);
    let load = Load { pause, ..Load::new(server.socket(), "full") };
    let running = load.start().expect("a load");
    running.wait_for_more(500);
    // The remaining space is for the log, which continues for a while and has new lines to convert.
    // Without space there may be none. (Without a separate disk, every write fails.)
    let is_small = disk.is_small();
    if is_small { disk.fill_but(3 << 20) } else { disk.fill() }.expect("filled");
    if is_small {
        wait::until("it is reported", || {
            server.error_log().contains("not in the other format for now")
        });
    } else {
        wait::until_steady("answers stop", || running.acknowledged_count());
    }
    let error = client::status(&mut conn, "Tacho_last_error").expect("status");
    assert!(!error["Tacho_last_error"].is_empty());
    disk.free().expect("freed");
    running.wait_for_more(500);
    if is_small {
        wait::until("it is reported", || server.error_log().contains("in the other format again"));
    }
    running.stop().expect("a tally");
    drop(conn);
    server.stop().expect("stopped");
    let log = disk.log_directory_here();
    assert_whole(&log, CSV);
    let told = server.error_log().matches("not in the other format for now").count();
    assert!(told <= 1, "once");
    drop(server);
    drop(disk);
    fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn retention_removes_both_forms() {
    let mut server = builder()
        .option("loose-tacho-format=PERCONA_JSON")
        .option("loose-tacho-retention-bytes=300000")
        .start()
        .expect("a server");
    let log = log_of(&server);
    let mut conn = server.connect().expect("a connection");
    load(&mut conn, "load", 2000);
    let removed =
        |conn: &mut Conn| client::status_number(conn, "Tacho_files_removed").expect("status");
    wait::until("files were removed", || removed(&mut conn) > 10);
    wait::until("there is not more than may be", || bytes(&log) <= 300_000);
    drop(conn);
    server.stop().expect("stopped");
    assert_eq!(stems(&log, JSON[1]), stems(&log, "jsonl"));
    assert_state(&check(&log, &key_of(&server)), LogState::Ok);
    server.assert_clean_log(&["is removed before all of it"]);
}

/// Replaces packed renditions by their contents, with the standard command.
#[track_caller]
fn unpack(log: &Path, ending: &str, command: &[&str]) {
    let (plain, _) = ending.rsplit_once('.').expect("a suffix");
    for stem in stems(log, ending) {
        let packed = log.join(format!("{stem}.{ending}"));
        let to = log.join(format!("{stem}.{plain}"));
        let output = Command::new(command[0])
            .args(&command[1..])
            .arg("-o")
            .args([&to, &packed])
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::remove_file(packed).expect("removed");
    }
}

#[test]
fn with_encryption_no_statement_can_be_read_in_a_closed_file() {
    const SECRET: &str = "only the auditor can read this";
    let keys = tacho_tests::unused_directory("format-keys");
    fs::create_dir_all(&keys).expect("made");
    let secret = keys.join("auditor.key");
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let secret_path = secret.to_str().expect("a path").to_owned();
    run("age-keygen", &["-o", &secret_path]);
    let recipients = keys.join("recipients");
    fs::write(&recipients, run("age-keygen", &["-y", &secret_path])).expect("written");

    for (format, compression) in [(CSV, "NONE"), (OLD, "ZSTD")] {
        let mut server = builder()
            .option(format!("loose-tacho-format={}", format[0]))
            .option(format!("loose-tacho-compression={compression}"))
            .option(format!("loose-tacho-encryption-recipients-file={}", recipients.display()))
            .start()
            .expect("a server");
        let log = log_of(&server);
        for round in 0..2 {
            let mut conn = server.connect().expect("a connection");
            for number in 0..300 {
                let sql = format!("SELECT '{SECRET} {round} {number}', '{}'", "x".repeat(300));
                conn.query_drop(sql).expect("an answer");
            }
            server.kill9().expect("killed");
            server.restart().expect("started again");
        }
        let mut conn = server.connect().expect("a connection");
        close_current(&mut conn, &log);
        wait::until("all that is closed is encrypted", || {
            let plain = [format[1], "jsonl.zst", &format!("{}.zst", format[1])];
            stems(&log, "jsonl").len() == 1
                && stems(&log, plain[0]).is_subset(&stems(&log, "jsonl"))
                && plain[1..].iter().all(|ending| stems(&log, ending).is_empty())
        });
        let open = stems(&log, "jsonl");
        let mut closed_count = 0;
        for entry in fs::read_dir(&log).expect("the log") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let (stem, ending) = name.split_once('.').expect("an ending");
            if !stem.starts_with("audit-") || open.contains(stem) {
                continue;
            }
            let bytes = fs::read(&path).expect("read");
            let has = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
            assert!(!has(SECRET.as_bytes()) && !has(b"SELECT"), "{name}");
            assert!(ending == "chain" || ending.ends_with(".age"), "{name}");
            closed_count += 1;
        }
        assert!(closed_count > 5, "{closed_count}");
        drop(conn);
        server.stop().expect("stopped");

        // With the key both forms can be read; readers do not treat a rendition as the log.
        let suffix = if compression == "ZSTD" { ".zst.age" } else { ".age" };
        let ending = format!("{}{suffix}", format[1]);
        assert_eq!(stems(&log, &ending), stems(&log, &format!("jsonl{suffix}")));
        unpack(&log, &ending, &["age", "--decrypt", "-i", &secret_path]);
        if compression == "ZSTD" {
            unpack(&log, &format!("{}.zst", format[1]), &["zstd", "-dq"]);
        }
        let arguments = ["convert", "--format", format[2], "--identity", &secret_path];
        let output = tacho(&[&arguments[..], &[log.to_str().expect("a path")]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let wanted = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(wanted.matches(SECRET).count() >= 600);
        assert_same(&renditions(&log, format), &bare(&wanted, format));
    }
    fs::remove_dir_all(&keys).expect("removed");
}

#[test]
fn a_directory_in_the_way_of_one_file_is_reported_and_the_next_files_continue() {
    let mut server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option("loose-tacho-format=CSV")
        .start()
        .expect("a server");
    let log = log_of(&server);
    let mut conn = server.connect().expect("a connection");
    load(&mut conn, "first", 50);
    wait::until("it has begun", || stems(&log, "csv").len() == 1);
    server.kill9().expect("killed");
    let first = stems(&log, "csv").pop_first().expect("one");
    let obstacle = log.join(format!("{first}.csv"));
    fs::remove_file(&obstacle).expect("removed");
    fs::create_dir(&obstacle).expect("made");
    server.restart().expect("started again");
    let mut conn = server.connect().expect("a connection");
    let status = |conn: &mut Conn| client::status(conn, r"Tacho\_%").expect("status");
    wait::until("it is reported", || status(&mut conn)["Tacho_last_error"].contains("in the way"));
    assert_ne!(status(&mut conn)["Tacho_format_behind_bytes"], "0");
    load(&mut conn, "second", 50);
    conn.query_drop("SET GLOBAL tacho_rotate_now = 1").expect("an answer");
    load(&mut conn, "third", 50);
    wait::until("the next one has its own", || {
        let next = stems(&log, "csv").pop_last().expect("one");
        let text = fs::read_to_string(log.join(format!("{next}.csv"))).unwrap_or_default();
        next > first && text.contains("third 49")
    });
    conn.query_drop("SET GLOBAL tacho_logging = OFF").expect("an answer");
    wait_for_format(&mut conn);
    assert!(status(&mut conn)["Tacho_last_error"].contains(&first));
    assert!(obstacle.is_dir(), "it has another owner");
    server.assert_clean_log(&["in the way", "not a regular file", "in the other format"]);
}

#[test]
fn a_file_is_compressed_when_it_is_there_in_both_forms() {
    let mut server = builder()
        .option("loose-tacho-format=CSV")
        .option("loose-tacho-compression=ZSTD")
        .start()
        .expect("a server");
    let log = log_of(&server);
    for round in 0..3 {
        let mut conn = server.connect().expect("a connection");
        load(&mut conn, &format!("round {round}"), 1000);
        server.kill9().expect("killed");
        server.restart().expect("started again");
    }
    let mut conn = server.connect().expect("a connection");
    close_current(&mut conn, &log);
    wait::until("all that is closed is compressed", || {
        stems(&log, "jsonl").len() == 1 && stems(&log, "csv").is_subset(&stems(&log, "jsonl"))
    });
    drop(conn);
    server.stop().expect("stopped");
    // The lines that a start recovers are in one file, however many.
    assert!(stems(&log, "jsonl.zst").len() > 3);
    assert_eq!(stems(&log, "csv.zst"), stems(&log, "jsonl.zst"), "both of each");
    assert_eq!(stems(&log, "csv").len(), 1, "that of the newest line");
    unpack(&log, "csv.zst", &["zstd", "-dq"]);
    assert_whole(&log, CSV);
    server.assert_clean_log(&[]);
}
