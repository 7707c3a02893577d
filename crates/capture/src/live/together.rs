//! State that all threads of a capture share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::metrics::Metrics;

/// Shared by all threads.
pub(super) struct Together {
    /// The latest counters of each thread.
    metrics: Mutex<Vec<Metrics>>,
    /// A thread has ended: without it, some connections are not recorded.
    has_ended: AtomicBool,
}

impl Together {
    pub(super) fn new(threads: usize) -> Together {
        // Only the first thread looks at the interface.
        let none = Metrics { is_there: true, ..Metrics::default() };
        let metrics = Mutex::new(vec![none; threads]);
        Together { metrics, has_ended: AtomicBool::new(false) }
    }

    /// Notes the counters of a thread.
    pub(super) fn note(&self, index: usize, metrics: Metrics) {
        self.lock()[index] = metrics;
    }

    /// The counters of all threads.
    pub(super) fn metrics(&self) -> Metrics {
        Metrics::sum(&*self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Metrics>> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// The others end when this is dropped, whatever the reason.
    pub(super) fn ends_with_this(&self) -> EndsAll<'_> {
        EndsAll(self)
    }
}

/// See [`Together::ends_with_this`].
pub(super) struct EndsAll<'t>(&'t Together);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Relaxed);
    }
}
