//! Zone: hot. Copies server events into the arena; runs on the server's query threads.
//!
//! C functions, called by the adapters (`include/tacho_probe.h`). None allocates,
//! takes a lock, panics or changes `errno`. The only system calls are those of
//! [`tacho_ring::sys`]: the declared back-pressure wait, waking the writer when a chunk is
//! full, and one `gettid` per thread.

#![cfg_attr(not(test), no_std)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

mod block;
mod filter;
mod rewrite;

pub use block::{BlockFacts, Blocked, Blocking, MESSAGE_ROOM, NAME_ROOM};
pub use filter::{Compiled, Facts, Filter, Kept, Wanted};
pub use rewrite::{
    Allocate, CompiledRules, IsExempt, REWRITE_ANSI_QUOTES, REWRITE_MODE_UNKNOWN,
    REWRITE_NO_BACKSLASH_ESCAPES, RewriteFacts, RewriteServer, Rewrites, Rewritten, SHARDS, Shard,
};
use tacho_filter::Action;
use tacho_ring::arena::{Arena, slice};
use tacho_ring::chunk::OpenChunk;
use tacho_ring::codec::{
    Bytes, Event, PRESENT_AWAITED, PRESENT_INNERMOST, PRESENT_NESTED, PRESENT_OUTERMOST,
    PRESENT_REMAINDER, RecordKind,
};
use tacho_ring::layout::{DURABILITY_SYNC, Session};
use tacho_ring::producer::{self, Emitted};
use tacho_ring::session;
use tacho_ring::sync::Ordering;

/// The panic handler of the proof link: refers to a symbol that does not exist, so that the link
/// fails if any panic is reachable from the hot zone.
#[cfg(all(feature = "proof", not(test)))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe extern "C" {
        fn probe_panic_is_reachable() -> !;
    }
    // SAFETY: never linked; see above.
    unsafe { probe_panic_is_reachable() }
}

/// A slice index that may be out of range: with this the proof link must fail.
#[cfg(all(feature = "proof-negative", not(test)))]
#[unsafe(no_mangle)]
#[allow(clippy::indexing_slicing)]
pub extern "C" fn tacho_probe_proof_negative(index: usize) -> u8 {
    let table = [1, 2, 3];
    table[index]
}

/// A mapped arena, as the adapters hold it.
#[repr(C)]
pub struct Probe {
    /// The mapping.
    pub arena: Arena,
    /// Differs for every arena of a process, so that a thread's stale chunk is recognised.
    pub instance: u64,
    /// Which statements are recorded.
    pub filter: Filter,
    /// Which statements are rewritten.
    pub rewrites: Rewrites,
}

impl Probe {
    /// For an arena, without a filter.
    pub fn new(arena: Arena, instance: u64) -> Probe {
        Probe::keyed(arena, instance, [0; 2])
    }

    /// As `new`, and it can receive rules that rewrite. `key`: see [`Rewrites::new`].
    pub fn keyed(arena: Arena, instance: u64, key: [u64; 2]) -> Probe {
        Probe { arena, instance, filter: Filter::default(), rewrites: Rewrites::new(key) }
    }
}

/// What a server thread keeps between calls; thread-local in the adapter, zero at first.
#[repr(C)]
#[derive(Default)]
pub struct Thread {
    /// Its open chunk.
    pub open: OpenChunk,
    /// [`Probe::instance`] that `open` belongs to.
    pub instance: u64,
    /// Cached decisions of the filter.
    pub kept: Kept,
}

/// The thread's chunk, forgotten if its arena no longer exists.
#[inline(always)]
fn open_chunk<'t>(probe: &Probe, thread: &'t mut Thread) -> &'t mut OpenChunk {
    if thread.instance != probe.instance {
        thread.open.forget();
        thread.instance = probe.instance;
    }
    &mut thread.open
}

/// Whether recording is on.
///
/// Runs on: any thread · Blocks: no · Allocates: no
///
/// # Safety
/// `probe` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_logging(probe: &Probe) -> bool {
    probe.arena.shared().settings.0.logging.load(Ordering::Relaxed) != 0
}

/// Whether to record a statement that starts, as far as this is known without looking at it:
/// [`Wanted::Look`] if there is a filter that may depend on more than the session.
///
/// Runs on: the thread that executes the connection · Blocks: no · Allocates: no
///
/// # Safety
/// All pointers are valid for the call; `thread` belongs to the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_wanted(
    probe: &Probe,
    thread: &mut Thread,
    conn: u64,
) -> Wanted {
    if probe.arena.shared().settings.0.logging.load(Ordering::Relaxed) == 0 {
        return Wanted::Off;
    }
    // SYNC epoch: Acquire pairs with the Release in `tacho_embed`: a reader of the resulting record
    // knows the filter, too.
    let epoch = probe.filter.epoch.load(Ordering::Acquire);
    if epoch != 0 {
        return match thread.kept.of_session(epoch, conn) {
            Some(action) => obey(probe, thread, action),
            None => Wanted::Look,
        };
    }
    thread.open.overflow = 0;
    thread.kept.conn = 0;
    Wanted::Record
}

/// As [`tacho_probe_wanted`], with a filter: its cached decision for statements like this one.
///
/// Runs on: the thread that executes the connection · Blocks: no · Allocates: no
///
/// # Safety
/// As for [`tacho_probe_wanted`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_look(
    probe: &Probe,
    thread: &mut Thread,
    conn: u64,
    db: &Bytes,
    command: &Bytes,
) -> Wanted {
    let epoch = probe.filter.epoch.load(Ordering::Relaxed);
    // SAFETY: as promised by the caller.
    match unsafe { thread.kept.find(epoch, conn, db, command) } {
        Some(action) => obey(probe, thread, action),
        None => Wanted::Ask,
    }
}

#[inline]
fn obey(probe: &Probe, thread: &mut Thread, action: Action) -> Wanted {
    if action.skip {
        thread.kept.count(&probe.filter);
        return Wanted::Skip;
    }
    thread.open.overflow = action.overflow.map_or(0, |overflow| overflow as u32);
    Wanted::Record
}

/// As [`tacho_probe_wanted`], if the filter has no cached decision. Caches the decision.
///
/// Runs on: the thread that executes the connection · Blocks: no · Allocates: no
///
/// # Safety
/// As for [`tacho_probe_wanted`].
#[cold]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_decide(
    probe: &Probe,
    thread: &mut Thread,
    conn: u64,
    facts: &Facts,
) -> Wanted {
    // SAFETY: as promised by the caller.
    let action = unsafe { probe.filter.decide(&mut thread.kept, conn, facts) };
    obey(probe, thread, action)
}

/// Whether any rule blocks.
///
/// Runs on: any thread · Blocks: no · Allocates: no
///
/// # Safety
/// `probe` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_has_block(probe: &Probe) -> bool {
    // Relaxed: a thread that blocks reads the filter itself, after this.
    probe.filter.has_block.load(Ordering::Relaxed) != 0
}

/// Whether a rule may block a statement. If not, its facts are not needed.
///
/// Runs on: the thread that executes the connection · Blocks: no · Allocates: no
///
/// # Safety
/// `probe` is valid; `blocking` belongs to the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_may_block(
    probe: &Probe,
    blocking: &Blocking,
    conn: u64,
    sql_command: i32,
) -> bool {
    // Relaxed: as above.
    probe.filter.has_block.load(Ordering::Relaxed) != 0
        && blocking.may_block(probe.filter.epoch.load(Ordering::Relaxed), conn, sql_command)
}

/// Whether a rule blocks a statement, and the answer to it. Call it only if a rule may block.
///
/// Runs on: the thread that executes the connection · Blocks: no · Allocates: no
///
/// # Safety
/// As for [`tacho_probe_may_block`]; the bytes of `facts` are valid.
#[cold]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_block(
    probe: &Probe,
    blocking: &mut Blocking,
    conn: u64,
    facts: &BlockFacts,
    out: &mut Blocked,
) -> bool {
    // SAFETY: as promised by the caller.
    unsafe { probe.filter.block(blocking, conn, facts, out) }
}

/// A statement was not executed, because of [`tacho_probe_block`].
///
/// Runs on: any thread · Blocks: no · Allocates: no · Counted as: `statements_blocked`
///
/// # Safety
/// `probe` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_note_blocked(probe: &Probe) {
    probe.filter.blocked.fetch_add(1, Ordering::Relaxed);
}

/// Whether a rule may rewrite a statement, as far as its text shows.
///
/// Runs on: any thread · Blocks: no · Allocates: no
///
/// # Safety
/// `probe` and the bytes of `text` are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_may_rewrite(probe: &Probe, text: Bytes) -> bool {
    // SAFETY: as promised by the caller.
    probe.rewrites.may_rewrite(unsafe { slice(&text) })
}

/// Whether a rule rewrites a statement; the caller then owns its new text.
///
/// Runs on: any thread · Blocks: no · Allocates: only through `server`, which is called if a rule
/// matches · Counted as: `statements_rewritten`; `rewrites_failed` if there was no memory
///
/// # Safety
/// All pointers are valid for the call; `server.allocate` returns null or memory of as many bytes
/// as requested.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_rewrite(
    probe: &Probe,
    facts: &RewriteFacts,
    server: &RewriteServer,
    out: &mut Rewritten,
) -> bool {
    // SAFETY: as promised by the caller.
    unsafe { probe.rewrites.rewrite(facts, server, out) }
}

/// The user of a session has changed: the decisions of the filter are made anew.
///
/// Runs on: any thread · Blocks: no · Allocates: no
///
/// # Safety
/// `probe` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_identity_changed(probe: &Probe) {
    let next = |epoch: u64| (epoch != 0).then_some(epoch.wrapping_add(1));
    // Without a filter there are no decisions. Relaxed: the session's own next statement comes
    // after this, and other sessions are not affected.
    let _unchanged = probe.filter.epoch.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
}

/// Slot of a connection, allocated if it has none; null if all are in use: the connection's records
/// then have no numbers. `now_us`: µs since 1970.
///
/// Runs on: the thread that executes the connection · Blocks: no · Allocates: no
/// Counted as: `sessions_untracked`
///
/// # Safety
/// `probe` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_session(
    probe: &Probe,
    conn: u64,
    now_us: i64,
) -> Option<&Session> {
    if let Some(slot) = session::first(probe.arena.sessions(), conn)
        && session::touch(slot, conn, now_us)
    {
        return Some(slot);
    }
    search_session(probe, conn, now_us)
}

/// The connection's slot is not the first one of its window.
#[cold]
#[inline(never)]
fn search_session(probe: &Probe, conn: u64, now_us: i64) -> Option<&Session> {
    let sessions = probe.arena.sessions();
    let shared = probe.arena.shared();
    if let Some(slot) = session::find(sessions, conn)
        && session::touch(slot, conn, now_us)
    {
        return Some(slot);
    }
    let slot = session::claim(sessions, &shared.settings.0, conn, now_us);
    // An event without a connection never has a slot.
    if slot.is_none() && conn != 0 {
        shared.counters.0.sessions_untracked.fetch_add(1, Ordering::Relaxed);
    }
    slot
}

/// Whether the end of a statement belongs to a recorded start; that start and all nested in it are
/// forgotten. If not, the adapter sends a `Point` record with everything.
///
/// Runs on: the thread that executes the connection · Blocks: no · Allocates: no
///
/// # Safety
/// `session` is null or comes from [`tacho_probe_session`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_end_known(
    session: Option<&Session>,
    text_id: u64,
    query_id: u64,
    text_bytes: u32,
) -> bool {
    session.is_some_and(|s| session::note_end(s, text_id, query_id, text_bytes))
}

/// Whether any start of the connection has not ended.
///
/// Runs on: the thread that executes the connection · Blocks: no · Allocates: no
///
/// # Safety
/// `session` is null or comes from [`tacho_probe_session`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_has_open(session: Option<&Session>) -> bool {
    session.is_some_and(|s| s.open_len.load(Ordering::Relaxed) > 0)
}

/// Records an event.
///
/// Runs on: the thread that executes the connection · Blocks: only if no chunk is free and the
/// overflow policy says so, while a huge statement is written to the file, and with durability SYNC
/// while a start is written to the device · Allocates: no · On failure: the record is lost ·
/// Counted as: `lost_timeout`, `lost_dropped`, `lost_killed`
///
/// # Safety
/// All pointers are valid for the call; `thread` belongs to the calling thread, and its question
/// (`OpenChunk::killed`) may be asked during the call; `session` is null or the slot of
/// `event.conn`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_emit(
    probe: &Probe,
    thread: &mut Thread,
    session: Option<&Session>,
    event: &Event,
) {
    // SAFETY: as promised by the caller.
    unsafe {
        if RecordKind::has_strings(event.kind) {
            record::<true>(probe, thread, session, event);
        } else if event.kind == RecordKind::Error as u32 {
            let open = open_chunk(probe, thread);
            // The session stores nothing about an error.
            let _accepted_or_counted = producer::emit_error(&probe.arena, open, session, event);
        } else {
            record::<false>(probe, thread, session, event);
        }
    }
}

/// [`tacho_probe_emit`], compiled once for each sort of event: an end has much less to do.
///
/// # Safety
/// As for [`tacho_probe_emit`].
#[inline(never)]
unsafe fn record<const STRINGS: bool>(
    probe: &Probe,
    thread: &mut Thread,
    session: Option<&Session>,
    event: &Event,
) {
    let open = open_chunk(probe, thread);
    if STRINGS
        && probe.arena.shared().settings.0.durability.load(Ordering::Relaxed) == DURABILITY_SYNC
    {
        // SAFETY: as promised by the caller.
        return unsafe { record_durably(probe, open, session, event) };
    }
    // SAFETY: as promised by the caller.
    let emitted = unsafe { producer::emit_kind::<STRINGS>(&probe.arena, open, session, event) };
    note::<STRINGS>(session, event, emitted);
}

/// Used while no statement may begin before its line is on the device: waits for the line of a
/// start. Not inside a stored program: the line of its call is there, and locks are held.
///
/// # Safety
/// As for [`tacho_probe_emit`].
#[cold]
#[inline(never)]
unsafe fn record_durably(
    probe: &Probe,
    open: &mut OpenChunk,
    session: Option<&Session>,
    event: &Event,
) {
    let mut event = *event;
    let is_start = event.kind == RecordKind::Start as u32 && event.present & PRESENT_NESTED == 0;
    let is_awaited = is_start && session.is_some();
    if is_awaited {
        event.present |= PRESENT_AWAITED;
    }
    // SAFETY: as promised by the caller.
    let emitted = unsafe { producer::emit_kind::<true>(&probe.arena, open, session, &event) };
    note::<true>(session, &event, emitted);
    match session {
        Some(session) if is_awaited && emitted == Emitted::Accepted => {
            producer::wait_for_device(&probe.arena, open, session);
        }
        // Without a slot, the writer cannot announce that its line is there.
        None if is_start => {
            let given_up = &probe.arena.shared().counters.0.sync_given_up;
            given_up.fetch_add(1, Ordering::Relaxed);
        }
        // No wait; or the record is lost and counted as such.
        _ => {}
    }
}

/// Notes in the session what was recorded.
#[inline(always)]
fn note<const STRINGS: bool>(session: Option<&Session>, event: &Event, emitted: Emitted) {
    let Some(session) = session else { return };
    if event.present & (PRESENT_OUTERMOST | PRESENT_INNERMOST) != 0 {
        session::close_open(session, event.present & PRESENT_OUTERMOST != 0);
    }
    if STRINGS && event.kind == RecordKind::Start as u32 && emitted == Emitted::Accepted {
        // If the event follows a statement in its packet, only the beginning is the event's text.
        let cut = event.present & PRESENT_REMAINDER != 0;
        let bytes = if cut { u32::MAX } else { event.text.len.min(u32::MAX as usize) as u32 };
        session::note_start(session, event.text_id, event.query_id, bytes);
    }
}

/// Forgets a connection that has ended, and releases the thread's chunk.
///
/// Runs on: the thread that executed the connection · Blocks: no · Allocates: no
///
/// # Safety
/// As for [`tacho_probe_emit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_forget(
    probe: &Probe,
    thread: &mut Thread,
    session: Option<&Session>,
) {
    if let Some(session) = session {
        session::forget(session);
    }
    thread.kept.tell(&probe.filter);
    producer::release(&probe.arena, open_chunk(probe, thread));
}
