//! A scan before a query that finds a text: which row groups can have it at all.
//!
//! DuckDB makes a text of each value and converts it to lower case. The scan looks for the text in
//! the decompressed pages, whose values are one behind the other, and reads no other column. It
//! knows less than the query: what it finds may be no hit, and what it does not understand counts
//! as found. So it only says what DuckDB need not read, and the condition of the query stays.
//!
//! | module | contents |
//! |---|---|
//! | `segment` | row groups and their pages |
//! | `finder` | a text in any case in bytes |

mod finder;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde::{Deserialize, Serialize};

use finder::TextFinder;
pub use segment::Cancelled;
use segment::{OpenSegment, RowGroup};

/// Segments that are open at the same time.
const FILES_AT_ONCE: usize = 64;
/// Parts of files that a query reads at most; of further files it reads everything.
const PARTS_MAX: usize = 16;
/// Row groups that are remembered at most.
const KNOWN_MAX: usize = 100_000;

/// A property of all rows that a query finds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prescan {
    /// Each of them has one of these.
    pub any: Vec<Needle>,
    /// They are from this time on, µs since 1970.
    pub from_us: i64,
    /// They are from before this time.
    pub to_us: i64,
}

/// A text in one of some columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needle {
    /// The columns.
    pub columns: Vec<String>,
    /// The text; its ASCII letters may be in any case.
    pub text: String,
}

/// A file that a query reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The file.
    pub file: PathBuf,
    /// The rows, by their numbers in the file. `None`: all.
    pub rows: Option<Range<u64>>,
}

/// The texts of a scan.
struct Texts {
    finders: Vec<TextFinder>,
    columns: Vec<ColumnTexts>,
}

/// The texts that are looked for in a column.
struct ColumnTexts {
    name: String,
    /// Their numbers.
    texts: Vec<usize>,
}

impl Texts {
    fn new(needles: &[Needle]) -> Self {
        let mut columns = Vec::<ColumnTexts>::new();
        for (text, needle) in needles.iter().enumerate() {
            for name in &needle.columns {
                match columns.iter_mut().find(|column| column.name == *name) {
                    Some(column) => column.texts.push(text),
                    None => columns.push(ColumnTexts { name: name.clone(), texts: vec![text] }),
                }
            }
        }
        let finders = needles.iter().map(|needle| TextFinder::new(&needle.text)).collect();
        Self { finders, columns }
    }
}

/// Scans, and remembers what the last texts were not in: a page of records asks several times, and
/// so does the next page. Segments never change.
pub struct Prescanner {
    threads: usize,
    is_cancelled: Arc<AtomicBool>,
    any: Vec<Needle>,
    known: HashMap<PathBuf, Vec<RowGroup>>,
}

impl Prescanner {
    /// A scanner that uses so many threads, and stops when the flag is set.
    pub fn new(threads: usize, is_cancelled: Arc<AtomicBool>) -> Self {
        Self { threads, is_cancelled, any: Vec::new(), known: HashMap::new() }
    }

    /// The parts of `files` that can have rows which the query finds.
    ///
    /// # Errors
    /// It was cancelled.
    pub fn narrow(
        &mut self,
        scan: &Prescan,
        files: &[PathBuf],
    ) -> Result<Vec<FilePart>, Cancelled> {
        let known: usize = self.known.values().map(Vec::len).sum();
        if self.any != scan.any || known > KNOWN_MAX {
            self.known.clear();
            self.any.clone_from(&scan.any);
        }
        let texts = Texts::new(&scan.any);
        let is_new = |file: &&PathBuf| {
            self.known.get(*file).is_none_or(|groups| groups.iter().any(|it| is_open(it, scan)))
        };
        let new: Vec<&PathBuf> = files.iter().filter(is_new).collect();
        for files in new.chunks(FILES_AT_ONCE) {
            let found = self.scan(scan, &texts, files)?;
            self.known.extend(found);
        }
        let mut parts = Vec::new();
        for file in files {
            // A file that cannot be read is the query's error.
            let groups = self.known.get(file).map(Vec::as_slice).unwrap_or_default();
            parts.extend(parts_of(file, groups, scan, PARTS_MAX.saturating_sub(parts.len())));
        }
        Ok(parts)
    }

    /// The row groups of files, those of the time range scanned. Files that cannot be read are left
    /// out.
    fn scan(
        &self,
        scan: &Prescan,
        texts: &Texts,
        files: &[&PathBuf],
    ) -> Result<Vec<(PathBuf, Vec<RowGroup>)>, Cancelled> {
        let open = |file: &&PathBuf| {
            let segment = OpenSegment::open(file).ok()?;
            let groups = self.known.get(*file).cloned().unwrap_or_else(|| segment.row_groups());
            Some((segment, groups))
        };
        let opened = self.in_parallel(files, open)?;
        let mut tasks = Vec::new();
        for (at, file) in opened.iter().enumerate() {
            if let Some(Some((_, groups))) = file {
                let new = groups.iter().enumerate().filter(|(_, group)| is_open(group, scan));
                tasks.extend(new.map(|(group, _)| (at, group)));
            }
        }
        let look = |&(at, group): &(usize, usize)| {
            let segment = opened.get(at)?.as_ref()?.as_ref().map(|(segment, _)| segment)?;
            segment.may_match(group, texts, &self.is_cancelled).ok()
        };
        let looked = self.in_parallel(&tasks, look)?;
        let mut found: Vec<_> = opened.into_iter().map(|it| it.flatten().map(|it| it.1)).collect();
        for ((at, group), may_match) in tasks.into_iter().zip(looked) {
            if let Some(Some(groups)) = found.get_mut(at)
                && let Some(group) = groups.get_mut(group)
            {
                // Nothing is said if its thread has panicked.
                group.may_match = Some(may_match.flatten().unwrap_or(true));
            }
        }
        let files = files.iter().map(|file| (*file).clone()).zip(found);
        Ok(files.filter_map(|(file, groups)| Some((file, groups?))).collect())
    }

    /// The results of `work` on all items, in their order; `None` where it has panicked.
    fn in_parallel<I: Sync, R: Send>(
        &self,
        items: &[I],
        work: impl Fn(&I) -> R + Sync,
    ) -> Result<Vec<Option<R>>, Cancelled> {
        let next = AtomicUsize::new(0);
        let results = Mutex::new(items.iter().map(|_| None).collect::<Vec<_>>());
        let run = || {
            while !self.is_cancelled.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(at) else { return };
                let result = work(item);
                let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(place) = results.get_mut(at) {
                    *place = Some(result);
                }
            }
        };
        thread::scope(|scope| {
            let count = self.threads.min(items.len());
            let named = |_| thread::Builder::new().name("scan".to_owned());
            let threads: Vec<_> =
                (0..count).filter_map(|it| named(it).spawn_scoped(scope, run).ok()).collect();
            if threads.is_empty() {
                run();
            }
            for thread in threads {
                // A panic has been printed; what it has not looked at is read by the query.
                let _ = thread.join();
            }
        });
        if self.is_cancelled.load(Ordering::Relaxed) {
            return Err(Cancelled);
        }
        Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether a row group has rows of the time range.
fn is_in_range(group: &RowGroup, scan: &Prescan) -> bool {
    group.max_us >= scan.from_us && group.min_us < scan.to_us
}

/// Whether a row group has to be scanned. DuckDB reads only its rows in the time range, and the
/// scan reads all of it, in a third of the time for each: of a few rows, DuckDB is faster.
fn is_open(group: &RowGroup, scan: &Prescan) -> bool {
    let length = i128::from(group.max_us) - i128::from(group.min_us) + 1;
    let end_us = (i128::from(group.max_us) + 1).min(scan.to_us.into());
    let overlap = end_us - i128::from(group.min_us.max(scan.from_us));
    group.may_match.is_none() && is_in_range(group, scan) && overlap * 3 >= length
}

/// The parts of a file that the query reads: none, everything, or some, `most` at most.
fn parts_of(file: &Path, groups: &[RowGroup], scan: &Prescan, most: usize) -> Vec<FilePart> {
    let whole = || vec![FilePart { file: file.to_owned(), rows: None }];
    // The one that gives the columns has no rows.
    if groups.is_empty() {
        return whole();
    }
    let all: Vec<&RowGroup> = groups.iter().filter(|group| is_in_range(group, scan)).collect();
    let mut parts = Vec::<Range<u64>>::new();
    let mut count = 0;
    for group in all.iter().filter(|group| group.may_match != Some(false)) {
        count += 1;
        let rows = group.first_row..group.first_row + group.rows;
        match parts.last_mut() {
            Some(last) if last.end == rows.start => last.end = rows.end,
            _ => parts.push(rows),
        }
    }
    // Two queries over the parts would not be faster than one over all of it.
    if parts.len() > most || count * 2 > all.len() {
        return whole();
    }
    parts.into_iter().map(|rows| FilePart { file: file.to_owned(), rows: Some(rows) }).collect()
}
