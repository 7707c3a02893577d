//! Making room when chunks are short.

use std::sync::atomic::Ordering;

use tacho_logdir::Fs;
use tacho_ring::{free, session, sys};
use tacho_settings::Setting;

use super::Writer;
use crate::arena_file::ArenaError;
use crate::control::Severity;
use crate::drain::{Drain, Ref};
use crate::join::{EarlyRecord, Partial};

impl<F: Fs> Writer<F> {
    /// Makes room when chunks are short. `false`: the file cannot be written.
    pub(super) fn relieve(&mut self, now_us: i64) -> bool {
        let arena = *self.arena();
        let gate = &arena.shared().gate.0;
        let waiting = || gate.waiters.load(Ordering::Relaxed) > 0;
        let total = arena.geometry().chunk_count;
        if !waiting() && (total - self.drain.used_count().min(total)) * 8 > total {
            return true;
        }
        // Idle owners first: their chunks are mostly read to the end.
        if self.drain.steal_idle() > 0 {
            self.scan();
            if !self.may_judge() || !self.write_queue(now_us) || !self.write_out(now_us) {
                return false;
            }
            self.recycle();
        }
        if !waiting() && arena.free_count() * 32 > total {
            return true;
        }
        // Then statements that are still open, and errors that wait for theirs: what they hold
        // goes to the file now.
        self.join.release_errors(&mut self.ready);
        self.tell_running(i64::MAX);
        if !self.write_queue(now_us) || !self.write_out(now_us) {
            return false;
        }
        self.recycle();
        // Of the list, not of the states: a writer that was killed while it gave a chunk back may
        // have left one that is neither in use nor on the list.
        if !free::is_empty(&arena.shared().free_head.0) || !waiting() {
            return true;
        }
        self.take_out_partials(now_us)
    }

    /// Takes the pieces of incomplete records out of the arena, so that the rest can come.
    pub(super) fn take_out_partials(&mut self, now_us: i64) -> bool {
        let arena = *self.arena();
        let mut any = false;
        for (conn, partial) in self.join.partials() {
            if let Some(slot) = session::find(arena.sessions(), conn) {
                session::announce_early(slot, partial.head.rec_no);
            }
            partial.awaited = true;
            any = true;
        }
        if !any {
            return true;
        }
        // After the announcements: either this pass sees the last fragment, or its producer
        // sees that it must wait.
        self.scan();
        let mut taken: Vec<Ref> = Vec::new();
        let mut piece = Vec::new();
        for (_, partial) in self.join.partials().filter(|(_, p)| p.awaited) {
            if move_out(&mut self.drain, partial, &mut taken) {
                continue;
            }
            // No room beside the arena: into memory, where it is lost with this process.
            if partial.early.is_none() {
                let mut early = Box::<EarlyRecord>::default();
                if let Some(bytes) = partial.first.and_then(|at| self.drain.fetch(at, &mut piece)) {
                    early.take_first(bytes);
                }
                if partial.is_torn {
                    early.lose_text();
                }
                partial.early = Some(early);
            }
            let Some(early) = &mut partial.early else { continue };
            for at in partial.more.drain(..) {
                early.take_more(self.drain.fetch(at, &mut piece));
                taken.push(at);
            }
        }
        if self.give_back(taken) == 0 {
            // So many large records come in at once that their beginnings fill the arena.
            let in_memory = self.join.partials().filter(|(_, p)| p.early.is_some());
            let in_arena = |at: &mut Ref| !at.is_annexed();
            let firsts = in_memory.filter_map(|(_, p)| p.first.take_if(in_arena)).collect();
            self.give_back(firsts);
        }
        self.may_judge() && self.write_queue(now_us)
    }

    pub(super) fn tell_annex_failure(&mut self) {
        let Some(error) = self.drain.take_annex_error() else { return };
        if !self.annex_seldom.allows(sys::monotonic_us()) {
            return;
        }
        let text = match &*error {
            ArenaError::Planted { .. } => format!("{error}; {}", error.advice()),
            _ => format!(
                "{error}. Until that is mended, a statement that is larger than what is free in \
                 the arena is in the memory of its writer, and lost or doubled if that is killed \
                 before its line is written. Give {} more room, or make {} larger",
                self.control.name(Setting::ArenaDirectory),
                self.control.name(Setting::ArenaBytes)
            ),
        };
        self.say(Severity::Warning, &text);
    }

    /// Gives back the chunks of what is elsewhere now. Returns how many.
    fn give_back(&mut self, taken: Vec<Ref>) -> u32 {
        for at in taken {
            self.drain.settle(at, self.written_seq);
        }
        self.recycle()
    }
}

/// Moves what there is of a record to the annex; `taken`: what is not needed in the arena any more.
/// `false`: not all of it has room there, or some of it is in memory already.
fn move_out(drain: &mut Drain, partial: &mut Partial, taken: &mut Vec<Ref>) -> bool {
    // The numbers of fragments have 16 bits. Where they begin anew, one in the arena has that of one that
    // was moved, and nobody could say whether it is the same.
    let fragment_count = partial.head.text_bytes / (drain.arena().geometry().chunk_bytes / 2);
    if partial.early.is_some() || fragment_count > u32::from(u16::MAX) {
        return false;
    }
    for at in partial.first.iter_mut().chain(&mut partial.more).filter(|at| !at.is_annexed()) {
        let Some(moved) = drain.annex(*at) else { return false };
        taken.push(std::mem::replace(at, moved));
    }
    true
}
