//! From pairs of blocks to figures: the median of paired ratios, its interval, and whether the
//! machine was quiet enough for a result.

use std::collections::BTreeMap;

use crate::histogram::Histogram;
use crate::lines::{FigureLine, LoadLine, Measured, MethodLine, ResultLine};
use crate::stats::{Estimate, estimate, median};

/// A figure of a block.
#[derive(Debug)]
pub struct Figure {
    /// Its name in the result lines.
    pub name: &'static str,
    /// The displayed title.
    pub title: &'static str,
    /// Its value in a block.
    of: fn(&Measured) -> Option<f64>,
    /// Whether noise in it invalidates the whole run.
    pub decisive: bool,
}

/// All figures.
pub const FIGURES: [Figure; 10] = [
    Figure { name: "qps", title: "queries/s", of: |m| Some(m.qps), decisive: true },
    Figure { name: "tps", title: "events/s", of: |m| m.tps, decisive: false },
    Figure {
        name: "cpu_us_per_query",
        title: "CPU per query, µs",
        of: |m| per_query(m, m.cpu?.total_s * 1e6),
        decisive: true,
    },
    Figure {
        name: "query_cpu_us_per_query",
        title: "of query threads",
        of: |m| per_query(m, m.cpu?.query_s * 1e6),
        decisive: false,
    },
    Figure {
        name: "sys_us_per_query",
        title: "in the kernel",
        of: |m| per_query(m, m.cpu?.sys_s * 1e6),
        decisive: false,
    },
    Figure {
        name: "switches_per_query",
        title: "context switches",
        of: |m| {
            let cpu = m.cpu?;
            per_query(m, (cpu.voluntary_switches + cpu.involuntary_switches) as f64)
        },
        decisive: false,
    },
    Figure { name: "p50_us", title: "p50, µs", of: |m| Some(m.latency?.p50_us), decisive: false },
    Figure { name: "p95_us", title: "p95, µs", of: |m| Some(m.latency?.p95_us), decisive: false },
    Figure { name: "p99_us", title: "p99, µs", of: |m| Some(m.latency?.p99_us), decisive: false },
    Figure {
        name: "p999_us",
        title: "p99.9, µs",
        of: |m| Some(m.latency?.p999_us),
        decisive: false,
    },
];

/// Points of a latency curve: shares of the events.
const CURVE: [f64; 17] = [
    0.1, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99, 0.995, 0.9975, 0.999, 0.9995, 0.9999,
    0.99999, 1.0,
];

fn per_query(measured: &Measured, amount: f64) -> Option<f64> {
    (measured.queries > 0).then(|| amount / measured.queries as f64)
}

/// Two adjacent blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pair {
    /// Without the method.
    pub off: Measured,
    /// With it.
    pub on: Measured,
}

/// All pairs of a method under a load.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// In the order of measurement.
    pub pairs: Vec<Pair>,
    /// Latencies of all blocks without the method.
    pub histogram_off: Histogram,
    /// Latencies of all blocks with it.
    pub histogram_on: Histogram,
}

impl Pairs {
    /// Ratios on / off of a figure. A pair in which one side is missing or zero has none.
    fn ratios(&self, figure: &Figure) -> Vec<f64> {
        self.pairs
            .iter()
            .filter_map(|pair| Some((figure.of)(&pair.on)? / (figure.of)(&pair.off)?))
            .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
            .collect()
    }

    fn medians(&self, figure: &Figure) -> (f64, f64) {
        let side = |of: fn(&Pair) -> &Measured| {
            let values: Vec<f64> =
                self.pairs.iter().filter_map(|pair| (figure.of)(of(pair))).collect();
            median(&values)
        };
        (side(|pair| &pair.off), side(|pair| &pair.on))
    }
}

/// Whether an A/A interval is too wide for a figure.
fn is_too_noisy(floor: &Estimate, noise_max: f64) -> bool {
    // As ratios, so that double and half are the same distance.
    floor.high > 1.0 + noise_max || floor.low < 1.0 / (1.0 + noise_max)
}

/// The result of a method, next to `floor`, the A/A pairs that were measured in the same way.
pub fn result(
    load: LoadLine,
    method: &MethodLine,
    pairs: &Pairs,
    floor: &Pairs,
    noise_max: f64,
) -> ResultLine {
    let mut figures = BTreeMap::new();
    for figure in &FIGURES {
        let found = estimate(&pairs.ratios(figure)).zip(estimate(&floor.ratios(figure)));
        let Some((ratio, aa)) = found else { continue };
        let too_noisy = is_too_noisy(&aa, noise_max);
        let (off, on) = pairs.medians(figure);
        let told = |value: f64| (!too_noisy).then_some(value);
        figures.insert(
            figure.name.to_owned(),
            FigureLine {
                ratio: told(ratio.median),
                low: told(ratio.low),
                high: told(ratio.high),
                floor_low: aa.low,
                floor_high: aa.high,
                on,
                off,
                too_noisy,
            },
        );
    }
    // If it is unknown once, the total is unknown.
    let per_query = |of: fn(&Measured) -> Option<u64>| {
        let queries: u64 = pairs.pairs.iter().map(|pair| pair.on.queries).sum();
        let sum: Option<u64> = pairs.pairs.iter().map(|pair| of(&pair.on)).sum();
        sum.filter(|_| queries > 0).map(|sum| sum as f64 / queries as f64)
    };
    ResultLine {
        load,
        method: method.name.clone(),
        switch: method.switch,
        pairs: pairs.pairs.len() as u32,
        figures,
        latency_curve: curve(&pairs.histogram_on),
        latency_curve_off: curve(&pairs.histogram_off),
        log_bytes_per_query: per_query(|on| on.bytes_written.or(on.log_bytes)),
        records_per_query: per_query(|on| on.records_written),
    }
}

fn curve(histogram: &Histogram) -> Vec<(f64, f64)> {
    let total = histogram.total() as f64;
    CURVE
        .iter()
        // A share of fewer than ten events is chance.
        .filter(|share| (1.0 - **share) * total >= 10.0)
        .filter_map(|share| Some((*share, histogram.quantile(*share)? / 1e3)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::Latency;
    use crate::method::Switch;
    use proptest::prelude::*;

    fn measured(qps: f64, p99_us: f64) -> Measured {
        let latency = Latency { p50_us: 1.0, p95_us: 2.0, p99_us, p999_us: 4.0 };
        Measured { queries: qps as u64, qps, latency: Some(latency), ..Measured::default() }
    }

    /// Pairs on a machine with these speeds, and a method that makes it `cost` times as fast.
    fn pairs(speeds: &[f64], cost: f64) -> Pairs {
        let pair = |speed: &f64| Pair {
            off: measured(1e6 * speed, 10.0),
            on: measured(1e6 * speed * cost, 10.0 / cost),
        };
        Pairs { pairs: speeds.iter().map(pair).collect(), ..Pairs::default() }
    }

    fn result_of(pairs: &Pairs, floor: &Pairs) -> ResultLine {
        let load = LoadLine { workload: "w".to_owned(), threads: 1, rate: None };
        let method =
            MethodLine { name: "m".to_owned(), title: "M".to_owned(), switch: Switch::Live };
        result(load, &method, pairs, floor, 0.1)
    }

    #[test]
    fn a_noisy_floor_withholds_only_its_own_figure() {
        let mut floor = pairs(&[1.0; 9], 1.0);
        for (index, pair) in floor.pairs.iter_mut().enumerate() {
            pair.on.latency.as_mut().unwrap().p99_us *= if index % 2 == 0 { 2.0 } else { 0.5 };
        }
        let result = result_of(&pairs(&[1.0; 9], 0.8), &floor);
        let (qps, p99) = (&result.figures["qps"], &result.figures["p99_us"]);
        assert_eq!((qps.ratio, qps.too_noisy), (Some(0.8), false));
        assert_eq!((p99.ratio, p99.low, p99.high, p99.too_noisy), (None, None, None, true));
        assert!(!result.figures.contains_key("tps"), "there is no such figure");
    }

    #[test]
    fn a_log_with_an_unknown_size_has_no_figure() {
        let mut some = pairs(&[1.0; 3], 1.0);
        some.pairs.iter_mut().for_each(|pair| pair.on.log_bytes = Some(2_000_000));
        let floor = pairs(&[1.0; 3], 1.0);
        assert_eq!(result_of(&some, &floor).log_bytes_per_query, Some(2.0));
        some.pairs[1].on.log_bytes = None;
        assert_eq!(result_of(&some, &floor).log_bytes_per_query, None);
    }

    #[test]
    fn records_that_are_written_later_show() {
        let floor = pairs(&[1.0; 9], 1.0);
        let mut lagging = pairs(&[1.0; 9], 0.9);
        assert_eq!(result_of(&lagging, &floor).records_per_query, None);
        for pair in &mut lagging.pairs {
            pair.on.records_written = Some(pair.on.queries / 2);
        }
        assert_eq!(result_of(&lagging, &floor).records_per_query, Some(0.5));
    }

    proptest! {
        // Thousands of resamples each: fewer cases than usual.
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn drift_of_the_machine_is_not_in_the_ratio(
            speeds in prop::collection::vec(0.3..3.0f64, 1..30),
            cost in 0.2..1.5f64,
        ) {
            let result = result_of(&pairs(&speeds, cost), &pairs(&[1.0; 5], 1.0));
            let qps = &result.figures["qps"];
            for ratio in [qps.ratio, qps.low, qps.high] {
                prop_assert!((ratio.expect("a quiet floor") / cost - 1.0).abs() < 1e-9);
            }
        }

        #[test]
        fn the_guard_is_the_same_upwards_and_downwards(width in 0.0..0.5f64) {
            let floor = |low: f64, high: f64| Estimate { median: 1.0, low, high };
            let up = is_too_noisy(&floor(1.0, 1.0 + width), 0.1);
            let down = is_too_noisy(&floor(1.0 / (1.0 + width), 1.0), 0.1);
            prop_assert!(up == down || (width - 0.1).abs() < 1e-9);
            prop_assert_eq!(up, 1.0 + width > 1.1);
        }
    }
}
