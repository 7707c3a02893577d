//! Latencies: counted by the load's threads into a file that both map, read while it runs.
//!
//! ```text
//! header (512 words) | thread 0: 8 words, BUCKETS words | thread 1 … | …
//! ```
//!
//! Every word is an `f64`, because LuaJIT counts in these without allocating; it is exact up to
//! 2^53. Each thread writes only its own words. A reader reads them one by one: events counted in
//! between are in the next reading.
//!
//! Buckets are log-linear: 64 for each power of two from 1,024 ns on, so a value is known to 1.6 %.
//! The bucket's number is the top bits of the value as a double. `lua/measure.lua` has the other
//! half.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Buckets of a thread: from 1,024 ns to 137 s.
pub const BUCKETS: usize = 27 * BUCKETS_PER_DOUBLING;
const BUCKETS_PER_DOUBLING: usize = 64;

/// Bits of a double below the first six of its fraction.
const DROPPED_BITS: u32 = 52 - 6;

/// The remaining bits of 1,024.0.
const LOWEST: u64 = 1033 * BUCKETS_PER_DOUBLING as u64;

/// "taco": the first word.
const MAGIC: f64 = 0x7461_636f_u32 as f64;
const LAYOUT_VERSION: f64 = 1.0;

const HEADER_WORDS: usize = 512;
const WORD_MAGIC: usize = 0;
const WORD_VERSION: usize = 1;
const WORD_THREADS: usize = 2;
const WORD_BUCKETS: usize = 3;
const WORD_STRIDE: usize = 4;
const WORD_EPOCH: usize = 5;
const WORD_STOP: usize = 6;
const WORD_INTERVAL_NS: usize = 7;
const WORD_CONNECTIONS: usize = 8;

const THREAD_STARTED: usize = 0;
const THREAD_DONE: usize = 1;
const THREAD_RETRIED: usize = 2;
const THREAD_CONNECTED: usize = 3;
const THREAD_FIRST_BUCKET: usize = 8;

/// Words of a thread; a multiple of a cache line.
const STRIDE: usize = (THREAD_FIRST_BUCKET + BUCKETS).next_multiple_of(8);

/// The bucket for `ns`.
pub fn bucket_of(ns: f64) -> usize {
    let top = ns.to_bits() >> DROPPED_BITS;
    (top.saturating_sub(LOWEST) as usize).min(BUCKETS - 1)
}

/// The smallest value of a bucket, ns.
pub fn lower_ns(bucket: usize) -> f64 {
    f64::from_bits((LOWEST + bucket as u64) << DROPPED_BITS)
}

/// The file of one running load.
#[derive(Debug)]
pub struct SharedFile {
    path: PathBuf,
    words: NonNull<AtomicU64>,
    word_count: usize,
    threads: usize,
}

impl SharedFile {
    /// Creates the file for this many threads. `interval_ns` is the mean time between two events of
    /// one thread, 0 for "as fast as possible".
    ///
    /// # Errors
    /// The file cannot be made or mapped.
    pub fn create(path: &Path, threads: u32, interval_ns: f64) -> Result<Self> {
        let threads = threads as usize;
        let word_count = HEADER_WORDS + threads * STRIDE;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        file.set_len(word_count as u64 * 8)?;
        // SAFETY: a new mapping of a file that has just got this length; nothing else in this
        // process is at the address that the kernel chooses.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                word_count * 8,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        }
        .with_context(|| format!("cannot map {}", path.display()))?;
        let words = NonNull::new(address.cast()).context("mmap returned null")?;
        let shared = Self { path: path.to_owned(), words, word_count, threads };
        shared.set(WORD_VERSION, LAYOUT_VERSION);
        shared.set(WORD_THREADS, threads as f64);
        shared.set(WORD_BUCKETS, BUCKETS as f64);
        shared.set(WORD_STRIDE, STRIDE as f64);
        shared.set(WORD_INTERVAL_NS, interval_ns);
        shared.set(WORD_MAGIC, MAGIC);
        Ok(shared)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Signals the load that another method has begun: with a fixed rate, the delay under the
    /// previous one is forgotten.
    pub fn begin_epoch(&self) {
        self.set(WORD_EPOCH, self.get(WORD_EPOCH) + 1.0);
    }

    /// Asks every thread to close its connection and to open a new one.
    pub fn ask_for_new_connections(&self) {
        self.set(WORD_CONNECTIONS, self.get(WORD_CONNECTIONS) + 1.0);
    }

    /// Threads that have completed the last request.
    pub fn threads_connected(&self) -> usize {
        let wanted = self.get(WORD_CONNECTIONS);
        (0..self.threads).filter(|thread| self.of(*thread, THREAD_CONNECTED) == wanted).count()
    }

    /// Asks every thread to end after its current event.
    pub fn stop(&self) {
        self.set(WORD_STOP, 1.0);
    }

    /// Threads that have begun at least one event.
    pub fn threads_started(&self) -> usize {
        (0..self.threads).filter(|thread| self.of(*thread, THREAD_STARTED) > 0.0).count()
    }

    /// The current counts.
    pub fn read(&self) -> Counts {
        let mut counts = Counts::default();
        for thread in 0..self.threads {
            counts.retried += self.of(thread, THREAD_RETRIED) as u64;
            counts.done += self.of(thread, THREAD_DONE) as u64;
            for bucket in 0..BUCKETS {
                let count = self.of(thread, THREAD_FIRST_BUCKET + bucket);
                counts.histogram.counts[bucket] += count as u64;
            }
        }
        counts
    }

    fn of(&self, thread: usize, word: usize) -> f64 {
        self.get(HEADER_WORDS + thread * STRIDE + word)
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.word_count, "no word {index} in {}", self.word_count);
        // SAFETY: inside the mapping, which lives as long as `self`; it is an atomic because other
        // processes write it.
        unsafe { self.words.add(index).as_ref() }
    }

    fn get(&self, index: usize) -> f64 {
        f64::from_bits(self.word(index).load(Ordering::Relaxed))
    }

    fn set(&self, index: usize, value: f64) {
        self.word(index).store(value.to_bits(), Ordering::Relaxed);
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // SAFETY: mapped in `create` with this length, and no reference into it is left.
        if let Err(error) = unsafe { munmap(self.words.as_ptr().cast(), self.word_count * 8) } {
            eprintln!("cannot unmap {}: {error}", self.path.display());
        }
        if let Err(error) = fs::remove_file(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// The counts of the load since it began, or between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Events that have ended.
    pub done: u64,
    /// Events that were restarted after a deadlock.
    pub retried: u64,
    /// Their latencies.
    pub histogram: Histogram,
}

impl Counts {
    /// The counts after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            done: self.done - earlier.done,
            retried: self.retried - earlier.retried,
            histogram: self.histogram.since(&earlier.histogram),
        }
    }
}

/// Number of events by duration.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }
}

impl Histogram {
    /// Counts one event.
    pub fn add(&mut self, ns: f64) {
        self.counts[bucket_of(ns)] += 1;
    }

    /// All events.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The events that came after those of `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.counts.iter().zip(&earlier.counts);
        Self { counts: pairs.map(|(now, then)| now - then).collect() }
    }

    /// Adds another one's events.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }

    /// The latency, ns, that a share `q` (0 to 1) of the events did not exceed; `None` without
    /// events. Events are assumed to be evenly spread within a bucket.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let wanted = (q.clamp(0.0, 1.0) * total as f64).max(1.0);
        let mut below = 0.0;
        let mut last = 0;
        for (bucket, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            last = bucket;
            let count = count as f64;
            if below + count >= wanted {
                let (from, to) = (lower_ns(bucket), lower_ns(bucket + 1));
                return Some(from + (to - from) * (wanted - below) / count);
            }
            below += count;
        }
        Some(lower_ns(last + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn histogram(values: &[f64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|value| histogram.add(*value));
        histogram
    }

    #[test]
    fn buckets_begin_where_the_load_has_them() {
        assert_eq!((bucket_of(0.0), bucket_of(1024.0), bucket_of(1039.9)), (0, 0, 0));
        assert_eq!((bucket_of(1040.0), bucket_of(2048.0)), (1, 64));
        assert_eq!(bucket_of(1e15), BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(ns in 1024.0..1.3e11f64) {
            let bucket = bucket_of(ns);
            prop_assert!(lower_ns(bucket) <= ns && ns < lower_ns(bucket + 1));
            prop_assert!(lower_ns(bucket + 1) / lower_ns(bucket) <= 1.0 + 1.0 / 64.0 + 1e-12);
        }

        #[test]
        fn a_quantile_is_that_of_the_sorted_values(
            values in prop::collection::vec(2e3..1e10f64, 1..400),
            q in 0.0..=1.0f64,
        ) {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            // The smallest value that at least the share `q` does not exceed.
            let rank = (q * values.len() as f64).ceil().max(1.0) as usize;
            let exact = sorted[rank - 1];
            let found = histogram(&values).quantile(q).expect("there are values");
            prop_assert!((found / exact - 1.0).abs() <= 1.0 / 64.0, "{found} for {exact}");
        }

        #[test]
        fn quantiles_rise(values in prop::collection::vec(2e3..1e10f64, 1..200)) {
            let histogram = histogram(&values);
            let found: Vec<f64> =
                (0..=20).map(|i| histogram.quantile(f64::from(i) / 20.0).unwrap()).collect();
            prop_assert!(found.is_sorted());
        }

        #[test]
        fn a_later_reading_without_the_earlier_one_is_what_came_between(
            early in prop::collection::vec(1e3..1e10f64, 0..100),
            late in prop::collection::vec(1e3..1e10f64, 0..100),
        ) {
            let (before, between) = (histogram(&early), histogram(&late));
            let mut after = before.clone();
            after.merge(&between);
            prop_assert_eq!(after.since(&before), between);
        }
    }

    #[test]
    fn threads_of_the_file_add_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("latencies");
        let shared = SharedFile::create(&path, 3, 0.0).expect("a file");
        assert_eq!(shared.threads_started(), 0);
        for thread in [0, 2] {
            let word = |index| HEADER_WORDS + thread * STRIDE + index;
            shared.set(word(THREAD_STARTED), 2.0);
            shared.set(word(THREAD_DONE), 1.0);
            shared.set(word(THREAD_FIRST_BUCKET + 64), 1.0);
        }
        let counts = shared.read();
        assert_eq!((shared.threads_started(), counts.done), (2, 2));
        assert_eq!(counts.histogram, histogram(&[2048.0, 2050.0]));
        assert_eq!(histogram(&[]).quantile(0.5), None);
        drop(shared);
        assert!(!path.exists());
    }
}
