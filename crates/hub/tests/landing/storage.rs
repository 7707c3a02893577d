//! What is on the disk: shared files, the ends of files after a failure, and free space.

use std::os::unix::fs::MetadataExt as _;

use serde_json::json;
use std::time::Duration;
use tacho_hub::landing::Options;

use crate::bench::{Bench, ONE, TWO, lines};

/// A number that is the same as long as a file is not replaced by a copy.
fn inode(bench: &Bench, generation: u64, name: &str) -> u64 {
    bench.path(generation, name).metadata().unwrap().ino()
}

#[tokio::test]
async fn only_an_append_copies_a_shared_file() {
    let bench = Bench::new();
    let name = lines(ONE);
    bench.put(&name, 0, b"one\ntwo\n").await;
    let fork = json!({"after": 1, "reason": "different", "file": "removed.chain", "offset": 0});
    assert_eq!(bench.fork(&fork).await.0, 201);
    let shared = inode(&bench, 1, &name);
    assert_eq!(bench.put(&name, 1 << 62, b"").await.1["code"], "offset");
    assert_eq!(bench.put(&name, 0, b"ONE\n").await.1["code"], "contradiction");
    assert_eq!(bench.put_after(&name, b"one\ntwo\n", b"").await.0, 200);
    assert_eq!(inode(&bench, 2, &name), shared, "a request that stores nothing copies nothing");
    assert_eq!(bench.put_after(&name, b"one\ntwo\n", b"three\n").await.0, 200);
    assert_ne!(inode(&bench, 2, &name), shared);
    assert_eq!(bench.stored(1, &name), b"one\ntwo\n");
}

#[tokio::test]
async fn a_copy_needs_space_beside_the_reserve() {
    let bench = Bench::new();
    bench.put(&lines(TWO), 0, b"two\n").await;
    // Sparse: no byte of it on the disk. The copy does not fit by half of its length, because
    // others use and free some meanwhile.
    const LENGTH: u64 = 4 << 30;
    let name = lines(ONE);
    let free = tacho_hub::landing::free_bytes(bench.data.path()).unwrap();
    std::fs::File::create_new(bench.path(1, &name)).unwrap().set_len(LENGTH).unwrap();
    let reserve_bytes = free.saturating_sub(LENGTH / 2);
    let bench = bench.restarted_with(Options { reserve_bytes, ..Bench::options() });
    let fork = json!({"after": 1, "reason": "different", "file": "removed.chain", "offset": 0});
    assert_eq!(bench.fork(&fork).await.0, 201);
    let before = vec![0; 4096];
    let request = crate::bench::Request::put(&name, LENGTH, b"more\n");
    let before = tacho_ship::protocol::digest::Before::of(&before).to_string();
    let answer = bench.send(request.header("tacho-before", &before)).await;
    assert_eq!((answer.0, &answer.1["code"]), (507, &json!("disk_full")));
    let names = std::fs::read_dir(bench.path(2, "")).unwrap().count();
    assert_eq!(names, 2, "nothing unfinished is left");
}

#[tokio::test]
async fn an_unfinished_generation_is_removed_at_the_start() {
    let bench = Bench::new();
    bench.put(&lines(TWO), 0, b"one\n").await;
    let root = bench.data.path().join("replica/db1");
    let unfinished = root.join(".unfinished-2");
    std::fs::create_dir(&unfinished).unwrap();
    std::fs::hard_link(bench.path(1, &lines(TWO)), unfinished.join(lines(TWO))).unwrap();
    let bench = bench.restarted();
    assert!(!unfinished.exists());
    assert_eq!(bench.path(1, &lines(TWO)).metadata().unwrap().nlink(), 1);
}

/// A power failure can leave the length of an append that was not synced, without its bytes.
#[tokio::test]
async fn zeros_that_a_power_failure_leaves_are_no_bytes_of_a_log() {
    let bench = Bench::new();
    let name = lines(ONE);
    bench.put(&name, 0, b"one\n").await;
    bench.put(&lines(TWO), 0, b"two\n").await;
    let file = std::fs::OpenOptions::new().write(true).open(bench.path(1, &name)).unwrap();
    file.set_len(10_000).unwrap();
    let bench = bench.restarted();
    assert_eq!(bench.landed(), [format!("1 {name} 4"), format!("1 {} 4", lines(TWO))]);
    assert_eq!(bench.put_after(&name, b"one\n", b"two\n").await.0, 200);
    assert_eq!(bench.stored(1, &name), b"one\ntwo\n");
    assert!(bench.incidents().is_empty(), "{:?}", bench.incidents());
}

#[tokio::test]
async fn a_file_that_is_cut_to_nothing_is_new_again() {
    let bench = Bench::new();
    let name = lines(ONE);
    bench.put(&name, 0, b"one\n").await;
    std::fs::remove_file(bench.path(1, &name)).unwrap();
    assert_eq!(bench.put_after(&name, b"one\n", b"two\n").await.1["code"], "offset");
    let (_, state) = bench.get("/api/v1/origins/db1").await;
    assert_eq!(state["files"], json!([]));
    assert_eq!(bench.put(&name, 0, b"one\n").await.0, 200);
    assert_eq!(bench.stored(1, &name), b"one\n");
}

#[tokio::test]
async fn generations_in_which_a_file_got_nothing_are_not_published() {
    let bench = Bench::new();
    bench.put(&lines(ONE), 0, b"one\n").await;
    bench.put(&lines(TWO), 0, b"two\n").await;
    bench.put("removed.chain", 0, b"gone\n").await;
    for after in 1..=5 {
        if after == 3 {
            assert_eq!(bench.put_after(&lines(TWO), b"two\n", b"three\n").await.0, 200);
        }
        let fork =
            json!({"after": after, "reason": "different", "file": "removed.chain", "offset": 0});
        assert_eq!(bench.fork(&fork).await.0, 201);
    }
    let landed = [
        format!("1 {} 4", lines(ONE)),
        format!("1 {} 4", lines(TWO)),
        "1 removed.chain 5".to_owned(),
        format!("3 {} 10", lines(TWO)),
        format!("6 {} 4", lines(ONE)),
        format!("6 {} 10", lines(TWO)),
    ];
    assert_eq!(bench.landed(), landed);
    assert_eq!(bench.restarted().landed(), landed);
}

#[tokio::test]
async fn a_generation_needs_space_beside_the_reserve() {
    let bench = Bench::new();
    bench.put(&lines(ONE), 0, b"one\n").await;
    let bench = bench.restarted_with(Options { reserve_bytes: u64::MAX, ..Bench::options() });
    let fork = json!({"after": 1, "reason": "different", "file": lines(ONE), "offset": 4});
    let (status, body) = bench.fork(&fork).await;
    assert_eq!((status, &body["code"]), (507, &json!("disk_full")));
}

#[tokio::test]
async fn a_cut_is_published() {
    let bench = Bench::new();
    let name = lines(ONE);
    bench.put(&name, 0, b"one\ntwo\n").await;
    let subscription = bench.subscribe();
    assert!(!subscription.wait(Duration::ZERO)[0].was_cut);
    let file = std::fs::OpenOptions::new().write(true).open(bench.path(1, &name)).unwrap();
    file.set_len(4).unwrap();
    assert_eq!(bench.put_after(&name, b"one\ntwo\n", b"").await.1["code"], "offset");
    let news = subscription.wait(Duration::ZERO);
    assert_eq!((news[0].offset, news[0].was_cut), (4, true));
}
