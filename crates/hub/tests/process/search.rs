//! Records are found once, from the moment on that they are indexed: asked all the time, while
//! others land, are indexed and merged, and while the hub is killed.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::hub::{HANGS_AFTER, Hub, wait};

pub const FILE: &str = "audit-20261121T100000Z-000001.jsonl";
/// Records, without those of the hub's own log.
const COUNT: &str = "SELECT count(*) FROM records WHERE server <> 'tacho-hub'";
/// Lines of a body.
pub const BODY_LINES: u64 = 40;

pub fn line(seq: u64) -> String {
    let table = match seq % 5 {
        0 => r#","tables":[{"access":"read","db":"shop","table":"card"}]"#,
        _ => "",
    };
    format!(
        "{{\"v\":1,\"seq\":{seq},\"ts\":\"2026-11-21T{:02}:{:02}:{:02}.{:06}+01:00\",\
         \"event\":\"statement\",\"outcome\":\"{}\",\"run\":1,\"conn\":{},\"conn_seq\":{seq},\
         \"user\":\"app{}\"{},\"sql\":\"SELECT 'secret{seq}'\",\"sql_charset\":\"utf8mb4\",\
         \"digest\":\"1:{:032x}\"{table},\"rows_sent\":{seq},\"query_time_us\":{}}}",
        10 + seq % 3,
        seq / 60 % 60,
        seq % 60,
        seq,
        // Some errors have no number.
        if seq.is_multiple_of(10) || seq % 35 == 7 { "error" } else { "ok" },
        seq % 7,
        seq % 2,
        if seq.is_multiple_of(10) { ",\"errno\":1064" } else { "" },
        seq % 3,
        seq * 10,
    )
}

pub fn request(hub: &Hub, head: &str, token: &str, body: &[u8]) -> Option<(u16, String)> {
    request_with(hub, head, token, "", body)
}

fn request_with(
    hub: &Hub,
    head: &str,
    token: &str,
    more: &str,
    body: &[u8],
) -> Option<(u16, String)> {
    request_to(&hub.address, head, token, more, body)
}

pub fn request_to(
    address: &str,
    head: &str,
    token: &str,
    more: &str,
    body: &[u8],
) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let head = format!(
        "{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\n{more}Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    if !head.to_lowercase().contains("transfer-encoding: chunked") {
        return Some((status, body.to_owned()));
    }
    let mut rest = body;
    let mut whole = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).ok()?;
        whole.push_str(after.get(..length)?);
        rest = after.get(length + 2..)?;
    }
    Some((status, whole))
}

pub fn get(hub: &Hub, path: &str, token: &str) -> (u16, Value) {
    let (status, body) = request(hub, &format!("GET {path}"), token, b"").expect("an answer");
    (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
}

pub fn ok(hub: &Hub, path: &str, token: &str) -> Value {
    let (status, body) = get(hub, path, token);
    assert_eq!(status, 200, "{path}: {body}");
    body
}

pub fn sql(hub: &Hub, token: &str, sql: &str) -> Value {
    let body = json!({"sql": sql}).to_string();
    let (status, body) =
        request(hub, "POST /api/v1/sql", token, body.as_bytes()).expect("an answer");
    assert_eq!(status, 200, "{sql}: {body}");
    serde_json::from_str::<Value>(&body).unwrap()["rows"].clone()
}

/// Sends lines until the hub has acknowledged them.
pub struct Sender {
    pub origin: &'static str,
    token: String,
    sent: Vec<u8>,
    pub seq: u64,
}

impl Sender {
    pub fn new(hub: &Hub, origin: &'static str) -> Self {
        let token = hub.token(&["--role", "agent", "--server", origin]);
        Self { origin, token, sent: Vec::new(), seq: 0 }
    }

    pub fn send(&mut self, hub: &Hub) {
        let lines = (self.seq + 1..=self.seq + BODY_LINES).map(|seq| line(seq) + "\n");
        self.send_body(hub, lines.collect::<String>().as_bytes());
        self.seq += BODY_LINES;
    }

    pub fn send_body(&mut self, hub: &Hub, body: &[u8]) {
        // What a shipper sends to prove that both have the same.
        let before = &self.sent[self.sent.len().saturating_sub(4096)..];
        let before = STANDARD.encode(Sha256::digest(before));
        let (origin, offset) = (self.origin, self.sent.len());
        let head = format!("PUT /api/v1/origins/{origin}/files/{FILE}?offset={offset}");
        let before = format!("Tacho-Before: sha-256=:{before}:\r\n");
        let (status, answer) =
            request_with(hub, &head, &self.token, &before, body).expect("an answer");
        assert_eq!(status, 200, "{answer}");
        self.sent.extend_from_slice(body);
    }
}

/// What is found of each server: exactly the lines from the first to some line.
fn assert_whole(hub: &Hub, auditor: &str, known: &mut BTreeMap<String, u64>) {
    let rows = sql(
        hub,
        auditor,
        "SELECT server, count(*), count(DISTINCT seq), max(seq) FROM records GROUP BY server",
    );
    for row in rows.as_array().unwrap() {
        let numbers: Vec<u64> = (1..4).map(|at| row[at].as_u64().unwrap()).collect();
        assert!(numbers.iter().all(|number| *number == numbers[2]), "{row}");
        let before = known.entry(row[0].as_str().unwrap().to_owned()).or_default();
        assert!(numbers[2] >= *before, "{row} after {before}");
        *before = numbers[2];
    }
}

pub fn wait_until_indexed(hub: &Hub, auditor: &str, senders: &[Sender]) {
    let wanted: u64 = senders.iter().map(|sender| sender.seq).sum();
    wait(|| {
        let found = &sql(hub, auditor, COUNT)[0][0];
        if *found == wanted { Ok(()) } else { Err(format!("{found} of {wanted} are indexed")) }
    });
}

#[test]
fn every_record_is_found_once_at_every_moment() {
    let mut hub = Hub::start();
    let auditor = hub.token(&["--role", "auditor"]);
    let mut senders = [Sender::new(&hub, "db1"), Sender::new(&hub, "db2")];
    let mut known = BTreeMap::new();
    for round in 0..60 {
        for sender in &mut senders {
            sender.send(&hub);
        }
        assert_whole(&hub, &auditor, &mut known);
        std::thread::sleep(Duration::from_millis(100));
        if round % 20 == 10 {
            // What was acknowledged stays; what was found is found again.
            hub.kill();
            hub.spawn(&[]);
            known.clear();
        }
    }
    wait_until_indexed(&hub, &auditor, &senders);
    assert_whole(&hub, &auditor, &mut known);

    for (order, is_sorted) in [
        ("asc", <[_]>::is_sorted as fn(&[_]) -> bool),
        ("desc", |keys| keys.iter().rev().is_sorted()),
    ] {
        let mut found = Vec::new();
        let mut path = format!("/api/v1/records?server=db1&server=db2&order={order}&limit=777");
        loop {
            let answer = ok(&hub, &path, &auditor);
            found.extend(answer["records"].as_array().unwrap().iter().cloned());
            let Some(cursor) = answer["next"].as_str() else { break };
            path = format!(
                "/api/v1/records?server=db1&server=db2&order={order}&limit=777&cursor={cursor}"
            );
        }
        let key = |record: &Value| {
            let text = |name: &str| record[name].as_str().unwrap().to_owned();
            (text("ts"), text("server"), record["seq"].as_u64().unwrap())
        };
        let keys: Vec<_> = found.iter().map(key).collect();
        assert!(is_sorted(&keys));
        assert_eq!(keys.len() as u64, senders[0].seq + senders[1].seq);
        let mut record = found.swap_remove(7);
        record.as_object_mut().unwrap().remove("server");
        let seq = record["seq"].as_u64().unwrap();
        assert_eq!(record, serde_json::from_str::<Value>(&line(seq)).unwrap());
    }

    let count = "SELECT count(*), sum(seq) FROM records WHERE server IN ('db1', 'db2')";
    let before = hub.command("sql", &[count]);
    assert!(before.status.success(), "{before:?}");
    assert_eq!(hub.stop(), Some(0));
    let reindexed = hub.command("reindex", &[]);
    assert!(reindexed.status.success(), "{reindexed:?}");
    let after = hub.command("sql", &[count]);
    assert_eq!(before.stdout, after.stdout);
}

#[test]
fn questions_have_answers_and_roles_limits() {
    let hub = Hub::start();
    let auditor = hub.token(&["--role", "auditor"]);
    let viewer = hub.token(&["--role", "viewer", "--server", "db1"]);
    let mut senders = [Sender::new(&hub, "db1"), Sender::new(&hub, "db2")];
    for sender in &mut senders {
        for _ in 0..5 {
            sender.send(&hub);
        }
    }
    wait_until_indexed(&hub, &auditor, &senders);
    let get_ok = |path: &str| ok(&hub, &format!("/api/v1/{path}"), &auditor);

    let errors = get_ok("records?q=errno:%3E0%20server:db1&limit=1000");
    assert_eq!(errors["records"].as_array().unwrap().len(), 20);
    let histogram = get_ok("histogram?from=2026-11-21T09:00:00Z&to=2026-11-21T12:00:00Z&buckets=9");
    assert_eq!(histogram["total"], 400);
    let counts = histogram["buckets"].as_array().unwrap().iter();
    assert_eq!(counts.map(|bucket| bucket["count"].as_u64().unwrap()).sum::<u64>(), 400);
    let facets = get_ok("facets?fields=user,table,errno,server&q=table:shop.card");
    assert_eq!(facets["total"], 80);
    assert_eq!(facets["fields"]["table"], json!([{"value": "shop.card", "count": 80}]));
    assert_eq!(facets["fields"]["errno"], json!([{"value": "1064", "count": 40}]));
    let top = get_ok("top?by=digest&measure=count&limit=2");
    assert_eq!((&top["total"], top["rows"].as_array().unwrap().len()), (&json!(3), 2));
    assert_eq!(top["rows"][0]["text"], "SELECT ?");
    assert!((13..=25).contains(&top["rows"][0]["spark"].as_array().unwrap().len()));
    let errors = get_ok("top?by=user&measure=errors&server=db1&server=db2");
    let errors = errors["rows"].as_array().unwrap().iter();
    let errors: Vec<_> = errors.map(|row| (row["value"].clone(), row["errors"].clone())).collect();
    assert_eq!(errors, [(json!("app0"), json!(46)), (json!("app1"), json!(6))]);
    let total = |search: &str| {
        get_ok(&format!("histogram?server=db1&server=db2&q={search}"))["total"].clone()
    };
    assert_eq!(total("digest_text:%22select%20?%22"), 400);
    assert_eq!(total("digest_text:secret17"), 0);
    assert_eq!(total("-digest_text:select"), 0);
    // What a scan leaves out has not the text, for records and for counts of them.
    for (search, count) in
        [("SeCret17", 22), ("secret199%20or%20secret19%27", 4), ("secret999", 0), ("-secret1", 178)]
    {
        assert_eq!(total(search), count, "{search}");
        let records = get_ok(&format!("records?server=db1&server=db2&limit=999&q={search}"));
        assert_eq!(records["records"].as_array().unwrap().len(), count, "{search}");
        let facets = get_ok(&format!("facets?server=db1&server=db2&fields=table&q={search}"));
        assert_eq!(facets["total"], count, "{search}");
    }
    assert_eq!(get_ok("records/db2/17?q=nowhere")["record"]["seq"], 17);
    let overview = get_ok("overview?server=db1&server=db2");
    let statements = overview["statements"].as_array().unwrap().iter();
    assert_eq!(statements.map(|count| count.as_u64().unwrap()).sum::<u64>(), 400);
    assert!(overview["by_server"]["db2"].is_array());

    let one = get_ok("records/db2/17");
    assert_eq!(one["bytes"], line(17));
    assert_eq!(one["record"]["seq"], 17);
    assert_eq!(one["proof"]["state"], "unsealed");
    assert_eq!(one["neighbours"], json!({"before": 16, "after": 18}));
    assert_eq!(get(&hub, "/api/v1/records/db2/9999", &auditor).0, 404);

    refuses_what_is_wrong(&hub, &auditor);

    let seen = ok(&hub, "/api/v1/records?limit=1000", &viewer);
    assert_eq!(seen["records"].as_array().unwrap().len(), 200);
    assert!(!seen.to_string().contains("secret"));
    assert_eq!(seen["records"][0]["sql"], "SELECT ?");
    let guessed = ok(&hub, "/api/v1/records?q=secret17", &viewer);
    assert_eq!(guessed["records"], json!([]));
    assert_eq!(ok(&hub, "/api/v1/histogram?q=secret17", &viewer)["total"], 0);
    assert_eq!(ok(&hub, "/api/v1/histogram", &viewer)["total"], 200);
    assert_eq!(ok(&hub, "/api/v1/records/db1/17", &viewer)["bytes"], Value::Null);
    assert_eq!(get(&hub, "/api/v1/records/db2/17", &viewer).0, 404);
    let rows = sql(&hub, &viewer, "SELECT count(*), count(sql), min(server) FROM records");
    assert_eq!(rows, json!([[200, 0, "db1"]]));
    let admin = hub.token(&["--role", "admin"]);
    assert_eq!(get(&hub, "/api/v1/records", &admin).0, 403);
    assert_eq!(get(&hub, "/api/v1/records", "wrong").0, 401);
}

fn refuses_what_is_wrong(hub: &Hub, auditor: &str) {
    let wrong = get(hub, "/api/v1/records?q=usr:x", auditor);
    assert_eq!(
        (wrong.0, &wrong.1["code"], &wrong.1["position"]),
        (400, &json!("search"), &json!(0))
    );
    for path in [
        "records?q=digest_text:%60",
        "records?from=soon",
        "records?limit=0",
        "records?cursor=x",
        "records?order=up",
        "facets?fields=password",
        "top?by=sql",
    ] {
        assert_eq!(get(hub, &format!("/api/v1/{path}"), auditor).0, 400, "{path}");
    }
}

/// Not the hub's own log, to which each request adds.
const SERVERS: &str = "&server=db1&server=db2";

/// Whether a segment has rollups.
fn has_rollups(hub: &Hub) -> bool {
    let mut files = std::fs::read_dir(hub.data.path().join("store/segments")).unwrap();
    files.any(|file| file.unwrap().file_name().to_string_lossy().ends_with(".hours.parquet"))
}

#[test]
fn statistics_by_rollups_are_those_by_records() {
    let hub = Hub::start();
    let auditor = hub.token(&["--role", "auditor"]);
    let viewer = hub.token(&["--role", "viewer", "--server", "db1"]);
    let mut senders = [Sender::new(&hub, "db1"), Sender::new(&hub, "db2")];
    let begin = Instant::now();
    while !has_rollups(&hub) {
        assert!(begin.elapsed() < HANGS_AFTER, "not merged");
        senders.iter_mut().for_each(|sender| sender.send(&hub));
        wait_until_indexed(&hub, &auditor, &senders);
    }
    // And some that are not merged.
    senders[0].send(&hub);
    wait_until_indexed(&hub, &auditor, &senders);
    // The end is given: that of all records is the hub's own last one.
    let ranges = [
        "&to=2026-11-21T12:00:00.1Z",
        "&from=2026-11-21T09:00:00Z&to=2026-11-21T12:00:00Z",
        "&from=2026-11-21T09:01:30Z&to=2026-11-21T11:02:03.5Z",
        "&from=2026-11-21T10:01:07Z&to=2026-11-21T10:01:09Z",
    ];
    let questions = [
        "overview?",
        "histogram?",
        "facets?fields=user,event,outcome,errno,digest,table",
        "top?by=digest",
        "top?by=user&measure=errors",
        "top?by=errno&measure=rows_sent",
    ];
    let searches = ["", "user:app1", "outcome:error%20-errno:*", "digest_text:select%20server:db2"];
    for token in [&auditor, &viewer] {
        for question in questions {
            for range in ranges {
                for search in searches {
                    let path = format!("/api/v1/{question}{range}{SERVERS}&q={search}");
                    // Every record has a number, which rollups do not have.
                    let by_records = ok(&hub, &format!("{path}%20seq:*"), token);
                    assert_eq!(ok(&hub, &path, token), by_records, "{path}");
                }
            }
        }
    }
    let total: u64 = senders.iter().map(|sender| sender.seq).sum();
    assert_eq!(ok(&hub, &format!("/api/v1/histogram?{SERVERS}"), &auditor)["total"], total);
    assert_eq!(ok(&hub, "/api/v1/facets", &viewer)["total"], senders[0].seq);
}

#[test]
fn the_tail_has_every_new_record_once() {
    let hub = Hub::start();
    let auditor = hub.token(&["--role", "auditor"]);
    let mut sender = Sender::new(&hub, "db1");
    sender.send(&hub);
    wait_until_indexed(&hub, &auditor, std::slice::from_ref(&sender));
    let mut stream = TcpStream::connect(&hub.address).unwrap();
    let head = format!(
        "GET /api/v1/tail?q=user:app1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {auditor}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    let mut buffer = [0; 4096];
    let mut read = |text: &mut String| {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "{text}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    };
    read(&mut text);
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    for _ in 0..10 {
        sender.send(&hub);
    }
    let seqs = |text: &str| -> Vec<u64> {
        let records = text.split("event: record\n").skip(1);
        let seq = |record: &str| {
            record.split_once("\"seq\":")?.1.split_once(",\"ts\"")?.0.parse::<u64>().ok()
        };
        records.filter_map(seq).collect()
    };
    while seqs(&text).len() < 200 {
        read(&mut text);
    }
    let mut found = seqs(&text);
    found.sort_unstable();
    let wanted: Vec<u64> = (41..=440).filter(|seq| seq % 2 == 1).collect();
    assert_eq!(found, wanted);
}
