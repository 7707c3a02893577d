//! Records as lines of the replica: an index has the columns of a search in one place, and those of
//! a whole record in some 60.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _};
use std::path::Path;

use tacho_replica::ReplicaFile;
use tacho_replica::columns::CONTENT_BYTES;
use tacho_ship::protocol::{FileName, Origin};

use super::filter::BYTES_MAX;
use super::records::Cursor;
use crate::data::DataDirectory;

/// Most parts of compressed files that are decompressed for some records. Each takes 2 ms, and the
/// index needs some 15 ms for all columns of a page.
const PARTS_MAX: usize = 8;

/// The lines of these records, in the same order, each without its newline.
///
/// # Errors
/// One of them cannot be read: it is in no file any more, or too long, or not of UTF-8. Or they are
/// so far apart in compressed files that the index is faster. The index has all of them.
pub fn read(data: &DataDirectory, keys: &[&Cursor]) -> io::Result<Vec<String>> {
    // One file after the other, each from its beginning: of a compressed one, a part of 1 MiB is in
    // memory.
    let mut order: BTreeMap<(&str, u32, &str), Vec<usize>> = BTreeMap::new();
    for (at, key) in keys.iter().enumerate() {
        order.entry((key.server(), key.generation(), key.file())).or_default().push(at);
    }
    let mut files = Vec::with_capacity(order.len());
    let mut parts = 0;
    for ((server, generation, file), mut places) in order {
        let server: Origin = server.parse().map_err(io::Error::other)?;
        let file: FileName = file.parse().map_err(io::Error::other)?;
        let path = data.generation(&server, generation.into()).join(file.to_string());
        places.sort_by_key(|at| keys[*at].offset());
        parts += compressed_parts(&path, places.iter().map(|at| keys[*at].offset()));
        if parts > PARTS_MAX {
            return Err(io::Error::other("the records are in too many parts of compressed files"));
        }
        files.push((path, places));
    }
    let mut lines = vec![String::new(); keys.len()];
    let mut rest_bytes = BYTES_MAX;
    for (path, places) in files {
        let file = ReplicaFile::open(&path)?;
        for at in places {
            let line = line(&file, keys[at].offset(), rest_bytes)?;
            let line = line.ok_or(ErrorKind::UnexpectedEof)?;
            rest_bytes -= line.len() as u64;
            lines[at] = String::from_utf8(line).map_err(io::Error::other)?;
        }
    }
    Ok(lines)
}

/// How many parts of a compressed file these offsets, in order, are in. A plain one has no parts.
fn compressed_parts(path: &Path, offsets: impl Iterator<Item = u64>) -> usize {
    if path.exists() {
        return 0;
    }
    let mut parts: Vec<u64> = offsets.map(|offset| offset / CONTENT_BYTES as u64).collect();
    parts.dedup();
    parts.len()
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

#[cfg(test)]
mod tests {
    use tacho_replica::{columns, compressed_path};

    use super::*;

    #[test]
    fn only_compressed_files_have_parts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit-1.jsonl");
        let part = CONTENT_BYTES as u64;
        let offsets = [1, part - 1, part, 5 * part, 5 * part + 1];
        let parts = || compressed_parts(&path, offsets.into_iter());
        let mut writer = columns::Writer::new(Vec::new()).unwrap();
        writer.part(b"{}\n").unwrap();
        std::fs::write(compressed_path(&path), writer.finish().unwrap()).unwrap();
        assert_eq!(parts(), 3);
        std::fs::write(&path, "{}\n").unwrap();
        assert_eq!(parts(), 0);
    }
}
