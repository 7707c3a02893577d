//! Waits until a condition is true. A deadline only ends a test that has failed.

use std::thread;
use std::time::{Duration, Instant};

/// Much longer than necessary: the machine may be busy with other tests.
pub const DEADLINE: Duration = Duration::from_secs(600);

/// Waits until the condition is true.
///
/// # Panics
/// It never was.
pub fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_true() {
        assert!(Instant::now() < deadline, "still waiting until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the number has not changed for a while; returns it.
///
/// # Panics
/// It never settled.
pub fn until_steady(what: &str, mut number: impl FnMut() -> u64) -> u64 {
    let mut last = number();
    let mut same_count = 0;
    until(what, || {
        let now = number();
        same_count = if now == last { same_count + 1 } else { 0 };
        last = now;
        same_count >= 100
    });
    last
}
