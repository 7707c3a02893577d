//! The words of an answer.

use std::fmt;

use super::verdict::{Aspect, Cost, CostVerdict, Doubt};
use crate::lines::{FigureLine, RunLine};
use crate::table::grouped;

/// A sentence around the number that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phrase {
    /// Up to the number.
    pub before: String,
    /// The number with its interval and unit. Empty if there is none.
    pub number: String,
    /// After the number.
    pub after: String,
}

impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.before, self.number, self.after)
    }
}

/// The title of a method at the beginning of a sentence.
pub(super) fn as_subject(title: &str) -> String {
    // A name such as init_connect stays as it is.
    let is_name = title.split(' ').next().is_some_and(|word| word.contains('_'));
    let mut letters = title.chars();
    let title = match letters.next() {
        Some(first) if !is_name => first.to_uppercase().chain(letters).collect(),
        _ => title.to_owned(),
    };
    if title.contains(',') { format!("“{title}”") } else { title }
}

/// The sentence about an aspect of a method; `here` for the answer of the run.
pub(super) fn sentence(
    aspect: Aspect,
    verdict: &CostVerdict,
    subject: &str,
    here: bool,
    baseline: Option<&str>,
) -> Phrase {
    let here = if here { " here" } else { "" };
    let end = baseline.map_or_else(|| ".".to_owned(), |other| format!(", compared with {other}."));
    let (number, is_gain, at_most) = match verdict {
        CostVerdict::Known(cost) if cost.percent < 0.0 => {
            (with_interval(&cost.negated()), true, "")
        }
        CostVerdict::Known(cost) => (with_interval(cost), false, ""),
        CostVerdict::AtMost { bound, .. } => (rounded_up(*bound), false, "at most "),
        CostVerdict::Unknown(doubt) => {
            let what = match doubt {
                Doubt::TooFew { .. } => "Too few blocks",
                Doubt::Noisy | Doubt::Wide(_) => "Too noisy",
            };
            let subject = format!("{what} to say what {subject} costs{here}");
            return Phrase { before: subject, number: String::new(), after: end };
        }
    };
    let (before, after) = match (aspect, is_gain) {
        (Aspect::Throughput, false) => ("costs ", " of throughput"),
        (Aspect::Throughput, true) => ("has ", " more throughput"),
        (Aspect::Processor, false) => ("takes ", " more processor time per query"),
        (Aspect::Processor, true) => ("takes ", " less processor time per query"),
        (Aspect::Latency, false) => ("lengthens the p99 latency by ", ""),
        (Aspect::Latency, true) => ("shortens the p99 latency by ", ""),
    };
    Phrase {
        before: format!("{subject} {before}{at_most}"),
        number,
        after: format!("{after}{here}{end}"),
    }
}

/// The sentence about the other aspect.
pub(super) fn second(aspect: Aspect, verdict: &CostVerdict) -> String {
    if let CostVerdict::Unknown(_) = verdict {
        let what = match aspect {
            Aspect::Throughput => "Throughput",
            Aspect::Processor => "Processor time per query",
            Aspect::Latency => "p99 latency",
        };
        return format!("{what}: {}.", short(verdict));
    }
    sentence(aspect, verdict, "It", false, None).to_string()
}

/// A verdict beside the name of its method.
pub(super) fn short(verdict: &CostVerdict) -> String {
    match verdict {
        CostVerdict::Known(cost) if cost.percent < 0.0 => {
            format!("gains {}", with_interval(&cost.negated()))
        }
        CostVerdict::Known(cost) => format!("costs {}", with_interval(cost)),
        CostVerdict::AtMost { bound, .. } => format!("at most {}", rounded_up(*bound)),
        CostVerdict::Unknown(Doubt::Noisy) => "too noisy to say".to_owned(),
        CostVerdict::Unknown(Doubt::TooFew { found, wanted }) => {
            format!("too few blocks to say ({found} of {wanted})")
        }
        CostVerdict::Unknown(Doubt::Wide(cost)) => {
            format!("too noisy to say: {}", between(cost.low, cost.high))
        }
    }
}

/// What to do if there is no answer.
pub(super) fn advice(
    run: &RunLine,
    aspect: Aspect,
    verdict: &CostVerdict,
    figure: &FigureLine,
) -> String {
    let settings = &run.settings;
    let better = match &settings.side_by_side {
        Some(_) => "Use a quieter machine, or measure more rounds (--pairs, --max-time).",
        None if run.server.private => {
            "Use --side-by-side or a quieter machine, measure more (--pairs 40, --block 3s), or \
             count instructions (--instructions)."
        }
        None => "Use a quieter machine, or measure more (--pairs 40, --block 3s).",
    };
    let what = match aspect {
        Aspect::Throughput => "throughput",
        Aspect::Processor => "processor time per query",
        Aspect::Latency => "p99 latency",
    };
    match verdict {
        CostVerdict::Unknown(Doubt::TooFew { found, wanted }) => {
            let measured = match found {
                1 => "1 was".to_owned(),
                found => format!("{found} were"),
            };
            format!("An interval needs {wanted} pairs or rounds (--pairs); {measured} measured.")
        }
        CostVerdict::Unknown(Doubt::Wide(cost)) => {
            format!("The cost in {what} is {}. {better}", between(cost.low, cost.high))
        }
        _ => {
            let percent = |ratio: f64| (ratio - 1.0) * 100.0;
            format!(
                "The {what} of the server compared with itself differs by {} to {}; the limit is \
                 ±{} (--noise-max). {better}",
                signed(percent(figure.floor_low)),
                signed(percent(figure.floor_high)),
                trimmed(settings.noise_max * 100.0),
            )
        }
    }
}

/// Added instructions, and their share of those without the method.
pub(super) fn added(count: u64, none: u64) -> (String, String) {
    let added = count as i64 - none as i64;
    (grouped(added), percent(added as f64 * 100.0 / none.max(1) as f64))
}

/// A cost with its interval: `3.1 % ± 1.2`, where the ends are symmetric enough for that.
fn with_interval(cost: &Cost) -> String {
    let width = (cost.high - cost.percent).max(cost.percent - cost.low);
    // The wider side of a skewed interval may reach beyond zero, where the interval does not.
    let digits = digits(cost.percent);
    let number = |value: f64| rounded(value, digits);
    if width < cost.percent {
        format!("{} % ± {}", number(cost.percent), number(width.max(0.1)))
    } else {
        format!("{} % ({} to {})", number(cost.percent), number(cost.low), number(cost.high))
    }
}

fn between(low: f64, high: f64) -> String {
    format!("between {} and {}", signed(low), signed(high))
}

fn rounded_up(value: f64) -> String {
    percent(((value * 10.0 - 1e-6).ceil() / 10.0).max(0.1))
}

fn percent(value: f64) -> String {
    format!("{} %", number(value))
}

/// With its sign.
fn signed(value: f64) -> String {
    let value = if value.abs() < 0.05 { 0.0 } else { value };
    format!("{}{}", if value > 0.0 { "+" } else { "" }, percent(value))
}

/// Without a needless fraction.
fn trimmed(value: f64) -> String {
    let text = number(value);
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

fn number(value: f64) -> String {
    rounded(value, digits(value))
}

/// One digit after the point, up to a hundred.
fn digits(value: f64) -> usize {
    usize::from(value.abs() < 99.95)
}

fn rounded(value: f64, digits: usize) -> String {
    format!("{value:.digits$}").replace('-', "−")
}

impl Cost {
    fn negated(&self) -> Self {
        Self { percent: -self.percent, low: -self.high, high: -self.low }
    }
}
