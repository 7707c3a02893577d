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
use tacho_filter::Treatment;
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

/// The panic handler of the proof link: names a symbol that exists nowhere, so that the
/// link fails as soon as any panic can be reached from the hot zone.
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
    /// Which statements are wanted.
    pub filter: Filter,
    /// Which are rewritten.
    pub rewrites: Rewrites,
}

impl Probe {
    /// Of an arena, without a filter.
    pub fn new(arena: Arena, instance: u64) -> Probe {
        Probe::keyed(arena, instance, [0; 2])
    }

    /// One that may get rules that rewrite. `key`: see [`Rewrites::new`].
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
    /// What the filter has said.
    pub kept: Kept,
}

/// The thread's chunk, forgotten if it is of an arena that is gone.
#[inline(always)]
fn open_chunk<'t>(probe: &Probe, thread: &'t mut Thread) -> &'t mut OpenChunk {
    if thread.instance != probe.instance {
        thread.open.forget();
        thread.instance = probe.instance;
    }
    &mut thread.open
}

/// Whether records are wanted at the moment.
///
/// Runs on: any thread · Blocks: no · Allocates: no
///
/// # Safety
/// `probe` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_logging(probe: &Probe) -> bool {
    probe.arena.shared().settings.0.logging.load(Ordering::Relaxed) != 0
}

/// Whether a statement that starts is to be recorded, as far as can be told without a look at
/// it: [`Wanted::Look`] when there is a filter, and it may look at more than the session.
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
    // SYNC epoch: Acquire pairs with the Release in `tacho_embed`: who reads the record that comes
    // of this knows the filter, too.
    let epoch = probe.filter.epoch.load(Ordering::Acquire);
    if epoch != 0 {
        return match thread.kept.of_session(epoch, conn) {
            Some(treatment) => obey(probe, thread, treatment),
            None => Wanted::Look,
        };
    }
    thread.open.overflow = 0;
    thread.kept.conn = 0;
    Wanted::Record
}

/// The same where there is a filter: what it has said before of statements like this one.
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
        Some(treatment) => obey(probe, thread, treatment),
        None => Wanted::Ask,
    }
}

#[inline]
fn obey(probe: &Probe, thread: &mut Thread, treatment: Treatment) -> Wanted {
    if treatment.skip {
        thread.kept.count(&probe.filter);
        return Wanted::Skip;
    }
    thread.open.overflow = treatment.overflow.map_or(0, |overflow| overflow as u32);
    Wanted::Record
}

/// The same where the filter has said nothing yet. Keeps the answer.
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
    let treatment = unsafe { probe.filter.decide(&mut thread.kept, conn, facts) };
    obey(probe, thread, treatment)
}

/// Whether any rule blocks.
///
/// Runs on: any thread · Blocks: no · Allocates: no
///
/// # Safety
/// `probe` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_has_block(probe: &Probe) -> bool {
    // Relaxed: who blocks looks at the filter itself, behind this.
    probe.filter.has_block.load(Ordering::Relaxed) != 0
}

/// Whether a rule may block a statement: no look at it is needed where the answer is no.
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

/// Whether a rule blocks a statement, and what is to be said of it. Where a rule may block it.
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

/// A statement was not executed, because [`tacho_probe_block`] has said so.
///
/// Runs on: any thread · Blocks: no · Allocates: no · Counted as: `statements_blocked`
///
/// # Safety
/// `probe` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_note_blocked(probe: &Probe) {
    probe.filter.blocked.fetch_add(1, Ordering::Relaxed);
}

/// Whether a rule may rewrite a statement, as far as its text tells.
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

/// Whether a rule rewrites a statement; then its new text is the caller's.
///
/// Runs on: any thread · Blocks: no · Allocates: by `server` alone, which is called when a rule
/// matches · Counted as: `statements_rewritten`; `rewrites_failed`, when there was no memory
///
/// # Safety
/// All pointers are valid for the call; `server.allocate` answers null or memory of as many bytes
/// as it was asked for.
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

/// The user of a session has changed: what the filter has said is decided anew.
///
/// Runs on: any thread · Blocks: no · Allocates: no
///
/// # Safety
/// `probe` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_probe_identity_changed(probe: &Probe) {
    let next = |epoch: u64| (epoch != 0).then_some(epoch.wrapping_add(1));
    // Without a filter there is nothing to decide anew. Relaxed: the session's own next statement
    // comes after this, and others are not concerned.
    let _unchanged = probe.filter.epoch.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
}

/// Slot of a connection, taken if it has none; null when all are in use: the connection's
/// records then are not numbered. `now_us`: µs since 1970.
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
    // What is of no connection has none in any case.
    if slot.is_none() && conn != 0 {
        shared.counters.0.sessions_untracked.fetch_add(1, Ordering::Relaxed);
    }
    slot
}

/// Whether the end of a statement belongs to a start that was recorded; that start and all
/// nested in it are forgotten. If not, the adapter sends a `Point` record with everything.
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

/// Whether any start of the connection waits for its end.
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
/// Runs on: the thread that executes the connection · Blocks: only when no chunk is free
/// and the overflow policy says so, while a huge statement goes to the file, and where
/// durability is SYNC while a start goes to the device · Allocates: no · On failure: the record is lost · Counted as: `lost_timeout`,
/// `lost_dropped`, `lost_killed`
///
/// # Safety
/// All pointers are valid for the call; `thread` belongs to the calling thread, and what it
/// asks (`OpenChunk::killed`) may be asked during the call; `session` is null or the slot of
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
            // Nothing is noted of it, wherever it is.
            let _accepted_or_counted = producer::emit_error(&probe.arena, open, session, event);
        } else {
            record::<false>(probe, thread, session, event);
        }
    }
}

/// [`tacho_probe_emit`], compiled once for each sort of event: an end has so much less to do.
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

/// While no statement may begin before its line is on the device: that of a start is waited for.
/// Not inside of a stored program: the line of its call is there, and locks are held.
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
        // Nobody could say that its line is there.
        None if is_start => {
            let given_up = &probe.arena.shared().counters.0.sync_given_up;
            given_up.fetch_add(1, Ordering::Relaxed);
        }
        // Not waited for; or lost, and counted as that.
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
        // Of what follows a statement in its packet, only the beginning is the event's text.
        let cut = event.present & PRESENT_REMAINDER != 0;
        let bytes = if cut { u32::MAX } else { event.text.len.min(u32::MAX as usize) as u32 };
        session::note_start(session, event.text_id, event.query_id, bytes);
    }
}

/// Forgets a connection that has ended, and gives the thread's chunk back.
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
