//! Records whose order in their connection no number gives: those of a connection without a session
//! slot, and the first one after a connection got a slot.
//!
//! The pass that finds such a record may have missed an earlier one: that was committed before, but
//! to a chunk that the pass had already read. The next whole pass finds it. These records therefore
//! wait until that pass has ended, and so do records of the connection that are found meanwhile.
//! Then they are sorted by time, as after a crash. Those behind them are ordered by their numbers.

use tacho_ring::codec::RecordKind;
use tacho_ring::layout::FRAGMENT_FIRST;
use tacho_ring::session;

use super::Join;
use super::conn::{Conn, Ready};
use super::waiting::{Counts, Stashed};
use crate::drain::Head;
use crate::recover;

impl Conn {
    /// Whether earlier records of this connection may be missing without a gap in the numbers.
    #[inline]
    pub(super) fn is_loose(&self, head: &Head) -> bool {
        let is_first = session::number_in_epoch(head.rec_no) <= 1;
        is_first && head.conn != 0 && self.has_unknown_past(head)
    }

    #[inline(never)]
    fn has_unknown_past(&self, head: &Head) -> bool {
        let begins = head.fragment <= FRAGMENT_FIRST;
        // Usually a connection has its own slot from its beginning.
        let is_known = head.kind == RecordKind::Connect || head.rec_no == self.expected;
        begins && (head.rec_no == 0 || !is_known)
    }

    /// A pass has ended: takes the records that precede one that an earlier pass found.
    fn settle_loose(&mut self, pass: u64, counts: &mut Counts, ready: &mut Vec<Ready>) {
        self.sort_loose();
        let ripe = self.loose.iter().rposition(|s| s.pass < pass).map_or(0, |last| last + 1);
        let unripe = self.loose.split_off(ripe);
        let ripe = std::mem::replace(&mut self.loose, unripe);
        self.take_waiting(ripe, counts, ready);
        // Later ones have numbers, as a rule, which give their order from here on. A connection
        // that is never quiet would have waiting records for ever.
        if !self.loose.iter().any(|s| self.is_loose(&s.head)) {
            let numbered = std::mem::take(&mut self.loose);
            self.take_waiting(numbered, counts, ready);
        }
        if counts.stashed > 0 {
            self.unstash(counts, ready);
        }
        // If the clock was set back, a record may follow the end of the connection.
        self.is_gone &= self.is_quiet();
    }

    /// Takes records that have waited, or stashes them until their number is the next one.
    fn take_waiting(&mut self, waiting: Vec<Stashed>, counts: &mut Counts, ready: &mut Vec<Ready>) {
        counts.loose -= waiting.len();
        for s in waiting {
            if self.is_next(&s.head) {
                self.take(&s.head, s.at, counts, ready);
            } else {
                self.stash.push(s);
                counts.stashed += 1;
            }
        }
    }

    /// Sorts the waiting records into the order in which they happened.
    pub(super) fn sort_loose(&mut self) {
        recover::sort(&mut self.loose, |s: &Stashed| (&s.head, &s.at));
    }
}

impl Join {
    /// Whether records wait that another whole pass can order.
    pub fn has_loose(&self) -> bool {
        self.counts.loose > 0
    }

    /// A pass has ended: takes the records that precede those that an earlier pass found.
    pub(super) fn settle_loose(&mut self, ready: &mut Vec<Ready>) {
        if self.counts.loose == 0 {
            return;
        }
        let pass = self.pass;
        let is_ripe = |conn: &Conn| conn.loose.iter().any(|s| s.pass < pass);
        self.settle(is_ripe, |conn, counts| conn.settle_loose(pass, counts, ready));
    }
}
