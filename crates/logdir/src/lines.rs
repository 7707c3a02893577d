//! Line ends, and the `seq` of a line.

use std::io;

use super::fs::FsFile;

/// A line may be a gigabyte long: it is searched in steps of this many bytes.
pub(crate) const STEP_BYTES: usize = 64 * 1024;
/// `{"v":1,"seq":18446744073709551615,` and some more.
pub(crate) const HEAD_BYTES: usize = 64;

/// The length of the part of the first `bytes` bytes that consists of complete lines.
pub(crate) fn line_end<L: FsFile>(file: &L, bytes: u64) -> io::Result<u64> {
    let mut buffer = vec![0; STEP_BYTES.min(usize::try_from(bytes).unwrap_or(usize::MAX))];
    let mut end = bytes;
    while end > 0 {
        let start = end.saturating_sub(STEP_BYTES as u64);
        let step = &mut buffer[..(end - start) as usize];
        read_exact_at(file, step, start)?;
        if let Some(at) = step.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// `seq` of the line that ends at `end`; `None`: it is not a record.
pub(crate) fn seq_before<L: FsFile>(file: &L, end: u64) -> io::Result<Option<u64>> {
    let start = line_end(file, end.saturating_sub(1))?;
    let mut head = [0; HEAD_BYTES];
    let count = head.len().min(usize::try_from(end - start).unwrap_or(usize::MAX));
    read_exact_at(file, &mut head[..count], start)?;
    Ok(parse_seq(&head[..count]))
}

/// Fills the buffer from the file.
pub(crate) fn read_exact_at<L: FsFile>(
    file: &L,
    mut buffer: &mut [u8],
    mut offset: u64,
) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, offset) {
            // Another process truncated it while it was being read.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// `seq` of a line of version 1. The formatter writes no spaces and always these two
/// fields first; anything else is a line of another program.
pub(crate) fn parse_seq(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(br#"{"v":1,"seq":"#)?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    if !matches!(rest[digits], b',' | b'}') || (digits > 1 && rest[0] == b'0') {
        return None;
    }
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seq_of_a_line() {
        assert_eq!(parse_seq(br#"{"v":1,"seq":123,"ts":""#), Some(123));
        assert_eq!(parse_seq(br#"{"v":1,"seq":0}"#), Some(0));
        assert_eq!(parse_seq(br#"{"v":1,"seq":18446744073709551615,"#), Some(u64::MAX));
        for line in [
            &br#"{"v":1,"seq":18446744073709551616,"#[..],
            br#"{"v":1,"seq":,"#,
            br#"{"v":1,"seq":12"#,
            br#"{"v":1,"seq":-1,"#,
            br#"{"v":1,"seq":012,"#,
            br#"{"v":1,"seq":12.5,"#,
            br#"{"v":1, "seq":12,"#,
            br#"{"v":2,"seq":12,"#,
            br#"{"v":11,"seq":12,"#,
            b"\0\0\0\0",
            b"\n",
            b"",
        ] {
            assert_eq!(parse_seq(line), None, "{}", String::from_utf8_lossy(line));
        }
    }
}
