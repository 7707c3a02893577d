//! One round: new lines of all files, one segment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tacho_replica::ReplicaFile;

use super::{Failure, Pending};
use crate::catalogue::{FileKey, OriginTotals, Position};
use crate::columns::LinePosition;
use crate::digests::Digests;
use crate::lines::Batch;
use crate::segment::{self, Effort, SegmentInfo, SegmentWriter};
use crate::source::{Predecessors, read_lines};
use crate::store::{Store, StoreError};

/// Of one file at least, in bytes, however many files there are.
const SHARE_BYTES: u64 = 1 << 20;

/// What a round has done.
#[derive(Default)]
pub struct Done {
    pub watermarks: BTreeMap<FileKey, Position>,
    pub records: u64,
    pub bytes: u64,
    pub known: u64,
    pub unreadable: u64,
    pub behind_bytes: u64,
    /// Files that cannot be read now.
    pub failed: BTreeMap<FileKey, Failure>,
    /// There were more lines than a round reads.
    pub is_limited: bool,
}

struct Round<'a> {
    store: &'a Store,
    digests: &'a mut Digests,
    batch: Batch,
    /// Of each row, the number of its origin in alphabetical order.
    ranks: Vec<u32>,
    origins: BTreeMap<String, OriginTotals>,
    done: Done,
}

/// Indexes new lines of the files, about `limit` bytes of them.
pub fn run(
    store: &Store,
    pending: &BTreeMap<FileKey, Pending>,
    limit: u64,
    digests: &mut Digests,
) -> Result<Done, StoreError> {
    let mut round = Round {
        store,
        digests,
        batch: Batch::new(),
        ranks: Vec::new(),
        origins: BTreeMap::new(),
        done: Done::default(),
    };
    let share = (limit / pending.len().max(1) as u64).max(SHARE_BYTES);
    for (key, pending) in pending {
        let position = store.position(key);
        if round.done.bytes >= limit && !store.is_forgotten(key) {
            round.done.is_limited |= position.offset < pending.durable;
            round.done.behind_bytes += pending.durable.saturating_sub(position.offset);
            continue;
        }
        let end = match round.file(key, pending, position, share) {
            Ok(end) => end,
            // The other files do not wait for this one.
            Err(error) => {
                let failure = Failure { indexed: position.offset, reason: error.to_string() };
                round.done.failed.insert(key.clone(), failure);
                position.offset
            }
        };
        round.done.behind_bytes += pending.durable.saturating_sub(end);
    }
    round.finish()
}

impl Round<'_> {
    /// Returns the new watermark. If it fails, nothing of the file is in the batch.
    fn file(
        &mut self,
        key: &FileKey,
        pending: &Pending,
        mut position: Position,
        share: u64,
    ) -> Result<u64, StoreError> {
        if self.store.is_forgotten(key) {
            return Ok(pending.durable);
        }
        if position.offset >= pending.durable {
            self.done.watermarks.insert(key.clone(), position);
            return Ok(position.offset);
        }
        let path = &pending.path;
        let file = ReplicaFile::open(path).map_err(StoreError::io(path))?;
        let bytes = read_lines(&file, position.offset, pending.durable, share)
            .map_err(StoreError::io(path))?;
        let same = Predecessors::of(path, key.generation)
            .and_then(|files| files.same(&bytes, position.offset))
            .map_err(StoreError::io(path))?;
        self.origins
            .entry(key.origin.clone())
            .or_insert_with(|| self.store.origins().get(&key.origin).copied().unwrap_or_default());
        let rank = self.origins.len() as u32;
        let begin = position.offset;
        let mut at = 0;
        for end in memchr_lines(&bytes) {
            let range = at..end;
            at = end;
            if same.has(&bytes, range.clone()) {
                self.done.known += 1;
                continue;
            }
            let place = LinePosition {
                origin: &key.origin,
                generation: key.generation,
                file: &key.file,
                offset: begin + range.start as u64,
            };
            let line = &bytes[range.start..range.end - 1];
            let added = self.batch.add(place, line, position.last_ts_us, self.digests);
            position.last_ts_us = position.last_ts_us.max(added.ts_us);
            self.ranks.push(rank);
            self.done.unreadable += u64::from(added.seq == 0);
            if let Some(totals) = self.origins.get_mut(&key.origin) {
                count(totals, key.generation, added.seq, added.ts_us);
            }
        }
        position.offset += bytes.len() as u64;
        self.done.bytes += bytes.len() as u64;
        // Of what is left at least one line may be whole.
        self.done.is_limited |= !bytes.is_empty() && position.offset < pending.durable;
        self.done.watermarks.insert(key.clone(), position);
        Ok(position.offset)
    }

    fn finish(mut self) -> Result<Done, StoreError> {
        self.done.records = self.batch.rows.count() as u64;
        if self.done.bytes == 0 {
            return Ok(self.done);
        }
        let segment = match self.batch.rows.count() {
            0 => None,
            _ => Some(self.write()?),
        };
        let new = &self.digests.new;
        self.store.add(segment, self.done.watermarks.clone(), self.origins, new)?;
        self.digests.new.clear();
        Ok(self.done)
    }

    fn write(&mut self) -> Result<SegmentInfo, StoreError> {
        let (id, path): (u64, PathBuf) = self.store.new_segment();
        let keys = &self.batch.keys;
        let key = |row: u32| {
            let (ts_us, seq) = keys[row as usize];
            (self.ranks[row as usize], ts_us, seq, row)
        };
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        let is_sorted = order.is_sorted_by_key(|&row| key(row));
        if !is_sorted {
            order.sort_unstable_by_key(|&row| key(row));
        }
        let times = keys.iter().map(|&(ts_us, _)| ts_us);
        let (min_ts_us, max_ts_us) =
            times.fold((i64::MAX, i64::MIN), |(min, max), us| (min.min(us), max.max(us)));
        let rows = keys.len() as u64;
        let mut batch = self.batch.rows.finish().map_err(StoreError::segment(&path))?;
        if !is_sorted {
            batch = segment::reordered(&batch, order).map_err(StoreError::segment(&path))?;
        }
        let written = SegmentWriter::create(&path, Effort::Fast).and_then(|mut writer| {
            writer.write(&batch)?;
            writer.finish()
        });
        let bytes = written.map_err(StoreError::segment(&path))?;
        self.store.sync_segments()?;
        Ok(SegmentInfo { id, level: 0, rows, bytes, rollup_bytes: None, min_ts_us, max_ts_us })
    }
}

fn count(totals: &mut OriginTotals, generation: u32, seq: u64, ts_us: i64) {
    totals.records += 1;
    totals.last_ts_us = totals.last_ts_us.max(ts_us);
    if generation > totals.generation {
        (totals.generation, totals.seq) = (generation, 0);
    }
    if generation == totals.generation {
        // The catalogue's numbers have 63 bits; no log has so many lines, but anybody can write so.
        totals.seq = totals.seq.max(seq.min(i64::MAX as u64));
    }
}

/// The end of each line, behind its newline.
fn memchr_lines(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1)
}
