//! What the verification says of a file that changes after it was read.

use std::time::{Duration, Instant};

use tacho_chain::verify::LogState;
use tacho_hub::clock::now_us;
use tacho_hub::hub_key;
use tacho_hub::landing::removed::Held;
use tacho_hub::verification::Verification;

use crate::bench::Bench;
use crate::recorder::{log, sealed, sidecar, stem};

/// Only a hang lasts this long; otherwise no test depends on time.
const PATIENCE: Duration = Duration::from_secs(600);

async fn until(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Retention asks for the state: what was true before a change must not be the answer after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_changes_has_no_state_until_it_is_read_again() {
    let bench = Bench::new();
    let state = bench.state();
    let key = hub_key::open(&state.data).unwrap().root();
    let verification = Verification::default();
    let landed = bench.subscribe();
    let _verifier = verification.start(state.data, state.database, landed, key).unwrap();
    let recorder = sealed();
    for (name, bytes) in &recorder.dir.0 {
        assert_eq!(bench.put(name, 0, bytes).await.0, 200, "{name}");
    }
    let (origin, first) = ("db1".parse().unwrap(), stem(1).parse().unwrap());
    let mut text = recorder.dir.0[&log(1)].clone();
    let chain = Some(recorder.dir.0[&sidecar(1)].len() as u64);
    let state_of = |text: &[u8]| {
        let held = Held { lines: Some(text.len() as u64), chain };
        verification.seal(&origin).and_then(|seal| seal.state_of(&first, held))
    };
    until(|| state_of(&text) == Some(LogState::Ok)).await;
    let line = b"{\"v\":1,\"seq\":9,\"ts\":\"2000-01-01T00:00:00.000000+00:00\"}\n";
    assert_eq!(bench.put_after(&log(1), &text, line).await.0, 200);
    text.extend(line);
    until(|| {
        let state = state_of(&text);
        assert!(state.is_none_or(|state| state >= LogState::Modified), "{state:?}");
        state.is_some()
    })
    .await;
    // Everything is read again only every few minutes.
    let before_us = now_us();
    assert_eq!(bench.put_after(&log(1), &text, line).await.0, 200);
    text.extend(line);
    until(|| verification.seal(&origin).is_some_and(|seal| seal.verified_us > before_us)).await;
    assert_eq!(state_of(&text), None);
}
