//! Zone: outside. `tacho migrate`: its output is a configuration that a server accepts, and with
//! which our log has every statement of server_audit's log.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tacho_format::Format;
use tacho_tests::client::{self, Queryable as _};
use tacho_tests::raw::{Login, Raw, com};
use tacho_tests::server::{self, TestServer, installation};
use tacho_tests::{converted, program};

/// Statements of sessions, from a recorded user and from one that may be excluded.
const STATEMENTS: &[&str] = &[
    "CREATE TABLE d.n (a INT)",
    "/* a comment */ INSERT INTO d.n VALUES (1)",
    "SELECT a FROM d.n",
    "SELEKT 'no SQL'",
    "CREATE TABEL d.x",
    "UPDATE d.n SET a = 2",
    "DO SLEEP(0)",
    "HANDLER d.n OPEN",
    "HANDLER d.n READ FIRST",
    "HANDLER d.n CLOSE",
    "CALL d.p()",
    "ALTER TABLE d.n ADD b INT",
    "SET @a = 1",
    "SHOW TABLES FROM d",
    "PREPARE s FROM 'DELETE FROM d.n'",
    "EXECUTE s",
    "CREATE USER u1 IDENTIFIED BY 'x'",
    "ALTER USER u1 IDENTIFIED BY 'y'",
    "SET PASSWORD FOR u1 = PASSWORD('z')",
    "CREATE ROLE r1",
    "GRANT SELECT ON d.* TO u1",
    "REVOKE SELECT ON d.* FROM u1",
    "DROP ROLE r1",
    "RENAME USER u1 TO u2",
    "DROP USER u2",
    "CREATE FUNCTION d.f() RETURNS INT RETURN 1",
    "DROP FUNCTION d.f",
    "TRUNCATE d.n",
    "DROP TABLE d.n",
];

const SETUP: &[&str] = &[
    "CREATE DATABASE d",
    "CREATE TABLE d.t (a INT)",
    "CREATE PROCEDURE d.p() BEGIN INSERT INTO d.t VALUES (9); DELETE FROM d.t; END",
    "CREATE USER app@localhost",
    "GRANT ALL ON *.* TO app@localhost WITH GRANT OPTION",
    "CREATE USER `od'd*`@localhost",
    "GRANT ALL ON *.* TO `od'd*`@localhost WITH GRANT OPTION",
];

fn tacho(arguments: &[&str]) -> Output {
    let mut command = Command::new(program("tacho"));
    command.args(arguments).env_remove("MYSQL_PWD").output().expect("build/bin/tacho: make build")
}

/// The fragment for a server that runs.
fn fragment(server: &TestServer) -> String {
    let socket = server.socket().to_str().expect("a path");
    let output =
        tacho(&["migrate", "--from", "server_audit", "--socket", socket, "--user", "root"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The options of a fragment as the server's own reader of option files understands them.
fn options(fragment: &str, place: &Path) -> Vec<String> {
    let file = place.join("fragment.cnf");
    fs::write(&file, fragment).expect("written");
    let output = Command::new(installation().program("my_print_defaults").expect("it"))
        .arg(format!("--defaults-file={}", file.display()))
        .arg("--mariadbd")
        .output()
        .expect("my_print_defaults");
    assert!(output.status.success(), "{fragment}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    // Values have no line breaks: JSON escapes them.
    text.lines().map(str::to_owned).collect()
}

fn server_audit() -> std::path::PathBuf {
    server::server_audit().expect("server_audit")
}

/// The operations and objects of a server_audit line, with its user.
fn essence(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.splitn(9, ',').collect();
    let [_, _, user, _, conn, _, operation, db, object] = fields[..] else { return None };
    // The database of a session that has none is that of the first table for server_audit.
    let db = if operation == "QUERY" { "" } else { db };
    // Secrets are taken out in another way.
    let object = object.split("IDENTIFIED").next()?.split("PASSWORD(").next()?;
    // In a stored program, theirs has the caller for statements and the definer for tables, and
    // applies its lists of users to either (tests/server_audit.rs).
    if object.starts_with("t,") || object.contains("d.t") {
        return None;
    }
    // Theirs does not escape names.
    let user = user.replace("\\'", "'");
    Some(format!("{user} {conn} {operation} {db} {object}"))
}

/// Both plugins on one server, ours configured by `tacho migrate`: no line of theirs is missing.
fn nothing_is_missing(settings: &[&str]) -> BTreeSet<String> {
    let mut builder =
        TestServer::builder().plugin(server_audit()).option("plugin-load-add=server_audit");
    for setting in settings {
        builder = builder.option(setting);
    }
    let mut server = builder
        .option("server_audit_file_path=audit.log")
        .option("server_audit_logging=ON")
        .start()
        .expect("a server");
    let fragment = fragment(&server);
    for option in options(&fragment, server.directory()) {
        server.add_option(&option);
    }
    fs::remove_file(server.data_directory().join("audit.log")).expect("removed");
    server.restart().unwrap_or_else(|error| panic!("{error:#}\n{fragment}"));
    let mut root = Raw::connect(server.socket(), "root").expect("a session");
    root.must(SETUP);
    for user in ["app", "od'd*"] {
        let mut raw = Raw::login(server.socket(), &Login::new(user)).expect("sent").expect("in");
        for statement in STATEMENTS {
            raw.query(statement).expect("an answer");
        }
        quit(raw);
    }
    quit(root);
    server.stop().expect("stopped");
    server.assert_clean_log(&["max_open_files"]);
    let theirs = fs::read_to_string(server.data_directory().join("audit.log")).expect("UTF-8");
    let log = server.data_directory().join("tacho");
    let ours = converted::log(&log, Format::Csv, "host").expect("a good log");
    let ours: BTreeSet<String> = ours.lines().filter_map(essence).collect();
    let expected: BTreeSet<String> = theirs.lines().filter_map(essence).collect();
    let missing: Vec<&String> = expected.difference(&ours).collect();
    assert!(missing.is_empty(), "{fragment}\nmissing: {missing:#?}\nours: {ours:#?}");
    assert!(expected.len() > 5, "{theirs}");
    ours
}

fn quit(mut raw: Raw) {
    raw.begin(com::QUIT, b"").expect("sent");
    // The answer is the end of the connection.
    let _ = raw.read_packet();
}

fn has(lines: &BTreeSet<String>, text: &str) -> bool {
    lines.iter().any(|line| line.contains(text))
}

#[test]
fn the_classes_of_events_are_carried_over() {
    for (events, in_it, not_in_it) in [
        ("", "SHOW TABLES", "nothing of the kind"),
        ("CONNECT,QUERY_DDL", "ALTER TABLE", "SELECT a"),
        ("QUERY_DML", "SELECT a", "ALTER TABLE"),
        ("QUERY_DML_NO_SELECT", "UPDATE", "SELECT a"),
        ("QUERY_DCL", "GRANT", "UPDATE"),
        ("TABLE,QUERY_DCL", "WRITE d n", "QUERY  'UPDATE"),
    ] {
        let ours = nothing_is_missing(&[&format!("server_audit_events={events}")]);
        assert!(has(&ours, in_it), "{events}: {in_it}: {ours:#?}");
        assert!(!has(&ours, not_in_it), "{events}: {not_in_it}: {ours:#?}");
    }
}

#[test]
fn the_lists_of_users_are_carried_over() {
    let ours = nothing_is_missing(&["server_audit_excl_users=od'd*,other"]);
    assert!(!ours.iter().any(|line| line.starts_with("od'd* ") && line.contains("SELECT a")));
    assert!(ours.iter().any(|line| line.starts_with("app ") && line.contains("SELECT a")));
    let ours = nothing_is_missing(&["server_audit_incl_users=od'd*"]);
    assert!(ours.iter().any(|line| line.starts_with("od'd* ") && line.contains("SELECT a")));
    assert!(!ours.iter().any(|line| line.starts_with("app ") && line.contains("SELECT a")));
}

#[test]
fn the_names_of_sql_commands_are_those_of_the_server() {
    let names = include_str!("../../crates/tacho/src/migrate/sql_commands.txt");
    let server = TestServer::builder().option("plugin-load-add=tacho").start().expect("a server");
    let mut root = server.connect().expect("a session");
    for name in names.lines() {
        let filter = format!(r#"{{"rules":[{{"sql_command":"{name}","action":"record"}}]}}"#);
        root.exec_drop("SET GLOBAL tacho_filter = ?", (filter,))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Percona's server is not available: its option file is, and our server must accept the result.
#[test]
fn settings_of_percona_are_taken_by_our_server() {
    let mut server = TestServer::builder().start().expect("a server");
    let file = server.directory().join("percona.cnf");
    let text = "[mysqld]\nplugin-load-add=audit_log.so\naudit-log-policy=QUERIES\n\
                audit_log_strategy=PERFORMANCE\naudit_log_rotate_on_size=100M\n\
                audit_log_exclude_accounts='mon'@'%',backup@10.1.0.0/255.255.0.0\n\
                audit_log_include_commands=select,insert,clone,error\n\
                audit_log_exclude_databases=`scratch`\naudit_log_rotations=9\n";
    fs::write(&file, text).expect("written");
    let file = file.to_str().expect("text");
    let output = tacho(&["migrate", "--from", "percona", "--to", "mariadb", "--config", file]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let fragment = String::from_utf8(output.stdout).expect("UTF-8");
    for option in options(&fragment, server.directory()) {
        server.add_option(&option);
    }
    server.restart().unwrap_or_else(|error| panic!("{error:#}\n{fragment}"));
    let mut root = server.connect().expect("a session");
    assert_eq!(client::variable(&mut root, "tacho_overflow").expect("it"), "DROP");
    assert_eq!(client::variable(&mut root, "tacho_rotate_bytes").expect("it"), "104857600");
    assert_eq!(client::variable(&mut root, "tacho_retention_files").expect("it"), "9");
    assert_eq!(client::variable(&mut root, "tacho_retention_bytes").expect("it"), "1048576000");
    assert_eq!(client::variable(&mut root, "tacho_retention_days").expect("it"), "183");
    let comments = fragment.replace("\n# ", " ");
    assert!(comments.contains("NOT a record of six months"), "{fragment}");
    assert_eq!(client::variable(&mut root, "tacho_tables").expect("it"), "ON");
    assert_eq!(client::status_number(&mut root, "Tacho_filter_rules").expect("it"), 5);
    root.query_drop("SELECT 1").expect("an answer");
    drop(root);
    server.stop().expect("stopped");
    server.assert_clean_log(&["max_open_files"]);
}

#[test]
fn unreadable_input_is_an_error() {
    let server = TestServer::builder().start().expect("a server");
    let socket = server.socket().to_str().expect("a path");
    let output =
        tacho(&["migrate", "--from", "server_audit", "--socket", socket, "--user", "root"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("server_audit is not loaded"), "{error}");
    assert_eq!(tacho(&["migrate", "--from", "percona"]).status.code(), Some(2));
    assert_eq!(tacho(&["migrate", "--from", "percona", "--config", "/no"]).status.code(), Some(1));
}
