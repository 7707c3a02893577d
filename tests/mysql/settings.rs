//! Zone: outside. Settings of MySQL's component, or plugin, on a real server: their permitted
//! values, which take effect immediately, and the lines of changes.

use std::collections::BTreeSet;
use std::fs;

use tacho_tests::client::{self, Conn, Queryable as _};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_server::{MySql, Release, install, named, release, status_name, uninstall};
use tacho_tests::{recorded, wait};

#[test]
fn settings_can_be_read_and_set() {
    let place = LogAndArenas::new("settings");
    let (mut server, mut root) = place.start(&[]);
    let variable = |root: &mut Conn, name: &str| client::variable(root, name).expect("a variable");
    assert_eq!(variable(&mut root, &named("tacho.directory")), place.log().to_str().expect("text"));
    assert_eq!(variable(&mut root, &named("tacho.overflow")), "BLOCK");
    assert_eq!(variable(&mut root, &named("tacho.arena_bytes")), "67108864");
    root.query_drop(named("SET GLOBAL tacho.overflow = 'DROP'")).expect("an answer");
    assert_eq!(variable(&mut root, &named("tacho.overflow")), "DROP");
    root.query_drop(named("SET GLOBAL tacho.overflow = 'NOTHING'"))
        .expect_err("there is no such policy");
    root.query_drop(named("SET GLOBAL tacho.flush_interval_ms = 50")).expect("an answer");
    root.query_drop(named("SET GLOBAL tacho.directory = '/tmp'")).expect_err("not while it runs");
    let file = |root: &mut Conn| {
        let name = status_name("current_file");
        client::status(root, &name).expect("a status")[&name].clone()
    };
    let first = file(&mut root);
    root.query_drop(named("SET GLOBAL tacho.rotate_now = 1")).expect("an answer");
    wait::until("there is another file", || file(&mut root) != first);
    root.query_drop(named("SET GLOBAL tacho.logging = OFF")).expect("an answer");
    root.query_drop("DO 'unseen'").expect("an answer");
    root.query_drop(named("SET GLOBAL tacho.logging = ON")).expect("an answer");
    root.query_drop("DO 'seen'").expect("an answer");
    wait::until("it is written", || {
        client::status_number(&mut root, &status_name("records_written")).expect("a status") > 0
    });
    assert_eq!(
        client::status_number(&mut root, &status_name("records_lost")).expect("a status"),
        0
    );
    drop(root);
    let lines = place.end(&mut server);
    let changes: Vec<String> = lines
        .iter()
        .filter(|line| recorded::text(line, "event") == Some("config"))
        .map(|line| {
            let field = |name| recorded::text(line, name).unwrap_or("-").to_owned();
            format!(
                "{} {} {} {}",
                field("user"),
                field("variable"),
                field("old_value"),
                field("new_value")
            )
        })
        .collect();
    assert_eq!(
        changes,
        [
            named("root tacho.overflow BLOCK DROP"),
            named("root tacho.flush_interval_ms 100 50"),
            named("root tacho.logging ON OFF"),
            named("root tacho.logging OFF ON"),
        ]
    );
    let count =
        |sql: &str| lines.iter().filter(|line| recorded::text(line, "sql") == Some(sql)).count();
    assert_eq!((count("DO 'unseen'"), count("DO 'seen'")), (0, 1));
    server.assert_clean_log(&[]);
}

#[test]
fn a_filter_keeps_statements_out() {
    let place = LogAndArenas::new("filter");
    let (mut server, mut root) = place.start(&[]);
    root.query_drop("CREATE USER robot").expect("an answer");
    let mut robot = client::connect(server.socket(), "robot", "").expect("a connection");
    robot.query_drop("DO 'before'").expect("an answer");
    let error =
        root.query_drop(named("SET GLOBAL tacho.filter = '{\"rules\": 1}'")).expect_err("wrong");
    assert!(error.to_string().contains(&named("tacho.filter")), "{error}");
    root.query_drop(named(
        r#"SET GLOBAL tacho.filter = '{"rules": [{"user": "robot", "action": "skip"}]}'"#,
    ))
    .expect("an answer");
    assert_eq!(
        client::status_number(&mut root, &status_name("filter_rules")).expect("a status"),
        1
    );
    let error =
        root.query_drop(named("SET GLOBAL tacho.filter_file = '/nowhere'")).expect_err("both");
    assert!(error.to_string().contains("cannot both be set"), "{error}");
    robot.query_drop("DO 'skipped'").expect("an answer");
    robot.query_drop("NOT SQL").expect_err("an error");
    robot.prep("SELECT 'skipped', ?").expect("a statement");
    root.query_drop("DO 'seen'").expect("an answer");
    root.query_drop(named("SET GLOBAL tacho.filter = ''")).expect("an answer");
    robot.query_drop("DO 'after'").expect("an answer");
    drop(robot);
    // A thread reports the statements it has skipped when its session ends.
    wait::until("it is counted", || {
        client::status_number(&mut root, &status_name("records_filtered")).expect("a status") > 0
    });
    drop(root);
    let lines = place.end(&mut server);
    let texts: Vec<&str> = lines
        .iter()
        .filter(|line| recorded::text(line, "user") == Some("robot"))
        .filter_map(|line| recorded::text(line, "sql"))
        .collect();
    assert_eq!(texts, ["DO 'before'", "DO 'after'"]);
    assert!(lines.iter().any(|line| recorded::text(line, "sql") == Some("DO 'seen'")));
    server.assert_clean_log(&[]);
}

/// Neither is in effect then; clearing one activates the other.
#[test]
fn a_start_with_two_filters_records_everything() {
    let place = LogAndArenas::new("filters");
    let mut server = place
        .builder()
        .option(named(r#"loose-tacho.filter={"rules": [{"db": "d", "action": "skip"}]}"#))
        .option(named("loose-tacho.filter-file=/nonexistent"))
        .start()
        .expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    let rules = |root: &mut Conn| {
        client::status_number(root, &status_name("filter_rules")).expect("a status")
    };
    assert_eq!(rules(&mut root), 0);
    root.query_drop(named("SET GLOBAL tacho.filter_file = ''")).expect("cleared");
    assert_eq!(rules(&mut root), 1);
    drop(root);
    server.stop().expect("stopping");
    let complaints = server.complaints(&[]);
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].contains("cannot both be set"), "{complaints:?}");
}

#[test]
fn the_recipients_of_closed_files_are_checked_and_reported() {
    let place = LogAndArenas::new("recipients");
    let (mut server, mut root) = place.start(&[]);
    let variable = named("tacho.encryption_recipients_file");
    let file = place.path().join("recipients").display().to_string();
    let key = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
    fs::write(&file, "age1nobody\n").expect("written");
    root.query_drop(format!("SET GLOBAL {variable} = '{file}'")).expect_err("a wrong key");
    fs::write(&file, format!("{key}\n")).expect("written");
    root.query_drop(format!("SET GLOBAL {variable} = '{file}'")).expect("a right one");
    let shown: Option<String> =
        root.query_first(format!("SELECT @@GLOBAL.{variable}")).expect("an answer");
    assert_eq!(shown.as_deref(), Some(&*file));
    root.query_drop(format!("SET GLOBAL {variable} = DEFAULT")).expect("no recipients");
    drop(root);
    let lines = place.end(&mut server);
    let changes: Vec<_> = lines
        .iter()
        .filter(|line| recorded::text(line, "variable").is_some_and(|it| it.contains("recipients")))
        .map(|line| {
            ["variable", "old_value", "new_value"].map(|it| recorded::text(line, it).unwrap_or(""))
        })
        .collect();
    let expected = [
        ["encryption_recipients", "", key],
        [&variable, "", &file],
        ["encryption_recipients", key, ""],
        [&variable, &file, ""],
    ];
    assert_eq!(changes, expected);
    // The server has no message with room for the reason: the error log has it.
    let complaints = server.complaints(&[]);
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].contains(&format!("{variable}: {file}")), "{complaints:?}");
}

/// Settings that are texts: name, given value, displayed value.
type Text = (&'static str, String, String);

const SKIPS_ROBOT: &str = r#"{"rules": [{"user": "robot", "action": "skip"}]}"#;

fn texts(place: &LogAndArenas, server: &MySql) -> [Text; 5] {
    let absolute = |name: &str| server.data_directory().join(name).display().to_string();
    let same = |text: &str| (text.to_owned(), text.to_owned());
    let text = |name, (given, shown)| (name, given, shown);
    [
        text("tacho.directory", ("audit".to_owned(), absolute("audit"))),
        text("tacho.signing_key_file", ("k.key".to_owned(), absolute("k.key"))),
        text("tacho.event_classes", same("authentication, ,LIFECYCLE,")),
        text("tacho.arena_directory", same(&format!("{}/arenas", place.path().display()))),
        text("tacho.filter", same(SKIPS_ROBOT)),
    ]
}

fn one(server: &MySql, sql: &str) {
    server.connect().expect("a connection").query_drop(sql).expect(sql);
}

fn install_again(server: &MySql) {
    one(server, uninstall());
    if release() == Release::Mysql97 {
        return one(server, install());
    }
    // It is removed when the session that uninstalled it has ended.
    wait::until("it is installed again", || {
        server.connect().expect("a connection").query_drop(install()).is_ok()
    });
}

/// The displayed values, before and after the server has used its memory for other things: for
/// statements, and for the variables of a component and a plugin, for which it reads all of its
/// options again.
fn assert_shown(server: &MySql, expected: &[Text], when: &str) {
    for used in [false, true] {
        let mut root = server.connect().expect("a connection");
        for (name, _, shown) in expected {
            let value: Option<Vec<u8>> =
                root.query_first(named(&format!("SELECT @@GLOBAL.{name}"))).expect("an answer");
            let value = String::from_utf8_lossy(&value.expect("a value")).into_owned();
            assert_eq!(&value, shown, "{name}, {when}, memory used: {used}");
        }
        for sql in [
            "INSTALL COMPONENT 'file://component_validate_password'",
            "UNINSTALL COMPONENT 'file://component_validate_password'",
            "INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'",
            "UNINSTALL PLUGIN rpl_semi_sync_replica",
        ] {
            root.query_drop(sql).expect("an answer");
        }
        for round in 0..48 {
            let text = "x".repeat(16 << (round % 12));
            root.query_drop(format!("DO '{text}'")).expect("an answer");
            root.query_drop("SHOW VARIABLES").expect("an answer");
        }
    }
}

/// The texts are persisted by now.
fn assert_texts_stay(place: &LogAndArenas, mut server: MySql, expected: &[Text; 5]) {
    for _ in 0..2 {
        install_again(&server);
        assert_shown(&server, expected, "installed again");
    }
    server.stop().expect("stopping");
    server.restart().expect("restarting");
    assert_shown(&server, expected, "started again");
    one(&server, &named("SET PERSIST tacho.filter = ''"));
    let mut cleared = expected.clone();
    cleared[4].2 = String::new();
    assert_shown(&server, &cleared, "the filter is cleared");
    install_again(&server);
    assert_shown(&server, &cleared, "started and installed again");
    server.stop().expect("stopping");
    let strays: Vec<_> = fs::read_dir(server.data_directory())
        .expect("a directory")
        .map(|entry| entry.expect("a file").file_name().into_string().expect("a name"))
        .filter(|name| name.contains("loose") || name.contains("igning_key") || name == "audit")
        .collect();
    assert_eq!(strays, ["audit"]);
    let lines = recorded::read(&server.data_directory().join("audit")).expect("a readable log");
    let keys: BTreeSet<_> =
        lines.iter().filter_map(|line| recorded::text(line, "signing_key")).collect();
    assert_eq!(keys.len(), 1, "{keys:?}");
    let count =
        |event| lines.iter().filter(|line| recorded::text(line, "event") == Some(event)).count();
    assert!(count("start") >= 4, "{}", count("start"));
    assert_eq!((count("start"), place.arena_count()), (count("stop"), 0));
    // 8.0 uses errors of untraced statements from the next start on.
    server.assert_clean_log(&["UNINSTALL PLUGIN", "variables are persisted"]);
}

fn bare() -> MySql {
    let others = ["component_validate_password.so", "semisync_replica.so"];
    let builder = others.into_iter().fold(MySql::builder(), |it, name| it.library(name));
    builder.read_persisted().start().expect("a server")
}

#[test]
fn persisted_texts_are_those_that_were_given() {
    let place = LogAndArenas::new("persisted");
    let server = bare();
    let texts = texts(&place, &server);
    one(&server, install());
    for (name, given, _) in &texts {
        one(&server, &named(&format!("SET PERSIST_ONLY {name} = '{given}'")));
    }
    assert_texts_stay(&place, server, &texts);
}

/// The server does not check values that are only persisted. Settings that cannot change while it
/// runs are options at the next start, and are clamped; all others are set then, and rejected.
#[test]
fn settings_that_are_only_persisted_are_checked_when_the_server_starts() {
    let mut server = bare();
    one(&server, install());
    for setting in ["retention_days = 7", "arena_bytes = 5", "rotate_bytes = -1", "flush_bytes = 7"]
    {
        one(&server, &named(&format!("SET PERSIST_ONLY tacho.{setting}")));
    }
    let before = server.error_log().len();
    server.restart().expect("restarting");
    let said = server.error_log()[before..].to_owned();
    let mut root = server.connect().expect("a connection");
    let mut shown = |name: &str| client::variable(&mut root, &named(name)).expect("a variable");
    assert_eq!(shown("tacho.arena_bytes"), (1 << 20).to_string());
    assert!(said.contains("unsigned value 5 adjusted to 1048576"), "{said}");
    assert_eq!(shown("tacho.rotate_bytes"), (256 << 20).to_string());
    assert_eq!(said.matches("Configuring persisted options failed").count(), 1, "{said}");
    // The server sets them in the order in which they were persisted, up to the first that is refused.
    assert_eq!(shown("tacho.retention_days"), "7");
    assert_eq!(shown("tacho.flush_bytes"), (256 << 10).to_string());
}

mod v97 {
    use super::*;

    #[test]
    fn texts_persisted_by_install_are_those_that_were_given() {
        let place = LogAndArenas::new("install-persist");
        let server = bare();
        let texts = texts(&place, &server);
        let set = texts.clone().map(|(name, given, _)| format!("PERSIST {name} = '{given}'"));
        one(&server, &format!("{} SET {}", install(), set.join(", ")));
        assert_shown(&server, &texts, "installed");
        assert_texts_stay(&place, server, &texts);
    }

    /// A wrong filter is displayed, too, so that its error can be found.
    #[test]
    fn texts_given_with_install_outlive_it() {
        let place = LogAndArenas::new("install-set");
        let mut server = bare();
        let mut texts = texts(&place, &server);
        let wrong = r#"{"rules": 1}"#.to_owned();
        texts[4] = ("tacho.filter", wrong.clone(), wrong);
        let set = texts.clone().map(|(name, given, _)| format!("GLOBAL {name} = '{given}'"));
        one(&server, &format!("{} SET {}", install(), set.join(", ")));
        assert_shown(&server, &texts, "installed");
        one(&server, &named(&format!("SET GLOBAL tacho.filter = '{SKIPS_ROBOT}'")));
        texts[4].2 = SKIPS_ROBOT.to_owned();
        assert_shown(&server, &texts, "a valid filter is set");
        one(&server, uninstall());
        server.stop().expect("stopping");
        let complaints = server.complaints(&[]);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].contains("Everything is recorded until"), "{complaints:?}");
    }
}
