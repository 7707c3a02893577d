//! Zone: outside. A log file in the replica of a hub, plain or compressed, that can be read at any
//! offset: the store, evidence bundles and the hub read it in the same way. `docs/specs/replica.md`
//! is the normative text.
//!
//! | module | contents |
//! |---|---|
//! | [`file`] | a log file in either form |

pub mod file;

pub use tacho_seekable as seekable;

pub use file::{
    ENDING, Reader, ReplicaFile, compressed_path, length, names, open_compressed, stored,
};
