//! What a figure says: a cost, an upper bound of one, or nothing.

use crate::figures::{CPU_PER_QUERY, Design, QPS};
use crate::lines::FigureLine;
use crate::signed_rank;

/// Fewer neighbouring pairs have no interval worth the name.
const PAIRS_MIN: u32 = 5;

/// What a method can cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// Queries per second: with an audit there may be fewer.
    Throughput,
    /// Processor time per query.
    Processor,
    /// The latency that 99 % of the events do not exceed.
    Latency,
}

impl Aspect {
    /// Its figure in the result lines.
    pub const fn figure(self) -> &'static str {
        match self {
            Self::Throughput => QPS,
            Self::Processor => CPU_PER_QUERY,
            Self::Latency => "p99_us",
        }
    }

    /// The two aspects of a run, the one that answers for it first. In an open loop the throughput
    /// is given, and two servers are compared by their processor time.
    pub fn of_run(is_open_loop: bool, design: Design) -> [Self; 2] {
        match design {
            Design::SideBySide => [Self::Processor, Self::Throughput],
            Design::Neighbours if is_open_loop => [Self::Processor, Self::Latency],
            Design::Neighbours => [Self::Throughput, Self::Processor],
        }
    }

    /// A ratio method / none as a cost in percent: positive is worse.
    fn cost(self, ratio: f64) -> f64 {
        match self {
            Self::Throughput => (1.0 - ratio) * 100.0,
            Self::Processor | Self::Latency => (ratio - 1.0) * 100.0,
        }
    }

    /// The ends of an interval of ratios as costs, the smaller one first.
    pub fn costs(self, low: f64, high: f64) -> (f64, f64) {
        let (one, other) = (self.cost(low), self.cost(high));
        (one.min(other), one.max(other))
    }
}

/// A cost in percent, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The estimate.
    pub percent: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
}

/// What a figure says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CostVerdict {
    /// The cost, or the gain if it is negative, is neither zero nor the noise of the machine.
    Known(Cost),
    /// No cost was found, and it is not above `bound` percent.
    AtMost {
        /// Percent.
        bound: f64,
        /// What was measured.
        cost: Cost,
    },
    /// The figure says nothing.
    Unknown(Doubt),
}

/// Why a figure says nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// The A/A interval is wider than the limit.
    Noisy,
    /// So many pairs or rounds have no interval; this many would.
    TooFew {
        /// There are.
        found: u32,
        /// At least.
        wanted: u32,
    },
    /// The interval has zero, or the noise of the machine, and a cost above the limit in it.
    Wide(Cost),
}

/// What a figure says about an aspect, with `noise_max` as in the settings.
pub fn judge(
    aspect: Aspect,
    figure: &FigureLine,
    pairs: u32,
    design: Design,
    noise_max: f64,
) -> CostVerdict {
    let (Some(ratio), Some(low), Some(high)) = (figure.ratio, figure.low, figure.high) else {
        return CostVerdict::Unknown(Doubt::Noisy);
    };
    let wanted = match design {
        Design::Neighbours => PAIRS_MIN,
        Design::SideBySide => signed_rank::VALUES_MIN as u32,
    };
    if pairs < wanted {
        return CostVerdict::Unknown(Doubt::TooFew { found: pairs, wanted });
    }
    let percent = aspect.cost(ratio);
    let (low, high) = aspect.costs(low, high);
    let cost = Cost { percent, low, high };
    // What the server compared with itself shows, too, has not been measured.
    let (floor_low, floor_high) = aspect.costs(figure.floor_low, figure.floor_high);
    let in_noise = (floor_low..=floor_high).contains(&percent);
    if !in_noise && !(low..=high).contains(&0.0) {
        return CostVerdict::Known(cost);
    }
    let bound = high.max(floor_high);
    if bound <= noise_max * 100.0 {
        CostVerdict::AtMost { bound, cost }
    } else {
        CostVerdict::Unknown(Doubt::Wide(cost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(ratio: [f64; 3], floor: [f64; 2]) -> FigureLine {
        let [low, ratio, high] = ratio.map(Some);
        let [floor_low, floor_high] = floor;
        FigureLine {
            ratio,
            low,
            high,
            floor_low,
            floor_high,
            on: 1.0,
            off: 1.0,
            too_noisy: false,
            difference: None,
        }
    }

    fn of(aspect: Aspect, ratio: [f64; 3], floor: [f64; 2]) -> CostVerdict {
        match judge(aspect, &figure(ratio, floor), 15, Design::Neighbours, 0.1) {
            // Readable in the tests.
            CostVerdict::Known(cost) => CostVerdict::Known(rounded(cost)),
            CostVerdict::AtMost { bound, cost } => {
                CostVerdict::AtMost { bound: tenth(bound), cost: rounded(cost) }
            }
            CostVerdict::Unknown(Doubt::Wide(cost)) => {
                CostVerdict::Unknown(Doubt::Wide(rounded(cost)))
            }
            other => other,
        }
    }

    fn tenth(value: f64) -> f64 {
        (value * 10.0).round() / 10.0
    }

    fn rounded(cost: Cost) -> Cost {
        Cost { percent: tenth(cost.percent), low: tenth(cost.low), high: tenth(cost.high) }
    }

    const QUIET: [f64; 2] = [0.995, 1.005];

    #[test]
    fn fewer_queries_and_more_processor_time_are_costs() {
        let known = CostVerdict::Known(Cost { percent: 3.0, low: 2.0, high: 4.0 });
        assert_eq!(of(Aspect::Throughput, [0.96, 0.97, 0.98], QUIET), known);
        assert_eq!(of(Aspect::Processor, [1.02, 1.03, 1.04], QUIET), known);
        let gain = CostVerdict::Known(Cost { percent: -3.0, low: -4.0, high: -2.0 });
        assert_eq!(of(Aspect::Throughput, [1.02, 1.03, 1.04], QUIET), gain);
    }

    #[test]
    fn an_interval_with_zero_is_a_bound() {
        let cost = Cost { percent: 0.5, low: -1.0, high: 2.0 };
        let found = of(Aspect::Throughput, [0.98, 0.995, 1.01], QUIET);
        assert_eq!(found, CostVerdict::AtMost { bound: 2.0, cost });
    }

    #[test]
    fn what_the_server_against_itself_shows_is_no_cost() {
        let cost = Cost { percent: 2.0, low: 1.0, high: 2.5 };
        let found = of(Aspect::Throughput, [0.975, 0.98, 0.99], [0.97, 1.03]);
        assert_eq!(found, CostVerdict::AtMost { bound: 3.0, cost });
    }

    #[test]
    fn a_wide_interval_with_zero_says_nothing() {
        let cost = Cost { percent: 5.0, low: -2.0, high: 12.0 };
        let found = of(Aspect::Processor, [0.98, 1.05, 1.12], QUIET);
        assert_eq!(found, CostVerdict::Unknown(Doubt::Wide(cost)));
        // However wide, an interval without zero is a finding.
        let found = of(Aspect::Processor, [1.06, 1.15, 1.3], QUIET);
        assert_eq!(found, CostVerdict::Known(Cost { percent: 15.0, low: 6.0, high: 30.0 }));
    }

    #[test]
    fn too_few_pairs_and_withheld_figures_say_nothing() {
        let good = figure([0.96, 0.97, 0.98], QUIET);
        for (design, pairs, wanted) in [(Design::Neighbours, 4, 5), (Design::SideBySide, 5, 6)] {
            let found = judge(Aspect::Throughput, &good, pairs, design, 0.1);
            assert_eq!(found, CostVerdict::Unknown(Doubt::TooFew { found: pairs, wanted }));
            let found = judge(Aspect::Throughput, &good, wanted, design, 0.1);
            assert!(matches!(found, CostVerdict::Known(_)), "{found:?}");
        }
        let withheld = FigureLine { ratio: None, low: None, high: None, too_noisy: true, ..good };
        let found = judge(Aspect::Throughput, &withheld, 15, Design::Neighbours, 0.1);
        assert_eq!(found, CostVerdict::Unknown(Doubt::Noisy));
    }
}
