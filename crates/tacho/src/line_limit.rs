//! The longest line that is read into memory.
//!
//! A longer line is reported with its file, its offset and this limit.

use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use tacho_logdir::read::line_limit::LINE_BYTES_MAX;

use crate::cli::size;

/// Set once, before anything is read.
static LIMIT: AtomicUsize = AtomicUsize::new(LINE_BYTES_MAX);

/// The maximum length of a line.
#[derive(Args, Clone, Copy, Debug)]
pub struct LimitArgs {
    /// Longest line that is read; a longer one is reported and skipped. Memory use depends on the
    /// longest line, not on this limit
    #[arg(long, value_name = size::NAME, default_value = "128MiB",
          value_parser = size::between(1024, 1 << 40))]
    max_line_size: u64,
}

impl LimitArgs {
    /// Sets the limit for everything that is read after this call.
    pub fn apply(self) {
        // Relaxed: it is set before the start of any thread that reads.
        LIMIT.store(usize::try_from(self.max_line_size).unwrap_or(usize::MAX), Ordering::Relaxed);
    }
}

/// The limit, bytes.
pub fn get() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

/// Why a line was skipped.
pub fn too_long() -> String {
    format!("line longer than {} bytes, skipped; raise --max-line-size to read it", get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        limit: LimitArgs,
    }

    #[test]
    fn the_default_is_the_librarys() {
        assert_eq!(Command::parse_from(["x"]).limit.max_line_size, LINE_BYTES_MAX as u64);
    }
}
