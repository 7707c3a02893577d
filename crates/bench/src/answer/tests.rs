//! Answers of whole runs.

use super::*;
use crate::again::{self, tests::run};
use crate::lines::{Line, SideBySideSettings};

/// The lines of a run with its results.
fn judged(methods: &[(&str, f64)], noise: f64) -> Vec<Line> {
    again::judge(&run(methods, noise), None).expect("figures").0
}

fn edit_run(lines: &mut [Line], edit: impl Fn(&mut RunLine)) {
    for line in lines {
        if let Line::Run(run) = line {
            edit(run);
        }
    }
}

#[test]
fn a_cost_has_its_interval() {
    let lines = judged(&[("tacho", 0.97)], 0.001);
    let [sentence] = &*sentences(&lines) else { panic!("one answer") };
    assert_eq!(sentence.lead.to_string(), "Tachograph costs 3.0 % ± 0.2 of throughput here.");
    assert_eq!(
        sentence.second.as_deref(),
        Some("It takes 3.1 % ± 0.1 more processor time per query.")
    );
    assert_eq!((sentence.certainty, &sentence.advice), (Certainty::Known, &None));
    assert_eq!(sentence.load, "oltp_point_select, 8 connections");
    assert_eq!(sentence.basis, "8 pairs of blocks");
    assert_eq!(
        text(&lines),
        "\noltp_point_select, 8 connections:\n  Tachograph costs 3.0 % ± 0.2 of throughput here. \
         It takes 3.1 % ± 0.1 more processor time per query.\n"
    );
}

#[test]
fn what_was_not_found_is_a_bound() {
    let lines = judged(&[("tacho", 0.999)], 0.01);
    let [sentence] = &*sentences(&lines) else { panic!("one answer") };
    assert_eq!(sentence.lead.to_string(), "Tachograph costs at most 1.2 % of throughput here.");
    assert_eq!(sentence.certainty, Certainty::Bound);
    let answer = &answers(&lines)[0];
    assert_eq!((answer.words.as_str(), answer.figure), ("at most 1.2 %", "qps"));
    assert!(answer.cost.is_some() && answer.floor_low < 0.0 && answer.floor_high > 1.0);
}

#[test]
fn noise_is_no_finding() {
    let lines = judged(&[("tacho", 0.97), ("general_log", 0.6)], 0.2);
    let [sentence] = &*sentences(&lines) else { panic!("one answer") };
    assert_eq!(sentence.lead.to_string(), "Too noisy to say what Tachograph costs here.");
    assert_eq!((sentence.certainty, &sentence.second), (Certainty::Unknown, &None));
    let advice = sentence.advice.as_deref().expect("what to do");
    let floor = "The throughput of the server compared with itself differs by −20.2 % to +20.2 %; \
                 the limit is ±10 % (--noise-max). Use --side-by-side";
    assert!(advice.starts_with(floor), "{advice}");
    for answer in answers(&lines) {
        assert_eq!((answer.cost, answer.low, answer.high), (None, None, None));
        assert_eq!(answer.words, "too noisy to say");
    }
}

#[test]
fn the_other_figure_answers_if_one_is_too_noisy() {
    let mut lines = judged(&[("tacho", 0.97)], 0.001);
    for line in &mut lines {
        if let Line::Result(result) = line {
            let qps = result.figures.get_mut("qps").expect("a figure");
            (qps.ratio, qps.low, qps.high, qps.too_noisy) = (None, None, None, true);
        }
    }
    let [sentence] = &*sentences(&lines) else { panic!("one answer") };
    let lead = sentence.lead.to_string();
    assert_eq!(lead, "Tachograph takes 3.1 % ± 0.1 more processor time per query here.");
    assert_eq!(sentence.second.as_deref(), Some("Throughput: too noisy to say."));
}

#[test]
fn without_tachograph_each_method_has_its_sentence() {
    let lines = judged(&[("general_log", 0.8), ("slow_log", 1.05)], 0.001);
    let leads: Vec<String> = sentences(&lines).iter().map(|s| s.lead.to_string()).collect();
    assert_eq!(leads.len(), 2);
    assert!(
        leads.contains(&"“General log, file” costs 20.0 % ± 0.2 of throughput here.".to_owned())
    );
    assert!(leads.contains(&"slow_log has 5.0 % ± 0.2 more throughput here.".to_owned()));
}

#[test]
fn few_pairs_have_no_answer() {
    // Three rounds of two pairs.
    let lines = &run(&[("tacho", 0.97)], 0.001)[..13];
    let (lines, _) = again::judge(lines, None).expect("figures");
    let [sentence] = &*sentences(&lines) else { panic!("one answer") };
    assert_eq!(sentence.lead.to_string(), "Too few blocks to say what Tachograph costs here.");
    let wanted = "An interval needs 5 pairs or rounds (--pairs); 3 were measured.";
    assert_eq!(sentence.advice.as_deref(), Some(wanted));
    assert_eq!(answers(&lines)[0].words, "too few blocks to say (3 of 5)");
}

#[test]
fn an_open_loop_is_not_about_throughput() {
    let mut lines = judged(&[("tacho", 0.97)], 0.001);
    for line in &mut lines {
        if let Line::Result(result) = line {
            result.load.rate = Some(2000.0);
        }
    }
    let [sentence] = &*sentences(&lines) else { panic!("one answer") };
    assert!(sentence.lead.to_string().contains("processor time"), "{sentence:?}");
    assert_eq!(sentence.load, "oltp_point_select, 8 connections, 2000 events/s");
    assert!(answers(&lines).iter().all(|answer| answer.figure != "qps"));
}

#[test]
fn two_servers_are_compared_by_processor_time() {
    let mut lines = judged(&[("tacho", 0.97)], 0.001);
    edit_run(&mut lines, |run| {
        run.settings.side_by_side = Some(SideBySideSettings {
            interval: 0.01,
            max_time_s: None,
            baseline: "general_log".to_owned(),
        });
    });
    let [sentence] = &*sentences(&lines) else { panic!("one answer") };
    assert_eq!(
        sentence.lead.to_string(),
        "Tachograph takes 3.1 % ± 0.1 more processor time per query here, compared with general \
         log, file."
    );
    assert_eq!(sentence.load, "oltp_point_select, 8 connections to each server");
    assert_eq!(sentence.basis, "8 rounds");
}

#[test]
fn instructions_are_counted_exactly() {
    let counted = |method: &str, query, process| {
        let line = InstructionsLine { method: method.to_owned(), query, writer: 0, process };
        Line::Instructions(line)
    };
    let mut lines = vec![run(&[], 0.0).remove(0)];
    lines.extend([counted("none", 64_624, 64_624), counted("tacho", 67_404, 70_330)]);
    let [sentence] = &*sentences(&lines) else { panic!("one answer") };
    assert_eq!(
        sentence.lead.to_string(),
        "Tachograph adds 2,780 instructions (4.3 %) to a statement in the client's thread."
    );
    let second = "In all threads of the server it adds 5,706 (8.8 %).";
    assert_eq!(sentence.second.as_deref(), Some(second));
}

#[test]
fn numbers_have_as_many_digits_as_their_interval() {
    let known = |percent, low, high| CostVerdict::Known(verdict::Cost { percent, low, high });
    for (verdict, words) in [
        (known(3.12, 2.0, 4.5), "costs 3.1 % ± 1.4"),
        (known(3.12, 3.11, 3.13), "costs 3.1 % ± 0.1"),
        (known(138.4, 130.0, 148.6), "costs 138 % ± 10"),
        (known(3.1, 0.4, 7.0), "costs 3.1 % (0.4 to 7.0)"),
        (known(-3.1, -4.0, -2.9), "gains 3.1 % ± 0.9"),
    ] {
        assert_eq!(words::short(&verdict), words);
    }
}
