//! Where a record is: in a chunk of the arena, or in a file of its spill.

use tacho_ring::layout::RECORD_ALIGN;

/// Bit in the index of a chunk: the record is in the spill, and the other bits are the file's
/// number.
pub(crate) const SPILL: u32 = 1 << 31;

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ref {
    /// Index of the chunk.
    pub chunk: u32,
    /// Position in it, bytes.
    pub position: u32,
    /// Size, bytes.
    pub bytes: u32,
}

impl Ref {
    /// Whether the record is in the spill, where positions are in units of [`RECORD_ALIGN`].
    #[inline]
    pub(crate) fn is_spilled(&self) -> bool {
        self.chunk & SPILL != 0
    }

    /// Position in the file of the spill, bytes.
    pub(crate) fn offset(&self) -> u64 {
        u64::from(self.position) * RECORD_ALIGN as u64
    }
}
