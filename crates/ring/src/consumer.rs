//! Reading committed records from untrusted memory.
//!
//! Each length is read once, checked against the chunk, and the record is copied into
//! private memory before anything else in it is looked at.

use core::marker::PhantomData;

use crate::arena::Arena;
use crate::chunk;
use crate::layout::{RECORD_ALIGN, RECORD_HEADER_BYTES};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// What is at a position of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A committed record of this size.
    Record(u32),
    /// Nothing committed (yet).
    Empty,
    /// The chunk is full.
    End,
    /// An impossible length: the rest of the chunk is lost.
    Damaged,
}

/// One chunk to read: its address is computed once for all its records.
#[derive(Clone, Copy)]
pub struct Chunk<'a> {
    base: *mut u8,
    chunk_bytes: u32,
    arena: PhantomData<&'a Arena>,
}

impl<'a> Chunk<'a> {
    /// Chunk `index` of `arena`. `None`: there is no such chunk.
    #[inline]
    pub fn of(arena: &'a Arena, index: u32) -> Option<Chunk<'a>> {
        let base = arena.chunk_base(index);
        let chunk_bytes = arena.geometry().chunk_bytes;
        (!base.is_null()).then_some(Chunk { base, chunk_bytes, arena: PhantomData })
    }

    #[inline]
    fn word_at(&self, position: u32) -> Option<&'a AtomicU32> {
        let end = position.checked_add(RECORD_ALIGN as u32)?;
        if end > self.chunk_bytes || !position.is_multiple_of(RECORD_ALIGN as u32) {
            return None;
        }
        let at = self.base.wrapping_add(position as usize).cast::<u32>();
        // SAFETY: lies within the chunk, aligned to 8; producers touch it as an atomic.
        Some(unsafe { AtomicU32::from_ptr(at) })
    }

    /// Looks at `position`.
    #[inline]
    pub fn peek(&self, position: u32) -> Next {
        let chunk_bytes = self.chunk_bytes;
        if position >= chunk_bytes {
            return Next::End;
        }
        let Some(word) = self.word_at(position) else { return Next::Damaged };
        match chunk::committed(word) {
            0 => Next::Empty,
            bytes if !bytes.is_multiple_of(RECORD_ALIGN as u32) => Next::Damaged,
            bytes if (bytes as usize) < RECORD_HEADER_BYTES => Next::Damaged,
            bytes if bytes > chunk_bytes.saturating_sub(position) => Next::Damaged,
            bytes => Next::Record(bytes),
        }
    }

    /// Copies a record that [`Chunk::peek`] found, or the first `bytes` of it, into `buffer`;
    /// `None` if they do not fit.
    #[inline]
    pub fn fetch<'b>(&self, position: u32, bytes: u32, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let end = position.checked_add(bytes)?;
        if end > self.chunk_bytes {
            return None;
        }
        let to = buffer.get_mut(..bytes as usize)?;
        // SAFETY: source lies within the chunk, `to` is private and of that length. A committed
        // record is not changed by an honest producer; what a dishonest one stores meanwhile is
        // checked after this copy, never before.
        unsafe {
            let from = self.base.wrapping_add(position as usize);
            core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), bytes as usize);
        }
        Some(to)
    }

    /// The writer's mark in a record's header: the `seq` of the line it went into.
    #[inline]
    pub fn line_seq(&self, position: u32) -> Option<&'a AtomicU64> {
        let at = position.checked_add(8)?;
        self.word_at(at)?;
        let mark = self.base.wrapping_add(at as usize).cast::<u64>();
        // SAFETY: `word_at` checked that these 8 bytes lie within the chunk, aligned to 8.
        Some(unsafe { AtomicU64::from_ptr(mark) })
    }
}

/// Looks at `position` of chunk `index`.
pub fn peek(arena: &Arena, index: u32, position: u32) -> Next {
    Chunk::of(arena, index).map_or(Next::Damaged, |chunk| chunk.peek(position))
}

/// Copies a record that [`peek`] found into `buffer`; `None` if it does not fit.
pub fn fetch<'b>(
    arena: &Arena,
    index: u32,
    position: u32,
    bytes: u32,
    buffer: &'b mut [u8],
) -> Option<&'b [u8]> {
    Chunk::of(arena, index)?.fetch(position, bytes, buffer)
}

/// The writer's mark in a record's header: the `seq` of the line it went into.
pub fn line_seq(arena: &Arena, index: u32, position: u32) -> Option<&AtomicU64> {
    Chunk::of(arena, index)?.line_seq(position)
}

/// Marks a record as part of line `seq`.
#[inline]
pub fn settle(arena: &Arena, index: u32, position: u32, seq: u64) {
    if let Some(mark) = line_seq(arena, index, position) {
        mark.store(seq, Ordering::Relaxed);
    }
}
