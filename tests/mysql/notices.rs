//! Zone: outside. MySQL's events besides statements (`tacho.event_classes`), on a real server:
//! accounts, global variables, messages of applications, stored programs, its start and its end.

use serde_json::Value;
use tacho_tests::client::{self, Conn, Queryable as _};
use tacho_tests::mysql_place::{self, LogAndArenas};
use tacho_tests::mysql_server::{Builder, MySql, conn_id, install, named, wait_for_end};
use tacho_tests::recorded::{self, Line, text};

const ALL: &str = "loose-tacho.event_classes=ALL";
/// The server's own component with `audit_api_message_emit_udf`.
const EMITTER: &str = "component_audit_api_message_emit.so";
const INSTALL_EMITTER: &str = "INSTALL COMPONENT 'file://component_audit_api_message_emit'";

/// A notice in one short line: class, action, outcome, object, producer, detail, attributes.
fn brief(line: &Line) -> String {
    let fields = ["class", "action", "outcome", "object", "producer", "detail"];
    let mut parts: Vec<String> =
        fields.iter().filter_map(|name| text(line, name)).map(str::to_owned).collect();
    for attribute in line.get("attributes").and_then(Value::as_array).into_iter().flatten() {
        let field = |name: &str| attribute[name].as_str().expect("a text").to_owned();
        parts.push(format!("{}={}", field("key"), field("value")));
    }
    parts.join(" ")
}

fn notices(lines: &[Line]) -> Vec<&Line> {
    lines.iter().filter(|line| text(line, "event") == Some("notice")).collect()
}

/// Those of one connection.
fn of(lines: &[Line], conn: u64) -> Vec<String> {
    let of_conn = recorded::of_conn(lines, conn);
    let is_notice = |line: &&&Line| text(line, "event") == Some("notice");
    of_conn.iter().filter(is_notice).map(|line| brief(line)).collect()
}

/// A server that records all classes and can send messages, and root's connection.
fn start_with_emitter(place: &LogAndArenas, options: &[&str]) -> (MySql, Conn) {
    let builder = place.builder().library(EMITTER).option(named(ALL));
    let with = |builder: Builder, option: &&str| builder.option(named(option));
    let (server, mut root) = mysql_place::start(options.iter().fold(builder, with));
    root.query_drop(INSTALL_EMITTER).expect("installing");
    (server, root)
}

fn run(conn: &mut Conn, statements: &[&str]) {
    for statement in statements {
        conn.query_drop(statement).expect(statement);
    }
}

#[test]
fn accounts_variables_and_programs_are_recorded() {
    let place = LogAndArenas::new("notices");
    let (mut server, mut root) = place.start(&[ALL]);
    let conn = conn_id(&mut root);
    // The server cuts it before the word that makes the earlier text a secret.
    let cut = format!(
        "SET GLOBAL init_connect = \"UPDATE mysql.user SET a = 'far before', b = '{}', \
         authentication_string = 'y'\"",
        "x".repeat(260)
    );
    run(
        &mut root,
        &[
            "CREATE DATABASE shop",
            "USE shop",
            &cut,
            "CREATE USER 'it''s'@'10.%' IDENTIFIED BY 'very secret'",
            "ALTER USER 'it''s'@'10.%' IDENTIFIED BY 'more so'",
            "GRANT SELECT ON shop.* TO 'it''s'@'10.%'",
            "RENAME USER 'it''s'@'10.%' TO anna@localhost",
            "DROP USER anna@localhost",
            "FLUSH PRIVILEGES",
            "SET GLOBAL max_connections = 77",
            "SET SESSION sort_buffer_size = 65536",
            "SELECT @@global.max_connections",
            "SET PERSIST long_query_time = 5",
            "CREATE PROCEDURE `a``b`() SET GLOBAL sort_buffer_size = 65536",
            "CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1",
            "CALL `a``b`()",
            "SELECT f()",
        ],
    );
    root.query_drop("DROP USER stranger").expect_err("there is none");
    root.query_drop("SET GLOBAL max_connections = 'many'").expect_err("no number");
    drop(root);
    let mut root = server.connect().expect("a connection");
    wait_for_end(&mut root, conn);
    drop(root);
    let lines = place.end(&mut server);
    assert_eq!(
        of(&lines, conn),
        [
            "global_variable set init_connect <redacted>",
            // Of the ALTER USER. The server has none for CREATE USER, nor for this GRANT.
            "authentication credential_change ok 'it''s'@'10.%'",
            "authentication authid_rename ok 'it''s'@'10.%'",
            "authentication authid_drop ok 'anna'@'localhost'",
            "authentication flush",
            "global_variable set max_connections 77",
            "global_variable set long_query_time 5",
            "stored_program execute `shop`.`a``b`",
            "global_variable set sort_buffer_size 65536",
            "authentication authid_drop error 'stranger'@'%'",
        ]
    );
    // The user, and that no statement lost its own line.
    let first = notices(&lines)[0];
    let who = ["user", "priv_user", "host", "db"].map(|name| text(first, name).unwrap_or("-"));
    assert_eq!(who, ["root", "root", "localhost", "shop"]);
    let briefs = recorded::briefs(&lines, conn);
    assert!(briefs.iter().any(|line| line.contains("DROP USER stranger")), "{briefs:#?}");
    assert_eq!(recorded::problems(&recorded::of_conn(&lines, conn)), [""; 0]);
    let shutdown: Vec<String> = notices(&lines).into_iter().rev().take(1).map(brief).collect();
    assert_eq!(shutdown, ["lifecycle shutdown shutdown 0"]);
    let whole = serde_json::to_string(&lines).expect("JSON");
    for secret in ["very secret", "more so", "far before"] {
        assert!(!whole.contains(secret), "{secret}");
    }
    server.assert_clean_log(&[]);
}

#[test]
fn messages_of_applications_are_recorded() {
    let place = LogAndArenas::new("messages");
    let (mut server, mut root) = start_with_emitter(&place, &[]);
    let conn = conn_id(&mut root);
    let long = "ä".repeat(20_000);
    run(
        &mut root,
        &[
            "DO audit_api_message_emit_udf('web', 'login', 'started')",
            "DO audit_api_message_emit_udf('web', 'login', 'it''s \"ä\"', 'who', 'anna', 'tries', -3)",
            "DO audit_api_message_emit_udf('web', 'login', 'm', 'password', 'hidden', 'empty', '')",
            &format!("DO audit_api_message_emit_udf('web', 'p', '{long}', 'key', 'kept')"),
        ],
    );
    drop(root);
    let mut root = server.connect().expect("a connection");
    wait_for_end(&mut root, conn);
    drop(root);
    let lines = place.end(&mut server);
    let told = of(&lines, conn);
    assert_eq!(
        told[..3],
        [
            "message user web login started",
            "message user web login it's \"ä\" tries=-3 who=anna",
            "message user web login m empty= password=<secret>",
        ]
    );
    // Cut between two characters, with the original length: 20,000 times two bytes, and seven.
    let cut = notices(&lines)
        .into_iter()
        .find(|line| text(line, "producer") == Some("p"))
        .expect("the long one");
    let detail = text(cut, "detail").expect("a message");
    assert!(long.starts_with(detail) && (15_900..16_000).contains(&detail.len()));
    assert_eq!(recorded::number(cut, "detail_bytes"), Some(40_007));
    assert!(brief(cut).ends_with("key=kept"));
    assert_eq!(told.len(), 4);
    server.assert_clean_log(&[]);
}

#[test]
fn the_start_is_recorded_with_the_arguments() {
    let place = LogAndArenas::new("startup");
    let (mut server, root) = place.start(&["loose-tacho.event_classes=lifecycle , MESSAGE"]);
    drop(root);
    server.restart().expect("restarting");
    let lines = place.end(&mut server);
    let told: Vec<String> = notices(&lines).into_iter().map(brief).collect();
    let [end, start, last_end] = &told[..] else { panic!("{told:#?}") };
    assert_eq!((&**end, &**last_end), ("lifecycle shutdown shutdown 0", &**end));
    let begins = start.strip_prefix("lifecycle startup ").expect("a start");
    assert!(begins.contains("mysqld"), "{begins}");
    assert!(notices(&lines).iter().all(|line| !line.contains_key("conn")));
    server.assert_clean_log(&[]);
}

#[test]
fn values_are_hidden_with_all_literals() {
    let place = LogAndArenas::new("notices-hidden");
    let (mut server, mut root) = start_with_emitter(&place, &["loose-tacho.redact=LITERALS"]);
    run(
        &mut root,
        &[
            "SET GLOBAL max_connections = 4711",
            "DO audit_api_message_emit_udf('web', 'login', 'm4711', 'k', 'v4711')",
        ],
    );
    drop(root);
    let lines = place.end(&mut server);
    let told: Vec<String> = notices(&lines).into_iter().map(brief).collect();
    assert_eq!(
        told,
        [
            "global_variable set max_connections <redacted>",
            "message user <redacted> <redacted> <redacted> <redacted>=<redacted>",
            "lifecycle shutdown shutdown 0",
        ]
    );
    assert!(!serde_json::to_string(&lines).expect("JSON").contains("4711"));
}

/// Also in another user's program, for which the server reports that user, and whose statements are
/// not traced.
#[test]
fn text_that_a_rule_removes_from_statements_is_removed() {
    let place = LogAndArenas::new("notices-rule");
    let rules = r#"{"rules":[{"user":"app","command":"Query","action":"no_text"}]}"#;
    let filter = format!("loose-tacho.filter={rules}");
    let (mut server, mut root) = start_with_emitter(&place, &[&filter, "loose-tacho.traces=OFF"]);
    run(
        &mut root,
        &[
            "DO audit_api_message_emit_udf('web', 'root', 'shown')",
            "CREATE USER app",
            "GRANT SYSTEM_VARIABLES_ADMIN, EXECUTE ON *.* TO app",
            "CREATE DATABASE d",
            "CREATE PROCEDURE d.p(m TEXT) DO audit_api_message_emit_udf('web', 'p', 'm4711')",
        ],
    );
    let mut app = client::connect(server.socket(), "app", "").expect("a connection");
    run(
        &mut app,
        &[
            "DO audit_api_message_emit_udf('web', 'app', 'm4711')",
            "SET GLOBAL max_connections = 4711",
            "CALL d.p('x')",
        ],
    );
    drop((app, root));
    let lines = place.end(&mut server);
    let told: Vec<String> = notices(&lines).into_iter().map(brief).collect();
    assert_eq!(
        told,
        [
            "message user web root shown",
            "message user <redacted> <redacted> <redacted>",
            "global_variable set max_connections <redacted>",
            "stored_program execute `d`.`p`",
            "message user <redacted> <redacted> <redacted>",
            "lifecycle shutdown shutdown 0",
        ]
    );
    let of_app = |line: &&&Line| text(line, "user") == Some("app");
    let shown: Vec<_> = lines.iter().filter(|line| line.contains_key("sql")).collect();
    assert_eq!(shown.iter().filter(of_app).count(), 0);
}

#[test]
fn classes_that_are_not_requested_are_not_recorded() {
    let place = LogAndArenas::new("no-notices");
    let statements =
        ["CREATE USER anna", "SET GLOBAL max_connections = 77", "CREATE DATABASE shop"];
    let (mut server, mut root) = place.start(&["loose-tacho.event_classes=STORED_PROGRAM"]);
    run(&mut root, &statements);
    run(&mut root, &["CREATE PROCEDURE shop.p() DO 1", "CALL shop.p()"]);
    run(&mut root, &[&named("SET GLOBAL tacho.logging = OFF"), "CALL shop.p()"]);
    drop(root);
    let lines = place.end(&mut server);
    let told: Vec<String> = notices(&lines).into_iter().map(brief).collect();
    assert_eq!(told, ["stored_program execute `shop`.`p`"]);
    server.assert_clean_log(&[]);
}

#[test]
fn a_word_that_is_none_is_refused() {
    let place = LogAndArenas::new("wrong-class");
    let option = named("loose-tacho.event_classes=MESSAGE,PARTY");
    let server = place.builder().option(option).start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect_err("there is no such class");
    // It continues.
    root.query_drop("DO 1").expect("an answer");
    let log = server.error_log();
    assert!(
        log.contains(&named("tacho.event_classes: `PARTY` is not one of AUTHENTICATION")),
        "{log}"
    );
}
