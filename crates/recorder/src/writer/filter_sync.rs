//! By which filters lines are judged.
//!
//! A filter is published to the query threads and kept for the writer; a record may be here before the
//! filter that let it through, where that comes by a socket. The arena says how many filters there were
//! when a record was made. So what a pass has found is not made into lines before all of them are here.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use tacho_ring::arena::Arena;

use super::context::Context;
use crate::control::{Control, Filters, Severity};

/// How long a filter is waited for, µs. Its server lives, and sends each at once: longer means that the
/// number in the arena is not true, or that the server's thread hangs.
const WAIT_US: i64 = 10_000_000;

/// What is known of the filters.
#[derive(Default)]
pub(super) struct FilterSync {
    filters: Filters,
    /// Which version the last one of them is.
    version: u64,
    /// They come from another process, and may be late.
    is_remote: bool,
    /// The version that what has been found may have been judged by.
    due: u64,
    /// Since when it is waited for, µs of a clock that is never set; `None`: it is not.
    since_us: Option<i64>,
    /// This version has not come. Without it nobody knows what it keeps out of the log.
    given_up: u64,
    /// The arena of the server that the filters are of, should it have died.
    known_arena: Option<PathBuf>,
}

impl FilterSync {
    /// Whether what has been found waits for its filter.
    pub(super) fn is_waiting(&self) -> bool {
        self.since_us.is_some()
    }

    /// The numbers of another arena begin anew.
    pub(super) fn begin_arena(&mut self) {
        (self.due, self.since_us, self.given_up) = (0, None, 0);
    }

    /// A filter is missing that may keep literals out of the log: then all of them stay out.
    pub(super) fn is_blind(&self) -> bool {
        self.version < self.due
    }

    /// The filters come from another process: a pass that has found what a newer one has let through
    /// waits for that one.
    pub(super) fn set_remote(&mut self) {
        self.is_remote = true;
    }

    /// The filters are those of the server that has, or had, this arena. Recovery of others uses none.
    pub(super) fn know_arena(&mut self, arena: &Path) {
        self.known_arena = Some(arena.to_owned());
    }

    pub(super) fn filters(&self) -> &Filters {
        &self.filters
    }

    /// Before a dead arena is recovered: its server's filters, if they are known. A filter that has not
    /// come before that server died will not come. `path`: of the arena.
    pub(super) fn take_of_dead(&mut self, arena: &Arena, path: &Path, control: &Control) {
        self.filters = Filters::default();
        self.version = 0;
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.known_arena.as_ref() == Some(&path) {
            self.take(control);
            self.due = version_of(arena);
        }
    }

    /// Behind a pass: it knows of every filter that a record was judged by.
    pub(super) fn take(&mut self, control: &Control) {
        if let Some((version, filters)) = control.filters_newer_than(self.version) {
            (self.version, self.filters) = (version, filters);
        }
    }

    /// Behind a pass: which filters what it has found may need.
    pub(super) fn note_due(&mut self, arena: &Arena) {
        if self.is_remote {
            // SYNC filter: the pass has read the records with Acquire; their producers have read the
            // filter or its epoch with Acquire, both of which are published behind this number.
            self.due = version_of(arena);
        }
    }

    /// Whether what was found can be made into lines.
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
            "filter number {} of the server has not come, the last one here is {}: until it does, lines \
             are judged by that one, and all literals are kept out of them",
            self.due, self.version
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
    fn a_filter_that_does_not_come_is_waited_for_once() {
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
        assert!(sync.is_ready(WAIT_US + 2, &context), "given up, and not waited for again");
        assert_eq!(errors.load(Ordering::Relaxed), 1);
        control.set_filter(Arc::new([1]));
        assert!(sync.is_ready(WAIT_US + 3, &context) && !sync.is_blind());
        // A newer one is waited for.
        arena.shared().settings.0.filter_version.store(2, Ordering::Relaxed);
        sync.note_due(&arena);
        assert!(!sync.is_ready(WAIT_US + 4, &context));
    }
}
