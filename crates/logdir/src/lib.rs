//! Zone: cold (the embedded writer thread) and outside. The log directory and its files.
//!
//! This crate has two halves, which share names, forms and the seal:
//! - The writing half writes, rotates, seals, packs and retains the files of a log.
//!   `tacho-recorder` gives it the lines; it does not use the arena. This page is its design.
//! - The reading half, [`read`], lists files, reads them forward and backward, and follows them.
//!   It is behind the feature `read`, because a database server does not load it.
//!
//! [`LogFiles`] turns batches of complete lines into regular files that `tail`, `grep` and `jq`
//! understand. It keeps every accepted line through full disks, I/O errors, process death and
//! well-meant housekeeping by other processes. The normative text for readers of the files is
//! `docs/specs/file.md`; this page is the design.
//!
//! # Constraints of the writing half
//!
//! - One writer, driven by its caller: no thread, no timer, no sleep, no retry loop in this half. A
//!   fault is an error value; calling again with the same arguments continues where it stopped.
//! - **Nothing is dropped, doubled or torn.** `progress` counts exactly the bytes of the batch that
//!   are in the file, across short writes and errors.
//! - Content of a damaged file is never trusted without a check. An unknown value (the last
//!   `seq` after an unreadable line) is an error value, never a guess.
//! - A batch costs one write(2), two fstat(2) and one stat(2). Memory is bounded by one 64 KiB
//!   buffer, however long a line is.
//! - No fsync in the ordinary path: the page cache survives the death of the server, but not of the
//!   machine. [`LogFiles::sync`] protects from that, too, and a sealed log is synced before each
//!   checkpoint.
//!
//! # Life of a file
//!
//! ```text
//!           create_new, mode 0640                 line end reached and
//!  (none) ───────────────────────> current ───── next line does not fit, ────> closed
//!                                   │   ^        or rotate_now; the new
//!              unlinked by others   │   │        file exists already
//!                                   v   │ all bytes copied
//!                                  rescue (old descriptor ──64 KiB──> new file)
//! ```
//!
//! [`LogFiles::open`] continues the newest file if it is below `rotate_bytes`; a last line without
//! a newline is cut off first.
//!
//! # Faults and their effects
//!
//! | fault | reaction | loss |
//! |---|---|---|
//! | short write, EINTR | continue with the rest | nothing |
//! | ENOSPC, EDQUOT, EIO, EROFS | error; the same call continues later, even mid-line | nothing |
//! | write fails, yet bytes arrived | read back and compared before continuing | nothing |
//! | EFBIG (a limit on file size) | the line goes to a new file | nothing |
//! | process dies mid-line | next `open` cuts the torn line; `last_seq` shows where to continue | nothing the caller still has |
//! | file unlinked | new file, filled from the still open descriptor | nothing |
//! | directory removed | created again (with one parent), then as above | the closed files |
//! | file or directory renamed | new file in place; the moved one keeps its lines | nothing |
//! | file truncated | counted in [`Event::Truncated`]; appending continues at the end, no hole | what was cut, except bytes of the running batch |
//! | another process appends | counted in [`Event::Foreign`]; the log's lines stay intact | nothing |
//! | directory replaced by a file, no permission | error until it is repaired | nothing |
//! | rotation impossible | [`Event::RotateFailed`], the old file continues | nothing |
//! | second writer on the directory | refused, with the holder's pid | nothing |
//! | machine loses power | everything up to the last [`LogFiles::sync`] is there | the unsynced tail |
//! | sync fails | what was not synced is written again before the next try | nothing |
//!
//! A renamed file is not copied back: its lines are complete under the new name, and a log rotation
//! by renaming would otherwise double the log every time.
//!
//! # Why these mechanisms
//!
//! - `O_APPEND`: after another process truncates the file, the next write goes to its end instead
//!   of leaving a hole of zero bytes.
//! - An open-file-description lock on `.lock`: the kernel releases it when the holder dies. Unlike
//!   a POSIX record lock, it is not lost when other code in the server closes a descriptor of the
//!   same file. It also excludes a second writer in the same process.
//! - Names never sort before an existing one, so "newest" does not depend on a correct clock.
//! - The file system is behind [`Fs`], so that a model can cut power at any operation.
//!
//! | module | responsibility |
//! |---|---|
//! | `name` | names and their order |
//! | [`private_file`] | files that only the recorder can have created, and that SQL cannot read |
//! | `fs` | the few system calls, and the trait in front of them |
//! | `error` | what failed, where, and what to do |
//! | `lock` | one writer per directory |
//! | `stream` | a file of that trait as one of the standard library |
//! | `lines` | line ends, and the `seq` of a line |
//! | `entries` | the files that hold lines, by age |
//! | `tail` | the last `seq` of the log, read from its end |
//! | `write` | [`LogFiles`], which coordinates the parts of the writing half |
//! | `aside` | files that SQL has planted, set aside before any part trusts them |
//! | `made` | the list of the newest files that the recorder created |
//! | `event` | events that the caller must report |
//! | `sync` | syncing the end of a file, and what may not be on the device |
//! | `seal` | the sidecars that make changes detectable |
//! | `ending` | content and form of a file, by its ending; the listing of all files |
//! | `form` | plain, compressed, encrypted: the forms of a log file |
//! | `pack` | compressing and encrypting closed files |
//! | `compressed` | checking compressed bytes, and the last line of such a file |
//! | `recipients` | public keys that can read encrypted files |
//! | `inventory` | overview of the log files, for SHOW STATUS |
//! | `sizes` | cached sizes of closed files |
//! | `retain` | which closed files are removed, and how |
//! | [`preview`] | which ones would be removed now |
//! | [`shipped`] | which log files the hubs have, as the shippers report it |
//! | `secondary_format` | renditions: each file in another format, beside it |
//! | [`read`] | the reading half |
//! | `faulty` | a file system in memory that fails on demand, for tests (feature `faulty`) |

mod aside;
mod compressed;
mod ending;
mod entries;
mod error;
mod event;
mod form;
mod fs;
mod inventory;
mod lines;
mod lock;
mod made;
mod name;
mod pack;
pub mod preview;
pub mod private_file;
#[cfg(feature = "read")]
pub mod read;
mod recipients;
mod retain;
mod seal;
mod secondary_format;
pub mod shipped;
mod sizes;
mod stream;
mod sync;
mod tail;
mod write;

#[cfg(any(test, feature = "faulty"))]
pub mod faulty;
#[cfg(test)]
mod model;
#[cfg(test)]
mod pack_tests;
#[cfg(test)]
mod power;
#[cfg(test)]
mod retain_tests;
#[cfg(test)]
mod scenarios;

pub use aside::last_seq;
pub use ending::Content;
pub use error::{FileError, FileErrorKind, LastSeqError};
pub use event::Event;
pub use form::Form;
pub use fs::{FileId, Fs, FsFile, OpenMode, RealFs, Space, Stat};
pub use inventory::Inventory;
pub use lock::{is_locked, is_recovering, last_holder, lock};
pub use name::FileName;
pub use pack::{PackError, Packed, Packer, Packing, Unremoved};
pub use recipients::{Recipients, RecipientsError};
pub use retain::{Due, Keep, Outlook, RetainError};
pub use seal::{SealOptions, Sealed};
pub use secondary_format::{PendingFiles, Plan, SecondaryFormat, Trouble};
pub use tacho_chain::entry::RemovalReason;
pub use write::{LogFiles, Opened, Options, SyncMark};
