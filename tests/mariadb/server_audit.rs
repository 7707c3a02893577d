//! Zone: outside. MariaDB's own audit plugin beside ours, on one server: our log, converted to its
//! format, is compared with its file, byte for byte.
//!
//! The permitted differences are listed here, and in `docs/specs/formats.md` with the reasons.

use std::fs;
use std::path::Path;

use tacho_format::Format;
use tacho_tests::converted;
use tacho_tests::map_auth;
use tacho_tests::raw::{Login, Raw, com};
use tacho_tests::server::{self, TestServer};

const SETUP: &[&str] = &[
    "CREATE DATABASE d",
    "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))",
    "CREATE TABLE d.u (id INT PRIMARY KEY)",
    "INSERT INTO d.t VALUES (1, 'a'), (2, 'b')",
    "CREATE USER app@localhost",
    "CREATE USER app@'127.0.0.1'",
    "GRANT ALL ON d.* TO app@localhost",
    "GRANT ALL ON d.* TO app@'127.0.0.1'",
    "CREATE PROCEDURE d.p() BEGIN INSERT INTO d.u VALUES (9); DELETE FROM d.u; END",
];

/// The last statement of the setup.
const MARKER: &str = "SELECT 'from here on'";

/// The statements of a session as text.
const STATEMENTS: &[&str] = &[
    "SELECT 1",
    "SELECT 'it''s', \"quoted\", `id` FROM t WHERE id = 1",
    "SELECT 1,\n\t2,\r\n3 -- comment\n, 4",
    "SELECT 'back\\\\slash \\' quote'",
    "SELECT '\u{8}\u{c}'",
    "SELECT 'größer \u{30c7}\u{30fc}\u{30bf}'",
    "/* a, 'comment' */ SELECT 2",
    "SELECT * FROM nosuch",
    "SELEKT 1",
    "INSERT INTO u VALUES (1), (2)",
    "INSERT INTO u VALUES (1)",
    "INSERT INTO u SELECT id + 10 FROM t",
    "UPDATE t JOIN u USING (id) SET v = 'z'",
    "DELETE FROM u",
    "CREATE TABLE n (a INT)",
    "ALTER TABLE n ADD b INT",
    "RENAME TABLE n TO m",
    "TRUNCATE TABLE m",
    "DROP TABLE m",
    "BEGIN",
    "COMMIT",
    "SELECT 1; SELECT 2; SELECT 3",
    "SELECT 1; SELEKT 2; SELECT 3",
    "PREPARE s FROM 'SELECT * FROM t WHERE id = ?'",
    "EXECUTE s USING 1",
    "SET @a = 1",
    "SHOW TABLES",
    "",
];

/// The lines of a file in server_audit's format, without the times. A line without one is the rest
/// of a line that was broken in two.
fn without_times(text: &str) -> Vec<&str> {
    let is_time = |time: &str| {
        let shape = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c });
        shape.eq("00000000 00:00:00,".chars())
    };
    let lines = text.split_terminator('\n');
    lines
        .map(|line| match line.split_at_checked(18) {
            Some((time, rest)) if is_time(time) => rest,
            _ => line,
        })
        .collect()
}

/// `operation` of a line without its time.
fn operation(line: &str) -> &str {
    line.split(',').nth(5).unwrap_or_default()
}

/// Lines that only our log has: events that server_audit does not report.
fn is_ours_alone(line: &str) -> bool {
    matches!(operation(line), "COMMAND" | "AUDIT_START" | "AUDIT_STOP" | "AUDIT_CONFIG")
}

/// A server with both plugins; the result of `work` in server_audit's log and in ours, without
/// times and without the lines that only our log has.
fn both(
    options: &[&str],
    library: Option<&Path>,
    work: impl FnOnce(&TestServer),
) -> [Vec<String>; 2] {
    let server_audit = server::server_audit();
    let mut builder = TestServer::builder()
        .plugin(server_audit.expect("server_audit"))
        .option("plugin-load-add=server_audit")
        .option("plugin-load-add=tacho")
        .option("tacho_tables=ON")
        .option("tacho_format=CSV")
        .option("server_audit_output_type=file")
        .option("server_audit_file_path=server_audit.log")
        .option("server_audit_query_log_limit=1000000")
        .option("server_audit_logging=ON");
    for option in options {
        builder = builder.option(option);
    }
    if let Some(library) = library {
        builder = builder.plugin(library);
    }
    let mut server = builder.start().expect("a server");
    let mut root = Raw::connect(server.socket(), "root").expect("a session");
    root.must(SETUP);
    root.must(&[MARKER]);
    quit(root);
    work(&server);
    server.stop().expect("stopping");
    let theirs = fs::read(server.data_directory().join("server_audit.log")).expect("its file");
    let theirs = String::from_utf8(theirs).expect("UTF-8");
    let host = theirs[18..].split(',').next().expect("a host").to_owned();
    let log = server.data_directory().join("tacho");
    let ours = converted::log(&log, Format::Csv, &host).expect("a good log");
    // Not only a conversion is equal to theirs, but also what the server writes.
    let names = fs::read_dir(&log).expect("the log").map(|entry| entry.expect("an entry").path());
    let csv: Vec<_> = names.filter(|path| path.extension().is_some_and(|e| e == "csv")).collect();
    let [csv] = &csv[..] else { panic!("{csv:?}") };
    assert_eq!(fs::read_to_string(csv).expect("UTF-8"), ours);
    [theirs, ours].map(|text| {
        let lines = without_times(&text);
        let marker = lines.iter().position(|line| line.contains("from here on"));
        let first = marker.expect("the marker") + 1;
        let lines = lines[first..].iter().filter(|line| !is_ours_alone(line));
        lines.map(|line| (*line).to_owned()).collect()
    })
}

/// The connection of a line.
fn conn(line: &str) -> u64 {
    let field = line.split(',').nth(3).expect("a connection");
    field.parse().unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Compares session by session: one may begin before both plugins have heard of another's end.
///
/// # Panics
/// They differ; the message shows where.
fn assert_same(mut theirs: Vec<String>, mut ours: Vec<String>) {
    for lines in [&mut theirs, &mut ours] {
        lines.sort_by_key(|line| conn(line));
    }
    for (index, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
        assert_eq!(theirs, ours, "line {index}");
    }
    let common = theirs.len().min(ours.len());
    assert_eq!(theirs[common..], ours[common..], "at the end");
}

/// Quits, so that both see the same end.
fn quit(mut raw: Raw) {
    // The answer is the end of the connection.
    raw.begin(com::QUIT, b"").expect("sent");
    let _ = raw.read_packet();
}

#[test]
fn the_same_statements_make_the_same_lines() {
    let [theirs, mut ours] = both(&[], None, |server| {
        let login = Login { db: Some(b"d"), ..Login::new("app") };
        let mut raw = Raw::login(server.socket(), &login).expect("an answer").expect("a session");
        for statement in STATEMENTS {
            raw.query(statement).expect("an answer");
        }
        let long = format!("SELECT '{}'", "x,'\\n".repeat(20_000));
        raw.query(&long).expect("an answer");
        let id = raw.prepare("SELECT * FROM t WHERE id = ?").expect("an answer").expect("an id");
        raw.execute(id, &[Some(b"1")], false).expect("an answer");
        raw.prepare("SELECT * FROM nosuch2").expect("an answer").expect_err("no such table");
        raw.command(com::PING, b"").expect("an answer");
        raw.command(com::INIT_DB, b"d").expect("an answer");
        raw.query("SELECT 'after init db'").expect("an answer");
        quit(raw);
        quit(Raw::login_tcp(server.port(), &login).expect("an answer").expect("a session"));
        for user in ["nosuch", "app"] {
            let login = Login { response: b"01234567890123456789", ..Login::new(user) };
            assert!(Raw::login(server.socket(), &login).expect("an answer").is_err());
        }
    });
    assert!(theirs.len() > 50, "only {} lines", theirs.len());
    // SQL's EXECUTE is a separate statement in our log; server_audit only has the executed
    // statement.
    ours.retain(|line| !line.contains(",QUERY,d,'EXECUTE s USING <secret>',"));
    assert_same(theirs, ours);
}

#[test]
fn the_differences_are_documented() {
    let library = map_auth::build();
    let options = ["plugin-load-add=map_auth"];
    let [theirs, ours] = both(&options, Some(&library), |server| {
        let mut root = Raw::connect(server.socket(), "root").expect("a session");
        root.must(&[
            "GRANT PROXY ON app@localhost TO root@localhost WITH GRANT OPTION",
            "CREATE USER worker@localhost IDENTIFIED VIA map_auth AS 'app|jane'",
            "GRANT PROXY ON app@localhost TO worker@localhost",
        ]);
        // Proxied.
        let proxied = Raw::connect(server.socket(), "worker").expect("a session");
        quit(proxied);
        // Another user, and one that there is not.
        let login = Login { db: Some(b"d"), ..Login::new("app") };
        let mut raw = Raw::login(server.socket(), &login).expect("an answer").expect("a session");
        raw.change_user(b"root", b"", b"mysql").expect("an answer");
        raw.change_user(b"nosuch", b"01234567890123456789", b"").expect("an answer");
        // Killed.
        let victim = Raw::connect(server.socket(), "root").expect("a session");
        root.must(&[&format!("KILL {}", victim.conn)]);
        // A program with its definer's rights, and the database of its caller.
        let mut raw = Raw::login(server.socket(), &login).expect("an answer").expect("a session");
        raw.must(&["CALL p()", "USE information_schema", "USE d"]);
        quit(raw);
        // Names that break a line.
        root.must(&["CREATE DATABASE `x,'\ny`", "CREATE TABLE `x,'\ny`.`a,b` (id INT)"]);
        quit(root);
    });
    fs::remove_dir_all(library.parent().expect("a directory")).expect("removed");
    // The user and the fields after the numbers, in theirs and in ours.
    for (user, in_theirs, in_ours) in [
        // In a session without a default database, theirs names that of the first table it met.
        ("root", "QUERY,mysql,'KILL ", "QUERY,,'KILL "),
        // The privileged account, of which our log does not have the host.
        ("worker", "PROXY_CONNECT,,`app`@`localhost`,0", "PROXY_CONNECT,,`app`@``,0"),
        // Their record has lost the user.
        ("", "CHANGEUSER,OOO", ""),
        ("root", "", "CHANGEUSER,mysql,,0"),
        ("nosuch", "CHANGEUSER,,,1045", "CHANGEUSER,,,1045"),
        // In a program, theirs has the caller for statements and the definer for tables.
        ("app", "QUERY,d,'DELETE FROM d.u',0", ""),
        ("root", "", "QUERY,d,'DELETE FROM d.u',0"),
        ("root", "WRITE,d,u,", "WRITE,d,u,"),
        ("app", "QUERY,d,'CALL p()',0", "QUERY,d,'CALL p()',0"),
        // The database after USE, and before it.
        (
            "app",
            "QUERY,information_schema,'USE information_schema',0",
            "QUERY,d,'USE information_schema',0",
        ),
        // Secrets: theirs only knows IDENTIFIED BY.
        ("root", "IDENTIFIED VIA map_auth AS \\'app|jane\\'',0", ""),
        ("root", "", "IDENTIFIED VIA map_auth AS <secret>',0"),
        // A name of their lines breaks them.
        ("root", "CREATE,x,'", "CREATE,x\\x2c\\'\\ny,a\\x2cb,"),
        ("root", "DISCONNECT,,,0", "DISCONNECT,,,0"),
    ] {
        for (whose, lines, rest) in [("theirs", &theirs, in_theirs), ("ours", &ours, in_ours)] {
            let begin = format!(",{user},");
            let is_it = |line: &String| line.contains(&begin) && line.contains(rest);
            assert!(
                lines.iter().any(is_it),
                "{user} {rest} is not in {whose}:\n{}",
                lines.join("\n")
            );
        }
    }
    assert!(theirs.iter().any(|line| line == "y,a,b,"), "{}", theirs.join("\n"));
    let is_whole = |line: &String| line.split(',').count() >= 9;
    assert!(ours.iter().all(is_whole), "{}", ours.join("\n"));
}
