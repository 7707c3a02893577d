//! `tacho bench` as a command, the lines that it writes, and whether a server is as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::client::{Conn, Queryable as _};
use crate::{program, wait};

/// Long enough for several rounds of tacho's writer, whose results appear in a status variable some
/// time later: for tests of what a method has written in a block.
pub const BLOCK_OF_ROUNDS: &str = "1s";

/// A directory for the results of a test.
///
/// # Panics
/// It cannot be made.
pub fn directory(name: &str) -> PathBuf {
    let path = crate::unused_directory(&format!("bench-{name}"));
    fs::create_dir_all(&path).expect("a directory");
    path
}

/// The command, with results below `directory` and short blocks.
pub fn bench(directory: &Path, arguments: &[&str]) -> Command {
    bench_with_blocks(directory, "200ms", arguments)
}

/// The same with blocks of this length.
pub fn bench_with_blocks(directory: &Path, block: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program("tacho"));
    command
        .arg("bench")
        .arg("--directory")
        .arg(directory)
        .arg("--output")
        .arg(directory.join("out"))
        .args(["--threads", "4", "--rows", "100", "--tables", "1"])
        .args(["--block", block, "--guard", "50ms", "--warm-up", "100ms"])
        // Test machines are noisy.
        .args(["--noise-max", "1000000"])
        .args(arguments)
        .env_remove("MYSQL_PWD")
        .stdin(Stdio::null());
    command
}

/// The command that counts instructions: without the options of a load, because it has its own.
pub fn instructions(directory: &Path) -> Command {
    let mut command = Command::new(program("tacho"));
    command
        .args(["bench", "--instructions", "--method", "tacho", "--directory"])
        .arg(directory)
        .arg("--output")
        .arg(directory.join("out"))
        .stdin(Stdio::null());
    command
}

/// The instructions of a method in one of its parts.
///
/// # Panics
/// There is no such line.
pub fn counted(lines: &[Value], method: &str, part: &str) -> i64 {
    let of_method =
        of_type(lines, "instructions").into_iter().find(|line| line["method"] == method);
    let line = of_method.unwrap_or_else(|| panic!("no {method}: {lines:?}"));
    line[part].as_i64().expect("a number")
}

/// # Panics
/// The command is not built.
pub fn run(mut command: Command) -> Output {
    command.output().expect("tacho (make build)")
}

/// The output of a program.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The result lines.
///
/// # Panics
/// There are none, or they are no JSON.
pub fn lines(directory: &Path) -> Vec<Value> {
    let file = fs::read_to_string(directory.join("out.jsonl")).expect("result lines");
    file.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Those of one type.
pub fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

/// Everything that could have been changed, and is not a current figure.
pub type State = BTreeMap<String, String>;

/// The result of a query for names and values, and of one for names alone.
///
/// # Panics
/// The server refuses.
pub fn state(conn: &mut Conn, variables: &str, names: &str) -> State {
    let variables: Vec<(String, Option<String>)> = conn.query(variables).expect("variables");
    let mut state: State =
        variables.into_iter().map(|(name, value)| (name, value.unwrap_or_default())).collect();
    let names: Vec<String> = conn.query(names).expect("names");
    state.extend(names.into_iter().map(|name| (name, String::new())));
    state
}

/// The differences, one text for each.
pub fn differences(before: &State, after: &State) -> Vec<String> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| format!("{name}: {:?} became {:?}", before.get(name), after.get(name)))
        .collect()
}

/// # Panics
/// The bench ends before.
pub fn wait_for_blocks(directory: &Path, count: usize, child: &mut Child) {
    let path = directory.join("out.partial.jsonl");
    wait::until("the first blocks", || {
        assert!(child.try_wait().expect("a child").is_none(), "the bench has ended early");
        let text = fs::read_to_string(&path).unwrap_or_default();
        text.lines().filter(|line| line.contains("\"type\":\"block\"")).count() >= count
    });
}

/// # Panics
/// Something else than the results is left in the directory.
pub fn assert_results_alone(directory: &Path) {
    let mut left: Vec<String> = fs::read_dir(directory)
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    left.sort();
    assert_eq!(left, ["out.html", "out.jsonl"]);
}

/// Runs the general log over TCP, as a user with a password that is in a file.
///
/// # Panics
/// It fails.
pub fn run_over_tcp(conn: &mut Conn, directory: &Path, port: u16) {
    conn.query_drop("CREATE USER rich IDENTIFIED BY 'p#ss=\"w'").expect("a user");
    conn.query_drop("GRANT ALL ON *.* TO rich").expect("a grant");
    let file = directory.join("password");
    fs::write(&file, "p#ss=\"w\n").expect("a file");
    let (file, port) = (file.display().to_string(), port.to_string());
    let mut by_tcp = vec!["--host", "127.0.0.1", "--port", &port, "--user", "rich"];
    by_tcp.extend(["--password-file", &file, "--method", "general_log", "--pairs", "1"]);
    let output = run(bench(directory, &by_tcp));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(lines(directory)[0]["server"]["local"], true);
    conn.query_drop("DROP USER rich").expect("dropping the user");
}

/// Kills a bench in the middle of its blocks, before it would end, and waits until its connections
/// are closed: `others` is a query for the connections besides ours.
///
/// # Panics
/// It ends before, or its connections stay.
pub fn kill_in_the_middle(mut command: Command, directory: &Path, conn: &mut Conn, others: &str) {
    let mut child = command.stderr(Stdio::piped()).spawn().expect("tacho");
    wait_for_blocks(directory, 5, &mut child);
    kill_process(Pid::from_child(&child), Signal::KILL).expect("a signal");
    child.wait().expect("an end");
    // Its load has ended with it; its lock ends with its connection.
    wait::until("the end of its connections", || {
        let others: Vec<u64> = conn.query(others).expect("the connections");
        others.is_empty()
    });
}
