//! Reads lines of a file from both ends and from the middle, reading only the necessary blocks.

use std::io;
use std::ops::Range;

use jiff::Timestamp;
use memchr::{memchr, memrchr};
use tacho_record::Line;

use super::direct::ReadAt;

/// Bytes that are read at once.
pub const BLOCK_BYTES: usize = 64 * 1024;
/// Most bytes that are read at once, within a long line.
const BLOCK_BYTES_MAX: usize = 8 << 20;

/// A line without its newline, and its position in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed<'a> {
    /// Offset of its first byte, bytes.
    pub offset: u64,
    /// The line; empty if it is too long.
    pub bytes: &'a [u8],
    /// It exceeds the limit (see [`super::line_limit`]).
    pub is_too_long: bool,
}

/// Converts a length in a file to one in memory, where a limit for memory was already applied.
fn block_of(bytes: u64, block_bytes: usize) -> usize {
    usize::try_from(bytes).map_or(block_bytes, |bytes| bytes.min(block_bytes))
}

/// Lines of a range of a file, the last one first.
#[derive(Debug)]
pub struct Backward<F> {
    file: F,
    /// Start of the range.
    floor: u64,
    /// File offset of `buffer`.
    position: u64,
    buffer: Vec<u8>,
    /// End of the part of the buffer that was not returned yet, after the newline of the next line.
    end: usize,
    /// Only this much of the buffer may have a newline that was not found yet.
    unsearched: usize,
    /// Longest line that is kept.
    limit: usize,
    /// Bytes read so far.
    pub bytes_read: u64,
}

impl<F: ReadAt> Backward<F> {
    /// Begins at the end of `range`, whose start must be the start of a line. Lines of more than
    /// `limit` bytes are not kept.
    pub fn new(file: F, range: Range<u64>, limit: usize) -> Self {
        Self {
            file,
            floor: range.start,
            position: range.end.max(range.start),
            buffer: Vec::new(),
            end: 0,
            unsearched: 0,
            limit,
            bytes_read: 0,
        }
    }

    /// The line before the last returned one.
    ///
    /// # Errors
    /// The file cannot be read, or has become shorter than the range.
    pub fn next_line(&mut self) -> io::Result<Option<Placed<'_>>> {
        let mut block_bytes = BLOCK_BYTES;
        let mut is_too_long = false;
        loop {
            // The last byte is the newline of the line itself, unless that was discarded.
            let own = usize::from(!is_too_long);
            let search = self.unsearched.min(self.end.saturating_sub(own));
            let start = match memrchr(b'\n', &self.buffer[..search]) {
                Some(newline) => newline + 1,
                None if self.position > self.floor => {
                    if is_too_long || self.end > self.limit.saturating_add(1) {
                        is_too_long = true;
                        block_bytes = BLOCK_BYTES;
                        (self.buffer, self.end, self.unsearched) = (Vec::new(), 0, 0);
                    }
                    self.read_before(block_bytes)?;
                    // A long line must not be copied once per small block.
                    block_bytes = (2 * block_bytes).min(BLOCK_BYTES_MAX);
                    continue;
                }
                None if self.end == 0 && !is_too_long => return Ok(None),
                None => 0,
            };
            let line = &self.buffer[start..self.end];
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            is_too_long |= line.len() > self.limit;
            self.end = start;
            self.unsearched = start;
            return Ok(Some(Placed {
                offset: self.position + start as u64,
                bytes: if is_too_long { &[] } else { line },
                is_too_long,
            }));
        }
    }

    fn read_before(&mut self, block_bytes: usize) -> io::Result<()> {
        let count = block_of(self.position - self.floor, block_bytes);
        let mut buffer = vec![0; count + self.end];
        self.file.fill_at(&mut buffer[..count], self.position - count as u64)?;
        buffer[count..].copy_from_slice(&self.buffer[..self.end]);
        self.buffer = buffer;
        self.position -= count as u64;
        self.end += count;
        self.unsearched = count;
        self.bytes_read += count as u64;
        Ok(())
    }
}

/// Complete lines of a range of a file, the first one first.
#[derive(Debug)]
pub struct Forward<F> {
    file: F,
    /// File offset of `buffer`.
    position: u64,
    buffer: Vec<u8>,
    /// Start of the next line in the buffer.
    start: usize,
    /// Length after `start` in the buffer that is known to have no newline.
    searched: usize,
    /// End of the range.
    end: u64,
    /// Longest line that is kept.
    limit: usize,
    /// Start of a line that is too long and whose end was not found yet.
    too_long_from: Option<u64>,
    /// Bytes read so far.
    pub bytes_read: u64,
}

impl<F: ReadAt> Forward<F> {
    /// Begins at the start of `range`, which must be the start of a line. Lines of more than
    /// `limit` bytes are not kept.
    pub fn new(file: F, range: Range<u64>, limit: usize) -> Self {
        Self {
            file,
            position: range.start,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            end: range.end,
            limit,
            too_long_from: None,
            bytes_read: 0,
        }
    }

    /// The file.
    pub fn file(&self) -> &F {
        &self.file
    }

    /// Longest line that is kept, bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Start of the next line.
    pub fn position(&self) -> u64 {
        self.position + self.start as u64
    }

    /// End of the range.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Moves the end of the range, after the file has grown.
    pub fn extend_to(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// The next line; `None` if the range has no further complete one.
    ///
    /// # Errors
    /// The file cannot be read, or has become shorter than the range.
    pub fn next_line(&mut self) -> io::Result<Option<Placed<'_>>> {
        loop {
            if let Some(found) = memchr(b'\n', &self.buffer[self.searched..]) {
                let newline = self.searched + found;
                let start = std::mem::replace(&mut self.start, newline + 1);
                self.searched = newline + 1;
                let given_up = self.too_long_from.take();
                let is_too_long = given_up.is_some() || newline - start > self.limit;
                return Ok(Some(Placed {
                    offset: given_up.unwrap_or(self.position + start as u64),
                    bytes: if is_too_long { &[] } else { &self.buffer[start..newline] },
                    is_too_long,
                }));
            }
            self.searched = self.buffer.len();
            if self.too_long_from.is_some() || self.searched - self.start > self.limit {
                self.too_long_from.get_or_insert(self.position + self.start as u64);
                self.position += self.searched as u64;
                (self.buffer, self.start, self.searched) = (Vec::new(), 0, 0);
            }
            if !self.read_after()? {
                return Ok(None);
            }
        }
    }

    /// The bytes after the last complete line of the range, once `next_line` has returned `None`.
    pub fn unfinished(&self) -> Placed<'_> {
        match self.too_long_from {
            Some(offset) => Placed { offset, bytes: &[], is_too_long: true },
            None => Placed {
                offset: self.position + self.start as u64,
                bytes: &self.buffer[self.start..],
                is_too_long: false,
            },
        }
    }

    fn read_after(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.start);
        self.position += self.start as u64;
        self.searched -= self.start;
        self.start = 0;
        let length = self.buffer.len();
        let at = self.position + length as u64;
        let count = block_of(self.end.saturating_sub(at), BLOCK_BYTES);
        if count == 0 {
            return Ok(false);
        }
        self.buffer.resize(length + count, 0);
        if let Err(error) = self.file.fill_at(&mut self.buffer[length..], at) {
            self.buffer.truncate(length);
            return Err(error);
        }
        self.bytes_read += count as u64;
        Ok(true)
    }
}

/// End of the last complete line in the first `length` bytes.
///
/// # Errors
/// The file cannot be read.
pub fn complete_length(file: &impl ReadAt, length: u64) -> io::Result<u64> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut position = length;
    while position > 0 {
        let count = block_of(position, BLOCK_BYTES);
        position -= count as u64;
        file.fill_at(&mut block[..count], position)?;
        if let Some(newline) = memrchr(b'\n', &block[..count]) {
            return Ok(position + newline as u64 + 1);
        }
    }
    Ok(0)
}

/// The position in a file that divides it at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// End of the last line whose event ended before the moment (0 if there is none).
    pub before: u64,
    /// Start of the first line whose event ended at the moment or later.
    pub after: Option<u64>,
    /// Bytes read to find it.
    pub bytes_read: u64,
}

/// Finds the position that divides the first `length` bytes of a file at a moment.
///
/// Uses only lines that have the end of their event (see [`Line::end_ts`]), which is the order of
/// the log: a line about a statement that is still open does not show when it was written.
///
/// # Errors
/// The file cannot be read.
pub fn split_at(
    file: &impl ReadAt,
    length: u64,
    moment: Timestamp,
    line_bytes_max: usize,
) -> io::Result<Split> {
    // All events before `low` ended before the moment; the first one that did not begins before
    // `high`, or there is none.
    let (mut low, mut high) = (0, length);
    let mut bytes_read = 0;
    while high - low > 2 * BLOCK_BYTES as u64 {
        let middle = low + (high - low) / 2;
        let mut lines = Forward::new(file, middle..length, line_bytes_max);
        // The line at `middle` belongs to the first half.
        lines.next_line()?;
        match first_ended(&mut lines, high)? {
            Some((range, end)) if end < moment => low = range.end,
            _ => high = middle,
        }
        bytes_read += lines.bytes_read;
    }
    let mut lines = Forward::new(file, low..length, line_bytes_max);
    let mut after = None;
    while let Some((range, end)) = first_ended(&mut lines, length)? {
        if end >= moment {
            after = Some(range.start);
            break;
        }
        low = range.end;
    }
    Ok(Split { before: low, after, bytes_read: bytes_read + lines.bytes_read })
}

/// The next line that begins before `limit` and has the end of its event, and that end.
fn first_ended(
    lines: &mut Forward<impl ReadAt>,
    limit: u64,
) -> io::Result<Option<(Range<u64>, Timestamp)>> {
    while let Some(Placed { offset, bytes, .. }) = lines.next_line()? {
        if offset >= limit {
            break;
        }
        // Broken lines are reported when they are shown, not during a search.
        if let Some(end) = Line::parse(bytes).ok().and_then(|line| line.end_ts()) {
            return Ok(Some((offset..offset + bytes.len() as u64 + 1, end)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
