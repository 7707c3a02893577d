//! Zone: outside. The privileges to change the recorder, and the lines of changes.

use mysql::prelude::Queryable as _;
use mysql::{Conn, OptsBuilder};
use tacho_tests::recorded::{self, Line, number, text};
use tacho_tests::server::TestServer;

/// `ER_SPECIFIC_ACCESS_DENIED_ERROR`, `ER_TABLEACCESS_DENIED_ERROR`: mysqld_error.h.
const DENIED: [u16; 2] = [1227, 1142];

fn connect(server: &TestServer, user: &str) -> Conn {
    let options = OptsBuilder::new()
        .socket(Some(server.socket().to_str().expect("a path")))
        .user(Some(user))
        .prefer_socket(false);
    Conn::new(options).unwrap_or_else(|error| panic!("{user}: {error}"))
}

fn refused(conn: &mut Conn, statement: &str) {
    match conn.query_drop(statement) {
        Err(mysql::Error::MySqlError(error)) if DENIED.contains(&error.code) => {}
        other => panic!("{statement}: {other:?}"),
    }
}

/// Every variable that can be set while the server runs, with a value that it may have.
fn settable(root: &mut Conn) -> Vec<String> {
    let query = "SELECT VARIABLE_NAME, GLOBAL_VALUE FROM information_schema.SYSTEM_VARIABLES \
                 WHERE VARIABLE_NAME LIKE 'tacho%' AND READ_ONLY = 'NO'";
    let rows: Vec<(String, String)> = root.query(query).expect("variables");
    assert!(rows.len() > 15, "{rows:?}");
    let quoted = |value: &str| match value.parse::<u64>() {
        Ok(number) => number.to_string(),
        Err(_) => format!("'{value}'"),
    };
    rows.iter().map(|(name, value)| format!("SET GLOBAL {name} = {}", quoted(value))).collect()
}

fn changes<'l>(lines: &'l [Line], variable: &str) -> Vec<&'l Line> {
    let wanted = |line: &&Line| {
        text(line, "event") == Some("config") && text(line, "variable") == Some(variable)
    };
    lines.iter().filter(wanted).collect()
}

#[test]
fn only_super_changes_it_and_the_log_has_the_user() {
    let mut server =
        TestServer::builder().option("plugin-load-add=tacho").start().expect("a server");
    let mut root = server.connect().expect("a session");
    root.query_drop(
        "CREATE USER app@localhost; GRANT ALL ON *.* TO app@localhost; \
         REVOKE SUPER, INSERT, DELETE ON *.* FROM app@localhost; \
         CREATE USER auditor@localhost; GRANT SUPER ON *.* TO auditor@localhost",
    )
    .expect("users");
    let statements = settable(&mut root);

    let mut app = connect(&server, "app");
    for statement in &statements {
        refused(&mut app, statement);
    }
    refused(&mut app, "INSTALL SONAME 'tacho'");
    refused(&mut app, "UNINSTALL SONAME 'tacho'");
    // Every user may read it.
    let shown: Vec<(String, String)> =
        app.query("SHOW GLOBAL STATUS LIKE 'Tacho\\_%'").expect("an answer");
    assert!(shown.len() > 15, "{shown:?}");

    let mut auditor = connect(&server, "auditor");
    let conn = auditor.connection_id();
    for statement in &statements {
        auditor.query_drop(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    refused(&mut auditor, "UNINSTALL SONAME 'tacho'");
    auditor.query_drop("SET GLOBAL tacho_timestamps = 'UTC'").expect("a change");
    let filter = r#"{"rules": [{"user": "auditor", "action": "skip"}]}"#;
    auditor.exec_drop("SET GLOBAL tacho_filter = ?", (filter,)).expect("a change");
    // A session that is not recorded still has a line for its change.
    auditor.query_drop("SET GLOBAL tacho_logging = OFF").expect("a change");
    auditor.query_drop("SET GLOBAL tacho_logging = ON").expect("a change");
    drop((app, auditor, root));
    server.stop().expect("an orderly end");
    server.assert_clean_log(&["max_open_files", "Aborted connection"]);

    let lines = recorded::read(&server.data_directory().join("tacho")).expect("the log");
    for (variable, values) in [
        ("tacho_timestamps", vec![("SYSTEM", "UTC")]),
        ("tacho_filter", vec![("", filter)]),
        ("tacho_logging", vec![("ON", "OFF"), ("OFF", "ON")]),
        // Its own value again: old files may go at once.
        ("tacho_retention_days", vec![("183", "183")]),
    ] {
        let found = changes(&lines, variable);
        assert_eq!(found.len(), values.len(), "{found:?}");
        for (line, (old, new)) in found.iter().zip(values) {
            assert_eq!(text(line, "user"), Some("auditor"), "{line:?}");
            assert_eq!(text(line, "priv_user"), Some("auditor"), "{line:?}");
            assert_eq!(text(line, "host"), Some("localhost"), "{line:?}");
            assert_eq!(number(line, "conn"), Some(u64::from(conn)), "{line:?}");
            assert_eq!(text(line, "old_value").unwrap_or(""), old, "{line:?}");
            assert_eq!(text(line, "new_value"), Some(new), "{line:?}");
        }
    }
    // Each refusal is in the log, with its error.
    let denied = |line: &&Line| {
        text(line, "user") == Some("app") && number(line, "errno").is_some_and(|it| it == 1227)
    };
    let denied = lines.iter().filter(denied).filter(|line| text(line, "sql").is_some());
    assert_eq!(denied.count(), statements.len());
    let all = lines.iter().filter(|line| text(line, "event") == Some("config")).count();
    assert_eq!(all, 5, "what changed nothing is no change");
}
