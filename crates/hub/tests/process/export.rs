//! Evidence bundles of a hub: by its API and by its command.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use tacho_chain::key::VerifierKey;
use tacho_chain::verify::LogState;
use tacho_evidence::check::{self, Options, Report};
use tacho_evidence::manifest::Manifest;

use crate::hub::{Hub, Shipping, wait};
use crate::recorder::{self, sealed};
use crate::shipping::Log;

/// The status and the body of a `POST`.
fn post(hub: &Hub, path: &str, headers: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(&hub.address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}Content-Length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let at = answer.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..at].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_off(at + 4))
}

fn export(hub: &Hub, query: &str, token: &str) -> (u16, Vec<u8>) {
    let headers = format!("Authorization: Bearer {token}\r\n");
    post(hub, &format!("/api/v1/export{query}"), &headers)
}

pub fn check_file(path: &Path, root: &VerifierKey, hub: &Hub) -> Report {
    let public = std::fs::read_to_string(hub.data.path().join("hub.pub")).unwrap();
    let hub_key = Some(public.trim().parse().unwrap());
    let options = Options { keys: vec![root.clone()], hub_key };
    check::check(&File::open(path).unwrap(), &options, &mut |_| {}).unwrap()
}

fn assert_report(report: &Report, state: LogState, records: u64, proven: u64) -> &Manifest {
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(report.state(), state, "{findings:#?}");
    assert_eq!((report.records(), report.proven()), (records, proven), "{findings:#?}");
    report.manifest.as_ref().expect("a manifest")
}

/// Waits until all records are indexed, and the root key is known.
pub fn wait_for_records(hub: &Hub, records: u64) {
    let token = hub.token(&["--role", "auditor"]);
    let wanted = [format!("\"records\":{records},"), format!("\"verified_to_seq\":{records},")];
    wait(|| {
        let answer = hub.get("/api/v1/servers", &token);
        let found =
            hub.get("/api/v1/records?limit=1000&server=db1", &token).matches("\"seq\":").count();
        let is_there = wanted.iter().all(|wanted| answer.contains(wanted));
        if is_there && found as u64 == records { Ok(()) } else { Err(answer) }
    });
}

pub fn shipped() -> (Hub, Log) {
    let hub = Hub::start();
    let log = Log::new(sealed());
    Shipping::start(&hub, log.path(), "db1", true).finish();
    wait_for_records(&hub, 18);
    (hub, log)
}

#[test]
fn an_auditor_downloads_what_a_search_finds() {
    let (hub, log) = shipped();
    let auditor = hub.token(&["--role", "auditor", "--name", "ann"]);
    let (status, bundle) = export(&hub, "?q=seq:%3E10&server=db1", &auditor);
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&bundle));
    let path = log.path().join("bundle.tar");
    std::fs::write(&path, bundle).unwrap();
    let report = check_file(&path, &log.recorder.root, &hub);
    let manifest = assert_report(&report, LogState::Ok, 8, 8);
    assert_eq!((&*manifest.by.name, &*manifest.by.via), ("ann", "api"));
    assert_eq!((&*manifest.query.q, manifest.query.servers.len()), ("seq:>10", 1));
    let server = &manifest.servers[0];
    assert_eq!(server.root, Some(log.recorder.root.to_string()));
    assert_eq!(server.generations[0].checkpoint.as_ref().map(|it| it.seq), Some(18));
    // All names of this log have one time, and the records another one.
    let (status, bundle) = export(&hub, "?server=db1&from=2026-11-22T00:00:00Z", &auditor);
    assert_eq!(status, 200);
    std::fs::write(&path, bundle).unwrap();
    let report = check_file(&path, &log.recorder.root, &hub);
    let manifest = assert_report(&report, LogState::Ok, 0, 0);
    assert_eq!(manifest.servers[0].generations[0].last_file, Some(recorder::log(3)));
}

#[test]
fn exports_are_in_the_log_of_the_hub() {
    let (mut hub, _log) = shipped();
    let auditor = hub.token(&["--role", "auditor", "--name", "ann"]);
    let viewer = hub.token(&["--role", "viewer", "--name", "bob"]);
    assert_eq!(export(&hub, "?q=seq:%3E10&server=db1", &auditor).0, 200);
    assert_eq!(export(&hub, "?q=seq:%3E11", &viewer).0, 403);
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("bundle.tar").display().to_string();
    assert!(hub.command("export", &["--output", &output, "--q", "seq:12"]).status.success());
    // The record of the command moves to the log at the next look, or at a start.
    hub.stop();
    hub.spawn(&[]);
    hub.stop();
    let mut text = String::new();
    for entry in std::fs::read_dir(hub.data.path().join("audit")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            text += &std::fs::read_to_string(path).unwrap();
        }
    }
    let exports: Vec<&str> =
        text.lines().filter(|line| line.contains("\"command\":\"Export\"")).collect();
    assert_eq!(exports.len(), 3, "{text}");
    let has = |at: usize, parts: &[&str]| parts.iter().all(|part| exports[at].contains(part));
    assert!(has(0, &["\"ann\"", "seq:>10", "\"rows_sent\":8"]), "{}", exports[0]);
    assert!(has(1, &["\"bob\"", "seq:>11", "\"error\""]), "{}", exports[1]);
    assert!(has(2, &["seq:12"]), "{}", exports[2]);
}

#[test]
fn only_auditors_export_what_they_may_see() {
    let (hub, log) = shipped();
    for role in ["viewer", "admin"] {
        let (status, body) = export(&hub, "", &hub.token(&["--role", role]));
        assert_eq!(status, 403, "{role}: {}", String::from_utf8_lossy(&body));
    }
    assert_eq!(export(&hub, "", "wrong").0, 401);
    let auditor = hub.token(&["--role", "auditor"]);
    assert_eq!(export(&hub, "?q=usr:x", &auditor).0, 400);
    assert_eq!(export(&hub, "?from=soon", &auditor).0, 400);
    assert_eq!(export(&hub, "?server=db2", &auditor).0, 404);
    let other = hub.token(&["--role", "auditor", "--server", "db2"]);
    assert_eq!(export(&hub, "?server=db1", &other).0, 404);
    let (status, bundle) = export(&hub, "", &other);
    assert_eq!(status, 200);
    // As a value or in a path: three letters alone can be a part of a hash.
    let text = String::from_utf8_lossy(&bundle);
    assert!(!text.contains("\"db1\"") && !text.contains("/db1/"));
    let path = log.path().join("bundle.tar");
    std::fs::write(&path, bundle).unwrap();
    let manifest = check_file(&path, &log.recorder.root, &hub).manifest.expect("a manifest");
    assert!(manifest.servers.is_empty(), "{manifest:?}");
    assert!(hub.get("/api/v1/export", &auditor).starts_with("HTTP/1.1 405"));
}

/// A page of another site can send the cookie, but not the text of the session.
#[test]
fn a_session_exports_with_its_csrf_text() {
    let (hub, _log) = shipped();
    let token = hub.token(&["--role", "auditor"]);
    let body = format!("{{\"token\":\"{token}\"}}");
    let mut stream = TcpStream::connect(&hub.address).unwrap();
    let head = format!(
        "POST /api/v1/session HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, cookie) = answer.split_once("set-cookie: ").expect(&answer);
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let headers = format!("Cookie: {cookie}\r\n");
    assert_eq!(post(&hub, "/api/v1/export", &headers).0, 403);
    let mut stream = TcpStream::connect(&hub.address).unwrap();
    let head = format!("GET /api/v1/me HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, csrf) = answer.split_once("\"csrf\":\"").expect(&answer);
    let (csrf, _) = csrf.split_once('"').unwrap();
    let headers = format!("{headers}X-Tacho-Csrf: {csrf}\r\n");
    assert_eq!(post(&hub, "/api/v1/export", &headers).0, 200);
}

#[test]
fn the_command_exports_beside_a_hub_and_without_one() {
    let (mut hub, log) = shipped();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let run = |hub: &Hub, name: &str, more: &[&str]| {
        let output = path(name).display().to_string();
        hub.command("export", &[&["--output", &output], more].concat())
    };
    let output = run(&hub, "beside.tar", &["--server", "db1"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("18 records, 18 proven"), "{text}");
    let public = std::fs::read_to_string(hub.data.path().join("hub.pub")).unwrap();
    assert!(text.ends_with(&format!("signed with the key {public}")), "{text}");
    assert_eq!(hub.stop(), Some(0));
    let output =
        run(&hub, "without.tar", &["--q", "seq:3 server:db1", "--from", "2026-11-21T00:00:00Z"]);
    assert!(output.status.success(), "{output:?}");
    for (name, records) in [("beside.tar", 18), ("without.tar", 1)] {
        let report = check_file(&path(name), &log.recorder.root, &hub);
        let manifest = assert_report(&report, LogState::Ok, records, records);
        assert_eq!(manifest.by.via, "command");
    }
    // A file that exists stays.
    let before = std::fs::read(path("beside.tar")).unwrap();
    assert_eq!(run(&hub, "beside.tar", &[]).status.code(), Some(1));
    assert!(std::fs::read(path("beside.tar")).unwrap() == before);
    for (more, text) in [
        (&["--max-records", "17"][..], "more than 17 records"),
        (&["--max-mib", "0"], "larger than 0 bytes"),
        (&["--q", "usr:x"], "--q: "),
        (&["--to", "soon"], "--to: "),
        (&["--server", "db9"], "there is no server db9"),
    ] {
        let output = run(&hub, "failed.tar", more);
        assert_eq!(output.status.code(), Some(1), "{more:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(text), "{said}");
    }
    let left = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 2, "nothing is left of exports that failed");
}

#[test]
fn a_fork_is_stated_and_both_copies_can_be_exported() {
    let (hub, log) = shipped();
    let name = recorder::log(3);
    let changed = log.recorder.dir.text(&name).replacen("SELECT 13", "SELECT 73", 1);
    std::fs::write(log.path().join(&name), changed).unwrap();
    let (_, said) = Shipping::start(&hub, log.path(), "db1", true).finish();
    assert!(said.contains("generation 2"), "{said}");
    let auditor = hub.token(&["--role", "auditor"]);
    let report = wait(|| {
        let (status, bundle) = export(&hub, "?q=seq:13&server=db1", &auditor);
        assert_eq!(status, 200);
        let path = log.path().join("bundle.tar");
        std::fs::write(&path, bundle).unwrap();
        let report = check_file(&path, &log.recorder.root, &hub);
        if report.records() == 2 {
            return Ok(report);
        }
        Err(format!("not indexed: {}", report.records()))
    });
    let manifest = assert_report(&report, LogState::Modified, 2, 1);
    assert_eq!(report.logs.iter().map(|it| it.proven).collect::<Vec<_>>(), [1, 0]);
    let fork = &manifest.servers[0].forks[0];
    assert_eq!((fork.generation, &*fork.reason, &*fork.file), (2, "different", &*name));
    assert!(manifest.servers[0].alerts.iter().any(|alert| alert.rule == "tampered"));
}

/// What the page of one record shows.
#[test]
fn a_record_is_proven_from_the_root_key_on() {
    let (mut hub, log) = shipped();
    let auditor = hub.token(&["--role", "auditor"]);
    let state = |hub: &Hub, seq: u32| {
        let answer = hub.get(&format!("/api/v1/records/db1/{seq}"), &auditor);
        let (_, proof) = answer.split_once("\"proof\":").expect(&answer);
        let (_, state) = proof.rsplit_once("\"state\":\"").expect(&answer);
        (state.split('"').next().unwrap().to_owned(), answer)
    };
    assert_eq!(state(&hub, 12).0, "sealed");
    // A signature of another key over the same text: only its check finds that.
    let sidecar = hub.replica("db1", 1).join(recorder::sidecar(2));
    let good = std::fs::read(&sidecar).unwrap();
    hub.stop();
    let text = String::from_utf8(good.clone()).unwrap();
    let at = text.rfind('\n').unwrap() - 20;
    let other = if good[at] == b'A' { b'B' } else { b'A' };
    let mut changed = good.clone();
    changed[at] = other;
    std::fs::write(&sidecar, &changed).unwrap();
    hub.spawn(&[]);
    let (found, answer) = state(&hub, 12);
    assert_eq!(found, "broken", "{answer}");
    assert!(answer.contains("not signed by the key"), "{answer}");
    std::fs::write(&sidecar, &good).unwrap();
    assert_eq!(state(&hub, 12).0, "sealed");
    assert_eq!(log.recorder.seq, 18);
}
