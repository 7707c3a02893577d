//! The C functions for rewrite rules. The C side is `include/tacho_embed.h`.

use std::ffi::c_char;

use tacho_rewrite::compile::{RuleSource, normalise};
use tacho_ring::arena::slice;
use tacho_ring::codec::Bytes;

use crate::recorder::Recorder;
use crate::rewrite::List;
use crate::{WhoStrings, answer, copy_out, guard, who_of};

/// See `tacho_rewrite_rule`.
#[repr(C)]
pub struct RewriteRule {
    pub(crate) id: u64,
    pub(crate) pattern: Bytes,
    pub(crate) pattern_database: Bytes,
    pub(crate) replacement: Bytes,
}

const INTERNAL: &str = "internal error";

/// See `include/tacho_embed.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tacho_embed_rewrite_begin() -> Option<Box<List>> {
    guard(None, || Some(Box::default()))
}

/// See `include/tacho_embed.h`.
///
/// # Safety
/// `list` is null, or from [`tacho_embed_rewrite_begin`] and still owned by the caller; `rule` and
/// its bytes are valid; `message` is valid for `message_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_embed_rewrite_add(
    list: Option<&mut List>,
    rule: &RewriteRule,
    message: *mut c_char,
    message_bytes: usize,
) -> usize {
    let result = guard(Err(INTERNAL.to_owned()), || {
        let list = list.ok_or_else(|| INTERNAL.to_owned())?;
        // SAFETY: promised by the caller.
        let [pattern, database, replacement] = unsafe {
            [&rule.pattern, &rule.pattern_database, &rule.replacement].map(|it| slice(it))
        };
        let database = (!rule.pattern_database.data.is_null()).then_some(database);
        list.add(&RuleSource { id: rule.id, pattern, database, replacement })
    });
    match result {
        Ok(()) => 0,
        Err(text) => {
            // SAFETY: promised by the caller.
            unsafe { copy_out(&text, message, message_bytes) };
            text.len()
        }
    }
}

/// See `include/tacho_embed.h`.
///
/// # Safety
/// `list` as in [`tacho_embed_rewrite_add`]; `text` is valid for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_embed_rewrite_faults(
    list: Option<&List>,
    text: *mut c_char,
    bytes: usize,
) -> usize {
    let value = guard(String::new(), || list.map(List::faults).unwrap_or_default());
    // SAFETY: promised by the caller.
    unsafe { copy_out(&value, text, bytes) };
    value.len()
}

/// # Safety
/// The bytes of `pattern` are valid; `text` is valid for `bytes` bytes.
unsafe fn copy_normalised(
    pattern: Bytes,
    which: impl FnOnce((String, String)) -> String,
    text: *mut c_char,
    bytes: usize,
) -> usize {
    // SAFETY: promised by the caller.
    let pattern = unsafe { slice(&pattern) };
    let value = guard(String::new(), || normalise(pattern).map(which).unwrap_or_default());
    // SAFETY: promised by the caller.
    unsafe { copy_out(&value, text, bytes) };
    value.len()
}

/// See `include/tacho_embed.h`.
///
/// # Safety
/// The bytes of `pattern` are valid; `text` is valid for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_embed_rewrite_normalized(
    pattern: Bytes,
    text: *mut c_char,
    bytes: usize,
) -> usize {
    // SAFETY: promised by the caller.
    unsafe { copy_normalised(pattern, |(normalised, _)| normalised, text, bytes) }
}

/// See `include/tacho_embed.h`.
///
/// # Safety
/// As for [`tacho_embed_rewrite_normalized`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_embed_rewrite_digest(
    pattern: Bytes,
    text: *mut c_char,
    bytes: usize,
) -> usize {
    // SAFETY: promised by the caller.
    unsafe { copy_normalised(pattern, |(_, digest)| digest, text, bytes) }
}

/// See `include/tacho_embed.h`.
///
/// # Safety
/// `list` as in [`tacho_embed_rewrite_add`], and ownership passes to this function; `who` as in
/// [`tacho_embed_note_config`](crate::tacho_embed_note_config); `count` is null or valid; `error`
/// is valid for `error_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_embed_rewrite_apply(
    recorder: &Recorder,
    who: *const WhoStrings,
    list: Option<Box<List>>,
    turn: u64,
    count: Option<&mut u64>,
    error: *mut c_char,
    error_bytes: usize,
) -> bool {
    // SAFETY: promised by the caller.
    let who = unsafe { who_of(who) };
    let result = guard(Err(INTERNAL.to_owned()), || {
        let mut list = list.ok_or_else(|| INTERNAL.to_owned())?;
        list.turn = (turn != 0).then_some(turn);
        recorder.rewrite(who, *list)
    });
    let result = result.map(|applied| {
        if let Some(count) = count {
            *count = applied;
        }
    });
    // SAFETY: promised by the caller.
    unsafe { answer(result, error, error_bytes) }
}

/// See `include/tacho_embed.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tacho_embed_rewrite_turn(recorder: &Recorder) -> u64 {
    guard(0, || recorder.rewriting().next_turn())
}

/// See `include/tacho_embed.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tacho_embed_rewrite_is_current(recorder: &Recorder, turn: u64) -> bool {
    guard(false, || recorder.rewriting().is_current(turn))
}

/// See `include/tacho_embed.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tacho_embed_rewrite_cancel(list: Option<Box<List>>) {
    guard((), || drop(list));
}

/// See `include/tacho_embed.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tacho_embed_rewrite_restore(recorder: &Recorder) -> u64 {
    guard(0, || recorder.restore_rewrite())
}
