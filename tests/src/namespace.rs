//! A network namespace of its own, in which a test may capture packets without being root. It also
//! has a mount namespace, for file systems that only the test and its processes see.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Set in the process in the namespace.
const INSIDE: &str = "TACHO_TEST_NAMESPACE";

/// As a user that is not root but has all capabilities there.
const NAMESPACES: [&str; 6] =
    ["--user", "--net", "--mount", "--map-user=1000", "--map-group=1000", "--keep-caps"];

/// Whether this process is in one.
#[must_use]
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Whether this machine permits one.
#[must_use]
pub fn is_permitted() -> bool {
    let output = Command::new("unshare").args(NAMESPACES).arg("true").output();
    output.is_ok_and(|output| output.status.success())
}

/// Runs this program in one.
///
/// # Errors
/// The system does not say which program this is.
pub fn command() -> Result<Command> {
    let mut command = Command::new("unshare");
    command.args(NAMESPACES).arg(std::env::current_exe()?).env(INSIDE, "1");
    Ok(command)
}

/// Switches on the loopback interface: a new namespace has it switched off.
///
/// # Errors
/// There is no `ip`, or it fails.
pub fn raise_loopback() -> Result<()> {
    let status = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    let status = status.context("cannot run ip (package iproute2)")?;
    ensure!(status.success(), "ip link set lo up: {status}");
    Ok(())
}

/// Runs the test of this name, with its modules, in a namespace. `true`: this is the process in it,
/// which continues with the test. `false`: it has passed there, or was left out, which has this
/// consequence.
///
/// # Panics
/// It fails there.
#[must_use]
pub fn enter(test: &str, consequence: &str) -> bool {
    enter_with(test, consequence, &[])
}

/// The same with environment variables for the process in the namespace.
///
/// # Panics
/// As [`enter`].
#[must_use]
pub fn enter_with(test: &str, consequence: &str, environment: &[(&str, &str)]) -> bool {
    if is_inside() {
        raise_loopback().expect("a loopback interface");
        return true;
    }
    if !is_permitted() {
        crate::without_namespaces(consequence);
        return false;
    }
    let output = command()
        .expect("this program")
        .envs(environment.iter().copied())
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .output()
        .expect("unshare");
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{said}");
    false
}
