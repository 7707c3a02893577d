//! Making room when chunks are short.

use std::sync::atomic::Ordering;

use tacho_logdir::Fs;
use tacho_ring::{free, session, sys};

use super::Writer;
use super::context::Context;
use super::intake::Intake;
use super::rate_limit::RateLimit;
use crate::arena_file::ArenaError;
use crate::control::Severity;
use crate::drain::{Drain, Ref};
use crate::join::{EarlyRecord, Partial};

impl<F: Fs> Writer<F> {
    /// Makes room when chunks are short. `false`: the file cannot be written.
    pub(super) fn relieve(&mut self, now_us: i64) -> bool {
        let arena = *self.arena();
        let backpressure = &arena.shared().backpressure.0;
        let waiting = || backpressure.waiters.load(Ordering::Relaxed) > 0;
        let total = arena.geometry().chunk_count;
        if !waiting() && (total - self.intake.drain.used_count().min(total)) * 8 > total {
            return true;
        }
        // Idle owners first: their chunks are mostly read to the end.
        if self.intake.drain.steal_idle() > 0 {
            self.scan();
            if !self.may_format() || !self.write_queue(now_us) || !self.write_out(now_us) {
                return false;
            }
            self.recycle();
        }
        if !waiting() && arena.free_count() * 32 > total {
            return true;
        }
        // Then statements that are still open, and errors that wait for theirs: what they hold
        // goes to the file now.
        let (_, join, ready) = self.intake.parts();
        join.release_errors(ready);
        self.write_running(i64::MAX);
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
    fn take_out_partials(&mut self, now_us: i64) -> bool {
        if !announce_partials(&mut self.intake) {
            return true;
        }
        // After the announcements: either this pass sees the last fragment, or its producer
        // sees that it must wait.
        self.scan();
        let taken = take_out_announced(&mut self.intake);
        if self.give_back(taken) == 0 {
            // So many large records come in at once that their beginnings fill the arena.
            let in_memory = self.intake.join.partials().filter(|(_, p)| p.early.is_some());
            let in_arena = |at: &mut Ref| !at.is_spilled();
            let firsts = in_memory.filter_map(|(_, p)| p.first.take_if(in_arena)).collect();
            self.give_back(firsts);
        }
        self.may_format() && self.write_queue(now_us)
    }

    /// Gives back the chunks of what is elsewhere now. Returns how many.
    fn give_back(&mut self, taken: Vec<Ref>) -> u32 {
        let written_seq = self.last_seq();
        for at in taken {
            self.intake.drain.settle(at, written_seq);
        }
        self.recycle()
    }
}

/// Tells the producers of incomplete records that they must wait for the lines. `false`: there are none.
fn announce_partials(intake: &mut Intake) -> bool {
    let arena = *intake.arena();
    let mut any = false;
    for (conn, partial) in intake.join.partials() {
        if let Some(slot) = session::find(arena.sessions(), conn) {
            session::announce_early(slot, partial.head.rec_no);
        }
        partial.awaited = true;
        any = true;
    }
    any
}

/// Takes what there is of the announced records out of the arena. Returns what is not needed there any
/// more.
fn take_out_announced(intake: &mut Intake) -> Vec<Ref> {
    let (drain, join, _) = intake.parts();
    let mut taken: Vec<Ref> = Vec::new();
    let mut piece = Vec::new();
    for (_, partial) in join.partials().filter(|(_, p)| p.awaited) {
        if move_out(drain, partial, &mut taken) {
            continue;
        }
        // No room beside the arena: into memory, where it is lost with this process.
        if partial.early.is_none() {
            let mut early = Box::<EarlyRecord>::default();
            if let Some(bytes) = partial.first.and_then(|at| drain.fetch(at, &mut piece)) {
                early.take_first(bytes);
            }
            if partial.is_torn {
                early.lose_text();
            }
            partial.early = Some(early);
        }
        let Some(early) = &mut partial.early else { continue };
        for at in partial.more.drain(..) {
            early.take_more(drain.fetch(at, &mut piece));
            taken.push(at);
        }
    }
    taken
}

/// Reports that pieces of records could not be moved to the spill.
pub(super) fn report_spill_failure(drain: &mut Drain, limit: &mut RateLimit, context: &Context) {
    let Some(error) = drain.take_spill_error() else { return };
    if !limit.allows(sys::monotonic_us()) {
        return;
    }
    let text = match &*error {
        ArenaError::Planted { .. } => format!("{error}; {}", error.advice()),
        _ => format!(
            "{error}. Until that is mended, a statement that is larger than what is free in \
             the arena is in the memory of its writer, and lost or doubled if that is killed \
             before its line is written. Give {} more room, or make {} larger",
            context.name("arena_directory"),
            context.name("arena_bytes")
        ),
    };
    context.say(Severity::Warning, &text);
}

/// Moves what there is of a record to the spill; `taken`: what is not needed in the arena any more.
/// `false`: not all of it has room there, or some of it is in memory already.
fn move_out(drain: &mut Drain, partial: &mut Partial, taken: &mut Vec<Ref>) -> bool {
    // The numbers of fragments have 16 bits. Where they begin anew, one in the arena has that of one that
    // was moved, and nobody could say whether it is the same.
    let fragment_count = partial.head.text_bytes / (drain.arena().geometry().chunk_bytes / 2);
    if partial.early.is_some() || fragment_count > u32::from(u16::MAX) {
        return false;
    }
    for at in partial.first.iter_mut().chain(&mut partial.more).filter(|at| !at.is_spilled()) {
        let Some(moved) = drain.spill(*at) else { return false };
        taken.push(std::mem::replace(at, moved));
    }
    true
}
