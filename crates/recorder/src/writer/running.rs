//! The table of running statements: what has a line in the log, and has not ended.

use std::sync::atomic::Ordering;

use tacho_logdir::Fs;
use tacho_ring::layout::RunningEntry;

use super::Writer;
use crate::join::{Ending, Open, Start};
use crate::line;

/// A statement that has gathered this many errors and tables gets a `running` line.
const EXTRAS_MAX: usize = 1024;

impl<F: Fs> Writer<F> {
    /// Writes a `running` line for every statement that started before `before_us` and has
    /// none yet, or that has gathered much since its last one; what it holds may leave the
    /// arena then.
    pub(super) fn tell_running(&mut self, before_us: i64) {
        self.enqueue();
        // Taken out for the loop, which writes lines by the way.
        let mut join = std::mem::take(&mut self.join);
        for (conn, open) in join.open_since(i64::MAX) {
            let is_told = matches!(open.start, Start::Running { .. });
            // Told again when it has gathered something: errors that a stored routine handles
            // and tables it uses are without number, and would fill the arena in the end.
            let is_due = open.awaited
                || open.extras.len() >= EXTRAS_MAX
                || (open.ts_us < before_us && !is_told)
                || (before_us == i64::MAX && !open.extras.is_empty());
            if !is_due {
                continue;
            }
            if let Start::Record(place) = &mut open.start {
                self.gather(place);
            }
            let told_first = match &open.start {
                Start::Record(place) => {
                    let filters = &self.judging.filters;
                    let mut told = line::told(&self.drain, &mut self.scratch, place, filters);
                    told.no_literals |= self.judging.is_blind();
                    Some(Box::new(told))
                }
                Start::Running { .. } => None,
            };
            let is_rewritten = line::is_rewritten(&self.drain, &mut self.scratch, &open.extras);
            let error = line::last_error(&self.drain, &mut self.scratch, &open.extras);
            let Some(seq) = self.write_statement(conn, open, &Ending::Running, false) else {
                continue;
            };
            self.settle_statement(conn, open, &Ending::Running, seq);
            if let Some(told) = told_first {
                self.remember_running(conn, open, seq);
                open.start = Start::Running { seq, told };
            }
            // Its error may quote the new text, which nobody knows any more by then.
            if let (Start::Running { told, .. }, true) = (&mut open.start, is_rewritten) {
                told.has_secret = true;
            }
            // Only its end tells whether it is the message of its outcome.
            if let (Start::Running { told, .. }, Some(error)) = (&mut open.start, error) {
                told.error = Some(error);
            }
            open.extras.clear();
            open.awaited = false;
        }
        self.join = join;
    }

    pub(super) fn remember_running(&self, conn: u64, open: &Open, seq: u64) {
        let free = |e: &&RunningEntry| e.running_seq.load(Ordering::Relaxed) == 0;
        // A full table costs the `interrupted` line after a crash: the `running` line
        // without a completion then says the same.
        if let Some(entry) = self.arena().running().iter().find(free) {
            entry.done_seq.store(0, Ordering::Relaxed);
            entry.conn.store(conn, Ordering::Relaxed);
            entry.conn_seq.store(open.conn_seq, Ordering::Relaxed);
            entry.query_id.store(open.query_id, Ordering::Relaxed);
            entry.text_id.store(open.text_id, Ordering::Relaxed);
            entry.ts_us.store(open.ts_us, Ordering::Relaxed);
            entry.text_bytes.store(u64::from(open.text_bytes), Ordering::Relaxed);
            // SYNC running: Release, so that a reader after a crash never sees half an entry.
            entry.running_seq.store(seq, Ordering::Release);
        }
    }

    pub(super) fn finish_running(&mut self, running_seq: u64, done_seq: u64) {
        let arena = *self.arena();
        let found = arena
            .running()
            .iter()
            .position(|e| e.running_seq.load(Ordering::Relaxed) == running_seq);
        if let Some(index) = found {
            arena.running()[index].done_seq.store(done_seq, Ordering::Relaxed);
            self.finished.push(index);
        }
    }
}
