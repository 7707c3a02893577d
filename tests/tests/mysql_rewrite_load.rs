//! Zone: outside. Loading rules that rewrite, in a real MySQL: one load after the other, each rule
//! that is wrong says so, and what a start makes of the rules that were kept.
//! `scripts/test-mysql.sh` runs them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::thread::{self, JoinHandle};

use tacho_tests::client::{Conn, Queryable};
use tacho_tests::mysql_place::Place;
use tacho_tests::mysql_rewriting::{
    DENIED, LOAD, SIGNALLED, WRONG_RULES, add, error_of, finish, one, rewritten, rule_count,
    session, set, start,
};
use tacho_tests::recorded::{self, Line};
use tacho_tests::wait;

/// `ER_NO_SUCH_TABLE`, `ER_QUERY_INTERRUPTED`.
const NO_SUCH_TABLE: u16 = 1146;
const INTERRUPTED: u16 = 1317;

/// The lock that a load takes.
const LOCK: &str = "tacho.load_rewrite_rules";

/// Which connection holds it.
fn holder(root: &mut Conn) -> Option<u64> {
    one(root, &format!("SELECT IS_USED_LOCK('{LOCK}') FROM d.one"))
}

/// Answers 1 when it has it.
fn take_lock(conn: &mut Conn, name: &str) -> Option<u64> {
    one(conn, &format!("SELECT GET_LOCK('{name}', 0) FROM d.one"))
}

/// Answers 1 when the session had it.
fn release_lock(conn: &mut Conn, name: &str) -> Option<u64> {
    one(conn, &format!("SELECT RELEASE_LOCK('{name}') FROM d.one"))
}

fn id_of(conn: &mut Conn) -> u64 {
    one(conn, "SELECT CONNECTION_ID() FROM d.one")
}

/// Begins a load in another thread.
fn load(mut conn: Conn) -> JoinHandle<(u16, String)> {
    thread::spawn(move || error_of(&mut conn, LOAD))
}

fn wait_for_state(root: &mut Conn, conn: u64, state: &str) {
    let found = format!(
        "SELECT COUNT(*) FROM performance_schema.processlist \
         WHERE id = {conn} AND state = '{state}'"
    );
    wait::until(state, || one::<u64>(root, &found) == 1);
}

/// A load waits from now on where it writes into the rows, until this session's transaction ends.
fn hold_up(editor: &mut Conn) {
    for sql in ["START TRANSACTION", "SELECT id FROM tacho.rewrite_rules FOR UPDATE"] {
        editor.query_drop(sql).expect(sql);
    }
}

fn wait_until_held_up(root: &mut Conn, conn: u64) {
    let waits = format!(
        "SELECT COUNT(*) FROM performance_schema.data_lock_waits \
         JOIN performance_schema.threads ON thread_id = requesting_thread_id \
         WHERE processlist_id = {conn}"
    );
    wait::until("a load is held up", || one::<u64>(root, &waits) == 1);
}

/// The second one reads the rules when the first one has ended.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn loads_are_one_after_the_other() {
    let place = Place::new("rewrite-order");
    let (server, mut root) = start(&place, &[]);
    set(&mut root, &[("SELECT ?", "SELECT ? + 1")]);
    let mut editor = server.connect().expect("a connection");
    let mut first = server.connect().expect("a connection");
    let mut second = server.connect().expect("a connection");
    let ids = [id_of(&mut first), id_of(&mut second)];
    // What it sees now is not what it shall load.
    for sql in ["START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT n FROM d.one"] {
        second.query_drop(sql).expect(sql);
    }
    hold_up(&mut editor);
    let first = load(first);
    wait_until_held_up(&mut root, ids[0]);
    let second = load(second);
    wait_for_state(&mut root, ids[1], "User lock");
    assert_eq!(holder(&mut root), Some(ids[0]));
    for sql in ["UPDATE tacho.rewrite_rules SET replacement = 'SELECT ? + 2'", "COMMIT"] {
        editor.query_drop(sql).expect(sql);
    }
    for load in [first, second] {
        assert_eq!(load.join().expect("an answer"), (0, String::new()));
    }
    assert_eq!(holder(&mut root), None);
    assert_eq!(one::<i64>(&mut root, "SELECT 5"), 7);
    drop((root, editor));
    finish(server, &place, &[]);
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_load_gives_its_lock_back_whatever_it_ends_with() {
    let place = Place::new("rewrite-lock");
    let (server, mut root) = start(&place, &[]);
    root.query_drop("GRANT ALL ON tacho.* TO dba").expect("an answer");
    let mut watcher = server.connect().expect("a connection");
    // Locks of the session's own, one of them of that name, are not given back.
    assert_eq!([take_lock(&mut root, "mine"), take_lock(&mut root, LOCK)], [Some(1), Some(1)]);
    root.query_drop(LOAD).expect("no rules");
    let id = id_of(&mut root);
    assert_eq!(holder(&mut watcher), Some(id));
    assert_eq!([release_lock(&mut root, "mine"), release_lock(&mut root, LOCK)], [Some(1); 2]);
    assert_eq!(holder(&mut watcher), None);

    add(&mut root, "SELECT ?", None, "SELECT ? + 1");
    root.query_drop(LOAD).expect("right rules");
    assert_eq!(holder(&mut watcher), None);
    // Who may not load.
    let mut dba = session(&server, "dba");
    assert_eq!(error_of(&mut dba, LOAD).0, DENIED);
    assert_eq!(holder(&mut watcher), None);
    // Wrong rules, also where nothing can be written.
    add(&mut root, "SELECT 'without an end", None, "SELECT 1");
    assert_eq!(error_of(&mut root, LOAD).0, SIGNALLED);
    assert_eq!(holder(&mut watcher), None);
    root.query_drop("SET GLOBAL super_read_only = ON").expect("an answer");
    let (code, message) = error_of(&mut root, LOAD);
    assert_eq!(
        (code, message.starts_with("1 of 2 rules are wrong")),
        (SIGNALLED, true),
        "{message}"
    );
    assert_eq!(holder(&mut watcher), None);
    root.query_drop("SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF").expect("an answer");
    // An error when the messages are written.
    root.query_drop(
        "CREATE TRIGGER tacho.refuse BEFORE UPDATE ON tacho.rewrite_rules FOR EACH ROW \
         SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not now'",
    )
    .expect("a trigger");
    assert_eq!(error_of(&mut root, LOAD), (SIGNALLED, "not now".to_owned()));
    assert_eq!(holder(&mut watcher), None);
    // An error when the rules are read.
    for sql in ["DROP TRIGGER tacho.refuse", "RENAME TABLE tacho.rewrite_rules TO d.elsewhere"] {
        root.query_drop(sql).expect(sql);
    }
    assert_eq!(error_of(&mut root, LOAD).0, NO_SUCH_TABLE);
    assert_eq!(holder(&mut watcher), None);
    drop((root, watcher, dba));
    finish(server, &place, &[WRONG_RULES]);
}

/// The server runs no handler of the procedure then.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_load_that_was_killed_keeps_the_lock_until_its_session_ends() {
    let place = Place::new("rewrite-killed");
    let (server, mut root) = start(&place, &[]);
    set(&mut root, &[("SELECT ?", "SELECT ? + 1")]);
    let mut editor = server.connect().expect("a connection");
    let mut killed = server.connect().expect("a connection");
    let id = id_of(&mut killed);
    hold_up(&mut editor);
    let error = thread::scope(|scope| {
        let load = scope.spawn(|| error_of(&mut killed, LOAD));
        wait_until_held_up(&mut root, id);
        root.query_drop(format!("KILL QUERY {id}")).expect("an answer");
        load.join().expect("an answer")
    });
    assert_eq!(error.0, INTERRUPTED, "{error:?}");
    editor.query_drop("ROLLBACK").expect("an answer");
    assert_eq!(holder(&mut root), Some(id));
    assert_eq!(one::<i64>(&mut killed, "SELECT @@SESSION.sql_log_bin FROM d.one"), 0);
    drop(killed);
    root.query_drop(LOAD).expect("right rules");
    assert_eq!(holder(&mut root), None);
    drop((root, editor));
    finish(server, &place, &[]);
}

/// There may be 64 of one shape: what goes beyond is told as any wrong rule is.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_rule_that_is_too_many_of_its_shape_says_so_in_its_row() {
    let place = Place::new("rewrite-crowd");
    let (server, mut root) = start(&place, &[]);
    let pattern = |n: usize| format!("SELECT n + {n} FROM d.one");
    let ids: Vec<u64> =
        (1..=66).map(|n| add(&mut root, &pattern(n), None, "SELECT 0 FROM d.one")).collect();
    // Of another shape, and for one database: not counted with them.
    add(&mut root, "SELECT ?", None, "SELECT ? + 1");
    add(&mut root, &pattern(67), Some("d"), "SELECT 0 FROM d.one");
    let told = |root: &mut Conn| -> Vec<(u64, String)> {
        let wrong = "SELECT id, message FROM tacho.rewrite_rules WHERE message IS NOT NULL";
        root.query(wrong).expect("rows")
    };
    let message = "pattern: there are 64 rules of this shape already";
    let (code, error) = error_of(&mut root, LOAD);
    assert_eq!(code, SIGNALLED);
    assert!(error.starts_with("2 of 68 rules are wrong and not in force"), "{error}");
    assert_eq!(told(&mut root), [64, 65].map(|index| (ids[index], message.to_owned())));
    assert_eq!(rule_count(&mut root), 66);
    let mut app = session(&server, "app");
    for (n, expected) in [(1, 0), (64, 0), (65, 66), (66, 67), (67, 0)] {
        assert_eq!(one::<usize>(&mut app, &pattern(n)), expected, "{n}");
    }
    assert_eq!(one::<i64>(&mut app, "SELECT 5"), 6);
    // One goes, the next one takes its place.
    root.exec_drop("DELETE FROM tacho.rewrite_rules WHERE id = ?", (ids[0],)).expect("an answer");
    let (_, error) = error_of(&mut root, LOAD);
    assert!(error.starts_with("1 of 67 rules are wrong"), "{error}");
    assert_eq!(told(&mut root), [(ids[65], message.to_owned())]);
    for (n, expected) in [(1, 2), (65, 0), (66, 67)] {
        assert_eq!(one::<usize>(&mut app, &pattern(n)), expected, "{n}");
    }
    drop((root, app));
    finish(server, &place, &[WRONG_RULES]);
}

/// Also as a prepared statement, which begins anew each time.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_load_by_hand_answers_what_it_has_done() {
    let place = Place::new("rewrite-by-hand");
    let (server, mut root) = start(&place, &[]);
    add(&mut root, "SELECT ?", None, "SELECT ? + 1");
    let wrong = add(&mut root, "SELECT 'without an end", None, "SELECT 1");
    let load = root
        .prep(
            "SELECT tacho_rewrite_load(id, pattern, pattern_database, replacement) \
             FROM tacho.rewrite_rules",
        )
        .expect("it");
    let of_both = format!(
        r#"{{"left_out": {{"{wrong}":"pattern, character 8: a quote that is not closed"}}, "loaded": 1}}"#
    );
    let none = r#"{"left_out": {}, "loaded": 0}"#.to_owned();
    let answer = |root: &mut Conn| root.exec_first::<String, _, _>(&load, ()).expect("an answer");
    for _ in 0..2 {
        assert_eq!(answer(&mut root), Some(of_both.clone()));
    }
    assert_eq!((one::<i64>(&mut root, "SELECT 5"), rule_count(&mut root)), (6, 1));
    root.query_drop("DELETE FROM tacho.rewrite_rules").expect("an answer");
    assert_eq!(answer(&mut root), Some(none));
    assert_eq!((one::<i64>(&mut root, "SELECT 5"), rule_count(&mut root)), (5, 0));
    drop(root);
    finish(server, &place, &[WRONG_RULES]);
}

/// Anybody can take the lock: who it is that keeps others from loading is told.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn who_holds_the_lock_is_told() {
    let place = Place::new("rewrite-held");
    let (server, mut root) = start(&place, &[]);
    set(&mut root, &[("SELECT ?", "SELECT ? + 1")]);
    let mut app = session(&server, "app");
    assert_eq!(take_lock(&mut app, LOCK), Some(1));
    let id = id_of(&mut app);
    root.query_drop("DELETE FROM tacho.rewrite_rules").expect("that is a table");
    let (code, message) = error_of(&mut root, LOAD);
    assert_eq!(code, SIGNALLED);
    let told = format!("the rules were not loaded: connection {id} holds the lock {LOCK}; ");
    assert!(message.starts_with(&told), "{message}");
    assert_eq!((one::<i64>(&mut root, "SELECT 5"), rule_count(&mut root)), (6, 1));
    assert_eq!(holder(&mut root), Some(id));
    root.query_drop(format!("KILL {id}")).expect("an answer");
    root.query_drop(LOAD).expect("no rules");
    assert_eq!(rule_count(&mut root), 0);
    drop((root, app));
    finish(server, &place, &[]);
}

/// Bytes that are no text, the same in each run.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..count).map(|_| next()).collect()
}

/// As somebody may have made it who is not the server.
fn forge(file: &Path, text: &[u8], mode: u32, owner: Option<u32>) {
    fs::remove_file(file).expect("removing");
    fs::write(file, text).expect("writing");
    fs::set_permissions(file, Permissions::from_mode(mode)).expect("a mode");
    chown(file, owner, None).expect("an owner");
}

/// The server starts and records, no rule is in force, and the error log says why.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn kept_rules_that_cannot_be_believed_are_not_in_force() {
    let place = Place::new("rewrite-kept");
    let (mut server, mut root) = start(&place, &[]);
    set(&mut root, &[("SELECT ?", "SELECT ? + 1")]);
    drop(root);
    let file = place.log().join(".rewrite_rules.json");
    let right = fs::read(&file).expect("the rules");
    let (half, noise) = (&right[..right.len() / 2], noise(4096));
    let mut cases: Vec<(&[u8], u32, Option<u32>, &str)> = vec![
        (half, 0o600, None, "EOF while parsing"),
        (b"", 0o600, None, "EOF while parsing"),
        (&noise, 0o600, None, "expected value"),
        (&right, 0o644, None, "its mode is 0644"),
        (&right, 0o620, None, "its mode is 0620"),
    ];
    // Only root can give a file away.
    if rustix::process::geteuid().is_root() {
        cases.push((&right, 0o600, Some(12_345), "it belongs to the user 12345"));
    }
    let refused = format!("no statement is rewritten: {}: ", file.display());
    for (index, (text, mode, owner, why)) in cases.iter().enumerate() {
        server.stop().expect("stopping");
        forge(&file, text, *mode, *owner);
        server.restart().expect("a server that starts");
        let mut root = server.connect().expect("a connection");
        let asked = format!("SELECT {index}");
        assert_eq!((one::<usize>(&mut root, &asked), rule_count(&mut root)), (index, 0), "{why}");
        let log = server.error_log();
        let told: Vec<&str> = log.lines().filter(|line| line.contains(&refused)).collect();
        assert_eq!(told.len(), index + 1, "{log}");
        assert!(told[index].contains(why), "{}", told[index]);
        // A start leaves it to be looked at.
        assert_eq!(fs::read(&file).expect("it"), *text);
    }
    // Loaded anew, they are kept as they should be.
    let mut root = server.connect().expect("a connection");
    root.query_drop(LOAD).expect("right rules");
    assert_eq!(fs::read(&file).expect("the rules"), right);
    drop(root);
    server.restart().expect("restarting");
    let mut root = server.connect().expect("a connection");
    assert_eq!((one::<i64>(&mut root, "SELECT 70"), rule_count(&mut root)), (71, 1));
    drop(root);
    server.stop().expect("stopping");
    server.assert_clean_log(&["no statement is rewritten"]);
    let lines = recorded::read(&place.log()).expect("a readable log");
    for index in 0..cases.len() {
        let asked = format!("SELECT {index}");
        let is_it = |line: &&Line| recorded::text(line, "sql") == Some(&asked);
        let found: Vec<&Line> = lines.iter().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{asked}");
        assert!(!found[0].contains_key("rewritten_query"), "{found:?}");
    }
    assert_eq!(rewritten(&lines), [("SELECT 70", "SELECT 70 + 1")]);
}
