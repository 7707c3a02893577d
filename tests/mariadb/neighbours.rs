//! Zone: outside. Beside other plugins, and in servers that are started in unusual ways: all
//! statements are in the log once, and the others work.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tacho_tests::audit::Audit;
use tacho_tests::client::{self, Queryable};
use tacho_tests::recorded::{self, text};
use tacho_tests::server::{Builder, TestServer, installation};
use tacho_tests::tagged::{self, Load, Tally};
use tacho_tests::wait;

/// Messages that the tests cause on purpose.
const ALLOWED: &[&str] = &["max_open_files", "Aborted connection"];
const THREADS: u64 = 3;

/// Where Debian's server has its plugins.
fn plugins() -> PathBuf {
    installation().usr().join("lib/mysql/plugin")
}

fn builder(options: &[&str]) -> Builder {
    let builder = TestServer::builder().option("plugin-load-add=tacho");
    options.iter().fold(builder, |builder, option| builder.option(option))
}

/// A load of some hundred statements.
fn work(server: &TestServer, run: &str) -> Tally {
    let running = Load { threads: THREADS, ..Load::new(server.socket(), run) }.start();
    let running = running.expect("a load");
    running.wait_for_more(600);
    running.stop().expect("a tally")
}

/// Runs the load, stops the server, and demands all of it in the log.
fn works(server: &mut TestServer, run: &str) {
    tagged::prepare(&mut server.connect().expect("a connection"), THREADS).expect("tables");
    let tally = work(server, run);
    server.stop().expect("stopping");
    let log = server.data_directory().join("tacho");
    Audit::of(&log, run).expect("a readable log").assert_complete(&tally);
}

/// With Debian's other audit plugins: before it and after it in the list of plugins.
#[test]
fn other_audit_plugins_do_not_disturb_it() {
    let others = ["server_audit", "query_response_time", "sql_errlog", "metadata_lock_info"];
    let mut builder = TestServer::builder();
    for name in others {
        builder = builder.plugin(plugins().join(format!("{name}.so")));
    }
    let mut server = builder
        .option("plugin-load-add=sql_errlog;server_audit")
        .option("plugin-load-add=tacho")
        .option("plugin-load-add=query_response_time;metadata_lock_info")
        .option("server-audit-logging=ON")
        .option("server-audit-output-type=file")
        .option("query-response-time-stats=ON")
        .start()
        .expect("a server");
    let mut conn = server.connect().expect("a connection");
    let active: Option<u64> = conn
        .query_first(
            "SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_status = 'ACTIVE' \
             AND plugin_name IN ('TACHO', 'SERVER_AUDIT', 'SQL_ERROR_LOG', 'METADATA_LOCK_INFO', \
             'QUERY_RESPONSE_TIME_AUDIT')",
        )
        .expect("the plugins");
    assert_eq!(active, Some(5));
    conn.query_drop("SELECT 'seen by both'").expect("an answer");
    conn.query_drop("SELECT nosuch").expect_err("an error");
    let counted: Option<u64> = conn
        .query_first("SELECT SUM(count) FROM information_schema.query_response_time")
        .expect("counts");
    assert!(counted.is_some_and(|count| count > 0), "{counted:?}");
    drop(conn);
    works(&mut server, "beside");
    let of = |name: &str| {
        let path = server.data_directory().join(name);
        String::from_utf8_lossy(&fs::read(path).expect("its log")).into_owned()
    };
    assert!(of("server_audit.log").contains("seen by both"));
    assert!(of("sql_errors.log").contains("nosuch"));
    server.assert_clean_log(&[ALLOWED, &["server_audit", "SERVER_AUDIT"]].concat());
}

/// It is taken out while another audit plugin stays, and put in again: sessions that were open
/// all the time are recorded again, because the server still gives them a plugin.
#[test]
fn it_is_installed_and_removed_beside_another() {
    let mut server = TestServer::builder()
        .plugin(plugins().join("server_audit.so"))
        .option("plugin-load-add=server_audit")
        .option("server-audit-logging=ON")
        .start()
        .expect("a server");
    let mut root = server.connect().expect("a connection");
    let mut conns = [(); 5].map(|()| server.connect().expect("a connection"));
    // A session that has not executed anything yet would not get the plugin at all: 10.11.19 takes
    // it for one that has it, because it has the other one for its connect.
    for conn in &mut conns {
        conn.query_drop("DO 0").expect("an answer");
    }
    for round in 0..3 {
        root.query_drop("INSTALL PLUGIN tacho SONAME 'tacho'").expect("installing");
        for (number, conn) in conns.iter_mut().enumerate() {
            // The server looks for new plugins after a statement.
            conn.query_drop("DO 0").expect("an answer");
            conn.query_drop(format!("SELECT 'with {round} {number}'")).expect("an answer");
        }
        root.query_drop("UNINSTALL PLUGIN tacho").expect("uninstalling");
        for (number, conn) in conns.iter_mut().enumerate() {
            conn.query_drop(format!("SELECT 'without {round} {number}'")).expect("an answer");
        }
        let absent = "SELECT 1 FROM information_schema.all_plugins \
                      WHERE plugin_name = 'tacho' AND plugin_status <> 'NOT INSTALLED'";
        wait::until("no session holds it", || {
            for conn in &mut conns {
                conn.query_drop("DO 1").expect("an answer");
            }
            root.query_first::<u64, _>(absent).expect("an answer").is_none()
        });
    }
    drop((conns, root));
    server.stop().expect("stopping");
    let lines = recorded::read(&server.data_directory().join("tacho")).expect("a good log");
    let count = |marker: &str| {
        lines.iter().filter(|line| text(line, "sql").is_some_and(|s| s.contains(marker))).count()
    };
    for round in 0..3 {
        assert_eq!(count(&format!("'with {round} ")), 5, "round {round}");
    }
    server.assert_clean_log(&[ALLOWED, &["server_audit", "SERVER_AUDIT"]].concat());
}

#[test]
fn it_records_in_servers_with_unusual_options() {
    let settings: &[(&str, &[&str])] = &[
        ("schema", &["performance-schema=ON"]),
        ("grants", &["skip-grant-tables"]),
        ("readonly", &["read-only=ON", "skip-name-resolve", "skip-networking"]),
        ("pool", &["thread-handling=pool-of-threads", "thread-pool-size=2"]),
        ("single", &["thread-cache-size=0", "old-mode=", "sql-mode=ANSI,NO_BACKSLASH_ESCAPES"]),
    ];
    for (run, options) in settings {
        let mut server = builder(options).start().expect("a server");
        works(&mut server, run);
        let lines = recorded::read(&server.data_directory().join("tacho")).expect("a good log");
        let user = |line: &recorded::Line| text(line, "user").map(str::to_owned);
        let users: Vec<_> =
            lines.iter().filter(|l| l.contains_key("sql")).filter_map(user).collect();
        // Without grants there are no accounts; the name is still the client's.
        assert!(!users.is_empty() && users.iter().all(|user| user == "root"), "{run}: {users:?}");
        server.assert_clean_log(&[ALLOWED, &["skip-grant-tables", "skip-name-resolve"]].concat());
    }
}

/// As in a chroot: no /proc, no HOME, hardly an environment.
#[test]
fn it_needs_neither_proc_nor_an_environment() {
    let script = "mount -t tmpfs none /proc && exec setpriv --pdeathsig TERM env -i \"$@\"";
    let probe = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", "true"])
        .status()
        .expect("unshare");
    if !probe.success() {
        tacho_tests::without_namespaces("a server without /proc is not tested");
        return;
    }
    let mut server = builder(&["tacho-arena-bytes=1M", "tacho-timestamps=SYSTEM"])
        .prefix(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .option("user=root")
        .start()
        .expect("a server");
    let mut conn = server.connect().expect("a connection");
    tagged::prepare(&mut conn, THREADS).expect("tables");
    let running = Load { threads: THREADS, ..Load::new(server.socket(), "bare") }.start();
    let running = running.expect("a load");
    running.wait_for_more(300);
    assert_eq!(client::status_number(&mut conn, "Tacho_records_lost").expect("status"), 0);
    server.kill9().expect("killing");
    server.restart().expect("restarting");
    running.wait_for_more(300);
    let tally = running.stop().expect("a tally");
    server.stop().expect("stopping");
    let log = server.data_directory().join("tacho");
    let audit = Audit::of(&log, "bare").expect("a readable log");
    audit.assert_complete_but(&tally, THREADS as usize);
    assert_eq!(server.error_log().matches("tacho: recovered ").count(), 1);
}
