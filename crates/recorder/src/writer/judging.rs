//! By which filters lines are judged.
//!
//! A filter is published to the query threads and kept for the writer; a record may be here before the
//! filter that let it through, where that comes by a socket. The arena says how many filters there were
//! when a record was made. So what a pass has found is not made into lines before all of them are here.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use tacho_logdir::Fs;
use tacho_ring::sys;

use super::Writer;
use crate::control::{Filters, Severity, Status};

/// How long a filter is waited for, µs. Its server lives, and sends each at once: longer means that the
/// number in the arena is not true, or that the server's thread hangs.
const PATIENCE_US: i64 = 10_000_000;

/// What is known of the filters.
#[derive(Default)]
pub(super) struct Judging {
    pub(super) filters: Filters,
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

impl Judging {
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
}

impl<F: Fs> Writer<F> {
    /// The filters come from another process: a pass that has found what a newer one has let through
    /// waits for that one.
    pub fn wait_for_filters(&mut self) {
        self.judging.is_remote = true;
    }

    /// The filters are those of the server that has, or had, this arena. Recovery of others asks none.
    pub fn know_filters_of(&mut self, arena: &Path) {
        self.judging.known_arena = Some(arena.to_owned());
    }

    /// Before a dead arena is recovered: its server's filters, if they are known. One that has not come
    /// before that server died will not come.
    pub(crate) fn take_filters_of_dead(&mut self, arena: &Path) {
        self.judging.filters = Filters::default();
        self.judging.version = 0;
        let arena = arena.canonicalize().unwrap_or_else(|_| arena.to_owned());
        if self.judging.known_arena.as_ref() == Some(&arena) {
            self.take_filters();
            let settings = &self.arena().shared().settings.0;
            self.judging.due = settings.filter_version.load(Ordering::Relaxed);
        }
    }

    /// Behind a pass: it knows of every filter that a record was judged by.
    pub(super) fn take_filters(&mut self) {
        if let Some((version, filters)) = self.control.filters_newer_than(self.judging.version) {
            (self.judging.version, self.judging.filters) = (version, filters);
        }
    }

    /// Behind a pass: which filters what it has found may need.
    pub(super) fn note_due_filter(&mut self) {
        if self.judging.is_remote {
            // SYNC filter: the pass has read the records with Acquire; their producers have read the
            // filter or its epoch with Acquire, both of which are published behind this number.
            let settings = &self.arena().shared().settings.0;
            self.judging.due = settings.filter_version.load(Ordering::Relaxed);
        }
    }

    /// Whether what was found can be made into lines.
    pub(super) fn may_judge(&mut self) -> bool {
        self.take_filters();
        let now_us = sys::monotonic_us();
        let judging = &mut self.judging;
        if !judging.is_blind() || judging.due == judging.given_up {
            judging.since_us = None;
            return true;
        }
        if now_us - *judging.since_us.get_or_insert(now_us) <= PATIENCE_US {
            return false;
        }
        (judging.given_up, judging.since_us) = (judging.due, None);
        let text = format!(
            "filter number {} of the server has not come, the last one here is {}: until it does, lines \
             are judged by that one, and all literals are kept out of them",
            judging.due, judging.version
        );
        self.say(Severity::Error, &text);
        Status::set(&self.status.last_error, &text);
        true
    }
}
