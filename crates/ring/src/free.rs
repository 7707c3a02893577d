//! The list of free chunks: a stack of indices.
//!
//! Many threads pop, the writer pushes. The head carries a tag that grows with every
//! change, so that a pop that was overtaken (its chunk taken, used and pushed again) fails
//! its compare-and-swap instead of installing a stale successor.

use crate::layout::ChunkControl;
use crate::sync::{AtomicU64, Ordering};

const INDEX_MASK: u64 = 0xffff_ffff;

#[inline]
fn next_tag(head: u64) -> u64 {
    (head & !INDEX_MASK).wrapping_add(INDEX_MASK.wrapping_add(1))
}

/// The chunk that a head names as the first. `None`: there is none.
#[inline]
pub fn first(head: u64) -> Option<u32> {
    ((head & INDEX_MASK) as u32).checked_sub(1)
}

/// Takes a free chunk. `None`: there is none.
#[inline]
pub fn pop(head: &AtomicU64, controls: &[ChunkControl]) -> Option<u32> {
    // SYNC pop: pairs with the Release in `push`: the link and the state of the popped
    // chunk are those its pusher stored.
    let mut seen = head.load(Ordering::Acquire);
    loop {
        let index = first(seen)?;
        // An index out of range is damage; the answer is "no chunk", and it is never followed.
        let control = controls.get(index as usize)?;
        let next = u64::from(control.next_free.load(Ordering::Relaxed));
        // SYNC pop: Acquire as above; Relaxed would suffice for the store, but a pop must not break
        // the release sequence of an earlier push.
        match head.compare_exchange_weak(
            seen,
            next_tag(seen) | next,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => return Some(index),
            Err(now) => seen = now,
        }
    }
}

/// Whether the list is empty at this moment.
#[inline]
pub fn is_empty(head: &AtomicU64) -> bool {
    first(head.load(Ordering::Relaxed)).is_none()
}

/// Gives a chunk back (writer, or the initial filling).
pub fn push(head: &AtomicU64, controls: &[ChunkControl], index: u32) {
    let Some(control) = controls.get(index as usize) else { return };
    let mut seen = head.load(Ordering::Relaxed);
    loop {
        control.next_free.store((seen & INDEX_MASK) as u32, Ordering::Relaxed);
        let link = u64::from(index).wrapping_add(1);
        // SYNC push: Release pairs with the Acquire in `pop`.
        match head.compare_exchange_weak(
            seen,
            next_tag(seen) | link,
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            Ok(_) => return,
            Err(now) => seen = now,
        }
    }
}
