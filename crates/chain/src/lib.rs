//! Zone: outside, and the embedded writer thread. Tamper evidence: who holds a public key can
//! tell, offline, that the audit log was changed.
//!
//! `docs/specs/chain.md` is the normative text. In short: beside each log file lies a *sidecar*
//! with *frames* (a SHA-256 hash of a run of lines), chained by hashes over all files of the
//! directory; *checkpoints* sign the chain, each with a key of its own that the one before has named.
//! Each file has a key, too (an *epoch*), whose public half is signed by the key before it. What has
//! signed is destroyed.
//!
//! This crate does no I/O of its own but read from what it is given. Who writes the sidecars is
//! `tacho-logdir` (`seal`).
//!
//! | module | what it owns |
//! |---|---|
//! | [`hash`] | one step of the chain |
//! | [`key`] | keys and their text forms |
//! | [`note`] | signed notes |
//! | [`entry`] | what stands in a sidecar: bytes and meaning |
//! | [`sidecar`] | reading a sidecar, entry by entry |
//! | [`chain`] | the writing side: which entry comes next |
//! | [`key_file`] | where the secrets lie between two starts |
//! | [`verify`] | the reading side |

pub mod chain;
pub mod entry;
pub mod hash;
pub mod key;
pub mod key_file;
pub mod note;
pub mod sidecar;
pub mod verify;

/// Ending of a sidecar, in the place of `jsonl`.
pub const SIDECAR_ENDING: &str = "chain";
/// Tombstones of a directory.
pub const REMOVED_FILE: &str = "removed.chain";
