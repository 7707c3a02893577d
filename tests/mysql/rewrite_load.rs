//! Zone: outside. Loading rules that rewrite, in a real MySQL: one load after the other, each wrong
//! rule is reported, and the result of a start with saved rules. `scripts/test-release.sh` runs
//! them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::thread::{self, JoinHandle};

use tacho_tests::client::{Conn, Queryable};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_rewriting::{
    DENIED, LOAD, SIGNALLED, WRONG_RULES, add, error_of, finish, one, rewritten, rule_count,
    session, set, start,
};
use tacho_tests::recorded::{self, Line};
use tacho_tests::wait;

/// `ER_NO_SUCH_TABLE`, `ER_QUERY_INTERRUPTED`.
const NO_SUCH_TABLE: u16 = 1146;
const INTERRUPTED: u16 = 1317;

/// The lock by name that loads took in former releases.
const LOCK: &str = "tacho.load_rewrite_rules";

fn id_of(conn: &mut Conn) -> u64 {
    one(conn, "SELECT CONNECTION_ID() FROM d.one")
}

/// Begins a load in another thread.
fn load(mut conn: Conn) -> JoinHandle<(u16, String)> {
    thread::spawn(move || error_of(&mut conn, LOAD))
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

/// The last call has read the newest rules, however long another one takes: no session can prevent
/// others from loading. The rows have the result of the last call.
#[test]
fn no_load_waits_for_another_one() {
    let place = LogAndArenas::new("rewrite-order");
    let (server, mut root) = start(&place, &[]);
    set(&mut root, &[("SELECT ?", "SELECT ? + 1")]);
    let wrong = add(&mut root, "SELECT 'without an end", None, "SELECT 1");
    // Every user can take a lock by name.
    let mut app = session(&server, "app");
    assert_eq!(one::<i64>(&mut app, &format!("SELECT GET_LOCK('{LOCK}', 0) FROM d.one")), 1);
    let mut editor = server.connect().expect("a connection");
    let mut first = server.connect().expect("a connection");
    let mut second = server.connect().expect("a connection");
    let id = id_of(&mut first);
    // It reads an older state than the one that must be loaded.
    for sql in ["START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT n FROM d.one"] {
        second.query_drop(sql).expect(sql);
    }
    // The first one has put its rules in force, and cannot write into the rows yet.
    hold_up(&mut editor);
    let first = load(first);
    wait_until_held_up(&mut root, id);
    let edits = ["UPDATE tacho.rewrite_rules SET replacement = 'SELECT ? + 2' WHERE id <> ?"];
    for sql in edits {
        editor.exec_drop(sql, (wrong,)).expect(sql);
    }
    let load = "SELECT tacho_rewrite_load(id, pattern, pattern_database, replacement) \
                FROM tacho.rewrite_rules";
    // In this transaction, which sees its own edits, and has not ended.
    editor.query_drop(load).expect("a load");
    assert_eq!(one::<i64>(&mut root, "SELECT 5"), 7);
    editor.query_drop("COMMIT").expect("an answer");
    let (code, message) = first.join().expect("an answer");
    assert_eq!((code, &message[..6]), (SIGNALLED, "1 of 2"), "{message}");
    let told = "SELECT COUNT(*) FROM tacho.rewrite_rules WHERE message IS NOT NULL";
    assert_eq!(one::<i64>(&mut root, told), 0, "a load that was replaced has written");
    let (code, message) = error_of(&mut second, LOAD);
    assert_eq!((code, &message[..6]), (SIGNALLED, "1 of 2"), "{message}");
    assert_eq!(one::<i64>(&mut root, told), 1);
    assert_eq!((one::<i64>(&mut root, "SELECT 5"), rule_count(&mut root)), (7, 1));
    drop((root, editor, second, app));
    finish(server, &place, &[WRONG_RULES]);
}

/// It changes nothing, and reloads the rules.
#[test]
fn a_load_that_was_overtaken_replaces_nothing() {
    let place = LogAndArenas::new("rewrite-overtaken");
    let (server, mut root) = start(&place, &[]);
    let by_hand = |root: &mut Conn, turn: u64, rows: &str| -> String {
        one(
            root,
            &format!(
                "SELECT tacho_rewrite_load(id, pattern, pattern_database, replacement, {turn}) \
                 FROM tacho.rewrite_rules {rows}"
            ),
        )
    };
    let turn = |root: &mut Conn| one::<u64>(root, "SELECT tacho_rewrite_turn() FROM d.one");
    let is_current = |root: &mut Conn, turn: u64| {
        one::<u64>(root, &format!("SELECT tacho_rewrite_turn({turn}) FROM d.one")) == 1
    };
    set(&mut root, &[("SELECT ?", "SELECT ? + 1")]);
    let old = turn(&mut root);
    let new = turn(&mut root);
    assert!(old < new, "{old} {new}");
    assert_eq!(by_hand(&mut root, new, ""), r#"{"left_out": {}, "loaded": 1}"#);
    // With rows and without any.
    for rows in ["", "WHERE id = 0"] {
        assert_eq!(by_hand(&mut root, old, rows), r#"{"superseded": true}"#, "{rows}");
        assert_eq!((one::<i64>(&mut root, "SELECT 5"), rule_count(&mut root)), (6, 1));
        assert_eq!([old, new].map(|turn| is_current(&mut root, turn)), [false, true]);
    }
    // An id that was never used; the next ones are higher.
    let last = turn(&mut root);
    assert_eq!(by_hand(&mut root, last, "WHERE id = 0"), r#"{"left_out": {}, "loaded": 0}"#);
    assert_eq!(rule_count(&mut root), 0);
    root.query_drop(LOAD).expect("right rules");
    assert_eq!((one::<i64>(&mut root, "SELECT 5"), is_current(&mut root, last)), (6, false));
    drop(root);
    finish(server, &place, &[]);
}

/// The server runs no handler of the procedure then.
#[test]
fn a_killed_load_does_not_block_others() {
    let place = LogAndArenas::new("rewrite-killed");
    let (server, mut root) = start(&place, &[]);
    root.query_drop("GRANT ALL ON tacho.* TO dba").expect("an answer");
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
    assert_eq!(one::<i64>(&mut killed, "SELECT @@SESSION.sql_log_bin FROM d.one"), 0);
    // Its session is there, and others load.
    root.query_drop(LOAD).expect("right rules");
    drop(killed);
    // Whatever the result of a load, the next one is not affected: that of an account that may not
    // load.
    let mut dba = session(&server, "dba");
    assert_eq!(error_of(&mut dba, LOAD).0, DENIED);
    root.query_drop(LOAD).expect("right rules");
    // Wrong rules, where nothing can be written.
    add(&mut root, "SELECT 'without an end", None, "SELECT 1");
    root.query_drop("SET GLOBAL super_read_only = ON").expect("an answer");
    let (code, message) = error_of(&mut root, LOAD);
    assert_eq!(
        (code, message.starts_with("1 of 2 rules are wrong")),
        (SIGNALLED, true),
        "{message}"
    );
    root.query_drop("SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF").expect("an answer");
    // An error when the messages are written.
    root.query_drop(
        "CREATE TRIGGER tacho.refuse BEFORE UPDATE ON tacho.rewrite_rules FOR EACH ROW \
         SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not now'",
    )
    .expect("a trigger");
    assert_eq!(error_of(&mut root, LOAD), (SIGNALLED, "not now".to_owned()));
    // An error when the rules are read.
    for sql in ["DROP TRIGGER tacho.refuse", "RENAME TABLE tacho.rewrite_rules TO d.elsewhere"] {
        root.query_drop(sql).expect(sql);
    }
    assert_eq!(error_of(&mut root, LOAD).0, NO_SUCH_TABLE);
    drop((root, editor, dba));
    finish(server, &place, &[WRONG_RULES]);
}

/// There may be 64 of one shape: any beyond that is reported like a wrong rule.
#[test]
fn a_rule_that_is_too_many_of_its_shape_says_so_in_its_row() {
    let place = LogAndArenas::new("rewrite-crowd");
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
    // One is removed, the next one replaces it.
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

/// Also as a prepared statement, which restarts each time.
#[test]
fn a_manual_load_returns_its_result() {
    let place = LogAndArenas::new("rewrite-by-hand");
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

/// Bytes that are not text, the same in each run.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..count).map(|_| next()).collect()
}

/// A file that the server did not create.
fn forge(file: &Path, text: &[u8], mode: u32, owner: Option<u32>) {
    fs::remove_file(file).expect("removing");
    fs::write(file, text).expect("writing");
    fs::set_permissions(file, Permissions::from_mode(mode)).expect("a mode");
    chown(file, owner, None).expect("an owner");
}

/// The server starts and records, no rule is in force, and the error log says why.
#[test]
fn kept_rules_that_cannot_be_believed_are_not_in_force() {
    let place = LogAndArenas::new("rewrite-kept");
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
    // Loaded again, they are saved correctly.
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
