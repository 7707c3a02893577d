//! Zone: outside. The table of the rules that rewrite, on a real MySQL 9.7, or 8.0: errors in a
//! rule, and the privilege to load them. `scripts/test-release.sh` runs them with each.

use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_rewriting::{
    DENIED, LOAD, SIGNALLED, WRONG_RULES, add, end, error_of, finish, one, rewritten_count,
    rule_count, run_script, session, set, start,
};
use tacho_tests::mysql_server::install;
use tacho_tests::recorded;

/// id, message, whether there are a digest and a normal form.
type Row = (u64, Option<String>, bool, bool);

fn table(root: &mut Conn) -> Vec<Row> {
    root.query(
        "SELECT id, message, pattern_digest IS NOT NULL, normalized_pattern IS NOT NULL \
         FROM tacho.rewrite_rules ORDER BY id",
    )
    .expect("rows")
}

#[test]
fn a_wrong_rule_says_so_in_its_row_and_the_others_are_in_force() {
    let place = LogAndArenas::new("rewrite-wrong");
    let (server, mut root) = start(&place, &[]);
    let right = add(&mut root, "SELECT ?", None, "SELECT ? + 1");
    let open = add(&mut root, "SELECT 'without an end", None, "SELECT 1");
    let more = add(&mut root, "SELECT n FROM d.one WHERE n = ?", None, "SELECT ? + ?");
    let two = add(&mut root, "SELECT 1, 2", None, "SELECT 1; DROP TABLE d.t");
    let off = add(&mut root, "SELECT n FROM d.one", None, "SELECT 99");
    root.exec_drop("UPDATE tacho.rewrite_rules SET enabled = 'NO' WHERE id = ?", (off,))
        .expect("an answer");
    let (code, message) = error_of(&mut root, LOAD);
    assert_eq!(code, SIGNALLED);
    assert!(message.starts_with("3 of 4 rules are wrong and not in force"), "{message}");
    assert_eq!(one::<i64>(&mut root, "SELECT 5"), 6);
    assert_eq!(one::<i64>(&mut root, "SELECT n FROM d.one"), 1);
    assert_eq!(rule_count(&mut root), 1);
    let rows = table(&mut root);
    assert_eq!(rows[0], (right, None, true, true));
    for (row, id) in rows[1..4].iter().zip([open, more, two]) {
        assert_eq!(row.0, id);
        assert!(row.1.as_ref().is_some_and(|message| message.len() > 10), "{row:?}");
    }
    assert_eq!(rows[4], (off, None, false, false));
    // Mended, they lose their messages.
    root.exec_drop("DELETE FROM tacho.rewrite_rules WHERE id IN (?, ?)", (open, two))
        .expect("an answer");
    root.exec_drop("UPDATE tacho.rewrite_rules SET replacement = 'SELECT ?' WHERE id = ?", (more,))
        .expect("an answer");
    root.query_drop(LOAD).expect("right rules");
    assert!(table(&mut root).iter().all(|row| row.1.is_none()), "{:?}", table(&mut root));
    assert_eq!(rule_count(&mut root), 2);
    // Where nothing can be written, rules can be loaded.
    root.query_drop("DELETE FROM tacho.rewrite_rules WHERE enabled = 'NO'").expect("an answer");
    add(&mut root, "SELECT 'without an end", None, "SELECT 1");
    root.query_drop("SET GLOBAL super_read_only = ON").expect("an answer");
    let (code, message) = error_of(&mut root, LOAD);
    assert_eq!(code, SIGNALLED);
    assert!(message.starts_with("1 of 3 rules are wrong"), "{message}");
    root.query_drop("SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF").expect("an answer");
    let rows = table(&mut root);
    assert_eq!((rows.len(), &rows[2].1), (3, &None));
    // No rules at all are right, too.
    root.query_drop("DELETE FROM tacho.rewrite_rules").expect("an answer");
    root.query_drop(LOAD).expect("no rules");
    assert_eq!((one::<i64>(&mut root, "SELECT 5"), rule_count(&mut root)), (5, 0));
    drop(root);
    finish(server, &place, &[WRONG_RULES]);
}

/// Whatever the session that calls the procedure, and whatever its ids.
#[test]
fn a_load_is_not_in_the_binary_log() {
    let place = LogAndArenas::new("rewrite-binlog");
    let (server, mut root) = start(&place, &["log-bin=binlog", "server-id=7"]);
    let written = |root: &mut Conn| {
        let files: Vec<mysql::Row> = root.query("SHOW BINARY LOGS").expect("files");
        files.iter().map(|row| row.get::<u64, _>(1).expect("a size")).sum::<u64>()
    };
    for sql in [
        "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',NO_AUTO_VALUE_ON_ZERO')",
        "INSERT INTO tacho.rewrite_rules (id, pattern, replacement) VALUES \
         (0, 'SELECT ?', 'SELECT ? + 1'), (4294967295, 'SELECT ?, ?', 'SELECT ?')",
    ] {
        root.query_drop(sql).expect(sql);
    }
    let start = written(&mut root);
    for sql in [
        "SET SESSION binlog_format = STATEMENT, SESSION sql_safe_updates = 1",
        "SET SESSION autocommit = 0",
        "SET SESSION completion_type = CHAIN",
        "SET SESSION completion_type = NO_CHAIN, SESSION autocommit = 1",
    ] {
        root.query_drop(sql).expect(sql);
        root.query_drop(LOAD).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(one::<i64>(&mut root, "SELECT @@SESSION.sql_log_bin FROM d.one"), 1, "{sql}");
        root.query_drop("COMMIT AND NO CHAIN").expect("an answer");
    }
    assert_eq!(table(&mut root), [(0, None, true, true), (4_294_967_295, None, true, true)]);
    assert_eq!(one::<i64>(&mut root, "SELECT 5"), 6);
    assert_eq!(written(&mut root), start);
    // An error in the middle leaves nothing behind.
    root.query_drop(
        "CREATE TRIGGER tacho.refuse BEFORE UPDATE ON tacho.rewrite_rules FOR EACH ROW \
         SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not now'",
    )
    .expect("a trigger");
    let (code, message) = error_of(&mut root, LOAD);
    assert_eq!((code, message.as_str()), (SIGNALLED, "not now"));
    assert_eq!(one::<i64>(&mut root, "SELECT @@SESSION.sql_log_bin FROM d.one"), 1);
    let start = written(&mut root);
    root.query_drop("INSERT INTO d.t VALUES (1, 'is written again')").expect("a row");
    assert!(written(&mut root) > start);
    drop(root);
    finish(server, &place, &[]);
}

/// The procedure reports what is missing if the recorder is.
#[test]
fn without_the_recorder_the_procedure_says_so() {
    let place = LogAndArenas::new("rewrite-before");
    let server = place.builder().start().expect("a server");
    run_script(&server);
    let mut root = server.connect().expect("a connection");
    let (code, message) = error_of(&mut root, LOAD);
    assert_eq!(code, SIGNALLED);
    assert!(message.contains("install it, then connect anew"), "{message}");
    assert_eq!(one::<i64>(&mut root, "SELECT @@SESSION.sql_log_bin"), 1);
    root.query_drop(install()).expect("installing");
    add(&mut root, "SELECT ?", None, "SELECT ? + 1");
    let mut anew = server.connect().expect("a connection");
    anew.query_drop(LOAD).expect("right rules");
    assert_eq!(one::<i64>(&mut anew, "SELECT 5"), 6);
    drop((root, anew));
    finish(server, &place, &[]);
}

#[test]
fn only_accounts_with_the_privilege_load_rules() {
    let place = LogAndArenas::new("rewrite-who");
    let (mut server, mut root) = start(&place, &[]);
    set(&mut root, &[("SELECT ?", "SELECT ? + 1")]);
    for sql in [
        "CREATE USER half",
        "GRANT ALL ON tacho.* TO dba, half, auditor",
        "GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO dba",
        "GRANT TACHO_ADMIN ON *.* TO half",
        "GRANT TACHO_ADMIN, SYSTEM_VARIABLES_ADMIN ON *.* TO auditor",
    ] {
        root.query_drop(sql).expect(sql);
    }
    let mut dba = session(&server, "dba");
    let mut auditor = session(&server, "auditor");
    dba.query_drop("DELETE FROM tacho.rewrite_rules").expect("that is a table");
    // Each has one half of the requirements.
    let mut half = client::connect(server.socket(), "half", "tacho").expect("a connection");
    for conn in [&mut dba, &mut half] {
        for sql in [LOAD, "SELECT tacho_rewrite_load(1, 'SELECT 1', NULL, 'SELECT 2')"] {
            let (code, message) = error_of(conn, sql);
            assert_eq!(code, DENIED, "{sql}: {message}");
            assert!(message.contains("TACHO_ADMIN and SYSTEM_VARIABLES_ADMIN"), "{message}");
        }
    }
    assert_eq!((one::<i64>(&mut root, "SELECT 5"), rule_count(&mut root)), (6, 1));
    auditor.query_drop(LOAD).expect("who may");
    assert_eq!((one::<i64>(&mut root, "SELECT 5"), rule_count(&mut root)), (5, 0));
    drop((dba, half, auditor, root));
    let lines = end(&mut server, &place);
    let changes: Vec<Option<&str>> = lines
        .iter()
        .filter(|line| recorded::text(line, "event") == Some("config"))
        .filter(|line| recorded::text(line, "variable").is_some_and(|it| it.contains("rewrite")))
        .map(|line| recorded::text(line, "user"))
        .collect();
    assert_eq!(changes, [Some("root"), Some("auditor")]);
}

/// A rule may prevent all accounts from loading others, except exempt ones.
#[test]
fn no_account_is_locked_out_permanently() {
    let place = LogAndArenas::new("rewrite-locked-out");
    let (server, mut root) = start(&place, &[]);
    for sql in [
        "CREATE USER rescue",
        "GRANT ALL ON tacho.* TO rescue",
        "GRANT TACHO_ADMIN, SYSTEM_VARIABLES_ADMIN, TACHO_EXEMPT ON *.* TO rescue",
    ] {
        root.query_drop(sql).expect(sql);
    }
    set(&mut root, &[(LOAD, "DO 0"), ("SELECT ?", "SELECT ? + 1")]);
    root.query_drop("DELETE FROM tacho.rewrite_rules").expect("that is a table");
    root.query_drop(LOAD).expect("nothing is done");
    assert_eq!((one::<i64>(&mut root, "SELECT 5"), rule_count(&mut root)), (6, 2));
    let before = rewritten_count(&mut root);
    let mut rescue = client::connect(server.socket(), "rescue", "tacho").expect("a connection");
    assert_eq!(one::<i64>(&mut rescue, "SELECT 5"), 5);
    assert_eq!(rewritten_count(&mut root), before);
    rescue.query_drop(LOAD).expect("no rules");
    assert_eq!((one::<i64>(&mut root, "SELECT 5"), rule_count(&mut root)), (5, 0));
    // Accounts without it, too: in a comment that the server executes it is not rewritten.
    set(&mut root, &[(LOAD, "DO 0")]);
    root.query_drop("DELETE FROM tacho.rewrite_rules").expect("that is a table");
    root.query_drop("CALL /*! tacho.load_rewrite_rules() */").expect("no rules");
    assert_eq!(rule_count(&mut root), 0);
    drop((rescue, root));
    finish(server, &place, &[]);
}
