//! Zone: outside. Sessions of every kind with a real MySQL: cursors, query attributes, character
//! sets, and servers that refuse to write or to serve, or end their sessions.
//! `scripts/test-release.sh` runs them.

use std::fs;

use tacho_record::charset::{Charset, restore};
use tacho_tests::client::{self, Queryable};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_rewriting::{self, rewritten};
use tacho_tests::mysql_server::{named, wait_for_end};
use tacho_tests::raw::{Answer, Login, Raw, com, length_encoded};
use tacho_tests::recorded::{self, Line};
use tacho_tests::wait;

/// The texts that one user's sessions have sent.
fn texts<'l>(lines: &'l [Line], user: &str) -> Vec<&'l str> {
    let is_his = |line: &&Line| recorded::text(line, "user") == Some(user);
    lines.iter().filter(is_his).filter_map(|line| recorded::text(line, "sql")).collect()
}

#[test]
fn a_cursor_is_recorded_with_its_fetches() {
    let place = LogAndArenas::new("cursor");
    let (mut server, root) = place.start(&[]);
    let mut raw = Raw::connect(server.socket(), "root").expect("a session");
    let conn = raw.conn;
    let id = raw.prepare("SELECT 1 UNION SELECT 2 UNION SELECT 3").expect("a packet").expect("it");
    raw.execute(id, &[], true).expect("an answer");
    for _ in 0..2 {
        let body = [id.to_le_bytes(), 2_u32.to_le_bytes()].concat();
        raw.command(com::STMT_FETCH, &body).expect("an answer");
    }
    raw.command(com::QUIT, b"").expect("quitting");
    drop(root);
    let lines = place.end(&mut server);
    let found = recorded::briefs(&lines, conn);
    assert_eq!(found.len(), 7, "{found:?}");
    assert!(found[1].starts_with("Prepare ok \"SELECT 1 UNION"), "{found:?}");
    assert!(found[2].starts_with("Execute select ok \"SELECT 1 UNION"), "{found:?}");
    assert_eq!(found[3..], ["Fetch ok", "Fetch ok", "Quit ok", "disconnect"]);
    server.assert_clean_log(&[]);
}

/// Of the protocol.
const CLIENT_QUERY_ATTRIBUTES: u32 = 1 << 27;

/// The body of a statement that has one: its name, its value.
fn with_attribute(name: &str, value: &str, sql: &str) -> Vec<u8> {
    // One attribute, one set of values, none is NULL, types are sent; a text.
    let mut body = vec![1, 1, 0, 1, 0xfe, 0];
    body.extend(length_encoded(name.as_bytes()));
    body.extend(length_encoded(value.as_bytes()));
    body.extend(sql.as_bytes());
    body
}

/// They are not part of the statement, and may be anything.
#[test]
fn query_attributes_are_not_recorded() {
    let place = LogAndArenas::new("attributes");
    let (mut server, mut root) = place.start(&[]);
    root.query_drop("CREATE USER visitor").expect("an answer");
    let login = Login { capabilities: CLIENT_QUERY_ATTRIBUTES, ..Login::new("visitor") };
    let mut raw = Raw::login(server.socket(), &login).expect("a connection").expect("a session");
    let body = with_attribute("token", "hushhush", "DO 'with attributes'");
    let answers = raw.command(com::QUERY, &body).expect("an answer");
    assert_eq!(answers, [Answer::Ok]);
    raw.command(com::QUIT, b"").expect("quitting");
    drop(root);
    let lines = place.end(&mut server);
    let with = texts(&lines, "visitor").into_iter().filter(|sql| sql.contains("with attributes"));
    assert_eq!(with.collect::<Vec<_>>(), ["DO 'with attributes'"]);
    assert!(lines.iter().all(|line| !format!("{line:?}").contains("hushhush")));
    server.assert_clean_log(&[]);
}

/// They stay with the statement that is executed in its place.
#[test]
fn a_statement_with_query_attributes_is_rewritten() {
    let place = LogAndArenas::new("attributes-rewritten");
    let mut server = place.builder().start().expect("a server");
    let mut root = mysql_rewriting::prepare(&server);
    mysql_rewriting::set(&mut root, &[("SELECT ? FROM d.one", "SELECT ? FROM d.one LIMIT 0")]);
    let login = Login { capabilities: CLIENT_QUERY_ATTRIBUTES, ..Login::new("app") };
    let mut raw = Raw::login(server.socket(), &login).expect("a connection").expect("a session");
    let body = with_attribute("token", "hushhush", "SELECT 41 FROM d.one");
    let answers = raw.command(com::QUERY, &body).expect("an answer");
    assert_eq!(answers, [Answer::Rows { rows: 0, error: None }]);
    raw.command(com::QUIT, b"").expect("quitting");
    drop(root);
    let lines = place.end(&mut server);
    let both = ("SELECT 41 FROM d.one", "SELECT 41 FROM d.one LIMIT 0");
    assert_eq!(rewritten(&lines), [both]);
    assert!(lines.iter().all(|line| !format!("{line:?}").contains("hushhush")));
    server.assert_clean_log(&[]);
}

/// Those that the server does not take from a client: its parser wants ASCII.
const REFUSED: [&str; 4] = ["ucs2", "utf16", "utf16le", "utf32"];

/// Bytes that are hard for one character set or another.
fn payloads() -> [Vec<u8>; 4] {
    [
        (0x80..=0xff).collect(),
        "Grüße, 中文, 日本語, \u{1F600}".into(),
        b"\xf0\x9f\x98".to_vec(),
        (0x80..=0xff).flat_map(|lead| [lead, 0x5c]).collect(),
    ]
}

#[test]
fn every_character_set_gives_its_bytes_back() {
    let place = LogAndArenas::new("charsets");
    let (mut server, mut root) = place.start(&[]);
    let sets: Vec<String> = root
        .query("SELECT character_set_name FROM information_schema.character_sets ORDER BY 1")
        .expect("the character sets");
    assert!(sets.len() > 35, "{sets:?}");
    let mut sent: Vec<(&str, Vec<u8>)> = Vec::new();
    for name in sets.iter().filter(|name| !REFUSED.contains(&name.as_str())) {
        let mut raw = Raw::connect(server.socket(), "root").expect("a session");
        let set = raw.query(format!("SET NAMES {name}")).expect("an answer");
        assert_eq!(set[0].errno(), 0, "{name}");
        for payload in payloads() {
            let sql = [
                format!("SELECT /* id:{}. */ _binary '", sent.len()).as_bytes(),
                &payload,
                b"' AS x",
            ]
            .concat();
            // Whether it parses does not matter.
            raw.query(&sql).expect("an answer");
            sent.push((name, sql));
        }
        raw.command(com::QUIT, b"").expect("quitting");
    }
    drop(root);
    let lines = place.end(&mut server);
    let mut seen = vec![0; sent.len()];
    for line in &lines {
        let Some(sql) = recorded::text(line, "sql") else { continue };
        let Some((id, _)) = sql.split_once("/* id:").and_then(|(_, rest)| rest.split_once('.'))
        else {
            continue;
        };
        let id: usize = id.parse().expect("an id");
        let (name, bytes) = &sent[id];
        assert_eq!(recorded::text(line, "sql_charset"), Some(*name), "{line:?}");
        // One that MariaDB 10.11 does not have is treated as bytes (docs/specs/record.md).
        let charset = Charset::by_name(name.as_bytes())
            .unwrap_or_else(|| Charset::by_name(b"binary").expect("there is binary"));
        let restored = restore(sql, recorded::text(line, "sql_b64"), charset).expect("restorable");
        assert_eq!(&restored, bytes, "{line:?}");
        seen[id] += 1;
    }
    assert!(seen.iter().all(|count| *count == 1), "{seen:?}");
}

/// Without passwords, and in its own character set.
#[test]
fn a_prepared_statement_that_the_server_prepares_again_is_read_correctly() {
    let place = LogAndArenas::new("made-anew");
    let (mut server, root) = place.start(&[]);
    let mut raw = Raw::connect(server.socket(), "root").expect("a session");
    raw.must(&["SET NAMES gbk"]);
    // In UTF-8 its name ends with a byte that in GBK combines with the backslash after it.
    let sql =
        b"CREATE USER '\xd6\xd0\\'x'@'%' IDENTIFIED BY 'hushhush', 'b' IDENTIFIED BY 'hushtoo'";
    let id = raw.prepare(sql).expect("a packet").expect("it");
    raw.execute(id, &[], false).expect("an answer");
    raw.command(com::QUIT, b"").expect("quitting");
    drop(root);
    let lines = place.end(&mut server);
    let is_execute = |line: &&Line| recorded::text(line, "command") == Some("Execute");
    let line = lines.iter().find(is_execute).expect("a line");
    let text = recorded::text(line, "sql").expect("a text");
    assert!(text.starts_with("CREATE USER '中"), "{line:?}");
    assert!(text.contains("'b'@'%'"), "{line:?}");
    assert_eq!(recorded::number(line, "errno"), None, "{line:?}");
    assert!(lines.iter().all(|line| !format!("{line:?}").contains("hush")), "{line:?}");
}

/// `ER_SERVER_OFFLINE_MODE`, `ER_OPTION_PREVENTS_STATEMENT`.
const OFFLINE: u64 = 3032;
const PREVENTED: u64 = 1290;

#[test]
fn statements_refused_by_a_read_only_or_offline_server_are_recorded() {
    let place = LogAndArenas::new("refusing");
    let (mut server, mut root) = place.start(&[]);
    for sql in ["CREATE DATABASE d", "CREATE TABLE d.t (id INT)", "CREATE USER visitor"] {
        root.query_drop(sql).expect("an answer");
    }
    root.query_drop("SET GLOBAL super_read_only = ON").expect("an answer");
    root.query_drop("INSERT INTO d.t VALUES (1)").expect_err("read only");
    root.query_drop("SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF").expect("an answer");
    root.query_drop("SET GLOBAL offline_mode = ON").expect("an answer");
    client::connect(server.socket(), "visitor", "").expect_err("offline");
    root.query_drop("DO 'still here'").expect("an answer");
    drop(root);
    let lines = place.end(&mut server);
    let errno = |line: &Line| recorded::number(line, "errno");
    let refused =
        lines.iter().find(|line| recorded::text(line, "sql") == Some("INSERT INTO d.t VALUES (1)"));
    assert_eq!(refused.and_then(errno), Some(PREVENTED));
    let offline = lines.iter().filter(|line| errno(line) == Some(OFFLINE)).count();
    assert!(offline > 0, "the refused login is not recorded");
    assert_eq!(texts(&lines, "root").iter().filter(|sql| **sql == "DO 'still here'").count(), 1);
}

/// `ER_NET_ERROR_ON_WRITE`.
const NO_ANSWER: u64 = 1160;

/// Those without CONNECTION_ADMIN; the statement that one of them executes ends, and cannot be
/// answered.
#[test]
fn sessions_that_offline_mode_ends_have_their_lines() {
    let place = LogAndArenas::new("offline");
    let (mut server, mut root) = place.start(&[]);
    root.query_drop("CREATE USER visitor").expect("an answer");
    let mut idle = Raw::connect(server.socket(), "visitor").expect("a session");
    let mut busy = Raw::connect(server.socket(), "visitor").expect("a session");
    idle.query("DO 'idle'").expect("an answer");
    busy.begin(com::QUERY, b"DO SLEEP(1000)").expect("sending");
    wait::until("it sleeps", || {
        let sleeping = "SELECT COUNT(*) FROM performance_schema.threads \
                        WHERE PROCESSLIST_ID = ? AND PROCESSLIST_STATE = 'User sleep'";
        root.exec_first(sleeping, (busy.conn,)).expect("an answer") == Some(1_u64)
    });
    root.query_drop("SET GLOBAL offline_mode = ON").expect("an answer");
    wait_for_end(&mut root, idle.conn);
    wait_for_end(&mut root, busy.conn);
    root.query_drop("DO 'still here'").expect("an answer");
    drop(root);
    let lines = place.end(&mut server);
    let of_idle = recorded::briefs(&lines, idle.conn);
    assert_eq!(of_idle.len(), 3, "{of_idle:?}");
    assert!(of_idle[1].starts_with("Query do ok \"DO 'idle'\""), "{of_idle:?}");
    // 8.0 has tried to send the reason.
    assert!(of_idle[2].starts_with("disconnect"), "{of_idle:?}");
    let of_busy = recorded::of_conn(&lines, busy.conn);
    let last = of_busy[1..].iter().map(|line| recorded::text(line, "event"));
    assert_eq!(last.collect::<Vec<_>>(), [Some("statement"), Some("disconnect")], "{of_busy:?}");
    assert_eq!(recorded::text(of_busy[1], "sql"), Some("DO SLEEP(1000)"));
    assert_eq!(recorded::number(of_busy[1], "errno"), Some(NO_ANSWER), "{of_busy:?}");
    assert_eq!(recorded::problems(&of_busy), [""; 0]);
    assert_eq!(texts(&lines, "root").iter().filter(|sql| **sql == "DO 'still here'").count(), 1);
}

/// The line is in the file when the statement is answered, and nothing else would have put it there.
#[test]
fn with_sync_a_statement_is_in_the_log_when_it_is_answered() {
    let place = LogAndArenas::new("sync");
    let interval = named("loose-tacho.flush-interval-ms=60000");
    let (mut server, mut root) = place.start(&[&interval]);
    let in_file = |text: &str| {
        fs::read_dir(place.log()).expect("the log").any(|entry| {
            let path = entry.expect("an entry").path();
            path.extension().is_some_and(|extension| extension == "jsonl")
                && fs::read_to_string(path).expect("a file").contains(text)
        })
    };
    // The writer's first round runs when it gets a processor, and takes the existing records.
    wait::until("the writer's first round", || in_file("\"event\":\"start\""));
    root.query_drop("DO 'without'").expect("an answer");
    assert!(!in_file("DO 'without'"));
    root.query_drop(named("SET GLOBAL tacho.durability = 'SYNC'")).expect("an answer");
    root.query_drop("DO 'with'").expect("an answer");
    assert!(in_file("DO 'with'"));
    drop(root);
    let lines = place.end(&mut server);
    let count = |sql: &str| texts(&lines, "root").iter().filter(|found| **found == sql).count();
    // It may have been written while it ran, and again at its end.
    assert_eq!(count("DO 'without'"), 1);
    assert!((1..=2).contains(&count("DO 'with'")));
    server.assert_clean_log(&[]);
}
