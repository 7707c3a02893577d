//! When a new file begins.

use super::current::Current;
use crate::error::{FileError, Reported};
use crate::event::Event;

/// A smaller file never counts as full or old enough, whatever the settings: very many of them cost
/// nothing, and if the line about a removal filled a file, retention by count would never end.
const FULL_BYTES_MIN: u64 = 4096;

/// Decides when a new file begins, see the module documentation.
pub(super) struct Rotation {
    /// A line that would make the file longer than this begins a new one, bytes; 0: no limit.
    max_bytes: u64,
    /// A new file begins at the next end of a line.
    is_requested: bool,
    /// See [`LogFiles::due_rotations`](super::LogFiles::due_rotations).
    due_count: u64,
    reported: Reported,
}

impl Rotation {
    pub(super) fn new(max_bytes: u64) -> Rotation {
        Rotation { max_bytes, is_requested: false, due_count: 0, reported: Reported::default() }
    }

    pub(super) fn set_max_bytes(&mut self, max_bytes: u64) {
        self.max_bytes = max_bytes;
    }

    pub(super) fn due_count(&self) -> u64 {
        self.due_count
    }

    /// Whether a file of this length is full.
    pub(super) fn is_full(&self, bytes: u64) -> bool {
        self.max_bytes > 0 && bytes >= self.max_bytes
    }

    pub(super) fn is_requested(&self) -> bool {
        self.is_requested
    }

    /// Requests a new file at the next end of a line.
    pub(super) fn request(&mut self) {
        self.is_requested = true;
    }

    /// How many bytes of `rest` go into the current file, up to a line end; 0: rotate first.
    pub(super) fn fitting<L>(&self, current: &Current<L>, rest: &[u8]) -> usize {
        let first_line = || rest.iter().position(|&b| b == b'\n').map_or(rest.len(), |at| at + 1);
        let must_finish_line = current.is_mid_line();
        if self.is_requested && current.bytes > 0 {
            return if must_finish_line { first_line() } else { 0 };
        }
        let left = self.max_bytes.saturating_sub(current.bytes);
        if self.max_bytes == 0 || rest.len() as u64 <= left {
            return rest.len();
        }
        match rest[..left as usize].iter().rposition(|&byte| byte == b'\n') {
            Some(at) => at + 1,
            None if must_finish_line || current.bytes == 0 => first_line(),
            None => 0,
        }
    }

    /// Another file was begun.
    pub(super) fn note_done(&mut self) {
        self.is_requested = false;
        self.reported = Reported::default();
    }

    /// It was begun because the previous one was full or old enough.
    pub(super) fn note_due(&mut self, closed_bytes: u64) {
        self.due_count += u64::from(closed_bytes >= FULL_BYTES_MIN);
    }

    /// No new file could be created. Reports this once, until the cause changes.
    pub(super) fn report(&mut self, error: FileError, events: &mut Vec<Event>) {
        if self.reported.is_news(&error) {
            events.push(Event::RotateFailed { error });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::name::FileName;

    fn current(bytes: u64, line_end: u64) -> Current<()> {
        Current { file: (), name: FileName::after(None, 0), path: PathBuf::new(), bytes, line_end }
    }

    #[test]
    fn a_file_takes_whole_lines_up_to_its_limit() {
        let rotation = Rotation::new(10);
        let fitting =
            |bytes, line_end, rest: &[u8]| rotation.fitting(&current(bytes, line_end), rest);
        assert_eq!(fitting(0, 0, b"aaaa\nbbbb\n"), 10);
        assert_eq!(fitting(0, 0, b"aaaa\nbbbbb\n"), 5);
        assert_eq!(fitting(5, 5, b"bbbbb\n"), 0, "the line begins another file");
        assert_eq!(fitting(0, 0, b"aaaaaaaaaaaa\nb\n"), 13, "longer than a file: one of its own");
        assert_eq!(fitting(9, 5, b"aaa\nb\n"), 4, "a line that was begun is finished");
        assert_eq!(Rotation::new(0).fitting(&current(99, 99), b"a\nb\n"), 4);
        assert!(rotation.is_full(10) && !rotation.is_full(9) && !Rotation::new(0).is_full(9));
    }

    #[test]
    fn a_request_is_met_at_the_end_of_the_line() {
        let mut rotation = Rotation::new(0);
        rotation.request();
        assert_eq!(rotation.fitting(&current(9, 5), b"aaa\nb\n"), 4);
        assert_eq!(rotation.fitting(&current(9, 9), b"aaa\nb\n"), 0);
        assert_eq!(rotation.fitting(&current(0, 0), b"aaa\nb\n"), 6, "an empty file is new");
        rotation.note_done();
        assert!(!rotation.is_requested());
    }

    #[test]
    fn small_files_are_not_counted_as_full() {
        let mut rotation = Rotation::new(10);
        rotation.note_due(FULL_BYTES_MIN - 1);
        rotation.note_due(FULL_BYTES_MIN);
        assert_eq!(rotation.due_count(), 1);
    }
}
