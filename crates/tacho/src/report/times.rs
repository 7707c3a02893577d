//! Durations of a group: a histogram whose memory depends on how many of its buckets are used.
//!
//! Buckets are log-linear, as in HdrHistogram and `crates/bench`: 64 for each power of two, so that
//! a value is known to 1.6 %, from 1 µs to the largest number. Most groups have few different
//! durations, so buckets are a sorted list until that would be larger than the array.

/// Buckets of a power of two, as a power of two.
const BITS: u32 = 6;
const PER_DOUBLING: u64 = 1 << BITS;

/// Buckets of a list; with more, the array is about as small.
const LISTED_MAX: usize = 192;

/// How often each duration occurred.
#[derive(Clone, Debug)]
pub struct Times(Buckets);

#[derive(Clone, Debug)]
enum Buckets {
    /// Buckets and their counts, in ascending order.
    Listed(Vec<(u16, u32)>),
    /// The count of each bucket, up to the largest one.
    Array(Vec<u64>),
}

impl Default for Times {
    fn default() -> Self {
        Self(Buckets::Listed(Vec::new()))
    }
}

/// The bucket of a duration.
fn bucket_of(us: u64) -> u16 {
    let doublings = (u64::BITS - us.leading_zeros()).saturating_sub(BITS + 1);
    // At most 58 doublings and two times 64 buckets.
    (u64::from(doublings) * PER_DOUBLING + (us >> doublings)) as u16
}

/// The largest duration of a bucket, µs.
fn upper_us(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    let doublings = (bucket / PER_DOUBLING).saturating_sub(1);
    let from = (bucket - doublings * PER_DOUBLING) << doublings;
    from + ((1 << doublings) - 1)
}

impl Times {
    /// Counts a duration.
    pub fn add(&mut self, us: u64) {
        self.add_many(bucket_of(us), 1);
    }

    fn add_many(&mut self, bucket: u16, count: u64) {
        if let Buckets::Listed(list) = &mut self.0 {
            let place = list.binary_search_by_key(&bucket, |(bucket, _)| *bucket);
            let sum = match place {
                Ok(at) => count.checked_add(list[at].1.into()),
                Err(_) => Some(count),
            };
            match (place, sum.and_then(|sum| u32::try_from(sum).ok())) {
                (Ok(at), Some(sum)) => return list[at].1 = sum,
                (Err(at), Some(sum)) if list.len() < LISTED_MAX => {
                    // Not twice as much as is needed: there may be millions of these lists.
                    if list.len() < 4 {
                        list.reserve_exact(1);
                    }
                    return list.insert(at, (bucket, sum));
                }
                _ => self.0 = Buckets::Array(array_of(list)),
            }
        }
        if let Buckets::Array(array) = &mut self.0 {
            let index = usize::from(bucket);
            if array.len() <= index {
                array.resize(index + 1, 0);
            }
            array[index] = array[index].saturating_add(count);
        }
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &Self) {
        other.each(|bucket, count| self.add_many(bucket, count));
    }

    fn each(&self, mut take: impl FnMut(u16, u64)) {
        match &self.0 {
            Buckets::Listed(list) => {
                list.iter().for_each(|(bucket, count)| take(*bucket, (*count).into()));
            }
            Buckets::Array(array) => {
                let used = array.iter().enumerate().filter(|(_, count)| **count > 0);
                used.for_each(|(bucket, count)| take(bucket as u16, *count));
            }
        }
    }

    /// The duration, µs, that a share `q` (0 to 1) of all do not exceed; `None` without durations.
    /// It is at most 1.6 % too large.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let mut total = 0;
        self.each(|_, count| total += count);
        if total == 0 {
            return None;
        }
        let wanted = ((q * total as f64).ceil() as u64).clamp(1, total);
        let (mut below, mut found) = (0, None);
        self.each(|bucket, count| {
            below += count;
            if below >= wanted && found.is_none() {
                found = Some(upper_us(bucket));
            }
        });
        found
    }
}

fn array_of(list: &[(u16, u32)]) -> Vec<u64> {
    let mut array = vec![0; list.last().map_or(0, |(bucket, _)| usize::from(*bucket) + 1)];
    for (bucket, count) in list {
        array[usize::from(*bucket)] = u64::from(*count);
    }
    array
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other() {
        assert_eq!(
            (bucket_of(0), bucket_of(127), bucket_of(128), bucket_of(130)),
            (0, 127, 128, 129)
        );
        for bucket in 1..=bucket_of(u64::MAX) {
            assert_eq!(bucket_of(upper_us(bucket)), bucket);
            assert_eq!(bucket_of(upper_us(bucket - 1) + 1), bucket);
        }
        assert_eq!(upper_us(bucket_of(u64::MAX)), u64::MAX);
    }

    proptest! {
        #[test]
        fn a_quantile_is_that_of_the_sorted_values(
            values in prop::collection::vec(
                prop_oneof![0..200_u64, 0..10_000_000_u64, any::<u64>()], 1..900),
            split in any::<prop::sample::Index>(),
            q in 0.0..=1.0_f64,
        ) {
            // In two, to test merging as well.
            let (left, right) = values.split_at(split.index(values.len()));
            let times = |values: &[u64]| {
                let mut times = Times::default();
                values.iter().for_each(|us| times.add(*us));
                times
            };
            let mut all = times(left);
            all.merge(&times(right));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).max(1);
            let exact = sorted[rank - 1];
            let found = all.quantile(q).expect("there are values");
            prop_assert!(found >= exact && found - exact <= exact / PER_DOUBLING, "{found} {exact}");
            prop_assert_eq!(times(&values).quantile(q), Some(found));
        }
    }

    #[test]
    fn counts_do_not_overflow_a_list() {
        let mut times = Times::default();
        times.add_many(3, u32::MAX.into());
        times.add(3);
        times.add(9);
        let mut all = Vec::new();
        times.each(|bucket, count| all.push((bucket, count)));
        assert_eq!(all, [(3, 1 << 32), (9, 1)]);
        assert_eq!(Times::default().quantile(0.5), None);
    }
}
