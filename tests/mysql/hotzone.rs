//! Zone: outside. The hot zone in a running MySQL: in the callbacks of the component, or of the
//! plugin, nothing is allocated, nothing is locked, nothing blocks and errno stays unchanged; the
//! exception is the name of a session's database when it has changed, which the server only
//! provides as a copy.
//!
//! The detector is `tests/preload/`, preloaded into the server; the tested library is the shipped
//! one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tacho_tests::client::{self, Queryable};
use tacho_tests::mysql_rewriting;
use tacho_tests::mysql_server::{MySql, install, library_name, named};
use tacho_tests::{source_root, tagged};

fn build_detector(directory: &Path) -> PathBuf {
    let detector = directory.join("detector.so");
    let source = source_root().join("tests/preload");
    let status = Command::new("gcc")
        .args(["-std=gnu11", "-O2", "-fPIC", "-shared", "-o"])
        .arg(&detector)
        .args([source.join("detector.c"), source.join("detector_component.c")])
        .status()
        .expect("running gcc");
    assert!(status.success(), "the detector does not compile");
    detector
}

fn figure(report: &str, name: &str) -> u64 {
    let line = report.lines().find(|line| line.starts_with(name)).expect("a figure");
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// Starts a server with the component, does the work, and returns the report on it.
fn watch(name: &str, work: impl FnOnce(&mut MySql)) -> String {
    let directory = tacho_tests::unused_directory(&format!("mysql-hot-{name}"));
    fs::create_dir_all(&directory).expect("a directory");
    let report = directory.join("report");
    let mut server = MySql::builder()
        .option(named(&format!("loose-tacho.directory={}/log", directory.display())))
        .option(named("loose-tacho.tables=ON"))
        .environment("LD_PRELOAD", &build_detector(&directory).to_string_lossy())
        .environment("TACHO_DETECTOR_PLUGIN", library_name())
        .environment("TACHO_DETECTOR_REPORT", &report.to_string_lossy())
        .start()
        .expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    root.query_drop("CREATE DATABASE hot").expect("an answer");
    root.query_drop("CREATE TABLE hot.t (id INT PRIMARY KEY, note LONGTEXT)").expect("an answer");
    root.query_drop("CREATE PROCEDURE hot.p() INSERT INTO hot.t VALUES (1, 'x')")
        .expect("an answer");
    tagged::prepare(&mut root, 4).expect("a table");
    drop(root);
    // Sessions that were there before the component are asked for their database once.
    server.restart().expect("restarting");
    work(&mut server);
    server.stop().expect("stopping");
    let text = fs::read_to_string(&report).expect("the detector saw no event");
    fs::remove_dir_all(&directory).expect("removing");
    text
}

#[test]
fn the_callbacks_neither_allocate_nor_lock_nor_block() {
    let report = watch("load", |server| {
        let mut conn = client::connect(server.socket(), "root", "hot").expect("a connection");
        conn.query_drop("selec 1").expect_err("a parse error");
        conn.query_drop("SELECT 1; SELECT 2; SELECT 3").expect("an answer");
        conn.query_drop("PREPARE s FROM 'SELECT ?'").expect("an answer");
        conn.query_drop("SET @a = 1").expect("an answer");
        conn.query_drop("EXECUTE s USING @a").expect("an answer");
        conn.exec_drop("INSERT INTO t VALUES (?, ?)", (2, "y".repeat(200_000))).expect("an answer");
        conn.ping().expect("an answer");
        client::connect(server.socket(), "stranger", "").expect_err("refused");
        let running = tagged::Load::new(server.socket(), "hot").start().expect("a load");
        running.wait_for_more(1000);
        running.stop().expect("a tally");
    });
    assert!(figure(&report, "events") > 5000, "{report}");
    assert_eq!(figure(&report, "violations"), 0, "{report}");
    assert_eq!(figure(&report, "errno_changes"), 0, "{report}");
}

/// Rules that block others, and other statements of this user.
#[test]
fn rules_that_block_nothing_of_it_change_nothing() {
    let report = watch("rules", |server| {
        let mut root = server.connect().expect("a connection");
        root.query_drop("CREATE USER worker").expect("an answer");
        root.query_drop("GRANT ALL ON *.* TO worker").expect("an answer");
        root.query_drop("REVOKE SUPER ON *.* FROM worker").expect("an answer");
        let rules = r#"{"rules": [
            {"user": "worker", "host": "10.0.0.0/8", "class": "dml", "action": "block"},
            {"user": "worker", "db": "payroll", "class": ["read", "dml"], "action": "block"},
            {"user": "worker", "table": "payroll.*", "action": "block"},
            {"class": ["dcl", "admin"], "action": "block"}
        ]}"#;
        root.query_drop(named(&format!("SET GLOBAL tacho.filter = '{rules}'"))).expect("an answer");
        let load =
            tagged::Load { user: "worker".to_owned(), ..tagged::Load::new(server.socket(), "hot") };
        let running = load.start().expect("a load");
        running.wait_for_more(1000);
        running.stop().expect("a tally");
    });
    assert!(figure(&report, "events") > 5000, "{report}");
    assert_eq!(figure(&report, "violations"), 0, "{report}");
    assert_eq!(figure(&report, "errno_changes"), 0, "{report}");
}

/// Rules that rewrite, of which none matches: in sessions of all kinds.
#[test]
fn rules_that_rewrite_nothing_of_it_change_nothing() {
    let report = watch("no-rewrite", |server| {
        let mut root = server.connect().expect("a connection");
        mysql_rewriting::run_script(server);
        let rules: Vec<(String, String)> = (0..500)
            .map(|n| (format!("SELECT c FROM no_{n} WHERE id = ?"), "SELECT ?".to_owned()))
            .collect();
        let rules: Vec<(&str, &str)> = rules.iter().map(|it| (&*it.0, &*it.1)).collect();
        mysql_rewriting::set(&mut root, &rules);
        drop(root);
        // Loading them allocates; the report covers only the last process.
        server.restart().expect("restarting");
        let mut conn = client::connect(server.socket(), "root", "hot").expect("a connection");
        conn.query_drop("SELECT \"a\"; SELECT 'b\\'c'; SELECT 3 /* four */").expect("an answer");
        conn.query_drop("PREPARE s FROM 'SELECT ?'").expect("an answer");
        conn.exec_drop("INSERT INTO t VALUES (?, ?)", (2, "y".repeat(200_000))).expect("an answer");
        conn.query_drop(format!("INSERT INTO t VALUES (3, '{}')", "y".repeat(200_000)))
            .expect("an answer");
        let running = tagged::Load::new(server.socket(), "hot").start().expect("a load");
        running.wait_for_more(1000);
        running.stop().expect("a tally");
    });
    assert!(figure(&report, "events") > 5000, "{report}");
    assert_eq!(figure(&report, "violations"), 0, "{report}");
    assert_eq!(figure(&report, "errno_changes"), 0, "{report}");
}

/// A statement that is rewritten takes its text from the server's allocator, once.
#[test]
fn a_rewritten_statement_allocates_its_text() {
    let report = watch("rewrite", |server| {
        let mut root = server.connect().expect("a connection");
        mysql_rewriting::run_script(server);
        mysql_rewriting::set(&mut root, &[("DO ?", "DO ? + 1")]);
        drop(root);
        server.restart().expect("restarting");
        let mut conn = client::connect(server.socket(), "root", "hot").expect("a connection");
        for n in 0..10 {
            conn.query_drop(format!("DO {n}")).expect("an answer");
            conn.query_drop(format!("DO {n}, {n}")).expect("an answer");
        }
    });
    // Before that each has asked whether its session is exempt, which makes a string and gives it
    // back.
    assert_eq!(figure(&report, "violations"), 30, "{report}");
    for name in ["operator new", "operator delete", "malloc"] {
        assert!(report.contains(&format!("violation {name}")), "{report}");
    }
    assert_eq!(figure(&report, "errno_changes"), 0, "{report}");
}

/// The documented exception is the only one.
#[test]
fn another_database_is_asked_for_once() {
    let report = watch("use", |server| {
        let mut conn = client::connect(server.socket(), "root", "hot").expect("a connection");
        conn.query_drop("USE mysql").expect("an answer");
        for _ in 0..10 {
            conn.query_drop("DO 1").expect("an answer");
        }
        // It could have dropped it.
        conn.query_drop("CALL hot.p()").expect("an answer");
        for _ in 0..10 {
            conn.query_drop("DO 1").expect("an answer");
        }
    });
    // An object and its text, made and given back, after `USE`, for the statement of the procedure,
    // and after `CALL`.
    assert_eq!(figure(&report, "violations"), 12, "{report}");
    let names = ["malloc", "free", "operator new", "operator delete"];
    for line in report.lines().filter_map(|line| line.strip_prefix("violation ")) {
        assert!(names.contains(&line), "{report}");
    }
}
