//! State that follows a connection from thread to thread: the number of its last record, and which
//! of its statements have started.
//!
//! A connection has a slot of its own, found by its id. Only the thread that executes the
//! connection touches the slot's contents, so plain loads and stores are enough; taking a
//! slot is the one step that threads compete for.

use crate::layout::{OPEN_COUNT, Session, Settings, WriterState};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::wakeup::Park;

/// How many neighbouring slots a connection may use. Ids are assigned in sequence, so neighbours
/// are connections of about the same age.
const WINDOW: usize = 16;
/// A slot that was unused for this long may be given to another connection, µs. If the old one
/// becomes active again, it gets a new slot and a new epoch in its record numbers.
const STALE_US: i64 = 600_000_000;
/// The owner of a slot that was unused for this long must claim it again before it uses it, µs.
/// Much less than `STALE_US`, so that clocks need not be exact.
const RECENT_US: i64 = 60_000_000;
/// Bits of `rec_no` below the epoch.
pub const REC_NO_BITS: u32 = 48;
/// In place of a connection id: the slot is being given to a connection.
const CLAIMING: u64 = u64::MAX;

/// Epoch of a record number: it changes when a connection gets a new slot.
#[inline]
pub fn epoch_of(rec_no: u64) -> u64 {
    rec_no >> REC_NO_BITS
}

/// A record number without its epoch.
#[inline]
pub fn number_in_epoch(rec_no: u64) -> u64 {
    rec_no & ((1 << REC_NO_BITS) - 1)
}

/// A fresh epoch, shifted to its position in a record number.
#[cold]
pub(crate) fn next_epoch(settings: &Settings) -> u64 {
    settings.session_epoch.fetch_add(1, Ordering::Relaxed).wrapping_add(1) << REC_NO_BITS
}

#[inline]
fn window(sessions: &[Session], conn: u64) -> impl Iterator<Item = &Session> {
    let mask = sessions.len().wrapping_sub(1);
    let start = conn as usize & mask;
    let (tail, head) = sessions.split_at(start.min(sessions.len()));
    head.iter().chain(tail.iter()).take(WINDOW)
}

/// The slot of a connection if it is the first one of its window, as it nearly always is.
#[inline]
pub fn first(sessions: &[Session], conn: u64) -> Option<&Session> {
    let mask = sessions.len().wrapping_sub(1);
    let slot = sessions.get(conn as usize & mask)?;
    let ours = conn != 0 && conn != CLAIMING && slot.conn.load(Ordering::Relaxed) == conn;
    ours.then_some(slot)
}

/// Finds the slot of a connection.
pub fn find(sessions: &[Session], conn: u64) -> Option<&Session> {
    if conn == 0 || conn == CLAIMING {
        return None;
    }
    window(sessions, conn).find(|s| s.conn.load(Ordering::Relaxed) == conn)
}

/// Notes that the connection uses its slot now. `false`: another connection took the slot at this
/// moment, and this one needs another slot.
#[inline]
pub fn touch(session: &Session, conn: u64, now_us: i64) -> bool {
    // SYNC seen: pairs with the Release in `claim`: if this reads what another connection
    // stored, `conn` below is not the old one any more.
    let idle_us = now_us.wrapping_sub(session.seen_us.load(Ordering::Acquire));
    if idle_us < RECENT_US {
        session.seen_us.store(now_us, Ordering::Relaxed);
        return session.conn.load(Ordering::Relaxed) == conn;
    }
    session.seen_us.store(now_us, Ordering::Relaxed);
    // SYNC touch: pairs with `take` in `take_stale`. Whichever read-modify-write of `conn` is
    // second sees the first one: either this one finds the slot gone, or the other one reads
    // the `seen_us` stored above and leaves the slot alone.
    session.conn.compare_exchange(conn, conn, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Takes a slot for a connection that has none. `None`: all are in use by others.
#[cold]
pub fn claim<'a>(
    sessions: &'a [Session],
    settings: &Settings,
    conn: u64,
    now_us: i64,
) -> Option<&'a Session> {
    if conn == 0 || conn == CLAIMING {
        return None;
    }
    let slot = window(sessions, conn)
        .find(|s| take(&s.conn, 0))
        .or_else(|| window(sessions, conn).find(|s| take_stale(s, now_us)))?;
    slot.rec_no.store(next_epoch(settings), Ordering::Relaxed);
    slot.open_len.store(0, Ordering::Relaxed);
    slot.conn_seq.store(0, Ordering::Relaxed);
    slot.early_rec_no.store(0, Ordering::Relaxed);
    slot.settled_rec_no.store(0, Ordering::Relaxed);
    slot.abandoned_rec_no.store(0, Ordering::Relaxed);
    // SYNC seen: pairs with the Acquire in `touch`.
    slot.seen_us.store(now_us, Ordering::Release);
    // SYNC claim: Release pairs with the Acquires in `take_stale`: a thread that would take the
    // slot away reads the `seen_us` of this connection, not of the previous one.
    slot.conn.store(conn, Ordering::Release);
    Some(slot)
}

/// Takes the slot away from `held`; its contents belong to the caller until it stores `conn`.
fn take(conn: &AtomicU64, held: u64) -> bool {
    // SYNC claim: AcqRel pairs with the Releases in `forget` and `claim`, and with `touch`.
    conn.load(Ordering::Relaxed) == held
        && conn.compare_exchange(held, CLAIMING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Takes the slot of a connection that was inactive for long; its end was not recorded because
/// recording was off.
fn take_stale(slot: &Session, now_us: i64) -> bool {
    let stale = || now_us.wrapping_sub(slot.seen_us.load(Ordering::Relaxed)) > STALE_US;
    // SYNC claim: pairs with the Release in `claim`.
    let held = slot.conn.load(Ordering::Acquire);
    if held == 0 || held == CLAIMING || !stale() || !take(&slot.conn, held) {
        return false;
    }
    if stale() {
        return true;
    }
    // The connection became active at this moment (see `touch`), or the slot just changed hands.
    // SYNC claim: as in `claim`.
    slot.conn.store(held, Ordering::Release);
    false
}

/// Connection of a slot and the number of its last record, for a writer that takes over.
/// `None`: the slot is free, or changes hands at this moment.
pub fn last_number(session: &Session) -> Option<(u64, u64)> {
    // SYNC claim: pairs with the Releases in `claim` and `forget`.
    let conn = session.conn.load(Ordering::Acquire);
    // SYNC numbers: pairs with the Release where a producer keeps the number of a record.
    let rec_no = session.rec_no.load(Ordering::Acquire);
    let is_held = conn != 0 && conn != CLAIMING && session.conn.load(Ordering::Acquire) == conn;
    is_held.then_some((conn, rec_no))
}

/// Whether the slot is being given to a connection, or checked for that, at this moment.
pub fn changes_hands(session: &Session) -> bool {
    // SYNC claim: pairs with the Releases in `claim` and `take_stale`.
    session.conn.load(Ordering::Acquire) == CLAIMING
}

/// Gives the slot back when the connection has ended.
pub fn forget(session: &Session) {
    session.open_len.store(0, Ordering::Relaxed);
    // SYNC claim: Release pairs with the compare-and-swap in `take`.
    session.conn.store(0, Ordering::Release);
}

/// Announces that the fragments of a record leave the arena before it is complete (writer). The
/// writer must look once more for the rest of the record before it releases any of them.
pub fn announce_early(session: &Session, rec_no: u64) {
    session.early_rec_no.store(rec_no, Ordering::Relaxed);
    // SYNC early: pairs with the fence in `taken_early`.
    fence(Ordering::SeqCst);
}

/// Whether the record that was just completed had left the arena before (producer). Either the
/// writer's last look found the end of the record, or this finds the announcement.
#[inline]
pub fn taken_early(session: &Session, rec_no: u64) -> bool {
    // SYNC early: pairs with the fence in `announce_early`.
    fence(Ordering::SeqCst);
    session.early_rec_no.load(Ordering::Relaxed) == rec_no
}

/// Announces that the line that a producer waits for is where it has to be (writer).
/// [`wake_settled`] then wakes its producer.
pub fn announce_settled(session: &Session, rec_no: u64) {
    // A record whose producer no longer waits may come after a later one.
    if session.settled_rec_no.load(Ordering::Relaxed) < rec_no {
        // SYNC settled: pairs with the Acquire in `unsettled`.
        session.settled_rec_no.store(rec_no, Ordering::Release);
    }
}

/// Wakes the producers of the announced records.
pub fn wake_settled(state: &WriterState, park: &impl Park) {
    // SYNC settled: pairs with the Acquire in `unsettled`.
    state.written_epoch.fetch_add(1, Ordering::Release);
    park.wake(&state.written_epoch, u32::MAX >> 1);
}

/// The word value to sleep on while the record is not in the file; `None`: it is (producer).
pub fn unsettled(session: &Session, state: &WriterState, rec_no: u64) -> Option<u32> {
    // SYNC settled: the epoch is read first; pairs with the Release in `wake_settled`. If
    // the record is settled after the next line, the epoch changes after this one.
    let epoch = state.written_epoch.load(Ordering::Acquire);
    // SYNC settled: pairs with the Release in `announce_settled`: the line is in the file.
    (session.settled_rec_no.load(Ordering::Acquire) < rec_no).then_some(epoch)
}

/// Gives up a record of which some fragments are already in the arena (producer). It keeps its
/// number, so that the fragments of the next record are never taken for its own.
#[cold]
pub fn abandon(session: &Session, rec_no: u64) {
    // SYNC numbers: pairs with the Acquire in `last_number`.
    session.rec_no.store(rec_no, Ordering::Release);
    // SYNC abandon: pairs with the Acquire in `abandoned`.
    session.abandoned_rec_no.store(rec_no, Ordering::Release);
}

/// Whether the rest of an incomplete record will never arrive, and its producer has counted it as
/// lost (writer). The slot must still belong to the connection.
pub fn abandoned(session: &Session, rec_no: u64) -> bool {
    // SYNC abandon: pairs with the Release in `abandon`.
    let given_up = session.abandoned_rec_no.load(Ordering::Acquire);
    given_up >= rec_no && epoch_of(given_up) == epoch_of(rec_no)
}

#[inline]
fn pack(query_id: u64, text_bytes: u32) -> u64 {
    (query_id & 0xffff_ffff) | (u64::from(text_bytes) << 32)
}

/// Remembers that a statement started. If there is no space, the oldest entry is removed: its end
/// will then carry the text again.
#[inline]
pub fn note_start(session: &Session, text_id: u64, query_id: u64, text_bytes: u32) {
    let mut len = session.open_len.load(Ordering::Relaxed) as usize;
    if len >= OPEN_COUNT {
        for pair in session.open.windows(2) {
            if let [to, from] = pair {
                to.text_id.store(from.text_id.load(Ordering::Relaxed), Ordering::Relaxed);
                let packed = from.query_id_and_bytes.load(Ordering::Relaxed);
                to.query_id_and_bytes.store(packed, Ordering::Relaxed);
            }
        }
        len = OPEN_COUNT.wrapping_sub(1);
    }
    if let Some(entry) = session.open.get(len) {
        entry.text_id.store(text_id, Ordering::Relaxed);
        entry.query_id_and_bytes.store(pack(query_id, text_bytes), Ordering::Relaxed);
        session.open_len.store(len.wrapping_add(1) as u32, Ordering::Relaxed);
    }
}

/// Forgets a start that has ended, and everything that was nested in it. `false`: no such start is
/// known.
///
/// An end belongs to a start if both refer to the same text in memory, and the query ids agree or
/// the end's text is not longer. Query ids alone do not suffice: statements inside stored programs
/// get a new one after their start, and the first of several statements in one packet has a shorter
/// text at its end (observed on MariaDB 10.11.19). An end without a text (of `COM_INIT_DB`) has
/// only the query id.
#[inline]
pub fn note_end(session: &Session, text_id: u64, query_id: u64, text_bytes: u32) -> bool {
    let wanted = pack(query_id, text_bytes);
    let mut len = session.open_len.load(Ordering::Relaxed).min(OPEN_COUNT as u32);
    while len > 0 {
        len = len.wrapping_sub(1);
        let Some(entry) = session.open.get(len as usize) else { continue };
        let packed = entry.query_id_and_bytes.load(Ordering::Relaxed);
        let same_query = packed as u32 == wanted as u32;
        let same = if text_id == 0 {
            same_query
        } else {
            entry.text_id.load(Ordering::Relaxed) == text_id
                && (same_query || packed >> 32 >= wanted >> 32)
        };
        if same {
            session.open_len.store(len, Ordering::Relaxed);
            return true;
        }
    }
    false
}

/// Forgets the innermost start, or all of them: the end does not identify its start, or a new
/// command begins.
#[inline]
pub fn close_open(session: &Session, all: bool) {
    let len = session.open_len.load(Ordering::Relaxed);
    session.open_len.store(if all { 0 } else { len.saturating_sub(1) }, Ordering::Relaxed);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::layout::{ARENA_BYTES_MIN, Geometry, Line};

    fn slots(n: usize) -> Vec<Session> {
        // SAFETY: all-zero bytes are a valid Session (atomics only).
        (0..n).map(|_| unsafe { core::mem::zeroed() }).collect()
    }

    fn settings() -> Line<Settings> {
        // SAFETY: all-zero bytes are a valid Settings (atomics only).
        unsafe { core::mem::zeroed() }
    }

    #[test]
    fn slots_are_found_again_and_reused() {
        let sessions = slots(Geometry::for_bytes(ARENA_BYTES_MIN).session_count as usize);
        let settings = settings();
        for conn in 1..=600 {
            assert!(find(&sessions, conn).is_none());
            assert!(claim(&sessions, &settings.0, conn, 1).is_some());
        }
        for conn in 1..=600 {
            assert_eq!(find(&sessions, conn).unwrap().conn.load(Ordering::Relaxed), conn);
        }
        assert!(find(&sessions, 0).is_none(), "a free slot has no owner");
        forget(find(&sessions, 7).unwrap());
        assert!(find(&sessions, 7).is_none());
        assert!(claim(&sessions, &settings.0, 7, 1).is_some());
    }

    #[test]
    fn a_full_window_gives_way_only_to_age() {
        let sessions = slots(16);
        let settings = settings();
        for conn in 1..=16 {
            assert!(claim(&sessions, &settings.0, conn, 1).is_some());
        }
        assert!(claim(&sessions, &settings.0, 17, 1).is_none());
        let slot = claim(&sessions, &settings.0, 17, STALE_US + 2).unwrap();
        assert_eq!(epoch_of(slot.rec_no.load(Ordering::Relaxed)), 17);
        assert!(find(&sessions, 1).is_none(), "the oldest in the window was replaced");
        // All other connections are as old, but become active before a new one asks for the slot.
        let now_us = STALE_US + 3;
        for conn in 2..=16 {
            assert!(touch(find(&sessions, conn).unwrap(), conn, now_us));
        }
        assert!(claim(&sessions, &settings.0, 1, now_us).is_none());
    }

    #[test]
    fn ends_find_their_starts() {
        let sessions = slots(16);
        let settings = settings();
        let s = claim(&sessions, &settings.0, 1, 1).unwrap();
        note_start(s, 100, 1, 50);
        note_start(s, 200, 2, 9);
        assert!(note_end(s, 200, 3, 9), "nested statements get another query id");
        assert!(note_end(s, 100, 1, 20), "the first of several statements is shorter");
        assert!(!note_end(s, 100, 1, 20));
        assert!(!note_end(s, 0, 1, 0), "no text, no start");
        note_start(s, 300, 7, 1);
        assert!(!note_end(s, 0, 8, 0));
        assert!(note_end(s, 0, 7, 0), "without a text the query id joins");
        for depth in 1..=6 {
            note_start(s, depth, depth, 1);
        }
        assert!(note_end(s, 6, 6, 1) && note_end(s, 3, 3, 1));
        assert!(!note_end(s, 2, 2, 1), "the oldest were forgotten");
    }
}
