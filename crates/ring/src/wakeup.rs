//! Waking the writer.
//!
//! The question, here and in [`crate::backpressure`]: can a thread go to sleep after the other side
//! has looked for sleepers? It cannot: the sleeper announces itself by a read-modify-write on a
//! word that the waker also read-modify-writes. Whichever comes second in that word's order sees
//! what the other did before.

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
    /// A producer closed a chunk; wakes the writer if enough chunks are closed and it sleeps.
    pub fn chunk_closed(&self, park: &impl Park) {
        let closed = self.closed.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if closed >= self.closed_limit.load(Ordering::Relaxed) {
            self.ring(park);
        }
    }

    /// Wakes the writer if it sleeps and no other thread is about to wake it.
    pub fn ring(&self, park: &impl Park) {
        // SYNC wakeup: Release pairs with the Acquire in `listen`.
        self.rings.fetch_add(1, Ordering::Release);
        // SYNC wakeup: AcqRel pairs with the read-modify-write in `listen`. The thread that finds
        // the writer asleep wakes it; no other thread has to. On a busy machine other threads close
        // chunks, too, before the writer runs, and a call into the kernel would be the largest cost
        // for their statements.
        if self.asleep.swap(0, Ordering::AcqRel) != 0 {
            // Once more: the writer may have read the word after the first increment, and go to
            // sleep after this wake. Then no other thread would wake it.
            // SYNC wakeup: as above.
            self.rings.fetch_add(1, Ordering::Release);
            park.wake(&self.rings, 1);
        }
    }

    /// Wakes the writer, even if another thread is about to: for threads that wait for the writer
    /// and cannot rely on a thread that may be descheduled or dead.
    pub fn call(&self, park: &impl Park) {
        // SYNC wakeup: Release pairs with the Acquire in `listen`. A writer that has read the word
        // before does not go to sleep on it, or is woken.
        self.rings.fetch_add(1, Ordering::Release);
        park.wake(&self.rings, 1);
    }

    /// The writer announces that it will sleep, and gets the word to sleep on. It must look
    /// for work once more before it sleeps.
    pub fn listen(&self) -> u32 {
        // SYNC wakeup: pairs with the Release in `ring`. Before the announcement: a thread that
        // finds the announcement, and withdraws it, changes the word after this load.
        let rings = self.rings.load(Ordering::Acquire);
        // SYNC wakeup: AcqRel pairs with `ring`.
        self.asleep.swap(1, Ordering::AcqRel);
        rings
    }

    /// The writer is awake again.
    pub fn awake(&self) {
        // A read-modify-write, so that the next `listen` still acquires what earlier wakers
        // released.
        self.asleep.swap(0, Ordering::Relaxed);
        self.closed.store(0, Ordering::Relaxed);
    }
}
