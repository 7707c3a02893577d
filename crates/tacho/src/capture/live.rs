//! `tacho capture --interface`: the user, the privileges and the signals.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use signal_hook::consts::{SIGINT, SIGTERM};
use tacho_capture::live::Capture;
use tacho_capture::metrics::Metrics;
use tacho_capture::recording::Recording;

use super::CaptureError;
use super::enrich::Plan;
use super::figures::Figures;
use super::seccomp;
use crate::cli::CaptureArgs;
use crate::recover::user::{self, User};
use crate::say;

/// Arena of a live capture, bytes.
const ARENA_BYTES: u64 = 64 << 20;

/// Records an interface until a signal ends it.
pub fn run(args: &CaptureArgs, interface: &str, log: &Path) -> Result<(), CaptureError> {
    let directory = |error| CaptureError::Directory { path: log.to_owned(), error };
    let log = std::path::absolute(log).map_err(directory)?;
    let new_user = user_of(args, &log)?;
    let enrich = Plan::of(args)?;
    let capture = Capture {
        interface: interface.to_owned(),
        servers: args.server.clone(),
        ring_bytes: usize::try_from(args.ring_size).unwrap_or(usize::MAX),
        threads: args.threads,
        tls_process: args.tls_uprobes,
        budget: args.budget(),
        say: |text| say::problem(text),
    };
    // The sockets and the uprobes need privileges; nothing after them does.
    let open = capture.open()?;
    give_up_privileges(args, new_user)?;
    std::fs::create_dir_all(&log).map_err(directory)?;
    let log = log.canonicalize().map_err(directory)?;
    let signing_key_file = signing_key_file(args, &log);
    check_key(&signing_key_file)?;
    let recording = Recording {
        log_directory: log.clone(),
        arena_directory: args.arena_directory.clone(),
        signing_key_file,
        arena_bytes: ARENA_BYTES,
        redact_literals: args.redact_literals,
        utc: args.utc,
        replay: false,
    };
    let stopped = stopped_by_signal()?;
    let enrichers = enrich.map(|plan| plan.start(open.threads())).transpose()?.unwrap_or_default();
    let started = || say::problem(format!("capturing on {interface} into {}", log.display()));
    let mut figures = Figures::new(interface, args.metrics_file.clone());
    let mut last = Metrics::default();
    let summary = open.run(&recording, stopped.as_fd(), enrichers, started, &mut |metrics| {
        figures.show(metrics);
        last.clone_from(metrics);
    });
    figures.finish(&last);
    let summary = summary?;
    say::problem(format!(
        "{} packets of {} connections; {} packets dropped by the kernel, {} with a wrong checksum",
        summary.packets, summary.figures.connections, summary.dropped, summary.damaged
    ));
    Ok(())
}

/// Becomes readable on a signal; it is never read.
pub(super) fn stopped_by_signal() -> Result<UnixStream, CaptureError> {
    let (stopped, signalled) = UnixStream::pair().map_err(CaptureError::Signal)?;
    for signal in [SIGTERM, SIGINT] {
        let signalled = signalled.try_clone().map_err(CaptureError::Signal)?;
        signal_hook::low_level::pipe::register(signal, signalled).map_err(CaptureError::Signal)?;
    }
    Ok(stopped)
}

/// Becomes the user, if there is one to become, and gives up all privileges and dangerous system
/// calls.
pub(super) fn give_up_privileges(
    args: &CaptureArgs,
    new_user: Option<User>,
) -> Result<(), CaptureError> {
    if let Some(user) = new_user {
        let name = args.user.clone().unwrap_or_else(|| user.uid.to_string());
        user.become_it().map_err(|error| CaptureError::User { name, error })?;
    }
    user::drop_privileges().map_err(CaptureError::Privileges)?;
    // The rest protects without it, so a kernel that has no such filters records all the same.
    if let Err(error) = seccomp::refuse(args.tls_uprobes.is_some()) {
        say::problem(format!("warning: the kernel restricts no system calls: {error}"));
    }
    Ok(())
}

/// The user to become, if the process is root: a decoder of packets must not be.
pub(super) fn user_of(args: &CaptureArgs, log: &Path) -> Result<Option<User>, CaptureError> {
    if let Some(name) = &args.user {
        let failed = |error| CaptureError::User { name: name.clone(), error };
        let user = User::named(name).map_err(failed)?;
        if user.uid == 0 {
            let (owned, log) = (log.to_owned(), log.to_owned());
            return Err(CaptureError::AsRoot { owned, log });
        }
        let is_it = user.uid == rustix::process::geteuid().as_raw();
        return Ok((!is_it).then_some(user));
    }
    if !user::is_root() {
        return Ok(None);
    }
    // The log directory, or the one in which it will be made.
    let owned = log.ancestors().find(|path| path.exists()).unwrap_or(log);
    let owner = User::owner_of(owned)
        .map_err(|error| CaptureError::Directory { path: owned.to_owned(), error })?;
    if owner.uid == 0 {
        let (owned, log) = (owned.to_owned(), log.to_owned());
        return Err(CaptureError::AsRoot { owned, log });
    }
    Ok(Some(owner))
}

/// The signing key of a log: beside its directory, unless it is named.
pub(super) fn signing_key_file(args: &CaptureArgs, log: &Path) -> PathBuf {
    let beside = || log.parent().map(|parent| parent.join("tacho-signing.key"));
    args.signing_key_file.clone().or_else(beside).unwrap_or_default()
}

/// Without its key the log would not be sealed.
pub(super) fn check_key(path: &Path) -> Result<(), CaptureError> {
    let uid = rustix::process::geteuid().as_raw();
    let checked = if let Ok(owner) = User::owner_of(path) {
        // It has mode 0000, which its owner can change.
        if owner.uid == uid { Ok(()) } else { access(path, Access::READ_OK) }
    } else {
        access(path.parent().unwrap_or(Path::new(".")), Access::WRITE_OK | Access::EXEC_OK)
    };
    checked.map_err(|error| CaptureError::Key {
        path: path.to_owned(),
        uid,
        error: io::Error::from(error),
    })
}
