//! `tacho pmp`: profiles the threads of a server with minimal pauses.
//!
//! The library `tacho-pmp` samples; this module has the command line, progress and files.

pub mod args;
mod diff;
mod kernel;

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tacho_pmp::bpftrace::BpftraceError;
use tacho_pmp::folded::{self, FoldedError, Root};
use tacho_pmp::process::{self, ProcessError};
use tacho_pmp::processlist::{ProcessList, ProcessListError, SqlStates};
use tacho_pmp::profile::Profile;
use tacho_pmp::report::Show;
use tacho_pmp::sampler::{Sampler, StopPolicy};
use tacho_pmp::verdict::{BUILT_IN, Finding, Patterns, PatternsError};
use tacho_pmp::{flame, page, pt_pmp, report};

use crate::say;
use args::{Format, PmpArgs, PmpCommand, Stop, Threads};

/// Time between two updates of the progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Why `tacho pmp` failed.
#[derive(Debug, thiserror::Error)]
pub enum PmpError {
    /// No process, or no permission to read it.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The process list cannot be read.
    #[error(transparent)]
    ProcessList(#[from] ProcessListError),
    /// The login is incomplete.
    #[error("{0:#}")]
    Login(anyhow::Error),
    /// The user's patterns are invalid.
    #[error("cannot use the patterns in {}: {error}", path.display())]
    Patterns {
        /// The file.
        path: PathBuf,
        /// The error.
        error: PatternsError,
    },
    /// bpftrace failed.
    #[error(transparent)]
    Bpftrace(#[from] BpftraceError),
    /// A file system error.
    #[error("cannot read or write {}: {error}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A profile for the comparison is invalid.
    #[error("cannot use the profile {}: {error}", path.display())]
    Folded {
        /// The file.
        path: PathBuf,
        /// The error.
        error: FoldedError,
    },
    /// The process could not be sampled.
    #[error("cannot sample process {pid}: {error}")]
    Sample {
        /// The process.
        pid: i32,
        /// The system's error.
        error: io::Error,
    },
    /// There are results of an earlier run.
    #[error("{} has a profile already; name another directory or add --overwrite", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// Stdout cannot be written to, or the like.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl PmpError {
    /// Whether the command line, not the data, is at fault.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Process(_) | Self::Login(_) | Self::Patterns { .. } | Self::Exists { .. }
        )
    }
}

/// Runs `tacho pmp`.
///
/// # Errors
/// There is no profile to show.
pub fn run(args: &PmpArgs) -> Result<(), PmpError> {
    if let Some(PmpCommand::Diff(args)) = &args.command {
        return diff::run(args);
    }
    if args.print_patterns {
        return Ok(io::stdout().lock().write_all(BUILT_IN.as_bytes())?);
    }
    let patterns = patterns(args.patterns.as_deref())?;
    let pid = find_process(args)?;
    let program = process::program(pid)?;
    process::check_permission(pid)?;
    if let Some(directory) = &args.output {
        // Checked before minutes of work.
        let file = |error| PmpError::File { path: directory.clone(), error };
        fs::create_dir_all(directory).map_err(file)?;
        for name in files_of(args) {
            if !args.overwrite && directory.join(name).try_exists().map_err(file)? {
                return Err(PmpError::Exists { path: directory.clone() });
            }
        }
    }
    if let Some(what) = args.bpftrace {
        return kernel::run(args, what, pid, &program);
    }
    let process_list = process_list(args)?;
    let sampler = Sampler::new(pid, &program, stop_policy(args.stop), &patterns)
        .map_err(|error| PmpError::Sample { pid, error })?;
    for problem in sampler.modules().problems() {
        say::problem(format!("no function names from {problem}"));
    }
    let mut progress = Progress::new(args)?;
    let mut sql_states =
        || process_list.as_ref().map_or_else(SqlStates::default, ProcessList::take);
    let profile = sampler
        .run(args.interval, &mut sql_states, &mut |profile| progress.go_on(profile))
        .map_err(|error| PmpError::Sample { pid, error })?;
    progress.end();
    let findings = patterns.findings(&profile);
    let with_idle = args.threads == Threads::All;
    if let Some(directory) = &args.output {
        write_files(directory, &profile, &findings, with_idle)?;
    }
    show(args, &profile, &findings, with_idle)
}

/// The files of a profile.
const FILES: [&str; 6] = [FOLDED, PT_PMP, PROFILE, SUMMARY, FLAME, REPORT];
const FOLDED: &str = "stacks.folded";
const PT_PMP: &str = "pt-pmp.txt";
const PROFILE: &str = "profile.json";
const SUMMARY: &str = "summary.txt";
const FLAME: &str = "flame.svg";
const REPORT: &str = "report.html";

/// The files of a profile of this kind.
fn files_of(args: &PmpArgs) -> Vec<String> {
    match args.bpftrace {
        Some(what) => ["folded", "svg"].map(|it| format!("{}.{it}", kernel::name(what))).into(),
        None => FILES.map(str::to_owned).into(),
    }
}

fn stop_policy(stop: Stop) -> StopPolicy {
    match stop {
        Stop::Needed => StopPolicy::Needed,
        Stop::Never => StopPolicy::Never,
        Stop::Always => StopPolicy::Always,
    }
}

fn patterns(path: Option<&Path>) -> Result<Patterns, PmpError> {
    let wrong = |path: &Path, error| PmpError::Patterns { path: path.to_owned(), error };
    let mut patterns =
        Patterns::built_in().map_err(|error| wrong(Path::new("built-in patterns"), error))?;
    if let Some(path) = path {
        let text = fs::read_to_string(path)
            .map_err(|error| PmpError::File { path: path.to_owned(), error })?;
        patterns.add(Patterns::parse(&text).map_err(|error| wrong(path, error))?);
    }
    Ok(patterns)
}

fn find_process(args: &PmpArgs) -> Result<i32, ProcessError> {
    match (args.pid, &args.pid_file, &args.server.socket) {
        (Some(pid), _, _) => Ok(pid),
        (None, Some(path), _) => process::by_pid_file(path),
        (None, None, Some(path)) => process::by_socket(path),
        (None, None, None) => process::only_server(),
    }
}

/// Reads the process list if a server is named.
fn process_list(args: &PmpArgs) -> Result<Option<ProcessList>, PmpError> {
    if !args.server.names_server() {
        args.server.login().map_err(PmpError::Login)?;
        return Ok(None);
    }
    let password = args.server.read_password().map_err(PmpError::Login)?;
    Ok(ProcessList::start(&args.server.client_options(), password.as_deref()).map(Some)?)
}

/// Shows the progress, and ends the run in time.
struct Progress {
    end: Instant,
    shown: Option<Instant>,
    interrupted: Arc<AtomicBool>,
    is_shown: bool,
}

impl Progress {
    fn new(args: &PmpArgs) -> io::Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // The second signal ends the process at once.
            signal_hook::flag::register_conditional_shutdown(signal, 1, interrupted.clone())?;
            signal_hook::flag::register(signal, interrupted.clone())?;
        }
        Ok(Self {
            end: Instant::now() + args.duration,
            shown: None,
            interrupted,
            is_shown: !args.quiet && io::stderr().is_terminal(),
        })
    }

    fn go_on(&mut self, profile: &Profile) -> bool {
        let now = Instant::now();
        if self.is_shown && self.shown.is_none_or(|shown| shown + PROGRESS_INTERVAL < now) {
            self.shown = Some(now);
            let left = self.end.saturating_duration_since(now).as_secs_f64();
            // A closed stderr does not end the run.
            let _ = write!(
                io::stderr(),
                "\r{} rounds, {} samples, {left:.0} s to go \x1b[K",
                profile.rounds,
                profile.samples(true)
            );
        }
        now < self.end && !self.interrupted.load(Ordering::Relaxed)
    }

    fn end(&self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn write_files(
    directory: &Path,
    profile: &Profile,
    findings: &[Finding],
    with_idle: bool,
) -> Result<(), PmpError> {
    let write = |name: &str, contents: &[u8]| {
        let path = directory.join(name);
        fs::write(&path, contents).map_err(|error| PmpError::File { path, error })
    };
    write(FOLDED, folded::text(&folded::fold(profile, with_idle, Root::Thread)).as_bytes())?;
    write(PT_PMP, pt_pmp::text(profile, with_idle).as_bytes())?;
    write(PROFILE, &json(profile, findings)?)?;
    let shown = Show { with_idle, verdict: true, stacks: usize::MAX };
    write(SUMMARY, report::text(profile, findings, shown).as_bytes())?;
    let folded = folded::fold(profile, with_idle, Root::ThreadState);
    // No picture without samples.
    if !folded.is_empty() {
        let title = format!("{}, process {}", profile.program, profile.pid);
        write(FLAME, &flame::svg(&title, &folded)?)?;
    }
    write(REPORT, page::page(profile, findings, with_idle).as_bytes())
}

fn json(profile: &Profile, findings: &[Finding]) -> Result<Vec<u8>, PmpError> {
    #[derive(serde::Serialize)]
    struct Json<'a> {
        #[serde(flatten)]
        profile: &'a Profile,
        findings: &'a [Finding],
    }
    Ok(serde_json::to_vec(&Json { profile, findings }).map_err(io::Error::from)?)
}

fn show(
    args: &PmpArgs,
    profile: &Profile,
    findings: &[Finding],
    with_idle: bool,
) -> Result<(), PmpError> {
    match args.format {
        Format::Summary => {
            let shown = Show { with_idle, verdict: true, stacks: args.top };
            for line in report::text(profile, findings, shown).lines() {
                say::result(line)?;
            }
            if let Some(directory) = &args.output {
                say::result(&format!("Files: {}", directory.display()))?;
            }
        }
        Format::Pmp => write_lines(&pt_pmp::text(profile, with_idle))?,
        Format::Folded => {
            write_lines(&folded::text(&folded::fold(profile, with_idle, Root::Thread)))?;
        }
        Format::Json => {
            let mut json = json(profile, findings)?;
            json.push(b'\n');
            io::stdout().lock().write_all(&json)?;
        }
    }
    Ok(())
}

/// Function names come from foreign files, so they are sanitized for a terminal.
fn write_lines(text: &str) -> io::Result<()> {
    text.lines().try_for_each(say::result)
}
