//! Zone: outside. Records statements from network packets; trusts no byte of them.
//!
//! ```text
//!  packet file, interface           source        the server's TLS library: decryption
//!        frame                      link      link, IP and TCP headers
//!        segment                    flows     connections; order, gaps, memory
//!        bytes in order             mysql     commands and their answers
//!        event                      probe     the same calls as a server's
//!        record in an arena         tacho_embed: drain, join, redact, write, seal
//! ```
//!
//! A statement that was not sent is never recorded: what is doubtful becomes a `lost` line. Only in
//! a session that says `partial` its own client could make its data look like one.
//! `docs/specs/capture.md` has every packet type and what becomes of it.

pub mod check;
mod decryption;
pub mod enrich;
pub mod flows;
mod last_line;
pub mod link;
pub mod live;
pub mod metrics;
pub mod mysql;
mod packets;
pub mod probe;
pub mod recording;
pub mod replay;
pub mod source;
pub mod spool;
pub mod tcp;
