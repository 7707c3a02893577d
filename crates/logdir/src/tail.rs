//! Line ends and the last `seq`, read from the end of a file.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::compressed;
use super::error::{At, FileError};
use super::form::Form;
use super::fs::{Fs, FsFile, OpenMode};
use super::name::FileName;
use super::seal;

/// A line may be a gigabyte long: it is searched in steps of this many bytes.
pub(crate) const STEP_BYTES: usize = 64 * 1024;
/// `{"v":1,"seq":18446744073709551615,` and room to spare.
pub(crate) const HEAD_BYTES: usize = 64;

/// Why the last `seq` is not known.
#[derive(Debug)]
pub enum LastSeqError {
    /// A file could not be read.
    Unreadable(FileError),
    /// The last complete line does not begin like a record of version 1.
    Unparsable {
        /// The file.
        path: PathBuf,
        /// Where the line begins, bytes from the start of the file.
        offset: u64,
    },
    /// The newest lines are encrypted, and no sidecar tells which number the last one has.
    Encrypted {
        /// The file.
        path: PathBuf,
    },
    /// The newest lines are in something that is no file (a symbolic link).
    NotPlain {
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Display for LastSeqError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LastSeqError::Unreadable(error) => write!(f, "last sequence number unknown: {error}"),
            LastSeqError::Unparsable { path, offset } => write!(
                f,
                "last sequence number unknown: the line at byte {offset} of {} is not a record \
                 of version 1",
                path.display()
            ),
            LastSeqError::Encrypted { path } => write!(
                f,
                "last sequence number unknown: {} is the newest file, it is encrypted, and there is \
                 no sidecar (.chain) that tells. Put back what was removed, or decrypt it beside \
                 itself (age --decrypt), or move all files of this log elsewhere",
                path.display()
            ),
            LastSeqError::NotPlain { path } => write!(
                f,
                "last sequence number unknown: {} is the newest file and is not a plain file of \
                 lines",
                path.display()
            ),
        }
    }
}

impl Error for LastSeqError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            LastSeqError::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}

/// A file of the log: its name and its form.
pub(crate) type Entry = (FileName, Form);

/// The files of the log, oldest first: everything that has one of our names and an ending
/// that holds lines. Sidecars have other endings.
pub(crate) fn list<F: Fs>(fs: &F, dir: &Path) -> Result<Vec<Entry>, FileError> {
    Ok(entries(&fs.list(dir).at("list", dir)?))
}

/// As [`list`], of the names in a directory.
pub(crate) fn entries(names: &[String]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = names
        .iter()
        .filter_map(|entry| FileName::parse(entry))
        .filter_map(|(name, ending)| Some((name, Form::of_ending(ending)?)))
        .collect();
    // While a file is being packed both forms exist; the one to trust sorts last.
    entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    entries
}

pub(crate) fn last_seq_in<F: Fs>(
    fs: &F,
    dir: &Path,
    entries: &[Entry],
) -> Result<Option<u64>, LastSeqError> {
    for (name, form) in entries.iter().rev() {
        let path = dir.join(format!("{name}.{}", form.ending()));
        let unreadable = LastSeqError::Unreadable;
        let stat = match fs.stat(&path) {
            // Removed since the listing: retention, or an administrator.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            stat => stat.at("look at", &path).map_err(unreadable)?,
        };
        if !stat.is_file {
            return Err(LastSeqError::NotPlain { path });
        }
        let packed_seq = match form {
            Form::Plain => None,
            Form::Compressed => Some(compressed::last_seq(fs, &path)?),
            Form::CompressedEncrypted | Form::Encrypted => {
                // Only a file whose lines are all in its sidecar, or one that is not sealed and has a
                // readable file behind it, is ever encrypted.
                match seal::sealed_seq(fs, dir, &name.log_file()).map_err(unreadable)? {
                    Some(seq) => Some(Some(seq)),
                    None => return Err(LastSeqError::Encrypted { path }),
                }
            }
        };
        match packed_seq {
            None => {}
            Some(None) => continue,
            Some(Some(seq)) => return Ok(Some(seq)),
        }
        let file = fs.open(&path, OpenMode::Read).at("open", &path).map_err(unreadable)?;
        let bytes = file.stat().at("look at", &path).map_err(unreadable)?.bytes;
        let end = line_end(&file, bytes).at("read", &path).map_err(unreadable)?;
        if end == 0 {
            continue;
        }
        let start = line_end(&file, end - 1).at("read", &path).map_err(unreadable)?;
        let mut head = [0; HEAD_BYTES];
        let count = head.len().min(usize::try_from(end - start).unwrap_or(usize::MAX));
        let head = &mut head[..count];
        read_exact_at(&file, head, start).at("read", &path).map_err(unreadable)?;
        let mut last = [0; 1];
        if end - start >= 2 {
            read_exact_at(&file, &mut last, end - 2).at("read", &path).map_err(unreadable)?;
        }
        // Behind the last of all numbers there is none.
        return match parse_seq(head).filter(|seq| *seq < u64::MAX) {
            Some(seq) if last == *b"}" => Ok(Some(seq)),
            _ => Err(LastSeqError::Unparsable { path, offset: start }),
        };
    }
    Ok(None)
}

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

/// `seq` of the line that ends at `end`; `None`: it is no record.
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
            // Cut short by somebody while it was being read.
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
/// fields first; anything else is somebody else's line.
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
