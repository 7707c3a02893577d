//! Zone: outside. Sessions that began before a capture: the server is asked whose they are, and no
//! record ever has a wrong user, a wrong database or a wrong text.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tacho_tests::captured::{self, Capture};
use tacho_tests::client::Queryable as _;
use tacho_tests::raw::{Login, Raw, com};
use tacho_tests::recording::Recording;
use tacho_tests::{log, namespace, unused_directory, wait};

const PREPARED: &str = "SELECT 'prepared before', ?";
const USERS: [&str; 2] = ["app", "other"];
const DATABASES: [&str; 2] = ["shop", "bank"];

/// A server with accounts, and with one that may ask it about sessions.
fn start_server(options: &[&str]) -> Recording {
    let server = Recording::builder().options(options).start().expect("a server");
    let mut root = server.connect().expect("a connection");
    for statement in [
        "CREATE DATABASE shop",
        "CREATE DATABASE bank",
        "CREATE USER app@'127.0.0.1', other@'127.0.0.1', boss@'127.0.0.1', asker@localhost",
        // A server may know this machine by its name, and prefers `asker@localhost` then.
        "CREATE USER remote_asker IDENTIFIED BY 'pass word'",
        "GRANT ALL ON *.* TO app@'127.0.0.1', other@'127.0.0.1', boss@'127.0.0.1'",
        "GRANT PROCESS ON *.* TO asker@localhost, remote_asker",
        "GRANT SELECT ON performance_schema.* TO asker@localhost, remote_asker",
        // While it runs, MariaDB's process list has its definer, as a user of the same host.
        "CREATE DEFINER=boss@'127.0.0.1' PROCEDURE shop.p(tag TEXT) SELECT tag, SLEEP(0.002)",
    ] {
        root.query_drop(statement).expect(statement);
    }
    server
}

fn capture(server: &Recording, directory: &Path, account: &str) -> Capture {
    let socket = server.socket().to_str().expect("text");
    capture_with(server, directory, &["--enrich-socket", socket, "--enrich-user", account])
}

/// The same over TCP, with a password.
fn capture_over_tcp(server: &Recording, directory: &Path) -> Capture {
    fs::create_dir_all(directory).expect("a directory");
    let password = directory.join("password");
    fs::write(&password, "pass word\n").expect("a file");
    let host = format!("127.0.0.1:{}", server.port());
    let options =
        ["--enrich-host", &host, "--enrich-user", "remote_asker", "--enrich-password-file"];
    let options = [&options[..], &[password.to_str().expect("text")]].concat();
    capture_with(server, directory, &options)
}

fn capture_with(server: &Recording, directory: &Path, account: &[&str]) -> Capture {
    Capture::start_with(server.port(), directory, account).expect("a capture")
}

/// The value of a counter; 0 if it is not written yet.
fn counter(directory: &Path, name: &str) -> u64 {
    captured::counter(directory, name).unwrap_or(0)
}

/// The statements of clients over TCP. A log that is being written may end within a line.
fn statements(directory: &Path) -> Vec<Value> {
    let mut statements = Vec::new();
    let read = log::read(directory, |line, text| {
        if line.event == "statement" {
            statements.push(serde_json::from_str::<Value>(text).expect("JSON"));
        }
    });
    if read.is_ok() { statements } else { Vec::new() }
}

fn log_in(server: &Recording, user: &str, db: &str) -> Raw {
    let login = Login { db: Some(db.as_bytes()), ..Login::new(user) };
    Raw::login_tcp(server.port(), &login).expect("a connection").expect("a session")
}

/// A session, its user, its database and the text of its prepared statement are completed.
fn assert_completed(options: &[&str], has_texts: bool, is_over_tcp: bool) {
    let server = start_server(options);
    let mut session = log_in(&server, "app", "shop");
    let id = session.prepare(PREPARED).expect("a packet").expect("a statement");
    let root = server.connect().expect("a session without packets");
    let directory = unused_directory("capture-enrich");
    let mut capture = match is_over_tcp {
        true => capture_over_tcp(&server, &directory),
        false => capture(&server, &directory, "asker"),
    };
    let conn = session.conn;
    let is_known = |line: &Value| line["user"] == "app" && line["conn"] == conn;
    wait::until("the user is known", || {
        session.query("SELECT 'waiting'").expect("an answer");
        session.execute(id, &[Some(b"x")], false).expect("an answer");
        statements(capture.log()).iter().any(is_known)
    });
    // An execution of an unknown text makes the database doubtful.
    wait::until("the database is known", || {
        session.query("SELECT 'waiting'").expect("an answer");
        let known = |line: &Value| line["user"] == "app" && line["db"] == "shop";
        statements(capture.log()).iter().any(known)
    });
    session.execute(id, &[Some(b"x")], false).expect("an answer");
    session.query("SELECT 'the last one'").expect("an answer");
    session.command(com::QUIT, b"").expect("an end");
    wait::until("the end is in the log", || {
        statements(capture.log()).iter().any(|line| line["sql"] == "SELECT 'the last one'")
    });
    for name in ["local_sessions", "enriched_total"] {
        wait::until("the counters are written", || counter(&directory, name) > 0);
    }
    assert_eq!(
        (counter(&directory, "enrich_up"), counter(&directory, "enrich_errors_total")),
        (1, 0)
    );
    drop(root);
    capture.stop().expect("its end");
    let lines = statements(capture.log());
    // Over TCP, the session that asks is recorded like others: it began during the capture.
    let is_before = |line: &Value| line["session"] == "partial";
    let (lines, own): (Vec<Value>, Vec<Value>) = lines.into_iter().partition(is_before);
    assert_ne!(own.is_empty(), is_over_tcp, "{own:?}");
    assert!(
        own.iter().all(|line| line["user"] == "remote_asker" && line["conn"] != conn),
        "{own:?}"
    );
    for line in &lines {
        assert!(line["user"].is_null() || line["user"] == "app", "{line}");
        assert!(line["db"].is_null() || line["db"] == "shop", "{line}");
        let is_execution = line["command"] == "Execute";
        assert!(!is_execution || line["sql"].is_null() || line["sql"] == PREPARED, "{line}");
    }
    let last = lines.iter().rev().find(|line| line["command"] == "Execute").expect("an execution");
    assert_eq!(last["sql"] == PREPARED, has_texts, "{last}");
    fs::remove_dir_all(&directory).expect("removing the log");
}

#[test]
fn a_session_that_began_before_is_completed() {
    let test = "capture_enrich::a_session_that_began_before_is_completed";
    if !namespace::enter(test, "sessions that began before a capture are not completed") {
        return;
    }
    let is_mariadb = start_server(&[]).product.is_mariadb();
    // MariaDB's performance schema is off by default, and MySQL's is on.
    assert_completed(&[], !is_mariadb, false);
    if is_mariadb {
        assert_completed(&["performance-schema=ON"], true, false);
    }
}

#[test]
fn a_server_is_asked_over_tcp() {
    let test = "capture_enrich::a_server_is_asked_over_tcp";
    if !namespace::enter(test, "a server is not asked over TCP about sessions") {
        return;
    }
    assert_completed(&["performance-schema=ON"], true, true);
}

/// Changes everything of a session that may be asked about, with statements that say whose they
/// are.
fn churn(session: &mut Raw, seed: usize, is_over: &AtomicBool) {
    let (mut user, mut db) = (0, 0);
    for step in seed.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let tag = |user: usize, db: usize| format!("'{}.{}'", USERS[user], DATABASES[db]);
        // A session that is never idle, or changes all the time, has no answer.
        thread::sleep(Duration::from_millis(5));
        let changes = step % 500 < 100;
        match if changes { step % 7 } else { 4 + step % 2 } {
            // Only some change the user: the packets show it from then on.
            0 if seed.is_multiple_of(3) && step.is_multiple_of(5) => {
                (user, db) = (1 - user, step % 2);
                let (name, database) = (USERS[user].as_bytes(), DATABASES[db].as_bytes());
                assert_eq!(session.change_user(name, b"", database).expect("an answer"), 0);
            }
            1 => {
                db = 1 - db;
                session.command(com::INIT_DB, DATABASES[db].as_bytes()).expect("an answer");
            }
            2 => {
                db = 1 - db;
                session.must(&[&format!("USE {}", DATABASES[db])]);
            }
            // Which database it is now is not known to a capture.
            3 => {
                db = 1 - db;
                session.must(&[&format!("DO 1; USE {}", DATABASES[db])]);
            }
            4 => session.must(&[&format!("CALL shop.p({})", tag(user, db))]),
            _ => session.must(&[&format!("SELECT {}", tag(user, db))]),
        }
    }
}

/// Who a statement says that it is of.
fn tagged(line: &Value) -> Option<(&str, &str)> {
    let (_, rest) = line["sql"].as_str()?.split_once('\'')?;
    rest.split_once('\'')?.0.split_once('.')
}

#[test]
fn sessions_that_change_meanwhile_never_have_a_wrong_user() {
    let test = "capture_enrich::sessions_that_change_meanwhile_never_have_a_wrong_user";
    if !namespace::enter(test, "sessions that change while a server is asked are not tested") {
        return;
    }
    const SESSIONS: usize = 12;
    let server = start_server(&[]);
    let mut sessions: Vec<Raw> = (0..SESSIONS).map(|_| log_in(&server, "app", "shop")).collect();
    let directory = unused_directory("capture-enrich-changes");
    let mut capture = capture(&server, &directory, "asker");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (seed, session) in sessions.iter_mut().enumerate() {
            let is_over = &is_over;
            scope.spawn(move || churn(session, seed, is_over));
        }
        // Each session, and some of them again: their database is doubtful time after time.
        let wanted = 2 * SESSIONS as u64;
        let has_enough = || counter(&directory, "enriched_total") >= wanted;
        let waited = std::panic::catch_unwind(|| wait::until("sessions are completed", has_enough));
        is_over.store(true, Ordering::Relaxed);
        waited.expect("sessions are completed");
    });
    capture.stop().expect("its end");
    let lines = statements(capture.log());
    let (mut with_user, mut with_db) = (0, 0);
    for (line, (user, db)) in lines.iter().filter_map(|line| Some((line, tagged(line)?))) {
        assert!(line["user"].is_null() || line["user"] == user, "{line}");
        assert!(line["db"].is_null() || line["db"] == db, "{line}");
        with_user += u32::from(line["user"] == user);
        with_db += u32::from(line["db"] == db);
    }
    assert!(with_user > 100 && with_db > 100, "{with_user} {with_db} of {}", lines.len());
    fs::remove_dir_all(&directory).expect("removing the log");
}

#[test]
fn an_account_without_privileges_is_reported_and_changes_nothing() {
    let test = "capture_enrich::an_account_without_privileges_is_reported_and_changes_nothing";
    if !namespace::enter(test, "accounts without privileges are not tested") {
        return;
    }
    let server = start_server(&[]);
    let mut root = server.connect().expect("a connection");
    root.query_drop("CREATE USER weak@localhost").expect("a user");
    root.query_drop("CREATE USER strong@localhost IDENTIFIED BY 'secret'").expect("a user");
    for (account, problem) in [("weak", "the privilege PROCESS"), ("strong", "Access denied")] {
        let mut session = log_in(&server, "app", "shop");
        let directory = unused_directory("capture-enrich-refused");
        let mut capture = capture(&server, &directory, account);
        wait::until("the problem is reported", || {
            session.query("SELECT 'waiting'").expect("an answer");
            let said = fs::read_to_string(directory.join("capture.err")).unwrap_or_default();
            said.contains(problem)
        });
        wait::until("the counters are written", || counter(&directory, "enrich_errors_total") > 1);
        let said = fs::read_to_string(directory.join("capture.err")).expect("messages");
        assert_eq!(said.matches(problem).count(), 1, "{said}");
        // The capture may have begun in the middle of the only statement so far.
        for _ in 0..2 {
            session.query("SELECT 'waiting'").expect("an answer");
        }
        capture.stop().expect("its end");
        let lines = statements(capture.log());
        assert!(!lines.is_empty());
        assert!(lines.iter().all(|line| line["user"].is_null()), "{lines:?}");
        fs::remove_dir_all(&directory).expect("removing the log");
    }
}
