//! For Nagios, Icinga and other programs that run its plugins: one line with the state and the
//! performance data, further lines with all checks.

use std::collections::BTreeMap;

use super::report::{Health, Outcome, Report};
use super::show::number;
use super::spec::{Bad, Check, Metric, Unit};
use crate::tail::sanitize::sanitize;

/// The output of a plugin.
pub fn text(report: &Report) -> String {
    let state = report.state();
    let data = performance_data(report);
    let mut lines = vec![format!(
        "TACHO {} - {} | {data}",
        state.word().to_uppercase(),
        plain(&summary(report, state))
    )];
    for outcome in &report.outcomes {
        let text = format!("{} {}: {}", outcome.state.word(), outcome.check, outcome.text);
        lines.push(plain(&text));
    }
    lines.join("\n") + "\n"
}

/// What is not in order, the worst first.
fn summary(report: &Report, state: Health) -> String {
    let mut bad: Vec<&Outcome> = report.outcomes.iter().collect();
    if state == Health::Ok {
        bad.retain(|outcome| matches!(outcome.check, Check::Log | Check::Recorder | Check::Lag));
    } else {
        bad.retain(|outcome| outcome.state != Health::Ok);
        bad.sort_by_key(|outcome| std::cmp::Reverse(outcome.state.severity()));
    }
    let texts = bad.iter().map(|outcome| format!("{}: {}", outcome.check, outcome.text));
    texts.collect::<Vec<_>>().join("; ")
}

/// A `|` would begin the performance data.
fn plain(text: &str) -> String {
    sanitize(text).replace('|', "/")
}

fn performance_data(report: &Report) -> String {
    let checks: BTreeMap<Metric, Check> = Check::ALL
        .iter()
        .filter_map(|check| Some((check.spec().measure?.metric, *check)))
        .collect();
    let data = report.values.iter().map(|(metric, value)| {
        let spec = metric.spec();
        let unit = match spec.unit {
            Unit::Seconds => "s",
            Unit::Bytes => "B",
            Unit::Percent => "%",
            Unit::Counter => "c",
            Unit::Count | Unit::Flag => "",
        };
        let thresholds = checks.get(metric).map(|check| ranges(report, *check));
        format!("{}={}{unit}{}", spec.name, number(*value), thresholds.unwrap_or_default())
    });
    data.collect::<Vec<_>>().join(" ")
}

/// `;warn;crit`, as ranges of good values.
fn ranges(report: &Report, check: Check) -> String {
    let [warn, crit] = report.choice.of(check);
    if warn.is_none() && crit.is_none() {
        return String::new();
    }
    let is_below = check.spec().measure.is_some_and(|measure| measure.bad == Bad::Below);
    let range = |threshold: Option<f64>| match threshold {
        Some(value) if is_below => number(value) + ":",
        Some(value) => number(value),
        None => String::new(),
    };
    format!(";{};{}", range(warn), range(crit))
}
