//! For Prometheus, through the textfile collector of its node exporter.

use std::fmt::Write as _;

use super::report::{Health, Report};
use super::show::number;
use super::spec::{Metric, Unit};

/// The metrics in Prometheus' text format.
pub fn text(report: &Report) -> String {
    let log = escaped(&report.log.display().to_string());
    let mut out = String::new();
    // Writing into a string cannot fail.
    let mut line = |text: std::fmt::Arguments<'_>| {
        let _ = writeln!(out, "{text}");
    };
    let states = "0 ok, 1 warning, 2 critical, 3 unknown";
    line(format_args!("# HELP tacho_log_state The worst of all checks: {states}."));
    line(format_args!("# TYPE tacho_log_state gauge"));
    let state = Health::exit_code(report.state());
    line(format_args!("tacho_log_state{{log=\"{log}\"}} {state}"));
    line(format_args!("# HELP tacho_log_check_state The state of a check: {states}."));
    line(format_args!("# TYPE tacho_log_check_state gauge"));
    for outcome in &report.outcomes {
        let (check, state) = (outcome.check, outcome.state.exit_code());
        line(format_args!("tacho_log_check_state{{log=\"{log}\",check=\"{check}\"}} {state}"));
    }
    line(format_args!("# HELP tacho_log_status_time_seconds When tacho status looked."));
    line(format_args!("# TYPE tacho_log_status_time_seconds gauge"));
    let time = number(report.now_us as f64 / 1e6);
    line(format_args!("tacho_log_status_time_seconds{{log=\"{log}\"}} {time}"));
    for metric in Metric::ALL {
        let Some(value) = report.values.get(metric) else { continue };
        let spec = metric.spec();
        let kind = if spec.unit == Unit::Counter { "counter" } else { "gauge" };
        let (name, help, value) = (spec.name, spec.help, number(*value));
        line(format_args!("# HELP tacho_log_{name} {help}."));
        line(format_args!("# TYPE tacho_log_{name} {kind}"));
        line(format_args!("tacho_log_{name}{{log=\"{log}\"}} {value}"));
    }
    out
}

/// A value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
