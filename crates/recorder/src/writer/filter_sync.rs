//! Waits for the filters that lines depend on.
//!
//! A filter is published to the query threads and kept for the writer; if filters arrive by a
//! socket, a record may arrive before the filter that let it through. The arena has the number of
//! filters that existed when a record was made. The results of a pass become lines only when the
//! writer has all of these filters.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use tacho_ring::arena::Arena;

use super::context::Context;
use crate::control::{Control, Filters, Severity};

/// How long to wait for a filter, µs. A living server sends each at once: a longer delay means that
/// the number in the arena is wrong, or that the server's thread hangs.
const WAIT_US: i64 = 10_000_000;

/// The filters that this writer has.
#[derive(Default)]
pub(super) struct FilterSync {
    filters: Filters,
    /// Version of the last one.
    version: u64,
    /// They come from another process, and may be late.
    is_remote: bool,
    /// The version that the records found so far may depend on.
    due: u64,
    /// Since when the writer waits for it, µs of a monotonic clock; `None`: it does not wait.
    since_us: Option<i64>,
    /// The writer stopped waiting for this version, whose rules are unknown.
    given_up: u64,
    /// The arena of the server that sent these filters, for the case that the server died.
    known_arena: Option<PathBuf>,
}

impl FilterSync {
    /// Whether the records that were found wait for their filter.
    pub(super) fn is_waiting(&self) -> bool {
        self.since_us.is_some()
    }

    /// Versions begin anew with another arena.
    pub(super) fn begin_arena(&mut self) {
        (self.due, self.since_us, self.given_up) = (0, None, 0);
    }

    /// Whether a filter is missing that may redact literals: then all literals are redacted.
    pub(super) fn is_blind(&self) -> bool {
        self.version < self.due
    }

    /// The filters come from another process: records that a newer filter let through wait for it.
    pub(super) fn set_remote(&mut self) {
        self.is_remote = true;
    }

    /// The filters belong to the server that has, or had, this arena. The recovery of other arenas
    /// uses none.
    pub(super) fn know_arena(&mut self, arena: &Path) {
        self.known_arena = Some(arena.to_owned());
    }

    pub(super) fn filters(&self) -> &Filters {
        &self.filters
    }

    /// Before a dead arena is recovered: uses its server's filters, if known. A filter that has not
    /// arrived before that server died never will. `path`: path of the arena.
    pub(super) fn take_of_dead(&mut self, arena: &Arena, path: &Path, control: &Control) {
        self.filters = Filters::default();
        self.version = 0;
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.known_arena.as_ref() == Some(&path) {
            self.take(control);
            self.due = version_of(arena);
        }
    }

    /// After a pass: gets every filter that a record may depend on.
    pub(super) fn take(&mut self, control: &Control) {
        if let Some((version, filters)) = control.filters_newer_than(self.version) {
            (self.version, self.filters) = (version, filters);
        }
    }

    /// After a pass: notes which filters its records may depend on.
    pub(super) fn note_due(&mut self, arena: &Arena) {
        if self.is_remote {
            // SYNC filter: the pass has read the records with Acquire; their producers have read
            // the filter or its epoch with Acquire, both of which are published behind this number.
            self.due = version_of(arena);
        }
    }

    /// Whether the records that were found can become lines.
    pub(super) fn is_ready(&mut self, now_us: i64, context: &Context) -> bool {
        self.take(&context.control);
        if !self.is_blind() || self.due == self.given_up {
            self.since_us = None;
            return true;
        }
        if now_us - *self.since_us.get_or_insert(now_us) <= WAIT_US {
            return false;
        }
        (self.given_up, self.since_us) = (self.due, None);
        let text = format!(
            "filter version {} of the server not received after {} s, the last one here is {}: until it \
             arrives, lines are filtered by that one, and all literals are redacted",
            self.due,
            WAIT_US / 1_000_000,
            self.version
        );
        context.report(Severity::Error, &text, true);
        true
    }
}

fn version_of(arena: &Arena) -> u64 {
    arena.shared().settings.0.filter_version.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::arena_file::ArenaFile;
    use crate::control::Status;

    #[test]
    fn the_writer_waits_once_for_a_missing_filter() {
        let made = ArenaFile::placeholder().expect("memory");
        let arena = made.arena();
        let errors = Arc::new(AtomicU32::new(0));
        let counted = errors.clone();
        let log = Box::new(move |_: Severity, _: &str| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let control = Arc::new(Control::default());
        let context = Context::new(control.clone(), Arc::new(Status::default()), log);
        let mut sync = FilterSync::default();
        arena.shared().settings.0.filter_version.store(1, Ordering::Relaxed);
        sync.note_due(&arena);
        assert!(sync.is_ready(0, &context), "the filters are in this process");
        sync.set_remote();
        sync.note_due(&arena);
        assert!(!sync.is_ready(0, &context) && sync.is_waiting());
        assert!(!sync.is_ready(WAIT_US, &context));
        assert!(sync.is_ready(WAIT_US + 1, &context) && sync.is_blind());
        assert!(sync.is_ready(WAIT_US + 2, &context), "given up, and no second wait");
        assert_eq!(errors.load(Ordering::Relaxed), 1);
        control.set_filter(Arc::new([1]));
        assert!(sync.is_ready(WAIT_US + 3, &context) && !sync.is_blind());
        // The writer waits for a newer one.
        arena.shared().settings.0.filter_version.store(2, Ordering::Relaxed);
        sync.note_due(&arena);
        assert!(!sync.is_ready(WAIT_US + 4, &context));
    }
}
