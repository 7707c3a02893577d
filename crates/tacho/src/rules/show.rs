//! The result of a check, for people and for programs.

use std::io;

use serde_json::{Value, json};
use tacho_filter::compile::Checked;
use tacho_filter::{Action, Program};

use super::dry_run::DryRun;
use super::tally::Amount;
use super::{Verdict, Warning};
use crate::report::second;
use crate::say::{self, counted, grouped};

/// How many kinds of skipped lines have an example.
const EXAMPLES: usize = 10;

/// What a value that is not there is shown as.
const NONE: &str = "-";

/// A rule, by its number, place and name.
pub fn rule(checked: &Checked, index: usize) -> String {
    let number = index + 1;
    match checked.rules.get(index) {
        Some(rule) => match &rule.name {
            Some(name) => format!("rule {number} ({name:?}, line {})", rule.line),
            None => format!("rule {number} (line {})", rule.line),
        },
        None => format!("rule {number}"),
    }
}

/// Writes the result to stdout.
pub fn show(verdict: &Verdict<'_>, is_json: bool) -> io::Result<()> {
    if is_json {
        return say::json(&json(verdict));
    }
    let path = verdict.path.display();
    let checked = match &verdict.checked {
        Ok(checked) => checked,
        Err(errors) => {
            for error in errors {
                say::result(&format!("{path}: {error}"))?;
            }
            return say::result(&format!("{path}: {}", counted(errors.len() as u64, "error")));
        }
    };
    for Warning { rule: index, text } in &verdict.warnings {
        let place = index.and_then(|index| checked.rules.get(index).zip(Some(index)));
        say::result(&match place {
            Some((source, index)) => format!(
                "{path}: line {}, column {}: warning: rule {}: {text}",
                source.line,
                source.column,
                index + 1
            ),
            None => format!("{path}: warning: {text}"),
        })?;
    }
    let count = |count: usize, noun| counted(count as u64, noun);
    say::result(&format!(
        "{path}: valid, {}, {}",
        count(checked.rules.len(), "rule"),
        count(verdict.warnings.len(), "warning")
    ))?;
    match &verdict.dry_run {
        Some(run) => show_run(checked, run),
        None => Ok(()),
    }
}

/// Tenths of a per cent.
fn per_mille(part: u64, whole: u64) -> u64 {
    let tenths = u128::from(part) * 1_000 / u128::from(whole.max(1));
    tenths.try_into().unwrap_or(u64::MAX)
}

fn percent(part: u64, whole: u64) -> String {
    let tenths = per_mille(part, whole);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

fn show_run(checked: &Checked, run: &DryRun) -> io::Result<()> {
    let counts = &run.counts;
    let all = counts.all;
    let range = counts.range_us.map_or(String::new(), |(first, last)| {
        let zone = jiff::tz::TimeZone::system();
        format!(" from {} to {}", second(first, &zone), second(last, &zone))
    });
    say::result("")?;
    say::result(&format!(
        "would skip {} of the lines ({} of {}) and {} of the bytes ({} of {}){range}",
        percent(counts.skipped.lines, all.lines),
        grouped(counts.skipped.lines),
        grouped(all.lines),
        percent(counts.skipped.bytes, all.bytes),
        say::bytes(counts.skipped.bytes),
        say::bytes(all.bytes),
    ))?;
    say::result("")?;
    let mut rows =
        vec![["RULE", "LINE", "ACTION", "LINES", "OF ALL", "BYTES", "NAME"].map(str::to_owned)];
    let mut add = |rule: String, line: String, action: &str, amount: Amount, name: &str| {
        rows.push([
            rule,
            line,
            action.to_owned(),
            amount.lines.to_string(),
            percent(amount.lines, all.lines),
            say::bytes(amount.bytes),
            name.to_owned(),
        ]);
    };
    for (index, row) in by_rule(checked, run).enumerate() {
        let name = row.name.unwrap_or(NONE);
        add((index + 1).to_string(), row.line.to_string(), &row.action, row.amount, name);
    }
    let default = action_name(Program::new(&checked.program).default_action());
    let none = || NONE.to_owned();
    add(none(), none(), &default, counts.default, "no rule matches: default");
    add(none(), none(), "record", counts.always, "always recorded");
    add(none(), none(), "record", counts.undecided, "undecided, so recorded");
    say::rows(&rows, &[0, 1, 3, 4, 5])?;
    show_examples(run)
}

fn show_examples(run: &DryRun) -> io::Result<()> {
    let examples = run.counts.examples(EXAMPLES);
    if examples.is_empty() {
        return Ok(());
    }
    say::result("")?;
    say::result("skipped lines, with the first one of each rule, user and command:")?;
    say::result("")?;
    let mut rows =
        vec![["LINES", "RULE", "USER", "COMMAND", "SEQ", "STATEMENT"].map(str::to_owned)];
    let or_none = |text: &str| if text.is_empty() { NONE } else { text }.to_owned();
    rows.extend(examples.iter().map(|example| {
        [
            example.amount.lines.to_string(),
            example.rule.map_or("default".to_owned(), |rule| (rule + 1).to_string()),
            or_none(&example.user),
            or_none(&example.command),
            example.seq.to_string(),
            or_none(&example.sql),
        ]
    }));
    say::rows(&rows, &[0, 4])
}

/// A rule with what it decides.
struct Row<'a> {
    line: usize,
    name: Option<&'a str>,
    action: String,
    amount: Amount,
}

fn by_rule<'a>(checked: &'a Checked, run: &'a DryRun) -> impl Iterator<Item = Row<'a>> {
    let program = Program::new(&checked.program);
    let actions: Vec<String> = program.rules().map(|rule| action_name(rule.action)).collect();
    checked.rules.iter().zip(actions).zip(&run.counts.rules).map(|((rule, action), amount)| Row {
        line: rule.line,
        name: rule.name.as_deref(),
        action,
        amount: *amount,
    })
}

fn action_name(action: Action) -> String {
    let mut name = match action {
        Action { block: true, .. } => "block",
        Action { skip: true, .. } => "skip",
        Action { no_text: true, .. } => "no_text",
        _ => "record",
    }
    .to_owned();
    if action.literals {
        name.push_str(", redact");
    }
    name
}

fn json(verdict: &Verdict<'_>) -> Value {
    let checked = match &verdict.checked {
        Ok(checked) => checked,
        Err(errors) => {
            let error = |error: &tacho_filter::compile::Error| json!({ "line": error.line, "column": error.column, "message": error.message });
            let errors: Vec<Value> = errors.iter().map(error).collect();
            return json!({ "valid": false, "errors": errors });
        }
    };
    let warning = |warning: &Warning| {
        let mut value = json!({ "message": warning.text });
        let source = warning.rule.and_then(|rule| checked.rules.get(rule).zip(Some(rule)));
        if let Some((source, rule)) = source {
            value["rule"] = json!(rule + 1);
            value["line"] = json!(source.line);
            value["column"] = json!(source.column);
        }
        value
    };
    let warnings: Vec<Value> = verdict.warnings.iter().map(warning).collect();
    let rules = checked.rules.len();
    let mut value = json!({ "valid": true, "rules": rules, "warnings": warnings });
    if let Some(run) = &verdict.dry_run {
        value["dry_run"] = json_of_run(checked, run);
    }
    value
}

fn json_of_run(checked: &Checked, run: &DryRun) -> Value {
    let amount = |amount: Amount| json!({ "lines": amount.lines, "bytes": amount.bytes });
    let rules: Vec<Value> = by_rule(checked, run)
        .enumerate()
        .map(|(index, row)| {
            let mut value = amount(row.amount);
            value["rule"] = json!(index + 1);
            value["line"] = json!(row.line);
            value["name"] = json!(row.name);
            value["action"] = json!(row.action);
            value
        })
        .collect();
    let counts = &run.counts;
    let examples: Vec<Value> = counts
        .examples(EXAMPLES)
        .iter()
        .map(|example| {
            let mut value = amount(example.amount);
            value["rule"] = json!(example.rule.map(|rule| rule + 1));
            value["user"] = json!(example.user);
            value["command"] = json!(example.command);
            value["seq"] = json!(example.seq);
            value["sql"] = json!(example.sql);
            value
        })
        .collect();
    let utc = jiff::tz::TimeZone::UTC;
    let time = |us: Option<i64>| us.and_then(|us| crate::report::time(us, &utc));
    json!({
        "lines": amount(counts.all),
        "skipped": amount(counts.skipped),
        "always_recorded": amount(counts.always),
        "undecided": amount(counts.undecided),
        "default": amount(counts.default),
        "by_rule": rules,
        "first": time(counts.range_us.map(|(first, _)| first)),
        "last": time(counts.range_us.map(|(_, last)| last)),
        "examples": examples,
        "problems": run.problem_count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_down_to_tenths() {
        assert_eq!(percent(0, 0), "0.0 %");
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(999_999, 1_000_000), "99.9 %");
        assert_eq!(percent(u64::MAX, u64::MAX), "100.0 %");
    }
}
