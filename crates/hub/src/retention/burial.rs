//! What the tombstone of a file says, read from the file itself before it is removed.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};
use tacho_chain::hash::Hash;
use tacho_chain::hub_tombstone::{HubTombstone, RemovedPart};
use tacho_chain::sidecar::{Entries, Meaning};
use tacho_chain::verify::LogState;
use tacho_replica::ReplicaFile;
use tacho_ship::protocol::{BEFORE_BYTES, FileName, Origin, Stem};

use crate::landing::NewestLine;
use crate::landing::removed::{Burial, Held};

const BUFFER_BYTES: usize = 256 << 10;
/// How much of a line has its number.
const HEAD_BYTES: usize = 256;

/// A file that is due, and why.
#[derive(Clone, Debug)]
pub struct Due {
    /// Its log.
    pub origin: Origin,
    /// Its name.
    pub stem: Stem,
    /// The generations that have it, and what was found in each.
    pub generations: Vec<(u64, Option<LogState>)>,
    /// Time of its last record, µs since 1970-01-01 UTC.
    pub newest_us: i64,
    /// The retention.
    pub days: u64,
}

/// What is counted in the lines of a file.
#[derive(Default)]
struct Lines {
    count: u64,
    first_seq: Option<u64>,
    last_seq: u64,
    head: Vec<u8>,
}

impl Lines {
    fn add(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let room = HEAD_BYTES - self.head.len();
            self.head.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                self.count += 1;
                if let Some(line) = NewestLine::of(&self.head) {
                    self.first_seq.get_or_insert(line.seq);
                    self.last_seq = line.seq;
                }
                self.head.clear();
            }
        }
    }
}

/// What a sidecar says.
#[derive(Default)]
struct Sidecar {
    epoch: Option<Vec<u8>>,
    seal: Option<(String, Hash)>,
    first_seq: u64,
    last_seq: u64,
}

impl Due {
    /// Reads the file in one of its generations. `directory`: that of the generation; `durable`:
    /// what was acknowledged, and is read at most.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, directory: &Path, generation: u64, durable: Held) -> io::Result<Burial> {
        let path = |name: FileName| directory.join(name.to_string());
        let [lines_end, chain_end] =
            [durable.lines, durable.chain].map(|end| end.unwrap_or(u64::MAX));
        let mut lines = Lines::default();
        let log = path(FileName::Lines(self.stem.clone()));
        let log = part(&log, lines_end, &mut |bytes| lines.add(bytes))?;
        let chain = path(FileName::Chain(self.stem.clone()));
        let sidecar = part(&chain, chain_end, &mut |_| {})?;
        let sealed = match sidecar.bytes {
            0 => Sidecar::default(),
            bytes => read_sidecar(&chain, bytes)?,
        };
        let (first_seq, last_seq) = match sealed.seal {
            Some(_) => (sealed.first_seq, sealed.last_seq),
            None => (lines.first_seq.unwrap_or(1), lines.last_seq),
        };
        let state = self.generations.iter().find(|(number, _)| *number == generation);
        let tombstone = HubTombstone {
            server: self.origin.to_string(),
            generation,
            file: FileName::Lines(self.stem.clone()).to_string(),
            first_seq,
            last_seq,
            lines: lines.count,
            newest_us: self.newest_us,
            seal: sealed.seal,
            log,
            sidecar,
            state: state.and_then(|(_, state)| *state),
            days: self.days,
            time_s: 0,
            previous: Hash::ZERO,
        };
        Ok(Burial { epoch: sealed.epoch, tombstone })
    }
}

/// Reads a file once, `limit` bytes at most. One that is not there has no bytes.
fn part(path: &Path, limit: u64, each: &mut dyn FnMut(&[u8])) -> io::Result<RemovedPart> {
    let nothing = RemovedPart { bytes: 0, digest: Hash::of(b""), end: Hash::of(b"") };
    let mut file = match ReplicaFile::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(nothing),
        file => file?.into_reader(0).take(limit),
    };
    let end_bytes = usize::try_from(BEFORE_BYTES).unwrap_or(usize::MAX);
    let (mut hasher, mut bytes, mut end) = (Sha256::new(), 0, Vec::new());
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = match file.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        if count == 0 {
            break;
        }
        let read = &buffer[..count];
        hasher.update(read);
        each(read);
        bytes += count as u64;
        end.extend_from_slice(read);
        end.drain(..end.len().saturating_sub(end_bytes));
    }
    Ok(RemovedPart { bytes, digest: Hash(hasher.finalize().into()), end: Hash::of(&end) })
}

fn read_sidecar(path: &Path, bytes: u64) -> io::Result<Sidecar> {
    let mut entries = Entries::new(BufReader::new(File::open(path)?.take(bytes)));
    let mut sidecar = Sidecar::default();
    let Some(first) = entries.next_entry()? else { return Ok(sidecar) };
    let Some(Meaning::Epoch(epoch, _)) = &first.meaning else { return Ok(sidecar) };
    let mut chain = epoch.chain.after(&first.bytes);
    (sidecar.first_seq, sidecar.last_seq) = (epoch.seq.saturating_add(1), epoch.seq);
    let log = epoch.root.origin().to_owned();
    sidecar.epoch = Some(first.bytes);
    while let Some(entry) = entries.next_entry()? {
        if let Some(Meaning::Frame(frame)) = &entry.meaning {
            sidecar.last_seq = frame.last_seq;
        }
        chain = chain.after(&entry.bytes);
    }
    sidecar.seal = Some((log, chain));
    Ok(sidecar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_however_they_are_read() {
        let line = |seq: u64, sql: usize| {
            format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"2026\",\"sql\":\"{}\"}}\n", "x".repeat(sql))
        };
        let text = [line(7, 0), line(8, 1000), "no record\n".to_owned(), line(9, 3)].concat();
        for portion in [1, 7, 300, 10_000] {
            let mut lines = Lines::default();
            text.as_bytes().chunks(portion).for_each(|bytes| lines.add(bytes));
            assert_eq!((lines.count, lines.first_seq, lines.last_seq), (4, Some(7), 9));
        }
    }

    #[test]
    fn the_end_of_a_file_is_what_a_shipper_asks_with() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        for length in [0, 5, 4096, 600_000] {
            let bytes: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            let part = part(&path, u64::MAX, &mut |_| {}).unwrap();
            let end = &bytes[bytes.len().saturating_sub(BEFORE_BYTES as usize)..];
            assert_eq!((part.bytes, part.end), (length.into(), Hash::of(end)));
            assert_eq!(part.digest, Hash::of(&bytes));
            let first = super::part(&path, 3, &mut |_| {}).unwrap();
            assert_eq!(first.digest, Hash::of(&bytes[..bytes.len().min(3)]));
        }
    }
}
