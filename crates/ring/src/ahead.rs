//! What the next change of the chunk will need, asked for in time.
//!
//! The words that a change of the chunk touches were written last by other cores: the head of the
//! free list and the count of closed chunks by other producers, the chunk's link and state by the
//! writer, who has also read its bytes. Fetched when they are needed, one after the other, they
//! made every other change take longer than a microsecond. A thread near the end of its
//! chunk asks for them, and the server's own work goes on while they come.
//!
//! It is a hint: nothing waits for it, nothing is changed by it, and if another thread takes that
//! chunk the next change costs what it did.

use crate::arena::Arena;
use crate::layout::ChunkControl;
use crate::sync::Ordering;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Lines of a fresh chunk that are asked for: those of its first record, mostly.
const RECORD_LINES: usize = 7;

/// Asks for the cache line of `at`, to be written.
#[inline(always)]
fn fetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it faults for no address, and changes neither memory nor registers.
    // (`_mm_prefetch` has no way to say that the line will be written.) Processors that do not know
    // it do nothing.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _no_hint = at;
}

/// Asks for what [`crate::free::pop`], the wakeup and the first record of the next chunk touch.
pub fn next_chunk(arena: &Arena) {
    let shared = arena.shared();
    fetch(&raw const shared.free_head);
    fetch(&raw const shared.wakeup);
    // Relaxed: it may have changed until the chunk is needed anyway.
    let head = shared.free_head.0.load(Ordering::Relaxed);
    if let Some(index) = crate::free::first(head)
        && let Some((control, base)) = arena.chunk(index)
    {
        fetch::<ChunkControl>(control);
        for line in 0..RECORD_LINES {
            fetch(base.wrapping_add(line.wrapping_mul(LINE_BYTES)));
        }
    }
}
