//! The longest line that is read into memory.
//!
//! Files are not trusted: 100 KB of a compressed file may be gigabytes without a newline. A longer line is
//! read and counted, but not kept, and reported with its file, its place and this limit.

use std::io::{self, BufRead};
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;

/// Default of `--max-line-bytes`: statements up to MySQL's default of `max_allowed_packet`, 64 MiB, also if
/// every second byte needs an escape.
const DEFAULT: usize = 128 << 20;

/// Set once, before anything is read.
static LIMIT: AtomicUsize = AtomicUsize::new(DEFAULT);

/// How much memory a line may take.
#[derive(Args, Clone, Copy, Debug)]
pub struct LimitArgs {
    /// Longest line that is read, bytes. A longer one is reported and skipped. Memory use grows with
    /// the longest line, not with this limit
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT as u64,
          value_parser = clap::value_parser!(u64).range(1024..=1 << 40))]
    max_line_bytes: u64,
}

impl LimitArgs {
    /// Makes it the limit of all that is read from here on.
    pub fn apply(self) {
        // Relaxed: it is set before any thread is made that reads.
        LIMIT.store(usize::try_from(self.max_line_bytes).unwrap_or(usize::MAX), Ordering::Relaxed);
    }
}

/// The limit, bytes.
pub fn get() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

/// Why a line was skipped.
pub fn too_long() -> String {
    format!("line longer than {} bytes, skipped; --max-line-bytes raises this limit", get())
}

/// A line that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Its length with its end, bytes; 0 at the end of the source.
    pub bytes: u64,
    /// It is longer than the limit, and nothing of it was kept.
    pub is_too_long: bool,
}

/// Reads up to an `end` into an empty `line`, or to the end of the source. The memory of a line that is too
/// long is given back.
///
/// # Errors
/// As reading the source.
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
