//! Limits the length of lines.
//!
//! Files are not trusted: 100 KB of a compressed file may be gigabytes without a newline. A line
//! beyond the limit is read and counted, but not kept.

use std::io::{self, BufRead};

/// Limit for ordinary lines, bytes: statements up to MySQL's default of `max_allowed_packet`, 64
/// MiB, even if every second byte needs an escape.
pub const LINE_BYTES_MAX: usize = 128 << 20;

/// A line that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Its length with its end, bytes; 0 at the end of the source.
    pub bytes: u64,
    /// It exceeds the limit, and none of it was kept.
    pub is_too_long: bool,
}

/// Reads up to an `end` into an empty `line`, or to the end of the source. Frees the memory of a
/// line that is too long.
///
/// # Errors
/// The source cannot be read.
pub fn read_until(
    source: &mut (impl BufRead + ?Sized),
    end: u8,
    line: &mut Vec<u8>,
    limit: usize,
) -> io::Result<Length> {
    let mut length = Length { bytes: 0, is_too_long: false };
    line.clear();
    loop {
        let part = match source.fill_buf() {
            Ok(part) => part,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let found = memchr::memchr(end, part);
        let count = found.map_or(part.len(), |at| at + 1);
        length.bytes += count as u64;
        length.is_too_long |= line.len() + count > limit.saturating_add(1);
        if length.is_too_long {
            *line = Vec::new();
        } else {
            line.extend_from_slice(&part[..count]);
        }
        source.consume(count);
        if found.is_some() || count == 0 {
            return Ok(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Read as _};

    #[test]
    fn a_line_that_is_too_long_is_counted_and_not_kept() {
        let text = [&[b'x'; 100][..], b"\n", &[b'y'; 101], b"\nlast"].concat();
        for capacity in [1, 7, 1000] {
            let mut source = BufReader::with_capacity(capacity, &text[..]);
            let mut line = Vec::new();
            let mut next = || {
                let length = read_until(&mut source, b'\n', &mut line, 100).unwrap();
                (length.bytes, length.is_too_long, line.len())
            };
            assert_eq!(
                [next(), next(), next(), next()],
                [(101, false, 101), (102, true, 0), (4, false, 4), (0, false, 0),]
            );
        }
    }

    #[test]
    fn a_gigabyte_without_an_end_takes_no_memory() {
        let mut source = BufReader::with_capacity(64 << 10, io::repeat(0).take(1 << 30));
        let mut line = Vec::new();
        let length = read_until(&mut source, b'\n', &mut line, 1 << 20).unwrap();
        assert_eq!(length, Length { bytes: 1 << 30, is_too_long: true });
        assert_eq!(line.capacity(), 0);
    }
}
