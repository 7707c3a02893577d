//! The results as a table for a terminal.

mod sides;

use std::fmt::Write as _;

use crate::lines::{FigureLine, InstructionsLine, Line, LoadLine, ResultLine, RunLine};
use crate::method::{NONE, NONE_AGAIN, Switch};

/// Figures with a column of values and one of ratios: name, title, factor, digits.
const COLUMNS: [(&str, &str, f64, usize); 3] = [
    ("qps", "queries/s", 1.0, 0),
    ("cpu_us_per_query", "CPU µs/query", 1.0, 1),
    ("p99_us", "p99 ms", 1e-3, 2),
];

/// Instead of a figure that is withheld because of noise.
const TOO_NOISY: &str = "too noisy";

/// All results of a run. Empty if there are none.
pub fn render(lines: &[Line]) -> String {
    let mut text = String::new();
    let results: Vec<&ResultLine> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Result(result) => Some(&**result),
            _ => None,
        })
        .collect();
    let run = lines.iter().find_map(|line| match line {
        Line::Run(run) => Some(&**run),
        _ => None,
    });
    let mut start = 0;
    while start < results.len() {
        let same = |result: &&&ResultLine| {
            result.load == results[start].load && result.switch == results[start].switch
        };
        let count = results[start..].iter().take_while(same).count();
        match run.and_then(|run| run.settings.side_by_side.as_ref()) {
            Some(wanted) => sides::table(&mut text, &results[start..start + count], wanted),
            None => table(&mut text, &results[start..start + count]),
        }
        start += count;
    }
    if let Some(run) = run.filter(|_| !results.is_empty()) {
        legend(&mut text, run, &results);
    }
    instructions(&mut text, lines);
    text
}

fn table(text: &mut String, results: &[&ResultLine]) {
    let load = &results[0].load;
    let _ = writeln!(
        text,
        "\n{}, {} connections, {}, switched {}",
        load.workload,
        load.threads,
        closed_or_open(load),
        match results[0].switch {
            Switch::Live => "under load",
            Switch::Reconnect => "under load with new connections",
            Switch::Restart => "by restarts",
        }
    );
    let mut rows = vec![vec!["method".to_owned()]];
    for (_, title, ..) in COLUMNS {
        rows[0].extend([title.to_owned(), "ratio".to_owned(), "95 %".to_owned()]);
    }
    rows[0].push("log B/query".to_owned());
    if let Some(floor) = results.first() {
        let mut row = vec![NONE.to_owned()];
        for (name, _, factor, digits) in COLUMNS {
            let value = floor.figures.get(name).map(|figure| figure.off * factor);
            row.extend([number(value, digits), String::new(), String::new()]);
        }
        row.push(String::new());
        rows.push(row);
    }
    for result in results {
        let mut row = vec![result.method.clone()];
        for (name, _, factor, digits) in COLUMNS {
            row.extend(cells(result.figures.get(name), factor, digits));
        }
        row.push(number(result.log_bytes_per_query, 0));
        rows.push(row);
    }
    print(text, &rows);
}

fn closed_or_open(load: &LoadLine) -> String {
    match load.rate {
        Some(rate) => format!("open loop at {rate} events/s"),
        None => "closed loop".to_owned(),
    }
}

/// Rows of equally many cells, in columns.
fn print(text: &mut String, rows: &[Vec<String>]) {
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    for row in rows {
        let mut line = format!("{:width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(line, "  {cell:>width$}");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

fn cells(figure: Option<&FigureLine>, factor: f64, digits: usize) -> [String; 3] {
    let Some(figure) = figure else { return [String::new(), String::new(), String::new()] };
    match (figure.ratio, figure.low, figure.high) {
        (Some(ratio), Some(low), Some(high)) => [
            number(Some(figure.on * factor), digits),
            format!("{ratio:.3}"),
            format!("{low:.3}–{high:.3}"),
        ],
        _ => [String::new(), TOO_NOISY.to_owned(), String::new()],
    }
}

fn legend(text: &mut String, run: &RunLine, results: &[&ResultLine]) {
    if let Some(wanted) = &run.settings.side_by_side {
        sides::legend(text, run, wanted, results);
    } else {
        let _ = writeln!(
            text,
            "\nratio: method / none, median of paired blocks of {} s; 95 %: its bootstrap \
             interval. {NONE_AGAIN}\nis the same server against itself (A/A): what lies inside its \
             interval has not been measured.",
            run.settings.block_s
        );
    }
    // The last column is not in the table of two servers.
    let shown = if run.settings.side_by_side.is_some() { &COLUMNS[..2] } else { &COLUMNS[..] };
    let mut noisy: Vec<String> = Vec::new();
    for result in results.iter().filter(|result| result.method == NONE_AGAIN) {
        for (name, title, ..) in shown {
            if let Some(figure) = result.figures.get(*name).filter(|figure| figure.too_noisy) {
                noisy.push(format!(
                    "  {title}, {}, {} connections: A/A lies between {:.3} and {:.3}",
                    result.load.workload, result.load.threads, figure.floor_low, figure.floor_high
                ));
            }
        }
    }
    if !noisy.is_empty() {
        let _ = writeln!(
            text,
            "\nThe machine is too noisy for these figures (more than ±{:.0} %); they are left \
             out. Try a quieter\nmachine, more --pairs, longer --block, or --instructions.\n{}",
            run.settings.noise_max * 100.0,
            noisy.join("\n")
        );
    }
}

fn instructions(text: &mut String, lines: &[Line]) {
    let lines: Vec<&InstructionsLine> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Instructions(line) => Some(line),
            _ => None,
        })
        .collect();
    let Some(none) = lines.iter().find(|line| line.method == NONE) else { return };
    let _ = writeln!(
        text,
        "\nuser-space instructions per point select\n{:24}{:>13}{:>10}{:>10}{:>12}{:>10}",
        "method", "query thread", "added", "writer", "process", "added"
    );
    for line in &lines {
        let _ = writeln!(
            text,
            "{:24}{:>13}{:>10}{:>10}{:>12}{:>10}",
            line.method,
            grouped(line.query as i64),
            grouped(line.query as i64 - none.query as i64),
            grouped(line.writer as i64),
            grouped(line.process as i64),
            grouped(line.process as i64 - none.process as i64),
        );
    }
}

fn number(value: Option<f64>, digits: usize) -> String {
    match value {
        Some(value) if value.is_finite() && digits == 0 => grouped(value.round() as i64),
        Some(value) if value.is_finite() => format!("{value:.digits$}"),
        _ => String::new(),
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!((grouped(999).as_str(), grouped(-1_234_567).as_str()), ("999", "-1,234,567"));
        assert_eq!(number(Some(f64::NAN), 0), "");
        assert_eq!(number(Some(2.345), 2), "2.35");
    }
}
