//! `tacho pmp`: its messages if there is nothing to sample, and the comparison of two profiles.
//! Profiles of real servers: `tests/mariadb/pmp.rs`.

use std::fs;
use std::process::{Command, Output};

fn pmp(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tacho"))
        .arg("pmp")
        .args(arguments)
        .output()
        .expect("the command runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_missing_process_is_wrong_usage() {
    let output = pmp(&["--pid", "2147483647"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "tacho: there is no process 2147483647\n");
    let output = pmp(&["--socket", "/nonexistent/socket"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("/nonexistent/socket: No such file"), "{}", stderr(&output));
}

#[test]
fn durations_and_patterns_are_checked_before_the_work() {
    assert_eq!(pmp(&["--duration", "soon"]).status.code(), Some(2));
    assert_eq!(pmp(&["--pid", "1", "--pid-file", "x"]).status.code(), Some(2));
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("patterns.toml");
    fs::write(&file, "[[pattern]]\nname = 'x'\nfarmes = ['y']\n").expect("writing it");
    let own_pid = std::process::id().to_string();
    let output = pmp(&["--pid", &own_pid, "--patterns", file.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("farmes"), "{}", stderr(&output));
}

#[test]
fn an_earlier_profile_is_not_overwritten() {
    let directory = tempfile::tempdir().expect("a directory");
    let earlier = directory.path().join("stacks.folded");
    fs::write(&earlier, "earlier 1\n").expect("writing it");
    let own_pid = std::process::id().to_string();
    let output = directory.path().to_str().expect("a path");
    let mut arguments = vec!["--pid", &own_pid, "--duration", "1ms", "--output", output];
    let refused = pmp(&arguments);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("has a profile already"), "{}", stderr(&refused));
    assert_eq!(fs::read_to_string(&earlier).expect("reads"), "earlier 1\n");
    arguments.push("--overwrite");
    let replaced = pmp(&arguments);
    assert!(replaced.status.success(), "{}", stderr(&replaced));
    assert_ne!(fs::read_to_string(&earlier).expect("reads"), "earlier 1\n");
    // Any file of a profile is one.
    arguments.pop();
    fs::remove_file(&earlier).expect("removes");
    assert_eq!(pmp(&arguments).status.code(), Some(2));
}

#[test]
fn the_printed_table_of_patterns_is_valid() {
    let output = pmp(&["--print-patterns"]);
    assert!(output.status.success());
    assert!(stdout(&output).contains("[[pattern]]\nname = \"time-zone lock\""));
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("patterns.toml");
    fs::write(&file, &output.stdout).expect("writing it");
    let own_pid = std::process::id().to_string();
    let arguments =
        ["--pid", &own_pid, "--duration", "1ms", "--patterns", file.to_str().expect("a path")];
    let output = pmp(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn any_process_of_this_user_can_be_profiled() {
    let own_pid = std::process::id().to_string();
    let arguments = ["--pid", &own_pid, "--duration", "300ms", "--interval", "10ms"];
    let output = pmp(&[&arguments[..], &["--threads", "all", "--format", "folded"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    // A thread of the test runner that waits for this very test.
    assert!(text.lines().any(|line| line.contains("start_thread;")), "{text}");
    assert!(
        text.lines()
            .all(|line| line.rsplit_once(' ').is_some_and(|(_, n)| n.parse::<u64>().is_ok()))
    );
    let output = pmp(&[&arguments[..], &["--threads", "all", "--format", "json"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(json["pid"].to_string(), own_pid);
    assert!(json["rounds"].as_u64().expect("a number") > 0);
}

#[test]
fn two_profiles_are_compared_by_share() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let (before, after, svg) = (path("before"), path("after"), path("diff.svg"));
    fs::write(&before, "main;work 75\nmain;wait 25\n").expect("writing it");
    fs::write(&after, "main;work 5\nmain;wait 4\nmain;log;write 1\n").expect("writing it");
    let output = pmp(&["diff", &before, &after, "--output", &svg]);
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    for line in [
        " 75.0 %   50.0 %   -25.0  work",
        " 25.0 %   40.0 %   +15.0  wait",
        "  0.0 %   10.0 %   +10.0  log",
        "  0.0 %   10.0 %   +10.0  write,log,main",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
    }
    // A function in all samples of both is not a difference.
    assert!(!text.lines().any(|line| line.ends_with("  main")), "{text}");
    assert!(fs::read_to_string(&svg).expect("a picture").contains("<svg"));
    fs::write(&after, "no count here\n").expect("writing it");
    let output = pmp(&["diff", &before, &after]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("line 1 is not a folded stack"), "{}", stderr(&output));
}
