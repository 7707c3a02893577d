//! Zone: outside. The identity of sessions: names are exact whatever they contain, refused sessions
//! are recorded, and so are the statements of the event scheduler and the end of the server.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use tacho_tests::raw::{Answer, Login, Raw, com};
use tacho_tests::recorded::{self, Line, number, text};
use tacho_tests::server::TestServer;

fn lines_of(server: &mut TestServer) -> Vec<Line> {
    if server.pid().is_some() {
        server.stop().expect("stopping");
    }
    let lines = recorded::read(&server.data_directory().join("tacho")).expect("a good log");
    for line in &lines {
        let outcome = text(line, "outcome");
        assert!(!matches!(outcome, Some("running" | "interrupted")), "{line:?}");
    }
    lines
}

fn with_sql<'l>(lines: &'l [Line], marker: &str) -> Vec<&'l Line> {
    lines.iter().filter(|line| text(line, "sql").is_some_and(|sql| sql.contains(marker))).collect()
}

#[test]
fn names_are_exact() {
    let names =
        ["a] @ b [", "quo\"te", "back\\slash", "new\nline", "com,ma", "Grüße", "{\"user\":1}", " "];
    let mut server =
        TestServer::builder().option("plugin-load-add=tacho").start().expect("a server");
    let mut root = Raw::connect(server.socket(), "root").expect("a session");
    for name in names {
        let quoted = name.replace('\\', "\\\\").replace('\'', "''");
        root.must(&[
            &format!("CREATE USER '{quoted}'@localhost"),
            &format!("CREATE DATABASE `{name}x`"),
        ]);
        root.must(&[&format!("GRANT ALL ON *.* TO '{quoted}'@localhost")]);
    }
    let mut conns = Vec::new();
    for name in names {
        let db = format!("{name}x");
        let login = Login { db: Some(db.as_bytes()), ..Login::new(name) };
        let mut raw =
            Raw::login(server.socket(), &login).expect("a connection").expect("a session");
        raw.must(&["SELECT 'mine'"]);
        raw.command(com::QUIT, b"").expect("quitting");
        conns.push(raw.conn);
    }
    let lines = lines_of(&mut server);
    for (name, conn) in names.iter().zip(conns) {
        let lines = recorded::of_conn(&lines, conn);
        assert_eq!(lines.len(), 4, "{lines:?}");
        for line in lines {
            assert_eq!(text(line, "user"), Some(*name), "{line:?}");
            assert_eq!(text(line, "priv_user"), Some(*name), "{line:?}");
            assert_eq!(text(line, "host"), Some("localhost"), "{line:?}");
            assert_eq!(text(line, "db"), Some(&*format!("{name}x")), "{line:?}");
        }
    }
}

/// Within a definer's procedure the server reports the definer, as `user` too: the caller is in the
/// line of the CALL, with the same `conn`. An anonymous account has an empty `priv_user`, which is
/// omitted. A role changes neither.
#[test]
fn the_account_of_the_privileges_is_recorded() {
    let mut server =
        TestServer::builder().option("plugin-load-add=tacho").start().expect("a server");
    Raw::connect(server.socket(), "root").expect("a session").must(&[
        "CREATE DATABASE d",
        "CREATE USER definer@localhost",
        "CREATE USER client@localhost",
        "CREATE ROLE boss",
        "GRANT boss TO client@localhost",
        "GRANT SELECT, EXECUTE ON *.* TO boss",
        "GRANT ALL ON *.* TO definer@localhost",
        "CREATE DEFINER = definer@localhost PROCEDURE d.p() SELECT 'nested'",
        "CREATE DEFINER = definer@localhost PROCEDURE d.invoked() SQL SECURITY INVOKER SELECT 'invoked'",
        "CREATE USER ''@localhost",
    ]);
    let mut raw = Raw::connect(server.socket(), "client").expect("a session");
    raw.must(&["SET ROLE boss", "CALL d.p()", "CALL d.invoked()"]);
    assert_eq!(raw.change_user(b"anybody", b"", b"").expect("an answer"), 0);
    raw.must(&["SELECT 'anonymous'"]);
    let lines = lines_of(&mut server);
    let who = |marker: &str| {
        let found = with_sql(&lines, marker);
        let of = |line: &Line, field| text(line, field).unwrap_or_default().to_owned();
        let line = found.last().unwrap_or_else(|| panic!("no {marker}"));
        (of(line, "user"), of(line, "priv_user"))
    };
    let pair = |user: &str, priv_user: &str| (user.to_owned(), priv_user.to_owned());
    assert_eq!(who("SET ROLE boss"), pair("client", "client"));
    assert_eq!(who("CALL d.p()"), pair("client", "client"));
    assert_eq!(who("SELECT 'nested'"), pair("definer", "definer"));
    assert_eq!(who("SELECT 'invoked'"), pair("client", "client"));
    assert_eq!(who("SELECT 'anonymous'"), pair("anybody", ""));
}

#[test]
fn refused_sessions_are_recorded() {
    let extra = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let extra_port = extra.local_addr().expect("an address").port();
    drop(extra);
    let mut server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option("max-connections=10")
        .option("max-connect-errors=1")
        .option(format!("extra-port={extra_port}"))
        .start()
        .expect("a server");
    let mut root = Raw::connect(server.socket(), "root").expect("a session");
    root.must(&[
        "CREATE USER one@localhost WITH MAX_USER_CONNECTIONS 1",
        "CREATE USER locked@localhost ACCOUNT LOCK",
    ]);
    let kept = Raw::connect(server.socket(), "one").expect("a session");
    let refused = |login: Login| {
        Raw::login(server.socket(), &login).expect("a connection").expect_err("a refusal")
    };
    let attempts = [
        refused(Login::new("one")),
        refused(Login::new("locked")),
        refused(Login { response: &[b'x'; 20], ..Login::new("nosuch") }),
        refused(Login { db: Some(b"nosuch"), ..Login::new("root") }),
    ];
    let mut extra = Raw::login_tcp(extra_port, &Login::new("root"))
        .expect("a connection")
        .expect("a session on the extra port");
    extra.must(&["SELECT 'on the extra port'"]);
    drop(kept);
    drop(extra);
    let lines = lines_of(&mut server);
    assert_eq!(with_sql(&lines, "'on the extra port'").len(), 1);
    for (conn, errno) in attempts {
        let lines = recorded::of_conn(&lines, conn);
        let failures: Vec<_> =
            lines.iter().filter(|line| text(line, "event") == Some("connect_failed")).collect();
        assert_eq!(failures.len(), 1, "{conn} {errno}: {lines:#?}");
        assert_eq!(number(failures[0], "errno"), Some(u64::from(errno)), "{lines:#?}");
        assert_eq!(text(failures[0], "outcome"), Some("error"));
        assert!(failures[0].contains_key("error"), "{lines:#?}");
    }
}

#[test]
fn the_event_scheduler_is_recorded() {
    let mut server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option("event-scheduler=ON")
        .start()
        .expect("a server");
    let mut root = Raw::connect(server.socket(), "root").expect("a session");
    root.must(&[
        "CREATE DATABASE d",
        "CREATE TABLE d.done (v TEXT)",
        "CREATE EVENT d.e ON SCHEDULE AT NOW() DO BEGIN INSERT INTO d.done VALUES ('first'); \
         INSERT INTO d.done VALUES ('second'); END",
    ]);
    let deadline = Instant::now() + Duration::from_secs(180);
    let both = [Answer::Rows { rows: 2, error: None }];
    while root.query("SELECT v FROM d.done").expect("an answer") != both {
        assert!(Instant::now() < deadline, "the event was never executed");
        thread::sleep(Duration::from_millis(20));
    }
    drop(root);
    let lines = lines_of(&mut server);
    for marker in ["VALUES ('first')", "VALUES ('second')"] {
        let found: Vec<&Line> = with_sql(&lines, marker)
            .into_iter()
            .filter(|line| text(line, "sql_command") == Some("insert"))
            .collect();
        assert_eq!(found.len(), 1, "{marker}: {found:#?}");
        assert_eq!(text(found[0], "user"), Some("root"), "{found:#?}");
        assert_eq!(text(found[0], "outcome"), Some("ok"), "{found:#?}");
        assert!(number(found[0], "conn_seq").is_some(), "{found:#?}");
    }
}

#[test]
fn the_command_that_stops_the_server_is_recorded() {
    for by_sql in [true, false] {
        let mut server =
            TestServer::builder().option("plugin-load-add=tacho").start().expect("a server");
        let mut raw = Raw::connect(server.socket(), "root").expect("a session");
        let conn = raw.conn;
        if by_sql {
            raw.must(&["SHUTDOWN"]);
        } else {
            raw.command(com::SHUTDOWN, b"\0").expect("an answer");
        }
        assert!(server.wait_for_exit().expect("an end").success());
        let lines = lines_of(&mut server);
        let mine = recorded::of_conn(&lines, conn);
        let line = mine.iter().find(|line| text(line, "event") == Some("statement"));
        let line = line.unwrap_or_else(|| panic!("{mine:#?}"));
        let expected = if by_sql { "Query" } else { "Shutdown" };
        assert_eq!(text(line, "command"), Some(expected), "{mine:#?}");
        assert_eq!(text(line, "outcome"), Some("ok"), "{mine:#?}");
        assert_eq!(text(lines.last().expect("lines"), "event"), Some("stop"));
    }
}
