//! The writer in a process of its own, `tacho recorder`.
//!
//! The lock of the log directory is the baton: who holds it writes. Server and recorder speak
//! through a Unix socket beside the arena, at which the server listens. The end of that connection
//! is how each learns of the other's death, at once and without a time-out.
//!
//! ```text
//! recorder                                   server
//!   Hello ────────────────────────────────►    (its writer continues until nothing is in its
//!   memory,
//!                                               and closes the log)
//!   (opens the log, takes over)    ◄────────  Attach: where all is, settings, filters
//!   Attached, Figures, Say, Told ─────────►
//!                                  ◄────────  Settings, Filters, Config, Request, Release, Stop
//!   (closes the log) Released, Stopped ───►
//! ```
//!
//! A recorder that dies leaves a living arena, which the server takes over; a server that dies
//! leaves a dead one, which the recorder recovers.
//!
//! | module | what it owns |
//! |---|---|
//! | [`message`] | what is said |
//! | [`channel`] | the connection |
//! | [`socket`] | where it is, and the process at its other end |
//! | [`recorder`] | the recorder's side; the server's is in `crates/embed` |
//! | `session`, `writing` | one server that is served, and the thread that writes its log |

pub mod channel;
pub mod message;
pub mod recorder;
mod session;
pub mod socket;
mod watched;
mod writing;
