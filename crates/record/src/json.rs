//! One line of strictly valid JSON from a record.
//!
//! The writer thread calls [`write_line`] for every line of the log, so it appends to a buffer that
//! the caller keeps, allocates nothing else, and copies text without special characters in bulk.
//! The normative text is `docs/specs/record.md`; the fields and their order are those of the table
//! in `fields.rs`, and a test compares each line with one that is written in the simplest way.

mod escape;
mod size_bound;

use std::collections::TryReserveError;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::charset::{Charset, Fidelity};
use crate::digits::{EIGHT_DIGITS, eight_digits, short_number, two_digits};
use crate::fields::fields;
use crate::record::{Attribute, DIGEST_BYTES, EventKind, Outcome, Record, TableUse};
use crate::time::TimeFormatter;
use escape::{EscapedText, is_plain_ascii};

/// Appends a field with a number: `key` is the text before it. `PIECE_BYTES`: bytes of key and
/// eight digits.
///
/// A line has about ten numbers, most of them short. Key and digits are copied as one piece of
/// fixed size, which is a few stores instead of a call, and the surplus is truncated.
#[inline(always)]
fn append_number<const PIECE_BYTES: usize>(out: &mut Vec<u8>, key: &str, number: impl Into<u64>) {
    let number = number.into();
    if number >= EIGHT_DIGITS {
        append_long_number(out, key, number);
        return;
    }
    let (digits, count) = match number {
        digit @ 0..10 => ([b'0' + digit as u8; 8], 1),
        number @ 10..100 => (two_digits(number as u32), 2),
        number => short_number(number as u32),
    };
    let mut piece = [0; PIECE_BYTES];
    piece[..key.len()].copy_from_slice(key.as_bytes());
    piece[key.len()..key.len() + digits.len()].copy_from_slice(&digits);
    let end = out.len() + key.len() + count;
    out.extend_from_slice(&piece);
    out.truncate(end);
}

/// Longest text before a number, and eight digits.
const PIECE_BYTES_MAX: usize = 32;

#[inline(never)]
fn append_long_number(out: &mut Vec<u8>, key: &str, number: u64) {
    append_number::<PIECE_BYTES_MAX>(out, key, number / EIGHT_DIGITS);
    out.extend_from_slice(&eight_digits((number % EIGHT_DIGITS) as u32));
}

/// Appends the rest of a string after its opening quote: the text, the closing quote and, if the
/// text does not give `bytes` back, a second field with the bytes in base64.
///
/// Plain ASCII text, which is nearly all text, is copied.
fn append_text(out: &mut Vec<u8>, bytes: &[u8], charset: &Charset, b64_key: &str) {
    if is_plain_ascii(bytes) && charset.keeps_ascii() {
        out.extend_from_slice(bytes);
        out.push(b'"');
    } else {
        append_decoded(out, bytes, charset, b64_key);
    }
}

#[inline(never)]
fn append_decoded(out: &mut Vec<u8>, bytes: &[u8], charset: &Charset, b64_key: &str) {
    let fidelity = charset.decode(bytes, &mut EscapedText::new(out));
    out.push(b'"');
    if fidelity == Fidelity::Inexact {
        append_original(out, bytes, b64_key);
    }
}

#[cold]
fn append_original(out: &mut Vec<u8>, bytes: &[u8], b64_key: &str) {
    // Multiples of three bytes have no padding, so the pieces form one base64 text.
    const PIECE_BYTES: usize = 3 * 256;
    out.extend_from_slice(b64_key.as_bytes());
    for piece in bytes.chunks(PIECE_BYTES) {
        let mut encoded = [0; PIECE_BYTES / 3 * 4];
        let length = BASE64.encode_slice(piece, &mut encoded).expect("the buffer fits a piece");
        out.extend_from_slice(&encoded[..length]);
    }
    out.push(b'"');
}

/// `,"key":"text"`, and its companion if it needs one, if there is a text.
macro_rules! text_field {
    ($out:expr, $key:ident, $bytes:expr) => {
        if !$bytes.is_empty() {
            $out.extend_from_slice(concat!(",\"", stringify!($key), "\":\"").as_bytes());
            append_text(
                $out,
                $bytes,
                Charset::UTF8MB4,
                concat!(",\"", stringify!($key), "_b64\":\""),
            );
        }
    };
}

/// `,"key":1`, if there is a number.
macro_rules! number_field {
    ($out:expr, $key:ident, $number:expr) => {
        if let Some(number) = $number {
            const KEY: &str = concat!(",\"", stringify!($key), "\":");
            const PIECE_BYTES: usize = KEY.len() + 8;
            const { assert!(PIECE_BYTES <= PIECE_BYTES_MAX) };
            append_number::<PIECE_BYTES>($out, KEY, number);
        }
    };
}

/// `,"key":"name"` of a value with a name, if there is one.
macro_rules! name_field {
    ($out:expr, $key:ident, $named:expr) => {
        if let Some(named) = $named {
            $out.extend_from_slice(concat!(",\"", stringify!($key), "\":\"").as_bytes());
            $out.extend_from_slice(named.name().as_bytes());
            $out.push(b'"');
        }
    };
}

/// As [`write_line`], for records whose texts may have any length.
///
/// # Errors
/// If there is not enough memory for the line; then nothing was appended.
// Inlined: most of it is `append_line`, which is a separate function.
#[inline(always)]
pub fn try_write_line(
    out: &mut Vec<u8>,
    record: &Record,
    clock: &mut TimeFormatter,
) -> Result<(), TryReserveError> {
    /// A larger line frees its memory before further lines.
    const LARGE_BYTES: usize = 1 << 20;
    match size_bound::size_bound(record) {
        large @ LARGE_BYTES.. => out.try_reserve_exact(large)?,
        usual => out.try_reserve(usual)?,
    }
    append_line(out, record, clock);
    Ok(())
}

/// Appends a string of JSON, or, if the text alone would not give `bytes` back, what
/// [`write_bytes`] does.
pub fn write_text_or_bytes(out: &mut Vec<u8>, bytes: &[u8], charset: &Charset) {
    let start = out.len();
    out.push(b'"');
    if charset.decode(bytes, &mut EscapedText::new(out)) == Fidelity::Exact {
        out.push(b'"');
    } else {
        out.truncate(start);
        write_bytes(out, bytes);
    }
}

/// Appends an object of JSON that has the bytes in base64.
pub fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    append_original(out, bytes, "{\"b64\":\"");
    out.push(b'}');
}

/// Appends the line of `record`, with its newline, to `out`.
///
/// A statement in a character set that the server does not have is treated as `binary`.
pub fn write_line(out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    // One reallocation instead of several for the usual line.
    out.reserve(1024 + record.sql.map_or(0, <[u8]>::len));
    append_line(out, record, clock);
}

fn append_line(out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    let start = out.len();
    const SEQ: &str = "{\"v\":1,\"seq\":";
    append_number::<{ SEQ.len() + 8 }>(out, SEQ, record.seq);
    out.extend_from_slice(b",\"ts\":\"");
    out.extend_from_slice(clock.format(record.ts_us));
    if let (Some(EventKind::Statement), Some(Outcome::Ok)) = (record.event, record.outcome) {
        // Nearly every line.
        out.extend_from_slice(b"\",\"event\":\"statement\",\"outcome\":\"ok\"");
    } else {
        out.push(b'"');
        group::head(out, record, None);
    }
    append_who(out, record);
    append_statement(out, record);
    append_cost(out, record);
    // Only lines of a capture have these.
    if has_answer(record) {
        append_answer(out, record);
    }
    append_recorder(out, record, clock);
    out.extend_from_slice(b"}\n");
    debug_assert!(!out[start..out.len() - 1].contains(&b'\n'));
}

/// A field of a record, by its kind.
macro_rules! field {
    (Number $key:ident $out:ident $record:ident $field:ident $clock:ident) => {
        number_field!($out, $key, $record.$field)
    };
    (Port $key:ident $out:ident $record:ident $field:ident $clock:ident) => {
        number_field!($out, $key, $record.$field)
    };
    (Errno $key:ident $out:ident $record:ident $field:ident $clock:ident) => {
        number_field!($out, $key, ($record.$field != 0).then_some($record.$field))
    };
    (Flag $key:ident $out:ident $record:ident $field:ident $clock:ident) => {
        if $record.$field {
            $out.extend_from_slice(concat!(",\"", stringify!($key), "\":true").as_bytes());
        }
    };
    (Statement $key:ident $out:ident $record:ident $field:ident $clock:ident) => {
        if let Some(text) = $record.$field {
            let charset = $record.text_charset().unwrap_or(Charset::BINARY);
            $out.extend_from_slice(concat!(",\"", stringify!($key), "\":\"").as_bytes());
            append_text($out, text, charset, concat!(",\"", stringify!($key), "_b64\":\""));
        }
    };
    (CharsetName $key:ident $out:ident $record:ident $field:ident $clock:ident) => {
        match $record.charset {
            Some(_) => name_field!($out, $key, $record.charset),
            None => text_field!($out, $key, $record.$field),
        }
    };
    (Digest $key:ident $out:ident $record:ident $field:ident $clock:ident) => {
        if let Ok(digest) = $record.$field.try_into() {
            const KEY: &str = concat!(",\"", stringify!($key), "\":\"");
            append_digest::<{ KEY.len() + DIGEST_BYTES + 1 }>($out, KEY, digest);
        } else {
            text_field!($out, $key, $record.$field);
        }
    };
    (Tables $key:ident $out:ident $record:ident $field:ident $clock:ident) => {
        append_tables($out, concat!(",\"", stringify!($key), "\":["), $record.$field)
    };
    (Attributes $key:ident $out:ident $record:ident $field:ident $clock:ident) => {
        append_attributes($out, concat!(",\"", stringify!($key), "\":["), $record.$field)
    };
    (Params $key:ident $out:ident $record:ident $field:ident $clock:ident) => {
        if !$record.$field.is_empty() {
            $out.extend_from_slice(concat!(",\"", stringify!($key), "\":").as_bytes());
            // It is JSON already.
            $out.extend_from_slice($record.$field);
        }
    };
    (Time $key:ident $out:ident $record:ident $field:ident $clock:ident) => {
        if let (Some(time_us), Some(clock)) = ($record.$field, $clock.as_deref_mut()) {
            $out.extend_from_slice(concat!(",\"", stringify!($key), "\":\"").as_bytes());
            $out.extend_from_slice(clock.format(time_us));
            $out.push(b'"');
        }
    };
    (Event $key:ident $out:ident $record:ident $field:ident $clock:ident) => {
        name_field!($out, $key, $record.$field)
    };
    (Outcome $key:ident $out:ident $record:ident $field:ident $clock:ident) => {
        name_field!($out, $key, $record.$field)
    };
    // `append_line` writes them, together with the beginning of the line.
    (Seq $key:ident $out:ident $record:ident $field:ident $clock:ident) => {};
    (Instant $key:ident $out:ident $record:ident $field:ident $clock:ident) => {};
    // Name, Word, Message
    ($text:ident $key:ident $out:ident $record:ident $field:ident $clock:ident) => {
        text_field!($out, $key, $record.$field)
    };
}

macro_rules! groups {
    ($($group:ident { $($key:ident => $field:ident: $kind:ident,
        $what:literal, $present:literal, $source:literal;)* })*) => {
        /// A function for each group of the table, which appends its fields.
        // In place: how they are put together into functions is decided below, where it is counted.
        mod group {
            use super::*;
            $(
                #[allow(unused_mut, unused_variables, reason = "few groups have a time")]
                #[inline(always)]
                pub(super) fn $group(
                    out: &mut Vec<u8>,
                    record: &Record,
                    mut clock: Option<&mut TimeFormatter>,
                ) {
                    $(field!($kind $key out record $field clock);)*
                }
            )*
        }
    };
}
fields!(groups);

/// The connection and its user.
fn append_who(out: &mut Vec<u8>, record: &Record) {
    group::session(out, record, None);
    if record.identity.is_empty() {
        write_identity(out, record);
    } else {
        out.extend_from_slice(record.identity);
    }
}

/// Appends the fields from `user` to `command`, which hardly ever change from one line of a
/// connection to the next. If the caller keeps them, they can be [`Record::identity`] of later
/// lines.
pub fn write_identity(out: &mut Vec<u8>, record: &Record) {
    group::identity(out, record, None);
}

/// Appends the field `sql_command`. If the caller keeps it, it can be [`Record::sql_command_json`]
/// of later lines.
pub fn write_sql_command(out: &mut Vec<u8>, sql_command: &[u8]) {
    group::sql_command(out, &Record { sql_command, ..Record::default() }, None);
}

/// Appends the fields from `sql` to `digest`. If the caller keeps them, they can be
/// [`Record::text_json`] of later lines with the same text.
pub fn write_text(out: &mut Vec<u8>, record: &Record) {
    group::text(out, record, None);
}

/// The statement, and its error.
fn append_statement(out: &mut Vec<u8>, record: &Record) {
    if record.sql_command_json.is_empty() {
        group::sql_command(out, record, None);
    } else {
        out.extend_from_slice(record.sql_command_json);
    }
    group::failure(out, record, None);
    if record.text_json.is_empty() {
        group::text(out, record, None);
    } else {
        out.extend_from_slice(record.text_json);
    }
    group::execution(out, record, None);
    // Only lines of a capture have parameters, and of a text that is cut there may be none left.
    if !record.params.is_empty() || record.params_bytes.is_some() {
        append_params(out, record);
    }
}

#[inline(never)]
fn append_params(out: &mut Vec<u8>, record: &Record) {
    group::params(out, record, None);
}

/// Its cost.
fn append_cost(out: &mut Vec<u8>, record: &Record) {
    group::cost(out, record, None);
}

/// Whether there is anything about the answer.
#[inline(always)]
fn has_answer(record: &Record) -> bool {
    let Record { first_byte_us, bytes_sent, warnings, last_insert_id, info, .. } = record;
    let numbers = [first_byte_us, bytes_sent, warnings, last_insert_id];
    // Without a branch for each of them.
    numbers.iter().fold(!info.is_empty(), |has, number| has | number.is_some())
}

#[inline(never)]
fn append_answer(out: &mut Vec<u8>, record: &Record) {
    group::answer(out, record, None);
}

/// Fields of only some kinds of lines.
fn append_recorder(out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    group::recorder(out, record, Some(clock));
    // Lines of a hub have attributes, too.
    if record.event == Some(EventKind::Notice) || !record.attributes.is_empty() {
        append_notice(out, record);
    }
}

fn append_notice(out: &mut Vec<u8>, record: &Record) {
    group::notice(out, record, None);
}

/// In one piece: its length is known, and nothing needs an escape.
#[inline(always)]
fn append_digest<const PIECE_BYTES: usize>(
    out: &mut Vec<u8>,
    key: &str,
    digest: &[u8; DIGEST_BYTES],
) {
    let mut piece = [b'"'; PIECE_BYTES];
    piece[..key.len()].copy_from_slice(key.as_bytes());
    piece[key.len()..key.len() + digest.len()].copy_from_slice(digest);
    out.extend_from_slice(&piece);
}

/// `begin`: the text before the first one.
fn append_tables(out: &mut Vec<u8>, begin: &str, tables: &[TableUse]) {
    for (index, used) in tables.iter().enumerate() {
        out.extend_from_slice(if index == 0 { begin.as_bytes() } else { b"," });
        out.extend_from_slice(b"{\"access\":\"");
        out.extend_from_slice(used.access.name().as_bytes());
        out.push(b'"');
        text_field!(out, db, used.db);
        text_field!(out, table, used.table);
        text_field!(out, new_db, used.new_db);
        text_field!(out, new_table, used.new_table);
        out.push(b'}');
    }
    if !tables.is_empty() {
        out.push(b']');
    }
}

/// `begin`: the text before the first one.
fn append_attributes(out: &mut Vec<u8>, begin: &str, attributes: &[Attribute]) {
    for (index, Attribute { key, value }) in attributes.iter().enumerate() {
        out.extend_from_slice(if index == 0 { begin.as_bytes() } else { b"," });
        // Also an empty one: an object always has both.
        out.extend_from_slice(b"{\"key\":\"");
        append_text(out, key, Charset::UTF8MB4, ",\"key_b64\":\"");
        out.extend_from_slice(b",\"value\":\"");
        append_text(out, value, Charset::UTF8MB4, ",\"value_b64\":\"");
        out.push(b'}');
    }
    if !attributes.is_empty() {
        out.push(b']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_standard_library() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        let edges = powers.flat_map(|power| [power - 1, power, power + 1, power + power / 2]);
        for number in edges.chain(0..2_000).chain([u64::MAX - 1, u64::MAX]) {
            let mut out = b"before ".to_vec();
            append_number::<11>(&mut out, "key", number);
            assert_eq!(out, format!("before key{number}").into_bytes());
        }
    }

    #[test]
    fn fields_kept_by_the_caller_give_the_same_line() {
        let record = Record {
            event: Some(EventKind::Statement),
            outcome: Some(Outcome::Ok),
            query_id: Some(7),
            user: b"a\"b",
            host: b"\xFF",
            port: Some(3306),
            db: b"shop",
            command: b"Query",
            sql_command: b"select",
            sql: Some(b"SELECT '\xE4'"),
            sql_charset: b"latin1",
            digest: b"1:0123",
            errno: 1,
            rewrite_rule: Some(5),
            ..Record::default()
        };
        let mut clock = TimeFormatter::utc();
        let (mut identity, mut text, mut command) = (Vec::new(), Vec::new(), Vec::new());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        write_identity(&mut identity, &record);
        write_text(&mut text, &record);
        write_sql_command(&mut command, record.sql_command);
        write_line(&mut first, &record, &mut clock);
        let charset = Charset::by_name(record.sql_charset);
        assert!(charset.is_some());
        let kept = Record {
            identity: &identity,
            sql_command_json: &command,
            text_json: &text,
            sql_charset: b"",
            charset,
            digest: b"",
            ..record
        };
        write_line(&mut second, &kept, &mut clock);
        assert_eq!(first, second);
    }
}
