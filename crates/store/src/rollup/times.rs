//! The buckets of statement times: a histogram that merges by addition.
//!
//! Each power of two has 16 buckets of the same width, so a value is known to 1/32 of itself.
//! Times below 16 µs have a bucket each. The number of a bucket is computed in integers, here and
//! in SQL: a statistic over rollups and one over records give the same result.

/// Bits of the number of buckets in a power of two.
const PRECISION: u32 = 4;
/// Longer times (12 days) are counted as this long, µs.
const TIME_MAX_US: u64 = (1 << 40) - 1;

/// The bucket of a time in µs.
pub fn bucket_of(time_us: u64) -> u16 {
    let time_us = time_us.min(TIME_MAX_US);
    let shift = time_us.max(1).ilog2().saturating_sub(PRECISION);
    // At most 35 * 16 + 31.
    ((shift << PRECISION) as u64 + (time_us >> shift)) as u16
}

/// The middle of a bucket, in µs.
pub fn time_of_bucket(bucket: u64) -> u64 {
    let steps = 1 << PRECISION;
    let shift = (bucket / steps).saturating_sub(1).min(40);
    let low = bucket.saturating_sub(shift * steps) << shift;
    low + ((1 << shift) - 1) / 2
}

/// The bucket of a column with µs, in SQL.
pub fn bucket_sql(column: &str) -> String {
    let time = format!("least({column}, {TIME_MAX_US}::UBIGINT)");
    // The logarithm of a number below 2^40 is exact enough that its whole part is right.
    let shift = format!(
        "greatest(floor(log2(greatest({time}, 1::UBIGINT)))::INTEGER - {PRECISION}, 0)::UBIGINT"
    );
    format!("(({shift}) * {} + ({time} >> {shift}))::USMALLINT", 1 << PRECISION)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
