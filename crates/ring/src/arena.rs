//! The mapping: validated offsets turned into references.
//!
//! [`Arena`] is private memory of a process. Its geometry was checked once, against the size of the
//! file; nothing in here reads it from the header again, because any process that shares the file
//! could have changed it.

use crate::codec::Bytes;
use crate::layout::{
    ChunkControl, Geometry, Header, NAME_COUNT, NameEntry, PAGE_BYTES, REDACT_SECRETS,
    RunningEntry, Session, Shared,
};
use crate::sync::Ordering;
use crate::{chunk, free};

/// A mapped arena.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Arena {
    base: *mut u8,
    geometry: Geometry,
}

// SAFETY: the memory is shared by design; everything in it that several threads touch is an
// atomic or is ordered by one (see `chunk`).
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Wraps a mapping.
    ///
    /// # Safety
    /// `base` is page-aligned and `geometry.arena_bytes` bytes from it are mapped readable and
    /// writable for as long as the value and its copies are used; `geometry` comes from
    /// [`Geometry::for_bytes`] or [`Geometry::checked`].
    pub unsafe fn from_raw(base: *mut u8, geometry: Geometry) -> Arena {
        Arena { base, geometry }
    }

    /// Fills fresh, zeroed memory: identity, and all chunks on the free list.
    pub fn initialise(&self, header: Header) {
        // SAFETY: the header lies at the start of the mapping and fits its page; nothing else
        // knows the arena yet.
        unsafe { self.base.cast::<Header>().write(header) };
        for index in (0..self.geometry.chunk_count).rev() {
            free::push(&self.shared().free_head.0, self.controls(), index);
        }
    }

    /// The geometry.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// First byte of the mapping.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// A copy of the header.
    pub fn header(&self) -> Header {
        // SAFETY: the header lies at the start of the mapping; any bytes are a valid Header.
        unsafe { self.base.cast::<Header>().read() }
    }

    fn at<T>(&self, offset: u64) -> *const T {
        // Offsets are those of a checked geometry, so they lie within the mapping.
        self.base.wrapping_add(offset as usize).cast::<T>()
    }

    /// The part that both sides change.
    #[inline]
    pub fn shared(&self) -> &Shared {
        // SAFETY: lies within the mapping, page-aligned, consists of atomics only.
        unsafe { &*self.at::<Shared>(PAGE_BYTES as u64) }
    }

    /// Whether literals of the statements in it must not be shown to any reader.
    pub fn redacts_literals(&self) -> bool {
        // An unknown value is treated as stricter than SECRETS.
        self.shared().settings.0.redact.load(Ordering::Relaxed) != REDACT_SECRETS
    }

    /// The chunk controls.
    #[inline]
    pub fn controls(&self) -> &[ChunkControl] {
        let count = self.geometry.chunk_count as usize;
        // SAFETY: `Geometry` keeps the table within the mapping and aligned; atomics only.
        unsafe { core::slice::from_raw_parts(self.at(self.geometry.controls_offset), count) }
    }

    /// The session slots.
    #[inline]
    pub fn sessions(&self) -> &[Session] {
        let count = self.geometry.session_count as usize;
        // SAFETY: as for `controls`.
        unsafe { core::slice::from_raw_parts(self.at(self.geometry.sessions_offset), count) }
    }

    /// The table of running statements.
    pub fn running(&self) -> &[RunningEntry] {
        let count = self.geometry.running_count as usize;
        // SAFETY: as for `controls`.
        unsafe { core::slice::from_raw_parts(self.at(self.geometry.running_offset), count) }
    }

    /// Name of a `sql_command` number; `None` if there is none or it is damaged.
    pub fn name(&self, number: usize) -> Option<NameEntry> {
        if number >= NAME_COUNT {
            return None;
        }
        let first = self.at::<NameEntry>(self.geometry.names_offset);
        // SAFETY: `number` is within the table, which lies within the mapping.
        Some(unsafe { first.wrapping_add(number).read() })
    }

    /// Stores a name. Call it only before producers run.
    pub fn set_name(&self, number: usize, name: &[u8]) {
        if number >= NAME_COUNT {
            return;
        }
        let mut entry = NameEntry([0; 32]);
        for (to, from) in entry.0.iter_mut().zip(name.iter().take(31)) {
            *to = *from;
        }
        let first = self.at::<NameEntry>(self.geometry.names_offset);
        // SAFETY: as in `name`; no other thread reads the table yet.
        unsafe { first.cast_mut().wrapping_add(number).write(entry) };
    }

    /// First byte of a chunk; null if there is no such chunk.
    #[inline]
    pub fn chunk_base(&self, index: u32) -> *mut u8 {
        if index >= self.geometry.chunk_count {
            return core::ptr::null_mut();
        }
        let offset = (index as usize).wrapping_mul(self.geometry.chunk_bytes as usize);
        self.base.wrapping_add(self.geometry.chunks_offset as usize).wrapping_add(offset)
    }

    /// Control and first byte of a chunk; `None`: there is no such chunk.
    #[inline]
    pub fn chunk(&self, index: u32) -> Option<(&ChunkControl, *mut u8)> {
        Some((self.controls().get(index as usize)?, self.chunk_base(index)))
    }

    /// Number of free chunks. For display only: it may be outdated when it is returned.
    pub fn free_count(&self) -> u32 {
        let free = |c: &&ChunkControl| chunk::state_of(chunk::look(c)) == chunk::FREE;
        self.controls().iter().filter(free).count() as u32
    }
}

/// The bytes as a slice.
///
/// # Safety
/// `bytes.data` is null, or valid for `bytes.len` bytes for the chosen lifetime.
pub unsafe fn slice<'a>(bytes: &Bytes) -> &'a [u8] {
    if bytes.data.is_null() {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { core::slice::from_raw_parts(bytes.data, bytes.len) }
}
