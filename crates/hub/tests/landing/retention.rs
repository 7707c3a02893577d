//! Removals that are interrupted before each of their steps, and what shippers are answered about
//! removed files.

use std::collections::BTreeSet;

use serde_json::json;
use tacho_hub::hub_key;
use tacho_hub::landing::removed::Held;
use tacho_hub::retention::burial::Due;
use tacho_hub::retention::{Recorded, Step, Steps};
use tacho_store::FileKey;

use crate::bench::{Bench, ONE, TWO, chain, lines};

const LINE: &[u8] = b"{\"v\":1,\"seq\":1,\"ts\":\"2020-01-01T00:00:00.000000+00:00\"}\n";

fn steps(bench: &Bench, until: Step) -> Steps {
    let state = bench.state();
    Steps {
        key: hub_key::open(&state.data).unwrap(),
        data: state.data,
        database: state.database,
        landing: bench.landing.clone(),
        store: state.index.store().clone(),
        recorded: Recorded::default(),
        may_go_on: Box::new(move |step| step != until),
    }
}

/// Removes a file, as far as before a step.
async fn remove(bench: &Bench, generations: &[u64], until: Step) -> bool {
    let steps = steps(bench, until);
    let due = Due {
        origin: "db1".parse().unwrap(),
        stem: ONE.parse().unwrap(),
        generations: generations.iter().map(|generation| (*generation, None)).collect(),
        newest_us: 7,
        days: 30,
    };
    tokio::task::spawn_blocking(move || steps.remove(&[due]).is_ok()).await.unwrap()
}

async fn complete(bench: &Bench) {
    let steps = steps(bench, Step::Done);
    // The last step stops, so that nothing is left to stop at.
    tokio::task::spawn_blocking(move || drop(steps.complete())).await.unwrap();
}

/// A file of an origin that is due.
fn due(origin: &str) -> Due {
    Due {
        origin: origin.parse().unwrap(),
        stem: ONE.parse().unwrap(),
        generations: vec![(1, None)],
        newest_us: 7,
        days: 30,
    }
}

async fn filled() -> Bench {
    let bench = Bench::new();
    bench.put(&lines(ONE), 0, LINE).await;
    bench.put(&chain(ONE), 0, b"no entry\n").await;
    bench.put(&lines(TWO), 0, LINE).await;
    bench
}

fn index(bench: &Bench) -> tacho_hub::index::Index {
    bench.state().index
}

/// Waits until both files are indexed.
async fn indexed(bench: &Bench) {
    let mut changed = index(bench).changed();
    let done = |bench: &Bench| {
        [ONE, TWO].iter().all(|stem| {
            let (origin, file) = ("db1".to_owned(), lines(stem));
            let key = FileKey { origin, generation: 1, file };
            index(bench).store().indexed(&key).is_some_and(|it| it.offset == LINE.len() as u64)
        })
    };
    while !done(bench) {
        changed.changed().await.unwrap();
    }
}

fn is_there(bench: &Bench, stem: &str) -> [bool; 2] {
    [lines(stem), chain(stem)].map(|name| bench.path(1, &name).exists())
}

fn rows(bench: &Bench) -> u64 {
    index(bench).store().origins().get("db1").map_or(0, |totals| totals.records)
}

fn records(bench: &Bench) -> i64 {
    let select = "SELECT count(*) FROM audit_outbox WHERE entry LIKE '%hub.file_removed%'";
    let read = |connection: &rusqlite::Connection| connection.query_row(select, [], |it| it.get(0));
    bench.state().database.read(read).unwrap()
}

#[tokio::test]
async fn a_removal_is_completed_or_has_not_begun() {
    let steps = [Step::Bury, Step::Record, Step::Forget, Step::Unlink, Step::Done];
    for (number, step) in steps.into_iter().enumerate() {
        let bench = filled().await;
        indexed(&bench).await;
        assert!(!remove(&bench, &[1], step).await);
        let unlinked = step == Step::Done;
        assert_eq!(is_there(&bench, ONE), [!unlinked; 2], "{step:?}");
        assert_eq!(rows(&bench), if number > 2 { 1 } else { 2 }, "{step:?}");
        // Another process.
        let bench = bench.restarted();
        let begun = number > 0;
        let landed = bench.landed();
        assert_eq!(landed.iter().any(|it| it.contains(ONE)), !begun, "{step:?} {landed:?}");
        complete(&bench).await;
        assert_eq!(is_there(&bench, ONE), [!begun; 2], "{step:?}");
        assert_eq!(is_there(&bench, TWO), [true, false]);
        assert_eq!(rows(&bench), if begun { 1 } else { 2 }, "{step:?}");
        // The shipper is not asked for it again.
        let state = bench.get("/api/v1/origins/db1").await.1;
        let file = json!({"name": lines(ONE), "offset": LINE.len()});
        assert!(state["files"].as_array().unwrap().contains(&file), "{state}");
        assert_eq!(bench.stored(1, &lines(TWO)), LINE);
        // Once more changes nothing.
        complete(&bench).await;
        assert_eq!(rows(&bench), if begun { 1 } else { 2 });
    }
}

#[tokio::test]
async fn a_removal_is_recorded_at_least_once() {
    for step in [Step::Record, Step::Forget, Step::Unlink] {
        let bench = filled().await;
        indexed(&bench).await;
        remove(&bench, &[1], step).await;
        let bench = bench.restarted();
        complete(&bench).await;
        // What is in the database moves to the log of the hub within a second.
        until(|| records(&bench) > 0 || own_log(&bench).contains("hub.file_removed")).await;
    }
}

fn own_log(bench: &Bench) -> String {
    std::fs::read_dir(bench.data.path().join("audit"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

#[tokio::test]
async fn a_removed_file_answers_as_far_as_its_tombstone_knows() {
    let bench = filled().await;
    indexed(&bench).await;
    remove(&bench, &[1], Step::Done).await;
    let name = lines(ONE);
    let length = LINE.len() as u64;
    let stored = json!({"generation": 1, "offset": length});
    assert_eq!(bench.put(&name, 0, LINE).await, (200, stored.clone()));
    assert_eq!(bench.put_after(&name, LINE, b"").await, (200, stored));
    let other = LINE.to_ascii_uppercase();
    for answer in
        [bench.put_after(&name, &other, b"").await, bench.put_after(&name, LINE, b"x\n").await]
    {
        assert_eq!((answer.0, &answer.1["code"]), (409, &json!("contradiction")));
        assert_eq!(answer.1["offset"], length);
    }
    assert_eq!(bench.put(&name, length + 1, b"").await.1["code"], "offset");
    assert!(!bench.path(1, &name).exists());
}

#[tokio::test]
async fn a_new_generation_shares_tombstones_of_older_files() {
    let bench = filled().await;
    indexed(&bench).await;
    remove(&bench, &[1], Step::Done).await;
    let tombstones = bench.stored(1, "hub-removed.chain");
    let fork = json!({"after": 1, "reason": "different", "file": lines(TWO), "offset": LINE.len()});
    let (status, state) = bench.fork(&fork).await;
    let names = |state: &serde_json::Value| -> BTreeSet<String> {
        let files = state["files"].as_array().unwrap().iter();
        files.map(|file| file["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((status, names(&state)), (201, BTreeSet::from([lines(ONE), chain(ONE)])));
    assert_eq!(bench.stored(2, "hub-removed.chain"), tombstones);
    let bench = bench.restarted();
    assert_eq!(names(&bench.get("/api/v1/origins/db1").await.1).len(), 2);
    // The file itself contradicts: it is received again.
    let fork = json!({"after": 2, "reason": "different", "file": lines(ONE), "offset": LINE.len()});
    let (status, state) = bench.fork(&fork).await;
    assert_eq!((status, names(&state)), (201, BTreeSet::new()));
    assert_eq!(bench.put(&lines(ONE), 0, LINE).await.0, 200);
    assert_eq!(bench.stored(3, &lines(ONE)), LINE);
}

/// Generations share a file: it is removed from both, also if the hub dies between them.
#[tokio::test]
async fn a_shared_file_is_removed_from_all_generations() {
    for first in [&[1, 2][..], &[1], &[2]] {
        let bench = filled().await;
        indexed(&bench).await;
        let fork = json!({"after": 1, "reason": "different", "file": "removed.chain", "offset": 0});
        assert_eq!(bench.fork(&fork).await.0, 201);
        remove(&bench, first, Step::Record).await;
        let bench = bench.restarted();
        complete(&bench).await;
        for generation in [1, 2] {
            assert!(!bench.path(generation, &lines(ONE)).exists(), "{first:?} {generation}");
            assert!(!bench.path(generation, &chain(ONE)).exists(), "{first:?} {generation}");
            let list = bench.stored(generation, "hub-removed.chain");
            assert_eq!(String::from_utf8(list).unwrap().matches(ONE).count(), 1);
        }
        assert_eq!(rows(&bench), 1);
    }
}

#[tokio::test]
async fn a_torn_tombstone_is_cut_off() {
    let bench = filled().await;
    indexed(&bench).await;
    std::fs::write(bench.path(1, "hub-removed.chain"), "tachograph-hub-removed-v1\nserver")
        .unwrap();
    let bench = bench.restarted();
    assert_eq!(bench.landed().len(), 3);
    remove(&bench, &[1], Step::Done).await;
    let text = String::from_utf8(bench.stored(1, "hub-removed.chain")).unwrap();
    assert!(text.starts_with("tachograph-hub-removed-v1\nserver db1\n"), "{text}");
    let bench = bench.restarted();
    assert_eq!(bench.landed().len(), 1);
}

/// An index that was restored from an older copy still has the rows.
#[tokio::test]
async fn an_older_index_forgets_what_was_removed() {
    let bench = filled().await;
    indexed(&bench).await;
    let copy = tempfile::tempdir().unwrap();
    let store = bench.data.path().join("store");
    let status = std::process::Command::new("cp").arg("-a").arg(&store).arg(copy.path()).status();
    assert!(status.unwrap().success());
    remove(&bench, &[1], Step::Done).await;
    assert_eq!(rows(&bench), 1);
    let restore = move || {
        std::fs::remove_dir_all(&store).unwrap();
        let copied = copy.path().join("store");
        let status = std::process::Command::new("cp").arg("-a").arg(copied).arg(&store).status();
        assert!(status.unwrap().success());
    };
    let bench = bench.restarted_after(restore);
    assert_eq!(rows(&bench), 2);
    complete(&bench).await;
    assert_eq!(rows(&bench), 1);
}

/// As after a sync that failed: what is on the disk then may not be there after a power failure.
#[tokio::test]
async fn tombstones_that_were_not_synced_remove_nothing() {
    let bench = filled().await;
    indexed(&bench).await;
    remove(&bench, &[1], Step::Record).await;
    let (list, tombstones) = ("hub-removed.chain", bench.stored(1, "hub-removed.chain"));
    let path = bench.path(1, list);
    let bench = bench.restarted_after(|| std::fs::remove_file(&path).unwrap());
    std::fs::write(bench.path(1, list), tombstones).unwrap();
    complete(&bench).await;
    assert_eq!(is_there(&bench, ONE), [true; 2]);
    assert_eq!(rows(&bench), 2);
}

/// The log forks at a file while its removal is interrupted: the other file of the name stays.
#[tokio::test]
async fn another_file_of_the_name_is_not_removed_with_the_first() {
    let bench = filled().await;
    indexed(&bench).await;
    remove(&bench, &[1], Step::Record).await;
    let fork = json!({"after": 1, "reason": "different", "file": lines(ONE), "offset": LINE.len()});
    assert_eq!(bench.fork(&fork).await.0, 201);
    let other = LINE.to_ascii_uppercase();
    assert_eq!(bench.put(&lines(ONE), 0, &other).await.0, 200);
    assert_eq!(bench.put(&lines(TWO), 0, LINE).await.0, 200);
    let bench = bench.restarted();
    complete(&bench).await;
    assert_eq!(is_there(&bench, ONE), [false; 2]);
    assert_eq!(bench.stored(2, &lines(ONE)), other);
    assert!(!bench.path(2, "hub-removed.chain").exists());
}

/// A copy of the same bytes is removed, too, with what is known of the file.
#[tokio::test]
async fn a_tombstone_that_is_made_up_for_says_the_same() {
    let bench = filled().await;
    indexed(&bench).await;
    let fork = json!({"after": 1, "reason": "different", "file": "removed.chain", "offset": 0});
    assert_eq!(bench.fork(&fork).await.0, 201);
    remove(&bench, &[1], Step::Record).await;
    let bench = bench.restarted();
    complete(&bench).await;
    let list = String::from_utf8(bench.stored(2, "hub-removed.chain")).unwrap();
    assert!(list.contains("\nnewest 7\n") && list.contains("\ndays 30\n"), "{list}");
}

/// Bytes that arrive while a file is being read must not be unlinked with it.
#[tokio::test]
async fn a_tombstone_is_about_all_that_was_acknowledged() {
    let bench = filled().await;
    indexed(&bench).await;
    let state = bench.state();
    let key = hub_key::open(&state.data).unwrap();
    let origin = "db1".parse().unwrap();
    let directory = state.data.generation(&origin, 1);
    let burial = due("db1").read(&directory, 1, Held::default()).unwrap();
    assert_eq!(bench.put_after(&lines(ONE), LINE, b"more\n").await.0, 200);
    let landing = bench.landing.clone();
    let bury = move || landing.bury(&origin, &[burial], &key, 0);
    let error = tokio::task::spawn_blocking(bury).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("has changed"), "{error}");
    assert_eq!(bench.stored(1, &lines(ONE)), [LINE, b"more\n"].concat());
    assert!(!bench.path(1, "hub-removed.chain").exists());
    assert_eq!(bench.incidents(), [""; 0]);
}

/// A file that another program has cut is evidence. Other logs do not wait for it.
#[tokio::test]
async fn a_copy_that_was_cut_is_reported_and_stays() {
    for part in [lines(ONE), chain(ONE)] {
        let bench = filled().await;
        indexed(&bench).await;
        let replica = bench.data.path().join("replica");
        let (db1, db2) = (replica.join("db1"), replica.join("db2"));
        let bench = bench.restarted_after(move || {
            let status = std::process::Command::new("cp").arg("-a").args([db1, db2]).status();
            assert!(status.unwrap().success());
        });
        std::fs::write(bench.path(1, &part), "").unwrap();
        let steps = Steps { may_go_on: Box::new(|_| true), ..steps(&bench, Step::Done) };
        let remove = move || steps.remove(&[due("db1"), due("db2")]);
        let failures = tokio::task::spawn_blocking(remove).await.unwrap().unwrap();
        let failed: Vec<&str> = failures.keys().map(|origin| origin.as_str()).collect();
        assert_eq!(failed, ["db1"]);
        let [incident] = &bench.incidents()[..] else { panic!("{:?}", bench.incidents()) };
        assert!(incident.contains("was cut") && incident.contains(&part), "{incident}");
        assert_eq!(is_there(&bench, ONE), [true; 2]);
        assert!(!replica.join("db2/1").join(lines(ONE)).exists());
        assert!(replica.join("db2/1").join(lines(TWO)).exists());
    }
}

/// Repeats a question until the answer is yes.
async fn until(mut is_so: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !is_so() {
        assert!(begin.elapsed().as_secs() < 600, "it never was");
        tokio::task::yield_now().await;
    }
}

/// The disk, or a lock on a file, does not permit it. It is done later, and recorded once.
#[tokio::test]
async fn an_unlink_that_fails_is_reported_and_done_later() {
    let bench = filled().await;
    indexed(&bench).await;
    // A directory in the place of a form of the file: what unlink(2) does not remove.
    let obstacle = bench.path(1, &format!("{}.zst", lines(ONE)));
    std::fs::create_dir(&obstacle).unwrap();
    let steps = Steps { may_go_on: Box::new(|_| true), ..steps(&bench, Step::Done) };
    let path = obstacle.clone();
    let removing = tokio::task::spawn_blocking(move || {
        let failures = [steps.remove(&[due("db1")]), steps.complete(), steps.complete()];
        std::fs::remove_dir(&path).unwrap();
        (failures.map(Result::unwrap), steps.complete().unwrap())
    });
    let (failures, last) = removing.await.unwrap();
    for failure in failures {
        let text = failure.values().next().unwrap().to_string();
        assert!(
            text.contains("cannot remove") && text.contains(obstacle.to_str().unwrap()),
            "{text}"
        );
    }
    assert!(last.is_empty(), "{last:?}");
    // The other parts did not wait for it.
    assert_eq!(is_there(&bench, ONE), [false; 2]);
    assert_eq!(bench.stored(1, &lines(TWO)), LINE);
    assert_eq!(rows(&bench), 1);
    until(|| records(&bench) == 0).await;
    assert_eq!(own_log(&bench).matches("hub.file_removed").count(), 1);
    let bench = bench.restarted();
    assert_eq!(bench.landed().len(), 1);
    let state = bench.get("/api/v1/origins/db1").await.1;
    let file = json!({"name": lines(ONE), "offset": LINE.len()});
    assert!(state["files"].as_array().unwrap().contains(&file), "{state}");
}
