//! Zone: cold (the embedded writer thread) and outside. Drains the arena into files.
//!
//! # Guarantees
//! * Each record that was accepted from a producer is in exactly one line of the log, or counted in
//!   a `lost` line, also after `kill -9` at any instruction of either side.
//! * A finished record is on its way to the file within `flush_interval_ms`.
//! * The writer never blocks the server: if the file cannot be written it waits, and the producers
//!   follow their overflow policy.
//!
//! # How
//! A round is: one pass over the arena ([`drain`]), starts and ends joined ([`join`]), lines
//! formatted ([`line`]) into a batch, the batch appended to the file ([`tacho_logdir`]), and chunks
//! recycled whose records are all in the file. The `seq` of the line is stored in each record
//! before the write, so that after a crash the last line in the file shows which records are still
//! to be written ([`recover`]).
//!
//! | module | responsibility |
//! |---|---|
//! | [`mapping`] | the arena's memory, on large pages |
//! | `arena_error` | reasons why an arena or its spill cannot be used |
//! | [`arena_file`] | the arena as a file, its lock, its discovery after a crash |
//! | [`spill`] | the files beside it, for records that are larger than it |
//! | [`arena_list`] | which arenas belong to the log |
//! | `record_ref` | where a record is: chunk or spill |
//! | [`drain`] | reading records, recycling chunks |
//! | [`join`] | which end belongs to which start |
//! | [`line`] | from records to the bytes of a line |
//! | [`writer`] | the round, back-pressure relief, failures |
//! | [`recover`] | recovery after a crash |
//! | [`control`] | settings, status, messages |
//! | [`settings`] | the values of the settings |
//! | [`opening`] | opening and sealing the log directory, and its messages |
//! | [`external`] | the writer in a process of its own |

mod arena_error;
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
mod record_ref;
pub mod recover;
pub mod settings;
pub mod spill;
pub mod writer;
