//! From pairs of blocks to figures: the median of paired ratios, its interval, and whether the
//! machine was quiet enough for a result.

use std::collections::BTreeMap;

use crate::histogram::Histogram;
use crate::lines::{DifferenceLine, FigureLine, LoadLine, Measured, MethodLine, ResultLine};
use crate::signed_rank;
use crate::stats::{self, Estimate, median};

/// Name of the figure that two servers side by side are compared by: [`Pairs::cpu_ratio`].
pub const CPU_PER_QUERY: &str = "cpu_us_per_query";

/// Name of the figure of throughput.
pub const QPS: &str = "qps";

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
    Figure { name: QPS, title: "queries/s", of: |m| Some(m.qps), decisive: true },
    Figure { name: "tps", title: "events/s", of: |m| m.tps, decisive: false },
    Figure {
        name: CPU_PER_QUERY,
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

/// Processor time of the server per event of the load, µs.
fn per_event(measured: &Measured) -> Option<f64> {
    let events = measured.events.filter(|events| *events > 0)?;
    Some(measured.events_cpu_s? * 1e6 / events as f64)
}

/// Two blocks that are compared: neighbours, or of two servers at the same time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pair {
    /// Without the method.
    pub off: Measured,
    /// With it.
    pub on: Measured,
}

/// How pairs come about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Design {
    /// Neighbouring blocks of one server: each pair has a ratio of its own.
    #[default]
    Neighbours,
    /// Blocks of two servers at the same time. Two pairs, between which the servers exchange their
    /// roles, have one ratio: the geometric mean, in which any difference of the servers cancels.
    SideBySide,
}

impl Design {
    /// Pairs in a round, which has one ratio.
    fn pairs_per_round(self) -> usize {
        match self {
            Self::Neighbours => 1,
            Self::SideBySide => 2,
        }
    }
}

/// All pairs of a method under a load.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// How they came about.
    pub design: Design,
    /// In the order of measurement.
    pub pairs: Vec<Pair>,
    /// Latencies of all blocks without the method.
    pub histogram_off: Histogram,
    /// Latencies of all blocks with it.
    pub histogram_on: Histogram,
}

impl Pairs {
    /// Without pairs yet.
    pub fn new(design: Design) -> Self {
        Self { design, ..Self::default() }
    }

    /// Complete rounds.
    pub fn rounds(&self) -> usize {
        self.pairs.len() / self.design.pairs_per_round()
    }

    /// A figure of a block. Two servers are compared by the events of the load where that counts
    /// them: these are read in the same instant as the processor time, and a server's own count of
    /// queries is not.
    fn value(&self, figure: &Figure, measured: &Measured) -> Option<f64> {
        let by_events = match figure.name {
            _ if self.design == Design::Neighbours => None,
            CPU_PER_QUERY => per_event(measured).zip(self.queries_per_event()).map(|(s, n)| s / n),
            QPS => measured.tps.zip(self.queries_per_event()).map(|(tps, n)| tps * n),
            _ => None,
        };
        by_events.or_else(|| (figure.of)(measured))
    }

    /// Of all blocks.
    fn queries_per_event(&self) -> Option<f64> {
        let blocks = || self.pairs.iter().flat_map(|pair| [&pair.off, &pair.on]);
        let events: u64 = blocks().map(|block| block.events).sum::<Option<u64>>()?;
        let queries: u64 = blocks().map(|block| block.queries).sum();
        (events > 0).then(|| queries as f64 / events as f64)
    }

    /// The mean over each round of what `of` makes of the values with and without the method. A
    /// round in which a value is missing or not finite has none.
    fn of_rounds(&self, figure: &Figure, of: fn(f64, f64) -> f64) -> Vec<f64> {
        let size = self.design.pairs_per_round();
        self.pairs
            .chunks_exact(size)
            .filter_map(|round| {
                let of_pair = |pair: &Pair| -> Option<f64> {
                    let Pair { off, on } = pair;
                    let value = of(self.value(figure, on)?, self.value(figure, off)?);
                    Some(value).filter(|value| value.is_finite())
                };
                let values: Vec<f64> = round.iter().filter_map(of_pair).collect();
                (values.len() == size).then(|| values.iter().sum::<f64>() / size as f64)
            })
            .collect()
    }

    /// The ratio on / off of a figure.
    fn ratio(&self, figure: &Figure) -> Option<Estimate> {
        match self.design {
            Design::Neighbours => {
                let mut ratios = self.of_rounds(figure, |on, off| on / off);
                ratios.retain(|ratio| *ratio > 0.0);
                stats::estimate(&ratios)
            }
            Design::SideBySide => {
                let logs = self.of_rounds(figure, |on, off| (on / off).ln());
                let Estimate { median, low, high } = signed_rank::estimate(&logs)?;
                Some(Estimate { median: median.exp(), low: low.exp(), high: high.exp() })
            }
        }
    }

    /// The difference on - off of a figure, if its rounds are symmetric.
    fn difference(&self, figure: &Figure) -> Option<DifferenceLine> {
        if self.design == Design::Neighbours {
            return None;
        }
        let Estimate { median, low, high } =
            signed_rank::estimate(&self.of_rounds(figure, |on, off| on - off))?;
        Some(DifferenceLine { estimate: median, low, high })
    }

    /// The ratio of processor time per query, with its interval.
    pub fn cpu_ratio(&self) -> Option<Estimate> {
        self.ratio(FIGURES.iter().find(|figure| figure.name == CPU_PER_QUERY)?)
    }

    fn medians(&self, figure: &Figure) -> (f64, f64) {
        let side = |of: fn(&Pair) -> &Measured| {
            let values: Vec<f64> =
                self.pairs.iter().filter_map(|pair| self.value(figure, of(pair))).collect();
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

/// Whether a figure of a result that decides about the whole run was withheld because of noise.
pub fn is_withheld(result: &ResultLine) -> bool {
    FIGURES
        .iter()
        .filter(|figure| figure.decisive)
        .any(|figure| result.figures.get(figure.name).is_some_and(|found| found.too_noisy))
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
        let Some((ratio, aa)) = pairs.ratio(figure).zip(floor.ratio(figure)) else { continue };
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
                difference: pairs.difference(figure).filter(|_| !too_noisy),
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
        pairs: pairs.rounds() as u32,
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

    #[test]
    fn an_incomplete_round_has_no_ratio() {
        let mut some = Pairs { design: Design::SideBySide, ..pairs(&[1.0; 7], 0.9) };
        assert_eq!(some.rounds(), 3);
        some.pairs[2].on.queries = 0;
        some.pairs[2].on.qps = 0.0;
        let qps = &FIGURES[0];
        assert_eq!(some.of_rounds(qps, |on, off| (on / off).ln()).len(), 2);
        assert_eq!(some.cpu_ratio(), None);
    }

    proptest! {
        // Thousands of resamples each: fewer cases than usual.
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// One of two servers is always slower, and the machine drifts: neither is in the ratio.
        #[test]
        fn exchanged_roles_cancel_what_the_servers_differ_in(
            speeds in prop::collection::vec((0.3..3.0f64, 0.3..3.0f64), 1..20),
            advantage in 0.5..2.0f64,
            cost in 0.5..1.5f64,
        ) {
            let half = |speed: f64, of_subject: f64, of_other: f64| Pair {
                off: measured(1e6 * speed * of_other, 10.0),
                on: measured(1e6 * speed * of_subject * cost, 10.0),
            };
            let rounds = speeds.iter().flat_map(|(first, second)| {
                [half(*first, advantage, 1.0), half(*second, 1.0, advantage)]
            });
            let mut found = Pairs::new(Design::SideBySide);
            found.pairs.extend(rounds);
            let ratio = found.ratio(&FIGURES[0]).expect("rounds");
            for value in [ratio.median, ratio.low, ratio.high] {
                prop_assert!((value / cost - 1.0).abs() < 1e-9);
            }
        }

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
