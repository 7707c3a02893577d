//! Zone: outside. Rules that rewrite, on a real MySQL 9.7, or 8.0, while rules and recorder change.
//! `scripts/test-release.sh` runs them with each.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tacho_tests::client::{self, Queryable};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_rewriting::{
    LOAD, add, all, end, error_of, finish, one, rewritten, rewritten_count, rule_count, session,
    set, start,
};
use tacho_tests::mysql_server::{MySql, Release, install, release, uninstall};
use tacho_tests::wait;

/// Sends statements until stopped, in sessions of some statements each: the answers by how much
/// they were increased, none, one or two.
fn ask(socket: &Path, stop: &AtomicBool, done: &AtomicU64) -> [u64; 3] {
    let mut tally = [0; 3];
    while !stop.load(Ordering::Relaxed) {
        let mut conn = client::connect(socket, "app", "d").expect("a connection");
        for n in 0..50_u64 {
            let answer: u64 = one(&mut conn, &format!("SELECT {n} FROM d.one"));
            let raised = usize::try_from(answer - n).expect("a small number");
            tally[raised] += 1;
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
    tally
}

/// Runs `change` while eight sessions ask: how often they were answered by which rule.
fn under_load(server: &MySql, change: impl FnOnce(&AtomicU64)) -> [u64; 3] {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let socket = server.socket().to_owned();
    let tallies: Vec<[u64; 3]> = thread::scope(|scope| {
        let workers: Vec<_> = (0..8).map(|_| scope.spawn(|| ask(&socket, &stop, &done))).collect();
        change(&done);
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("a tally")).collect()
    });
    let sum = |which: usize| tallies.iter().map(|tally| tally[which]).sum();
    [sum(0), sum(1), sum(2)]
}

/// Waits until some more statements were answered.
fn wait_for_answers(done: &AtomicU64) {
    let before = done.load(Ordering::Relaxed);
    wait::until("some statements were answered", || done.load(Ordering::Relaxed) > before + 20);
}

/// Each statement is rewritten by the rules of before or by those of after.
#[test]
fn rules_change_under_load() {
    let place = LogAndArenas::new("rewrite-load");
    let (mut server, mut root) = start(&place, &[]);
    let by = |n: u64| format!("SELECT ? + {n} FROM d.one");
    set(&mut root, &[("SELECT ? FROM d.one", &by(1))]);
    let tally = under_load(&server, |done| {
        for round in 1..=30_u64 {
            wait_for_answers(done);
            set(&mut root, &[("SELECT ? FROM d.one", &by(1 + round % 2))]);
        }
    });
    assert!(tally[0] == 0 && tally[1] > 100 && tally[2] > 100, "{tally:?}");
    assert_eq!(rewritten_count(&mut root), tally[1] + tally[2]);
    drop(root);
    let lines = end(&mut server, &place);
    let raised =
        |end: &str| rewritten(&lines).iter().filter(|it| it.1.ends_with(end)).count() as u64;
    assert_eq!([raised("+ 1 FROM d.one"), raised("+ 2 FROM d.one")], tally[1..]);
}

/// The recorder is removed and installed: no statement fails, and it restores the rules.
#[test]
fn the_recorder_is_removed_and_installed_under_load() {
    let place = LogAndArenas::new("rewrite-uninstall");
    let (server, mut root) = start(&place, &[]);
    set(&mut root, &[("SELECT ? FROM d.one", "SELECT ? + 1 FROM d.one")]);
    let socket = server.socket().to_owned();
    let admin = move || client::connect(&socket, "root", "").expect("a connection");
    drop(root);
    let tally = under_load(&server, |done| {
        for _ in 0..5 {
            wait_for_answers(done);
            // A plugin is removed when the last session that has used it ends; ours is one.
            admin().query_drop(uninstall()).expect("uninstalling");
            wait_for_answers(done);
            wait::until("it is installed again", || admin().query_drop(install()).is_ok());
            // Its functions, too.
            admin().query_drop(LOAD).expect("the rules");
        }
        wait_for_answers(done);
    });
    assert!(tally[0] > 0 && tally[1] > 0 && tally[2] == 0, "{tally:?}");
    finish(server, &place, &["UNINSTALL PLUGIN"]);
}

/// A session that has called the procedure, and keeps it, does not keep the recorder from leaving.
#[test]
fn a_session_that_has_loaded_rules_uninstalls_and_installs() {
    let place = LogAndArenas::new("rewrite-again");
    let (server, mut root) = start(&place, &[]);
    if release() == Release::Mysql80 {
        // The session that uninstalls holds the plugin itself, until it ends.
        drop(root);
        root = server.connect().expect("a connection");
    }
    set(&mut root, &[("SELECT ?", "SELECT ? + 1")]);
    root.query_drop("PREPARE s FROM 'SELECT tacho_rewrite_digest(\"SELECT 1\")'").expect("it");
    let digest: String = one(&mut root, "EXECUTE s");
    root.query_drop(uninstall()).expect("uninstalling");
    if release() == Release::Mysql97 {
        assert_eq!(one::<i64>(&mut root, "SELECT 5"), 5, "rules go with the recorder");
        assert_ne!(error_of(&mut root, LOAD).0, 0);
        assert_ne!(error_of(&mut root, "SELECT tacho_rewrite_digest('SELECT 1')").0, 0);
        root.query_drop(install()).expect("installing");
        assert_eq!(one::<i64>(&mut root, "SELECT 5"), 6, "and come with it");
        root.query_drop(LOAD).expect("the rules");
        assert_eq!(one::<String>(&mut root, "SELECT tacho_rewrite_digest('SELECT 1')"), digest);
    }
    drop(root);
    finish(server, &place, &["UNINSTALL PLUGIN"]);
}

#[test]
fn rules_survive_a_crash() {
    let place = LogAndArenas::new("rewrite-crash");
    let (mut server, mut root) = start(&place, &["loose-tacho.flush-interval-ms=60000"]);
    set(&mut root, &[("SELECT ?", "SELECT ? + 1"), ("SELECT n FROM d.one", "SELECT 99")]);
    // Not loaded, and so not in force.
    add(&mut root, "SELECT ?, ?", None, "SELECT ?");
    for n in 0..5 {
        assert_eq!(one::<i64>(&mut root, &format!("SELECT {n}")), n + 1);
    }
    server.kill9().expect("killing");
    drop(root);
    server.restart().expect("restarting");
    let mut root = server.connect().expect("a connection");
    assert_eq!(rule_count(&mut root), 2);
    assert_eq!(one::<i64>(&mut root, "SELECT 5"), 6);
    assert_eq!(all(&mut root, "SELECT n FROM d.one"), [99]);
    root.query_drop(LOAD).expect("all three");
    assert_eq!(rule_count(&mut root), 3);
    drop(root);
    let lines = place.end(&mut server);
    let found = rewritten(&lines);
    let mut expected: Vec<(String, String)> =
        (0..=5).map(|n| (format!("SELECT {n}"), format!("SELECT {n} + 1"))).collect();
    expected.push(("SELECT n FROM d.one".to_owned(), "SELECT 99".to_owned()));
    let found: Vec<(String, String)> =
        found.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect();
    assert_eq!(found, expected);
}

mod v97 {
    use super::*;

    /// A function that a statement still uses is not registered again: the error log says why, and
    /// installing again later works.
    #[test]
    fn a_function_in_use_is_registered_when_its_statement_has_ended() {
        let place = LogAndArenas::new("rewrite-in-use");
        let (mut server, mut root) = start(&place, &[]);
        let mut app = session(&server, "app");
        let id: u64 = one(&mut app, "SELECT CONNECTION_ID()");
        let answer = thread::scope(|scope| {
            let sleeper = scope.spawn(move || {
                error_of(&mut app, "SELECT tacho_rewrite_digest(CONCAT('SELECT ', SLEEP(600)))")
            });
            let state = format!(
                "SELECT COUNT(*) FROM performance_schema.processlist \
                 WHERE id = {id} AND state = 'User sleep'"
            );
            wait::until("it sleeps", || one::<u64>(&mut root, &state) == 1);
            root.query_drop(uninstall()).expect("uninstalling");
            root.query_drop(install()).expect("installing");
            root.query_drop(format!("KILL QUERY {id}")).expect("an answer");
            sleeper.join().expect("an answer")
        });
        // Of SLEEP, which ends with 1 when it is killed, or of the statement.
        assert!(answer.0 == 0 || answer.0 == 1317, "{answer:?}");
        root.query_drop(uninstall()).expect("uninstalling");
        root.query_drop(install()).expect("installing");
        let _: String = one(&mut root, "SELECT tacho_rewrite_digest('SELECT 1')");
        root.query_drop(uninstall()).expect("uninstalling");
        assert_ne!(error_of(&mut root, "SELECT tacho_rewrite_digest('SELECT 1')").0, 0);
        drop(root);
        server.stop().expect("stopping");
        let why = "the function tacho_rewrite_digest was not registered anew: a statement";
        let log = server.error_log();
        assert_eq!(log.matches(why).count(), 1, "{log}");
        server.assert_clean_log(&[why]);
    }
}
