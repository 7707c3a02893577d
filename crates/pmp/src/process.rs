//! The process to sample, and the permission to do so.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use crate::task::{Tasks, Tid};

/// Names of the server program.
const SERVERS: [&str; 2] = ["mariadbd", "mysqld"];

/// The capability to inspect any process, as a bit of `CapEff`.
const CAP_SYS_PTRACE: u32 = 19;

/// There is no process to sample.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(Tid),
    /// It has ended, and its parent has not collected its status.
    #[error("process {0} has ended (it is a zombie)")]
    Zombie(Tid),
    /// No server was found.
    #[error("no mariadbd or mysqld is running; name a process with --pid or --socket")]
    NoServer,
    /// More than one was found.
    #[error("several servers are running; name one with --pid or --socket\n{}", .0.join("\n"))]
    SeveralServers(Vec<String>),
    /// No process listens there.
    #[error("{}: {error}", path.display())]
    Place {
        /// The socket, or the pid file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A pid file without a number in it.
    #[error("{} has no process id: {text:?}", path.display())]
    PidFile {
        /// The file.
        path: PathBuf,
        /// Its content.
        text: String,
    },
    /// Permission is denied.
    #[error("cannot read process {pid}: {reason}")]
    Forbidden {
        /// The process.
        pid: Tid,
        /// Why, and what to do.
        reason: String,
    },
    /// Data from the kernel cannot be parsed.
    #[error("cannot read /proc/{pid}: {error}")]
    Proc {
        /// The process.
        pid: Tid,
        /// The error.
        error: io::Error,
    },
}

/// The process behind a Unix socket.
///
/// # Errors
/// No process listens there.
pub fn by_socket(path: &Path) -> Result<Tid, ProcessError> {
    let place = |error| ProcessError::Place { path: path.to_owned(), error };
    let stream = UnixStream::connect(path).map_err(place)?;
    let peer = getsockopt(&stream, PeerCredentials).map_err(|errno| place(errno.into()))?;
    Ok(peer.pid())
}

/// The process named in a pid file.
///
/// # Errors
/// It contains no number.
pub fn by_pid_file(path: &Path) -> Result<Tid, ProcessError> {
    let text = fs::read_to_string(path)
        .map_err(|error| ProcessError::Place { path: path.to_owned(), error })?;
    let no_number = || ProcessError::PidFile { path: path.to_owned(), text: text.clone() };
    text.trim().parse().map_err(|_| no_number())
}

/// The only running server.
///
/// # Errors
/// There is none, or more than one.
pub fn only_server() -> Result<Tid, ProcessError> {
    let entries = fs::read_dir("/proc").map_err(|error| ProcessError::Proc { pid: 0, error })?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| ProcessError::Proc { pid: 0, error })?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<Tid>().ok()) else {
            continue;
        };
        // It may have ended meanwhile.
        let Ok(stat) = Tasks::new(pid).stat(pid) else { continue };
        if SERVERS.contains(&stat.name.as_str()) && stat.state != 'Z' {
            found.push(pid);
        }
    }
    match found[..] {
        [] => Err(ProcessError::NoServer),
        [pid] => Ok(pid),
        _ => Err(ProcessError::SeveralServers(found.into_iter().map(describe).collect())),
    }
}

fn describe(pid: Tid) -> String {
    // For the user's choice: a process that has ended has no command line.
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let text: String = command.trim().chars().take(100).collect();
    format!("  --pid {pid}   {text}")
}

/// The name of a process's program.
///
/// # Errors
/// There is no such process.
pub fn program(pid: Tid) -> Result<String, ProcessError> {
    match Tasks::new(pid).stat(pid) {
        Ok(stat) if stat.state == 'Z' => Err(ProcessError::Zombie(pid)),
        Ok(stat) => Ok(stat.name),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ProcessError::NoProcess(pid)),
        Err(error) => Err(ProcessError::Proc { pid, error }),
    }
}

/// Checks that this process may inspect another one.
///
/// # Errors
/// Permission is denied; the message says what to do.
pub fn check_permission(pid: Tid) -> Result<(), ProcessError> {
    let tasks = Tasks::new(pid);
    // The kernel checks the same permission here as for stopping a thread.
    match tasks.place(pid) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(ProcessError::Forbidden { pid, reason: reason(pid) });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ProcessError::NoProcess(pid));
        }
        Err(error) => return Err(ProcessError::Proc { pid, error }),
    }
    let tracer = tasks.tracer().map_err(|error| ProcessError::Proc { pid, error })?;
    if let Some(tracer) = tracer {
        let reason = format!("process {tracer} traces it already (a debugger, or strace)");
        return Err(ProcessError::Forbidden { pid, reason });
    }
    Ok(())
}

fn reason(pid: Tid) -> String {
    let owner = fs::metadata(format!("/proc/{pid}")).map(|meta| meta.uid());
    let ours = nix::unistd::geteuid().as_raw();
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    explain(owner.ok(), ours, has_ptrace_capability(), scope.trim())
}

fn explain(owner: Option<u32>, ours: u32, has_capability: bool, ptrace_scope: &str) -> String {
    match (owner, ptrace_scope) {
        (_, "3") => {
            "kernel.yama.ptrace_scope is 3: tracing is off until the machine restarts".into()
        }
        _ if has_capability => "it has rights that this process has not (capabilities, or another \
                                user namespace): run this where the server runs, or outside of \
                                the container"
            .into(),
        (Some(owner), _) if owner != ours => format!(
            "it belongs to user {owner}, this process to user {ours}: run it as root, or as that \
             user (sudo)"
        ),
        (_, "1" | "2") => format!(
            "kernel.yama.ptrace_scope is {ptrace_scope}: run this as root, or allow it for now by \
             `sysctl kernel.yama.ptrace_scope=0`"
        ),
        _ => "run this as root; in a container, give it CAP_SYS_PTRACE (`--cap-add SYS_PTRACE`)"
            .into(),
    }
}

fn has_ptrace_capability() -> bool {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return false };
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> CAP_SYS_PTRACE & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_socket_identifies_its_process() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        assert!(matches!(by_socket(&path), Err(ProcessError::Place { .. })));
        let _listener = UnixListener::bind(&path).expect("a socket");
        assert_eq!(by_socket(&path).expect("ourselves"), std::process::id() as Tid);
    }

    #[test]
    fn a_pid_file_holds_a_number() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), "42\n").expect("writing it");
        assert_eq!(by_pid_file(file.path()).expect("a number"), 42);
        fs::write(file.path(), "").expect("writing it");
        assert!(matches!(by_pid_file(file.path()), Err(ProcessError::PidFile { .. })));
    }

    #[test]
    fn the_reason_names_what_to_do() {
        assert!(explain(Some(105), 1000, false, "0").contains("belongs to user 105"));
        assert!(explain(Some(1000), 1000, false, "1").contains("ptrace_scope=0"));
        assert!(explain(Some(0), 0, true, "").contains("container"));
        assert!(explain(Some(0), 0, true, "3").contains("restarts"));
        assert!(explain(Some(0), 0, false, "").contains("SYS_PTRACE"));
    }

    #[test]
    fn a_missing_process_is_reported() {
        assert!(matches!(check_permission(Tid::MAX), Err(ProcessError::NoProcess(_))));
        assert!(matches!(program(Tid::MAX), Err(ProcessError::NoProcess(_))));
        assert!(program(std::process::id() as Tid).is_ok());
    }
}
