//! The lines of a log with all their fields, connection by connection, and a short form that a
//! reader can compare.

use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::log::{self, Invariants};

/// A line with all its fields.
pub type Line = serde_json::Map<String, Value>;

/// Every line of a log, in order.
///
/// # Errors
/// The log cannot be read, or violates an invariant.
pub fn read(directory: &Path) -> Result<Vec<Line>> {
    let mut invariants = Invariants::default();
    let mut lines = Vec::new();
    let mut broken = None;
    log::read(directory, |line, text| {
        invariants.see(line);
        match serde_json::from_str(text) {
            Ok(map) => lines.push(map),
            Err(error) => broken = Some(error),
        }
    })?;
    let problems = invariants.finish();
    if let Some(error) = broken {
        bail!("{error}");
    }
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    Ok(lines)
}

/// A field that is text.
pub fn text<'l>(line: &'l Line, field: &str) -> Option<&'l str> {
    line.get(field).and_then(Value::as_str)
}

/// A field that is a number.
pub fn number(line: &Line, field: &str) -> Option<u64> {
    line.get(field).and_then(Value::as_u64)
}

/// The lines of one connection, in the order of `conn_seq`. A `config` line only identifies the
/// account, and has no number.
pub fn of_conn(lines: &[Line], conn: u64) -> Vec<&Line> {
    let mut found: Vec<&Line> =
        lines.iter().filter(|line| number(line, "conn") == Some(conn)).collect();
    found.retain(|line| text(line, "event") != Some("config"));
    found.sort_by_key(|line| number(line, "conn_seq"));
    found
}

/// The same, each as [`brief`] has it.
pub fn briefs(lines: &[Line], conn: u64) -> Vec<String> {
    of_conn(lines, conn).into_iter().map(brief).collect()
}

/// Violations among the lines of one connection after an orderly stop: each has a number, and
/// nothing is open. Only an error without a statement has no number.
pub fn problems(lines: &[&Line]) -> Vec<String> {
    let is_bad = |line: &&&Line| {
        let is_open = matches!(text(line, "outcome"), Some("running" | "interrupted"));
        let is_lone_error = number(line, "errno").is_some() && !line.contains_key("user");
        is_open || (number(line, "conn_seq").is_none() && !is_lone_error)
    };
    lines.iter().filter(is_bad).map(|line| Value::Object((*line).clone()).to_string()).collect()
}

/// A line in short form: its kind, outcome, text and figures. Times, ids and identities are
/// omitted: they differ between runs or are tested elsewhere.
pub fn brief(line: &Line) -> String {
    let mut out = match text(line, "event") {
        Some("statement") => text(line, "command").unwrap_or("?").to_owned(),
        other => other.unwrap_or("?").to_owned(),
    };
    for field in ["sql_command", "outcome"] {
        if let Some(value) = text(line, field) {
            out += &format!(" {value}");
        }
    }
    if let Some(errno) = number(line, "errno") {
        out += &format!(" {errno}/{}", text(line, "sqlstate").unwrap_or("-"));
    }
    if let Some(sql) = line.get("sql") {
        out += &format!(" {sql}");
    }
    for (field, name) in
        [("rows_sent", "sent"), ("rows_examined", "examined"), ("rows_affected", "affected")]
    {
        if let Some(value) = number(line, field) {
            out += &format!(" {name}={value}");
        }
    }
    if line.contains_key("lock_time_us") {
        out += " lock";
    }
    if text(line, "event") == Some("statement") && !line.contains_key("query_time_us") {
        out += " no-time";
    }
    if number(line, "errno").is_some() && !line.contains_key("error") {
        out += " no-message";
    }
    out
}
