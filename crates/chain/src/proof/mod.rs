//! Proof of parts of a log: which frames are under a signature that a root key leads to.
//!
//! A part is proven by the first entries (epochs) of all sidecars up to its own ([`Keys`]), and by
//! the entries of its own sidecar ([`SidecarWalk`]). Of these, the frames between two signed
//! entries may be left out, all of them together: a checkpoint states the chain that it signs, so
//! the walk continues from there. Whatever was left out is not proven, and nothing else depends on
//! it.
//!
//! Nothing here reads log files: the caller compares their bytes with the hashes of the frames.

mod keys;
mod walk;

pub use keys::Keys;
pub use walk::{SidecarWalk, Step};

use crate::verify::{Finding, LogState};

fn finding(state: LogState, file: &str, seqs: Option<(u64, u64)>, text: &str) -> Finding {
    let seqs = seqs.filter(|(first, last)| first <= last);
    Finding { state, file: file.to_owned(), line: None, seqs, text: text.to_owned() }
}
