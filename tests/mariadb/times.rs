//! Zone: outside. The times in the log have the offset of the zone of the server's process, until
//! UTC is set; the instants are always those of the statements.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use tacho_tests::client::{Conn, Queryable};
use tacho_tests::log;
use tacho_tests::recorded::{self, Line, text};
use tacho_tests::server::TestServer;
use tacho_tests::wait;

/// The result of `date` for a time, µs since 1970-01-01 UTC: a parser other than the writer's own
/// code.
fn instant_us(time: &str) -> i64 {
    let out = Command::new("date").args(["-d", time, "+%s%6N"]).output().expect("date");
    let out = String::from_utf8(out.stdout).expect("text");
    out.trim().parse().unwrap_or_else(|error| panic!("{time}: {error}"))
}

fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_micros() as i64
}

/// A statement, and between which moments it was executed.
struct Said {
    sql: String,
    offset: String,
    begin_us: i64,
    end_us: i64,
}

/// Executes a statement, and waits for its line: that of a later zone would be of that zone.
fn say(conn: &mut Conn, log_directory: &Path, sql: &str, offset: &str) -> Said {
    let begin_us = now_us();
    conn.query_drop(sql).expect("an answer");
    let end_us = now_us();
    wait::until("it is written", || {
        let files = log::files(log_directory).expect("files");
        files.iter().any(|file| fs::read_to_string(file).expect("a file").contains(sql))
    });
    Said { sql: sql.to_owned(), offset: offset.to_owned(), begin_us, end_us }
}

/// The offset of the server's own time.
fn offset_of_server(conn: &mut Conn) -> String {
    let minutes: Option<i64> = conn
        .query_first("SELECT TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), NOW())")
        .expect("an answer");
    let minutes = minutes.expect("a number");
    let sign = if minutes < 0 { '-' } else { '+' };
    let minutes = minutes.abs();
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

fn times_are_of(zone: &str, offsets: &[&str]) {
    let mut server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option("tacho-timestamps=SYSTEM")
        .environment("TZ", zone)
        .start()
        .expect("a server");
    let directory = server.data_directory().join("tacho");
    let mut conn = server.connect().expect("a connection");
    let local = offset_of_server(&mut conn);
    assert!(offsets.contains(&&*local), "{zone}: {local}");
    let mut said = vec![say(&mut conn, &directory, "SELECT 'in the zone'", &local)];
    conn.query_drop("SET GLOBAL tacho_timestamps = 'UTC'").expect("a change");
    said.push(say(&mut conn, &directory, "SELECT 'in UTC'", "+00:00"));
    conn.query_drop("SET GLOBAL tacho_timestamps = 'SYSTEM'").expect("a change");
    // The session's own zone and time do not affect the log.
    conn.query_drop("SET time_zone = '-03:00', timestamp = 1000000000").expect("a change");
    said.push(say(&mut conn, &directory, "SELECT 'in the zone again'", &local));
    drop(conn);
    server.stop().expect("stopping");

    let lines = recorded::read(&directory).expect("a good log");
    for Said { sql, offset, begin_us, end_us } in said {
        let is_it = |line: &&Line| text(line, "sql") == Some(&*sql);
        let line = lines.iter().find(is_it).unwrap_or_else(|| panic!("no {sql}"));
        let ts = text(line, "ts").expect("a time");
        assert!(ts.ends_with(&offset), "{zone}, {sql}: {ts} is not at {offset}");
        let instant_us = instant_us(ts);
        assert!(
            (begin_us..=end_us).contains(&instant_us),
            "{zone}, {sql}: {ts} is {instant_us}, not between {begin_us} and {end_us}"
        );
    }
}

#[test]
fn times_have_the_offset_of_the_zone_until_they_are_in_utc() {
    // The second one in summer.
    times_are_of("Europe/Berlin", &["+01:00", "+02:00"]);
}

#[test]
fn a_zone_may_be_west_of_utc_and_off_by_minutes() {
    times_are_of("Pacific/Marquesas", &["-09:30"]);
}
