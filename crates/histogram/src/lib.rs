//! Zone: outside.
//!
//! How long statements took: a histogram that merges by addition.
//!
//! The hub's rollups have one in each row, in few bytes ([`encode`]). The query process adds them
//! up, and the hub reads percentiles from the sum. The format is specified in
//! `docs/specs/store.md`.
//!
//! Each power of two has 16 buckets of the same width, so a time is known to 1/32 of itself. Times
//! below 16 µs have a bucket each.

mod bytes;
mod text;

pub use bytes::encode;

/// Bits of the number of buckets in a power of two.
const PRECISION: u32 = 4;
/// Longer times (12 days) are counted as this long, µs.
const TIME_MAX_US: u64 = (1 << 40) - 1;
/// Number of buckets.
const BUCKETS: usize = bucket_of(TIME_MAX_US) as usize + 1;

/// The bucket of a time in µs.
pub const fn bucket_of(time_us: u64) -> u16 {
    let time_us = if time_us < TIME_MAX_US { time_us } else { TIME_MAX_US };
    let bits = u64::BITS - time_us.leading_zeros();
    let shift = bits.saturating_sub(PRECISION + 1);
    // At most 35 * 16 + 31.
    ((shift << PRECISION) as u64 + (time_us >> shift)) as u16
}

/// The middle of a bucket, in µs.
fn time_of_bucket(bucket: u64) -> u64 {
    let steps = 1 << PRECISION;
    let shift = (bucket / steps).saturating_sub(1);
    let low = (bucket - shift * steps) << shift;
    low + ((1 << shift) - 1) / 2
}

/// An encoded histogram or its text is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("a malformed histogram of statement times")
    }
}

impl std::error::Error for Malformed {}

/// How many statements took how long.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    /// By bucket; 5 KiB.
    counts: Box<[u64; BUCKETS]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]) }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Histogram({self})")
    }
}

impl Histogram {
    /// Counts a statement.
    pub fn add(&mut self, time_us: u64) {
        let count = &mut self.counts[usize::from(bucket_of(time_us))];
        *count = count.saturating_add(1);
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&*other.counts) {
            *count = count.saturating_add(*more);
        }
    }

    fn add_bucket(&mut self, bucket: u64, more: u64) -> Result<(), Malformed> {
        let index = usize::try_from(bucket).map_err(|_| Malformed)?;
        let count = self.counts.get_mut(index).ok_or(Malformed)?;
        *count = count.saturating_add(more);
        Ok(())
    }

    /// The buckets that are not empty, in ascending order, and their counts.
    fn pairs(&self) -> impl Iterator<Item = (u16, u64)> {
        let all = self.counts.iter().enumerate();
        // There are fewer than 2^16.
        all.filter(|(_, count)| **count > 0).map(|(bucket, &count)| (bucket as u16, count))
    }

    /// The time in µs that so many percent of the statements do not exceed: the middle of its
    /// bucket. `None`: there are no statements.
    pub fn percentile_us(&self, percent: u32) -> Option<u64> {
        let count = |count: u64| u128::from(count);
        let all: u128 = self.pairs().map(|(_, it)| count(it)).sum();
        let mut below = 0;
        for (bucket, it) in self.pairs() {
            below += count(it);
            if below * 100 >= all * u128::from(percent) {
                return Some(time_of_bucket(bucket.into()));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_in_order_and_narrow() {
        let mut last = 0;
        let times = (0..1_000).chain((10..40).flat_map(|bit| {
            let power = 1_u64 << bit;
            [power - 1, power, power + 1, power + power / 3, power * 2 - 1]
        }));
        for time_us in times {
            let bucket = bucket_of(time_us);
            assert!(bucket >= last, "{time_us}");
            last = bucket;
            let middle = time_of_bucket(bucket.into());
            assert!(middle.abs_diff(time_us) * 32 <= time_us, "{time_us}: {middle}");
            assert_eq!(bucket_of(middle), bucket);
        }
        assert_eq!(bucket_of(u64::MAX), 591);
        assert_eq!((bucket_of(15), bucket_of(16), bucket_of(31), bucket_of(32)), (15, 16, 31, 32));
    }

    #[test]
    fn no_statements_have_no_percentile() {
        assert_eq!(Histogram::default().percentile_us(50), None);
    }

    proptest! {
        #[test]
        fn a_percentile_is_that_of_the_sorted_times(
            times in prop::collection::vec(
                prop_oneof![0..200_u64, 0..10_000_000_u64, any::<u64>()], 1..300),
            split in any::<prop::sample::Index>(),
            percent in 1..=100_u32,
        ) {
            // In two, to test merging as well.
            let (left, right) = times.split_at(split.index(times.len()));
            let counted = |times: &[u64]| {
                let mut histogram = Histogram::default();
                times.iter().for_each(|&time_us| histogram.add(time_us));
                histogram
            };
            let mut all = counted(left);
            all.merge(&counted(right));
            let mut sorted = times.clone();
            sorted.sort_unstable();
            let rank = (times.len() * percent as usize).div_ceil(100);
            let wanted = time_of_bucket(bucket_of(sorted[rank - 1]).into());
            prop_assert_eq!(all.percentile_us(percent), Some(wanted));
        }
    }
}
