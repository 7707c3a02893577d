//! An arena in ordinary, zeroed memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use tacho_ring::arena::Arena;
use tacho_ring::layout::{Geometry, Header, PAGE_BYTES};

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
        heap.arena().initialise(Header::of(&heap.geometry));
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
