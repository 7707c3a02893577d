//! An arena in ordinary, zeroed memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use tacho_ring::arena::Arena;
use tacho_ring::layout::{
    ENDIAN_MARK, Geometry, Header, MAGIC, PAGE_BYTES, VERSION_MAJOR, VERSION_MINOR,
};

/// Owns the memory; [`Heap::arena`] is valid as long as it lives.
pub struct Heap {
    base: *mut u8,
    geometry: Geometry,
}

// SAFETY: the memory is only reached through `Arena`, which is made for sharing.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl Heap {
    fn memory(bytes: u64) -> Layout {
        Layout::from_size_align(bytes as usize, PAGE_BYTES).expect("a layout")
    }

    /// Zeroed memory of an arena of `arena_bytes`, without a header.
    pub fn blank(arena_bytes: u64) -> Heap {
        let geometry = Geometry::for_bytes(arena_bytes);
        // SAFETY: the size is not zero.
        let base = unsafe { alloc_zeroed(Heap::memory(geometry.arena_bytes)) };
        assert!(!base.is_null());
        Heap { base, geometry }
    }

    /// A fresh arena, recording.
    pub fn new(arena_bytes: u64) -> Heap {
        let heap = Heap::blank(arena_bytes);
        heap.arena().initialise(header(&heap.geometry));
        heap.arena().shared().settings.0.logging.store(1, std::sync::atomic::Ordering::Relaxed);
        heap
    }

    pub fn arena(&self) -> Arena {
        // SAFETY: the memory is as large as the geometry says, aligned, and lives as long as
        // `self`, which the tests keep beyond all their threads.
        unsafe { Arena::from_raw(self.base, self.geometry) }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `blank`.
        unsafe { dealloc(self.base, Heap::memory(self.geometry.arena_bytes)) };
    }
}

/// The header of an arena of this geometry.
pub fn header(g: &Geometry) -> Header {
    Header {
        magic: MAGIC,
        version_major: VERSION_MAJOR,
        version_minor: VERSION_MINOR,
        endian_mark: ENDIAN_MARK,
        arena_bytes: g.arena_bytes,
        chunk_bytes: g.chunk_bytes,
        chunk_count: g.chunk_count,
        session_count: g.session_count,
        running_count: g.running_count,
        names_offset: g.names_offset,
        sessions_offset: g.sessions_offset,
        running_offset: g.running_offset,
        controls_offset: g.controls_offset,
        chunks_offset: g.chunks_offset,
        created_us: 0,
        owner_pid: 0,
        reserved: 0,
        owner_start_ticks: 0,
        server: [0; 256],
        log_directory: [0; 3072],
    }
}
