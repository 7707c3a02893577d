//! Zone: outside. Clients of several languages, each with its own implementation of the protocol:
//! what the server records of them and what is captured is the same.
//!
//! `scripts/setup-clients.sh` fetches them, and `tests/clients` has a load for each.

use std::process::{Command, Output};

use serde_json::Value;
use tacho_tests::captured::{Capture, Sessions, assert_same, sessions, wait_for_ends};
use tacho_tests::client::{Address, Login, Queryable as _};
use tacho_tests::recording::Recording;
use tacho_tests::{leave_out, namespace, source_root, unused_directory};

/// All of them, and whether they have prepared statements.
const CLIENTS: [(&str, bool); 5] = [
    ("pymysql", false),
    ("mysql2", true),
    ("go", true),
    ("mysql-connector-j", true),
    ("mariadb-java-client", true),
];

/// Names of those that are there, with a comma between them, for the process in the namespace,
/// which reaches no registry.
const AVAILABLE: &str = "TACHO_TEST_CLIENTS";

/// The exit code of the script for a client that cannot be fetched.
const NOT_TO_BE_HAD: i32 = 3;

const PASSWORD: &str = "pass word";

fn set_up(name: &str) -> Output {
    let script = source_root().join("scripts/setup-clients.sh");
    Command::new(script).arg(name).output().expect("scripts/setup-clients.sh")
}

/// Fetches them; those that cannot be fetched are listed as left out.
fn available() -> String {
    let mut names = Vec::new();
    for (name, _) in CLIENTS {
        let Output { status, stderr, .. } = set_up(name);
        let said = String::from_utf8_lossy(&stderr);
        if status.success() {
            names.push(name);
        } else {
            assert_eq!(status.code(), Some(NOT_TO_BE_HAD), "{name}: {said}");
            let reason = said.lines().last().unwrap_or_default();
            leave_out(&format!("a capture with the client {name}: {reason}"));
        }
    }
    names.join(",")
}

/// Runs the load of a client: the script prints its command, a word in each line.
fn run(name: &str, port: u16) {
    let words = String::from_utf8(set_up(name).stdout).expect("text");
    let mut words = words.lines();
    let output = Command::new(words.next().expect("a program"))
        .args(words)
        .args(["127.0.0.1", &port.to_string(), name, PASSWORD])
        .output()
        .expect(name);
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&said));
}

/// The load has really arrived: it is no success if both logs lack it.
fn assert_recorded(captured: &Sessions, name: &str, prepares: bool) {
    let lines: Vec<&Value> = captured.values().flatten().filter(|it| it["user"] == name).collect();
    let count = |is: &dyn Fn(&Value) -> bool| lines.iter().filter(|line| is(line)).count();
    assert_eq!(count(&|it| it["event"] == "connect"), 1, "{name}");
    assert!(count(&|it| it["outcome"] == "error") > 0, "{name}: no error");
    let has = |it: &Value, text: &str| {
        it["sql"].as_str().is_some_and(|sql| sql.to_lowercase().contains(text))
    };
    for text in ["select 'text', 1", "rollback", "repeat('x', 20000000)", "nosuch"] {
        assert!(count(&|it| has(it, text)) > 0, "{name}: no {text}");
    }
    assert_eq!(count(&|it| it["command"] == "Execute") >= 4, prepares, "{name}");
}

#[test]
#[ignore = "fetches clients from their registries: make test-all"]
fn clients_of_other_languages_are_captured_as_they_are_recorded() {
    let test = "capture_clients::clients_of_other_languages_are_captured_as_they_are_recorded";
    let names = std::env::var(AVAILABLE).unwrap_or_default();
    let names = if namespace::is_inside() { names } else { available() };
    let consequence = "clients of other languages are not captured";
    if !namespace::enter_with(test, consequence, &[(AVAILABLE, &names)]) {
        return;
    }
    let builder = Recording::builder().option("max-allowed-packet=64M");
    let server = builder.start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop("CREATE DATABASE shop CHARACTER SET utf8mb4").expect("an answer");
    let clients = CLIENTS.into_iter().filter(|(name, _)| names.split(',').any(|it| it == *name));
    let clients: Vec<_> = clients.collect();
    for (name, _) in &clients {
        root.query_drop(format!("CREATE USER '{name}' IDENTIFIED BY '{PASSWORD}'")).expect(name);
        root.query_drop(format!("GRANT ALL ON shop.* TO '{name}'")).expect(name);
    }
    // Without its package for cryptography, it can log in to MySQL only if the server remembers the
    // password.
    let login = Login {
        address: Address::Socket(server.socket().to_owned()),
        user: "pymysql".to_owned(),
        password: PASSWORD.to_owned(),
    };
    if clients.iter().any(|(name, _)| *name == login.user) {
        login.connect().expect("a login");
    }
    let directory = unused_directory("capture-clients");
    let mut capture = Capture::start(server.port(), &directory).expect("a capture");
    for (name, _) in &clients {
        run(name, server.port());
    }
    drop(root);
    let plugin = server.log_directory();
    wait_for_ends(&plugin, capture.log(), clients.len());
    capture.stop().expect("its end");
    let captured = sessions(capture.log());
    for (name, prepares) in clients {
        assert_recorded(&captured, name, prepares);
    }
    assert_same(&sessions(&plugin), &captured);
    std::fs::remove_dir_all(&directory).expect("removing the log");
}
