//! Random pauses in the writing threads, for tests (`make test-pauses`). A busy machine pauses
//! threads, too, but rarely during a test. Code that relies on a quick writer fails with them.

/// A place where a thread may pause.
#[cfg(not(feature = "pauses"))]
#[inline(always)]
pub(crate) fn here() {}

/// One time in twelve: pauses up to 60 ms.
#[cfg(feature = "pauses")]
pub(crate) fn here() {
    use std::hash::{BuildHasher, RandomState};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    const ONE_IN: u64 = 12;
    const AT_MOST_MS: u64 = 60;
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // A different key each time.
    let dice = RandomState::new().hash_one(COUNT.fetch_add(1, Ordering::Relaxed));
    if dice.is_multiple_of(ONE_IN) {
        std::thread::sleep(Duration::from_millis((dice >> 32) % AT_MOST_MS));
    }
}
