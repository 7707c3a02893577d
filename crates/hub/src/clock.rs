//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

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
