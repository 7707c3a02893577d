//! The center of a few noisy values that lie symmetrically around it, with its interval.
//!
//! [`estimate`] is the Hodges–Lehmann estimator: the median of the averages of all pairs of values,
//! each value with itself included. Up to 29 % of the values can be arbitrarily wrong (of a median,
//! up to half), but under normal noise it needs a third fewer values for the same precision. Its
//! interval inverts Wilcoxon's signed-rank test: it is exact for every symmetric distribution of
//! noise, and takes no random numbers. It becomes wide, not wrong, if many values are outliers.
//!
//! It is for values that are symmetric by construction. Ratios of two servers that exchange their
//! roles are: whatever disturbs one half of a round may as well disturb the other.

use crate::stats::{Estimate, median};

/// Fewer values have no interval of [`CONFIDENCE`]: all of them lie on one side of the center with
/// a probability above 5 %.
pub const VALUES_MIN: usize = 6;

/// Probability that the interval contains the center.
const CONFIDENCE: f64 = 0.95;

/// From this many values on the normal approximation of the ranks replaces their distribution.
const EXACT_MAX: usize = 100;

/// Of a normal distribution: 97.5 % are below.
const NORMAL_QUANTILE: f64 = 1.959_964;

/// The center of `values` and its interval; of fewer than [`VALUES_MIN`] values the interval is
/// their range, with less confidence. `None` without values, or if one is not finite.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut averages = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (index, one) in values.iter().enumerate() {
        averages.extend(values[index..].iter().map(|other| f64::midpoint(*one, *other)));
    }
    averages.sort_by(f64::total_cmp);
    // Both ends are as far from theirs.
    let outside = averages_outside(values.len());
    Some(Estimate {
        median: median(&averages),
        low: averages[outside],
        high: averages[averages.len() - 1 - outside],
    })
}

/// How many of the averages lie on either side of the interval: the largest sum of signed ranks
/// that is exceeded with at least 97.5 %.
fn averages_outside(count: usize) -> usize {
    let tail = (1.0 - CONFIDENCE) / 2.0;
    if count > EXACT_MAX {
        let n = count as f64;
        let mean = n * (n + 1.0) / 4.0;
        let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        return (mean - NORMAL_QUANTILE * deviation).floor() as usize;
    }
    let mut cumulated = 0.0;
    for (sum, probability) in rank_sums(count).into_iter().enumerate() {
        cumulated += probability;
        if cumulated > tail {
            return sum.saturating_sub(1);
        }
    }
    0
}

/// Probability of each sum of the ranks 1 to `count`, each of which counts with probability 1/2.
fn rank_sums(count: usize) -> Vec<f64> {
    let mut sums = vec![0.0; count * (count + 1) / 2 + 1];
    sums[0] = 1.0;
    for rank in 1..=count {
        for sum in (0..sums.len()).rev() {
            let with = sum.checked_sub(rank).map_or(0.0, |rest| sums[rest]);
            sums[sum] = f64::midpoint(sums[sum], with);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Noise from a fixed seed.
    struct Noise(u64);

    impl Noise {
        fn even(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        }

        /// Nearly.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.even()).sum::<f64>() - 6.0
        }

        /// With the long tails of a shared machine: one of ten values is tenfold.
        fn of_a_machine(&mut self) -> f64 {
            let noise = self.normal();
            if self.even() < 0.1 { 10.0 * noise } else { noise }
        }
    }

    #[test]
    fn the_critical_values_are_those_of_the_tables() {
        // Wilcoxon's signed-rank test, two-sided, 5 %.
        let tables =
            [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89)];
        for (count, critical) in tables {
            assert_eq!(averages_outside(count), critical, "{count}");
        }
        assert_eq!((1..=5).map(averages_outside).max(), Some(0));
        let exact = averages_outside(EXACT_MAX) as f64;
        let approximate = averages_outside(EXACT_MAX + 1) as f64;
        assert!((1.0..1.05).contains(&(approximate / exact)), "{exact} {approximate}");
    }

    #[test]
    fn few_values() {
        assert_eq!(estimate(&[]), None);
        assert_eq!(estimate(&[1.0, f64::INFINITY]), None);
        assert_eq!(estimate(&[2.0]), Some(Estimate { median: 2.0, low: 2.0, high: 2.0 }));
        let found = estimate(&[1.0, 2.0, 9.0]).expect("values");
        assert_eq!(found, Estimate { median: 3.5, low: 1.0, high: 9.0 });
    }

    #[test]
    fn an_interval_covers_the_center_whatever_the_tails() {
        for kind in [Noise::normal, Noise::of_a_machine] {
            let mut noise = Noise(7);
            let covered = (0..400)
                .filter(|_| {
                    let values: Vec<f64> = (0..16).map(|_| 5.0 + kind(&mut noise)).collect();
                    let found = estimate(&values).expect("values");
                    found.low <= 5.0 && 5.0 <= found.high
                })
                .count();
            // 95 % of 400 is 380, and chance alone makes that 367 to 393.
            assert!((365..=395).contains(&covered), "{covered} of 400");
        }
    }

    #[test]
    fn under_normal_noise_it_is_narrower_than_a_median() {
        let mut noise = Noise(7);
        let (mut width, mut width_of_median) = (0.0, 0.0);
        for _ in 0..100 {
            let values: Vec<f64> = (0..16).map(|_| noise.normal()).collect();
            let found = estimate(&values).expect("values");
            width += found.high - found.low;
            let plain = crate::stats::estimate(&values).expect("values");
            width_of_median += plain.high - plain.low;
        }
        assert!(width < 0.95 * width_of_median, "{width} {width_of_median}");
    }

    /// A run ends as soon as the interval is narrow, which is more often when chance has made it
    /// narrow.
    #[test]
    fn stopping_early_keeps_most_of_the_confidence() {
        let mut noise = Noise(11);
        let covered = (0..400)
            .filter(|_| {
                let mut values: Vec<f64> = (0..8).map(|_| noise.of_a_machine()).collect();
                loop {
                    let found = estimate(&values).expect("values");
                    if found.high - found.low < 1.0 || values.len() == 40 {
                        return found.low <= 0.0 && 0.0 <= found.high;
                    }
                    values.push(noise.of_a_machine());
                }
            })
            .count();
        assert!(covered >= 360, "{covered} of 400");
    }

    proptest! {
        #[test]
        fn an_interval_holds_its_center(values in prop::collection::vec(-9.0..9.0f64, 1..40)) {
            let found = estimate(&values).expect("values");
            prop_assert!(found.low <= found.median && found.median <= found.high);
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(least <= found.low && found.high <= most);
            prop_assert_eq!(Some(found), estimate(&values));
        }

        #[test]
        fn mirrored_values_have_the_mirrored_center(
            values in prop::collection::vec(-9.0..9.0f64, 1..40),
        ) {
            let mirrored: Vec<f64> = values.iter().map(|value| -value).collect();
            let (one, other) = (estimate(&values).unwrap(), estimate(&mirrored).unwrap());
            prop_assert_eq!((one.low, one.high), (-other.high, -other.low));
            prop_assert!((one.median + other.median).abs() < 1e-12);
        }

        #[test]
        fn few_wrong_values_move_it_only_among_the_others(
            good in prop::collection::vec(0.9..1.1f64, 16..40),
            wrong in prop::collection::vec(-1e6..1e6f64, 0..4),
        ) {
            let values: Vec<f64> = good.iter().chain(&wrong).copied().collect();
            let found = estimate(&values).expect("values").median;
            prop_assert!((0.9..1.1).contains(&found), "{}", found);
        }
    }
}
