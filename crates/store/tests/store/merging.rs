//! Merges divide rows of many hours, and yield to ingest.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use tacho_store::{MergeOptions, Merger, merge_step};

use crate::rows::records;
use crate::{Hub, expected, line, start};

/// More than a merge divides.
const HOURS: u64 = 40;

/// One line of each hour.
fn lines_of_hours(round: u64) -> String {
    let of_hour = |hour: u64| {
        let time = format!("2026-11-{:02}T{:02}:", 21 + hour / 24, hour % 24);
        line(round * HOURS + hour + 1).replace("2026-11-21T10:", &time)
    };
    (0..HOURS).map(of_hour).collect()
}

#[test]
fn rows_of_many_hours_are_divided_by_several_merges() {
    let hub = Hub::new();
    let store = hub.open();
    let indexer = start(&store);
    // Hours do not become one segment because they are over.
    let options = MergeOptions { fan_in: 3, settled_us: i64::MAX, ..MergeOptions::default() };
    let mut wanted = Vec::new();
    let mut divided = Vec::new();
    for round in 0..15 {
        let text = lines_of_hours(round);
        hub.append(&indexer, "db1", 1, text.as_bytes());
        indexer.flush();
        wanted.extend(text.lines().map(|line| expected(line, "db1")));
        while merge_step(&store, &options).unwrap().is_some() {}
        let mut found = records(&store.snapshot());
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted);
        let mut hours = BTreeSet::new();
        for info in store.snapshot().segments().filter(|info| info.level >= 2) {
            let [first, last] = [info.min_ts_us, info.max_ts_us].map(|us| us / 3_600_000_000);
            assert_eq!(first, last);
            hours.insert(first);
        }
        divided.push(hours.len());
    }
    // At first those with the most rows; what is left has more rows than others the next time.
    assert_eq!((divided[7], divided[8], divided[14]), (0, 32, HOURS as usize));
    let mixed = store.snapshot().segments().filter(|info| info.level < 2).count();
    assert_eq!(mixed, 1);
}

/// The name and the nice value of a thread, from its `stat`.
fn nice(stat: &str) -> Option<(&str, i32)> {
    let (head, rest) = stat.rsplit_once(") ")?;
    Some((head.split_once('(')?.1, rest.split(' ').nth(16)?.parse().ok()?))
}

/// Those of this process's threads of a name.
fn nice_of(name: &str) -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
    // A thread of another test may have ended.
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.join("stat")).ok());
    stats.filter_map(|stat| nice(&stat).filter(|it| it.0 == name).map(|it| it.1)).collect()
}

#[test]
fn the_merger_yields_to_ingest() {
    let hub = Hub::new();
    let store = hub.open();
    let indexer = start(&store);
    indexer.flush();
    let own = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let own = nice(&own).unwrap().1;
    assert!(nice_of("tacho-index").contains(&own));
    let merger = Merger::start(store, MergeOptions::default()).unwrap();
    // It lowers its priority itself when it runs.
    let deadline = Instant::now() + Duration::from_secs(60);
    while nice_of("tacho-merge").iter().all(|nice| *nice == own) && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(nice_of("tacho-merge"), [(own + 10).min(19)]);
    assert!(nice_of("tacho-index").iter().all(|nice| *nice == own));
    drop((merger, indexer));
}
