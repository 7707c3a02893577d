//! State of statements whose records leave the arena before their end.

use std::borrow::Cow;

use tacho_filter::Program;
use tacho_ring::codec::{RecordKind, STRING_CHARSET, STRING_DB};
use tacho_sql::redact;

use super::load::{Loaded, Shortfall};
use super::style::{Scratch, is_blocked};
use super::wanted;
use crate::control::Filters;
use crate::drain::Drain;
use crate::join::{CarryOver, RecordPlace};

/// Longest message that is kept until the end of its statement, bytes; no server has longer ones.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// The state that remains of a start whose record leaves the arena.
pub fn carry_over(
    drain: &Drain,
    scratch: &mut Scratch,
    place: &RecordPlace,
    filters: &Filters,
) -> CarryOver {
    // The line counts records that cannot be read.
    let loaded = scratch.start.load(drain, place, &mut Shortfall::default());
    let Some(Loaded { view, text }) = loaded else { return CarryOver::default() };
    let setting = redact::Setting::of(view.string(STRING_CHARSET), view.string(STRING_DB));
    let filter = Program::new(filters.at(view.header.ts_us));
    let action = wanted::statement(&filter, &view, || None);
    let is_clean = |text| matches!(redact::secrets(text, setting), Cow::Borrowed(_));
    CarryOver {
        strings: view.strings().map(<[u8]>::to_vec).to_vec(),
        has_secret: !text.is_ok_and(is_clean),
        shows_prepared: text.is_ok_and(|text| redact::shows_prepared(text, setting)),
        // Literals that its text must not show are kept out of its error, too.
        no_literals: action.no_text || action.literals,
        error: None,
    }
}

/// Number and message of the last error among the records of a statement.
pub fn last_error(
    drain: &Drain,
    scratch: &mut Scratch,
    extras: &[RecordPlace],
) -> Option<(u32, Vec<u8>)> {
    extras.iter().rev().find_map(|place| {
        let loaded = scratch.end.load(drain, place, &mut Shortfall::default())?;
        let message = loaded.text.ok().filter(|text| text.len() <= MESSAGE_BYTES_MAX)?;
        let Loaded { view, .. } = loaded;
        let is_message = view.kind == RecordKind::Error && !is_blocked(&view);
        is_message.then(|| (view.body.errno, message.to_vec()))
    })
}

/// Whether the records of a statement include a rewritten text.
pub fn is_rewritten(drain: &Drain, scratch: &mut Scratch, extras: &[RecordPlace]) -> bool {
    extras.iter().any(|place| {
        let loaded = scratch.end.load(drain, place, &mut Shortfall::default());
        loaded.is_some_and(|loaded| loaded.view.kind == RecordKind::Rewrite)
    })
}
