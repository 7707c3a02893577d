//! The hub's own log: what people do is in it, before they have their answer.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;

use serde_json::{Value, json};
use tacho_chain::verify::{self, LogState};
use tacho_hub::database::{Database, DatabaseError};
use tacho_logdir::read::directory::RealDirectory;
use tacho_logdir::read::identities::Identities;

use crate::hub::{Hub, wait};
use crate::search::{get, request, request_to, sql};

const PASSWORD: &str = "correct horse battery";

/// All lines of the log, as they are in its files.
fn lines(directory: &Path) -> Vec<Value> {
    let mut names: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .collect();
    names.sort();
    let texts = names.iter().map(|path| fs::read_to_string(path).unwrap());
    let text: String = texts.collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What `tacho verify` finds.
fn verified(directory: &Path) -> LogState {
    let keys = vec![text(&lines(directory)[0], "signing_key").parse().unwrap()];
    let directory = RealDirectory::new(directory, Identities::default()).unwrap();
    let options = verify::Options { keys, ..Default::default() };
    verify::verify(&directory, &options, &mut |_| ()).unwrap().state()
}

/// Asks until there is an answer that is wanted.
fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    wait(|| ask().ok_or_else(|| format!("no {what}")))
}

/// Number of the last line of the log that the hub has copied.
fn landed(hub: &Hub, auditor: &str) -> Option<u64> {
    let (_, servers) = get(hub, "/api/v1/servers", auditor);
    let own = servers.as_array()?.iter().find(|it| it["server"] == "tacho-hub")?;
    own["landed_seq"].as_u64()
}

fn text<'a>(record: &'a Value, field: &str) -> &'a str {
    record[field].as_str().unwrap_or_default()
}

fn attribute<'a>(record: &'a Value, key: &str) -> &'a str {
    let all = record["attributes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.map_or("", |attribute| text(attribute, "value"))
}

/// Event, user, and what it is about.
fn summary(record: &Value) -> String {
    let about = [text(record, "command"), text(record, "variable")].concat();
    let words = [text(record, "event"), text(record, "user"), &about];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn sign_in(hub: &Hub, user: &str, password: &str) -> Option<(u16, String)> {
    sign_in_at(&hub.address, user, password)
}

fn sign_in_at(address: &str, user: &str, password: &str) -> Option<(u16, String)> {
    let body = json!({"user": user, "password": password}).to_string();
    request_to(address, "POST /api/v1/session", "", "User-Agent: test/1\r\n", body.as_bytes())
}

/// A session: the header fields of its requests.
fn session(hub: &Hub, user: &str) -> String {
    let mut stream = std::net::TcpStream::connect(&hub.address).unwrap();
    let body = json!({"user": user, "password": PASSWORD}).to_string();
    let head = format!(
        "POST /api/v1/session HTTP/1.1\r\nHost: x\r\nConnection: close\r\nUser-Agent: test/1\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    let lower = answer.to_lowercase();
    let at = lower.find("set-cookie: ").unwrap_or_else(|| panic!("{answer}"));
    let cookie = answer[at + 12..].split(';').next().unwrap().to_owned();
    let cookie = format!("Cookie: {cookie}\r\n");
    let (_, me) = with_session(hub, "GET /api/v1/me", &cookie, b"");
    let me: Value = serde_json::from_str(&me).unwrap();
    format!("{cookie}X-Tacho-Csrf: {}\r\n", text(&me, "csrf"))
}

fn with_session(hub: &Hub, head: &str, session: &str, body: &[u8]) -> (u16, String) {
    let mut stream = std::net::TcpStream::connect(&hub.address).unwrap();
    let head = format!(
        "{head} HTTP/1.0\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
         User-Agent: test/1\r\n{session}Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// An alert, as if the hub had found something.
fn raise_alert(hub: &Hub) {
    let database = Database::open(&hub.data.path().join("hub.sqlite")).unwrap();
    let insert = "INSERT INTO alert (id, rule, severity, state, server, subject, title, message,
        first_us, last_us, count, examples)
        VALUES (99, 'gap', 'high', 'open', 'db1', 'x', 't', 'm', 1, 1, 1, '[]')";
    let raise = |transaction: &rusqlite::Transaction<'_>| {
        Ok::<_, DatabaseError>(transaction.execute(insert, [])?)
    };
    database.write(raise).unwrap();
}

/// A day of an auditor.
fn work(hub: &Hub) {
    assert_eq!(sign_in(hub, "ann", "wrong horse battery").unwrap().0, 401);
    let ann = session(hub, "ann");
    let ask = |head: &str, body: &[u8]| with_session(hub, head, &ann, body);
    for _ in 0..3 {
        assert_eq!(ask("GET /api/v1/records?q=user:bob&limit=7", b"").0, 200);
    }
    assert_eq!(ask("GET /api/v1/records?q=usr:bob", b"").0, 400);
    let query = json!({"sql": "SELECT 42 AS answer"}).to_string();
    assert_eq!(ask("POST /api/v1/sql", query.as_bytes()).0, 200);
    let export = format!("{ann}Accept: text/csv\r\n");
    assert_eq!(with_session(hub, "POST /api/v1/sql", &export, query.as_bytes()).0, 200);
    assert_eq!(ask("GET /api/v1/records/db1/17", b"").0, 404);
    let note = json!({"note": "looked at it"}).to_string();
    let (status, body) = ask("POST /api/v1/alerts/99/acknowledge", note.as_bytes());
    assert_eq!(status, 200, "{body}");
    assert_eq!(ask("DELETE /api/v1/session", b"").0, 204);
}

#[test]
fn what_people_do_is_recorded_before_they_have_their_answer() {
    let mut hub = Hub::start();
    let auditor = hub.token(&["--role", "auditor", "--name", "robot"]);
    let viewer = hub.token(&["--role", "viewer", "--name", "eve"]);
    let admin = hub.token(&["--role", "admin", "--name", "root"]);
    hub.account("ann", "admin+auditor", PASSWORD);
    raise_alert(&hub);
    work(&hub);
    let own = hub.data.path().join("audit");
    let found = lines(&own);
    let of_ann = |record: &&Value| text(record, "user") == "ann";
    let summaries: Vec<String> = found.iter().filter(of_ann).map(summary).collect();
    let expected = [
        "connect_failed ann",
        "connect ann",
        "statement ann Search",
        "statement ann Search",
        "statement ann SQL",
        "statement ann Export",
        "statement ann Record",
        "config ann hub.alert",
        "disconnect ann",
    ];
    assert_eq!(summaries, expected);
    let of_ann: Vec<&Value> = found.iter().filter(of_ann).collect();
    assert_eq!((&of_ann[0]["errno"], text(of_ann[0], "ip")), (&json!(401), "127.0.0.1"));
    assert_eq!(text(of_ann[1], "program"), "test/1");
    assert_eq!((text(of_ann[2], "sql"), &of_ann[2]["rows_sent"]), ("user:bob", &json!(0)));
    assert_eq!(attribute(of_ann[2], "parameters"), "limit=7");
    assert_eq!((text(of_ann[3], "sql"), &of_ann[3]["errno"]), ("usr:bob", &json!(400)));
    assert_eq!(
        (text(of_ann[4], "sql"), &of_ann[4]["rows_sent"]),
        ("SELECT 42 AS answer", &json!(1))
    );
    assert_eq!(
        (attribute(of_ann[6], "path"), &of_ann[6]["errno"]),
        ("/api/v1/records/db1/17", &json!(404))
    );
    assert_eq!(attribute(of_ann[7], "note"), "looked at it");
    for (at, record) in of_ann[1..].iter().enumerate() {
        assert_eq!(record["conn_seq"], at as u64 + 1, "{record}");
        assert_eq!(attribute(record, "session"), attribute(of_ann[1], "session"));
    }
    let made = |record: &&Value| text(record, "variable") == "hub.token";
    let made: Vec<&str> =
        found.iter().filter(made).map(|record| text(record, "new_value")).collect();
    assert_eq!(made, ["robot", "eve", "root"]);

    // No secret is in it.
    let all = serde_json::to_string(&found).unwrap();
    for secret in [&*auditor, &*viewer, &*admin, "wrong horse", PASSWORD, "tacho_session"] {
        assert!(!all.contains(secret), "{secret}");
    }

    // Auditors find it with all other records; others do not.
    let last = found.last().unwrap()["seq"].as_u64().unwrap();
    let path = "/api/v1/records?server=tacho-hub&limit=1000";
    let shown = wait_for("record of the end of the session", || {
        let (_, answer) = get(&hub, path, &auditor);
        let records = answer["records"].as_array().unwrap().clone();
        (records.len() as u64 >= last).then_some(records)
    });
    let shown: Vec<String> =
        shown.iter().filter(|record| text(record, "user") == "ann").map(summary).collect();
    assert_eq!(shown, expected);
    let count = "SELECT count(*) FROM records WHERE server = 'tacho-hub'";
    assert_eq!(sql(&hub, &viewer, count), json!([[0]]));
    assert_eq!(get(&hub, path, &admin).0, 403);
    let servers = |token: &str| get(&hub, "/api/v1/servers", token).1.to_string();
    assert!(servers(&auditor).contains("tacho-hub") && servers(&admin).contains("tacho-hub"));
    assert!(!servers(&viewer).contains("tacho-hub"));
    assert_eq!(hub.stop(), Some(0));
    assert_eq!(verified(&own), LogState::Ok);
}

#[test]
fn refusals_are_recorded_and_nothing_else_ships_to_it() {
    let hub = Hub::start();
    let viewer = hub.token(&["--role", "viewer", "--name", "eve"]);
    let agent = hub.token(&["--role", "agent", "--server", "db1"]);
    let none = hub.run(&["token", "create", "--role", "agent", "--server", "tacho-hub"]);
    assert_eq!(none.status.code(), Some(1));
    for origin in ["tacho-hub", "tacho%2Dhub", "Tacho-Hub"] {
        let (status, body) = get(&hub, &format!("/api/v1/origins/{origin}"), &agent);
        assert!(status == 403 && text(&body, "message").contains("only the hub"), "{body}");
    }
    for _ in 0..3 {
        let note = json!({"note": "x"}).to_string();
        let path = "POST /api/v1/alerts/1/acknowledge";
        assert_eq!(request(&hub, path, &viewer, note.as_bytes()).unwrap().0, 403);
        assert_eq!(get(&hub, "/api/v1/records", "tacho_of_nobody").0, 401);
    }
    let found = lines(&hub.data.path().join("audit"));
    let refused = found.iter().filter(|record| record["errno"].is_u64());
    let refused: Vec<String> =
        refused.map(|record| format!("{} {}", summary(record), record["errno"])).collect();
    assert_eq!(refused, ["statement eve POST 403", "connect_failed 401"]);
}

#[test]
fn no_acknowledged_sign_in_is_lost_if_the_hub_is_killed() {
    let mut hub = Hub::start();
    let own = hub.data.path().join("audit");
    let mut known = Vec::new();
    for round in 0..3 {
        let (sender, acknowledged) = channel();
        std::thread::scope(|scope| {
            for client in 0..4 {
                let (sender, address) = (sender.clone(), &hub.address);
                scope.spawn(move || {
                    for number in 0.. {
                        let user = format!("user{round}.{client}.{number}");
                        // Others are refused without a look at the password, or cut off.
                        let Some((401, _)) = sign_in_at(address, &user, "x") else { break };
                        sender.send(format!("connect_failed {user}")).unwrap();
                    }
                });
            }
            drop(sender);
            known.extend(acknowledged.iter().take(4 + 3 * round));
            let pid = hub.pid().to_string();
            assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
            known.extend(acknowledged);
        });
        hub.kill();
        let found: Vec<String> = lines_before_a_torn_one(&own).iter().map(summary).collect();
        for one in &known {
            assert!(found.contains(one), "{one} is not in {found:?}");
        }
        hub.spawn(&[]);
    }
    assert!(known.len() >= 21, "{known:?}");
    let auditor = hub.token(&["--role", "auditor"]);
    let written = lines(&own).len() as u64;
    wait_for("copy of the log", || landed(&hub, &auditor).filter(|seq| *seq >= written));
    let (_, alerts) = get(&hub, "/api/v1/alerts", &auditor);
    for rule in ["tampered", "fork", "contradiction", "gap", "seal_broken"] {
        assert!(alerts.as_array().unwrap().iter().all(|it| it["rule"] != rule), "{alerts}");
    }
    assert_eq!(hub.stop(), Some(0));
    let numbers: Vec<u64> =
        lines(&own).iter().map(|record| record["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert!(matches!(verified(&own), LogState::Ok | LogState::Recovered));
}

/// The process may have died in the middle of a line.
fn lines_before_a_torn_one(directory: &Path) -> Vec<Value> {
    let mut all = String::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            all += &fs::read_to_string(path).unwrap();
        }
    }
    let whole = all.rfind('\n').map_or("", |at| &all[..at]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_change_of_the_hubs_own_log_is_an_alert() {
    let mut hub = Hub::start();
    let auditor = hub.token(&["--role", "auditor"]);
    assert_eq!(sign_in(&hub, "mallory", "x").unwrap().0, 401);
    wait_for("record of the sign-in", || landed(&hub, &auditor).filter(|seq| *seq >= 3));
    assert_eq!(hub.stop(), Some(0));
    let own = hub.data.path().join("audit");
    for entry in fs::read_dir(&own).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replace("mallory", "malfory")).unwrap();
        }
    }
    assert_eq!(verified(&own), LogState::Modified);
    hub.spawn(&[]);
    wait_for("alert", || {
        let (_, alerts) = get(&hub, "/api/v1/alerts", &auditor);
        let known = ["tampered", "fork", "contradiction", "seal_broken"];
        let mut own = alerts.as_array()?.iter().filter(|it| it["server"] == "tacho-hub");
        own.any(|alert| known.contains(&text(alert, "rule"))).then_some(())
    });
}

#[test]
fn on_a_full_disk_nothing_is_answered_unrecorded() {
    let Some(hub) = Hub::start_on_disk(48, &[]) else { return };
    let inside = hub.directory().to_owned();
    assert_eq!(sign_in(&hub, "before", "x").unwrap().0, 401);
    let ballast = inside.join("ballast");
    let mut file = fs::File::create(&ballast).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    // The rest of a page has room for some lines.
    let mut attempt = 0;
    let refused = wait_for("refusal", || {
        attempt += 1;
        let (status, body) = sign_in(&hub, &format!("during{attempt}"), "x").unwrap();
        (status != 401).then_some((status, body))
    });
    assert_eq!(refused.0, 503, "{}", refused.1);
    assert!(refused.1.contains("cannot write its own log"), "{}", refused.1);
    assert!(hub.get("/healthz", "").starts_with("HTTP/1.1 503"));
    drop(file);
    fs::remove_file(&ballast).unwrap();
    wait_for("health", || hub.get("/healthz", "").starts_with("HTTP/1.1 200").then_some(()));
    assert_eq!(sign_in(&hub, "after", "x").unwrap().0, 401);
    let found = lines(&inside.join("audit"));
    let found: Vec<String> = found.iter().map(summary).collect();
    assert!(found.contains(&"connect_failed before".to_owned()), "{found:?}");
    assert!(found.contains(&"config hub.log_error".to_owned()), "{found:?}");
    assert_eq!(found.last().unwrap(), "connect_failed after");
}
