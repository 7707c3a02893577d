//! `tacho capture --threads`: all packets of a connection reach one thread, whatever happens.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::capture_live::{
    Capture, OK, PATIENCE, Wire, in_namespace, ip, make_interfaces, of, packet, query,
    wait_for_state,
};

const THREADS: [&str; 2] = ["--threads", "3"];

/// The statements, and how often each was recorded.
fn statements(lines: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in of(lines, "statement") {
        assert_ne!(line["session"], "partial", "{line}");
        *counts.entry(line["sql"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    counts
}

fn log_in_twelve(first_port: u16) -> Vec<Wire> {
    (first_port..first_port + 12).map(Wire::log_in).collect()
}

#[test]
fn each_connection_is_recorded_once() {
    in_namespace("user", "capture_threads::each_connection_is_recorded_once", inside_once);
}

fn inside_once() {
    make_interfaces();
    let directory = tempfile::tempdir().expect("a directory");
    let capture = Capture::start_with(directory.path(), &THREADS);
    // Some of a VLAN, or a VLAN within one: the kernel removes the outer tag before the filter.
    let wires = (0..30).map(|number| {
        let mut wire = Wire::open(7000 + number);
        wire.tags = usize::from(number % 3);
        wire.log_in_here()
    });
    let mut wires = wires.collect::<Vec<_>>();
    for round in 0..3 {
        for (number, wire) in wires.iter_mut().enumerate() {
            wire.statement(&format!("SELECT {number}, {round}"));
        }
    }
    for (number, _) in wires.iter().enumerate() {
        capture.wait_for_statement(&format!("SELECT {number}, 2"));
    }
    let lines = capture.stop();
    let counts = statements(&lines);
    assert_eq!((counts.len(), counts.values().sum::<usize>()), (90, 90), "{counts:?}");
    assert_eq!(of(&lines, "lost"), Vec::<&Value>::new());
    let file = std::fs::read_to_string(directory.path().join("m.prom")).expect("the counters");
    assert!(file.contains("tacho_capture_connections_total{interface=\"v0\"} 30\n"), "{file}");
    for thread in 0..3 {
        let name = format!("thread_packets_total{{interface=\"v0\",thread=\"{thread}\"}} ");
        let packets = file.lines().find_map(|line| line.split_once(&name)?.1.parse::<u64>().ok());
        assert!(packets > Some(0), "{file}");
    }
}

#[test]
fn interfaces_change_under_all_threads() {
    in_namespace("user", "capture_threads::interfaces_change_under_all_threads", inside_changes);
}

/// The connections continue, and each thread still has its own.
fn inside_changes() {
    make_interfaces();
    let directory = tempfile::tempdir().expect("a directory");
    let mut capture = Capture::start_with(directory.path(), &THREADS);
    let mut wires = log_in_twelve(7000);
    let state = |wires: &mut [Wire], state: &str, capture: &Capture| {
        for (number, wire) in wires.iter_mut().enumerate() {
            wire.statement(&format!("SELECT {number}, '{state}'"));
        }
        for number in 0..wires.len() {
            capture.wait_for_statement(&format!("SELECT {number}, '{state}'"));
        }
    };
    state(&mut wires, "before", &capture);
    ip("link set v0 down");
    wait_for_state("DOWN");
    ip("link set v0 up");
    wait_for_state("UP");
    state(&mut wires, "up again", &capture);
    ip("link del v0");
    capture.wait_for_message("there is no interface v0 any more");
    make_interfaces();
    capture.wait_for_message("capturing on the new interface v0");
    // The sockets of the test are bound to the old one.
    let mut wires = log_in_twelve(8000);
    state(&mut wires, "new", &capture);
    let lines = capture.stop();
    let counts = statements(&lines);
    assert_eq!((counts.len(), counts.values().sum::<usize>()), (36, 36), "{counts:?}");
    let lost = of(&lines, "lost");
    assert_eq!(lost.len(), 1, "one line for all threads: {lost:?}");
    assert_eq!(lost[0]["cause"], "interface");
}

#[test]
fn all_threads_are_recovered_after_a_kill() {
    in_namespace("user", "capture_threads::all_threads_are_recovered_after_a_kill", inside_kill);
}

fn inside_kill() {
    make_interfaces();
    let directory = tempfile::tempdir().expect("a directory");
    let mut capture = Capture::start_with(directory.path(), &THREADS);
    let mut wires = log_in_twelve(7000);
    let running = |number: usize| format!("SELECT 'running', {number}");
    for (number, wire) in wires.iter_mut().enumerate() {
        wire.client(&query(&running(number)));
    }
    for number in 0..wires.len() {
        capture.wait_for_start(directory.path(), &running(number));
    }
    capture.signal(libc::SIGKILL);
    capture.child.wait().expect("its end");
    let capture = Capture::start_with(directory.path(), &THREADS);
    for (number, wire) in wires.iter_mut().enumerate() {
        let line = capture.wait_for_statement(&running(number));
        assert_eq!(line["outcome"], "interrupted", "{line}");
        wire.server(&packet(1, OK)).statement("SELECT 'first'").statement("SELECT 'second'");
    }
    capture.wait_for_line(|line| line["cause"] == "not_running");
    let lines = capture.stop();
    let lost = of(&lines, "lost");
    let count = lost.iter().filter(|line| line["cause"] == "not_running").count();
    assert_eq!(count, 1, "one line for all threads: {lost:?}");
}

#[test]
fn no_thread_keeps_a_capability() {
    in_namespace("user", "capture_threads::no_thread_keeps_a_capability", inside_capabilities);
}

fn inside_capabilities() {
    make_interfaces();
    let directory = tempfile::tempdir().expect("a directory");
    let capture = Capture::start_with(directory.path(), &THREADS);
    // A thread has its name a moment after its start.
    let since = Instant::now();
    while named_threads(&capture) < 2 {
        assert!(since.elapsed() < PATIENCE, "its threads never have their names");
        std::thread::sleep(Duration::from_millis(5));
    }
    for task in tasks(&capture) {
        // The threads that take packets, the first one, and those of the recorder.
        let status = std::fs::read_to_string(task.join("status")).expect("its status");
        for set in ["CapPrm:\t", "CapEff:\t", "CapAmb:\t"] {
            assert!(status.contains(&format!("{set}0000000000000000")), "{status}");
        }
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        // Filters of system calls.
        assert!(status.contains("Seccomp:\t2"), "{status}");
    }
    capture.stop();
}

fn tasks(capture: &Capture) -> Vec<PathBuf> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", capture.child.id()));
    tasks.expect("its threads").map(|task| task.expect("a thread").path()).collect()
}

/// Threads that take packets, beside the first one.
fn named_threads(capture: &Capture) -> usize {
    let name = |task: PathBuf| std::fs::read_to_string(task.join("comm")).unwrap_or_default();
    let names = tasks(capture).into_iter().map(name);
    names.filter(|name| name.starts_with("tacho-packet-")).count()
}
