//! The newest checkpoint of a replica.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use tacho_chain::sidecar::{Entries, Meaning};
use tacho_ship::protocol::FileName;

/// How much of the end of a sidecar is read. A recorder writes a checkpoint every few seconds.
const TAIL_BYTES: u64 = 1 << 20;
/// In how many of the newest sidecars one is looked for.
const SIDECARS_MAX: usize = 3;

/// The newest checkpoint in the sidecars of a generation, as it is there.
pub fn checkpoint(directory: &Path, names: &[FileName]) -> io::Result<Option<String>> {
    let chains = names.iter().filter(|name| matches!(name, FileName::Chain(_)));
    for name in chains.rev().take(SIDECARS_MAX) {
        if let Some(found) = in_sidecar(&directory.join(name.to_string()))? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn in_sidecar(path: &Path) -> io::Result<Option<String>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let length = file.metadata()?.len();
    // A start in the middle of an entry spoils only that entry: each ends with its own line.
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut entries = Entries::new(BufReader::new(file.take(TAIL_BYTES)));
    let mut newest = None;
    while let Some(entry) = entries.next_entry()? {
        if matches!(entry.meaning, Some(Meaning::Checkpoint(..))) {
            newest = String::from_utf8(entry.bytes).ok().or(newest);
        }
    }
    Ok(newest)
}
