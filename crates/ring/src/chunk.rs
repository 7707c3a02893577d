//! The states of a chunk and which side may change them; what a thread keeps for itself.
//!
//! Only the owner changes BUSY into another state; every other thread starts from IDLE or CLOSED by
//! compare-and-swap. So a chunk can be taken from an idle owner, but never while a record is being
//! written into it.

use core::ffi::c_void;

use crate::layout::ChunkControl;
use crate::sync::{AtomicU32, Ordering};

/// On the free list (or being moved there).
pub const FREE: u64 = 0;
/// Owned; the owner is not inside.
pub const IDLE: u64 = 1;
/// Owned; the owner writes a record.
pub const BUSY: u64 = 2;
/// Complete: drained, settled, recycled by the writer.
pub const CLOSED: u64 = 3;

const STATE_MASK: u64 = 0xff;

/// One of [`FREE`], [`IDLE`], [`BUSY`], [`CLOSED`] (or damage).
#[inline]
pub fn state_of(word: u64) -> u64 {
    word & STATE_MASK
}

/// How often the chunk was taken.
#[inline]
pub fn generation_of(word: u64) -> u64 {
    word >> 8
}

/// How a waiting thread finds out that it should stop waiting: it asks the server whether its
/// session was killed. All zero: it does not ask.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Killed {
    /// Called with `session`, on the thread itself, and only while no chunk is free.
    pub ask: Option<unsafe extern "C" fn(session: *const c_void) -> bool>,
    /// The server's session; opaque here.
    pub session: *const c_void,
}

// SAFETY: the function is only called by a thread that has just set both, see `ask`.
unsafe impl Send for Killed {}

impl Default for Killed {
    fn default() -> Self {
        Killed { ask: None, session: core::ptr::null() }
    }
}

impl Killed {
    /// Whether the session was killed.
    pub fn is_true(&self) -> bool {
        // SAFETY: the caller that sets the function guarantees that it may be called with `session`
        // for the whole duration of the call that may wait.
        self.ask.is_some_and(|ask| unsafe { ask(self.session) })
    }
}

/// What a thread knows of its open chunk. Private memory of the thread; all zero = none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenChunk {
    /// Value of the control word while the owner is not inside; 0 = no chunk.
    pub idle_word: u64,
    /// Index of the chunk.
    pub index: u32,
    /// Offset of the next record from the start of the chunk, bytes.
    pub position: u32,
    /// Kernel id of the thread, 0 = not queried yet.
    pub owner: u32,
    /// Connection id (its lower half) of the session whose last record on this thread was lost,
    /// with nothing stored here since; 0 = none.
    pub lost_conn: u32,
    /// How to find out that a wait must end.
    pub killed: Killed,
    /// The overflow policy of its statement, instead of the setting: one of `OVERFLOW_*` + 1; 0 =
    /// as set.
    pub overflow: u32,
    /// Reserved, 0.
    pub reserved: u32,
}

impl OpenChunk {
    /// The thread no longer has a chunk.
    #[inline]
    pub fn forget(&mut self) {
        *self = OpenChunk { idle_word: 0, index: 0, position: 0, ..*self };
    }
}

/// Takes a chunk that was popped from the free list. The chunk is BUSY afterwards.
#[inline]
pub fn acquire(control: &ChunkControl, index: u32, open: &mut OpenChunk) {
    let old = control.state.load(Ordering::Relaxed);
    let word = (generation_of(old).wrapping_add(1)) << 8;
    control.owner.store(open.owner, Ordering::Relaxed);
    // SYNC open: pairs with the Acquire in `look`; the emptied first commit word is visible before
    // the chunk is.
    control.state.store(word | BUSY, Ordering::Release);
    *open = OpenChunk { idle_word: word | IDLE, index, position: 0, lost_conn: 0, ..*open };
}

/// Enters the owner's chunk. `false`: it was stolen meanwhile; the owner must forget it.
#[inline]
pub fn enter(control: &ChunkControl, open: &OpenChunk) -> bool {
    let busy = open.idle_word ^ (IDLE ^ BUSY);
    // SYNC enter: pairs with the Release in `steal` (failure) and keeps the record's stores
    // behind the state. Relaxed on failure: the chunk is not touched then.
    control
        .state
        .compare_exchange(open.idle_word, busy, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
}

/// Leaves the chunk after a record.
#[inline]
pub fn leave(control: &ChunkControl, open: &OpenChunk) {
    // SYNC leave: pairs with the Acquire in `steal` and `look`.
    control.state.store(open.idle_word, Ordering::Release);
}

/// Closes the chunk from inside.
#[inline]
pub fn close(control: &ChunkControl, open: &mut OpenChunk) {
    // SYNC close: pairs with the Acquire in `look`; every commit word is visible before.
    control.state.store((open.idle_word & !STATE_MASK) | CLOSED, Ordering::Release);
    open.forget();
}

/// Reads the control word (writer).
#[inline]
pub fn look(control: &ChunkControl) -> u64 {
    // SYNC look: pairs with the Releases in `acquire`, `leave` and `close`.
    control.state.load(Ordering::Acquire)
}

/// Closes an idle chunk from outside (writer). `false`: its owner was inside or gone.
pub fn steal(control: &ChunkControl, seen: u64) -> bool {
    if state_of(seen) != IDLE {
        return false;
    }
    let closed = (seen & !STATE_MASK) | CLOSED;
    // SYNC steal: AcqRel; Acquire pairs with `leave`, Release with the failing `enter`.
    control.state.compare_exchange(seen, closed, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Closes a BUSY chunk whose owner is known to be dead (writer). `false`: it moved.
pub fn bury(control: &ChunkControl, seen: u64) -> bool {
    if state_of(seen) != BUSY {
        return false;
    }
    let closed = (seen & !STATE_MASK) | CLOSED;
    // SYNC bury: as `steal`; a dead owner cannot store any more.
    control.state.compare_exchange(seen, closed, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Marks a closed, settled chunk free (writer), before it is pushed on the free list.
pub fn release(control: &ChunkControl) {
    let old = control.state.load(Ordering::Relaxed);
    // The push on the free list publishes this store (see `free::push`).
    control.state.store(old & !STATE_MASK, Ordering::Relaxed);
}

/// Publishes a record: everything written before is visible to any thread that reads the word.
#[inline]
pub fn commit(word: &AtomicU32, record_bytes: u32) {
    // SYNC commit: pairs with the Acquire in `committed`.
    word.store(record_bytes, Ordering::Release);
}

/// Size of the record at `word`, 0 if it is not committed.
#[inline]
pub fn committed(word: &AtomicU32) -> u32 {
    // SYNC committed: pairs with the Release in `commit`.
    word.load(Ordering::Acquire)
}
