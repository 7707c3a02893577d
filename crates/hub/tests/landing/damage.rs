//! Compressed log files that were cut, changed, or replaced by something else.

use serde_json::json;
use tacho_replica::ENDING;

use crate::bench::{ONE, TWO, chain, lines};
use crate::compression::{compress, content, filled, forms, put_after, send, text};

/// Another program has cut it, or the disk has lost a part: the shipper sends it again.
#[tokio::test]
async fn a_damaged_file_is_reported_and_shipped_again() {
    let text = text();
    let bench = filled(&text).await;
    compress(&bench).await;
    let path = bench.path(1, &(lines(ONE) + ENDING));
    let good = std::fs::read(&path).unwrap();
    // In a frame: what is there is not what was acknowledged.
    let mut changed = good.clone();
    changed[1000] ^= 1;
    let bench = bench.restarted_after(|| std::fs::write(&path, &changed).unwrap());
    assert_eq!(bench.put(&lines(ONE), 0, &text[..100]).await.1["code"], "contradiction");
    // Of its table nothing is left.
    let bench = bench.restarted_after(|| std::fs::write(&path, &good).unwrap());
    assert_eq!(bench.put(&lines(ONE), 0, &text[..100]).await.0, 200);
    std::fs::write(&path, &good[..good.len() - 1]).unwrap();
    let bench = bench.restarted();
    let (_, state) = bench.get("/api/v1/origins/db1").await;
    assert_eq!(state["files"][0]["name"], chain(ONE), "it has no bytes: {state}");
    send(&bench, &lines(ONE), &text).await;
    assert!(bench.stored(1, &lines(ONE)) == text);
    // The plain file takes its place.
    let bench = bench.restarted();
    compress(&bench).await;
    assert!(content(&bench.path(1, &lines(ONE))) == text);
}

#[tokio::test]
async fn a_file_that_is_cut_while_the_hub_runs_is_an_incident() {
    let text = text();
    for is_open in [false, true] {
        let bench = filled(&text).await;
        compress(&bench).await;
        if is_open {
            assert_eq!(put_after(&bench, &lines(ONE), &text, b"").await.0, 200);
        }
        let path = bench.path(1, &(lines(ONE) + ENDING));
        std::fs::write(&path, b"").unwrap();
        let answer = put_after(&bench, &lines(ONE), &text, b"").await;
        assert_eq!((&answer.1["code"], &answer.1["offset"]), (&json!("offset"), &json!(0)));
        assert!(bench.incidents()[0].contains("was cut"), "{:?}", bench.incidents());
    }
}

/// What was acknowledged is not there any more: the shipper begins another generation.
#[tokio::test]
async fn more_of_a_damaged_file_is_a_contradiction() {
    let text = text();
    let bench = filled(&text).await;
    compress(&bench).await;
    let path = bench.path(1, &(lines(ONE) + ENDING));
    let mut changed = std::fs::read(&path).unwrap();
    changed[1000] ^= 1;
    std::fs::write(&path, &changed).unwrap();
    let answer = put_after(&bench, &lines(ONE), &text, b"more\n").await;
    assert_eq!((answer.0, &answer.1["code"]), (409, &json!("contradiction")));
    assert_eq!(forms(&bench, 1), [false, true]);
    assert!(!bench.path(1, &format!(".unfinished-{}", lines(ONE))).exists());
}

/// The newest file is compressed where the files after it belong to a former generation.
#[tokio::test]
async fn a_damaged_file_keeps_no_hub_from_starting() {
    let text = text();
    let bench = filled(&text).await;
    compress(&bench).await;
    let path = bench.path(1, &(lines(ONE) + ENDING));
    let good = std::fs::read(&path).unwrap();
    let mut changed = good.clone();
    // In the last frame, which has the newest line.
    changed[good.len() - 2000] ^= 1;
    let fork = json!({"after": 1, "reason": "different", "file": lines(TWO), "offset": 4});
    let bench = bench.restarted_after(|| std::fs::write(&path, &changed).unwrap());
    assert_eq!(bench.fork(&fork).await.0, 201);
    let bench = bench.restarted();
    assert!(bench.landed().contains(&format!("2 {} {}", lines(ONE), text.len())));
}

#[tokio::test]
async fn what_is_no_file_keeps_no_hub_from_starting() {
    let text = text();
    for make in ["mkdir", "mkfifo"] {
        let bench = filled(&text).await;
        compress(&bench).await;
        let path = bench.path(1, &(lines(ONE) + ENDING));
        let bench = bench.restarted_after(|| {
            std::fs::remove_file(&path).unwrap();
            assert!(std::process::Command::new(make).arg(&path).status().unwrap().success());
        });
        assert!(!bench.landed().iter().any(|it| it.contains(&lines(ONE))), "{make}");
        send(&bench, &lines(ONE), &text).await;
        assert!(bench.stored(1, &lines(ONE)) == text, "{make}");
    }
}
