//! Retention: old files of the replicas are removed, and their rows leave the index.
//!
//! The order of the steps, each of which is on the disk before the next one begins:
//!
//! 1. The tombstones of the files are signed ([`crate::landing::removed`]). From then on the files
//!    are removed; a crash before changes nothing.
//! 2. The hub's own log gets its records.
//! 3. The rows leave the index.
//! 4. The files are unlinked.
//!
//! After a crash behind 1 the next start completes the removal, because a file with a tombstone is
//! still there.
//!
//! | module | what it owns |
//! |---|---|
//! | [`settings`] | how long the log of each server is kept |
//! | [`clock`] | whether the hub's clock can be right |
//! | [`plan`] | which files are due |
//! | [`burial`] | what a tombstone says about a file |
//! | [`steps`] | the steps |
//! | [`thread`] | when they are done |
//! | [`forecast`] | when the disk will be full |
//! | [`storage`] | what each log needs of the disk |

pub mod burial;
pub mod clock;
pub mod forecast;
pub mod plan;
pub mod settings;
pub mod steps;
pub mod storage;
pub mod thread;

pub use settings::{DAYS_DEFAULT, DAYS_MAX, OWN_LOG_DAYS_DEFAULT, Settings};
pub use steps::{Recorded, RetentionError, Step, Steps};
pub use storage::Meter;
pub use thread::Retention;
