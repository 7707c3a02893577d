//! `tacho recover`: writes the records that a dead server left in its arena to its log.
//!
//! The server uses the same library code at its start; this module contains the search, the change
//! of the user, and the messages.

pub mod find;
pub(crate) mod user;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tacho_logdir::{
    FileError, FileErrorKind, LastSeqError, LogFiles, Options, RealFs, SealOptions, Sealed,
};
use tacho_recorder::arena_file::{self, ArenaError, ArenaFile};
use tacho_recorder::arena_list;
use tacho_recorder::control::{Control, Severity, Status};
use tacho_recorder::recover::{self, RecoverError};
use tacho_recorder::writer::Writer;
use tacho_settings::Setting;

use crate::cli::RecoverArgs;
use crate::cli::log::LogPath;
use crate::say;
use find::{FoundArena, Waiting};

/// Why `tacho recover` failed.
#[derive(Debug, thiserror::Error)]
pub enum RecoverCommandError {
    /// The log directory cannot be used.
    #[error("cannot use the log directory {log}: {error}")]
    Log {
        /// The directory.
        log: LogPath,
        /// The system's error.
        error: io::Error,
    },
    /// Another file or directory cannot be used.
    #[error("cannot use {}: {error}", path.display())]
    Place {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A named arena holds records of another log.
    #[error(
        "{} belongs to the log directory {}; if that directory was moved here, or is mounted here, \
         add --moved",
        path.display(),
        theirs.display()
    )]
    OtherLog {
        /// The arena.
        path: PathBuf,
        /// The log directory in its header.
        theirs: PathBuf,
    },
    /// Root could not become the owner of the log directory.
    #[error("cannot switch to the user that owns {}: {error}", path.display())]
    Owner {
        /// The log directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Another process writes this log.
    #[error("{0} If that is a server, it recovers the rest at its next start")]
    Locked(FileError),
    /// The log directory cannot be written.
    #[error(transparent)]
    Files(FileError),
    /// It is unknown which records are in the log.
    #[error(transparent)]
    LastSeq(#[from] LastSeqError),
    /// Something could not be written; it is still in its arena.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// Stdout cannot be written to.
    #[error("cannot write to stdout")]
    Output(#[from] io::Error),
}

impl RecoverCommandError {
    /// Whether the command line, not the data, is at fault.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Log { .. } | Self::Place { .. } | Self::OtherLog { .. })
    }
}

/// Runs `tacho recover`. Returns the number of problems that were reported on stderr.
///
/// # Errors
/// It had to stop: the records recovered so far are in the log, the rest in its arena.
pub fn run(args: &RecoverArgs) -> Result<u64, RecoverCommandError> {
    let directory = find_log_directory(&args.log.find())?;
    let user_id = user::become_owner(&directory)
        .map_err(|error| RecoverCommandError::Owner { path: directory.clone(), error })?;
    let search = find::search(args, &directory, user_id)?;
    for error in &search.problems {
        say::problem(error);
    }
    if let [first, ..] = &search.foreign[..] {
        let count = say::counted(search.foreign.len() as u64, "file");
        let advice = first.advice();
        say::problem(format_args!("skipped {count} of other users: {first}; {advice}"));
    }
    for path in &search.gone {
        say::problem(format_args!(
            "{} is missing, with the records that its server had not written; the server adds a `lost` \
             line to the log at its next start",
            path.display()
        ));
    }
    let problem_count = (search.problems.len() + search.gone.len()) as u64;
    let last_seq = match search.found.iter().any(|found| !found.alive) {
        true => {
            tacho_logdir::last_seq(&RealFs, &directory, &key_file(args, &directory))?.unwrap_or(0)
        }
        false => 0,
    };
    let (mut dead, mut living) = (Vec::new(), Vec::new());
    for FoundArena { path, server, owner_pid, alive, file, .. } in search.found {
        say::result(&path.display().to_string())?;
        if alive {
            say::result(&format!(
                "  {server}, process {owner_pid}: running, writes its own records"
            ))?;
            living.push(path);
        } else {
            let limit = arena_list::limit(&search.known, &path, last_seq);
            let waiting = find::waiting(&file, limit).map_or_else(|e| e.to_string(), describe);
            say::result(&format!("  {server}, process {owner_pid}: ended, {waiting}"))?;
            dead.push(path);
        }
    }
    if dead.is_empty() {
        if problem_count == 0 {
            say::result(&format!("Nothing to recover for {}.", directory.display()))?;
        }
        return Ok(problem_count);
    }
    if args.dry_run {
        say::result("Nothing was changed (--dry-run).")?;
        return Ok(problem_count);
    }
    let (lines, seal_problem_count) = write(args, &directory, dead, &living, &search.unread)?;
    let lines = say::counted(lines, "line");
    say::result(&format!("Wrote {lines} to {}.", directory.display()))?;
    Ok(problem_count + seal_problem_count)
}

fn find_log_directory(log: &LogPath) -> Result<PathBuf, RecoverCommandError> {
    let place = |error| RecoverCommandError::Log { log: log.clone(), error };
    let directory = log.path.canonicalize().map_err(place)?;
    if !directory.is_dir() {
        return Err(place(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    Ok(directory)
}

fn describe(waiting: Waiting) -> String {
    let Waiting { records, running, damaged } = waiting;
    let mut text = match records {
        0 => "all its records are in the log".to_owned(),
        1 => "1 record is not in the log".to_owned(),
        _ => format!("{} records are not in the log", say::grouped(records)),
    };
    if running > 0 {
        text += &format!(", {} interrupted", say::counted(running, "long statement"));
    }
    if damaged > 0 {
        text += &format!(", {} damaged", say::counted(damaged, "chunk"));
    }
    text
}

/// The path of the log's signing key.
fn key_file(args: &RecoverArgs, directory: &Path) -> PathBuf {
    let beside = || directory.parent().map(|parent| parent.join("tacho-signing.key"));
    args.signing_key_file.path.clone().or_else(beside).unwrap_or_default()
}

/// Continues to seal the log, if its key is available. Never creates a new key, and never breaks
/// the chain: with another log's key, the lines go to a separate file, which the server seals at
/// its next start. Returns the number of problems.
fn seal(
    args: &RecoverArgs,
    directory: &Path,
    files: &mut LogFiles,
    last_seq: u64,
) -> Result<u64, RecoverCommandError> {
    let key_file = key_file(args, directory);
    if key_file.as_os_str().is_empty() {
        files.leave_sealed_file();
        return Ok(0);
    }
    match (files.has_key(&key_file), args.signing_key_file.path.clone()) {
        (Ok(false), Some(path)) => {
            if let Err(error) = std::fs::metadata(&path) {
                return Err(RecoverCommandError::Place { path, error });
            }
            files.leave_sealed_file();
            say::problem(format!(
                "{} is the signing key of another log, so the recovered lines are not sealed; the server \
                 seals them at its next start",
                path.display()
            ));
            return Ok(1);
        }
        (Ok(false), None) => {
            files.leave_sealed_file();
            return Ok(0);
        }
        // If the key cannot be read, sealing fails with the reason.
        (Ok(true) | Err(_), _) => {}
    }
    let options = SealOptions { key_file, checkpoint_interval_s: 0, may_break: false };
    let problem = match files.seal(&options, last_seq) {
        Ok(Sealed { declared: None, .. }) => return Ok(0),
        Ok(Sealed { declared: Some(reason), .. }) => {
            format!(
                "the seal chain of this log is broken ({reason}); `tacho verify` will report it"
            )
        }
        Err(error) => format!(
            "{error} The recovered lines are not sealed; the server seals them at its next start"
        ),
    };
    say::problem(problem);
    Ok(1)
}

/// Writes the contents of the dead arenas, and removes them. Returns the number of lines, and of
/// problems with their seal.
fn write(
    args: &RecoverArgs,
    directory: &Path,
    dead: Vec<PathBuf>,
    living: &[PathBuf],
    unread: &[PathBuf],
) -> Result<(u64, u64), RecoverCommandError> {
    let (options, key) = (Options { rotate_bytes: 0 }, key_file(args, directory));
    let opened = LogFiles::open_with_key(RealFs, directory, options, &key);
    let (mut files, opened) = opened.map_err(|error| match error.kind() {
        FileErrorKind::Locked { .. } => RecoverCommandError::Locked(error),
        _ => RecoverCommandError::Files(error),
    })?;
    files.announce_recovery();
    if opened.torn_bytes > 0 {
        let bytes = say::counted(opened.torn_bytes, "byte");
        say::result(&format!(
            "The last line of the log was incomplete ({bytes}) and was removed."
        ))?;
    }
    let last_seq = opened.last_seq?.unwrap_or(0);
    // Under the lock of the log: a server that starts now cannot use the same arenas.
    arena_file::remove_unfinished(&args.arena_directory.path, directory)
        .map_err(RecoverError::from)?;
    let mut locked = Vec::new();
    for path in dead {
        match ArenaFile::open_dead(&path) {
            Ok(file) => locked.push(file),
            Err(ArenaError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                say::result(&format!("{}: recovered by another process", path.display()))?;
            }
            Err(error) => return Err(RecoverError::from(error).into()),
        }
    }
    let Some(first) = locked.first() else { return Ok((0, 0)) };
    // A server that waits for the log resumes after this.
    for path in living {
        recover::take_back_living(directory, path, last_seq).map_err(RecoverError::from)?;
    }
    // Arenas that cannot be read at present: other lines take their numbers.
    for path in unread {
        arena_list::keep(directory, path, last_seq)
            .map_err(|error| RecoverCommandError::Place { path: path.clone(), error })?;
    }
    let seal_problem_count = seal(args, directory, &mut files, last_seq)?;
    let control = Control::default();
    control.set(Setting::Timestamps, u64::from(args.utc));
    // No new file: the server rotates.
    control.set(Setting::RotateBytes, 0);
    let log = Box::new(|severity, text: &str| {
        if severity != Severity::Note {
            say::problem(text);
        }
    });
    let status = Arc::new(Status::default());
    let mut writer = Writer::new(first.arena(), files, last_seq, Arc::new(control), status, log);
    let recovered = recover::recover_files(&mut writer, locked)?;
    writer.close().map_err(RecoverCommandError::Files)?;
    Ok((recovered.lines, seal_problem_count))
}
