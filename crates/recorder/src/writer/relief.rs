//! Frees space when chunks are short.

use tacho_ring::{session, sys};
use tacho_settings::Setting;

use super::context::Context;
use super::intake::Intake;
use super::rate_limit::RateLimit;
use crate::arena_file::ArenaError;
use crate::control::Severity;
use crate::drain::{Drain, Ref};
use crate::join::{EarlyRecord, Partial};

/// Announces to the producers of incomplete records that they must wait for the lines. `false`:
/// there are none.
pub(super) fn announce_partials(intake: &mut Intake) -> bool {
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

/// Moves the arrived parts of the announced records out of the arena. Returns the records that are
/// no longer needed there.
pub(super) fn take_out_announced(intake: &mut Intake) -> Vec<Ref> {
    let (drain, join, _) = intake.parts();
    let mut taken: Vec<Ref> = Vec::new();
    let mut piece = Vec::new();
    for (_, partial) in join.partials().filter(|(_, p)| p.awaited) {
        if move_out(drain, partial, &mut taken) {
            continue;
        }
        // No space beside the arena: into memory, where it is lost if this process dies.
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

/// Reports that fragments could not be moved to the spill.
pub(super) fn report_spill_failure(drain: &mut Drain, limit: &mut RateLimit, context: &Context) {
    let Some(error) = drain.take_spill_error() else { return };
    if !limit.allows(sys::monotonic_us()) {
        return;
    }
    let text = match &*error {
        ArenaError::Planted { .. } => format!("{error}; {}", error.advice()),
        _ => format!(
            "{error}. Until this is fixed, a statement that is larger than what is free in \
             the arena is in the memory of its writer, and lost or doubled if that is killed \
             before its line is written. Give {} more room, or make {} larger",
            context.name(Setting::ArenaDirectory),
            context.name(Setting::ArenaBytes)
        ),
    };
    context.say(Severity::Warning, &text);
}

/// Moves the arrived part of a record to the spill; `taken`: records that are no longer needed in
/// the arena. `false`: there is not enough space, or a part of the record is already in memory.
fn move_out(drain: &mut Drain, partial: &mut Partial, taken: &mut Vec<Ref>) -> bool {
    // Fragment numbers have 16 bits. When they wrap, a fragment in the arena may have the number of
    // one that was moved, and the two cannot be distinguished.
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
