//! Zone: outside. The component in a real MySQL 9.7, or the plugin in a real 8.0: what is recorded,
//! exactly once, and how it comes and goes. `scripts/test-mysql.sh` runs them with each.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tacho_tests::audit::Audit;
use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::disk::Disk;
use tacho_tests::log;
use tacho_tests::mysql_place::Place;
use tacho_tests::mysql_server::{
    Builder, MySql, Release, install, named, release, status_name, uninstall, wait_for_end,
};
use tacho_tests::recorded::{self, Line};
use tacho_tests::sysbench::Sysbench;
use tacho_tests::tagged::{self, Load, Running};
use tacho_tests::wait;

/// `ENOSPC`.
const NO_SPACE: i32 = 28;

fn start_load(socket: &Path, run: &str) -> Running {
    Load { big_every: 200, ..Load::new(socket, run) }.start().expect("a load")
}

fn wait_for_answers(running: &Running, more: u64) {
    let goal = running.acknowledged_count() + more;
    wait::until("the load has gone on", || running.acknowledged_count() >= goal);
}

fn conn_id(conn: &mut Conn) -> u64 {
    conn.query_first("SELECT CONNECTION_ID()").expect("an answer").expect("a row")
}

/// How many results several statements in one packet have, and the error that ends them.
fn answers(conn: &mut Conn, sql: &str) -> (usize, Option<u16>) {
    let mut result = conn.query_iter(sql).expect("an answer");
    let mut count = 0;
    while let Some(mut rows) = result.iter() {
        count += 1;
        for row in rows.by_ref() {
            if let Err(mysql::Error::MySqlError(error)) = row {
                return (count - 1, Some(error.code));
            }
        }
    }
    (count, None)
}

fn briefs(lines: &[Line], conn: u64) -> Vec<String> {
    recorded::of_conn(lines, conn).into_iter().map(recorded::brief).collect()
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_load_is_recorded_exactly_once() {
    let place = Place::new("load");
    let mut server = place.builder().start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    tagged::prepare(&mut root, 4).expect("a table");
    let running = start_load(server.socket(), "load");
    wait_for_answers(&running, 3000);
    let tally = running.stop().expect("a tally");
    assert!(tally.error_count > 0, "some of its statements fail");
    drop(root);
    server.stop().expect("stopping");
    Audit::of(&place.log(), "load").expect("a readable log").assert_complete(&tally);
    assert_eq!(place.arena_count(), 0);
    server.assert_clean_log(&[]);
    drop(server);
    place.remove();
}

/// The server's own counters are the witness.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn sysbench_with_sixteen_sessions_is_recorded_exactly_once() {
    let place = Place::new("sysbench");
    let mut server = place.builder().start().expect("a server");
    let mut root = server.connect().expect("a connection");
    let bench = Sysbench::new(server.socket(), "oltp_read_write").threads(16).seconds(3);
    bench.prepare(&mut root).expect("tables");
    root.query_drop(install()).expect("installing");
    let names = ["Com_stmt_execute", "Com_stmt_prepare", "Com_stmt_close"];
    let counted =
        |root: &mut Conn| names.map(|name| client::status_number(root, name).expect("a status"));
    let before = counted(&mut root);
    bench.run(|_| {}).expect("a run");
    let after = counted(&mut root);
    drop(root);
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let count = |command: &str| {
        let is = |line: &&Line| recorded::text(line, "command") == Some(command);
        lines.iter().filter(is).count() as u64
    };
    assert!(after[0] - before[0] > 1000, "it has worked: {before:?} {after:?}");
    let expected = [0, 1, 2].map(|i| after[i] - before[i]);
    assert_eq!(["Execute", "Prepare", "Close stmt"].map(count), expected);
    let statements: Vec<&Line> =
        lines.iter().filter(|line| recorded::text(line, "command") == Some("Execute")).collect();
    assert_eq!(recorded::problems(&statements), [""; 0]);
    server.assert_clean_log(&[]);
    drop(server);
    place.remove();
}

/// Nothing at all is missing: also no Prepare, which MariaDB answers before it tells anybody of it.
/// Returns how many files the log has.
fn survive_kills(name: &str, options: &[&str]) -> usize {
    let place = Place::new(name);
    let with = |builder: Builder, option: &&str| builder.option(named(option));
    let mut server = options.iter().fold(place.builder(), with).start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    tagged::prepare(&mut root, 4).expect("a table");
    drop(root);
    let running = start_load(server.socket(), name);
    for _ in 0..5 {
        wait_for_answers(&running, 500);
        server.kill9().expect("killing");
        assert_eq!(place.arena_count(), 1, "what the server leaves behind");
        // The server remembers the component, which recovers the arena before it begins anew.
        server.restart().expect("restarting");
    }
    wait_for_answers(&running, 500);
    let tally = running.stop().expect("a tally");
    server.stop().expect("stopping");
    Audit::of(&place.log(), name).expect("a readable log").assert_complete(&tally);
    assert_eq!(place.arena_count(), 0);
    let files = log::files(&place.log()).expect("files").len();
    drop(server);
    place.remove();
    files
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_kill_under_load_loses_nothing() {
    survive_kills("kill", &[]);
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_kill_when_nearly_everything_is_in_the_arena_loses_nothing() {
    let late = ["loose-tacho.flush-interval-ms=60000", "loose-tacho.flush-bytes=16777216"];
    survive_kills("late", &late);
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_kill_amid_rotations_loses_nothing() {
    let often = ["loose-tacho.rotate-bytes=65536", "loose-tacho.flush-interval-ms=1"];
    assert!(survive_kills("rotate", &often) > 20, "there were rotations");
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn each_kind_of_statement_has_its_line() {
    let place = Place::new("kinds");
    let mut server = place.builder().start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    root.query_drop("CREATE DATABASE d").expect("an answer");
    let mut conn = client::connect(server.socket(), "root", "d").expect("a connection");
    let id = conn_id(&mut conn);
    for sql in [
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "PREPARE s FROM 'SELECT v FROM t WHERE id = ?'",
        "SET @one = 1",
        "EXECUTE s USING @one",
        "CREATE PROCEDURE p() SELECT COUNT(*) FROM t",
        "CALL p()",
        "USE mysql",
        "DO 1",
        "CREATE USER u IDENTIFIED BY 'secret'",
    ] {
        conn.query_drop(sql).expect("an answer");
    }
    for sql in ["SELECT nothing", "THIS IS NOT SQL", "INSERT INTO d.t VALUES (1, 'again')"] {
        conn.query_drop(sql).expect_err("an error");
    }
    assert_eq!(answers(&mut conn, "SELECT 1; SELECT 2; SELECT 3"), (3, None));
    assert_eq!(answers(&mut conn, "SELECT 4; NOT SQL; SELECT 5"), (1, Some(1064)));
    let statement = conn.prep("SELECT v FROM d.t WHERE id = ?").expect("a statement");
    conn.exec_drop(&statement, (2,)).expect("an answer");
    conn.prep("SELECT v FROM d.nothing").expect_err("an error");
    drop(conn);
    wait_for_end(&mut root, id);
    drop(root);
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let found = briefs(&lines, id);
    assert_eq!(found, EXPECTED, "{}", found.join("\n"));
    if release() == Release::Mysql80 {
        let message = |sql: &str| {
            let line = lines.iter().find(|line| recorded::text(line, "sql") == Some(sql));
            recorded::text(line.expect("a line"), "error").expect("a message")
        };
        assert_eq!(message("SELECT nothing"), "Unknown column 'nothing' in 'field list'");
        assert!(message("THIS IS NOT SQL").starts_with("You have an error in your SQL syntax"));
        assert_eq!(message("SELECT v FROM d.nothing"), "Table 'd.nothing' doesn't exist");
    }
    let db: Vec<_> = recorded::of_conn(&lines, id)
        .into_iter()
        .filter(|line| matches!(recorded::text(line, "sql"), Some("USE mysql" | "DO 1")))
        .map(|line| recorded::text(line, "db").unwrap_or_default().to_owned())
        .collect();
    assert_eq!(db, ["d", "mysql"]);
    server.assert_clean_log(&[]);
    drop(server);
    place.remove();
}

const EXPECTED: &[&str] = &[
    "connect ok",
    r#"Query select ok "SELECT CONNECTION_ID()" sent=1 examined=1 lock"#,
    r#"Query create_table ok "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))" sent=0 examined=0 affected=0 lock"#,
    r#"Query insert ok "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')" sent=0 examined=0 affected=3 lock"#,
    r#"Query prepare ok "PREPARE s FROM 'SELECT v FROM t WHERE id = ?'" sent=0 examined=0 affected=0 lock"#,
    r#"Query set_option ok "SET @one = 1" sent=0 examined=0 affected=0 lock"#,
    r#"Query execute ok "EXECUTE s USING @one" sent=1 examined=1 lock"#,
    r#"Query select ok "SELECT v FROM t WHERE id = 1""#,
    r#"Query create_procedure ok "CREATE PROCEDURE p() SELECT COUNT(*) FROM t" sent=0 examined=0 affected=0 lock"#,
    r#"Query call ok "CALL p()" sent=1 examined=0 affected=0 lock"#,
    r#"Query select ok "SELECT COUNT(*) FROM t" sent=1 examined=0"#,
    r#"Query change_db ok "USE mysql" sent=0 examined=0 affected=0 lock"#,
    r#"Query do ok "DO 1" sent=0 examined=1 affected=0 lock"#,
    r#"Query create_user ok "CREATE USER u IDENTIFIED BY <secret>" sent=0 examined=0 affected=0 lock"#,
    r#"Query select error 1054/42S22 "SELECT nothing" sent=0 examined=0 lock"#,
    r#"Query error 1064/42000 "THIS IS NOT SQL" sent=0 examined=0 lock"#,
    r#"Query insert error 1062/23000 "INSERT INTO d.t VALUES (1, 'again')" sent=0 examined=0 lock"#,
    r#"Query select ok "SELECT 1" sent=1 examined=1 lock"#,
    r#"Query select ok "SELECT 2" sent=1 examined=1 lock"#,
    r#"Query select ok "SELECT 3" sent=1 examined=1 lock"#,
    r#"Query select ok "SELECT 4" sent=1 examined=1 lock"#,
    r#"Query error 1064/42000 "NOT SQL; SELECT 5" sent=0 examined=0 lock"#,
    r#"Prepare ok "SELECT v FROM d.t WHERE id = ?" sent=0 examined=0 lock"#,
    r#"Execute select ok "SELECT v FROM d.t WHERE id = 2" sent=1 examined=1 lock"#,
    r#"Prepare error 1146/42S02 "SELECT v FROM d.nothing" sent=0 examined=0 lock"#,
    "Quit ok",
    "disconnect",
];

/// Rules go by it, so nobody may be able to hide it.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn the_database_is_right_wherever_it_changes() {
    let place = Place::new("database");
    let mut server = place.builder().start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    for sql in ["CREATE DATABASE d", "CREATE DATABASE e", "CREATE DATABASE f"] {
        root.query_drop(sql).expect("an answer");
    }
    root.query_drop("CREATE PROCEDURE e.p() BEGIN PREPARE s FROM 'DO 5'; EXECUTE s; END")
        .expect("an answer");
    root.query_drop("CREATE PROCEDURE e.gone() DROP DATABASE f").expect("an answer");
    let mut conn = client::connect(server.socket(), "root", "d").expect("a connection");
    let id = conn_id(&mut conn);
    for sql in ["DO 1", "USE e; DO 2", "DO 3", "USE d", "DO 4", "CALL e.p()", "DO 6"] {
        assert_eq!(answers(&mut conn, sql).1, None, "{sql}");
    }
    for sql in ["USE f", "CALL e.gone()", "DO 7"] {
        conn.query_drop(sql).expect("an answer");
    }
    drop((conn, root));
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let db: Vec<(&str, &str)> = recorded::of_conn(&lines, id)
        .into_iter()
        .filter_map(|line| {
            let sql = recorded::text(line, "sql").filter(|sql| sql.starts_with("DO "))?;
            Some((sql, recorded::text(line, "db").unwrap_or_default()))
        })
        .collect();
    let expected = [
        ("DO 1", "d"),
        ("DO 2", "e"),
        ("DO 3", "e"),
        ("DO 4", "d"),
        ("DO 5", "e"),
        ("DO 6", "d"),
        ("DO 7", ""),
    ];
    assert_eq!(db, expected);
    server.assert_clean_log(&[]);
    drop(server);
    place.remove();
}

/// The server tries its execution twice, and tells of both.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn what_has_to_be_prepared_anew_has_one_line() {
    let place = Place::new("anew");
    let mut server = place.builder().start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    root.query_drop("CREATE DATABASE d").expect("an answer");
    root.query_drop("CREATE TABLE d.t (id INT PRIMARY KEY)").expect("an answer");
    root.query_drop("INSERT INTO d.t VALUES (1), (2)").expect("an answer");
    let mut conn = server.connect().expect("a connection");
    let id = conn_id(&mut conn);
    let statement = conn.prep("DELETE FROM d.t WHERE id = ?").expect("a statement");
    conn.exec_drop(&statement, (1,)).expect("an answer");
    root.query_drop("ALTER TABLE d.t ADD COLUMN v INT").expect("an answer");
    conn.exec_drop(&statement, (2,)).expect("an answer");
    let left: Option<u64> = conn.query_first("SELECT COUNT(*) FROM d.t").expect("an answer");
    assert_eq!(left, Some(0));
    drop((conn, root));
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let found = briefs(&lines, id);
    let executed: Vec<_> = found.iter().filter(|brief| brief.starts_with("Execute")).collect();
    assert_eq!(executed.len(), 2, "{}", found.join("\n"));
    assert!(executed.iter().all(|brief| brief.starts_with("Execute delete ok")), "{executed:?}");
    drop(server);
    place.remove();
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn connections_are_recorded() {
    let place = Place::new("connections");
    let mut server = place.builder().start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    root.query_drop("CREATE USER visitor").expect("an answer");
    let mut conn = client::connect(server.socket(), "visitor", "").expect("a connection");
    let id = conn_id(&mut conn);
    conn.change_user(mysql::ChangeUserOpts::default().with_user(Some("root".to_owned())))
        .expect("another user");
    drop(conn);
    client::connect(server.socket(), "nobody", "").expect_err("refused");
    drop(root);
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let who = |line: &Line| {
        let field = |name| recorded::text(line, name).unwrap_or("-").to_owned();
        format!("{} {} {}", field("event"), field("user"), field("priv_user"))
    };
    let found: Vec<String> = recorded::of_conn(&lines, id)
        .into_iter()
        .filter(|line| recorded::text(line, "event") != Some("statement"))
        .map(who)
        .collect();
    assert_eq!(found, ["connect visitor visitor", "change_user root root", "disconnect root root"]);
    let refused: Vec<&Line> = lines
        .iter()
        .filter(|line| recorded::text(line, "event") == Some("connect_failed"))
        .collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(who(refused[0]), "connect_failed nobody -");
    assert_eq!(recorded::number(refused[0], "errno"), Some(1045));
    assert_eq!(recorded::text(refused[0], "host"), Some("localhost"));
    // Of the user that is not there the server asks for a password of this kind.
    server.assert_clean_log(&["'sha256_password' is deprecated"]);
    drop(server);
    place.remove();
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn it_comes_and_goes_under_load() {
    match release() {
        Release::Mysql97 => component_comes_and_goes(),
        Release::Mysql80 => plugin_comes_and_goes(),
    }
}

/// Sessions that do nothing hold references to the component's services; sessions that work are
/// inside of it.
fn component_comes_and_goes() {
    let place = Place::new("uninstall");
    let mut server = place.builder().start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    tagged::prepare(&mut root, 4).expect("a table");
    let mut idle = server.connect().expect("a connection");
    idle.query_drop("DO 'before'").expect("an answer");
    let running = start_load(server.socket(), "uninstall");
    for round in 0..5 {
        wait_for_answers(&running, 200);
        root.query_drop(uninstall()).expect("uninstalling");
        assert_eq!(place.arena_count(), 0, "round {round}");
        wait_for_answers(&running, 200);
        idle.query_drop("DO 'between'").expect("an answer");
        root.query_drop(install()).expect("installing again");
        idle.query_drop(format!("DO 'round {round}'")).expect("an answer");
    }
    let before = running.acknowledged_count();
    wait_for_answers(&running, 200);
    let tally = running.stop().expect("a tally");
    drop((idle, root));
    server.stop().expect("stopping");
    let audit = Audit::of(&place.log(), "uninstall").expect("a readable log");
    assert_eq!(audit.problems, [""; 0]);
    assert!(audit.counts.values().all(|count| *count == 1), "nothing is there twice");
    assert!(audit.counts.len() as u64 >= tally.acknowledged.len() as u64 - before);
    let lines = recorded::read(&place.log()).expect("a readable log");
    let count =
        |sql: &str| lines.iter().filter(|line| recorded::text(line, "sql") == Some(sql)).count();
    assert_eq!(count("DO 'before'"), 1);
    assert_eq!(count("DO 'between'"), 0);
    for round in 0..5 {
        assert_eq!(count(&format!("DO 'round {round}'")), 1);
    }
    // Those that install it and take it away have their lines, too.
    assert_eq!((count(install()), count(uninstall())), (6, 5));
    let running = |line: &&Line| recorded::text(line, "outcome") == Some("running");
    let open: Vec<_> = lines.iter().filter(running).collect();
    // What the sessions of the load were about when it went away: one each.
    assert!(open.len() <= 5 * 4, "{open:?}");
    assert!(open.iter().all(|line| recorded::text(line, "sql") != Some(uninstall())));
    server.assert_clean_log(&[]);
    drop(server);
    place.remove();
}

/// What a client that comes and goes has been told: its statements that were answered, by whether
/// the plugin was there for good when the client connected.
#[derive(Default)]
struct Visits {
    stop: AtomicBool,
    for_good: AtomicBool,
    answered: AtomicU64,
    kept: Mutex<Vec<String>>,
}

fn come_and_go(socket: &Path, thread: usize, visits: &Visits) {
    let mut number = 0_u64;
    while !visits.stop.load(Ordering::Acquire) {
        let for_good = visits.for_good.load(Ordering::Acquire);
        let mut conn = client::connect(socket, "root", "").expect("a connection");
        for _ in 0..3 {
            number += 1;
            let sql = format!("DO 'visit {thread} {number}'");
            conn.query_drop(&sql).expect("an answer");
            visits.answered.fetch_add(1, Ordering::AcqRel);
            if for_good {
                visits.kept.lock().expect("no panic").push(sql);
            }
        }
    }
}

/// Each session holds the plugin from its first event to its end, and the server takes the plugin
/// away when the last one has ended: so it is new sessions that come while it goes.
fn plugin_comes_and_goes() {
    const ROUNDS: usize = 50;
    let place = Place::new("uninstall");
    let mut server = place.builder().start().expect("a server");
    let socket = server.socket().to_owned();
    let is_there = || {
        let mut conn = client::connect(&socket, "root", "").expect("a connection");
        let sql = "SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name = 'tacho'";
        conn.query_first::<u64, _>(sql).expect("an answer") == Some(1)
    };
    let change = |sql: &str| {
        let mut conn = client::connect(&socket, "root", "").expect("a connection");
        conn.query_drop(sql).expect("an answer");
    };
    let visits = Visits::default();
    let more = |count: u64| {
        let goal = visits.answered.load(Ordering::Acquire) + count;
        wait::until("the load has gone on", || visits.answered.load(Ordering::Acquire) >= goal);
    };
    change(install());
    thread::scope(|scope| {
        for thread in 0..4 {
            let (socket, visits) = (&socket, &visits);
            scope.spawn(move || come_and_go(socket, thread, visits));
        }
        for round in 0..ROUNDS {
            more(10);
            change(uninstall());
            wait::until("the last session has let go of it", || !is_there());
            assert_eq!(place.arena_count(), 0, "round {round}");
            more(10);
            change(install());
        }
        visits.for_good.store(true, Ordering::Release);
        more(100);
        visits.stop.store(true, Ordering::Release);
    });
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let mut counts = BTreeMap::new();
    for sql in lines.iter().filter_map(|line| recorded::text(line, "sql")) {
        *counts.entry(sql).or_insert(0_usize) += 1;
    }
    assert_eq!(counts.get(install()), Some(&(ROUNDS + 1)));
    assert_eq!(counts.get(uninstall()), Some(&ROUNDS));
    let visit = |sql: &str| sql.starts_with("DO 'visit");
    assert!(counts.iter().all(|(sql, count)| *count == 1 || !visit(sql)), "none is there twice");
    let kept = visits.kept.lock().expect("no panic");
    assert!(kept.len() > 50, "{}", kept.len());
    assert!(kept.iter().all(|sql| counts.get(sql.as_str()) == Some(&1)), "all of them are there");
    let open = lines.iter().filter(|line| recorded::text(line, "outcome") == Some("running"));
    assert_eq!(open.count(), 0, "it goes when nobody is inside");
    server.assert_clean_log(&[]);
    drop(server);
    place.remove();
}

/// A server with a small arena, whose log is on a disk of its own.
fn start_with_disk(place: &Place) -> (MySql, Disk) {
    let disk = Disk::plain(&place.path().join("disk")).expect("a disk");
    let builder = MySql::builder()
        .option(named(&format!("loose-tacho.directory={}", disk.log_directory().display())))
        .option(named(&format!("loose-tacho.arena-directory={}/arenas", place.path().display())))
        .option(named("loose-tacho.arena-bytes=1M"));
    let with = |builder: Builder, (name, value): &(&str, String)| builder.environment(name, value);
    let server = disk.environment().iter().fold(builder, with).start().expect("a server");
    (server, disk)
}

/// Makes what the clients need who shall wait while root shall not.
fn prepare_workers(root: &mut Conn) {
    tagged::prepare(root, 4).expect("a table");
    root.query_drop("CREATE USER worker").expect("an answer");
    root.query_drop("GRANT ALL ON tagged.* TO worker").expect("an answer");
    // Root shall not wait as well.
    root.query_drop(named(
        r#"SET GLOBAL tacho.filter = '{"rules": [{"user": "root", "action": "record", "overflow": "DROP"}]}'"#,
    ))
    .expect("an answer");
}

/// A server whose arena is full because its log cannot be written.
struct Full {
    server: MySql,
    disk: Disk,
    root: Conn,
    /// All of its sessions wait.
    running: Running,
    /// What they had got answers to by then.
    answered: u64,
}

fn fill_arena(place: &Place, run: &str) -> Full {
    let (server, disk) = start_with_disk(place);
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    prepare_workers(&mut root);
    disk.fail_writes(NO_SPACE, 0).expect("a fault");
    let load = Load { user: "worker".to_owned(), big_every: 3, ..Load::new(server.socket(), run) };
    let running = load.start().expect("a load");
    let answered = wait::until_steady("all sessions wait", || running.acknowledged_count());
    Full { server, disk, root, running, answered }
}

/// Who uninstalls must not pull the arena from under a session that waits for room in it.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn it_stays_while_a_session_waits_for_room() {
    let place = Place::new("full");
    let Full { mut server, disk, mut root, running, answered } = fill_arena(&place, "full");
    let uninstalled = root.query_drop(uninstall());
    // 8.0 marks it, and takes it away when the last of its sessions has ended.
    assert_eq!(uninstalled.is_ok(), release() == Release::Mysql80, "sessions are inside");
    assert_eq!(running.acknowledged_count(), answered, "they still wait");
    disk.mend_writes().expect("a mended disk");
    wait_for_answers(&running, 200);
    let tally = running.stop().expect("a tally");
    if release() == Release::Mysql97 {
        root.query_drop(uninstall()).expect("uninstalling");
    }
    drop(root);
    wait::until("it is gone", || place.arena_count() == 0);
    server.stop().expect("stopping");
    let audit = Audit::of(&disk.log_directory_here(), "full").expect("a readable log");
    audit.assert_declared(&tally);
    let missing = tally.acknowledged.iter().filter(|tag| !audit.counts.contains_key(tag)).count();
    assert_eq!(missing, 0, "only root's statements were dropped");
    let says_so = server.complaints(&[]).iter().any(|line| line.contains("recording goes on"));
    assert_eq!(says_so, release() == Release::Mysql97);
    assert_eq!(place.arena_count(), 0);
    drop((server, disk));
    place.remove();
}

/// Who is killed while it waits for room gives its record up, and that is counted.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_killed_session_waits_no_longer() {
    let place = Place::new("killed");
    let Full { mut server, disk, mut root, running, .. } = fill_arena(&place, "killed");
    let sessions: Vec<u64> = root
        .query("SELECT id FROM information_schema.processlist WHERE user = 'worker'")
        .expect("an answer");
    let first = sessions.first().expect("a session");
    root.query_drop(format!("KILL {first}")).expect("an answer");
    wait::until("it is counted", || {
        let name = status_name("records_lost_killed");
        client::status_number(&mut root, &name).expect("a status") > 0
    });
    disk.mend_writes().expect("a mended disk");
    wait_for_answers(&running, 100);
    let tally = running.stop().expect("a tally");
    drop(root);
    server.stop().expect("stopping");
    let audit = Audit::of(&disk.log_directory_here(), "killed").expect("a readable log");
    audit.assert_declared(&tally);
    drop((server, disk));
    place.remove();
}
