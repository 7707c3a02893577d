//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, µs since 1970-01-01 UTC. A clock before that year counts as 1970.
#[must_use]
pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
