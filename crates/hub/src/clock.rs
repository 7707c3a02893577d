//! The time of day.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Now, µs since 1970-01-01 UTC. A clock before that year counts as 1970.
#[must_use]
pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A time as RFC 3339 in UTC with µs. One that no calendar has becomes the nearest that it has.
#[must_use]
pub fn rfc3339(us: i64) -> String {
    let time = jiff::Timestamp::from_microsecond(us);
    let end = if us < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    format!("{:.6}", time.unwrap_or(end))
}

/// A moment: on a clock that only goes forward, for durations, and on that of the machine, which
/// may be set, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// µs since the process began to measure.
    #[serde(skip)]
    pub steady_us: i64,
    /// µs since 1970-01-01 UTC.
    pub wall_us: i64,
}

impl Moment {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        let steady_us = i64::try_from(START.elapsed().as_micros()).unwrap_or(i64::MAX);
        Self { steady_us, wall_us: now_us() }
    }

    /// The same time on both clocks, for tests.
    #[must_use]
    pub fn at(us: i64) -> Self {
        Self { steady_us: us, wall_us: us }
    }

    /// Time since another moment, µs.
    #[must_use]
    pub fn since_us(&self, earlier: &Self) -> i64 {
        self.steady_us.saturating_sub(earlier.steady_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_microseconds() {
        assert_eq!(rfc3339(1_795_230_185_000_000), "2026-11-21T03:03:05.000000Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999999Z");
        assert!(rfc3339(i64::MAX).starts_with("9999-"));
    }
}
