//! The protocol of shipping, request by request: `docs/specs/ship.md`.

mod bench;
mod compression;
mod damage;
#[path = "../../../chain/tests/support/mod.rs"]
#[expect(dead_code, reason = "the support of another crate's tests")]
mod recorder;
mod retention;
mod sign_in;
mod storage;
mod verification;

use axum::http::StatusCode;
use bench::{Bench, ONE, Request, TWO, chain, lines};
use serde_json::json;
use std::time::Duration;
use tacho_hub::landing::Options;
use tacho_ship::protocol::digest::{Before, ContentDigest};

#[tokio::test]
async fn an_origin_without_files_has_generation_1() {
    let bench = Bench::new();
    let (status, body) = bench.get("/api/v1/origins/db1").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(body["generation"], 1);
    assert_eq!(body["files"], json!([]));
    assert_eq!(body["hints"]["batch_bytes"], 1_048_576);
    assert!(!bench.data.path().join("replica/db1").exists());
}

#[tokio::test]
async fn bytes_are_stored_where_they_belong_and_once() {
    let bench = Bench::new();
    let name = lines(ONE);
    assert_eq!(bench.put(&name, 0, b"one\ntwo\n").await, (200, json!({"generation":1,"offset":8})));
    // Again, a part again, and more.
    assert_eq!(bench.put(&name, 0, b"one\n").await.1["offset"], 8);
    assert_eq!(bench.put_after(&name, b"one\n", b"two\nthree\n").await.1["offset"], 14);
    assert_eq!(bench.put_after(&name, b"one\ntwo\nthree\n", b"").await.0, 200);
    assert_eq!(bench.stored(1, &name), b"one\ntwo\nthree\n");
    let (_, state) = bench.get("/api/v1/origins/db1").await;
    assert_eq!(state["files"], json!([{"name": name, "offset": 14}]));
    // The offsets are those of the files.
    let bench = bench.restarted();
    let (_, state) = bench.get("/api/v1/origins/db1").await;
    assert_eq!(state["files"], json!([{"name": name, "offset": 14}]));
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_changes_nothing() {
    let bench = Bench::new();
    let name = lines(ONE);
    bench.put(&name, 0, b"one\ntwo\n").await;
    let code = |answer: (u16, serde_json::Value)| (answer.0, answer.1["code"].clone(), answer.1);
    let (status, word, body) = code(bench.put_after(&name, b"one\ntwo\nthree\n", b"four\n").await);
    assert_eq!((status, word, &body["offset"]), (409, json!("offset"), &json!(8)));
    let (status, word, body) = code(bench.put(&name, 0, b"one\nTWO\nthree\n").await);
    assert_eq!((status, word, &body["offset"]), (409, json!("contradiction"), &json!(8)));
    assert_eq!(body["generation"], 1);
    let (status, word, _) = code(bench.put_after(&name, b"ONE\n", b"two\n").await);
    assert_eq!((status, word), (409, json!("contradiction")));
    assert_eq!(bench.incidents().len(), 2);
    let request = Request::put(&name, 4, b"two\n");
    assert_eq!(bench.send(request).await.1["code"], "bad_request");
    let request = Request::put(&name, 0, b"one\n").generation(2);
    let (status, word, body) = code(bench.send(request).await);
    assert_eq!((status, word, &body["generation"]), (409, json!("generation"), &json!(1)));
    assert_eq!(bench.stored(1, &name), b"one\ntwo\n");
}

#[tokio::test]
async fn bodies_are_checked() {
    let bench = Bench::new();
    let name = lines(ONE);
    let packed = zstd::encode_all(&b"one\n"[..], 3).unwrap();
    let request = Request::put(&name, 0, &packed).header("content-encoding", "zstd");
    assert_eq!(bench.send(request).await, (200, json!({"generation":1,"offset":4})));
    let damaged = ContentDigest::of(b"other").to_string();
    for (request, status, code) in [
        (Request::put(&name, 0, b"one\n").header("content-digest", &damaged), 400, "digest"),
        (Request::put(&name, 0, b"one\n").header("content-encoding", "gzip"), 415, "encoding"),
        (Request::put(&name, 0, b"one\n").header("content-encoding", "zstd"), 400, "bad_body"),
        (Request::put(&name, 0, b"one\n").header("tacho-instance", "x"), 400, "bad_request"),
        (Request::put(&name, 0, b"one\n").header("tacho-before", "x"), 400, "bad_request"),
        (Request::put(&name, 0, &vec![b'x'; (4 << 20) + 1]), 413, "too_large"),
    ] {
        let (found, body) = bench.send(request).await;
        assert_eq!((found, body["code"].as_str()), (status, Some(code)), "{body}");
    }
    // Without a length.
    let request = Request::put(&name, 0, &vec![b'x'; (4 << 20) + 1]).chunked();
    assert_eq!(bench.send(request).await.0, 413);
    assert_eq!(bench.stored(1, &name), b"one\n");
}

#[tokio::test]
async fn a_token_ships_to_its_origin_only() {
    let bench = Bench::new();
    for (path, token, status) in [
        ("/api/v1/origins/db2", bench.token.as_str(), 403),
        ("/api/v1/origins/..", &bench.token, 400),
        ("/api/v1/origins/%2e%2e", &bench.token, 400),
        ("/api/v1/origins/db1", "tacho_wrong", 401),
        ("/api/v1/origins/db1", &bench.auditor, 403),
    ] {
        let answer = bench.send(Request::get(path).token(token)).await;
        assert_eq!(answer.0, status, "{path}: {}", answer.1);
    }
    for bad in ["passwd", "..%2f..%2fx.chain", "removed.chain.new", ".chain"] {
        let (status, body) = bench.put(bad, 0, b"x\n").await;
        assert_eq!((status, &body["code"]), (400, &json!("bad_request")), "{bad}");
    }
}

#[tokio::test]
async fn another_generation_keeps_the_former_one() {
    let bench = Bench::new();
    for (name, text) in [(lines(ONE), "one\n"), (chain(ONE), "frame\n"), (lines(TWO), "two\n")] {
        bench.put(&name, 0, text.as_bytes()).await;
    }
    bench.put("removed.chain", 0, b"gone\n").await;
    let fork = |after: u64| json!({"after": after, "reason": "different", "file": lines(TWO), "offset": 4});
    assert_eq!(bench.fork(&fork(2)).await.1["code"], "generation");
    let (status, state) = bench.fork(&fork(1)).await;
    assert_eq!((status, &state["generation"]), (201, &json!(2)));
    let names = json!([{"name": lines(ONE), "offset": 4}, {"name": chain(ONE), "offset": 6}]);
    assert_eq!(state["files"], names);
    // The file is shared until one of them grows.
    assert_eq!(bench.put(&lines(TWO), 0, b"other\n").await.0, 200);
    assert_eq!(bench.put_after(&chain(ONE), b"frame\n", b"more\n").await.0, 200);
    assert_eq!(bench.stored(2, &chain(ONE)), b"frame\nmore\n");
    assert_eq!(bench.stored(1, &chain(ONE)), b"frame\n");
    assert_eq!(
        (bench.stored(1, &lines(TWO)), bench.stored(2, &lines(TWO))),
        (b"two\n".into(), b"other\n".into())
    );
    assert_eq!(bench.stored(1, "removed.chain"), b"gone\n");
    assert!(bench.incidents()[0].contains("generation 2 begins"), "{:?}", bench.incidents());
    let bench = bench.restarted();
    assert_eq!(bench.get("/api/v1/origins/db1").await.1["generation"], 2);
    assert_eq!(
        bench.landed(),
        [
            format!("1 {} 4", lines(ONE)),
            format!("1 {} 6", chain(ONE)),
            format!("1 {} 4", lines(TWO)),
            "1 removed.chain 5".to_owned(),
            format!("2 {} 4", lines(ONE)),
            format!("2 {} 11", chain(ONE)),
            format!("2 {} 6", lines(TWO)),
        ]
    );
}

#[tokio::test]
async fn a_second_shipper_may_not_fork_while_the_first_is_alive() {
    let bench = Bench::new();
    let (first, second) = ("1".repeat(32), "2".repeat(32));
    bench.put(&lines(ONE), 0, b"one\n").await;
    let beat = |next_s: u32| json!({"time_us": 1, "version": "1", "host": "old", "next_s": next_s});
    let (status, body) = bench.post("heartbeat", &first, &beat(10)).await;
    assert_eq!((status, &body["generation"]), (200, &json!(1)));
    let fork = json!({"after": 1, "reason": "shorter", "file": lines(ONE), "offset": 4});
    let (status, body) = bench.post("generations", &second, &fork).await;
    assert_eq!((status, &body["code"], &body["generation"]), (409, &json!("busy"), &json!(1)));
    assert!(body["message"].as_str().unwrap().contains("old"), "{body}");
    assert_eq!(bench.incidents().len(), 1);
    // Nor after a restart of the hub.
    let bench = bench.restarted();
    assert_eq!(bench.post("generations", &second, &fork).await.1["code"], "busy");
    bench.post("heartbeat", &first, &beat(0)).await;
    assert_eq!(bench.post("generations", &second, &fork).await.0, 201);
}

/// Of two shippers with different logs, the wrong one may be heard first after a start.
#[tokio::test]
async fn no_generation_begins_before_other_shippers_can_be_heard() {
    let bench = Bench::new();
    bench.put(&lines(ONE), 0, b"one\n").await;
    let options = Options { fork_pause: Duration::from_secs(100), ..Bench::options() };
    let bench = bench.restarted_with(options);
    let fork = json!({"after": 1, "reason": "shorter", "file": lines(ONE), "offset": 4});
    let (status, body) = bench.fork(&fork).await;
    assert_eq!((status, &body["code"]), (503, &json!("unavailable")));
    assert!(!bench.path(2, "").exists());
}

#[tokio::test]
async fn a_full_disk_is_said_and_nothing_is_stored() {
    let bench = Bench::with_reserve(u64::MAX);
    let answer = bench.put(&lines(ONE), 0, b"one\n").await;
    assert_eq!((answer.0, &answer.1["code"]), (507, &json!("disk_full")));
    assert_eq!(bench.get("/api/v1/origins/db1").await.1["files"], json!([]));
}

#[tokio::test]
async fn a_replica_that_was_cut_is_shipped_again() {
    let bench = Bench::new();
    let name = lines(ONE);
    bench.put(&name, 0, b"one\ntwo\n").await;
    let path = bench.data.path().join("replica/db1/1").join(&name);
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(4).unwrap();
    let (status, body) = bench.put_after(&name, b"one\ntwo\n", b"three\n").await;
    assert_eq!((status, &body["code"], &body["offset"]), (409, &json!("offset"), &json!(4)));
    assert!(bench.incidents()[0].contains("was cut"), "{:?}", bench.incidents());
    assert_eq!(bench.put_after(&name, b"one\n", b"two\nthree\n").await.0, 200);
    assert_eq!(bench.stored(1, &name), b"one\ntwo\nthree\n");
}

/// `Tacho-Before` covers 4096 bytes at most.
#[tokio::test]
async fn long_files_are_compared_at_their_ends() {
    let bench = Bench::new();
    let name = lines(ONE);
    let text = b"0123456789abcdef".repeat(1000);
    assert_eq!(bench.put(&name, 0, &text).await.0, 200);
    let before = Before::of(&text[text.len() - 4096..]);
    let request = Request::put(&name, text.len() as u64, b"more\n");
    let request = request.header("tacho-before", &before.to_string());
    assert_eq!(bench.send(request).await.1["offset"], text.len() + 5);
}

#[tokio::test]
async fn a_path_that_is_not_text_is_a_bad_request() {
    let bench = Bench::new();
    for path in ["/api/v1/origins/%ff", "/api/v1/origins/%ff/heartbeat"] {
        let mut request = Request::get(path);
        if path.ends_with("heartbeat") {
            request = Request::post(path, b"{}");
        }
        let (status, body) = bench.send(request).await;
        assert_eq!((status, &body["code"]), (400, &json!("bad_request")), "{path}");
    }
}

/// Bodies that never come do not keep out those of other origins: each origin has few requests.
#[tokio::test]
async fn an_origin_has_only_so_many_requests_at_a_time() {
    let bench = Bench::new();
    let origin = "db1".parse().unwrap();
    let held: Vec<_> = (0..4).map(|_| bench.landing.admit(&origin).unwrap()).collect();
    for request in [
        Request::get("/api/v1/origins/db1"),
        Request::put(&lines(ONE), 0, b"one\n"),
        Request::post("/api/v1/origins/db1/heartbeat", b"{}"),
        Request::post("/api/v1/origins/db1/generations", b"{}"),
    ] {
        let (status, body) = bench.send(request).await;
        assert_eq!((status, &body["code"]), (429, &json!("too_many")), "{body}");
    }
    drop(held);
    assert_eq!(bench.put(&lines(ONE), 0, b"one\n").await.0, 200);
}
