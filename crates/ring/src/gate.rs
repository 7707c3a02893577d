//! Waiting for a free chunk, and waking the writer.
//!
//! Both are the same question asked twice: "can it be that I go to sleep after the other
//! side has looked for sleepers?" It cannot: the sleeper announces itself by a
//! read-modify-write on a word that the waker also read-modify-writes. Whichever comes
//! second in that word's order sees what the other did before.

use crate::layout::{Bell, Gate};
use crate::sync::{AtomicU32, Ordering};

/// How a thread sleeps on a word and wakes others: futex in production.
pub trait Park {
    /// Sleeps while `*word == expected`, at most `timeout_us`; may return early.
    fn wait(&self, word: &AtomicU32, expected: u32, timeout_us: u64);
    /// Wakes up to `count` sleepers.
    fn wake(&self, word: &AtomicU32, count: u32);
}

impl Gate {
    /// A producer announces that it will sleep, and gets the epoch to sleep on. It must
    /// look for a chunk once more before it sleeps.
    pub fn announce(&self) -> u32 {
        // SYNC gate: AcqRel pairs with the read-modify-write in `open`.
        self.waiters.fetch_add(1, Ordering::AcqRel);
        // SYNC gate: pairs with the Release of the epoch in `open`.
        self.epoch.load(Ordering::Acquire)
    }

    /// A producer takes its announcement back.
    pub fn retract(&self) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// The writer has freed chunks, or a setting changed: whoever waits looks again.
    pub fn open(&self, park: &impl Park) {
        // SYNC gate: Release pairs with the Acquire in `announce`.
        self.epoch.fetch_add(1, Ordering::Release);
        // SYNC gate: AcqRel pairs with `announce`: either this sees the waiter, or the
        // waiter sees the new epoch and the chunks pushed before it.
        if self.waiters.fetch_add(0, Ordering::AcqRel) > 0 {
            park.wake(&self.epoch, u32::MAX >> 1);
        }
    }
}

impl Bell {
    /// A producer closed a chunk; rings when enough are waiting and the writer sleeps.
    pub fn chunk_closed(&self, park: &impl Park) {
        let closed = self.closed.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if closed >= self.closed_limit.load(Ordering::Relaxed) {
            self.ring(park);
        }
    }

    /// Wakes the writer if it sleeps, and nobody else is about to.
    pub fn ring(&self, park: &impl Park) {
        // SYNC bell: Release pairs with the Acquire in `listen`.
        self.rings.fetch_add(1, Ordering::Release);
        // SYNC bell: AcqRel pairs with the read-modify-write in `listen`. Who finds it asleep wakes
        // it, and nobody else has to: until it runs, on a machine with much to do, others close
        // chunks, too, and a call into the kernel is what their statements would feel most.
        if self.asleep.swap(0, Ordering::AcqRel) != 0 {
            // Once more: it may have read the word after the first time, and go to sleep after this
            // wake. Then nobody else would wake it.
            // SYNC bell: as above.
            self.rings.fetch_add(1, Ordering::Release);
            park.wake(&self.rings, 1);
        }
    }

    /// Wakes the writer, also if somebody else has said that they do: for those who wait for it, and
    /// do not rely on a thread that may be off its processor, or dead.
    pub fn call(&self, park: &impl Park) {
        // SYNC bell: Release pairs with the Acquire in `listen`. Who has read the word before does
        // not go to sleep on it, or is woken.
        self.rings.fetch_add(1, Ordering::Release);
        park.wake(&self.rings, 1);
    }

    /// The writer announces that it will sleep, and gets the word to sleep on. It must look
    /// for work once more before it sleeps.
    pub fn listen(&self) -> u32 {
        // SYNC bell: pairs with the Release in `ring`. Before the announcement: who finds that one,
        // and takes it back, changes the word after this.
        let rings = self.rings.load(Ordering::Acquire);
        // SYNC bell: AcqRel pairs with `ring`.
        self.asleep.swap(1, Ordering::AcqRel);
        rings
    }

    /// The writer is awake again.
    pub fn awake(&self) {
        // A read-modify-write, so that what rang is still acquired by the next `listen`.
        self.asleep.swap(0, Ordering::Relaxed);
        self.closed.store(0, Ordering::Relaxed);
    }
}
