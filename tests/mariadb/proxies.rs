//! Zone: outside. Sessions with another identity: proxied accounts and external users, as an
//! authentication plugin maps them (`tests/plugins/map_auth.c`).

use std::fs;
use std::path::{Path, PathBuf};

use tacho_tests::map_auth;
use tacho_tests::raw::{Login, Raw, com};
use tacho_tests::recorded::{self, Line, text};
use tacho_tests::server::TestServer;

const SETUP: &[&str] = &[
    "CREATE USER boss@localhost",
    "GRANT ALL ON *.* TO boss@localhost",
    "CREATE USER `o'd\"d\nboss`@localhost",
    // Mapped, and allowed to.
    "CREATE USER worker@localhost IDENTIFIED VIA map_auth AS 'boss|jane@EXAMPLE.COM'",
    "GRANT PROXY ON boss@localhost TO worker@localhost",
    // Itself, under a name of another directory.
    "CREATE USER plain@localhost IDENTIFIED VIA map_auth AS '|CN=Gr\u{fc}\u{df}e, \"O\"=x\\\\y'",
    "CREATE USER odd@localhost IDENTIFIED VIA map_auth AS 'o''d\"d\nboss|line\nbreak'",
    "GRANT PROXY ON `o'd\"d\nboss`@localhost TO odd@localhost",
    // Mapped to a user without the privilege, and to no user.
    "CREATE USER greedy@localhost IDENTIFIED VIA map_auth AS 'root|greedy'",
    "CREATE USER lost@localhost IDENTIFIED VIA map_auth AS 'nosuch|lost'",
    "GRANT PROXY ON nosuch@localhost TO lost@localhost",
];

struct Recorded {
    lines: Vec<Line>,
    place: PathBuf,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.place) {
            eprintln!("cannot remove {}: {error}", self.place.display());
        }
    }
}

/// Runs `work` on a server with the plugin; its lines.
fn record(work: impl FnOnce(&Path)) -> Recorded {
    let library = map_auth::build();
    let mut server = TestServer::builder()
        .plugin(&library)
        .option("plugin-load-add=tacho")
        .option("plugin-load-add=map_auth")
        .start()
        .expect("a server");
    Raw::connect(server.socket(), "root").expect("a session").must(SETUP);
    work(server.socket());
    server.stop().expect("stopping");
    server.assert_clean_log(&["max_open_files", "Aborted connection", "Access denied"]);
    let lines = recorded::read(&server.data_directory().join("tacho")).expect("a good log");
    Recorded { lines, place: library.parent().expect("a directory").to_owned() }
}

/// `user`, `priv_user`, `proxy_user`, `os_user`.
fn who(line: &Line) -> [&str; 4] {
    ["user", "priv_user", "proxy_user", "os_user"].map(|name| text(line, name).unwrap_or_default())
}

fn event(line: &Line) -> &str {
    text(line, "event").expect("an event")
}

#[test]
fn a_session_has_its_account_and_its_external_user() {
    let sessions = [
        ["worker", "boss", "'worker'@'localhost'", "jane@EXAMPLE.COM"],
        ["plain", "plain", "", "CN=Gr\u{fc}\u{df}e, \"O\"=x\\y"],
        ["odd", "o'd\"d\nboss", "'odd'@'localhost'", "line\nbreak"],
        ["boss", "boss", "", ""],
    ];
    let mut conns = Vec::new();
    let recorded = record(|socket| {
        for [user, ..] in sessions {
            let mut raw = Raw::connect(socket, user).expect("a session");
            raw.must(&["SELECT 'mine'"]);
            raw.command(com::QUIT, b"").expect("quitting");
            conns.push(raw.conn);
        }
    });
    for (expected, conn) in sessions.iter().zip(conns) {
        let lines = recorded::of_conn(&recorded.lines, conn);
        assert_eq!(lines.len(), 4, "{lines:#?}");
        let [user, priv_user, ..] = *expected;
        for line in lines {
            // The server reports the proxy only with the events of the session.
            let expected = match event(line) {
                "statement" => [user, priv_user, "", ""],
                _ => *expected,
            };
            assert_eq!(who(line), expected, "{line:?}");
            assert_eq!(text(line, "host"), Some("localhost"), "{line:?}");
        }
    }
}

#[test]
fn a_change_of_the_user_has_the_new_names() {
    let mut conn = 0;
    let recorded = record(|socket| {
        let mut raw = Raw::connect(socket, "root").expect("a session");
        conn = raw.conn;
        for user in ["worker", "plain", "greedy", "boss"] {
            let errno = raw.change_user(user.as_bytes(), b"", b"").expect("an answer");
            assert_eq!(errno != 0, user == "greedy", "{user}");
            raw.must(&["SELECT 'changed'"]);
        }
        raw.command(com::QUIT, b"").expect("quitting");
    });
    let lines = recorded::of_conn(&recorded.lines, conn);
    let changes: Vec<_> = lines.iter().filter(|line| event(line) == "change_user").collect();
    let names: Vec<_> = changes.iter().map(|line| who(line)).collect();
    let expected = [
        ["worker", "boss", "", ""],
        ["plain", "plain", "", ""],
        // Refused: the requested identity.
        ["greedy", "greedy", "", ""],
        ["boss", "boss", "", ""],
    ];
    assert_eq!(names, expected);
    assert_eq!(text(changes[2], "outcome"), Some("error"), "{changes:#?}");
    // The server still reports the previous external user: only the account is certain.
    let last = lines.last().expect("lines");
    assert_eq!(event(last), "disconnect");
    assert_eq!(who(last)[..3], ["boss", "boss", ""], "{last:?}");
    let statements: Vec<_> = lines
        .iter()
        .filter(|line| text(line, "sql") == Some("SELECT 'changed'"))
        .map(|line| who(line))
        .collect();
    let expected = [
        ["worker", "boss", "", ""],
        ["plain", "plain", "", ""],
        // A refused change leaves it as it was.
        ["plain", "plain", "", ""],
        ["boss", "boss", "", ""],
    ];
    assert_eq!(statements, expected);
}

#[test]
fn a_proxy_without_the_privilege_is_refused_and_recorded() {
    let mut attempts = Vec::new();
    let recorded = record(|socket| {
        for user in ["greedy", "lost"] {
            let refusal = Raw::login(socket, &Login::new(user)).expect("a connection");
            attempts.push((user, refusal.err().unwrap_or_else(|| panic!("{user} was let in"))));
        }
    });
    for (user, (conn, errno)) in attempts {
        let lines = recorded::of_conn(&recorded.lines, conn);
        let failed: Vec<_> = lines.iter().filter(|l| event(l) == "connect_failed").collect();
        assert_eq!(failed.len(), 1, "{lines:#?}");
        assert_eq!(text(failed[0], "user"), Some(user), "{lines:#?}");
        assert_eq!(recorded::number(failed[0], "errno"), Some(u64::from(errno)), "{lines:#?}");
        assert_ne!(text(failed[0], "priv_user"), Some("root"), "{lines:#?}");
    }
}
