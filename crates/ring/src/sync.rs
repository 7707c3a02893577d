//! The only access to atomics: the real ones, or loom's when models run.
//!
//! Every ordering stronger than `Relaxed` in this crate carries a `SYNC name:` comment
//! that says which other access it pairs with.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// Tells the processor that this is a spin loop.
#[inline]
pub fn spin() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}
