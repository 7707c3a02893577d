//! Says how far an index is that is built again.

use std::time::{Duration, Instant};

use tacho_ship::words::megabytes;
use tacho_store::Report;

use crate::say::say;

/// Time between two messages.
const EVERY: Duration = Duration::from_secs(30);

/// A rebuild, until it is done.
pub struct Rebuild {
    said_at: Instant,
    /// Bytes that were indexed at the last message.
    bytes: u64,
}

impl Rebuild {
    /// Begins, for this reason.
    pub fn begin(reason: &str) -> Self {
        say(&format!("the index is deleted and built again from the replica: {reason}"));
        Self { said_at: Instant::now(), bytes: 0 }
    }

    /// Looks at what the indexer has done. `false`: everything that was there is indexed.
    pub fn is_running(&mut self, report: &Report) -> bool {
        if report.bytes == 0 {
            return true;
        }
        if report.behind_bytes == 0 {
            say(&format!("the index is complete: {} records", report.records));
            return false;
        }
        if self.said_at.elapsed() >= EVERY && report.bytes > self.bytes {
            (self.said_at, self.bytes) = (Instant::now(), report.bytes);
            say(&format!("the index has {}", so_far(report)));
        }
        true
    }
}

/// The part of the replica that is indexed, for people.
#[must_use]
pub fn so_far(report: &Report) -> String {
    megabytes(report.bytes, Some(report.bytes + report.behind_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_nothing_is_left() {
        let mut rebuild = Rebuild::begin("a test");
        let report = |bytes, behind_bytes| Report { bytes, behind_bytes, ..Report::default() };
        assert!(rebuild.is_running(&report(0, 0)));
        assert!(rebuild.is_running(&report(5_000_000, 15_000_000)));
        assert!(!rebuild.is_running(&report(20_000_000, 0)));
        assert_eq!(so_far(&report(5_000_000, 15_000_000)), "5 MB of 20 MB");
    }
}
