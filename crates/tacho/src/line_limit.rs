//! The longest line that is read into memory.
//!
//! A longer line is reported with its file, its place and this limit.

use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use tacho_logdir::read::line_limit::LINE_BYTES_MAX;

/// Set once, before anything is read.
static LIMIT: AtomicUsize = AtomicUsize::new(LINE_BYTES_MAX);

/// How much memory a line may take.
#[derive(Args, Clone, Copy, Debug)]
pub struct LimitArgs {
    /// Longest line that is read, bytes. A longer one is reported and skipped. Memory use grows with
    /// the longest line, not with this limit
    #[arg(long, value_name = "BYTES", default_value_t = LINE_BYTES_MAX as u64,
          value_parser = clap::value_parser!(u64).range(1024..=1 << 40))]
    max_line_bytes: u64,
}

impl LimitArgs {
    /// Makes it the limit of all that is read from here on.
    pub fn apply(self) {
        // Relaxed: it is set before any thread is made that reads.
        LIMIT.store(usize::try_from(self.max_line_bytes).unwrap_or(usize::MAX), Ordering::Relaxed);
    }
}

/// The limit, bytes.
pub fn get() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

/// Why a line was skipped.
pub fn too_long() -> String {
    format!("line longer than {} bytes, skipped; --max-line-bytes raises this limit", get())
}
