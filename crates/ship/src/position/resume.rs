//! Where a restart continues: finds the last sent line in the log.
//!
//! It is usually in the same file as before. If that file is gone, retention may have removed it,
//! or the recorder may have written its lines again under the next name. A log that lost its end,
//! for example by a power failure, has other lines with numbers that were already sent: its file is
//! sent again.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tacho_chain::verify::Locked;
use tacho_logdir::read::content::{self, Access};
use tacho_logdir::read::files::{self, LogFile};
use tacho_logdir::read::line_limit;
use tacho_record::Line;

use super::order::{Mark, seq_of, stem};

/// Why it cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The log cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The state belongs to another log.
    #[error(
        "{}: another log than that of the state {}, or its newest files were removed: the line \
         that was sent last, seq {seq} in {file}, is not in it, and {reason}. To send this log \
         from its start, remove the state",
        directory.display(), state.display()
    )]
    AnotherLog {
        /// The log.
        directory: PathBuf,
        /// The state.
        state: PathBuf,
        /// Number of the last sent line.
        seq: u64,
        /// Its file.
        file: String,
        /// What the log has instead.
        reason: String,
    },
}

/// Where to continue.
#[derive(Debug, PartialEq, Eq)]
pub struct Resume {
    /// Name of the first file to read, without its ending; `None`: all files.
    pub from: Option<String>,
    /// The last line that need not be sent; `None`: all of the first file is sent.
    pub behind: Option<Mark>,
    /// A message for the operator.
    pub note: Option<Notice>,
}

/// An unusual position to continue at.
#[derive(Debug, PartialEq, Eq)]
pub enum Notice {
    /// The file of the last line is gone.
    FileGone {
        /// The log.
        directory: PathBuf,
        /// The file.
        file: String,
        /// The one to continue with.
        next: String,
    },
    /// The file of the last line has meanwhile been encrypted, and no key opens it.
    Encrypted(PathBuf),
    /// The last line is not in its file.
    CutBack {
        /// The file.
        path: PathBuf,
        /// The last line.
        mark: Mark,
        /// What the file has instead.
        why: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileGone { directory, file, next } => write!(
                f,
                "{}: the file that was being sent, {file}, is gone; continuing with {next}",
                directory.display()
            ),
            Self::Encrypted(path) => write!(
                f,
                "{}: encrypted before all of it was sent; the missing lines are reported as a gap",
                path.display()
            ),
            Self::CutBack { path, mark, why } => write!(
                f,
                "{}: seq {} of {} was sent, but the file {why}: the log was cut back, as by a power \
                 failure. Sending this file again; the receiver may have some of its lines twice, \
                 and lines of the same seq that the log does not have",
                path.display(),
                mark.seq,
                mark.ts
            ),
        }
    }
}

/// The line of a file that has a certain number.
#[derive(Debug, PartialEq, Eq)]
enum LineMatch {
    /// The line.
    Same,
    /// Another line with this number.
    Other,
    /// No line with this number; the file's first and last numbers.
    Nothing(Option<(u64, u64)>),
}

/// Finds `mark` in the log.
///
/// # Errors
/// The log cannot be read, or is another one.
pub fn find(
    directory: &Path,
    state: &Path,
    mark: &Mark,
    access: &Access,
) -> Result<Resume, ResumeError> {
    let files = files::list(directory)
        .map_err(|error| ResumeError::Read { path: directory.to_owned(), error })?
        .files;
    if let Some(file) = files.iter().find(|file| *file.stem == *mark.file) {
        return in_its_file(file, mark, access);
    }
    let another = |reason: String| ResumeError::AnotherLog {
        directory: directory.to_owned(),
        state: state.to_owned(),
        seq: mark.seq,
        file: mark.file.to_string(),
        reason,
    };
    let behind = Some(mark.clone());
    // The newest file that may have the line.
    let mut candidate = None;
    let mut oldest = None;
    for file in &files {
        let first = match first_seq(file, access) {
            // Encrypted meanwhile: its lines are reported as missing when they are due.
            Err(ResumeError::Read { error, .. }) if Locked::is(&error) => continue,
            first => first?,
        };
        let Some(first) = first else { continue };
        oldest.get_or_insert((file, first));
        if first <= mark.seq {
            candidate = Some(file);
        }
    }
    let Some((oldest, first)) = oldest else {
        // No line yet. Later lines are checked by their numbers.
        return Ok(Resume { from: None, behind, note: None });
    };
    let Some(candidate) = candidate else {
        if *oldest.stem < *mark.file {
            return Err(another(format!("older files begin with seq {first}")));
        }
        let note = Notice::FileGone {
            directory: directory.to_owned(),
            file: mark.file.to_string(),
            next: oldest.stem.clone(),
        };
        return Ok(Resume { from: Some(oldest.stem.clone()), behind, note: Some(note) });
    };
    let name = &candidate.stem;
    match look(candidate, mark, access)? {
        LineMatch::Same => {
            let behind = Mark { file: stem(&candidate.path).into(), ..mark.clone() };
            Ok(Resume { from: Some(name.clone()), behind: Some(behind), note: None })
        }
        LineMatch::Other => Err(another(format!("{name} has another line of this number"))),
        // A file was removed from the middle. The rest is reported as a gap.
        LineMatch::Nothing(_)
            if files.iter().any(|file| *file.stem > *mark.file) && **name < *mark.file =>
        {
            let from = files.iter().find(|file| *file.stem > *mark.file);
            let from = from.map(|file| file.stem.clone());
            Ok(Resume { from, behind, note: None })
        }
        LineMatch::Nothing(_) => Err(another(format!("its earlier lines are in {name}"))),
    }
}

fn in_its_file(file: &LogFile, mark: &Mark, access: &Access) -> Result<Resume, ResumeError> {
    let from = Some(file.stem.clone());
    let found = match look(file, mark, access) {
        Err(ResumeError::Read { error, .. }) if Locked::is(&error) => {
            let note = Notice::Encrypted(file.path.clone());
            return Ok(Resume { from, behind: Some(mark.clone()), note: Some(note) });
        }
        found => found?,
    };
    let why = match found {
        LineMatch::Same => return Ok(Resume { from, behind: Some(mark.clone()), note: None }),
        LineMatch::Other => "has another line under its number".to_owned(),
        LineMatch::Nothing(None) => "is empty".to_owned(),
        LineMatch::Nothing(Some((first, last))) => format!("has seq {first} to {last}"),
    };
    let note = Notice::CutBack { path: file.path.clone(), mark: mark.clone(), why };
    Ok(Resume { from, behind: None, note: Some(note) })
}

fn lines(
    file: &LogFile,
    access: &Access,
    mut each: impl FnMut(u64, &[u8]) -> bool,
) -> Result<(), ResumeError> {
    let mut read = || -> io::Result<()> {
        let mut source = content::read_log(&file.path, file.links(), access)?;
        let mut line = Vec::new();
        loop {
            let limit = access.line_bytes_max;
            let length = line_limit::read_until(&mut source, b'\n', &mut line, limit)?;
            if length.is_too_long {
                // Reported when it is due to be sent.
                continue;
            }
            // Without its newline it is not a complete line yet.
            if length.bytes == 0 || line.pop() != Some(b'\n') {
                return Ok(());
            }
            if seq_of(&line).is_some_and(|seq| !each(seq, &line)) {
                return Ok(());
            }
        }
    };
    read().map_err(|error| ResumeError::Read { path: file.path.clone(), error })
}

fn first_seq(file: &LogFile, access: &Access) -> Result<Option<u64>, ResumeError> {
    let mut first = None;
    lines(file, access, |seq, _| {
        first = Some(seq);
        false
    })?;
    Ok(first)
}

fn look(file: &LogFile, mark: &Mark, access: &Access) -> Result<LineMatch, ResumeError> {
    let mut range: Option<(u64, u64)> = None;
    let mut found = None;
    lines(file, access, |seq, line| {
        let first = range.map_or(seq, |(first, _)| first);
        range = Some((first, seq));
        if seq == mark.seq {
            let same = Line::parse(line).is_ok_and(|line| line.ts == mark.ts);
            found = Some(if same { LineMatch::Same } else { LineMatch::Other });
        }
        found.is_none()
    })?;
    Ok(found.unwrap_or(LineMatch::Nothing(range)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "audit-20261121T100000Z-000001";
    const TWO: &str = "audit-20261121T110000Z-000002";
    const THREE: &str = "audit-20261121T120000Z-000003";

    fn mark(file: &str, seq: u64) -> Mark {
        let ts = format!("2026-11-21T10:00:{seq:02}Z").parse().unwrap();
        Mark { file: file.into(), seq, ts }
    }

    /// A log directory with files of these lines.
    fn log(files: &[(&str, std::ops::Range<u64>)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (stem, seqs) in files {
            let text: String = seqs
                .clone()
                .map(|seq| {
                    let ts = format!("2026-11-21T10:00:{seq:02}Z");
                    format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"{ts}\",\"event\":\"stop\"}}\n")
                })
                .collect();
            std::fs::write(directory.path().join(format!("{stem}.jsonl")), text).unwrap();
        }
        directory
    }

    fn found(log: &tempfile::TempDir, mark: &Mark) -> Result<Resume, ResumeError> {
        find(log.path(), Path::new("state"), mark, &Access::default())
    }

    #[test]
    fn it_continues_in_the_file() {
        let log = log(&[(ONE, 1..5), (TWO, 5..9)]);
        let expected =
            Resume { from: Some(TWO.to_owned()), behind: Some(mark(TWO, 6)), note: None };
        assert_eq!(found(&log, &mark(TWO, 6)).unwrap(), expected);
        // Also if it was compressed.
        let plain = log.path().join(format!("{TWO}.jsonl"));
        let small = zstd::encode_all(&*std::fs::read(&plain).unwrap(), 3).unwrap();
        std::fs::write(plain.with_extension("jsonl.zst"), small).unwrap();
        std::fs::remove_file(plain).unwrap();
        assert_eq!(found(&log, &mark(TWO, 6)).unwrap(), expected);
    }

    #[test]
    fn files_removed_by_retention_are_reported() {
        let resume = found(&log(&[(THREE, 20..25)]), &mark(ONE, 6)).unwrap();
        assert_eq!((resume.from.as_deref(), resume.behind), (Some(THREE), Some(mark(ONE, 6))));
        assert!(
            resume
                .note
                .unwrap()
                .to_string()
                .contains("is gone; continuing with audit-20261121T120000Z")
        );
    }

    #[test]
    fn lines_that_were_written_again_under_the_next_name_are_known() {
        let resume = found(&log(&[(ONE, 1..5), (THREE, 5..12)]), &mark(TWO, 7)).unwrap();
        assert_eq!((resume.from.as_deref(), resume.behind), (Some(THREE), Some(mark(THREE, 7))));
    }

    #[test]
    fn a_file_that_was_taken_out_of_the_middle_is_a_gap() {
        let resume = found(&log(&[(ONE, 1..5), (THREE, 10..12)]), &mark(TWO, 7)).unwrap();
        assert_eq!((resume.from.as_deref(), resume.behind), (Some(THREE), Some(mark(TWO, 7))));
    }

    #[test]
    fn a_log_that_was_cut_back_is_sent_again_from_that_file_on() {
        // Shorter than what was sent; and then grown again, with other lines.
        let other = Mark { ts: "2026-11-21T09:00:00Z".parse().unwrap(), ..mark(TWO, 8) };
        for mark in [mark(TWO, 20), other] {
            let resume = found(&log(&[(ONE, 1..5), (TWO, 5..9)]), &mark).unwrap();
            assert_eq!((resume.from.as_deref(), resume.behind), (Some(TWO), None));
            assert!(resume.note.unwrap().to_string().contains("the log was cut back"));
        }
    }

    #[test]
    fn another_log_is_refused() {
        // A newer one with the same numbers; an older one; and one that ends earlier.
        for (files, mark) in [
            (vec![(TWO, 1..9)], Mark { ts: Default::default(), ..mark(ONE, 6) }),
            (vec![(ONE, 30..40)], mark(TWO, 6)),
            (vec![(TWO, 1..3)], mark(ONE, 6)),
        ] {
            let error = found(&log(&files), &mark).unwrap_err().to_string();
            assert!(error.contains("another log"), "{error}");
        }
    }

    #[test]
    fn a_restart_waits_for_lines_of_an_empty_log() {
        let resume = found(&log(&[]), &mark(ONE, 6)).unwrap();
        assert_eq!(resume, Resume { from: None, behind: Some(mark(ONE, 6)), note: None });
    }
}
