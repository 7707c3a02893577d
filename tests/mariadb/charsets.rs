//! Zone: outside. Statements in every character set that a client can use: each line is valid
//! JSON, and gives back the very bytes that the client sent.

use tacho_record::charset::{Charset, restore};
use tacho_tests::charsets;
use tacho_tests::raw::{Login, Raw, com};
use tacho_tests::recorded::{self, number, text};
use tacho_tests::server::TestServer;

/// `ER_WRONG_VALUE_FOR_VAR`.
const REFUSAL: u16 = 1231;

#[test]
fn every_character_set_gives_its_bytes_back() {
    let mut server =
        TestServer::builder().option("plugin-load-add=tacho").start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    let sets = charsets::sets(&mut conn).expect("the character sets");
    assert!(sets.len() > 35, "{sets:?}");
    let mut sent: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, collation) in &sets {
        let login = Login { collation: *collation, ..Login::new("root") };
        let session = Raw::login(server.socket(), &login).expect("a connection");
        let mut by_name = Raw::connect(server.socket(), "root").expect("a session");
        let set = by_name.query(format!("SET NAMES {name}")).expect("an answer");
        if charsets::REFUSED.contains(&name.as_str()) {
            assert_eq!(session.expect_err("a refusal").1, REFUSAL, "{name}");
            assert_eq!(set[0].errno(), REFUSAL, "{name}");
            continue;
        }
        let mut by_login = session.unwrap_or_else(|refusal| panic!("{name}: {refusal:?}"));
        assert_eq!(set[0].errno(), 0, "{name}");
        for raw in [&mut by_login, &mut by_name] {
            for payload in charsets::payloads() {
                let sql = charsets::statement(sent.len(), &payload);
                // Whether it parses does not matter.
                raw.query(&sql).expect("an answer");
                sent.push((name.clone(), sql));
            }
            raw.command(com::QUIT, b"").expect("quitting");
        }
    }
    server.stop().expect("stopping");
    let lines = recorded::read(&server.data_directory().join("tacho")).expect("a good log");
    let mut seen = vec![0; sent.len()];
    for line in &lines {
        let Some(sql) = text(line, "sql") else { continue };
        let Some(id) = sql.split_once("/* id:").and_then(|(_, rest)| rest.split_once('.')) else {
            continue;
        };
        let id: usize = id.0.parse().expect("an id");
        let (name, bytes) = &sent[id];
        assert_eq!(text(line, "sql_charset"), Some(&**name), "{line:?}");
        let charset = Charset::by_name(name.as_bytes()).expect("a known character set");
        let restored = restore(sql, text(line, "sql_b64"), charset).expect("restorable");
        assert_eq!(&restored, bytes, "{line:?}");
        assert!(number(line, "sql_bytes").is_none(), "{line:?}");
        seen[id] += 1;
    }
    assert!(seen.iter().all(|count| *count == 1), "{seen:?}");
}

/// A limit on the length never leaves half a character, which would need its original bytes.
#[test]
fn long_statements_are_cut_between_characters() {
    const LIMIT: usize = 40;
    let mut server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option(format!("tacho-max-statement-bytes={LIMIT}"))
        .start()
        .expect("a server");
    let mut raw = Raw::connect(server.socket(), "root").expect("a session");
    // The last byte of 表 and 誠 is a backslash, 0x5C, in its set.
    let sets = [("utf8mb4", "\u{1F600}"), ("sjis", "表"), ("gbk", "誠")];
    for (name, character) in sets {
        assert_eq!(raw.query(format!("SET NAMES {name}")).expect("an answer")[0].errno(), 0);
        let charset = Charset::by_name(name.as_bytes()).expect("a known character set");
        let character = charset.encode(character).expect("the set has it");
        for shift in 0..4 {
            let begin = format!("SELECT /*{name}{}*/ '", "-".repeat(shift));
            let sql = [begin.as_bytes(), &character.repeat(20), b"' AS x"].concat();
            assert_eq!(raw.query(&sql).expect("an answer")[0].errno(), 0, "{name}");
        }
    }
    drop(raw);
    server.stop().expect("stopping");
    let lines = recorded::read(&server.data_directory().join("tacho")).expect("a good log");
    let cut: Vec<_> =
        lines.iter().filter(|l| text(l, "sql").is_some_and(|sql| sql.contains("/*"))).collect();
    let mut lengths = Vec::new();
    for line in &cut {
        assert_eq!(text(line, "sql_b64"), None, "{line:?}");
        assert!(number(line, "sql_bytes").is_some(), "{line:?}");
        let charset = text(line, "sql_charset").expect("a character set").as_bytes();
        let charset = Charset::by_name(charset).expect("a known character set");
        lengths.push(charset.encode(text(line, "sql").expect("a text")).expect("its set").len());
    }
    assert_eq!(lengths.len(), sets.len() * 4);
    assert!(lengths.iter().all(|bytes| (LIMIT - 3..=LIMIT).contains(bytes)), "{lengths:?}");
    assert!(lengths.iter().any(|bytes| *bytes < LIMIT), "nothing needed care: {lengths:?}");
}

const PARAMETERS: [&str; 7] =
    ["plain", "it's", "a\\b", "new\nline", "\u{1F600}", "NULL", "x' OR '1'='1"];

fn execute_with_parameters(options: &[&str]) -> Vec<String> {
    let mut builder = TestServer::builder().option("plugin-load-add=tacho");
    for option in options {
        builder = builder.option(option);
    }
    let mut server = builder.start().expect("a server");
    let mut raw = Raw::connect(server.socket(), "root").expect("a session");
    raw.must(&["CREATE DATABASE d", "CREATE TABLE d.b (b BLOB)"]);
    let id = raw.prepare("INSERT INTO d.b VALUES (?)").expect("an answer").expect("prepared");
    for parameter in PARAMETERS {
        let answers = raw.execute(id, &[Some(parameter.as_bytes())], false).expect("an answer");
        assert_eq!(answers[0].errno(), 0);
    }
    drop(raw);
    server.stop().expect("stopping");
    let lines = recorded::read(&server.data_directory().join("tacho")).expect("a good log");
    lines
        .iter()
        .filter(|line| text(line, "command") == Some("Execute"))
        .filter_map(|line| text(line, "sql").map(str::to_owned))
        .collect()
}

/// The server puts the parameters into the text only where it needs that itself: for its general
/// log, slow log or query cache, and of changes for the binary log. Then they are in the record.
#[test]
fn parameters_are_shown_where_the_server_does() {
    let plain = execute_with_parameters(&[]);
    assert_eq!(plain, vec!["INSERT INTO d.b VALUES (?)"; PARAMETERS.len()]);
    let quote = |parameter: &&str| {
        let quoted = parameter.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
        format!("INSERT INTO d.b VALUES ('{quoted}')")
    };
    let expected: Vec<String> = PARAMETERS.iter().map(quote).collect();
    for option in ["slow-query-log=ON", "log-bin=binlog", "general-log=ON"] {
        assert_eq!(execute_with_parameters(&[option]), expected, "{option}");
    }
}
