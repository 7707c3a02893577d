//! A network namespace of its own, in which a test may capture packets without being root. It also
//! has a mount namespace, for file systems that only the test and its processes see.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

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

/// A network that only [`Network::run`] reaches: beside that of this process, a peer of it. Between
/// addresses of one network packets pass its loopback interface, and no other one.
#[derive(Debug)]
pub struct Network(OwnedFd);

impl Network {
    /// Without interfaces, except for a loopback interface that is switched off.
    ///
    /// # Errors
    /// This process may not.
    pub fn new() -> Result<Self> {
        let made = thread::spawn(|| {
            // SAFETY: the thread keeps the file descriptors and the memory that it shares with
            // others; only its network is another one, and it opens nothing but that.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            Ok(Self(File::open("/proc/thread-self/ns/net")?.into()))
        });
        made.join().expect("a thread")
    }

    /// Runs this in the network. Sockets that it opens stay in there. So do its processes.
    ///
    /// # Panics
    /// It panics.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(self.0.as_fd(), kind).expect("the network");
            work()
        };
        thread::scope(|scope| scope.spawn(inside).join().expect("no panic"))
    }
}

/// Runs `ip` with these arguments.
///
/// # Panics
/// It fails.
pub fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("ip");
    assert!(status.success(), "ip {arguments}: {status}");
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
