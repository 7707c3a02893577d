//! Zone: outside. `SHOW STATUS` of the log's files, compared with the directory of a real server:
//! through rotation, packing and retention, and for a log that goes back for years.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use tacho_tests::client::{self, Conn, Queryable as _};
use tacho_tests::log::file_names;
use tacho_tests::server::TestServer;
use tacho_tests::wait;

type Status = BTreeMap<String, String>;

fn status(conn: &mut Conn) -> Status {
    client::status(conn, "Tacho\\_%").expect("status")
}

fn number(conn: &mut Conn, name: &str) -> u64 {
    client::status_number(conn, name).expect("a number")
}

fn load(conn: &mut Conn, count: usize) {
    for number in 0..count {
        let text = "x".repeat(200);
        conn.query_drop(format!("SELECT '{number}', '{text}'")).expect("an answer");
    }
}

/// The log files in any form, and their total size.
fn directory(log: &Path) -> (BTreeSet<String>, u64) {
    let all = file_names(log, "");
    // A file that was removed since the listing has no size.
    let bytes = |name: &String| fs::metadata(log.join(name)).map_or(0, |metadata| metadata.len());
    let bytes = all.iter().map(bytes).sum();
    let stem = |name: &String| name.split_once('.').map(|(stem, _)| stem.to_owned());
    (all.iter().filter(|name| name.contains(".jsonl")).filter_map(stem).collect(), bytes)
}

/// Waits until the figures are those of the directory. Nothing may be recorded meanwhile.
#[track_caller]
fn wait_for_figures(conn: &mut Conn, log: &Path) -> Status {
    let mut found = Status::new();
    wait::until("the figures are those of the directory", || {
        found = status(conn);
        let (stems, bytes) = directory(log);
        let oldest = stems.first().expect("a file");
        found["Tacho_files"] == stems.len().to_string()
            && found["Tacho_files_bytes"] == bytes.to_string()
            && found["Tacho_oldest_file"].starts_with(&format!("{oldest}."))
            && log.join(&found["Tacho_oldest_file"]).exists()
    });
    found
}

#[test]
fn the_figures_are_those_of_the_directory() {
    let server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option("loose-tacho-rotate-bytes=20000")
        .option("loose-tacho-checkpoint-interval-s=1")
        .option("loose-tacho-timestamps=UTC")
        .option("loose-tacho-format=CSV")
        .start()
        .expect("a server");
    let log = server.data_directory().join("tacho");
    let mut conn = server.connect().expect("a connection");
    load(&mut conn, 500);
    let set = |conn: &mut Conn, setting: &str| {
        conn.query_drop(format!("SET GLOBAL tacho_{setting}")).expect("an answer");
    };
    set(&mut conn, "rotate_interval_s = 86400");
    // From here on nothing but changes of settings is recorded.
    set(&mut conn, "logging = OFF");
    wait::until("all of it is in the other format", || {
        number(&mut conn, "Tacho_format_behind_bytes") == 0
    });
    let found = wait_for_figures(&mut conn, &log);
    assert!(directory(&log).0.len() > 5);
    assert_eq!((&*found["Tacho_files_to_pack"], &*found["Tacho_files_days"]), ("0", "0"));
    let oldest = fs::read_to_string(log.join(&found["Tacho_oldest_file"])).expect("a text");
    let (_, rest) = oldest.split_once("\"ts\":\"").expect("a time");
    assert_eq!(rest.split('"').next(), Some(&*found["Tacho_oldest_time"]));
    let checkpoint = &found["Tacho_checkpoint_time"];
    assert!(
        checkpoint.ends_with("+00:00") && *checkpoint > found["Tacho_oldest_time"],
        "{found:?}"
    );
    // A day after the time in the name of the current file.
    let current = Path::new(&found["Tacho_current_file"]).file_stem().expect("a name");
    let stamp = &current.to_str().expect("ASCII")["audit-".len()..];
    let time = format!("{}:{}:{}.000000+00:00", &stamp[9..11], &stamp[11..13], &stamp[13..15]);
    let due = &found["Tacho_rotate_due_time"];
    assert!(due.ends_with(&time) && !due.starts_with(&found["Tacho_oldest_time"][..10]), "{due}");

    // Something is in the way of one: it waits, and the others do not.
    let victim = found["Tacho_oldest_file"].replace(".jsonl", ".jsonl.zst.new");
    fs::create_dir(log.join(&victim)).expect("made");
    set(&mut conn, "compression = 'ZSTD'");
    wait::until("one waits", || number(&mut conn, "Tacho_files_to_pack") > 0);
    assert!(status(&mut conn)["Tacho_oldest_file"].ends_with(".jsonl"));
    fs::remove_dir(log.join(&victim)).expect("removed");
    set(&mut conn, "compression = 'NONE'");
    wait::until("nothing is wanted", || number(&mut conn, "Tacho_files_to_pack") == 0);
    set(&mut conn, "compression = 'ZSTD'");
    wait::until("none waits", || {
        file_names(&log, ".jsonl.zst").len() + 1 == directory(&log).0.len()
            && number(&mut conn, "Tacho_files_to_pack") == 0
    });
    let packed = wait_for_figures(&mut conn, &log);
    assert!(packed["Tacho_oldest_file"].ends_with(".jsonl.zst"));
    assert_eq!(packed["Tacho_oldest_time"], found["Tacho_oldest_time"]);
    assert_eq!(file_names(&log, ".csv.zst").len(), file_names(&log, ".jsonl.zst").len());

    let (stems, bytes) = directory(&log);
    set(&mut conn, &format!("retention_bytes = {}", bytes - 1));
    wait::until("the oldest goes", || directory(&log).0.len() < stems.len());
    let small = wait_for_figures(&mut conn, &log);
    assert!(small["Tacho_oldest_time"] > packed["Tacho_oldest_time"], "{small:?}");
    set(&mut conn, "rotate_interval_s = 0");
    wait::until("no time is set", || status(&mut conn)["Tacho_rotate_due_time"].is_empty());
    server.assert_clean_log(&["stays as it is and is not compressed", "not a regular file"]);
}

#[test]
fn the_age_of_the_log_is_reported() {
    let log = tacho_tests::unused_directory("files-age");
    fs::create_dir_all(&log).expect("made");
    for seq in 1..=3 {
        let ts = format!("2020-01-0{seq}T12:34:56.000007+00:00");
        let line = format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"{ts}\",\"event\":\"stop\"}}\n");
        let path = log.join(format!("audit-2020010{seq}T000000Z-{seq:06}.jsonl"));
        fs::write(&path, line).expect("written");
        let file = fs::File::options().append(true).open(path).expect("a file");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_577_840_000)).expect("an old one");
    }
    let server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option("loose-tacho-timestamps=UTC")
        .option("loose-tacho-signing-key-file=")
        .option("loose-tacho-retention-days=0")
        .option(format!("loose-tacho-directory={}", log.display()))
        .start()
        .expect("a server");
    let mut conn = server.connect().expect("a connection");
    wait::until("the age is reported", || number(&mut conn, "Tacho_files_days") > 2000);
    let found = status(&mut conn);
    assert_eq!(found["Tacho_oldest_file"], "audit-20200101T000000Z-000001.jsonl");
    assert_eq!(found["Tacho_oldest_time"], "2020-01-01T12:34:56.000007+00:00");
    assert_eq!(found["Tacho_checkpoint_time"], "", "it is not sealed");
    conn.query_drop("SET GLOBAL tacho_rotate_now = 1").expect("an answer");
    wait::until("there are four", || number(&mut conn, "Tacho_files") == 4);
    conn.query_drop("SET GLOBAL tacho_retention_days = 183").expect("an answer");
    // The third has ended when the server began the next one.
    wait::until("two were removed", || number(&mut conn, "Tacho_files") == 2);
    wait::until("the new age is reported", || {
        status(&mut conn)["Tacho_oldest_time"] == "2020-01-03T12:34:56.000007+00:00"
    });
    drop(server);
    fs::remove_dir_all(&log).expect("removed");
}
