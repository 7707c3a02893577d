//! Zone: outside. `tacho bench --side-by-side`: two private servers at the same time, their roles,
//! and that nothing of them is left. No test can verify on a busy machine that it measures *well*.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tacho_tests::benched::{self, BLOCK_OF_ROUNDS, directory, lines, of_type, run, text};

use crate::bench::on_release;

fn side_by_side(directory: &Path, block: &str, arguments: &[&str]) -> Command {
    let mut command = benched::bench_with_blocks(directory, block, arguments);
    command.args(["--side-by-side", "--workload", "oltp_point_select"]);
    on_release(&mut command);
    command
}

fn named<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_else(|| panic!("no {name}: {line}"))
}

/// The two blocks of half a round, server a first: checks that they belong together, and returns
/// the server that has the method.
fn subject(half: &[Value], baseline: &str) -> usize {
    for (block, server) in half.iter().zip(["a", "b"]) {
        assert_eq!(block["server"], server, "{block}");
        for member in ["compared", "pair", "half", "at_s"] {
            assert_eq!(block[member], half[0][member], "{block}");
        }
        assert!(block["queries"].as_u64().expect("a number") > 0, "{block}");
        assert!(block["events"].as_u64().expect("a number") > 0, "{block}");
        assert!(block["cpu"]["total_s"].as_f64().expect("a number") > 0.0, "{block}");
    }
    let subject = usize::from(half[1]["method"] == half[1]["compared"]);
    assert_eq!(half[subject]["method"], half[0]["compared"]);
    assert_eq!(named(&half[1 - subject], "method"), baseline, "{half:?}");
    subject
}

/// All blocks, of a round of each method: the servers exchange their roles.
fn check_rounds(lines: &[Value], baseline: &str, methods: &[&str]) {
    let blocks: Vec<Value> = of_type(lines, "block").into_iter().cloned().collect();
    let mut seen = Vec::new();
    for round in blocks.chunks(4) {
        let (first, second) = round.split_at(2);
        assert_eq!((&first[0]["half"], &second[0]["half"]), (&1.into(), &2.into()));
        assert_eq!(first[0]["compared"], second[0]["compared"]);
        assert_ne!(subject(first, baseline), subject(second, baseline), "{round:?}");
        seen.push(named(&first[0], "compared"));
    }
    assert_eq!(seen, methods);
}

#[test]
fn two_servers_exchange_their_roles() {
    let directory = directory("sides");
    let arguments = ["--method", "tacho,tacho:external,server_audit", "--pairs", "1"];
    let output = run(side_by_side(&directory, BLOCK_OF_ROUNDS, &arguments));
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{said}");

    let lines = lines(&directory);
    let wanted = &lines[0]["settings"]["side_by_side"];
    assert_eq!((&wanted["baseline"], &wanted["interval"]), (&"none".into(), &0.01.into()));
    // Under one load, and with restarts: each with its own A/A pair.
    let methods = ["none-again", "tacho", "tacho:external", "none-again", "server_audit"];
    check_rounds(&lines, "none", &methods);
    for block in of_type(&lines, "block") {
        let number = |name: &str| block[name].as_u64().expect("a number");
        let writer_s = block["cpu"]["writer_s"].as_f64().expect("a number");
        match named(block, "method") {
            "none" | "none-again" => {
                assert_eq!(block["log_bytes"], Value::Null, "{block}");
                assert!(writer_s < 0.05, "{block}");
            }
            "server_audit" => assert!(number("log_bytes") > number("queries") * 20, "{block}"),
            // The process beside the server counts as the writer.
            _ => {
                assert!(number("records_written") > 0, "{block}");
                assert!(writer_s > 0.0, "{block}");
            }
        }
    }
    let results = of_type(&lines, "result");
    assert_eq!(results.len(), 5);
    for result in results {
        assert_eq!(result["pairs"], 1);
        let cpu = &result["figures"]["cpu_us_per_query"];
        let figure = |name: &str| cpu[name].as_f64().expect("a number");
        assert!(figure("low") <= figure("ratio") && figure("ratio") <= figure("high"), "{cpu}");
        assert!(figure("floor_low") <= figure("floor_high"), "{cpu}");
        let more = cpu["difference"]["estimate"].as_f64().expect("a number");
        // Not the same: a mean of ratios is not the ratio of medians.
        assert!(more.abs() < 10.0 * figure("off"), "{cpu}");
    }
    // One round has no interval, which must not look as if it were exact.
    assert!(told.contains("1 round, too few"), "{told}");
    assert!(said.contains("too few rounds for an interval") && !said.contains("±0.0"), "{said}");
    assert!(told.contains("more µs") && told.contains("4 connections to each"), "{told}");
    benched::assert_results_alone(&directory);
    fs::remove_dir_all(directory).expect("removing the directory");
}

#[test]
fn two_methods_are_compared_with_each_other() {
    let directory = directory("sides-baseline");
    let arguments = ["--method", "general_log", "--baseline", "tacho", "--pairs", "1"];
    let output = run(side_by_side(&directory, BLOCK_OF_ROUNDS, &arguments));
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{said}");
    let lines = lines(&directory);
    check_rounds(&lines, "tacho", &["none-again", "general_log"]);
    for block in of_type(&lines, "block") {
        // Both servers of the A/A pair record.
        let member = if block["method"] == "general_log" { "log_bytes" } else { "records_written" };
        assert!(block[member].as_u64().expect("a number") > 0, "{block}");
    }
    assert!(told.contains("method / tacho"), "{told}");
    fs::remove_dir_all(directory).expect("removing the directory");
}

#[test]
fn a_method_that_is_not_exact_enough_is_named() {
    let directory = directory("sides-wide");
    let arguments = ["--method", "general_log", "--pairs", "20", "--interval-max", "0.000001"];
    // Ends after the least number of rounds.
    let mut command = side_by_side(&directory, "50ms", &arguments);
    let output = run({
        command.args(["--max-time", "1ms"]);
        command
    });
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{said}");
    let lines = lines(&directory);
    let results = of_type(&lines, "result");
    assert!(results.iter().all(|result| result["pairs"] == 8), "{results:?}");
    assert!(told.contains("less exact than ±0.0"), "{told}");
    let notes = lines.last().expect("an end")["notes"].as_array().expect("notes");
    assert!(
        notes.iter().any(|note| note.as_str().is_some_and(|it| it.contains("(--interval-max)")))
    );

    // A wide interval ends nothing early, and is no noise; a narrow one ends it as soon as it may.
    let arguments = ["--method", "general_log", "--pairs", "20", "--interval-max", "100000"];
    let output = run(side_by_side(&directory, "50ms", &arguments));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = benched::lines(&directory);
    assert!(of_type(&lines, "result").iter().all(|result| result["pairs"] == 8));
    fs::remove_dir_all(directory).expect("removing the directory");
}

#[test]
fn an_interrupt_leaves_no_server() {
    let directory = directory("sides-interrupted");
    let arguments = ["--method", "general_log", "--pairs", "9999", "--interval-max", "0.000001"];
    let mut command = side_by_side(&directory, "50ms", &arguments);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("tacho");
    benched::wait_for_blocks(&directory, 5, &mut child);
    kill_process(Pid::from_child(&child), Signal::INT).expect("a signal");
    let output = child.wait_with_output().expect("an end");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    // Both servers, their files and their loads were below it.
    for entry in fs::read_dir(&directory).expect("the directory") {
        let name = entry.expect("an entry").file_name();
        assert!(name.to_string_lossy().starts_with("out.partial."), "{name:?}");
    }
    fs::remove_dir_all(directory).expect("removing the directory");
}
