//! Back-pressure: the only places where a query thread of the server blocks.
//!
//! The `overflow` setting decides what happens if no chunk is free. Every record that is given up
//! is counted by its cause before the call returns.

use crate::arena::Arena;
use crate::chunk::{Killed, OpenChunk};
use crate::codec::{Event, NOTICE_AUTHID_DROP, NOTICE_FLUSH, RecordKind, STRING_COMMAND};
use crate::layout::{
    Counters, DURABILITY_SYNC, OVERFLOW_BLOCK, OVERFLOW_DROP, OVERFLOW_LET_GO, Session, Settings,
};
use crate::producer::Futex;
use crate::sync::{AtomicU64, Ordering, spin};
use crate::{free, session, sys};

/// Attempts before sleeping. Few: the writer needs the processor too.
const SPIN_COUNT: u32 = 64;
/// A waiting producer checks the settings again at least this often, µs.
const SLICE_US: u64 = 100_000;
/// A killed session still waits for this long, µs: a writer that is able to write has freed a chunk
/// by then, and nothing is lost.
const KILLED_WAIT_US: u64 = 100_000;

/// A thread that may hold locks of the server waits at most this long, µs: a writer that is able to
/// write has freed a chunk by then.
const LITTLE_US: u64 = 10_000_000;

/// How long a request for a chunk waits.
#[derive(Clone, Copy)]
pub(crate) enum ChunkWait {
    /// Does not wait and loses nothing: what does not fit is kept elsewhere.
    None,
    /// Waits as long as the settings say.
    Full,
    /// Its session ends: as `Full`, but once the server calls the session killed, no longer than
    /// [`LITTLE_US`].
    ///
    /// Both servers mark every session as killed before they report its end (`THD::disconnect` in
    /// `sql/sql_class.cc`), and a shutdown may do so before its `Quit` is reported, so the answer
    /// does not show whether a `KILL` was issued.
    Ending {
        /// Connection id, its lower half.
        conn: u32,
    },
    /// May hold locks of the server: waits only if the settings allow no loss, and at most
    /// [`LITTLE_US`].
    Little {
        /// Connection id, its lower half.
        conn: u32,
    },
}

impl ChunkWait {
    /// How long a record with strings or an end waits.
    ///
    /// # Safety
    /// As for [`crate::producer::emit`].
    pub(crate) unsafe fn of(event: &Event) -> ChunkWait {
        const CONFIG: u32 = RecordKind::Config as u32;
        const NOTICE: u32 = RecordKind::Notice as u32;
        const POINT: u32 = RecordKind::Point as u32;
        const DISCONNECT: u32 = RecordKind::Disconnect as u32;
        let ending = ChunkWait::Ending { conn: event.conn as u32 };
        match event.kind {
            CONFIG => ChunkWait::None,
            // The server reports it while it holds the lock of its accounts, which every login
            // needs.
            NOTICE if (NOTICE_FLUSH..=NOTICE_AUTHID_DROP).contains(&event.sql_command) => {
                ChunkWait::little(event)
            }
            DISCONNECT => ending,
            // SAFETY: as promised by the caller.
            POINT if unsafe { is_quit(event) } => ending,
            _ => ChunkWait::Full,
        }
    }

    /// How long a record waits whose thread may hold locks of the server.
    pub(crate) fn little(event: &Event) -> ChunkWait {
        ChunkWait::Little { conn: event.conn as u32 }
    }
}

/// Whether it is the last command of a session.
///
/// # Safety
/// As for [`crate::producer::emit`].
unsafe fn is_quit(event: &Event) -> bool {
    const NAME: &[u8] = b"Quit";
    let command = event.strings[STRING_COMMAND];
    command.len == NAME.len()
        // SAFETY: so many bytes are there, as promised by the caller.
        && unsafe { core::slice::from_raw_parts(command.data, NAME.len()) } == NAME
}

/// How long a wait may last, µs; `None`: no wait.
///
/// `own`: see [`OpenChunk::overflow`].
fn limit_us(settings: &Settings, own: u32) -> Option<u64> {
    // Turning recording off ends all waits.
    if settings.logging.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let set = settings.overflow.load(Ordering::Relaxed);
    // No chunk will become free: the policy of a rule does not apply.
    let own = own.checked_sub(1).filter(|_| set != OVERFLOW_LET_GO);
    match own.unwrap_or(set) {
        OVERFLOW_BLOCK => Some(u64::MAX),
        OVERFLOW_DROP | OVERFLOW_LET_GO => None,
        _ => Some(settings.overflow_timeout_us.load(Ordering::Relaxed)),
    }
}

/// A wait in progress.
struct Wait<'a> {
    since_us: i64,
    settings: &'a Settings,
    killed: &'a Killed,
    overflow: u32,
    at_most_us: u64,
    killed_wait_us: u64,
}

impl Wait<'_> {
    fn waited_us(&self) -> u64 {
        sys::monotonic_us().wrapping_sub(self.since_us).max(0) as u64
    }

    /// How long to sleep at most before checking again, µs, or the counter of the wait that is
    /// over.
    fn slice_us<'c>(&self, counters: &'c Counters) -> Result<u64, &'c AtomicU64> {
        let waited_us = self.waited_us();
        let limit_us = limit_us(self.settings, self.overflow).ok_or(&counters.lost_dropped)?;
        let limit_us = limit_us.min(self.at_most_us);
        if waited_us >= limit_us {
            return Err(&counters.lost_timeout);
        }
        if waited_us >= self.killed_wait_us && self.killed.is_true() {
            return Err(&counters.lost_killed);
        }
        Ok(limit_us.wrapping_sub(waited_us).min(SLICE_US))
    }
}

/// No chunk is free: waits for one. `None`: given up, and counted.
#[cold]
pub(crate) fn for_chunk(
    arena: &Arena,
    session: Option<&Session>,
    open: &OpenChunk,
    chunk_wait: ChunkWait,
) -> Option<u32> {
    let shared = arena.shared();
    let counters = &shared.counters.0;
    let settings = &shared.settings.0;
    let pop = || free::pop(&shared.free_head.0, arena.controls());
    shared.wakeup.0.ring(&Futex);
    if matches!(chunk_wait, ChunkWait::None) {
        return None;
    }
    if limit_us(settings, open.overflow).is_none() {
        counters.lost_dropped.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    let mut at_most_us = u64::MAX;
    if let ChunkWait::Little { conn } = chunk_wait {
        if limit_us(settings, open.overflow) != Some(u64::MAX) {
            counters.lost_timeout.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        // The previous record is already lost and counted: one wait was enough.
        if conn != 0 && open.lost_conn == conn {
            let killed = open.killed.is_true();
            let counter = if killed { &counters.lost_killed } else { &counters.lost_dropped };
            counter.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        at_most_us = LITTLE_US;
    }
    let killed_wait_us = match chunk_wait {
        // If its last record was given up, one wait was enough.
        ChunkWait::Ending { conn } if open.lost_conn != conn => LITTLE_US,
        _ => KILLED_WAIT_US,
    };
    for _ in 0..SPIN_COUNT {
        if let Some(index) = pop() {
            return Some(index);
        }
        spin();
    }
    counters.blocked_count.fetch_add(1, Ordering::Relaxed);
    let wait = Wait {
        since_us: sys::monotonic_us(),
        settings,
        killed: &open.killed,
        overflow: open.overflow,
        at_most_us,
        killed_wait_us,
    };
    let found = loop {
        let epoch = shared.backpressure.0.announce();
        if let Some(index) = pop() {
            shared.backpressure.0.retract();
            break Ok(index);
        }
        let slice_us = match wait.slice_us(counters) {
            Ok(slice_us) => slice_us,
            Err(counter) => {
                shared.backpressure.0.retract();
                break Err(counter);
            }
        };
        if let Some(session) = session {
            // A waiting connection is not stale, however long it waits.
            session.seen_us.store(sys::now_us(), Ordering::Relaxed);
        }
        shared.wakeup.0.call(&Futex);
        sys::futex_wait(&shared.backpressure.0.epoch, epoch, slice_us);
        shared.backpressure.0.retract();
    };
    counters.blocked_time_us.fetch_add(wait.waited_us(), Ordering::Relaxed);
    found.map_err(|counter| counter.fetch_add(1, Ordering::Relaxed)).ok()
}

/// The writer had to take this record out of the arena while it was still arriving, so it exists
/// only in the writer's memory. Waits until its line is in the file, so that no statement runs
/// whose record a crash could lose. `for_device`: the line must be on the device before the
/// statement runs. `false`: it waits no longer. A killed session does not wait: the server does not
/// run its statement.
#[cold]
pub(crate) fn until_settled(
    arena: &Arena,
    session: &Session,
    rec_no: u64,
    open: &OpenChunk,
    for_device: bool,
) -> bool {
    let shared = arena.shared();
    let wait = Wait {
        since_us: sys::monotonic_us(),
        settings: &shared.settings.0,
        killed: &open.killed,
        overflow: open.overflow,
        at_most_us: u64::MAX,
        killed_wait_us: KILLED_WAIT_US,
    };
    while let Some(epoch) = session::unsettled(session, &shared.writer.0, rec_no) {
        if for_device && wait.settings.durability.load(Ordering::Relaxed) != DURABILITY_SYNC {
            return true;
        }
        // The record is not lost: nothing is counted.
        let Ok(slice_us) = wait.slice_us(&shared.counters.0) else { return false };
        // As in `for_chunk`. If another connection got the slot, no thread would announce that the
        // record is in the file, and the wait would not end.
        session.seen_us.store(sys::now_us(), Ordering::Relaxed);
        shared.wakeup.0.call(&Futex);
        sys::futex_wait(&shared.writer.0.written_epoch, epoch, slice_us);
    }
    true
}
