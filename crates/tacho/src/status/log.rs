//! The directory, its files, and the newest line.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use tacho_logdir::read::end::{self, NewestLine};
use tacho_logdir::read::files::{self, LogFile};
use tacho_logdir::read::sizes;

use super::report::{Health, Report};
use super::spec::{Check, Metric};
use crate::cli::log::LogPath;
use crate::say;

/// A log that can be read.
pub struct Log {
    /// The directory; canonical, as in the arenas.
    pub path: PathBuf,
    /// The user that owns it.
    pub owner: u32,
    /// Its files, oldest first.
    pub files: Vec<LogFile>,
    /// Time in the name of each file, s since 1970-01-01 UTC, and its bytes with all that belongs
    /// to it, oldest first.
    pub sizes: Vec<(i64, u64)>,
    /// Its newest line, if there is one that can be read.
    pub newest: Option<NewestLine>,
}

impl Log {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.sizes.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

/// What to do about an error.
pub fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as the server's user or root",
        _ => "",
    }
}

/// Looks at the directory. `None`: it is no log, or cannot be read, and the report says so.
pub fn look(report: &mut Report, given: &LogPath) -> Option<Log> {
    match open(given) {
        Ok(log) => {
            show_files(report, &log);
            Some(log)
        }
        Err(text) => {
            report.note(Check::Log, Health::Unknown, text);
            None
        }
    }
}

fn open(given: &LogPath) -> Result<Log, String> {
    let cannot =
        |error: io::Error| format!("cannot read the log {given}: {error}{}", advice(&error));
    let path = given.path.canonicalize().map_err(cannot)?;
    let metadata = path.metadata().map_err(cannot)?;
    if !metadata.is_dir() {
        return Err(format!("{given} is not a directory"));
    }
    let files = files::list(&path).map_err(cannot)?.files;
    if files.is_empty() {
        return Err(format!("no log file (audit-*.jsonl) in {given}: it is not a log directory"));
    }
    let sizes = sizes::list(&path).map_err(cannot)?;
    let sizes = sizes.into_iter().map(|(name, bytes)| (name.stamp_s(), bytes)).collect();
    Ok(Log { path, owner: metadata.uid(), files, sizes, newest: None })
}

fn show_files(report: &mut Report, log: &Log) {
    let count = log.files.len() as u64;
    let bytes = log.bytes();
    report.set(Metric::Files, count as f64);
    report.set(Metric::SizeBytes, bytes as f64);
    let mut text = format!("{}, {}", say::counted(count, "file"), say::bytes(bytes));
    if let Some(begun) = log.files.first().and_then(|file| file.begun) {
        let age_s = report.age_s(begun.as_microsecond());
        report.set(Metric::OldestAge, age_s);
        text += &format!(", since {begun}");
    }
    report.note(Check::Log, Health::Ok, text);
}

/// Finds the newest line.
pub fn look_at_newest(report: &mut Report, log: &mut Log) {
    match end::newest_line(&log.files) {
        Ok(Some(newest)) => {
            let age_s = report.age_s(newest.time.as_microsecond());
            report.set(Metric::NewestSeq, newest.seq as f64);
            let text = format!(
                "line {} (`{}`) is {} old",
                say::grouped(newest.seq),
                newest.event,
                age(age_s)
            );
            report.measure(Check::Newest, age_s, text);
            log.newest = Some(newest);
        }
        Ok(None) => {
            let text = "there is no line that can be read from the end of the log";
            report.note(Check::Newest, Health::Unknown, text);
        }
        Err(error) => {
            let text = format!("cannot read the newest line: {error}{}", advice_on(&error));
            report.note(Check::Newest, Health::Unknown, text);
        }
    }
}

/// What to do about an error of the reader.
pub fn advice_on(error: &tacho_logdir::read::ReadError) -> &'static str {
    use tacho_logdir::read::ReadError;
    match error {
        ReadError::Open { error, .. } | ReadError::Read { error, .. } => advice(error),
        ReadError::NoFiles(_) => "",
    }
}

/// Seconds as text.
pub fn age(seconds: f64) -> String {
    // A float that is too large becomes the largest integer.
    say::age((seconds * 1_000.0) as i64)
}
