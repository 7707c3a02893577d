//! Records as lines of the replica: an index has the columns of a search in one place, and those of
//! a whole record in some 60.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _};

use tacho_replica::ReplicaFile;
use tacho_ship::protocol::{FileName, Origin};

use super::filter::BYTES_MAX;
use super::records::Cursor;
use crate::data::DataDirectory;

/// The lines of these records, in the same order, each without its newline.
///
/// # Errors
/// One of them cannot be read: it is in no file any more, or too long, or not of UTF-8. The index
/// has all of them nevertheless.
pub fn read(data: &DataDirectory, keys: &[Cursor]) -> io::Result<Vec<String>> {
    // One file after the other, each from its beginning: of a compressed one, a part of 1 MiB is in
    // memory.
    let mut order: BTreeMap<(&str, u32, &str), Vec<usize>> = BTreeMap::new();
    for (at, key) in keys.iter().enumerate() {
        order.entry((key.server(), key.generation(), key.file())).or_default().push(at);
    }
    let mut lines = vec![String::new(); keys.len()];
    let mut rest_bytes = BYTES_MAX;
    for ((server, generation, file), mut places) in order {
        let server: Origin = server.parse().map_err(io::Error::other)?;
        let file: FileName = file.parse().map_err(io::Error::other)?;
        let directory = data.generation(&server, generation.into());
        let file = ReplicaFile::open(&directory.join(file.to_string()))?;
        places.sort_by_key(|at| keys[*at].offset());
        for at in places {
            let line = line(&file, keys[at].offset(), rest_bytes)?;
            let line = line.ok_or(ErrorKind::UnexpectedEof)?;
            rest_bytes -= line.len() as u64;
            lines[at] = String::from_utf8(line).map_err(io::Error::other)?;
        }
    }
    Ok(lines)
}

/// The line that begins there, without its newline. `None`: it is too long, or has no end.
///
/// # Errors
/// The file cannot be read.
pub fn line(file: &ReplicaFile, offset: u64, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    BufReader::new(file.read_from(offset)).take(bytes_max).read_until(b'\n', &mut line)?;
    Ok((line.pop() == Some(b'\n')).then_some(line))
}
