//! Zone: outside. A log file in the replica of a hub, plain or compressed, that can be read at any
//! offset: the store, evidence bundles and the hub read it in the same way. `docs/specs/replica.md`
//! is the normative text.
//!
//! | module | contents |
//! |---|---|
//! | [`file`] | a log file in either form |

pub mod file;

pub use tacho_columns as columns;
pub use tacho_seekable as seekable;

pub use file::{
    Compressed, ENDING, ENDINGS, FORMER_ENDING, Reader, ReplicaFile, compressed_length,
    compressed_path, compressed_paths, length, names, stored,
};
