//! Zone: outside, and the embedded writer thread. Tamper evidence: with a public key, a reader can
//! detect offline that the audit log was changed.
//!
//! `docs/specs/chain.md` is the normative text. In short: each log file has a *sidecar* with
//! *frames* (a SHA-256 hash of a run of lines), chained by hashes over all files of the directory;
//! *checkpoints* sign the chain, each with its own key, which the checkpoint before has named. Each
//! file also has a key (an *epoch*), whose public half is signed by the key before it. Keys are
//! destroyed after they have signed.
//!
//! This crate does no I/O except reading from the sources it is given. `tacho-logdir` (`seal`)
//! writes the sidecars.
//!
//! | module | contents |
//! |---|---|
//! | [`hash`] | one step of the chain |
//! | [`key`] | keys and their text forms |
//! | [`note`] | signed notes |
//! | [`entry`] | the entries of a sidecar: bytes and meaning |
//! | [`proof`] | proof of parts of a log |
//! | [`hub_tombstone`] | a file that a hub removed from its copy |
//! | [`sidecar`] | reading a sidecar, entry by entry |
//! | [`chain`] | the writing side: which entry comes next |
//! | [`key_file`] | storage of the secrets between two starts |
//! | [`verify`] | the reading side |

pub mod chain;
pub mod entry;
pub mod hash;
pub mod hub_tombstone;
pub mod key;
pub mod key_file;
mod known;
pub mod note;
pub mod proof;
pub mod sidecar;
pub mod verify;

/// Ending of a sidecar, instead of `jsonl`.
pub const SIDECAR_ENDING: &str = "chain";
/// Tombstones of a directory.
pub const REMOVED_FILE: &str = "removed.chain";
/// Tombstones of files that a hub removed from its copy of a log.
pub const HUB_REMOVED_FILE: &str = "hub-removed.chain";
