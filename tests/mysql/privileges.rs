//! Zone: outside. The privileges to change the recorder in a real MySQL, the settings that can only
//! be changed for the next start, and the lines of changes. `scripts/test-release.sh` runs them.

use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_server::{install, named};
use tacho_tests::recorded;

/// `ER_SPECIFIC_ACCESS_DENIED_ERROR`, `ER_INCORRECT_GLOBAL_LOCAL_VAR`.
const DENIED: u16 = 1227;
const READ_ONLY: u16 = 1238;

fn code(conn: &mut Conn, sql: &str) -> u16 {
    match conn.query_drop(sql) {
        Ok(()) => 0,
        Err(mysql::Error::MySqlError(error)) => error.code,
        Err(other) => panic!("{sql}: {other}"),
    }
}

/// Each variable set to the value that it has.
fn assignments(root: &mut Conn) -> Vec<String> {
    let rows: Vec<(String, String)> =
        root.query(named("SHOW GLOBAL VARIABLES LIKE 'tacho.%'")).expect("variables");
    let quoted = |value: &str| match value.parse::<u64>() {
        Ok(number) => number.to_string(),
        Err(_) => format!("'{value}'"),
    };
    rows.iter().map(|(name, value)| format!("SET GLOBAL {name} = {}", quoted(value))).collect()
}

#[test]
fn only_accounts_with_the_privilege_change_it() {
    let place = LogAndArenas::new("privileges");
    let (mut server, mut root) = place.start(&[]);
    for sql in [
        "CREATE USER dba, auditor, app",
        "GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO dba",
        "GRANT SYSTEM_VARIABLES_ADMIN, TACHO_ADMIN ON *.* TO auditor",
        "GRANT TACHO_ADMIN ON *.* TO app",
    ] {
        root.query_drop(sql).expect("an answer");
    }
    let (fixed, settable): (Vec<String>, Vec<String>) =
        assignments(&mut root).into_iter().partition(|sql| code(&mut root, sql) == READ_ONLY);
    assert_eq!(fixed.len(), 6, "{fixed:?}");
    assert!(settable.len() > 20, "{settable:?}");
    let connect = |user| client::connect(server.socket(), user, "").expect("a connection");
    let (mut dba, mut auditor, mut app) = (connect("dba"), connect("auditor"), connect("app"));
    for sql in &settable {
        assert_eq!(code(&mut root, sql), 0, "root: {sql}");
        assert_eq!(code(&mut auditor, sql), 0, "auditor: {sql}");
        assert_eq!(code(&mut dba, sql), DENIED, "dba: {sql}");
        assert_eq!(code(&mut app, sql), DENIED, "app: {sql}");
    }
    assert_eq!(
        code(&mut root, &named("SET GLOBAL tacho.redact = LITERALS, GLOBAL tacho.filter = '{}'")),
        0
    );
    for name in ["redact", "filter", "rotate_bytes", "logging"] {
        // The server asks no component about it.
        let sql = named(&format!("SET GLOBAL tacho.{name} = DEFAULT"));
        assert_eq!(code(&mut dba, &sql), DENIED, "dba: {sql}");
    }
    assert_eq!(
        client::variable(&mut root, &named("tacho.redact")).expect("a variable"),
        "LITERALS"
    );
    assert_eq!(client::variable(&mut root, &named("tacho.filter")).expect("a variable"), "{}");
    assert_eq!(code(&mut auditor, &named("SET GLOBAL tacho.redact = DEFAULT")), 0);
    assert_eq!(code(&mut dba, &named("SET GLOBAL tacho.logging = OFF")), DENIED);
    assert_eq!(code(&mut auditor, &named("SET GLOBAL tacho.flush_interval_ms = 50")), 0);
    assert_eq!(client::variable(&mut root, &named("tacho.logging")).expect("a variable"), "1");
    drop((root, dba, auditor, app));
    let lines = place.end(&mut server);
    let changes: Vec<_> = lines
        .iter()
        .filter(|line| recorded::text(line, "event") == Some("config"))
        .map(|line| (recorded::text(line, "user"), recorded::text(line, "variable")))
        .collect();
    let by = |user| changes.iter().filter(|change| change.0 == Some(user)).count();
    // Each time that the retention got its own value again, too: old files may go at once then.
    assert_eq!((by("root"), by("auditor"), by("dba"), by("app")), (4, 3, 0, 0), "{changes:?}");
    let last = changes.last();
    let variable = named("tacho.flush_interval_ms");
    assert_eq!(last, Some(&(Some("auditor"), Some(variable.as_str()))));
    let refused = lines.iter().find(|line| {
        recorded::text(line, "sql") == Some(named("SET GLOBAL tacho.logging = OFF").as_str())
            && recorded::text(line, "user") == Some("dba")
    });
    let error = refused.and_then(|line| recorded::text(line, "error"));
    assert!(error.is_some_and(|text| text.contains("TACHO_ADMIN or SUPER")), "{error:?}");
    server.assert_clean_log(&[]);
}

#[test]
fn values_that_it_cannot_have_are_refused() {
    let place = LogAndArenas::new("values");
    let (_server, mut root) = place.start(&[]);
    root.query_drop("SET SESSION sql_mode = ''").expect("an answer");
    for wrong in [
        "tacho.logging = 2",
        "tacho.logging = 'perhaps'",
        "tacho.overflow = 'BLOC'",
        "tacho.overflow = 'BLOCKED'",
        "tacho.overflow = 3",
        "tacho.overflow = ''",
        "tacho.overflow = -1",
        "tacho.flush_interval_ms = 0",
        "tacho.flush_interval_ms = -1",
        "tacho.flush_interval_ms = 60001",
        "tacho.flush_interval_ms = NULL",
        "tacho.flush_interval_ms = 'soon'",
        // A name, and enough after it that it is far from any of ours.
        "tacho.logging = CONCAT('ON', REPEAT(CHAR(0), 30000000))",
        "tacho.overflow = CONCAT('DROP', REPEAT(CHAR(0), 30000000))",
    ] {
        assert_ne!(code(&mut root, &named(&format!("SET GLOBAL {wrong}"))), 0, "{wrong}");
    }
    for right in
        ["tacho.logging = 1", "tacho.logging = on", "tacho.overflow = 'drop'", "tacho.overflow = 1"]
    {
        assert_eq!(code(&mut root, &named(&format!("SET GLOBAL {right}"))), 0, "{right}");
    }
    assert_eq!(
        client::variable(&mut root, &named("tacho.overflow")).expect("a variable"),
        "TIMEOUT"
    );
    drop(root);
}

#[test]
fn read_only_settings_are_persisted_for_the_next_start_only() {
    let place = LogAndArenas::new("persist");
    let (server, mut root) = place.start(&[]);
    for name in ["directory", "arena_directory", "signing_key_file"] {
        let sql = named(&format!("SET PERSIST tacho.{name} = '/tmp'"));
        assert_eq!(code(&mut root, &sql), READ_ONLY, "{sql}");
    }
    assert_eq!(code(&mut root, &named("SET PERSIST tacho.arena_bytes = 33554432")), READ_ONLY);
    assert_eq!(code(&mut root, &named("SET PERSIST tacho.tables = ON")), READ_ONLY);
    root.query_drop(named("SET PERSIST_ONLY tacho.tables = ON")).expect("an answer");
    root.query_drop(named("SET PERSIST_ONLY tacho.arena_bytes = 33554432")).expect("an answer");
    root.query_drop(named("SET PERSIST tacho.flush_interval_ms = 50")).expect("an answer");
    drop((root, server));
}

/// `INSTALL COMPONENT` has no start, and the text after it in its packet is not part of it.
#[test]
fn installing_in_the_middle_of_a_packet_has_one_line() {
    let place = LogAndArenas::new("packet");
    let mut server = place.builder().start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(format!("DO 0; {}; DO 1; DO 2", install())).expect("installing");
    root.query_drop("DO 3").expect("an answer");
    drop(root);
    let lines = place.end(&mut server);
    let found: Vec<(&str, &str)> = lines
        .iter()
        .filter(|line| recorded::text(line, "event") == Some("statement"))
        .take(4)
        .map(|line| {
            let field = |name| recorded::text(line, name).unwrap_or("-");
            (field("command"), field("sql"))
        })
        .collect();
    assert_eq!(found, [("Query", "-"), ("Query", "DO 1"), ("Query", "DO 2"), ("Query", "DO 3")]);
    server.assert_clean_log(&[]);
}
