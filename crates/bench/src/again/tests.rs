//! Runs of eight rounds, and what is computed from their blocks.

use super::*;
use crate::lines::{Cpu, Measured, ServerLine, Settings, SideBySideSettings, VERSION};
use crate::method::NONE;
use crate::proc;

/// Of a run whose limit of noise is 10 %.
pub(crate) fn run_line() -> RunLine {
    let line = |name: &str, title: &str| MethodLine {
        name: name.to_owned(),
        title: title.to_owned(),
        switch: Switch::Live,
    };
    RunLine {
        v: VERSION,
        tacho: "0.0.0".to_owned(),
        started: 0,
        server: ServerLine {
            version: "10.11.19-MariaDB".to_owned(),
            private: true,
            local: true,
            variables: std::collections::BTreeMap::new(),
        },
        machine: proc::machine(),
        settings: Settings {
            block_s: 1.0,
            guard_s: 0.3,
            warm_up_s: 1.5,
            pairs: 8,
            noise_max: 0.1,
            tables: 4,
            rows: 10_000,
            prepared: false,
            side_by_side: None,
        },
        methods: vec![
            line(NONE, "no audit"),
            line(NONE_AGAIN, "no audit, again"),
            line("tacho", "Tachograph"),
            line("general_log", "general log, file"),
        ],
        notes: vec!["slow_log left out: no".to_owned()],
    }
}

fn load() -> LoadLine {
    LoadLine { workload: "oltp_point_select".to_owned(), threads: 8, rate: None }
}

/// Queries per second, and µs of processor time for each.
fn measured(qps: f64, us: f64) -> Measured {
    let cpu = Cpu {
        total_s: qps * us / 1e6,
        user_s: 0.0,
        sys_s: 0.0,
        query_s: 0.0,
        writer_s: 0.0,
        rest_s: 0.0,
        wait_s: 0.0,
        voluntary_switches: 0,
        involuntary_switches: 0,
    };
    Measured { queries: qps as u64, qps, cpu: Some(cpu), ..Measured::default() }
}

/// The lines of a run of eight rounds, in which a method has this share of the throughput; by
/// turns a little more or less. `noise` is that of the server against itself.
pub(crate) fn run(methods: &[(&str, f64)], noise: f64) -> Vec<Line> {
    let mut lines = vec![Line::Run(Box::new(run_line()))];
    for pair in 1..=8 {
        let turn = if pair % 2 == 0 { 1.0 } else { -1.0 };
        let again = (NONE_AGAIN, 1.0 + noise * turn);
        for (method, share) in [again].iter().chain(methods) {
            let mut two = [
                block(lines.len(), NONE, method, pair, measured(1e4, 50.0)),
                block(
                    lines.len() + 1,
                    method,
                    method,
                    pair,
                    measured(1e4 * share * (1.0 + 0.002 * turn), 50.0 / share),
                ),
            ];
            // On and off are first by turns.
            if pair % 2 == 0 {
                two.reverse();
            }
            lines.extend(two);
        }
    }
    lines
}

fn block(number: usize, method: &str, compared: &str, pair: u32, measured: Measured) -> Line {
    Line::Block(Box::new(BlockLine {
        block: number as u32,
        load: load(),
        method: method.to_owned(),
        compared: compared.to_owned(),
        switch: Switch::Live,
        pair,
        server: None,
        half: None,
        at_s: number as f64,
        seconds: 1.0,
        measured,
    }))
}

fn end() -> Line {
    Line::End(EndLine { seconds: 40.0, too_noisy: false, notes: Vec::new() })
}

fn results(lines: &[Line]) -> Vec<&ResultLine> {
    lines
        .iter()
        .filter_map(|line| if let Line::Result(result) = line { Some(&**result) } else { None })
        .collect()
}

#[test]
fn the_exit_code_is_that_of_the_run() {
    for (noise, too_noisy) in [(0.01, false), (0.3, true)] {
        let mut lines = run(&[("tacho", 0.97)], noise);
        lines.push(end());
        let (judged, outcome) = judge(&lines, None).expect("figures");
        assert_eq!(outcome, Outcome { too_noisy });
        let Some(Line::End(end)) = judged.last() else { panic!("no end") };
        assert_eq!(end.too_noisy, too_noisy);
        let tacho = results(&judged)[1];
        assert_eq!((tacho.method.as_str(), tacho.pairs), ("tacho", 8));
        assert_eq!(tacho.figures["qps"].ratio.is_none(), too_noisy);
    }
}

#[test]
fn another_limit_of_noise_judges_anew() {
    let lines = run(&[("tacho", 0.97)], 0.05);
    let (strict, outcome) = judge(&lines, Some(0.01)).expect("figures");
    assert!(outcome.too_noisy && results(&strict)[1].figures["qps"].ratio.is_none());
    // What was withheld is there again, because it comes from the blocks.
    let (judged, outcome) = judge(&strict, Some(0.1)).expect("figures");
    assert!(!outcome.too_noisy);
    let ratio = results(&judged)[1].figures["qps"].ratio.expect("a figure");
    assert!((ratio - 0.97).abs() < 0.003, "{ratio}");
    let Line::Run(run) = &judged[0] else { panic!("no run") };
    assert_eq!((run.settings.noise_max, run.notes.len()), (0.1, 1));
}

#[test]
fn results_are_computed_as_by_the_run() {
    let lines = run(&[("general_log", 0.8), ("tacho", 0.97)], 0.01);
    let (judged, _) = judge(&lines, None).expect("figures");
    // In the order of the run, whatever method a round began with.
    let methods: Vec<&str> = results(&judged).iter().map(|result| &*result.method).collect();
    assert_eq!(methods, [NONE_AGAIN, "tacho", "general_log"]);
    let cpu = &results(&judged)[2].figures["cpu_us_per_query"];
    assert!((cpu.ratio.expect("a figure") - 1.25).abs() < 1e-3, "{cpu:?}");
    assert!((cpu.off - 50.0).abs() < 0.01 && cpu.difference.is_none(), "{cpu:?}");
    assert_eq!(judge(&judged, None).expect("figures").0, judged);
}

#[test]
fn latency_curves_stay() {
    let lines = run(&[("tacho", 0.97)], 0.01);
    let (mut judged, _) = judge(&lines, None).expect("figures");
    let curve = vec![(0.5, 100.0), (0.99, 900.0)];
    for line in &mut judged {
        if let Line::Result(result) = line {
            result.latency_curve.clone_from(&curve);
        }
    }
    let (again, _) = judge(&judged, Some(0.2)).expect("figures");
    assert!(results(&again).iter().all(|result| result.latency_curve == curve));
}

#[test]
fn an_interrupted_run_has_the_results_of_its_pairs() {
    let lines = run(&[("tacho", 0.97)], 0.01);
    // The last block has no neighbour.
    let (judged, outcome) = judge(&lines[..lines.len() - 1], None).expect("figures");
    assert!(!outcome.too_noisy && !judged.iter().any(|line| matches!(line, Line::End(_))));
    let pairs: Vec<u32> = results(&judged).iter().map(|result| result.pairs).collect();
    assert_eq!(pairs, [8, 7]);
    let (judged, outcome) = judge(&lines[..2], None).expect("no figures");
    assert_eq!((results(&judged).len(), outcome.too_noisy), (0, false));
}

#[test]
fn two_servers_have_rounds_of_two_halves() {
    let mut lines = run(&[("tacho", 0.97)], 0.01);
    for line in &mut lines {
        match line {
            Line::Run(run) => {
                run.settings.side_by_side = Some(SideBySideSettings {
                    interval: 0.01,
                    max_time_s: None,
                    baseline: NONE.to_owned(),
                });
            }
            Line::Block(block) => {
                block.half = Some(2 - block.pair % 2);
                block.pair = block.pair.div_ceil(2);
            }
            _ => {}
        }
    }
    let (judged, _) = judge(&lines, None).expect("figures");
    let result = results(&judged)[1];
    let cpu = &result.figures["cpu_us_per_query"];
    assert_eq!(result.pairs, 4);
    assert!(cpu.difference.expect("a difference").estimate > 1.0, "{cpu:?}");
}

#[test]
fn results_without_their_blocks_are_an_error() {
    let (judged, _) = judge(&run(&[("tacho", 0.97)], 0.01), None).expect("figures");
    let is_block = |line: &&Line| !matches!(line, Line::Block(_));
    let without: Vec<Line> = judged.iter().filter(is_block).cloned().collect();
    let error = judge(&without, None).expect_err("no blocks").to_string();
    assert!(error.contains("no complete pair of blocks"), "{error}");
    let mut torn = run(&[("tacho", 0.97)], 0.01);
    torn.remove(2);
    let error = judge(&torn, None).expect_err("no pairs").to_string();
    assert!(error.contains("are no pair"), "{error}");
    assert!(judge(&torn[1..], None).is_err(), "there is no run");
}
