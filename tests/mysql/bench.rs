//! Zone: outside. `tacho bench` on MySQL, 9.7 and 8.0: the differences from `bench.rs`.
//! `scripts/test-release.sh` runs them with each.

use std::fs;
use std::path::Path;
use std::process::Command;

use tacho_tests::benched::{
    self, BLOCK_OF_ROUNDS, State, counted, differences, directory, lines, of_type, run, text,
};
use tacho_tests::client::{Conn, Queryable};
use tacho_tests::mysql_server::{self, MySql, Release, install, named, release};

/// On a private MySQL.
fn bench(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = benched::bench(directory, arguments);
    on_mysql(&mut command);
    command
}

fn on_mysql(command: &mut Command) {
    let usr = mysql_server::installation().usr();
    command
        .arg("--server-directory")
        .arg(usr.parent().expect("its folder"))
        .arg("--plugin")
        .arg(mysql_server::library());
}

fn state(conn: &mut Conn) -> State {
    benched::state(
        conn,
        "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_variables \
         WHERE VARIABLE_NAME NOT LIKE 'gtid%'",
        "SELECT CONCAT('plugin ', PLUGIN_NAME) FROM information_schema.PLUGINS \
         UNION ALL SELECT CONCAT('schema ', SCHEMA_NAME) FROM information_schema.SCHEMATA \
         UNION ALL SELECT CONCAT('installed ', name) FROM mysql.plugin \
         UNION ALL SELECT CONCAT('installed ', component_urn) FROM mysql.component \
         UNION ALL SELECT CONCAT('user ', User) FROM mysql.user",
    )
}

#[test]
fn a_private_server_is_measured_and_removed() {
    let directory = directory("mysql-private");
    let methods = match release() {
        Release::Mysql97 => {
            "tacho,nothing,general_log,slow_log,init_connect,rewriter,tacho-rewrite:1000"
        }
        // It has no component that does nothing.
        Release::Mysql80 => "tacho,general_log,slow_log,init_connect,rewriter,tacho-rewrite:1000",
    };
    let arguments = ["--method", methods, "--pairs", "1", "--workload", "oltp_point_select"];
    let output = run(bench(&directory, &arguments));
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{said}");
    let lines = lines(&directory);
    let version = lines[0]["server"]["version"].as_str().expect("a version");
    assert!(!version.contains("MariaDB"), "{version}");
    let blocks = of_type(&lines, "block");
    // Under one load and with restarts, A/A in each: the logs, and tacho where it is installed and
    // removed under load, with rules, too; init_connect, rewriter, and nothing or tacho, and
    // tacho's rules.
    let (one_load, restarts) = match release() {
        Release::Mysql97 => (5, 4),
        Release::Mysql80 => (3, 5),
    };
    assert_eq!(blocks.len(), (one_load + restarts) * 2, "{told}");
    let tacho = blocks.iter().find(|block| block["method"] == "tacho").expect("it is measured");
    let switch = match release() {
        Release::Mysql97 => "reconnect",
        Release::Mysql80 => "restart",
    };
    assert_eq!(tacho["switch"], switch);
    for block in &blocks {
        let queries = block["queries"].as_u64().expect("a number");
        assert!(queries > 0 && block["events"].as_u64().expect("a number") > 0, "{block}");
        let cpu = |name: &str| block["cpu"][name].as_f64().expect("a number");
        // The threads of its connections are known. How much the others use is up to a server that has
        // just started.
        assert!(cpu("query_s") > 0.0, "{block}");
        assert!(block["switch"] == "restart" || cpu("query_s") > cpu("rest_s"), "{block}");
        match block["method"].as_str().expect("a name") {
            "tacho" => {
                // How far the writer gets within the block depends on the machine's other work.
                let records = block["records_written"].as_u64().expect("a number");
                assert!(records > 0, "{block}");
                assert!(block["bytes_written"].as_u64().expect("a number") > records * 50);
                assert!(cpu("writer_s") > 0.0, "{block}");
            }
            "general_log" | "slow_log" => {
                assert!(block["log_bytes"].as_u64().expect("a size") > queries * 20, "{block}");
            }
            _ => {}
        }
    }
    benched::assert_results_alone(&directory);

    let output = run(bench(&directory, &["--method", "server_audit", "--pairs", "1"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("it is for MariaDB"), "{}", text(&output.stderr));
    fs::remove_dir_all(directory).expect("removing the directory");
}

#[test]
fn every_variant_of_tacho_can_be_measured() {
    let directory = directory("mysql-variants");
    // On 8.0 each block has its own server, and the others have the same kinds.
    let (methods, count) = match release() {
        Release::Mysql97 => ("tacho:*", 11),
        Release::Mysql80 => ("tacho:off,tacho:external", 2),
    };
    let arguments = ["--pairs", "1", "--method", methods, "--workload", "oltp_point_select"];
    let mut command = benched::bench_with_blocks(&directory, BLOCK_OF_ROUNDS, &arguments);
    on_mysql(&mut command);
    let output = run(command);
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{said}");
    let lines = lines(&directory);
    let mut seen = 0;
    for block in of_type(&lines, "block") {
        let name = block["method"].as_str().expect("a name");
        if let Some(variant) = name.strip_prefix("tacho") {
            seen += 1;
            // The contents of the file: with an interval of five seconds they are written later.
            // Switching off writes the lines that record it.
            if variant != ":paced" {
                let bytes = block["log_bytes"].as_u64().expect("a number");
                assert_eq!(bytes < 5000, variant == ":off", "{block}");
            }
        }
    }
    assert_eq!(seen, count, "{told}");
    fs::remove_dir_all(directory).expect("removing the directory");
}

#[test]
#[ignore = "minutes: make test-all"]
fn instructions_are_counted() {
    let directory = directory("mysql-instructions");
    let mut command = benched::instructions(&directory);
    on_mysql(&mut command);
    let output = run(command);
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{said}");
    let lines = lines(&directory);
    let of = |method: &str, part: &str| counted(&lines, method, part);
    assert!(of("none", "query") > 20_000, "{told}");
    assert_eq!(of("none", "writer"), 0, "{told}");
    let added = of("tacho", "query") - of("none", "query");
    assert!((1_000..20_000).contains(&added), "{told}");
    assert!(of("tacho", "writer") > 1_000, "{told}");
    fs::remove_dir_all(directory).expect("removing the directory");
}

#[test]
fn an_own_server_is_as_before() {
    const METHODS: &str = "tacho,general_log,slow_log";
    let directory = directory("mysql-own");
    let server = MySql::builder()
        // Values that are not the defaults, of every type.
        .option("log-output=TABLE")
        .option("general-log-file=mine.log")
        .option("long-query-time=3.25")
        .option("slow-query-log-file=it's mine.log")
        .start()
        .expect("a server");
    let mut conn = server.connect().expect("a session");
    if release() == Release::Mysql80 {
        let socket = server.socket().display().to_string();
        let arguments =
            ["--socket", &*socket, "--user", "root", "--method", "tacho", "--pairs", "1"];
        let output = run(benched::bench(&directory, &arguments));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("{} first", install())), "{said}");
        // A plugin that is there is not taken away: it is switched on and off.
        conn.query_drop(install()).expect("installing");
        conn.query_drop(named("SET GLOBAL tacho.logging = OFF")).expect("an answer");
    }
    let before = state(&mut conn);
    let socket = server.socket().display().to_string();
    let load = ["--workload", "oltp_point_select", "--method", METHODS];
    let by_socket = |pairs| {
        let mut arguments = vec!["--socket", &*socket, "--user", "root", "--pairs", pairs];
        arguments.extend(load);
        benched::bench(&directory, &arguments)
    };
    let output = run(by_socket("1"));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(differences(&before, &state(&mut conn)), [""; 0]);
    let lines = lines(&directory);
    assert_eq!(lines[0]["server"]["local"], true);
    assert_eq!(of_type(&lines, "block").len(), 2 * 4);
    assert!(said.contains("left behind: ") && said.contains("/tacho/audit-"), "{said}");

    // Without TLS, the password is encrypted with the server's key.
    benched::run_over_tcp(&mut conn, &directory, server.port());

    // An account that may not install anything gets an error before anything is done.
    let remembered_in = match release() {
        Release::Mysql97 => "mysql.component",
        Release::Mysql80 => "mysql.plugin",
    };
    conn.query_drop("CREATE USER poor@localhost").expect("a user");
    conn.query_drop("GRANT ALL ON tacho_bench.* TO poor@localhost").expect("a grant");
    let poor = ["--socket", &socket, "--user", "poor", "--method", "tacho", "--pairs", "1"];
    let output = run(benched::bench(&directory, &poor));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("INSERT and DELETE on {remembered_in}")), "{said}");
    conn.query_drop("DROP USER poor@localhost").expect("dropping the user");
    assert_eq!(differences(&before, &state(&mut conn)), [""; 0]);

    // Killed in the middle, it leaves notes for the next one.
    let others = "SELECT PROCESSLIST_ID FROM performance_schema.threads \
                  WHERE PROCESSLIST_USER = 'root' AND PROCESSLIST_ID <> CONNECTION_ID()";
    benched::kill_in_the_middle(by_socket("9999"), &directory, &mut conn, others);
    assert_ne!(differences(&before, &state(&mut conn)), [""; 0]);
    let restore = ["--socket", &socket, "--user", "root", "--restore"];
    let output = run(benched::bench(&directory, &restore));
    assert_eq!(text(&output.stdout), "Restored the server.\n", "{}", text(&output.stderr));
    assert_eq!(differences(&before, &state(&mut conn)), [""; 0]);
    fs::remove_dir_all(directory).expect("removing the directory");
}
