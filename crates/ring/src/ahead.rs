//! Prefetches what the next change of chunk needs.
//!
//! The words that a change of chunk touches were last written by other cores: the head of the free
//! list and the count of closed chunks by other producers, the chunk's link and state by the
//! writer, which has also read the chunk's bytes. Fetching them one after the other, only when they
//! were needed, made every other change of chunk take longer than a microsecond. A thread near the
//! end of its chunk therefore prefetches them, and the server's work continues while they arrive.
//!
//! This is a hint: nothing waits for it and it changes nothing. If another thread takes that chunk,
//! the next change costs as much as without the hint.

use crate::arena::Arena;
use crate::layout::ChunkControl;
use crate::sync::Ordering;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Cache lines of a fresh chunk to prefetch: usually those of its first record.
const RECORD_LINES: usize = 7;

/// Prefetches the cache line of `at` for writing.
#[inline(always)]
fn fetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it faults for no address, and changes neither memory nor registers.
    // (`_mm_prefetch` cannot request a line for writing.) On processors without the instruction it
    // is a no-op.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _no_hint = at;
}

/// Prefetches what [`crate::free::pop`], the wakeup and the first record of the next chunk touch.
pub fn next_chunk(arena: &Arena) {
    let shared = arena.shared();
    fetch(&raw const shared.free_head);
    fetch(&raw const shared.wakeup);
    // Relaxed: the head may change anyway before the chunk is needed.
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
