//! Zone: outside. `tacho bench` on real servers: its output, what it restores, what it displays. No
//! test can verify on a busy machine that it measures *well*.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tacho_tests::benched::{
    self, BLOCK_OF_ROUNDS, State, counted, differences, directory, lines, of_type, run, text,
    wait_for_blocks,
};
use tacho_tests::client::{Conn, Queryable};
use tacho_tests::program;
use tacho_tests::server::{self, TestServer};

/// As [`benched::bench`], with the server that the tests are about.
fn bench(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = benched::bench(directory, arguments);
    // A user's server is used as it is.
    if !arguments.iter().any(|argument| matches!(*argument, "--socket" | "--host")) {
        on_release(&mut command);
    }
    command
}

/// The server that the tests are about.
pub fn on_release(command: &mut Command) {
    if let Some(folder) = server::folder() {
        command.arg("--server-directory").arg(folder).arg("--plugin").arg(server::plugin());
    }
}

fn state(conn: &mut Conn) -> State {
    benched::state(
        conn,
        "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.GLOBAL_VARIABLES \
         WHERE VARIABLE_NAME NOT IN ('GTID_BINLOG_POS', 'GTID_BINLOG_STATE', 'GTID_CURRENT_POS')",
        "SELECT CONCAT('plugin ', PLUGIN_NAME) FROM information_schema.PLUGINS \
         UNION ALL SELECT CONCAT('schema ', SCHEMA_NAME) FROM information_schema.SCHEMATA \
         UNION ALL SELECT CONCAT('installed ', name) FROM mysql.plugin \
         UNION ALL SELECT CONCAT('user ', User) FROM mysql.user",
    )
}

#[test]
fn a_private_server_is_measured_and_removed() {
    let directory = directory("private");
    let methods = "tacho,general_log,server_audit";
    let output = run(bench(&directory, &["--method", methods, "--pairs", "2"]));
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{said}");

    let lines = lines(&directory);
    assert_eq!(lines[0]["type"], "run");
    assert_eq!((&lines[0]["v"], &lines[0]["server"]["private"]), (&1.into(), &true.into()));
    assert_eq!(lines.last().expect("an end")["type"], "end");
    let blocks = of_type(&lines, "block");
    // Under one load: A/A, tacho, general_log. With restarts: A/A, server_audit. Two workloads.
    assert_eq!(blocks.len(), 2 * (3 + 2) * 2 * 2);
    for block in &blocks {
        assert!(block["qps"].as_f64().expect("a number") > 0.0, "{block}");
        assert!(block["events"].as_u64().expect("a number") > 0, "{block}");
        let latency = |name: &str| block["latency"][name].as_f64().expect("a number");
        assert!(0.0 < latency("p50_us") && latency("p50_us") <= latency("p999_us"), "{block}");
        let cpu = |name: &str| block["cpu"][name].as_f64().expect("a number");
        assert!(cpu("total_s") > 0.0 && cpu("query_s") > 0.0, "{block}");
        let parts = cpu("query_s") + cpu("writer_s") + cpu("rest_s");
        assert!((parts - cpu("total_s")).abs() < 0.05 * cpu("total_s") + 0.01, "{block}");
    }
    // Neighbours: one with the method, one without, alternately first.
    for pair in blocks.chunks(2) {
        let names: Vec<&str> = pair.iter().filter_map(|b| b["method"].as_str()).collect();
        assert!(names.contains(&"none"), "{names:?}");
        assert_eq!(pair[0]["compared"], pair[1]["compared"]);
        let first = if pair[0]["pair"] == 1 { 0 } else { 1 };
        assert_eq!(names[first], "none", "{names:?}");
        assert_eq!(pair[1 - first]["method"], pair[0]["compared"]);
    }
    // A method writes while it is on, and not while it is off.
    for block in &blocks {
        let queries = block["queries"].as_u64().expect("a number");
        let bytes = block["log_bytes"].as_u64();
        match block["method"].as_str().expect("a name") {
            "none" | "none-again" => assert_eq!(bytes, None, "{block}"),
            "general_log" | "server_audit" => {
                assert!(bytes.expect("a size") > queries * 20, "{block}");
            }
            "tacho" => {
                // How far the writer gets within the block depends on the machine's other work.
                let records = block["records_written"].as_u64().expect("a number");
                assert!(records > 0, "{block}");
                assert!(block["bytes_written"].as_u64().expect("a number") > records * 50);
            }
            other => panic!("{other}"),
        }
    }
    let results = of_type(&lines, "result");
    assert_eq!(results.len(), 2 * (3 + 2));
    for result in results {
        let qps = &result["figures"]["qps"];
        let figure = |name: &str| qps[name].as_f64().expect("a number");
        assert!(figure("low") <= figure("ratio") && figure("ratio") <= figure("high"), "{qps}");
        assert!(figure("floor_low") <= figure("floor_high"), "{qps}");
    }
    assert!(told.contains("server_audit") && told.contains("oltp_read_write"), "{told}");
    benched::assert_results_alone(&directory);
    fs::remove_dir_all(directory).expect("removing the directory");
}

#[test]
fn every_variant_of_tacho_can_be_measured() {
    const VARIANTS: [&str; 7] = [
        "tacho:timeout",
        "tacho:drop",
        "tacho:off",
        "tacho:group",
        "tacho:sync",
        "tacho:no-digest",
        "tacho:external",
    ];
    let directory = directory("variants");
    let mut arguments = vec!["--pairs", "1", "--workload", "oltp_point_select"];
    arguments.extend(VARIANTS.iter().flat_map(|name| ["--method", name]));
    let mut command = benched::bench_with_blocks(&directory, BLOCK_OF_ROUNDS, &arguments);
    on_release(&mut command);
    let output = run(command);
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{said}");
    let lines = lines(&directory);
    for name in VARIANTS {
        let blocks = of_type(&lines, "block");
        let mut on = blocks.iter().filter(|block| block["method"] == name).peekable();
        assert!(on.peek().is_some(), "{name}: {told}{said}");
        for block in on {
            let written = block["records_written"].as_u64().expect("a number");
            // Switching off writes a line.
            assert_eq!(written < 10, name == "tacho:off", "{block}");
        }
    }
    fs::remove_dir_all(directory).expect("removing the directory");
}

#[test]
#[ignore = "minutes: make test-all"]
fn instructions_are_counted() {
    let directory = directory("instructions");
    let mut command = benched::instructions(&directory);
    on_release(&mut command);
    let output = run(command);
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{said}");
    let lines = lines(&directory);
    let of = |method: &str, part: &str| counted(&lines, method, part);
    // A point select takes tens of thousands; recording it some thousands more, here and in the
    // writer, independently of the machine's load.
    assert!(of("none", "query") > 20_000, "{told}");
    assert_eq!(of("none", "writer"), 0, "{told}");
    let added = of("tacho", "query") - of("none", "query");
    assert!((1_000..10_000).contains(&added), "{told}");
    assert!(of("tacho", "writer") > 1_000, "{told}");
    // Each is a difference, so their sum may be off by some instructions.
    let parts = of("tacho", "query") + of("tacho", "writer");
    assert!(of("tacho", "process") > parts * 99 / 100, "{told}");
    assert!(told.contains("instructions per point select"), "{told}");
    fs::remove_dir_all(directory).expect("removing the directory");
}

/// Methods that change many variables, install plugins, and need new connections.
const METHODS: &str = "tacho,general_log,slow_log";

#[test]
fn an_own_server_is_as_before() {
    let directory = directory("own");
    let server = TestServer::builder()
        // Values that are not the defaults, of every type.
        .option("log-output=TABLE")
        .option("general-log-file=mine.log")
        .option("long-query-time=3.25")
        .option("slow-query-log-file=it's mine.log")
        // The audit log stays, and its directory is not a schema.
        .option("ignore-db-dirs=tacho")
        .start()
        .expect("a server");
    let mut conn = server.connect().expect("a session");
    let before = state(&mut conn);
    let socket = server.socket().display().to_string();
    let arguments = ["--socket", &socket, "--user", "root", "--method", METHODS, "--pairs", "1"];
    let output = run(bench(&directory, &arguments));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(differences(&before, &state(&mut conn)), [""; 0]);
    let lines = lines(&directory);
    assert_eq!(lines[0]["server"]["private"], false);
    assert_eq!(lines[0]["server"]["local"], true);
    assert_eq!(of_type(&lines, "block").len(), 2 * 4 * 2);
    // Files with our own names are removed; the owner decides about the audit log.
    let mut names = Vec::new();
    for entry in fs::read_dir(server.data_directory()).expect("the data directory") {
        names.push(entry.expect("an entry").file_name().to_string_lossy().into_owned());
    }
    assert!(names.iter().all(|name| !name.contains("tacho_bench")), "{names:?}");
    assert!(said.contains("left behind: ") && said.contains("/tacho/audit-"), "{said}");

    benched::run_over_tcp(&mut conn, &directory, server.port());
    assert_eq!(differences(&before, &state(&mut conn)), [""; 0]);

    // The same is refused where it must be.
    conn.query_drop("CREATE DATABASE tacho_bench").expect("a schema");
    conn.query_drop("CREATE TABLE tacho_bench.precious (id INT)").expect("a table");
    let output = run(bench(&directory, &arguments));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("of another owner"), "{}", text(&output.stderr));
    conn.query_drop("DROP DATABASE tacho_bench").expect("dropping it");

    conn.query_drop("SET GLOBAL general_log = ON").expect("a log");
    let output = run(bench(&directory, &arguments));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--switch-off-audit"), "{}", text(&output.stderr));
    conn.query_drop("SET GLOBAL general_log = OFF").expect("no log");

    conn.query_drop("CREATE USER poor@localhost").expect("a user");
    conn.query_drop("GRANT ALL ON tacho_bench.* TO poor@localhost").expect("a grant");
    let mut poor = arguments;
    poor[3] = "poor";
    let output = run(bench(&directory, &poor));
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("poor@localhost cannot install plugins"), "{said}");
    poor[5] = "general_log";
    let output = run(bench(&directory, &poor));
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("cannot change"), "{said}");
    conn.query_drop("DROP USER poor@localhost").expect("dropping the user");
    assert_eq!(differences(&before, &state(&mut conn)), [""; 0]);
    fs::remove_dir_all(directory).expect("removing the directory");
}

#[test]
fn a_bench_that_fails_leaves_earlier_results_alone() {
    let directory = directory("earlier");
    let results = ["out.jsonl", "out.html"].map(|name| directory.join(name));
    for path in &results {
        fs::write(path, "of an earlier run\n").expect("writes");
    }
    let mut command = Command::new(program("tacho"));
    command.args(["bench", "--quick", "--directory", "/nonexistent/directory", "--output"]);
    command.arg(directory.join("out"));
    let output = run(command);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    for path in &results {
        assert_eq!(fs::read_to_string(path).expect("reads"), "of an earlier run\n");
    }
    // Nothing was measured, so there is nothing to keep.
    benched::assert_results_alone(&directory);
    fs::remove_dir_all(directory).expect("removing the directory");
}

#[test]
fn an_interrupted_bench_puts_everything_back() {
    let directory = directory("interrupted");
    let server = TestServer::builder().option("ignore-db-dirs=tacho").start().expect("a server");
    let mut conn = server.connect().expect("a session");
    let before = state(&mut conn);
    let socket = server.socket().display().to_string();
    // Without a time limit.
    let arguments = ["--socket", &socket, "--user", "root", "--method", METHODS, "--pairs", "9999"];
    for signal in [Signal::INT, Signal::TERM] {
        let mut child =
            bench(&directory, &arguments).stderr(Stdio::piped()).spawn().expect("tacho");
        wait_for_blocks(&directory, 5, &mut child);
        kill_process(Pid::from_child(&child), signal).expect("a signal");
        let output = child.wait_with_output().expect("an end");
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        assert_eq!(differences(&before, &state(&mut conn)), [""; 0]);
        assert!(text(&output.stderr).contains("incomplete"), "{}", text(&output.stderr));
        fs::remove_file(directory.join("out.partial.jsonl")).expect("the lines so far");
    }

    // The one signal that cannot be caught: the notes in the schema are for the next one.
    let others = "SELECT ID FROM information_schema.PROCESSLIST \
                  WHERE USER = 'root' AND ID <> CONNECTION_ID()";
    benched::kill_in_the_middle(bench(&directory, &arguments), &directory, &mut conn, others);
    assert_ne!(differences(&before, &state(&mut conn)), [""; 0]);
    let restore = ["--socket", &socket, "--user", "root", "--restore"];
    let output = run(bench(&directory, &restore));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "Restored the server.\n");
    assert_eq!(differences(&before, &state(&mut conn)), [""; 0]);
    let output = run(bench(&directory, &restore));
    assert_eq!(text(&output.stdout), "Nothing to restore.\n");
    fs::remove_dir_all(directory).expect("removing the directory");
}

#[test]
fn every_workload_runs() {
    let directory = directory("workloads");
    let workloads = "oltp_read_only,oltp_write_only,connect,statement_1k,statement_8k";
    let output = run(bench(
        &directory,
        &["--method", "general_log", "--pairs", "1", "--workload", workloads, "--rate", "0,200"],
    ));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = lines(&directory);
    let blocks = of_type(&lines, "block");
    assert_eq!(blocks.len(), 5 * 2 * 2 * 2);
    let with = |workload: &str, method: &str| -> Vec<&&Value> {
        let is = |b: &&&Value| b["workload"] == workload && b["method"] == method;
        blocks.iter().filter(is).collect()
    };
    // The text itself is in the log. Far less is asked for than there is: log and queries are
    // not counted in the same instant, and a busy machine may do anything in between.
    for (workload, bytes) in [("statement_1k", 1 << 10), ("statement_8k", 8 << 10)] {
        for block in with(workload, "general_log") {
            let per_query =
                block["log_bytes"].as_f64().unwrap() / block["queries"].as_f64().unwrap();
            assert!(per_query > f64::from(bytes) * 0.25, "{block}");
        }
    }
    // A connection for each event: the log has two more lines for each.
    for block in with("connect", "general_log") {
        let events = block["events"].as_u64().expect("a number");
        assert!(block["log_bytes"].as_u64().expect("a number") > events * 100, "{block}");
    }
    // With a fixed rate, no more than have arrived since the beginning, whatever the server's
    // capacity. One block may have more: those that a busy machine had delayed. Arrivals are
    // random; six times their deviation is a wide margin.
    let mut events = 0.0;
    for block in blocks.iter().filter(|block| !block["rate"].is_null()) {
        let number = |name: &str| block[name].as_f64().expect("a number");
        events += number("events");
        let wanted = 200.0 * (number("at_s") + number("seconds"));
        assert!(events <= wanted + 6.0 * wanted.sqrt(), "{events} events: {block}");
    }

    // And a user's load, of which only the server's counters are known.
    let command =
        "while mariadb --no-defaults --user=\"$TACHO_BENCH_USER\" -e 'SELECT 1'; do :; done";
    let output = run(bench(
        &directory,
        &["--method", "general_log,tacho", "--pairs", "1", "--command", command],
    ));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = self::lines(&directory);
    for block in of_type(&lines, "block") {
        assert!(block["queries"].as_u64().expect("a number") > 0, "{block}");
        assert!(block["latency"].is_null() && block["tps"].is_null(), "{block}");
    }
    fs::remove_dir_all(directory).expect("removing the directory");
}

/// The report of a small run in a browser: it must draw, and complain about nothing.
#[test]
fn the_report_opens_in_a_browser() {
    let directory = directory("report");
    let methods = ["--method", "tacho,general_log", "--workload", "oltp_point_select"];
    // Fewer pairs have no answer.
    let output = run(bench(&directory, &[&methods[..], &["--pairs", "5"]].concat()));
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}{}", text(&output.stderr));
    assert!(told.contains("oltp_point_select, 4 connections:\n  Tachograph "), "{told}");
    for scheme in ["light", "dark"] {
        let page = browse(&directory, scheme);
        for wanted in [
            "What auditing costs",
            "oltp_point_select, 4 connections",
            "Tachograph",
            "general log, file",
            "Throughput",
            "Processor time",
            "Figures",
            "Where the processor time goes",
            "latencies, and blocks over time",
            "How it was measured",
        ] {
            assert!(page.contains(wanted), "{scheme}: no {wanted:?} in the page");
        }
        // Two methods, by throughput and processor time. Curves are drawn when they are opened.
        assert_eq!(page.matches("class=\"dot\"").count(), 4, "{scheme}");
        assert!(!page.contains("<canvas") && !page.contains("did not finish"), "{scheme}");
        let picture = directory.join(format!("{scheme}.png"));
        assert!(fs::metadata(&picture).expect("a picture").len() > 20_000);
    }
    fs::remove_dir_all(directory).expect("removing the directory");
}

/// The same figures and exit code from the lines alone, or those of another limit of noise.
#[test]
fn results_are_read_again() {
    let directory = directory("again");
    let methods = ["--method", "general_log", "--workload", "oltp_point_select", "--pairs", "5"];
    let output = run(bench(&directory, &methods));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let again = |lines: &Path, arguments: &[&str]| {
        let mut command = Command::new(program("tacho"));
        command.args(["bench", "--results"]).arg(lines).args(arguments);
        command.arg("--output").arg(directory.join("out"));
        run(command)
    };
    let written = directory.join("out.jsonl");
    let same = again(&written, &[]);
    assert_eq!(text(&same.stdout), text(&output.stdout));
    assert_eq!(same.status.code(), Some(0));

    let strict = again(&written, &["--noise-max", "0.000001"]);
    let told = text(&strict.stdout);
    assert_eq!(strict.status.code(), Some(3), "{told}");
    assert!(told.contains("Too noisy to say what “General log, file” costs here."), "{told}");
    let page = browse(&directory, "light");
    assert!(page.contains("too noisy to say") && !page.contains("class=\"dot\""));

    // Of a run that was interrupted.
    let lines = fs::read_to_string(&written).expect("lines");
    let half: String = lines.lines().take(8).map(|line| format!("{line}\n")).collect();
    let part = directory.join("half.jsonl");
    fs::write(&part, half).expect("a file");
    let output = again(&part, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = browse(&directory, "light");
    assert!(page.contains("did not finish") && page.contains("Too few blocks to say"));

    let output = again(&part, &["--noise-max", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--noise-max must be more than 0"));
    fs::remove_dir_all(directory).expect("removing the directory");
}

/// Opens `out.html`, takes a picture, and returns the displayed page as HTML.
fn browse(directory: &Path, scheme: &str) -> String {
    let page = directory.join("out.html");
    let chromium = |arguments: &[String]| {
        let output = Command::new("chromium")
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--disable-background-networking", "--window-size=1180,4000"])
            // The page draws when its scripts have run, however long that takes.
            .args(["--virtual-time-budget=10000", "--enable-logging=stderr"])
            .arg(format!("--user-data-dir={}", directory.join("profile").display()))
            .args((scheme == "dark").then_some("--blink-settings=preferredColorScheme=0"))
            .args(arguments)
            .arg(format!("file://{}", page.display()))
            .stdin(Stdio::null())
            .output()
            .expect("chromium (scripts/setup.sh test)");
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        let complaints: Vec<&str> = said.lines().filter(|line| line.contains(":CONSOLE")).collect();
        assert_eq!(complaints, [""; 0]);
        text(&output.stdout)
    };
    let picture = directory.join(format!("{scheme}.png"));
    chromium(&[format!("--screenshot={}", picture.display())]);
    let page = chromium(&["--dump-dom".to_owned()]);
    // The displayed text, without the scripts, which contain all these words.
    page.split_once("<script").expect("the data").0.to_owned()
}

#[test]
fn wrong_usage_and_broken_methods_are_reported() {
    let directory = directory("wrong");
    let broken = directory.join("broken.toml");
    let method = "name = \"broken\"\ntitle = \"Broken\"\nswitch = \"live\"\n";
    fs::write(&broken, format!("{method}on = [\"SET GLOBAL no_such_variable = 1\"]\n"))
        .expect("a file");
    let file = broken.display().to_string();
    for (arguments, code, complaint) in [
        (vec!["--method", "nosuch"], 2, "unknown method \"nosuch\""),
        (vec!["--workload", "nosuch"], 2, "unknown workload \"nosuch\""),
        (vec!["--restore"], 2, "--restore needs"),
        (vec!["--side-by-side", "--baseline", "nosuch"], 2, "unknown method \"nosuch\""),
        (vec!["--side-by-side", "--interval-max", "0"], 2, "--interval-max must be more than 0"),
        (vec!["--side-by-side", "--socket", "/nosuch"], 2, "cannot be used with"),
        (vec!["--max-time", "1m"], 2, "--side-by-side"),
        (vec!["--user", "root"], 2, "--user needs a server"),
        (vec!["--socket", "/nosuch", "--user", "root"], 1, "cannot connect to /nosuch"),
        (vec!["--method-file", &file, "--method", "broken"], 1, "no_such_variable"),
        (vec!["--method", "server_audit:buffered"], 1, "has no variable server_audit_file_buffer"),
    ] {
        let output = run(bench(&directory, &arguments));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(complaint), "{arguments:?}: {said}");
    }
    // A method that was not requested by name is omitted, and the report says so.
    let arguments = ["--method-file", &file, "--quick", "--pairs", "1"];
    let output = run(bench(&directory, &arguments));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = lines(&directory);
    let notes = lines[0]["notes"].as_array().expect("notes");
    assert!(notes.iter().any(|note| note.as_str().unwrap().contains("broken left out")));
    fs::remove_dir_all(directory).expect("removing the directory");
}
