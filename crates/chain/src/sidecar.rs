//! Reading a sidecar, entry by entry, in bounded memory.

use std::io::{self, BufRead, Read as _};

use crate::entry::{Checkpoint, Epoch, FRAME_HEAD, Frame, Tombstone};
use crate::hub_tombstone::HubTombstone;
use crate::note::{DASH, Note};

/// Longest entry, bytes. The longest that is ever written has about 700.
const ENTRY_BYTES_MAX: usize = 4096;

/// The meaning of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A run of lines.
    Frame(Frame),
    /// Another key signs from here on.
    Epoch(Box<Epoch>, Note),
    /// The chain, signed.
    Checkpoint(Checkpoint, Note),
    /// A file that was removed.
    Tombstone(Tombstone, Note),
    /// A file that a hub removed from its copy.
    HubTombstone(Box<HubTombstone>, Note),
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of its first line, from 1.
    pub line: u64,
    /// Its bytes as in the file.
    pub bytes: Vec<u8>,
    /// `None`: it cannot be parsed.
    pub meaning: Option<Meaning>,
}

impl Entry {
    /// The meaning of some bytes.
    #[must_use]
    pub fn of(line: u64, bytes: Vec<u8>) -> Entry {
        let meaning = std::str::from_utf8(&bytes).ok().and_then(meaning);
        Entry { line, bytes, meaning }
    }
}

fn meaning(text: &str) -> Option<Meaning> {
    if text.starts_with(FRAME_HEAD) {
        return Frame::parse(text).ok().map(Meaning::Frame);
    }
    let note = Note::parse(text)?;
    if let Ok(epoch) = Epoch::parse(&note.text) {
        return Some(Meaning::Epoch(Box::new(epoch), note));
    }
    if let Ok(checkpoint) = Checkpoint::parse(&note.text) {
        return Some(Meaning::Checkpoint(checkpoint, note));
    }
    if let Ok(tombstone) = Tombstone::parse(&note.text) {
        return Some(Meaning::Tombstone(tombstone, note));
    }
    let tombstone = HubTombstone::parse(&note.text).ok()?;
    Some(Meaning::HubTombstone(Box::new(tombstone), note))
}

/// The entries of a sidecar.
pub struct Entries<R> {
    source: R,
    line: u64,
    /// Bytes of the entries that were read.
    whole_bytes: u64,
    torn: bool,
}

impl<R: BufRead> Entries<R> {
    /// Reads from the start of a sidecar.
    pub fn new(source: R) -> Entries<R> {
        Entries { source, line: 1, whole_bytes: 0, torn: false }
    }

    /// Continues a sidecar: the source is what is behind so many bytes of whole entries, and begins
    /// with this line.
    pub fn resume(source: R, line: u64, whole_bytes: u64) -> Entries<R> {
        Entries { source, line, whole_bytes, torn: false }
    }

    /// Number of the next line, after a whole entry.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Bytes up to the end of the last entry that was read.
    pub fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// Whether the end was reached in the middle of an entry.
    pub fn is_torn(&self) -> bool {
        self.torn
    }

    /// The next entry; `None` at the end, also at a torn one.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        let first = self.line;
        let mut bytes = Vec::new();
        if !self.line_into(&mut bytes)? {
            return Ok(None);
        }
        if !bytes.starts_with(FRAME_HEAD.as_bytes()) {
            // A note ends with its signature line. Text that is not a note must end, too.
            let mut start = 0;
            while !bytes[start..].starts_with(DASH.as_bytes()) && bytes.len() < ENTRY_BYTES_MAX {
                start = bytes.len();
                if !self.line_into(&mut bytes)? {
                    self.torn = true;
                    return Ok(None);
                }
            }
        }
        self.whole_bytes += bytes.len() as u64;
        Ok(Some(Entry::of(first, bytes)))
    }

    /// Appends a line. `false`: there is no complete one. A line that is too long is returned in
    /// pieces, none of which can have a meaning.
    fn line_into(&mut self, bytes: &mut Vec<u8>) -> io::Result<bool> {
        let before = bytes.len();
        let mut limited = self.source.by_ref().take(ENTRY_BYTES_MAX as u64);
        limited.read_until(b'\n', bytes)?;
        let is_whole = bytes.last() == Some(&b'\n') || bytes.len() - before == ENTRY_BYTES_MAX;
        if bytes.len() > before && is_whole {
            self.line += 1;
            return Ok(true);
        }
        self.torn |= bytes.len() > before;
        Ok(false)
    }
}

/// The newest checkpoint in the last bytes of a sidecar. `is_whole`: they are all of its bytes;
/// otherwise they may begin anywhere, and what precedes the first entry that surely begins among
/// them is skipped. Signatures are not checked.
#[must_use]
pub fn newest_checkpoint(end: &[u8], is_whole: bool) -> Option<Checkpoint> {
    let start = if is_whole { 0 } else { entry_start(end)? };
    let mut entries = Entries::new(&end[start..]);
    let mut newest = None;
    // Memory cannot fail to be read.
    while let Ok(Some(entry)) = entries.next_entry() {
        if let Some(Meaning::Checkpoint(checkpoint, _)) = entry.meaning {
            newest = Some(checkpoint);
        }
    }
    newest
}

/// Where the first entry begins: no line of a note begins as a frame does, and an entry follows a
/// signature.
fn entry_start(bytes: &[u8]) -> Option<usize> {
    let mut start = bytes.iter().position(|byte| *byte == b'\n')? + 1;
    loop {
        let line = &bytes[start..];
        if line.starts_with(FRAME_HEAD.as_bytes()) {
            return Some(start);
        }
        let next = start + line.iter().position(|byte| *byte == b'\n')? + 1;
        if line.starts_with(DASH.as_bytes()) {
            return Some(next);
        }
        start = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::CheckpointReason;
    use crate::hash::Hash;
    use crate::key::SecretKey;
    use crate::note;

    #[test]
    fn a_torn_entry_is_none() {
        let digest = Hash::ZERO;
        let frame = Frame { start: 0, end: 9, last_seq: 1, lines: 1, digest, recovered: false };
        let key = SecretKey::from_bytes(&[1; 32]);
        let note = note::sign("something\nelse\n", key.root().origin(), &key);
        let text = format!("{}{note}", frame.to_line());
        for end in 0..=text.len() {
            let mut entries = Entries::new(&text.as_bytes()[..end]);
            let mut count = 0;
            while entries.next_entry().expect("reads").is_some() {
                count += 1;
            }
            let frame_bytes = frame.to_line().len();
            assert_eq!(count, usize::from(end >= frame_bytes) + usize::from(end == text.len()));
            assert_eq!(entries.is_torn(), ![0, frame_bytes, text.len()].contains(&end), "{end}");
            assert!(entries.whole_bytes() <= end as u64);
        }
    }

    #[test]
    fn the_newest_checkpoint_is_found_wherever_the_end_begins() {
        let key = SecretKey::from_bytes(&[1; 32]);
        let origin = key.root().origin().to_owned();
        let checkpoint = |seq| Checkpoint {
            origin: origin.clone(),
            seq,
            chain: Hash::ZERO,
            time_s: 7,
            file: "audit-20261121T015944Z-000042.jsonl".to_owned(),
            offset: 9,
            reason: CheckpointReason::Interval,
            next: Some(key.root()),
        };
        let signed = |seq| note::sign(&checkpoint(seq).to_text(), &origin, &key);
        let digest = Hash::ZERO;
        let frame = Frame { start: 0, end: 9, last_seq: 1, lines: 1, digest, recovered: false };
        let frame = frame.to_line();
        let before = format!("{frame}{}{frame}", signed(1));
        let text = format!("{before}{}{frame}", signed(2));
        let seq = |start: usize, whole| {
            newest_checkpoint(&text.as_bytes()[start..], whole).map(|found| found.seq)
        };
        assert_eq!(seq(0, true), Some(2));
        for start in 0..text.len() {
            // An entry after it must be found, so the frame before it must be whole.
            let expected = (start < before.len() - frame.len()).then_some(2);
            assert_eq!(seq(start, false), expected, "{start}");
        }
        // A checkpoint that is being written does not count.
        let torn = &text.as_bytes()[..before.len() + 40];
        assert_eq!(newest_checkpoint(torn, true).map(|found| found.seq), Some(1));
        assert_eq!(newest_checkpoint(b"", true), None);
        assert_eq!(newest_checkpoint(&[b'\n'; 9000], false), None);
    }

    #[test]
    fn an_endless_line_is_read_in_pieces() {
        let noise = vec![b'x'; 3 * ENTRY_BYTES_MAX];
        let mut entries = Entries::new(&noise[..]);
        let entry = entries.next_entry().expect("reads").expect("a piece");
        assert_eq!((entry.bytes.len(), entry.meaning), (ENTRY_BYTES_MAX, None));
        let lines = vec![b'\n'; 3 * ENTRY_BYTES_MAX];
        let entry = Entries::new(&lines[..]).next_entry().expect("reads").expect("a piece");
        assert_eq!((entry.bytes.len(), entry.meaning), (ENTRY_BYTES_MAX, None));
    }
}
