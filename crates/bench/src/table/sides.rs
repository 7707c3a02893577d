//! The table of two servers side by side.

use std::fmt::Write as _;

use super::{cells, closed_or_open, number, print};
use crate::figures::CPU_PER_QUERY;
use crate::lines::{DifferenceLine, ResultLine, RunLine, SideBySideSettings};
use crate::method::{NONE_AGAIN, Switch};
use crate::notes::inexact;

/// Results under one load.
pub(super) fn table(text: &mut String, results: &[&ResultLine], wanted: &SideBySideSettings) {
    let load = &results[0].load;
    let threads = load.threads;
    let _ = writeln!(
        text,
        "\n{}, {threads} connections to each of two servers, {}{}",
        load.workload,
        closed_or_open(load),
        if results[0].switch == Switch::Restart { ", switched by restarts" } else { "" }
    );
    let header = [
        "method",
        "CPU µs/query",
        "ratio",
        "95 %",
        "more µs",
        "95 %",
        "queries/s",
        "ratio",
        "95 %",
        "rounds",
        "log B/query",
    ];
    let mut rows = vec![Vec::from(header.map(str::to_owned))];
    let off =
        |name: &str, digits| number(results[0].figures.get(name).map(|figure| figure.off), digits);
    let mut none = vec![String::new(); header.len()];
    none[0].clone_from(&wanted.baseline);
    none[1] = off(CPU_PER_QUERY, 1);
    none[6] = off("qps", 0);
    rows.push(none);
    for result in results {
        let (cpu, qps) = (result.figures.get(CPU_PER_QUERY), result.figures.get("qps"));
        let mut row = vec![result.method.clone()];
        row.extend(cells(cpu, 1.0, 1));
        row.extend(difference(cpu.and_then(|figure| figure.difference)));
        row.extend(cells(qps, 1.0, 0));
        row.push(result.pairs.to_string());
        row.push(number(result.log_bytes_per_query, 0));
        rows.push(row);
    }
    print(text, &rows);
}

fn difference(found: Option<DifferenceLine>) -> [String; 2] {
    found.map_or_else(Default::default, |found| {
        [format!("{:+.2}", found.estimate), format!("{:+.2} to {:+.2}", found.low, found.high)]
    })
}

/// What the columns are, and which figures are less exact than was wanted.
pub(super) fn legend(
    text: &mut String,
    run: &RunLine,
    wanted: &SideBySideSettings,
    results: &[&ResultLine],
) {
    let baseline = &wanted.baseline;
    let _ = writeln!(
        text,
        "\nratio, more: method / {baseline} and method - {baseline}, of two servers whose loads take \
         turns, and which exchange\ntheir roles after a block of {} s; center of the rounds \
         (Hodges-Lehmann) and its interval (signed ranks).\n{NONE_AGAIN} has {baseline} on both \
         servers (A/A): what lies inside its interval has not been measured.\nCPU is that of the \
         whole server, with the method's threads and processes.",
        run.settings.block_s
    );
    let wide: Vec<String> = results
        .iter()
        .filter_map(|result| {
            let known = inexact(result, wanted.interval)?;
            let (method, load) = (&result.method, &result.load);
            Some(format!("  {method}, {}, {} connections: {known}", load.workload, load.threads))
        })
        .collect();
    if !wide.is_empty() {
        let _ = writeln!(
            text,
            "\nThe CPU per query of these is less exact than ±{:.1} % (--interval-max):\n{}",
            wanted.interval * 100.0,
            wide.join("\n")
        );
    }
}
