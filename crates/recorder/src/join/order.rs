//! The order of one connection's records: what comes next, what waits, which gaps are given up.

use tacho_ring::codec::PRESENT_AWAITED;
use tacho_ring::layout::{FRAGMENT_FIRST, FRAGMENT_LAST, FRAGMENT_WHOLE};
use tacho_ring::session;

use super::conn::{Conn, Ready};
use super::partial::{Partial, RecordPlace};
use super::waiting::{Counts, Stashed};
use crate::drain::{Head, Ref};

impl Conn {
    /// Whether this record comes next.
    pub(super) fn is_next(&self, head: &Head) -> bool {
        let begins = head.fragment <= FRAGMENT_FIRST;
        match &self.partial {
            None => {
                begins && (head.rec_no == self.expected || head.rec_no <= self.due(head.rec_no))
            }
            // Whatever comes after a record in fragments, numbered or not, was recorded after
            // its last fragment, and this pass may have missed that one.
            Some(partial) => {
                head.rec_no == partial.head.rec_no
                    && (begins || partial.next == head.fragment_number)
            }
        }
    }

    /// The number that comes next in the epoch of this one.
    ///
    /// Epochs are no order: their numbers begin anew. A connection has another one when it has
    /// got another slot, and each record in fragments of a connection without a slot has one of
    /// its own; so that of the records before is remembered, whose last may come late.
    fn due(&self, rec_no: u64) -> u64 {
        let epoch = session::epoch_of(rec_no);
        let is_of = |known: &u64| *known != 0 && session::epoch_of(*known) == epoch;
        let known = [self.expected, self.expected_before].into_iter().find(is_of);
        // A slot of the session table begins to count at 1.
        known.unwrap_or((epoch << session::REC_NO_BITS) + 1)
    }

    /// What comes after this one is next. The highest number, which only a damaged record has, has none
    /// after it.
    pub(super) fn expect_after(&mut self, rec_no: u64) {
        self.expect(rec_no.saturating_add(1));
    }

    /// `rec_no` comes next in its epoch.
    pub(super) fn expect(&mut self, rec_no: u64) {
        if session::epoch_of(rec_no) != session::epoch_of(self.expected) {
            self.expected_before = self.expected;
        }
        self.expected = rec_no;
    }

    /// The next record.
    #[inline]
    pub(super) fn take(
        &mut self,
        head: &Head,
        at: Ref,
        counts: &mut Counts,
        ready: &mut Vec<Ready>,
    ) {
        // Nearly all are whole.
        if head.fragment == FRAGMENT_WHOLE && self.partial.is_none() {
            self.take_whole(head, at, ready);
        } else {
            self.take_piece(head, at, counts, ready);
        }
    }

    #[inline]
    fn take_whole(&mut self, head: &Head, at: Ref, ready: &mut Vec<Ready>) {
        // A record without a number says nothing of those that have one.
        if head.rec_no != 0 {
            self.expect_after(head.rec_no);
        }
        let awaited = head.present & PRESENT_AWAITED != 0;
        self.apply(head, RecordPlace::Arena(at, Vec::new()), awaited, ready);
    }

    #[inline(never)]
    fn take_piece(&mut self, head: &Head, at: Ref, counts: &mut Counts, ready: &mut Vec<Ready>) {
        if head.fragment <= FRAGMENT_FIRST
            && let Some(given_up) = self.partial.take()
        {
            // A record that comes in the place of one that is incomplete: the producer gave
            // that one up (and counted it).
            counts.partials -= 1;
            ready.push(Ready::Nothing { at: given_up.refs() });
        }
        match head.fragment {
            FRAGMENT_WHOLE => self.take_whole(head, at, ready),
            FRAGMENT_FIRST => {
                self.expect(head.rec_no.max(1));
                self.partial = Some(Partial {
                    head: *head,
                    first: Some(at),
                    more: Vec::new(),
                    early: None,
                    is_torn: false,
                    awaited: false,
                    next: 1,
                });
                counts.partials += 1;
            }
            fragment => {
                let Some(partial) = &mut self.partial else {
                    // The rest of a record whose beginning is gone.
                    ready.push(Ready::Nothing { at: vec![at] });
                    return;
                };
                if partial.next != head.fragment_number {
                    partial.go_on_with(head.fragment_number);
                }
                partial.more.push(at);
                partial.next = if partial.next == u16::MAX { 1 } else { partial.next + 1 };
                if fragment == FRAGMENT_LAST
                    && let Some(done) = self.partial.take()
                {
                    counts.partials -= 1;
                    self.expect_after(done.head.rec_no);
                    let head = done.head;
                    let awaited = done.awaited || head.present & PRESENT_AWAITED != 0;
                    self.apply(&head, done.into_place(), awaited, ready);
                }
            }
        }
    }

    /// Takes what has waited, as far as its turn has come.
    pub(super) fn unstash(&mut self, counts: &mut Counts, ready: &mut Vec<Ready>) {
        loop {
            let found = self.stash.iter().position(|s| self.is_next(&s.head));
            let Some(found) = found else { return };
            let Stashed { head, at, .. } = self.stash.remove(found);
            counts.stashed -= 1;
            self.take(&head, at, counts, ready);
        }
    }

    /// Goes on behind a gap. Returns how many records are missing.
    pub(super) fn give_up_gap(&mut self, counts: &mut Counts, ready: &mut Vec<Ready>) -> u64 {
        let Some(lowest) =
            self.stash.iter().min_by_key(|s| (s.head.rec_no, s.head.fragment_number))
        else {
            return 0;
        };
        let rec_no = lowest.head.rec_no;
        if let Some(partial) = &mut self.partial
            && partial.head.rec_no == rec_no
            && lowest.head.fragment > FRAGMENT_FIRST
        {
            // What is missing was in the memory of a writer that died. (Its line says that its text is
            // damaged, and is counted as such.)
            partial.go_on_with(lowest.head.fragment_number);
            self.unstash(counts, ready);
            return 0;
        }
        let beginning_is_gone = lowest.head.fragment > FRAGMENT_FIRST;
        let mut gap = rec_no.saturating_sub(self.due(rec_no));
        if let Some(partial) = self.partial.take() {
            counts.partials -= 1;
            ready.push(Ready::Nothing { at: partial.refs() });
            // Its producer gave it up and counted it, or the pass met the damage and did.
            gap = gap.saturating_sub(1);
        }
        self.expect(rec_no);
        if beginning_is_gone {
            // No record begins here: without this the rest would wait, and hold its chunks,
            // for ever.
            let (rest, stash): (Vec<Stashed>, _) =
                std::mem::take(&mut self.stash).into_iter().partition(|s| s.head.rec_no == rec_no);
            self.stash = stash;
            self.expect_after(rec_no);
            counts.stashed -= rest.len();
            gap = gap.saturating_add(1);
            ready.push(Ready::Nothing { at: rest.iter().map(|s| s.at).collect() });
        }
        self.unstash(counts, ready);
        gap
    }
}
