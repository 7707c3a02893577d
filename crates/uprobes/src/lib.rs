//! Zone: outside. Reads what a server's OpenSSL decrypts and encrypts, by uprobes.
//!
//! Programs in the kernel (`tls.bpf.c`) run when a thread of the server enters and leaves
//! `SSL_read` or `SSL_write`. They copy the bytes into a ring that this process reads. Loading them
//! needs privileges; reading the ring needs none.
//!
//! The server's process wrote the bytes, so nothing of them is trusted.

#[cfg(feature = "load")]
mod attach;
#[cfg(feature = "load")]
mod counters;
#[cfg(feature = "load")]
mod library;
pub mod piece;

use std::io;
#[cfg(not(feature = "load"))]
use std::num::NonZeroU32;

pub use piece::{Kind, Piece};

#[cfg(feature = "load")]
pub use attach::Uprobes;

/// Pieces that the ring had no space for, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Pieces, of at most 16 KiB each.
    pub pieces: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Connections of which nothing is read, because the table of connections was full.
    pub streams: u64,
}

/// Why the encrypted sessions of a process cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UprobeError {
    /// This program was built without the feature.
    #[error("this build of tacho has no uprobes: it was built without the feature `tls-uprobes`")]
    NotBuilt,
    /// The process.
    #[error("cannot read the memory map of process {pid}: {error}")]
    Process {
        /// The process.
        pid: u32,
        /// The system's error.
        error: io::Error,
    },
    /// Nothing to attach to.
    #[error(
        "process {pid} uses no libssl, and its program has no symbol SSL_read: its TLS library is \
         not OpenSSL, or a part of the program without symbols; its encrypted sessions can only \
         be reported as lost"
    )]
    NoLibrary {
        /// The process.
        pid: u32,
    },
    /// The kernel does not describe its types.
    #[error(
        "the kernel has no type information (/sys/kernel/btf/vmlinux), so that the connection of \
         an SSL object cannot be found: {0}"
    )]
    NoTypes(String),
    /// The kernel refuses a program or a map.
    #[error("the kernel refuses {what}: {why}; run as root, on Linux 5.17 or newer")]
    Kernel {
        /// What it refuses.
        what: String,
        /// Why.
        why: String,
    },
    /// A function cannot be probed.
    #[error("cannot attach to {function} of {library} in process {pid}: {why}")]
    Attach {
        /// The function.
        function: &'static str,
        /// The library, as the process has it.
        library: String,
        /// The process.
        pid: u32,
        /// Why.
        why: String,
    },
}

/// Uprobes of a process; this build cannot make them.
#[cfg(not(feature = "load"))]
#[derive(Debug)]
pub enum Uprobes {}

#[cfg(not(feature = "load"))]
impl Uprobes {
    /// Attaches to a process.
    ///
    /// # Errors
    /// [`UprobeError::NotBuilt`].
    pub fn attach(
        _pid: NonZeroU32,
        _ports: &[u16],
        _ring_bytes: usize,
    ) -> Result<Uprobes, UprobeError> {
        Err(UprobeError::NotBuilt)
    }

    /// The next piece.
    pub fn next(&mut self, _take: &mut dyn FnMut(Piece<'_>)) -> bool {
        match *self {}
    }

    /// Pieces that the ring had no space for.
    pub fn losses(&self) -> Losses {
        match *self {}
    }

    /// Whether the process has ended.
    pub fn has_ended(&self) -> bool {
        match *self {}
    }
}
