//! The result in each format.

use serde::Serialize;
use tacho_record::time::TimeFormatter;

use super::nagios;
use super::prometheus;
use super::report::{Health, Report};
use crate::cli::StatusFormat;
use crate::say;
use crate::tail::sanitize::sanitize;

/// The result as the text of a file or of stdout.
pub fn render(report: &Report, format: StatusFormat) -> String {
    match format {
        StatusFormat::Text => text(report),
        StatusFormat::Nagios => nagios::text(report),
        StatusFormat::Prometheus => prometheus::text(report),
        StatusFormat::Json => json(report),
    }
}

fn text(report: &Report) -> String {
    let mut lines =
        vec![format!("{}  {}", report.state().word().to_uppercase(), report.log.display())];
    for outcome in &report.outcomes {
        let (state, check) = (outcome.state.word(), outcome.check.spec().name);
        lines.push(format!("  {state:8}  {check:11}  {}", outcome.text));
    }
    lines.iter().map(|line| sanitize(line) + "\n").collect()
}

#[derive(Serialize)]
struct Answer<'a> {
    time: String,
    log_directory: String,
    state: &'static str,
    exit_code: u8,
    checks: Vec<CheckAnswer<'a>>,
    metrics: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
struct CheckAnswer<'a> {
    check: &'static str,
    state: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warn: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crit: Option<f64>,
}

fn json(report: &Report) -> String {
    let checks = report.outcomes.iter().map(|outcome| {
        let [warn, crit] = report.choice.of(outcome.check);
        CheckAnswer {
            check: outcome.check.spec().name,
            state: outcome.state.word(),
            text: &outcome.text,
            metric: outcome.check.spec().measure.map(|it| it.metric.spec().name),
            warn,
            crit,
        }
    });
    let metrics = report
        .values
        .iter()
        .map(|(metric, value)| (metric.spec().name.to_owned(), number_value(*value)));
    let state = report.state();
    let answer = Answer {
        time: say::time(&mut TimeFormatter::utc(), report.now_us),
        log_directory: report.log.display().to_string(),
        state: state.word(),
        exit_code: Health::exit_code(state),
        checks: checks.collect(),
        metrics: metrics.collect(),
    };
    // It has only texts and finite numbers.
    serde_json::to_string(&answer).unwrap_or_default() + "\n"
}

/// A whole number without a fraction.
fn number_value(value: f64) -> serde_json::Value {
    serde_json::from_str(&number(value)).unwrap_or(serde_json::Value::Null)
}

/// A number with at most three digits behind the point.
pub fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
