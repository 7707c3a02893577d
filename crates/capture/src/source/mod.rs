//! Sources of packets.

pub mod file;
mod filter;
pub mod live;
pub mod share;
