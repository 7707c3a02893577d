//! The committed records in an arena.
//!
//! A running server keeps writing: if a chunk was freed while it was read, what was read from it
//! is discarded.

use std::borrow::Cow;
use std::io;

use serde::Serialize;
use tacho_logdir::read::Lines;
use tacho_record::time::TimeFormatter;
use tacho_recorder::arena_file::ArenaFile;
use tacho_ring::arena::Arena;
use tacho_ring::chunk;
use tacho_ring::codec::{
    PRESENT_TEXT, RecordKind, STRING_CHARSET, STRING_DB, STRING_HOST, STRING_IP, STRING_OS_USER,
    STRING_PRIV_USER, STRING_PROXY_USER, STRING_USER, View,
};
use tacho_ring::consumer::{self, Next};
use tacho_ring::layout::{FRAGMENT_FIRST, FRAGMENT_LAST, FRAGMENT_WHOLE};
use tacho_ring::session::REC_NO_BITS;
use tacho_ring::sync::{Ordering, fence};
use tacho_sql::digest::Normaliser;
use tacho_sql::redact;

use crate::say;
use crate::tail::sanitize;

/// Columns of the text in the table.
const TEXT_COLUMNS: usize = 100;
/// Longest text in JSON, characters.
const TEXT_CHARS_MAX: usize = 1_000;
/// Longer texts are not reassembled, bytes.
const WHOLE_TEXT_BYTES_MAX: usize = 64 << 20;

/// The position of a record, and its sort keys.
#[derive(Clone, Copy)]
pub(super) struct RecordPosition {
    pub(super) chunk: u32,
    pub(super) word: u64,
    pub(super) position: u32,
    pub(super) bytes: u32,
    pub(super) ts_us: i64,
    pub(super) conn: u64,
    pub(super) rec_no: u64,
    pub(super) text_id: u64,
    pub(super) kind: RecordKind,
    pub(super) fragment: u8,
    pub(super) fragment_number: u16,
}

/// A displayed record.
#[derive(Serialize)]
struct Shown {
    ts: String,
    kind: &'static str,
    conn: u64,
    rec_no: u64,
    query_id: u64,
    conn_seq: u64,
    line_seq: u64,
    settled: bool,
    errno: u32,
    user: String,
    host: String,
    text_bytes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// Shows the newest records of an arena on stdout, oldest first.
///
/// # Errors
/// Stdout cannot be written.
pub fn show(file: &ArenaFile, lines: Lines, json: bool) -> io::Result<()> {
    let arena = file.arena();
    let (mut places, damaged) = scan(&arena);
    put_in_order(&mut places);
    let begins: Vec<&RecordPosition> =
        places.iter().filter(|p| p.fragment <= FRAGMENT_FIRST).collect();
    let count = match lines {
        Lines::All => begins.len(),
        Lines::Last(count) => count.min(begins.len()),
    };
    let mut clock = say::clock();
    if !json && count > 0 {
        say::result(&format!(
            "{:32} {:>7} {:>5} {:>9} {:12} {:>8} {:>5} {:16} TEXT",
            "TIME", "CONN", "NO", "QUERY", "KIND", "LINE", "ERROR", "USER"
        ))?;
    }
    let (mut waiting, mut gone) = (0, 0);
    for place in begins.iter().skip(begins.len() - count) {
        let Some(shown) = read(&arena, place, &places, &mut clock) else {
            gone += 1;
            continue;
        };
        waiting += u64::from(!shown.settled);
        if json {
            say::json(&shown)?;
        } else {
            say::result(&row(&shown))?;
        }
    }
    if !json {
        say::result(&format!(
            "{} in the arena; {} shown, {} of them not in the log yet.",
            say::counted(begins.len() as u64, "record"),
            say::grouped((count - gone) as u64),
            say::grouped(waiting)
        ))?;
        if damaged > 0 {
            let chunks = say::counted(damaged, "chunk");
            say::result(&format!("{chunks} damaged: the rest of each cannot be read."))?;
        }
    }
    Ok(())
}

/// By time, and within a connection by number. An end may have an earlier time than its start, if
/// its time has only whole seconds.
fn put_in_order(places: &mut [RecordPosition]) {
    places.sort_by_key(|place| (place.conn, place.rec_no, place.fragment_number));
    let mut latest = (0, i64::MIN);
    for place in places.iter_mut() {
        if place.conn != latest.0 || place.rec_no == 0 {
            latest = (place.conn, i64::MIN);
        }
        latest.1 = latest.1.max(place.ts_us);
        place.ts_us = latest.1;
    }
    // A stable sort: records with the same time stay in the order of their connection.
    places.sort_by_key(|place| place.ts_us);
}

/// Every committed record, and the number of damaged chunks.
pub(super) fn scan(arena: &Arena) -> (Vec<RecordPosition>, u64) {
    let mut places = Vec::new();
    let mut damaged = 0;
    let mut buffer = Vec::new();
    for (index, control) in (0..).zip(arena.controls()) {
        let word = chunk::look(control);
        if chunk::state_of(word) == chunk::FREE {
            continue;
        }
        let kept = places.len();
        let mut position = 0;
        let mut is_damaged = false;
        loop {
            let bytes = match consumer::peek(arena, index, position) {
                Next::Record(bytes) => bytes,
                Next::Empty | Next::End => break,
                Next::Damaged => {
                    is_damaged = true;
                    break;
                }
            };
            match fetch(arena, index, position, bytes, &mut buffer).and_then(View::decode) {
                Some(view) => places.push(RecordPosition {
                    chunk: index,
                    word,
                    position,
                    bytes,
                    ts_us: view.header.ts_us,
                    conn: view.header.conn,
                    rec_no: view.header.rec_no,
                    text_id: view.header.text_id,
                    kind: view.kind,
                    fragment: view.header.fragment,
                    fragment_number: view.header.fragment_number,
                }),
                None => is_damaged = true,
            }
            position += bytes;
        }
        if is_same(arena, index, word) {
            damaged += u64::from(is_damaged);
        } else {
            places.truncate(kept);
        }
    }
    (places, damaged)
}

/// Whether a chunk is unchanged since `word` was read: everything read in between was in it then.
pub(super) fn is_same(arena: &Arena, index: u32, word: u64) -> bool {
    // SYNC look-again: the reads before this fence stay before the second look.
    fence(Ordering::Acquire);
    arena.controls().get(index as usize).is_some_and(|control| {
        let now = chunk::look(control);
        chunk::generation_of(now) == chunk::generation_of(word)
            && chunk::state_of(now) != chunk::FREE
    })
}

pub(super) fn fetch<'b>(
    arena: &Arena,
    chunk: u32,
    position: u32,
    bytes: u32,
    buffer: &'b mut Vec<u8>,
) -> Option<&'b [u8]> {
    buffer.resize(bytes as usize, 0);
    consumer::fetch(arena, chunk, position, bytes, buffer)
}

/// A record for display. `None`: it has left the arena since the scan.
fn read(
    arena: &Arena,
    place: &RecordPosition,
    places: &[RecordPosition],
    clock: &mut TimeFormatter,
) -> Option<Shown> {
    let mut buffer = Vec::new();
    let bytes = fetch(arena, place.chunk, place.position, place.bytes, &mut buffer)?;
    let view = View::decode(bytes)?;
    let text = match view.kind {
        RecordKind::Table => Some(table_name(&view)),
        // Its name determines whether its text is a secret.
        RecordKind::Notice => Some(notice_name(&view, arena.redacts_literals())),
        _ => whole_text(arena, place, &view, places)
            .map(|text| clean(&view, &text, arena.redacts_literals())),
    };
    let text = text.map(|text| text.chars().take(TEXT_CHARS_MAX).collect());
    if !is_same(arena, place.chunk, place.word) {
        return None;
    }
    let (user, host) = identity(&view);
    let header = &view.header;
    let written_seq = arena.shared().writer.0.written_seq.load(Ordering::Relaxed);
    Some(Shown {
        ts: say::time(clock, header.ts_us),
        kind: kind_name(view.kind),
        conn: header.conn,
        rec_no: header.rec_no & ((1 << REC_NO_BITS) - 1),
        query_id: header.query_id,
        conn_seq: header.conn_seq,
        line_seq: header.line_seq,
        settled: header.line_seq != 0 && header.line_seq <= written_seq,
        errno: view.body.errno,
        user,
        host,
        text_bytes: view.body.text_bytes,
        text,
    })
}

/// The text of a record. Secrets can only be found in the whole text: `None` if there is none, or a
/// piece of it is missing.
pub(super) fn whole_text<'v>(
    arena: &Arena,
    place: &RecordPosition,
    view: &View<'v>,
    places: &[RecordPosition],
) -> Option<Cow<'v, [u8]>> {
    let text_bytes = view.body.text_bytes as usize;
    if view.header.fragment == FRAGMENT_WHOLE {
        let is_text = view.body.present & PRESENT_TEXT != 0 || text_bytes > 0;
        return is_text.then_some(Cow::Borrowed(view.text));
    }
    if text_bytes > WHOLE_TEXT_BYTES_MAX {
        return None;
    }
    let mut pieces: Vec<&RecordPosition> = places
        .iter()
        .filter(|p| p.fragment > FRAGMENT_FIRST && (p.conn, p.rec_no) == (place.conn, place.rec_no))
        .collect();
    pieces.sort_by_key(|p| p.fragment_number);
    let in_order = (1..).zip(&pieces).all(|(number, p)| p.fragment_number == number);
    if !in_order || pieces.last().is_none_or(|p| p.fragment != FRAGMENT_LAST) {
        return None;
    }
    let mut text = view.text.to_vec();
    let mut buffer = Vec::new();
    for piece in pieces {
        let bytes = fetch(arena, piece.chunk, piece.position, piece.bytes, &mut buffer)?;
        text.extend_from_slice(View::decode(bytes)?.text);
        if !is_same(arena, piece.chunk, piece.word) {
            return None;
        }
    }
    (text.len() == text_bytes).then_some(Cow::Owned(text))
}

/// The text without secrets, or without literals: as in the log.
pub(super) fn clean(view: &View<'_>, text: &[u8], redacts_literals: bool) -> String {
    let cleaned = match view.kind {
        RecordKind::Error if redacts_literals => {
            Cow::Owned(redact::message_without_literals(view.body.errno, text))
        }
        // A message quotes its statement, which is another record: quoted text is removed.
        RecordKind::Error => match text.iter().position(|b| matches!(b, b'\'' | b'"' | b'`')) {
            Some(quote) => Cow::Owned([&text[..quote], b"<quoted>"].concat()),
            None => Cow::Borrowed(text),
        },
        RecordKind::Config => {
            let (old, new) = text.split_at(text.len().min(view.body.shown_bytes as usize));
            Cow::Owned([old, b" -> ", new].concat())
        }
        _ => {
            let setting = redact::Setting::of(view.string(STRING_CHARSET), view.string(STRING_DB));
            if redacts_literals {
                let mut normaliser = Normaliser::default();
                let parsed = redact::Parsed::Unknown;
                Cow::Owned(redact::literals(text, setting, parsed, &mut normaliser))
            } else {
                redact::secrets(text, setting)
            }
        }
    };
    String::from_utf8_lossy(&cleaned).into_owned()
}

pub(super) fn identity(view: &View<'_>) -> (String, String) {
    let text = |which| String::from_utf8_lossy(view.string(which)).into_owned();
    match view.kind {
        // The strings of tables have other meanings.
        RecordKind::Table => (String::new(), String::new()),
        _ => {
            let host = text(STRING_HOST);
            (text(STRING_USER), if host.is_empty() { text(STRING_IP) } else { host })
        }
    }
}

fn table_name(view: &View<'_>) -> String {
    let text = |which| String::from_utf8_lossy(view.string(which));
    format!("{}.{}", text(STRING_DB), text(STRING_PRIV_USER))
}

/// Its subject: an account, a variable, a procedure, a component.
fn notice_name(view: &View<'_>, redacts_literals: bool) -> String {
    if redacts_literals {
        return "<redacted>".to_owned();
    }
    let text = |which| String::from_utf8_lossy(view.string(which));
    format!("{} {}", text(STRING_PROXY_USER), text(STRING_OS_USER)).trim_end().to_owned()
}

fn kind_name(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Start => "start",
        RecordKind::End => "end",
        RecordKind::Point => "point",
        RecordKind::Error => "error",
        RecordKind::Table => "table",
        RecordKind::Connect => "connect",
        RecordKind::Disconnect => "disconnect",
        RecordKind::ChangeUser => "change_user",
        RecordKind::Config => "config",
        RecordKind::Rewrite => "rewrite",
        RecordKind::Notice => "notice",
        RecordKind::Lost => "lost",
        RecordKind::Params => "params",
        RecordKind::Answer => "answer",
    }
}

fn row(shown: &Shown) -> String {
    let dash = |number: u64| if number == 0 { "-".to_owned() } else { number.to_string() };
    let mut user = String::new();
    let used = sanitize::push_sanitized(&mut user, &shown.user, Some(16));
    user.extend(std::iter::repeat_n(' ', 16 - used.min(16)));
    let mut line = format!(
        "{:32} {:>7} {:>5} {:>9} {:12} {:>8} {:>5} {user} ",
        shown.ts,
        shown.conn,
        shown.rec_no,
        dash(shown.query_id),
        shown.kind,
        dash(shown.line_seq),
        dash(shown.errno.into()),
    );
    match &shown.text {
        Some(text) => {
            sanitize::push_sanitized(&mut line, text, Some(TEXT_COLUMNS));
        }
        None if shown.text_bytes > 0 => {
            line += &format!(
                "({}, incomplete in the arena)",
                say::counted(shown.text_bytes.into(), "byte")
            );
        }
        None => {}
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarse_clock_does_not_reorder_a_connection() {
        let place = |conn, rec_no, ts_us| RecordPosition {
            chunk: 0,
            word: 0,
            position: 0,
            bytes: 0,
            ts_us,
            conn,
            rec_no,
            text_id: 0,
            kind: RecordKind::Start,
            fragment: FRAGMENT_WHOLE,
            fragment_number: 0,
        };
        let mut places =
            [place(7, 2, 96), place(8, 1, 99), place(7, 1, 100), place(0, 0, 98), place(0, 0, 97)];
        put_in_order(&mut places);
        let order: Vec<_> = places.iter().map(|p| (p.conn, p.rec_no)).collect();
        assert_eq!(order, [(0, 0), (0, 0), (8, 1), (7, 1), (7, 2)]);
    }
}
