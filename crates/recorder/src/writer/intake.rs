//! From the arena to the queue: reads records, joins them, and sorts them by time.

use std::path::PathBuf;

use tacho_ring::arena::Arena;
use tacho_ring::sync::{Ordering, fence};
use tacho_ring::{session, sys};

use super::queue::Queue;
use crate::drain::Drain;
use crate::join::{Ending, Join, Ready, Start};
use crate::spill::ArenaSource;

/// A statement that is open for this long gets a `running` line, µs.
const RUNNING_AFTER_US: i64 = 10_000_000;

/// Reads, joins and queues records, see the module documentation.
pub(super) struct Intake {
    pub(super) drain: Drain,
    pub(super) join: Join,
    /// Items that can become lines; emptied when all are written.
    ready: Vec<Ready>,
    queue: Queue,
    /// The times of the records are in the past: how long a statement has been open is not known.
    is_replay: bool,
}

impl Intake {
    pub(super) fn new(source: impl Into<ArenaSource>) -> Intake {
        Intake {
            drain: Drain::new(source),
            join: Join::default(),
            ready: Vec::new(),
            queue: Queue::default(),
            is_replay: false,
        }
    }

    /// Leaves the arena for another one. Records that are not formatted yet stay unmarked in the
    /// old one.
    pub(super) fn take_up(&mut self, source: impl Into<ArenaSource>) {
        self.drain = Drain::new(source);
        self.join = Join::default();
        // The items refer to records of the old arena.
        self.queue.clear(&mut self.ready);
    }

    /// See [`Writer::set_replay`](super::Writer::set_replay).
    pub(super) fn set_replay(&mut self) {
        self.is_replay = true;
    }

    /// Statements that began before this have been open for long, µs since 1970-01-01 UTC.
    pub(super) fn long_ago_us(&self, now_us: i64) -> i64 {
        if self.is_replay { i64::MIN } else { now_us - RUNNING_AFTER_US }
    }

    pub(super) fn arena(&self) -> &Arena {
        self.drain.arena()
    }

    /// The producers are threads of another process; see [`Drain::set_tasks`].
    pub(super) fn set_tasks(&mut self, tasks: Option<PathBuf>) {
        self.drain.set_tasks(tasks);
    }

    /// The parts that recovery and takeover use.
    pub(super) fn parts(&mut self) -> (&mut Drain, &mut Join, &mut Vec<Ready>) {
        (&mut self.drain, &mut self.join, &mut self.ready)
    }

    /// One pass over the arena: complete items become ready.
    pub(super) fn scan(&mut self) {
        let Intake { drain, join, ready, .. } = self;
        let arena = *drain.arena();
        let quiet = join.quiet(|conn| session::find(arena.sessions(), conn).is_none());
        // SYNC claim: pairs with the Releases in `session::forget` and `claim`: the pass sees
        // every record of a connection whose slot was gone before it.
        fence(Ordering::Acquire);
        join.begin_pass();
        let abandoned = join.abandoned(drain.arena().sessions());
        drain.pass(|head, at| join.add(head, at, ready));
        join.give_up(&abandoned, ready);
        join.end_pass(ready);
        if join.has_loose() {
            // Another pass at once, so that these records do not wait for the next round.
            join.begin_pass();
            drain.pass(|head, at| join.add(head, at, ready));
            join.end_pass(ready);
        }
        if let Some(quiet) = quiet {
            join.forget_quiet(&quiet);
        }
        let before_us = self.long_ago_us(sys::now_us());
        self.join.close_over(before_us, &mut self.ready);
    }

    /// Puts ready items into the queue.
    pub(super) fn enqueue(&mut self) {
        self.queue.sort_new(&self.ready);
    }

    /// The next item of the queue, and the drain that reads its records. `None`: the queue is done.
    #[inline]
    pub(super) fn next_item(&mut self) -> Option<(&mut Ready, &mut Drain)> {
        let place = self.queue.next()?;
        Some((&mut self.ready[place], &mut self.drain))
    }

    /// Clears the queue if all items have been taken.
    pub(super) fn clear_if_done(&mut self) {
        self.queue.clear_if_done(&mut self.ready);
    }

    /// When recording stops: makes open statements ready, as `running`. The queue is empty.
    pub(super) fn finish(&mut self, now_us: i64) {
        self.join.finish(now_us, Ending::Running, &mut self.ready);
        // A statement with a `running` line needs no second one, unless it has newer records.
        self.ready.retain(|item| match item {
            Ready::Statement { open, .. } => {
                matches!(open.start, Start::Record(_)) || !open.extras.is_empty()
            }
            _ => true,
        });
        self.enqueue();
    }

    /// Whether all state in memory is also in the arena.
    pub(super) fn is_empty(&mut self) -> bool {
        self.queue.is_empty() && self.join.partials().all(|(_, partial)| partial.early.is_none())
    }

    /// Records that cannot be read, or whose threads died before they were complete, since the last
    /// call.
    pub(super) fn take_corrupt(&mut self, now_us: i64) -> u64 {
        let damaged = self.drain.take_damaged() + self.join.take_missing();
        damaged + u64::from(self.drain.bury_dead(now_us))
    }
}
