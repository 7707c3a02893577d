//! What must follow a connection from thread to thread: the number of its last record, and
//! which of its statements have started.
//!
//! A connection has a slot of its own, found by its id. Only the thread that executes the
//! connection touches the slot's contents, so plain loads and stores are enough; taking a
//! slot is the one step that threads compete for.

use crate::layout::{OPEN_COUNT, Session, Settings};
use crate::sync::{AtomicU64, Ordering};

/// How many neighbouring slots a connection may use. Ids are handed out in sequence, so
/// that neighbours are connections of about the same age.
const WINDOW: usize = 16;
/// A slot that was not used for this long may be given to another connection, µs. The old
/// one gets a new slot, and a new epoch in its record numbers, if it comes back.
const STALE_US: i64 = 600_000_000;
/// Bits of `rec_no` below the epoch.
pub const REC_NO_BITS: u32 = 48;

/// Epoch of a record number: it changes when a connection gets a new slot.
#[inline]
pub fn epoch_of(rec_no: u64) -> u64 {
    rec_no >> REC_NO_BITS
}

#[inline]
fn window(sessions: &[Session], conn: u64) -> impl Iterator<Item = &Session> {
    let mask = sessions.len().wrapping_sub(1);
    let start = conn as usize & mask;
    let (tail, head) = sessions.split_at(start.min(sessions.len()));
    head.iter().chain(tail.iter()).take(WINDOW)
}

/// Finds the slot of a connection.
#[inline]
pub fn find(sessions: &[Session], conn: u64) -> Option<&Session> {
    // The first slot is the right one nearly always.
    let mask = sessions.len().wrapping_sub(1);
    let first = sessions.get(conn as usize & mask)?;
    if first.conn.load(Ordering::Relaxed) == conn {
        return Some(first);
    }
    window(sessions, conn).find(|s| s.conn.load(Ordering::Relaxed) == conn)
}

/// Takes a slot for a connection that has none. `None`: all are in use by others.
#[cold]
pub fn claim<'a>(
    sessions: &'a [Session],
    settings: &Settings,
    conn: u64,
    now_us: i64,
) -> Option<&'a Session> {
    if conn == 0 {
        return None;
    }
    let free = window(sessions, conn).find(|s| take(&s.conn, 0, conn));
    let slot = match free {
        Some(slot) => Some(slot),
        None => window(sessions, conn).find(|s| {
            let held = s.conn.load(Ordering::Relaxed);
            let idle_us = now_us.wrapping_sub(s.seen_us.load(Ordering::Relaxed));
            idle_us > STALE_US && take(&s.conn, held, conn)
        }),
    }?;
    let epoch = settings.session_epoch.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    slot.rec_no.store(epoch << REC_NO_BITS, Ordering::Relaxed);
    slot.open_len.store(0, Ordering::Relaxed);
    slot.conn_seq.store(0, Ordering::Relaxed);
    slot.early_rec_no.store(0, Ordering::Relaxed);
    slot.settled_rec_no.store(0, Ordering::Relaxed);
    slot.seen_us.store(now_us, Ordering::Relaxed);
    Some(slot)
}

fn take(conn: &AtomicU64, held: u64, new: u64) -> bool {
    // SYNC claim: AcqRel pairs with the Release in `forget` and with other claims.
    conn.load(Ordering::Relaxed) == held
        && conn.compare_exchange(held, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Gives the slot back when the connection has ended.
pub fn forget(session: &Session) {
    session.open_len.store(0, Ordering::Relaxed);
    // SYNC claim: Release pairs with the compare-and-swap in `take`.
    session.conn.store(0, Ordering::Release);
}

#[inline]
fn pack(query_id: u64, text_bytes: u32) -> u64 {
    (query_id & 0xffff_ffff) | (u64::from(text_bytes) << 32)
}

/// Remembers that a statement started. The oldest entry goes when there is no room: its
/// end will then carry the text again.
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

/// Forgets a start whose end has come, and everything that was nested in it. `false`: no
/// such start is known.
///
/// An end belongs to a start when both speak of the same text in memory, and the query ids
/// agree or the end's text is not longer. Query ids alone do not do: statements inside
/// stored programs get a new one after their start, and the first of several statements in
/// one packet has a shorter text at its end (seen on MariaDB 10.11.19).
#[inline]
pub fn note_end(session: &Session, text_id: u64, query_id: u64, text_bytes: u32) -> bool {
    if text_id == 0 {
        return false;
    }
    let len = session.open_len.load(Ordering::Relaxed) as usize;
    let wanted = pack(query_id, text_bytes);
    let found = session.open.iter().take(len).rposition(|entry| {
        let packed = entry.query_id_and_bytes.load(Ordering::Relaxed);
        entry.text_id.load(Ordering::Relaxed) == text_id
            && (packed as u32 == wanted as u32 || packed >> 32 >= wanted >> 32)
    });
    match found {
        Some(at) => {
            session.open_len.store(at as u32, Ordering::Relaxed);
            true
        }
        None => false,
    }
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
        for depth in 1..=6 {
            note_start(s, depth, depth, 1);
        }
        assert!(note_end(s, 6, 6, 1) && note_end(s, 3, 3, 1));
        assert!(!note_end(s, 2, 2, 1), "the oldest were forgotten");
    }
}
