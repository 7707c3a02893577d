//! The last `seq` of a log, read from its end.

use std::io;
use std::path::Path;

use super::compressed;
use super::entries::Entry;
use super::error::{At, LastSeqError};
use super::form::Form;
use super::fs::{Fs, FsFile, OpenMode};
use super::lines::{HEAD_BYTES, line_end, parse_seq, read_exact_at};
use super::seal;

/// `seq` of the last line in these files; `None`: there is no line.
pub(crate) fn last_seq_in<F: Fs>(
    fs: &F,
    dir: &Path,
    entries: &[Entry],
) -> Result<Option<u64>, LastSeqError> {
    for (name, form) in entries.iter().rev() {
        let path = dir.join(format!("{name}.{}", form.ending()));
        let unreadable = LastSeqError::Unreadable;
        let stat = match fs.stat(&path) {
            // Removed since the listing, by retention or an administrator.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            stat => stat.at("look at", &path).map_err(unreadable)?,
        };
        if !stat.is_file {
            return Err(LastSeqError::NotPlain { path });
        }
        let packed_seq = match form {
            Form::Plain => None,
            Form::Compressed => Some(compressed::last_seq(fs, &path)?),
            Form::CompressedEncrypted | Form::Encrypted | Form::Columns => {
                // A file is encrypted only if all its lines are in its sidecar, or if it is not
                // sealed and followed by a readable file.
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
        // The highest number has no successor.
        return match parse_seq(head).filter(|seq| *seq < u64::MAX) {
            Some(seq) if last == *b"}" => Ok(Some(seq)),
            _ => Err(LastSeqError::Unparsable { path, offset: start }),
        };
    }
    Ok(None)
}
