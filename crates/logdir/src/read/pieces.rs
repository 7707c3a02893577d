//! The existing lines of a log in pieces, which several threads can read at the same time.
//!
//! A piece is a file, or a part of a long one that can be read at any offset. Each line is in
//! exactly one piece, and the pieces are in the order of the log.

use std::collections::BTreeSet;
use std::io;

use super::content::Access;
use super::direct::Direct;
use super::files::{Input, LogFile};
use super::newest::{Newest, open_newest};
use super::parts::Part;
use super::reader::Forward;
use super::request::{ReadError, Sink, Window};
use super::scan::Scan;

/// About the length of a piece of such a file, bytes: small enough that threads end at about the
/// same time, and large enough that the work at its borders does not count.
const PIECE_BYTES: u64 = 32 << 20;

/// A log that was listed.
pub struct Pieces {
    files: Vec<LogFile>,
    newest: Option<Newest>,
    pieces: Vec<Piece>,
}

/// One of them.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    /// Index of its file.
    file: usize,
    start: u64,
    /// `None`: to the end of the file.
    end: Option<u64>,
    bytes: u64,
}

impl Pieces {
    /// Lists the pieces that can have lines of a time range. The sink must check the time of each
    /// line. A stream has no pieces: see [`read()`](super::read()).
    ///
    /// # Errors
    /// There is no log, or it cannot be read. Single files that cannot be read are reported to the
    /// sink and skipped.
    pub fn list<S: Sink>(
        place: &Input,
        window: Window,
        access: &Access,
        sink: &mut S,
    ) -> Result<Self, S::Error> {
        Self::of(place, window, access, PIECE_BYTES, sink)
    }

    fn of<S: Sink>(
        place: &Input,
        window: Window,
        access: &Access,
        piece_bytes: u64,
        sink: &mut S,
    ) -> Result<Self, S::Error> {
        let files = super::files_of(place, false, &mut BTreeSet::new(), sink)?;
        let newest = open_newest(&files, false, sink)?;
        let scan = Scan { files: &files, newest: newest.as_ref(), access };
        if sink.wants_last_run() {
            let run = scan.newest_run(sink);
            sink.last_run(run);
        }
        let mut pieces = Vec::new();
        for part in scan.parts(window, sink) {
            let file = files.iter().position(|file| std::ptr::eq(file, part.file));
            let file = file.expect("a part belongs to a listed file");
            let borders =
                borders(&part, access, piece_bytes).map_err(ReadError::of(&part.file.path))?;
            let mut start = part.start;
            for border in borders {
                let bytes = border - start;
                pieces.push(Piece { file, start, end: Some(border), bytes });
                start = border;
            }
            let rest = Part { start, ..part };
            pieces.push(Piece { file, start, end: rest.end, bytes: rest.bytes() });
        }
        Ok(Self { files, newest, pieces })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.pieces.len()
    }

    /// Whether the first piece begins where the log does.
    pub fn is_from_beginning(&self) -> bool {
        self.pieces.first().is_some_and(|piece| piece.file == 0 && piece.start == 0)
    }

    /// The length of all of them, as they are stored, bytes.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// Passes the lines of a piece to a sink, in their order.
    ///
    /// # Errors
    /// The sink failed. A file that cannot be read is reported to it.
    ///
    /// # Panics
    /// There is no piece of this number.
    pub fn read<S: Sink>(
        &self,
        piece: usize,
        access: &Access,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let Piece { file, start, end, .. } = self.pieces[piece];
        let scan = Scan { files: &self.files, newest: self.newest.as_ref(), access };
        scan.show_part(&Part { file: &self.files[file], start, end }, sink)
    }
}

/// Where a part of a file can be divided, without its ends: only before a line.
fn borders(part: &Part<'_>, access: &Access, piece_bytes: u64) -> io::Result<Vec<u64>> {
    let mut borders = Vec::new();
    let bytes = part.bytes();
    if part.file.form.is_encrypted() || bytes < 2 * piece_bytes {
        return Ok(borders);
    }
    let file = part.file.links().open(&part.file.path);
    // Packed or removed since the listing, or unreadable: reading it reports that.
    let Ok(Some(file)) = file.and_then(|file| Direct::of(&file, part.file.form)) else {
        return Ok(borders);
    };
    let end = part.start + bytes;
    let mut at = part.start + piece_bytes;
    while at + piece_bytes <= end {
        // The line that has the byte before this position belongs to the piece before.
        let mut lines = Forward::new(&file, at - 1..end, access.line_bytes_max);
        if lines.next_line()?.is_none() {
            break;
        }
        borders.push(lines.position());
        at = lines.position() + piece_bytes;
    }
    Ok(borders)
}

#[cfg(test)]
mod tests {
    use super::super::test_sink::{Kept, compress};
    use super::*;

    #[test]
    fn each_line_is_in_one_piece() {
        let directory = tempfile::tempdir().unwrap();
        let line = |number: usize| {
            let text = "x".repeat(number * 37 % 90);
            format!(r#"{{"v":1,"seq":{number},"sql":"{text}"}}"#)
        };
        let lines: Vec<String> = (0..300).map(line).collect();
        let text = |lines: &[String]| lines.join("\n") + "\n";
        let path = |name: &str| directory.path().join(name);
        compress(&path("audit-20261121T100000Z-000001.jsonl.zst"), text(&lines[..200]).as_bytes());
        std::fs::write(path("audit-20261121T110000Z-000002.jsonl"), text(&lines[200..])).unwrap();
        let place = Input::of(directory.path()).unwrap();
        let access = Access::default();
        for piece_bytes in [1, 50, 61, 1000, 1 << 20] {
            let mut kept = Kept::default();
            let pieces =
                Pieces::of(&place, Window::default(), &access, piece_bytes, &mut kept).unwrap();
            assert_eq!(pieces.count() == 2, piece_bytes == 1 << 20);
            assert_eq!(pieces.bytes(), text(&lines).len() as u64);
            for piece in 0..pieces.count() {
                pieces.read(piece, &access, &mut kept).unwrap();
            }
            assert!(kept.0.iter().map(|line| str::from_utf8(line).unwrap()).eq(&lines));
        }
    }
}
