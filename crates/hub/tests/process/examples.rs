//! The examples of `docs/specs/api.md`, run by a shell against a hub, and their answers against the
//! description that the hub gives of itself.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::hub::{HUB, Hub, Shipping};
use crate::recorder::sealed;
use crate::search::{Sender, get, sql};
use crate::shipping::Log;

const PAGE: &str = include_str!("../../../../docs/specs/api.md");

/// Before each example: every `curl` says the status of its answer beside it. It may fail to write
/// what nothing reads any more.
const SHELL: &str = "set -e\ncurl() {\n    command curl -sS \
    -w '%{stderr}\\n--%{http_code} %{content_type}\\n' \"$@\" || test $? = 23\n}\n";
/// Its answer does not end; this is its last event that the test waits for.
const LIVE_VIEW: (&str, &str) = ("/api/v1/tail", "event: lag\ndata: {");

/// A method and path, and the shell commands below its heading.
struct Example {
    method: String,
    path: String,
    script: String,
}

fn examples() -> Vec<Example> {
    let mut found = Vec::new();
    let mut heading = None;
    let mut rest = PAGE;
    while let Some((line, after)) = rest.split_once('\n') {
        rest = after;
        if let Some(text) = line.strip_prefix("### `") {
            let (method, path) = text.trim_end_matches('`').split_once(' ').unwrap();
            heading = Some((method.to_lowercase(), path.to_owned()));
        } else if line == "```sh" {
            let (script, after) = rest.split_once("\n```\n").unwrap();
            rest = after;
            if let Some((method, path)) = heading.clone().filter(|_| script.contains("curl")) {
                found.push(Example { method, path, script: script.to_owned() });
            }
        }
    }
    found
}

/// Runs a script; returns body, status and type of the last answer.
fn run(hub: &Hub, directory: &Path, example: &Example) -> (String, String, String) {
    let auth = "AUTH=\"Authorization: Bearer $(cat auditor.token)\"\n\
        AGENT=\"Authorization: Bearer $(cat db3.token)\"\n\
        INSTANCE='Tacho-Instance: 00112233445566778899aabbccddeeff'\n";
    // A variable gets the body alone.
    let script = example.script.replace("=$(curl ", "=$(command curl -sS ");
    let mut shell = Command::new("sh")
        .current_dir(directory)
        .env("HUB", format!("http://{}", hub.address))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = format!("{SHELL}{auth}{script}\n");
    shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let body = answer(shell.stdout.take().unwrap(), &example.path);
    let output = shell.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{}: {said}", example.script);
    let (_, last) = said.rsplit_once("\n--").unwrap_or_else(|| panic!("{said}"));
    let last = last.lines().next().unwrap_or_default();
    let (status, kind) = last.split_once(' ').unwrap_or((last, ""));
    let kind = kind.split(';').next().unwrap_or_default();
    (body, status.to_owned(), kind.to_owned())
}

/// What a shell prints, to its end, or as much of it as is needed.
fn answer(stdout: ChildStdout, path: &str) -> String {
    let (mut body, mut stdout) = (String::new(), BufReader::new(stdout));
    while stdout.read_line(&mut body).unwrap() > 0 {
        if path == LIVE_VIEW.0 && body.contains(LIVE_VIEW.1) {
            break;
        }
    }
    body
}

fn check(document: &Value, example: &Example, (body, status, kind): &(String, String, String)) {
    let Example { method, path, script } = example;
    let operation = &document["paths"][path.as_str()][method.as_str()];
    assert!(operation.is_object(), "{method} {path} is not described");
    assert!(status.starts_with('2'), "{script}\n{status} {body}");
    let response = &operation["responses"][status.as_str()];
    assert!(response.is_object(), "{method} {path}: status {status} is not described");
    let Some(content) = response.get("content") else {
        assert!(body.is_empty(), "{method} {path}: {body}");
        return;
    };
    let mut schema = content[kind.as_str()]["schema"].clone();
    assert!(schema.is_object(), "{method} {path}: type {kind} is not described");
    schema["components"] = document["components"].clone();
    let value = match kind.as_str() {
        "application/json" => serde_json::from_str(body).unwrap(),
        _ => Value::String(body.clone()),
    };
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{method} {path}: {errors:#?}\n{body}");
}

fn account(hub: &Hub, name: &str, password: &str) {
    let mut child = Command::new(HUB)
        .args(["account", "create", "--role", "auditor", name, "--data"])
        .arg(hub.data.path())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn every_request_has_an_example_that_works_and_answers_are_as_described() {
    let hub = Hub::start();
    let auditor = hub.token(&["--role", "auditor"]);
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    file("auditor.token", &auditor);
    file("admin.token", &hub.token(&["--role", "admin"]));
    file("db3.token", &hub.token(&["--role", "agent", "--server", "db3"]));
    account(&hub, "ann", "correct horse battery\n");
    // A sealed log, whose shipper ends in order, which is an alert; and one of statements.
    let log = Log::new(sealed());
    Shipping::start(&hub, log.path(), "db1", true).finish();
    Sender::new(&hub, "db2").send(&hub);
    let is_ready = || {
        let found = "SELECT count(*) FROM records \
            WHERE server = 'db2' OR server = 'db1' AND seq = 7";
        let (alerts, servers) = ("/api/v1/alerts?state=open", "/api/v1/servers");
        sql(&hub, &auditor, found)[0][0] == 41
            && get(&hub, alerts, &auditor).1[0].is_object()
            && get(&hub, servers, &auditor).1[0]["verified_to_seq"].is_number()
    };
    while !is_ready() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let (_, document) = get(&hub, "/api/v1/openapi.json", "");
    let mut missing: BTreeSet<(String, String)> = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().keys();
        missing.extend(methods.map(|method| (method.clone(), path.clone())));
    }
    for example in examples() {
        let answer = run(&hub, directory.path(), &example);
        check(&document, &example, &answer);
        let (body, ..) = answer;
        match example.path.as_str() {
            path if path == LIVE_VIEW.0 => assert!(body.contains(LIVE_VIEW.1), "{body}"),
            "/api/v1/records" => assert!(body.contains(r#""user":"app1""#), "{body}"),
            "/api/v1/records/{server}/{seq}" => {
                let answer: Value = serde_json::from_str(&body).unwrap();
                assert_eq!(answer["proof"]["state"], "sealed", "{body}");
            }
            _ => {}
        }
        missing.remove(&(example.method, example.path));
    }
    assert_eq!(missing, BTreeSet::new(), "requests without an example in docs/specs/api.md");
}
