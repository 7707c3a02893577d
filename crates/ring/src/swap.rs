//! One value that many threads rarely read, and one thread replaces.
//!
//! A reader announces itself while it reads. The thread that replaced the value may free the old
//! one as soon as no reader is announced. Announcing is a read-modify-write on a word that the
//! replacing thread also read-modify-writes, after it has stored the new value. Whichever comes
//! second in that word's order sees what the other did before: either the replacing thread sees the
//! reader, or the reader sees the new value.

use core::ptr;

use crate::sync::{AtomicPtr, AtomicU32, Ordering};

/// See the module documentation.
///
/// `T: Sync`, because all readers get references to one and the same value. `AtomicPtr<T>` is
/// `Sync` for any `T`: without this bound safe code could share a `Cell` between threads.
pub struct Swap<T: Sync> {
    value: AtomicPtr<T>,
    readers: AtomicU32,
}

impl<T: Sync> Default for Swap<T> {
    fn default() -> Swap<T> {
        Swap { value: AtomicPtr::new(ptr::null_mut()), readers: AtomicU32::new(0) }
    }
}

impl<T: Sync> Swap<T> {
    /// Passes the value to `look`; `None`: there is none.
    ///
    /// Runs on: any thread · Blocks: no · Allocates: no
    #[inline]
    pub fn read<R>(&self, look: impl FnOnce(Option<&T>) -> R) -> R {
        // SYNC swap: AcqRel pairs with the read-modify-write in `is_read`.
        self.readers.fetch_add(1, Ordering::AcqRel);
        // SYNC swap: Acquire pairs with the Release in `replace`: the value's bytes.
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: null, or a value passed to `replace`, which lives until `is_read` has returned
        // false after the next `replace`. It cannot have: this reader is announced.
        let result = look(unsafe { value.as_ref() });
        // SYNC swap: Release pairs with the Acquire in `is_read`: this reader is done.
        self.readers.fetch_sub(1, Ordering::Release);
        result
    }

    /// Replaces the value; null: none. One thread at a time.
    ///
    /// # Safety
    /// `value` is null, or valid and unchanged until, after the next call of this function,
    /// [`is_read`](Self::is_read) has returned false.
    pub unsafe fn replace(&self, value: *const T) {
        // SYNC swap: Release pairs with the Acquire in `read`.
        self.value.store(value.cast_mut(), Ordering::Release);
    }

    /// Whether a reader may still use a value that was replaced.
    pub fn is_read(&self) -> bool {
        // SYNC swap: AcqRel pairs with the two read-modify-writes in `read`.
        self.readers.fetch_add(0, Ordering::AcqRel) != 0
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// A number that readers and the freeing thread access at different times, or loom says so.
    struct Value(UnsafeCell<u64>);

    // SAFETY: loom reports two accesses at once, and the model fails.
    unsafe impl Sync for Value {}

    /// Two readers, and a thread that replaces the value and frees the old one as soon as it may:
    /// no reader uses the freed value (loom detects the race of `with` and `with_mut`).
    #[test]
    fn a_value_in_use_is_not_freed() {
        static FREED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        static KEPT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let values: Arc<[Value; 2]> =
                Arc::new([1, 2].map(|number| Value(UnsafeCell::new(number))));
            let swap = Arc::new(Swap::default());
            // SAFETY: both values live until the end of the model.
            unsafe { swap.replace(&raw const values[0]) };
            let readers = [(); 2].map(|()| {
                let swap = swap.clone();
                thread::spawn(move || {
                    swap.read(|value| {
                        let value = value.expect("there is always one");
                        // SAFETY: what the model is about.
                        value.0.with(|number| assert_ne!(unsafe { *number }, 0, "it was freed"));
                    });
                })
            });
            // SAFETY: as above.
            unsafe { swap.replace(&raw const values[1]) };
            if swap.is_read() {
                KEPT.fetch_or(1, std::sync::atomic::Ordering::Relaxed);
            } else {
                // SAFETY: what the model is about.
                values[0].0.with_mut(|number| unsafe { *number = 0 });
                FREED.fetch_or(1, std::sync::atomic::Ordering::Relaxed);
            }
            readers.map(|reader| reader.join().unwrap());
        });
        let reached = |ending: &std::sync::atomic::AtomicU32| {
            ending.load(std::sync::atomic::Ordering::Relaxed) == 1
        };
        assert!(reached(&FREED) && reached(&KEPT), "both endings have to occur");
    }
}
