//! The forms of one log file: plain, compressed, encrypted.
//!
//! The recorder makes one from another and then removes the first, so a crash may leave two.
//! Readers take the first in the order of [`LOG_ENDINGS`], but a process that can write to the
//! directory can put another text into any of them: all readable forms must have the same lines.

use std::io::{self, Read};

use super::report::{Finding, LogState};
use super::walk::{Source, Walk, Walked, is_locked, is_missing};
use super::{LOG_ENDINGS, Parts};

const BUFFER_BYTES: usize = 64 * 1024;

/// The form of a log file that is compared with its seal.
pub(super) struct Chosen<'a> {
    /// Its name.
    pub(super) name: String,
    /// Its content.
    pub(super) source: Source<'a>,
}

/// The forms of a log file.
pub(super) enum Forms<'a> {
    /// The forms that exist: the one to read, and the names of the others.
    Here(Option<Chosen<'a>>, Vec<String>),
    /// One was removed meanwhile.
    Vanished,
}

impl<'a> Walk<'a> {
    /// Opens the first form of a log file that can be read.
    pub(super) fn open_forms(&self, stem: &str, parts: &Parts) -> Forms<'a> {
        let mut chosen: Option<Chosen<'a>> = None;
        let mut others = Vec::new();
        for (ending, _) in LOG_ENDINGS.iter().zip(parts.logs).filter(|(_, is_here)| *is_here) {
            let name = format!("{stem}.{ending}");
            match &mut chosen {
                // A form that no key opens is chosen only if there is no other.
                Some(first) if !is_locked(Some(&first.source)) => others.push(name),
                _ => {
                    let source = self.directory.open(&name);
                    if is_missing(Some(&source)) {
                        return Forms::Vanished;
                    }
                    let locked = chosen.replace(Chosen { name, source });
                    others.extend(locked.map(|locked| locked.name));
                }
            }
        }
        Forms::Here(chosen, others)
    }

    /// Compares the other forms of a log file with the one that was chosen.
    ///
    /// # Errors
    /// When something cannot be read for a reason that lies in the machine.
    pub(super) fn compare_forms(&mut self, chosen: &str, others: &[String]) -> io::Result<Walked> {
        for other in others {
            let (first, second) = (self.directory.open(chosen), self.directory.open(other));
            if is_missing(Some(&first)) || is_missing(Some(&second)) {
                return Ok(Walked::Vanished);
            }
            if is_locked(Some(&second)) {
                self.report.encrypted_files += 1;
                let text = format!("encrypted, and not compared with {chosen}");
                self.say(LogState::Encrypted, other, None, text);
                continue;
            }
            // Faults of the chosen one are reported when it is compared with its seal.
            let (mut first, mut second) = match (first, second) {
                (Ok(first), Ok(second)) => (first, second),
                (Ok(_), Err(error)) => {
                    self.unreadable(other, error)?;
                    continue;
                }
                (Err(_), _) => {
                    let text = format!("cannot be compared with {chosen}, which cannot be read");
                    self.say(LogState::Modified, other, None, text);
                    continue;
                }
            };
            match first_difference(&mut *first, &mut *second, self.progress) {
                Ok(None) => {
                    let text =
                        format!("{other}: the same lines as {chosen}, which is read instead");
                    self.report.add_note(text);
                }
                Ok(Some(line)) => {
                    let text = format!(
                        "differs from {chosen}, which must have the same lines; nothing shows when \
                         this file was made"
                    );
                    let (state, file) = (LogState::Modified, other.clone());
                    self.tell(Finding { state, file, line: Some(line), seqs: None, text });
                }
                Err((Side::Other, error)) => self.unreadable(other, error)?,
                Err((Side::Chosen, error)) if error.raw_os_error().is_some() => {
                    self.unreadable(chosen, error)?;
                }
                Err((Side::Chosen, _)) => {
                    let text = format!("cannot be compared with {chosen}, which cannot be read");
                    self.say(LogState::Modified, other, None, text);
                }
            }
        }
        Ok(Walked::Read)
    }
}

/// Which of two texts cannot be read.
enum Side {
    Chosen,
    Other,
}

/// The number of the first line in which two texts differ.
fn first_difference(
    chosen: &mut dyn Read,
    other: &mut dyn Read,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<u64>, (Side, io::Error)> {
    let (mut left, mut right) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    let mut line = 1;
    loop {
        let left_bytes = read_full(chosen, &mut left).map_err(|error| (Side::Chosen, error))?;
        let right_bytes = read_full(other, &mut right).map_err(|error| (Side::Other, error))?;
        progress(right_bytes as u64);
        let both = left[..left_bytes].iter().zip(&right[..right_bytes]);
        let same = both.take_while(|(left, right)| left == right).count();
        line += left[..same].iter().filter(|&&byte| byte == b'\n').count() as u64;
        if same < left_bytes.max(right_bytes) {
            return Ok(Some(line));
        }
        if same == 0 {
            return Ok(None);
        }
    }
}

/// Fills the buffer, less at the end only.
fn read_full(source: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
