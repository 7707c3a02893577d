//! Reading committed records out of memory that nobody vouches for.
//!
//! Each length is read once, checked against the chunk, and the record is copied into
//! private memory before anything else in it is looked at.

use crate::arena::Arena;
use crate::chunk;
use crate::layout::{RECORD_ALIGN, RECORD_HEADER_BYTES};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// What lies at a position of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A committed record of this size.
    Record(u32),
    /// Nothing committed (yet).
    Empty,
    /// The chunk is full.
    End,
    /// A length that cannot be: the rest of the chunk is lost.
    Damaged,
}

fn word_at(arena: &Arena, index: u32, position: u32) -> Option<&AtomicU32> {
    let base = arena.chunk_base(index);
    let end = position.checked_add(RECORD_ALIGN as u32)?;
    if base.is_null()
        || end > arena.geometry().chunk_bytes
        || !position.is_multiple_of(RECORD_ALIGN as u32)
    {
        return None;
    }
    let at = base.wrapping_add(position as usize).cast::<u32>();
    // SAFETY: lies within the chunk, aligned to 8; producers touch it as an atomic.
    Some(unsafe { AtomicU32::from_ptr(at) })
}

/// Looks at `position` of chunk `index`.
pub fn peek(arena: &Arena, index: u32, position: u32) -> Next {
    let chunk_bytes = arena.geometry().chunk_bytes;
    if position >= chunk_bytes {
        return Next::End;
    }
    let Some(word) = word_at(arena, index, position) else { return Next::Damaged };
    match chunk::committed(word) {
        0 => Next::Empty,
        bytes if !bytes.is_multiple_of(RECORD_ALIGN as u32) => Next::Damaged,
        bytes if (bytes as usize) < RECORD_HEADER_BYTES => Next::Damaged,
        bytes if bytes > chunk_bytes.saturating_sub(position) => Next::Damaged,
        bytes => Next::Record(bytes),
    }
}

/// Copies a record that [`peek`] found into `buffer`; `None` if it does not fit.
pub fn fetch<'b>(
    arena: &Arena,
    index: u32,
    position: u32,
    bytes: u32,
    buffer: &'b mut [u8],
) -> Option<&'b [u8]> {
    let base = arena.chunk_base(index);
    let end = position.checked_add(bytes)?;
    if base.is_null() || end > arena.geometry().chunk_bytes {
        return None;
    }
    let to = buffer.get_mut(..bytes as usize)?;
    // SAFETY: source lies within the chunk, `to` is private and of that length. A committed
    // record is not changed by an honest producer; what a dishonest one puts there meanwhile
    // is checked after this copy, never before.
    unsafe {
        let from = base.wrapping_add(position as usize);
        core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), bytes as usize);
    }
    Some(to)
}

/// The writer's mark in a record's header: the `seq` of the line it went into.
pub fn line_seq(arena: &Arena, index: u32, position: u32) -> Option<&AtomicU64> {
    let at = position.checked_add(8)?;
    word_at(arena, index, at)?;
    let base = arena.chunk_base(index).wrapping_add(at as usize).cast::<u64>();
    // SAFETY: `word_at` checked that these 8 bytes lie within the chunk, aligned to 8.
    Some(unsafe { AtomicU64::from_ptr(base) })
}

/// Marks a record as part of line `seq`.
pub fn settle(arena: &Arena, index: u32, position: u32, seq: u64) {
    if let Some(mark) = line_seq(arena, index, position) {
        mark.store(seq, Ordering::Relaxed);
    }
}
