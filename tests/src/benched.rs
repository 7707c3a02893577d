//! `tacho bench` as a command, the lines that it writes, and whether a server is as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::client::{Conn, Queryable as _};
use crate::{build_directory, wait};

/// A place for the results of a test.
///
/// # Panics
/// It cannot be made.
pub fn directory(name: &str) -> PathBuf {
    let path = build_directory().join(format!("test/bench-{name}-{}", std::process::id()));
    fs::create_dir_all(&path).expect("a directory");
    path
}

/// The command, with results below `directory` and short blocks.
pub fn bench(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(build_directory().join("bin/tacho"));
    command
        .arg("bench")
        .arg("--directory")
        .arg(directory)
        .arg("--out")
        .arg(directory.join("out"))
        .args(["--threads", "4", "--rows", "100", "--tables", "1"])
        .args(["--block", "0.2", "--guard", "0.05", "--warm-up", "0.1"])
        // Noise is what a test machine has.
        .args(["--noise-max", "1000000"])
        .args(arguments)
        .env_remove("MYSQL_PWD")
        .stdin(Stdio::null());
    command
}

/// # Panics
/// The command is not built.
pub fn run(mut command: Command) -> Output {
    command.output().expect("tacho (make build)")
}

/// What a program said.
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

/// Everything that could have been changed, and is not a figure of the moment.
pub type State = BTreeMap<String, String>;

/// What a query for names and values, and one for names alone, say.
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

/// What is not as it was, one text for each.
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
    let path = directory.join("out.jsonl");
    wait::until("the first blocks", || {
        assert!(child.try_wait().expect("a child").is_none(), "the bench has ended by itself");
        let text = fs::read_to_string(&path).unwrap_or_default();
        text.lines().filter(|line| line.contains("\"type\":\"block\"")).count() >= count
    });
}
