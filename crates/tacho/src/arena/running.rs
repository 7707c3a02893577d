//! The statements that run now, according to an arena.
//!
//! A session's slot lists its statements that have started and not ended. The text of one is in its
//! record, or, once the writer has needed the space or ten seconds have passed, in the `running`
//! line of the log that the arena's table of running statements names.

use std::collections::BTreeMap;

use tacho_recorder::arena_file::ArenaFile;
use tacho_ring::arena::Arena;
use tacho_ring::codec::{RecordKind, STRING_DB, View};
use tacho_ring::layout::{FRAGMENT_FIRST, Session};
use tacho_ring::sync::{Ordering, fence};

use super::records::{self, RecordPosition};

/// A statement that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Connection id.
    pub conn: u64,
    /// When it started, µs since 1970-01-01 UTC.
    pub ts_us: i64,
    /// What is known of it.
    pub known: Known,
}

/// What the arena has of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Its record.
    Record {
        /// User name.
        user: String,
        /// Host name, or address.
        host: String,
        /// Default database.
        db: String,
        /// The text without secrets; `None`: a part of it has left the arena.
        text: Option<String>,
    },
    /// The `seq` of its `running` line.
    Line(u64),
    /// Neither: its record has just left the arena.
    Nothing,
}

/// A statement of a session's slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    conn: u64,
    text_id: u64,
}

/// The outermost statement of each session that runs one, by connection id.
pub fn statements(file: &ArenaFile) -> Vec<Running> {
    let arena = file.arena();
    let mut open: BTreeMap<Key, Option<Running>> =
        arena.sessions().iter().filter_map(outermost).map(|key| (key, None)).collect();
    if open.is_empty() {
        return Vec::new();
    }
    for entry in arena.running() {
        // SYNC running: Acquire pairs with the Release of the writer that filled it.
        let seq = entry.running_seq.load(Ordering::Acquire);
        let conn = entry.conn.load(Ordering::Relaxed);
        let text_id = entry.text_id.load(Ordering::Relaxed);
        let ts_us = entry.ts_us.load(Ordering::Relaxed);
        let has_ended = entry.done_seq.load(Ordering::Relaxed) != 0;
        // SYNC look-again: the reads before this fence stay before the second look.
        fence(Ordering::Acquire);
        let is_same = entry.running_seq.load(Ordering::Relaxed) == seq;
        if seq == 0 || has_ended || !is_same {
            continue;
        }
        if let Some(found) = open.get_mut(&Key { conn, text_id }) {
            *found = Some(Running { conn, ts_us, known: Known::Line(seq) });
        }
    }
    if open.values().any(Option::is_none) {
        find_records(&arena, &mut open);
    }
    let nothing = |key: &Key| Running {
        conn: key.conn,
        ts_us: seen_us(&arena, key.conn),
        known: Known::Nothing,
    };
    open.iter().map(|(key, found)| found.clone().unwrap_or_else(|| nothing(key))).collect()
}

/// The statement that the client of a session waits for. A session may start another one while this
/// reads: then it is found the next time.
fn outermost(session: &Session) -> Option<Key> {
    // SYNC claim: pairs with the Release in `claim`: the rest belongs to this connection.
    let conn = session.conn.load(Ordering::Acquire);
    let is_idle = session.open_len.load(Ordering::Relaxed) == 0;
    let text_id = session.open[0].text_id.load(Ordering::Relaxed);
    // SYNC look-again: the reads before this fence stay before the second look.
    fence(Ordering::Acquire);
    let is_same = session.conn.load(Ordering::Relaxed) == conn;
    (conn != 0 && is_same && !is_idle && text_id != 0).then_some(Key { conn, text_id })
}

/// When a session was last active: it began its statement then.
fn seen_us(arena: &Arena, conn: u64) -> i64 {
    tacho_ring::session::find(arena.sessions(), conn)
        .map_or(i64::MAX, |session| session.seen_us.load(Ordering::Relaxed))
}

fn find_records(arena: &Arena, open: &mut BTreeMap<Key, Option<Running>>) {
    let (places, _damaged) = records::scan(arena);
    // A text's id is the address of its text, so the statements of a session may have the same one:
    // the newest record is that of the statement that runs.
    let mut newest: BTreeMap<Key, &RecordPosition> = BTreeMap::new();
    for place in places.iter().filter(|place| place.fragment <= FRAGMENT_FIRST) {
        let key = Key { conn: place.conn, text_id: place.text_id };
        if place.kind == RecordKind::Start && matches!(open.get(&key), Some(None)) {
            let newer = newest.entry(key).or_insert(place);
            if newer.rec_no < place.rec_no {
                *newer = place;
            }
        }
    }
    for (key, place) in newest {
        open.insert(key, read(arena, place, &places));
    }
}

fn read(arena: &Arena, place: &RecordPosition, places: &[RecordPosition]) -> Option<Running> {
    let mut buffer = Vec::new();
    let bytes = records::fetch(arena, place.chunk, place.position, place.bytes, &mut buffer)?;
    let view = View::decode(bytes)?;
    let text = records::whole_text(arena, place, &view, places)
        .map(|text| records::clean(&view, &text, arena.redacts_literals()));
    if !records::is_same(arena, place.chunk, place.word) {
        return None;
    }
    let (user, host) = records::identity(&view);
    let db = String::from_utf8_lossy(view.string(STRING_DB)).into_owned();
    let known = Known::Record { user, host, db, text };
    Some(Running { conn: place.conn, ts_us: view.header.ts_us, known })
}
