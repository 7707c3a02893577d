//! Zone: outside. Where the threads of a server spend their time, with minimal pauses.
//!
//! The library behind `tacho pmp`. It samples all threads of a process several times per second,
//! and counts the results:
//!
//! | part | contents |
//! |---|---|
//! | [`process`] | the process, and the permission to read it |
//! | [`task`], [`state`], [`turns`] | what the kernel reports about a thread without stopping it |
//! | [`sampler`] | rounds of samples of all threads |
//! | [`stop`] | the short pause that some threads need |
//! | [`memory`], [`unwind`], [`frame_sizes`] | from registers and a copied stack to addresses |
//! | [`maps`], [`modules`], [`image`], [`symbols`] | from addresses to names |
//! | [`profile`] | the counted samples |
//! | [`averages`] | how many threads did what, in words |
//! | [`verdict`] | known patterns in it |
//! | [`bpftrace`] | the same measurements by the kernel |
//! | [`processlist`] | the server's own states of its threads |
//! | [`report`], [`pt_pmp`], [`folded`], [`flame`], [`page`], [`diff`] | outputs |
//!
//! Guarantees for the sampled process: no thread is stopped unnecessarily, none for longer than a
//! copy takes, none stays stopped, even if this process dies; nothing is written to it. Data read
//! from it is not trusted.

pub mod averages;
pub mod bpftrace;
pub mod diff;
pub mod flame;
pub mod folded;
pub mod frame_sizes;
pub mod image;
pub mod maps;
pub mod memory;
pub mod modules;
pub mod page;
pub mod process;
pub mod processlist;
pub mod profile;
pub mod pt_pmp;
pub mod report;
pub mod sampler;
pub mod state;
pub mod stop;
pub mod symbols;
pub mod task;
pub mod turns;
pub mod unwind;
pub mod verdict;
