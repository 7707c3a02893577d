//! Waiting for a free chunk.
//!
//! As in [`crate::wakeup`], the waiting thread announces itself by a read-modify-write on a word
//! that the thread that wakes also read-modify-writes: it cannot miss a wakeup.

use crate::layout::Backpressure;
use crate::sync::Ordering;
use crate::wakeup::Park;

impl Backpressure {
    /// A producer announces that it will sleep, and gets the epoch to sleep on. It must
    /// look for a chunk once more before it sleeps.
    pub fn announce(&self) -> u32 {
        // SYNC backpressure: AcqRel pairs with the read-modify-write in `open`.
        self.waiters.fetch_add(1, Ordering::AcqRel);
        // SYNC backpressure: pairs with the Release of the epoch in `open`.
        self.epoch.load(Ordering::Acquire)
    }

    /// A producer withdraws its announcement.
    pub fn retract(&self) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// The writer has freed chunks, or a setting changed: waiting producers check again.
    pub fn open(&self, park: &impl Park) {
        // SYNC backpressure: Release pairs with the Acquire in `announce`.
        self.epoch.fetch_add(1, Ordering::Release);
        // SYNC backpressure: AcqRel pairs with `announce`: either this sees the waiter, or the
        // waiter sees the new epoch and the chunks pushed before it.
        if self.waiters.fetch_add(0, Ordering::AcqRel) > 0 {
            park.wake(&self.epoch, u32::MAX >> 1);
        }
    }
}
