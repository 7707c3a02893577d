//! How the disk fills: from the files that are there, and the rate of the last days.
//!
//! The rate is that of the times of records, not of their arrival: a backlog that arrives at once
//! is no growth.

/// µs of a day.
pub const DAY_US: i64 = 86_400_000_000;
/// The rate is that of so many days.
const RATE_DAYS: i64 = 7;
/// How far a forecast looks, days.
const HORIZON_DAYS: usize = 3_650;

/// A file of a log: begin and end by the times of its records, µs since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Begin.
    pub from_us: i64,
    /// Time of the last record.
    pub to_us: i64,
    /// Bytes of all its copies on the disk.
    pub bytes: u64,
    /// The same when it is complete, and compressed.
    pub later_bytes: u64,
}

/// A log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Its files, the oldest first.
    pub files: Vec<Span>,
    /// Bytes of the index for it.
    pub index_bytes: u64,
    /// Its retention, days; 0: for ever.
    pub days: u64,
}

impl Growth {
    /// Bytes of its files.
    #[must_use]
    pub fn replica_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Bytes of log that a day adds, without those of the index.
    #[must_use]
    pub fn bytes_per_day(&self, now_us: i64) -> u64 {
        let Some(first) = self.files.first() else { return 0 };
        let known_us = now_us.saturating_sub(first.from_us);
        // The first hours of a log say little about a day.
        let window_us = known_us.clamp(DAY_US, RATE_DAYS * DAY_US);
        let from_us = now_us.saturating_sub(window_us);
        let bytes: u128 = self.files.iter().map(|file| file.bytes_since(from_us)).sum();
        let day = bytes * u128::from(DAY_US.unsigned_abs()) / u128::from(window_us.unsigned_abs());
        u64::try_from(day).unwrap_or(u64::MAX)
    }

    /// The same with those of the index.
    #[must_use]
    pub fn disk_bytes_per_day(&self, now_us: i64) -> u64 {
        self.with_index(self.bytes_per_day(now_us))
    }

    /// What it needs when as much is removed as arrives; `None`: it grows for ever.
    #[must_use]
    pub fn needed_bytes(&self, now_us: i64) -> Option<u64> {
        let rate = self.disk_bytes_per_day(now_us);
        (self.days > 0).then(|| rate.saturating_mul(self.days))
    }

    /// Bytes of the log with their share of the index.
    fn with_index(&self, bytes: u64) -> u64 {
        let replica: u64 = self.files.iter().map(|file| file.later_bytes).sum();
        let replica = u128::from(replica.max(1));
        let index = u128::from(bytes) * u128::from(self.index_bytes) / replica;
        bytes.saturating_add(u64::try_from(index).unwrap_or(u64::MAX))
    }

    /// Adds what is removed on each day from now on.
    fn removals(&self, now_us: i64, removed: &mut [u64]) {
        let Ok(days) = i64::try_from(self.days) else { return };
        if days == 0 {
            return;
        }
        let rate = self.disk_bytes_per_day(now_us);
        // Records that arrive from now on are removed after the retention.
        let later = usize::try_from(self.days).unwrap_or(usize::MAX);
        for day in removed.iter_mut().skip(later) {
            *day = day.saturating_add(rate);
        }
        for file in &self.files {
            let end_us = file.to_us.saturating_add(DAY_US.saturating_mul(days));
            let day = end_us.saturating_sub(now_us).max(0) / DAY_US;
            if let Some(day) = usize::try_from(day).ok().and_then(|day| removed.get_mut(day)) {
                *day = day.saturating_add(self.with_index(file.later_bytes));
            }
        }
    }
}

impl Span {
    /// The part of its bytes behind a time, if they came evenly.
    fn bytes_since(&self, from_us: i64) -> u128 {
        let bytes = u128::from(self.later_bytes);
        if self.from_us >= from_us {
            return bytes;
        }
        let length = u128::from(self.to_us.saturating_sub(self.from_us).max(1).unsigned_abs());
        let part = u128::from(self.to_us.saturating_sub(from_us).max(0).unsigned_abs());
        bytes * part / length
    }
}

/// In how many days the logs need more than `free_bytes`, if nothing changes; `None`: never, as far
/// as can be seen.
#[must_use]
pub fn full_in_days(logs: &[Growth], free_bytes: u64, now_us: i64) -> Option<u64> {
    let mut removed = vec![0_u64; HORIZON_DAYS];
    logs.iter().for_each(|log| log.removals(now_us, &mut removed));
    let rate: u64 =
        logs.iter().map(|log| log.disk_bytes_per_day(now_us)).fold(0, u64::saturating_add);
    let (mut added, mut gone) = (0_u64, 0_u64);
    for (day, removed) in (0..).zip(removed) {
        gone = gone.saturating_add(removed);
        added = added.saturating_add(rate);
        if added.saturating_sub(gone) > free_bytes {
            return Some(day);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_US: i64 = 1_000 * DAY_US;
    const MB: u64 = 1 << 20;

    /// A file of 10 MB for each of the last days.
    fn log(files: i64, days: u64) -> Growth {
        let file = |age: i64| Span {
            from_us: NOW_US - (age + 1) * DAY_US,
            to_us: NOW_US - age * DAY_US,
            bytes: 10 * MB,
            later_bytes: 10 * MB,
        };
        Growth { files: (0..files).rev().map(file).collect(), index_bytes: 0, days }
    }

    #[test]
    fn the_rate_is_that_of_the_last_week() {
        assert_eq!(log(30, 0).bytes_per_day(NOW_US), 10 * MB);
        assert_eq!(log(3, 0).bytes_per_day(NOW_US), 10 * MB);
        assert_eq!(log(0, 0).bytes_per_day(NOW_US), 0);
        // A log that has been quiet for 3 of 7 days, and a log that is an hour old.
        assert_eq!(log(30, 0).bytes_per_day(NOW_US + 3 * DAY_US), 40 * MB / 7);
        let span = |from_us, bytes| Span { from_us, to_us: NOW_US, bytes, later_bytes: bytes };
        let new = span(NOW_US - DAY_US / 24, MB);
        let new = Growth { files: vec![new], ..Growth::default() };
        assert_eq!(new.bytes_per_day(NOW_US), MB);
        // One old file that reaches into the week.
        let long = span(NOW_US - 70 * DAY_US, 70 * MB);
        let long = Growth { files: vec![long], ..Growth::default() };
        assert_eq!(long.bytes_per_day(NOW_US), MB);
    }

    /// The file that grows is still plain, and says nothing about a day.
    #[test]
    fn files_count_as_they_will_be_when_they_are_compressed() {
        let mut log = log(30, 10);
        for file in &mut log.files {
            file.bytes = 2 * MB;
            file.later_bytes = 2 * MB;
        }
        let newest = log.files.last_mut().unwrap();
        newest.bytes = 20 * MB;
        assert_eq!(log.replica_bytes(), 78 * MB);
        assert_eq!(log.bytes_per_day(NOW_US), 2 * MB);
        assert_eq!(log.needed_bytes(NOW_US), Some(20 * MB));
    }

    #[test]
    fn the_index_counts_as_much_as_it_does_now() {
        let log = Growth { index_bytes: 15 * MB, ..log(3, 100) };
        assert_eq!(log.disk_bytes_per_day(NOW_US), 15 * MB);
        assert_eq!(log.needed_bytes(NOW_US), Some(1_500 * MB));
        assert_eq!(Growth { days: 0, ..log }.needed_bytes(NOW_US), None);
    }

    #[test]
    fn a_disk_with_space_for_the_retention_is_never_full() {
        // 30 days of 10 MB are there; nothing more is needed.
        assert_eq!(full_in_days(&[log(30, 30)], 11 * MB, NOW_US), None);
        // 70 more days are needed, and there is space for 20 of them.
        assert_eq!(full_in_days(&[log(30, 100)], 200 * MB, NOW_US), Some(20));
        assert_eq!(full_in_days(&[log(30, 100)], 711 * MB, NOW_US), None);
        assert_eq!(full_in_days(&[log(30, 0)], 200 * MB, NOW_US), Some(20));
        // Two logs fill it twice as fast; one that is quiet does not.
        assert_eq!(full_in_days(&[log(30, 0), log(30, 0)], 200 * MB, NOW_US), Some(10));
        assert_eq!(full_in_days(&[log(30, 0)], 200 * MB, NOW_US + 90 * DAY_US), None);
    }
}
