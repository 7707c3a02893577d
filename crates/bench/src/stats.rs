//! Statistics of a few noisy ratios: their median, and its confidence interval.

/// Share of the resamples that lie in the interval.
const CONFIDENCE: f64 = 0.95;

/// Enough for the ends of a 95 % interval to be reproducible to the third digit.
const RESAMPLES: usize = 4000;

/// The middle value; NaN without values.
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[odd / 2],
        even => f64::midpoint(values[even / 2 - 1], values[even / 2]),
    }
}

/// A median and its interval of 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Median of the values.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// The median of `values` with a bootstrap interval: the middle 95 % of medians of resamples with
/// replacement. It assumes nothing about the distribution of noise, which has long tails on a
/// shared machine.
///
/// The same values give the same interval: the resamples come from a fixed seed.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut random = SplitMix(values.len() as u64);
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let sample: Vec<f64> =
                values.iter().map(|_| values[random.below(values.len())]).collect();
            median(&sample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let at = |share: f64| medians[((RESAMPLES - 1) as f64 * share).round() as usize];
    Some(Estimate { median: median(values), low: at(tail), high: at(1.0 - tail) })
}

/// Sebastiano Vigna's SplitMix64.
#[derive(Debug)]
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, even enough for bounds far below 2^64.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn medians_of_few() {
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert!(median(&[]).is_nan());
        assert_eq!(estimate(&[]), None);
        assert_eq!(estimate(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn an_interval_covers_the_truth_with_its_confidence() {
        // 200 experiments of 15 values around 1, evenly spread: the median is 1.
        let mut random = SplitMix(42);
        let mut noise = || 0.9 + 0.2 * random.below(1_000_000) as f64 / 1e6;
        let covered = (0..200)
            .filter(|_| {
                let values: Vec<f64> = (0..15).map(|_| noise()).collect();
                let found = estimate(&values).expect("values");
                found.low <= 1.0 && 1.0 <= found.high
            })
            .count();
        // 95 % of 200 is 190; chance alone makes that 184 to 196, small samples a little less.
        assert!((176..=199).contains(&covered), "{covered} of 200");
    }

    proptest! {
        // Thousands of resamples each: fewer cases than usual.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn an_interval_holds_its_median(values in prop::collection::vec(0.01..100.0f64, 1..40)) {
            let found = estimate(&values).expect("values");
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            prop_assert!(least <= found.low && found.high <= most);
            prop_assert!(found.low <= found.median && found.median <= found.high);
            prop_assert_eq!(Some(found), estimate(&values));
        }

        #[test]
        fn an_interval_scales_with_its_values(
            values in prop::collection::vec(0.1..10.0f64, 1..40),
        ) {
            let doubled: Vec<f64> = values.iter().map(|value| value * 2.0).collect();
            let (one, two) = (estimate(&values).unwrap(), estimate(&doubled).unwrap());
            prop_assert_eq!((one.low * 2.0, one.median * 2.0, one.high * 2.0),
                            (two.low, two.median, two.high));
        }

        #[test]
        fn equal_values_leave_no_doubt(value in 0.1..10.0f64, count in 1..40usize) {
            let found = estimate(&vec![value; count]).expect("values");
            prop_assert_eq!(found, Estimate { median: value, low: value, high: value });
        }
    }
}
