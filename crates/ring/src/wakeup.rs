//! Waking the writer.
//!
//! The question is, here and in [`crate::backpressure`]: can a thread go to sleep after the other side has
//! looked for sleepers? It cannot: the sleeper announces itself by a read-modify-write on a word that the
//! waker also read-modify-writes. Whichever comes second in that word's order sees what the other did
//! before.

use crate::layout::Wakeup;
use crate::sync::{AtomicU32, Ordering};

/// How a thread sleeps on a word and wakes others: futex in production.
pub trait Park {
    /// Sleeps while `*word == expected`, at most `timeout_us`; may return early.
    fn wait(&self, word: &AtomicU32, expected: u32, timeout_us: u64);
    /// Wakes up to `count` sleepers.
    fn wake(&self, word: &AtomicU32, count: u32);
}

impl Wakeup {
    /// A producer closed a chunk; rings when enough are waiting and the writer sleeps.
    pub fn chunk_closed(&self, park: &impl Park) {
        let closed = self.closed.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if closed >= self.closed_limit.load(Ordering::Relaxed) {
            self.ring(park);
        }
    }

    /// Wakes the writer if it sleeps, and nobody else is about to.
    pub fn ring(&self, park: &impl Park) {
        // SYNC wakeup: Release pairs with the Acquire in `listen`.
        self.rings.fetch_add(1, Ordering::Release);
        // SYNC wakeup: AcqRel pairs with the read-modify-write in `listen`. Who finds it asleep wakes
        // it, and nobody else has to: until it runs, on a machine with much to do, others close
        // chunks, too, and a call into the kernel is what their statements would feel most.
        if self.asleep.swap(0, Ordering::AcqRel) != 0 {
            // Once more: it may have read the word after the first time, and go to sleep after this
            // wake. Then nobody else would wake it.
            // SYNC wakeup: as above.
            self.rings.fetch_add(1, Ordering::Release);
            park.wake(&self.rings, 1);
        }
    }

    /// Wakes the writer, also if somebody else has said that they do: for those who wait for it, and
    /// do not rely on a thread that may be off its processor, or dead.
    pub fn call(&self, park: &impl Park) {
        // SYNC wakeup: Release pairs with the Acquire in `listen`. Who has read the word before does
        // not go to sleep on it, or is woken.
        self.rings.fetch_add(1, Ordering::Release);
        park.wake(&self.rings, 1);
    }

    /// The writer announces that it will sleep, and gets the word to sleep on. It must look
    /// for work once more before it sleeps.
    pub fn listen(&self) -> u32 {
        // SYNC wakeup: pairs with the Release in `ring`. Before the announcement: who finds that one,
        // and takes it back, changes the word after this.
        let rings = self.rings.load(Ordering::Acquire);
        // SYNC wakeup: AcqRel pairs with `ring`.
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
