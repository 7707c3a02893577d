//! The writer in a process of its own, `tacho recorder`.
//!
//! The process that has the lock of the log directory writes. Server and recorder communicate
//! through a Unix socket beside the arena, at which the server listens. The end of that connection
//! shows each the other's death, at once and without a timeout.
//!
//! ```text
//! recorder                                   server
//!   Hello ────────────────────────────────►    (its writer continues until its memory is
//!                                               empty, and closes the log)
//!   (opens the log, takes over)    ◄────────  Attach: paths, settings, filters
//!   Attached, Figures, Say, ConfigLogged ─►
//!                                  ◄────────  Settings, Filters, Config, Request, Release, Stop
//!   (closes the log) Released, Stopped ───►
//! ```
//!
//! A recorder that dies leaves a living arena, which the server takes over. A server that dies
//! leaves a dead arena, which the recorder recovers.
//!
//! | module | content |
//! |---|---|
//! | [`message`] | the messages |
//! | [`channel`] | the connection |
//! | [`socket`] | path of the socket, identity of the peer |
//! | [`recorder`] | the recorder's side; the server's is in `crates/embed` |
//! | `session`, `writing` | serving one server, the thread that writes its log |

pub mod channel;
pub mod message;
pub mod recorder;
mod session;
pub mod socket;
mod watched;
mod writing;
