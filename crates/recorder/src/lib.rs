//! Zone: cold (the embedded writer thread) and outside. Drains the arena into files.
//!
//! # What it owes
//! * Each record that a producer was told is accepted is in exactly one line of the log, or
//!   counted in a `lost` line. Also after `kill -9` at any instruction of either side.
//! * A finished record is on its way to the file within `flush_interval_ms`.
//! * It never holds up the server: when the file cannot be written it waits, and what the
//!   producers then do is their overflow policy.
//!
//! # How
//! A round is: one pass over the arena ([`drain`]), starts and ends joined ([`join`]), lines
//! formatted ([`line`]) into a batch, the batch appended to the file ([`tacho_logdir`]), chunks
//! whose records all are in the file given back. The `seq` of the line is stored in each
//! record before the write, so that after a crash the last line in the file tells which
//! records still have to be written ([`recover`]).
//!
//! | module | what it owns |
//! |---|---|
//! | [`mapping`] | the arena's memory, on large pages |
//! | [`arena_file`] | the arena as a file, its lock, its discovery after a crash |
//! | [`spill`] | the files beside it, for records that are larger than it |
//! | [`arena_list`] | which arenas belong to the log |
//! | [`drain`] | reading records, recycling chunks |
//! | [`join`] | which end belongs to which start |
//! | [`line`] | from records to the bytes of a line |
//! | [`writer`] | the round, back-pressure relief, failures |
//! | [`recover`] | what a crash has left |
//! | [`control`] | settings, status, messages |
//! | [`setting_names`] | what a server calls them |
//! | [`opening`] | the log directory opened, and sealed, with words for the error log |
//! | [`external`] | the writer in a process of its own |

pub mod arena_file;
pub mod arena_list;
pub mod control;
#[cfg(test)]
mod death;
pub mod drain;
pub mod external;
pub mod join;
pub mod line;
pub mod mapping;
pub mod opening;
mod pause;
pub mod recover;
pub mod setting_names;
pub mod spill;
pub mod writer;
