//! The bytes of a log directory that can be shipped to a hub (`docs/specs/ship.md`, "What is
//! shipped").
//!
//! | module | what it owns |
//! |---|---|
//! | [`look`] | the files at a moment |
//! | [`content`] | lines of a log file at any offset, whatever its form |
//! | [`sidecar`] | whole entries of a sidecar, and the lines that they cover |
//! | [`track`] | one log file: the next bytes to ship |
//! | [`compare`] | contradictions between the directory and the hub |

pub mod compare;
pub mod content;
pub mod look;
pub mod sidecar;
pub mod track;

use crate::protocol::FileName;

/// Bytes of a file that come next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portion {
    /// The file.
    pub name: FileName,
    /// Where they begin.
    pub offset: u64,
    /// The bytes in front of them, as many as `Tacho-Before` covers.
    pub before: Vec<u8>,
    /// They.
    pub bytes: Vec<u8>,
}
