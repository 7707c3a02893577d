//! Rows of removed files leave the store, whatever segments they are in, and others stay.

use std::collections::BTreeSet;

use tacho_store::{FileKey, Forgotten, MergeOptions, Store, merge_step};

use crate::rows::records;
use crate::{FILE, Hub, line, lines, start};

fn key(origin: &str, generation: u32) -> FileKey {
    FileKey { origin: origin.to_owned(), generation, file: FILE.to_owned() }
}

fn forget(store: &Store, origin: &str) -> Forgotten {
    store.forget(&BTreeSet::from([key(origin, 1)])).unwrap()
}

fn servers(store: &Store) -> Vec<String> {
    let mut servers: Vec<String> = records(&store.snapshot())
        .iter()
        .map(|record| record.rsplit_once("\"server\":\"").unwrap().1[..3].to_owned())
        .collect();
    servers.sort();
    servers.dedup();
    servers
}

/// A store with three logs of 30 records, in segments of a level.
fn filled(hub: &Hub, level: u32) -> Store {
    let store = hub.open();
    let indexer = start(&store);
    for step in 0..3 {
        for origin in ["db1", "db2", "db3"] {
            let text = lines(step * 10 + 1..=step * 10 + 10);
            hub.append(&indexer, origin, 1, text.as_bytes());
        }
        indexer.flush();
    }
    let options = MergeOptions { fan_in: 2, settled_us: i64::MAX, ..MergeOptions::default() };
    for _ in 0..level {
        merge_step(&store, &options).unwrap();
    }
    assert_eq!(records(&store.snapshot()).len(), 90);
    store
}

#[test]
fn only_the_rows_of_removed_files_go() {
    for level in 0..3 {
        let hub = Hub::new();
        let store = filled(&hub, level);
        let before = records(&store.snapshot());
        let forgotten = forget(&store, "db2");
        assert_eq!(forgotten.rows["db2"], 30, "level {level}");
        assert!(forgotten.rewritten > 0);
        let is_kept = |record: &&String| !record.ends_with("\"server\":\"db2\"}");
        let mut kept: Vec<&String> = before.iter().filter(is_kept).collect();
        let after = records(&store.snapshot());
        let mut after: Vec<&String> = after.iter().collect();
        kept.sort();
        after.sort();
        assert_eq!(after, kept);
        assert_eq!(store.origins()["db2"].records, 0);
        assert_eq!(store.origins()["db1"].records, 30);
        // Again: nothing. Then all of the others.
        assert_eq!(forget(&store, "db2"), Forgotten::default());
        forget(&store, "db1");
        let last = forget(&store, "db3");
        assert_eq!((last.rewritten, store.snapshot().segments().count()), (0, 0));
        let files = std::fs::read_dir(store.segments_dir()).unwrap().count();
        assert_eq!(files, 1, "only the empty segment");
    }
}

#[test]
fn rollups_count_what_is_left() {
    let hub = Hub::new();
    let store = filled(&hub, 1);
    let bytes = |store: &Store| {
        let info = store.snapshot().segments().next().unwrap().clone();
        std::fs::read(store.segments_dir().join(format!("{:010}.minutes.parquet", info.id)))
            .unwrap()
    };
    forget(&store, "db2");
    forget(&store, "db3");
    // The same as those of a store that never had the other logs.
    let other = Hub::new();
    let alone = other.open();
    let indexer = start(&alone);
    for step in 0..3 {
        other.append(&indexer, "db1", 1, lines(step * 10 + 1..=step * 10 + 10).as_bytes());
        indexer.flush();
    }
    merge_step(&alone, &MergeOptions { fan_in: 2, ..MergeOptions::default() }).unwrap();
    let rows = |store: &Store| store.snapshot().segments().map(|it| it.rows).sum::<u64>();
    assert_eq!((rows(&store), rows(&alone)), (30, 30));
    assert_eq!(bytes(&store), bytes(&alone));
}

#[test]
fn a_removed_file_is_never_indexed_again() {
    let hub = Hub::new();
    let store = filled(&hub, 0);
    forget(&store, "db2");
    for _ in 0..2 {
        // Also after another start.
        let indexer = start(&store);
        hub.notify(&indexer, "db2", 1);
        indexer.flush();
        assert_eq!(indexer.report().behind_bytes, 0);
        assert_eq!(servers(&store), ["db1", "db3"]);
    }
    drop(store);
    let store = hub.open();
    assert!(store.is_forgotten(&key("db2", 1)) && store.rebuilt().is_none());
    let indexer = start(&store);
    hub.notify(&indexer, "db2", 1);
    indexer.flush();
    assert_eq!(servers(&store), ["db1", "db3"]);
}

#[test]
fn a_snapshot_keeps_what_it_has() {
    let hub = Hub::new();
    let store = filled(&hub, 1);
    let snapshot = store.snapshot();
    forget(&store, "db2");
    assert_eq!(records(&snapshot).len(), 90);
    drop(snapshot);
    assert_eq!(store.empty_trash().unwrap(), 0);
    assert_eq!(records(&store.snapshot()).len(), 60);
}

#[test]
fn a_file_that_is_there_again_is_indexed_again() {
    let hub = Hub::new();
    let store = filled(&hub, 1);
    forget(&store, "db2");
    forget(&store, "db3");
    store.keep_forgotten(&BTreeSet::from([key("db3", 1)])).unwrap();
    let indexer = start(&store);
    hub.notify(&indexer, "db2", 1);
    hub.notify(&indexer, "db3", 1);
    indexer.flush();
    assert_eq!(servers(&store), ["db1", "db2"]);
    assert_eq!(store.origins()["db2"].records, 30);
}

/// Retention removes a file by it: one line with an old time must not make the file older.
#[test]
fn a_file_has_the_latest_time_of_its_lines() {
    let hub = Hub::new();
    let store = hub.open();
    let indexer = start(&store);
    let old = line(4).replace("\"2026-", "\"2000-");
    for text in [lines(1..=3), old.clone(), format!("{old}not a record\n")] {
        hub.append(&indexer, "db1", 1, text.as_bytes());
        indexer.flush();
        let position = store.indexed(&key("db1", 1)).unwrap();
        assert_eq!(position.last_ts_us, 1_795_255_203_000_000, "{text}");
    }
}
