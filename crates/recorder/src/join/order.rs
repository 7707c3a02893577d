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
            // A record that follows one in fragments, numbered or not, was recorded after its last
            // fragment, which this pass may have missed. Unless another thread recorded it.
            Some(partial) => {
                head.rec_no == partial.head.rec_no
                    && (begins || partial.next == head.fragment_number)
                    || partial.is_of_other_thread(head)
            }
        }
    }

    /// The number that is due in the epoch of this one.
    ///
    /// Epochs have no order: their numbers wrap. A connection gets another epoch with another slot,
    /// and each fragmented record of a connection without a slot has an epoch of its own. The
    /// previous epoch's number is therefore kept, because its last record may arrive late.
    fn due(&self, rec_no: u64) -> u64 {
        let epoch = session::epoch_of(rec_no);
        let is_of = |known: &u64| *known != 0 && session::epoch_of(*known) == epoch;
        let known = [self.expected, self.expected_before].into_iter().find(is_of);
        // Counting begins at 1 in each slot of the session table.
        known.unwrap_or((epoch << session::REC_NO_BITS) + 1)
    }

    /// The record after this one is due next. The highest number, which only a damaged record has,
    /// has no successor.
    pub(super) fn expect_after(&mut self, rec_no: u64) {
        self.expect(rec_no.saturating_add(1));
    }

    /// `rec_no` is due next in its epoch.
    pub(super) fn expect(&mut self, rec_no: u64) {
        if session::epoch_of(rec_no) != session::epoch_of(self.expected) {
            self.expected_before = self.expected;
        }
        self.expected = rec_no;
    }

    /// Takes the next record.
    #[inline]
    pub(super) fn take(
        &mut self,
        head: &Head,
        at: Ref,
        counts: &mut Counts,
        ready: &mut Vec<Ready>,
    ) {
        // Nearly all records are whole.
        let is_apart = |partial: &Partial| partial.is_of_other_thread(head);
        if head.fragment == FRAGMENT_WHOLE && self.partial.as_ref().is_none_or(is_apart) {
            self.take_whole(head, at, ready);
        } else {
            self.take_piece(head, at, counts, ready);
        }
    }

    #[inline]
    fn take_whole(&mut self, head: &Head, at: Ref, ready: &mut Vec<Ready>) {
        // A record without a number says nothing about those that have one.
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
            // Another record in place of an incomplete one: the producer gave that one up (and
            // counted it).
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
                    partial.resume_with(head.fragment_number);
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

    /// Takes waiting records, as far as they are due.
    pub(super) fn unstash(&mut self, counts: &mut Counts, ready: &mut Vec<Ready>) {
        loop {
            let found = self.stash.iter().position(|s| self.is_next(&s.head));
            let Some(found) = found else { return };
            let Stashed { head, at, .. } = self.stash.remove(found);
            counts.stashed -= 1;
            self.take(&head, at, counts, ready);
        }
    }

    /// Continues after a gap. Returns how many records are missing.
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
            // The missing part was in the memory of a writer that died. (Its line says that the
            // text is damaged, and is counted as such.)
            partial.resume_with(lowest.head.fragment_number);
            self.unstash(counts, ready);
            return 0;
        }
        let beginning_is_gone = lowest.head.fragment > FRAGMENT_FIRST;
        let mut gap = rec_no.saturating_sub(self.due(rec_no));
        if let Some(partial) = self.partial.take() {
            counts.partials -= 1;
            ready.push(Ready::Nothing { at: partial.refs() });
            // The record was already counted: by its producer, which gave it up, or as damaged.
            gap = gap.saturating_sub(1);
        }
        self.expect(rec_no);
        if beginning_is_gone {
            // No record begins here: without this, the rest would wait for ever and hold its
            // chunks.
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
