//! From the queue to the batch: which lines are written, and what is settled with them.

use std::sync::atomic::Ordering;

use tacho_logdir::Fs;
use tacho_record::json;
use tacho_record::{EventKind, Record};
use tacho_ring::sys;

use super::Writer;
use crate::control::{Severity, Status};
use crate::drain::Ref;
use crate::join::{EarlyRecord, Ending, Open, Place, Ready, Start};
use crate::line::{self, Shortfall, Style, Written};

impl<F: Fs> Writer<F> {
    /// A line of the recorder itself: `start`, `stop`.
    pub fn note(&mut self, event: EventKind, server: &str) {
        self.note_at(event, server.as_bytes(), sys::now_us());
    }

    pub(crate) fn note_at(&mut self, event: EventKind, server: &[u8], ts_us: i64) {
        let seq = self.take_seq();
        let shared = self.arena().shared();
        match event {
            EventKind::Start => shared.writer.0.start_seq.store(seq, Ordering::Relaxed),
            EventKind::Stop => shared.successor.0.stop_seq.store(seq, Ordering::Relaxed),
            _ => {}
        }
        let is_start = event == EventKind::Start;
        let key = self.files.root_key().filter(|_| is_start).map(ToString::to_string);
        let signing_key = key.as_deref().unwrap_or("").as_bytes();
        let event = Some(event);
        let run = self.run();
        let record = Record { seq, ts_us, event, run, server, signing_key, ..Record::default() };
        json::write_line(&mut self.batch, &record, &mut self.clock);
    }

    /// `seq` of the `start` line of the recorder whose arena this is: of a dead one, while that is
    /// recovered.
    pub(super) fn run(&self) -> Option<u64> {
        let seq = self.arena().shared().writer.0.start_seq.load(Ordering::Relaxed);
        (seq != 0).then_some(seq)
    }

    /// Adds a `config` line for a change that the recorder has made itself.
    pub(super) fn note_own_config(&mut self, variable: &str, old_value: &str, new_value: &str) {
        let seq = self.take_seq();
        let record = Record {
            seq,
            ts_us: sys::now_us(),
            event: Some(EventKind::Config),
            run: self.run(),
            variable: variable.as_bytes(),
            old_value: old_value.as_bytes(),
            new_value: new_value.as_bytes(),
            ..Record::default()
        };
        json::write_line(&mut self.batch, &record, &mut self.clock);
    }

    pub(super) fn tell_config_changes(&mut self, now_us: i64) {
        let changes = {
            let waiting = &self.control.config_changes;
            let mut waiting = waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            std::mem::take(&mut *waiting)
        };
        for change in changes {
            let seq = self.take_seq();
            if let Some(told) = &mut self.config_told {
                told(change.number, seq);
            }
            let who = &change.who;
            let record = Record {
                seq,
                ts_us: now_us,
                event: Some(EventKind::Config),
                run: self.run(),
                conn: (who.conn != 0).then_some(who.conn),
                user: &who.user,
                priv_user: &who.priv_user,
                host: &who.host,
                ip: &who.ip,
                variable: &change.variable,
                old_value: &change.old_value,
                new_value: &change.new_value,
                ..Record::default()
            };
            json::write_line(&mut self.batch, &record, &mut self.clock);
        }
    }

    /// Formats the queue, and writes whenever a batch is full.
    pub(crate) fn write_queue(&mut self, now_us: i64) -> bool {
        let flush_bytes = self.control.flush_bytes.load(Ordering::Relaxed).clamp(1, 16 << 20);
        // Taken out for the loop, which writes files by the way.
        let mut ready = std::mem::take(&mut self.ready);
        let mut written = true;
        while written && let Some((_, place)) = self.queue.order.get(self.queue.done) {
            self.format(&mut ready[*place as usize]);
            self.queue.done += 1;
            written = (self.batch.len() as u64) < flush_bytes || self.write_out(now_us);
        }
        self.queue.clear_if_done(&mut ready);
        self.ready = ready;
        written
    }

    pub(crate) fn enqueue(&mut self) {
        self.queue.sort_new(&self.ready);
    }

    fn format(&mut self, item: &mut Ready) {
        match item {
            Ready::Statement { conn, open, ending, .. } => {
                if let Start::Record(place) = &mut open.start {
                    self.gather(place);
                }
                if let Ending::Record(place) = ending {
                    self.gather(place);
                }
                // A producer waits until the line of this one is in the file.
                let may_skip = !open.awaited;
                let Some(seq) = self.write_statement(*conn, open, ending, may_skip) else {
                    // With the line before: it is in none of its own.
                    let seq = self.next_seq.saturating_sub(1);
                    return self.settle_statement(*conn, open, ending, seq);
                };
                self.settle_statement(*conn, open, ending, seq);
                if let Start::Running { seq: running_seq, .. } = &open.start {
                    self.finish_running(*running_seq, seq);
                } else if matches!(ending, Ending::Running) {
                    // The last lines of an orderly stop. Should it not come to its end, the
                    // next server completes them.
                    self.remember_running(*conn, open, seq);
                }
            }
            Ready::Single { place, awaited, error, .. } => {
                self.gather(place);
                let written = self.write_single(place, error.as_ref(), awaited.is_none());
                if let (Written::Unreadable, Some(error)) = (written, error) {
                    // What it was the message of cannot be read: a line of its own.
                    self.write_single(error, None, false);
                }
                self.awaited.extend(*awaited);
            }
            Ready::Nothing { at } => {
                for at in at {
                    // Settled with the line before: nothing of it is in a line of its own.
                    self.drain.settle(*at, self.next_seq.saturating_sub(1));
                }
            }
        }
    }

    /// `may_skip`: it is left out if the filter does not want it.
    fn write_single(&mut self, place: &Place, error: Option<&Place>, may_skip: bool) -> Written {
        let (seq, run) = (self.next_seq, self.run());
        let mut style = Style {
            clock: &mut self.clock,
            run,
            max_statement_bytes: self.control.max_statement_bytes.load(Ordering::Relaxed),
            filters: &self.judging.filters,
            may_skip,
            digest: self.control.digest.load(Ordering::Relaxed),
            redact_literals: self.drain.arena().redacts_literals() || self.judging.is_blind(),
        };
        let written = line::write_single(
            &mut self.batch,
            &self.drain,
            &mut self.scratch,
            &mut style,
            seq,
            place,
            error,
        );
        if self.scratch.is_short() {
            self.tell_shortfall();
        }
        let settled_with = match written {
            Written::Line => {
                self.next_seq += 1;
                seq
            }
            // With the line before: it is in none of its own.
            Written::Filtered | Written::Unreadable => seq.saturating_sub(1),
        };
        self.settle_place(place, settled_with);
        if let (Written::Line | Written::Filtered, Some(error)) = (written, error) {
            self.settle_place(error, settled_with);
        }
        if written == Written::Filtered {
            self.status.records_filtered.fetch_add(1, Ordering::Relaxed);
        }
        written
    }

    /// The `seq` of its line; `None`: the filter does not want it, and it `may_skip` it.
    pub(super) fn write_statement(
        &mut self,
        conn: u64,
        open: &Open,
        ending: &Ending,
        may_skip: bool,
    ) -> Option<u64> {
        let (seq, run) = (self.next_seq, self.run());
        let mut style = Style {
            clock: &mut self.clock,
            run,
            max_statement_bytes: self.control.max_statement_bytes.load(Ordering::Relaxed),
            filters: &self.judging.filters,
            may_skip,
            digest: self.control.digest.load(Ordering::Relaxed),
            redact_literals: self.drain.arena().redacts_literals() || self.judging.is_blind(),
        };
        let written = line::write_statement(
            &mut self.batch,
            &self.drain,
            &mut self.scratch,
            &mut style,
            seq,
            line::Statement { conn, open, ending },
        );
        if self.scratch.is_short() {
            self.tell_shortfall();
        }
        if written != Written::Line {
            self.status.records_filtered.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.next_seq += 1;
        Some(seq)
    }

    /// Puts the rest of a text of which most was taken out of the arena to that, so that it is
    /// nowhere copied as a whole.
    #[inline]
    pub(super) fn gather(&mut self, place: &mut Place) {
        if let Place::Memory(early, more) = place {
            self.gather_pieces(early, more);
        }
    }

    #[inline(never)]
    fn gather_pieces(&mut self, early: &mut EarlyRecord, more: &[Ref]) {
        let mut piece = Vec::new();
        for at in &more[early.gathered..] {
            early.take_more(self.drain.fetch(*at, &mut piece));
        }
        early.gathered = more.len();
    }

    /// Counts records that looked like some until their lines were to be written, and says
    /// which texts are missing for want of memory.
    fn tell_shortfall(&mut self) {
        let Shortfall { damaged, no_memory_bytes } = self.scratch.take_shortfall();
        if damaged > 0 {
            self.count_corrupt(damaged);
        }
        let Some(bytes) = no_memory_bytes else { return };
        let text = format!(
            "not enough memory for the text of a statement, {bytes} bytes: its line has \
             `sql_bytes` and no `sql`. Give this machine more memory, or lower max_allowed_packet"
        );
        if self.memory_seldom.allows(sys::monotonic_us()) {
            self.say(Severity::Error, &text);
        }
        Status::set(&self.status.last_error, &text);
    }

    pub(super) fn settle_statement(&mut self, conn: u64, open: &Open, ending: &Ending, seq: u64) {
        if let Start::Record(place) = &open.start {
            self.settle_place(place, seq);
        }
        for place in &open.extras {
            self.settle_place(place, seq);
        }
        match ending {
            Ending::Record(place) => self.settle_place(place, seq),
            Ending::Read { at, .. } => self.drain.settle(*at, seq),
            Ending::Derived(_) | Ending::Unknown | Ending::Running => {}
        }
        if open.awaited {
            self.awaited.push((conn, open.rec_no));
        }
    }

    pub(super) fn settle_place(&mut self, place: &Place, seq: u64) {
        match place {
            Place::Arena(first, more) | Place::Torn(first, more) => {
                self.drain.settle(*first, seq);
                more.iter().for_each(|at| self.drain.settle(*at, seq));
            }
            Place::Memory(_, more) => more.iter().for_each(|at| self.drain.settle(*at, seq)),
        }
    }
}
