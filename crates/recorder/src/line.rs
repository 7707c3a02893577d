//! From records in the arena to the bytes of a line.

use tacho_event::json;
use tacho_event::record::{EventKind, Outcome, Record, TableAccess, TableUse};
use tacho_event::redact;
use tacho_event::time::TimeFormatter;
use tacho_ring::codec::{
    PRESENT_LOCK_TIME, PRESENT_QUERY_TIME, PRESENT_ROWS_AFFECTED, PRESENT_ROWS_EXAMINED,
    PRESENT_ROWS_SENT, PRESENT_SQL_COMMAND, PRESENT_SQLSTATE, PRESENT_TEXT, RecordKind,
    STRING_CHARSET, STRING_COMMAND, STRING_COUNT, STRING_DB, STRING_HOST, STRING_IP,
    STRING_OS_USER, STRING_PRIV_USER, STRING_PROXY_USER, STRING_USER, View,
};

use crate::drain::Drain;
use crate::join::{Ending, Identity, Open, Place, Start};

/// Buffers that are reused for every line.
#[derive(Default)]
pub struct Scratch {
    start: Buffers,
    end: Buffers,
    extras: Vec<Buffers>,
    known: Vec<Known>,
}

/// Who a connection was in its last line: the strings of the record, and what they became.
#[derive(Default)]
struct Known {
    lengths: [u16; STRING_COUNT],
    strings: Vec<u8>,
    json: Vec<u8>,
}

/// Connections whose last identity is kept; those with the same last bits share a place.
const KNOWN_COUNT: usize = 256;

/// The fields from `user` to `command` of `record`, whose strings are those of `view`.
fn know<'k>(known: &'k mut Vec<Known>, view: &View<'_>, record: &Record<'_>) -> &'k [u8] {
    if known.is_empty() {
        known.resize_with(KNOWN_COUNT, Known::default);
    }
    let place = view.header.conn as usize % KNOWN_COUNT;
    let known = &mut known[place];
    let (lengths, strings) = (&view.body.string_bytes, view.string_bytes());
    if known.lengths != *lengths || known.strings != strings {
        known.lengths = *lengths;
        known.strings.clear();
        known.strings.extend_from_slice(strings);
        known.json.clear();
        json::write_identity(&mut known.json, record);
    }
    &known.json
}

/// Buffers for errors and tables that are kept for the next line.
const EXTRAS_KEPT: usize = 64;

#[derive(Default)]
struct Buffers {
    record: Vec<u8>,
    text: Vec<u8>,
}

/// A statement that has a start, and how far it has come.
#[derive(Clone, Copy)]
pub struct Statement<'s> {
    /// Connection id.
    pub conn: u64,
    /// Its start.
    pub open: &'s Open,
    /// How it ended, or that it has not.
    pub ending: &'s Ending,
}

/// What lines need beside their records.
pub struct Style<'s> {
    /// Formats times.
    pub clock: &'s mut TimeFormatter,
    /// Longest statement text, bytes; 0 = no limit.
    pub max_statement_bytes: u64,
}

impl Scratch {
    /// Gives back what a huge line has taken, beyond `bytes` for each buffer.
    pub fn shrink(&mut self, bytes: usize) {
        let Scratch { start, end, extras, .. } = self;
        // Some records of 8 KiB and more are not worth it; a million small ones are.
        extras.truncate(EXTRAS_KEPT);
        for buffers in [start, end].into_iter().chain(extras) {
            for buffer in [&mut buffers.record, &mut buffers.text] {
                if buffer.capacity() > bytes {
                    *buffer = Vec::new();
                }
            }
        }
    }
}

impl Buffers {
    /// Reads a record and puts its text together.
    fn load(&mut self, drain: &Drain, place: &Place) -> Option<(View<'_>, &[u8])> {
        let (first, early_text, more): (&[u8], &[u8], _) = match place {
            Place::Arena(first, more) => (drain.fetch(*first, &mut self.record)?, &[], more),
            Place::Memory(early, more) => {
                self.record.clear();
                self.record.extend_from_slice(&early.first);
                (&self.record, &early.more_text, more)
            }
        };
        let view = View::decode(first)?;
        if early_text.is_empty() && more.is_empty() {
            return Some((view, view.text));
        }
        self.text.clear();
        self.text.extend_from_slice(view.text);
        self.text.extend_from_slice(early_text);
        let mut piece = Vec::new();
        for at in more {
            let fragment = View::decode(drain.fetch(*at, &mut piece)?)?;
            self.text.extend_from_slice(fragment.text);
        }
        Some((view, &self.text))
    }
}

/// The text of a fragment of a record.
pub fn fragment_text(bytes: &[u8]) -> Option<&[u8]> {
    View::decode(bytes).map(|view| view.text)
}

/// The strings of a start, to be kept when the record itself leaves the arena.
pub fn identity(drain: &Drain, scratch: &mut Scratch, place: &Place) -> Identity {
    match scratch.start.load(drain, place) {
        Some((view, _)) => Identity(view.strings().map(<[u8]>::to_vec).to_vec()),
        None => Identity::default(),
    }
}

fn command_name(drain: &Drain, number: i32, buffer: &mut [u8; 32]) -> usize {
    let entry = usize::try_from(number).ok().and_then(|n| drain.arena().name(n));
    let Some(entry) = entry else { return 0 };
    *buffer = entry.0;
    buffer.iter().position(|b| *b == 0).unwrap_or(buffer.len())
}

fn table_of<'v>(view: &View<'v>) -> TableUse<'v> {
    let access = match view.string(STRING_USER).first() {
        Some(b'1') => TableAccess::Write,
        Some(b'2') => TableAccess::Create,
        Some(b'3') => TableAccess::Drop,
        Some(b'4') => TableAccess::Rename,
        Some(b'5') => TableAccess::Alter,
        _ => TableAccess::Read,
    };
    TableUse {
        access,
        db: view.string(STRING_DB),
        table: view.string(STRING_PRIV_USER),
        new_db: view.string(STRING_OS_USER),
        new_table: view.string(STRING_PROXY_USER),
    }
}

fn identify<'v>(record: &mut Record<'v>, strings: &[&'v [u8]; STRING_COUNT]) {
    record.user = strings[STRING_USER];
    record.priv_user = strings[STRING_PRIV_USER];
    record.proxy_user = strings[STRING_PROXY_USER];
    record.os_user = strings[STRING_OS_USER];
    record.host = strings[STRING_HOST];
    record.ip = strings[STRING_IP];
    record.db = strings[STRING_DB];
    record.command = strings[STRING_COMMAND];
    record.sql_charset = strings[STRING_CHARSET];
}

fn outcome_of(record: &mut Record<'_>, view: &View<'_>) {
    record.errno = view.body.errno;
    record.outcome = Some(if view.body.errno == 0 { Outcome::Ok } else { Outcome::Error });
    let figure = |bit, i: usize| (view.body.present & bit != 0).then(|| view.figures[i]);
    record.rows_sent = figure(PRESENT_ROWS_SENT, 0);
    record.rows_examined = figure(PRESENT_ROWS_EXAMINED, 1);
    record.rows_affected = figure(PRESENT_ROWS_AFFECTED, 2);
    record.query_time_us = figure(PRESENT_QUERY_TIME, 3);
    record.lock_time_us = figure(PRESENT_LOCK_TIME, 4);
}

/// Text that may go to the disk, and whether something was taken out of it.
struct Shown<'t> {
    text: std::borrow::Cow<'t, [u8]>,
    redacted: bool,
    whole_bytes: Option<u64>,
}

fn show<'t>(text: &'t [u8], record: &Record<'_>, style: &Style<'_>) -> Shown<'t> {
    use std::borrow::Cow;
    let cleaned = redact::secrets(text, record.sql_charset, record.db);
    let redacted = matches!(cleaned, Cow::Owned(_));
    let limit = usize::try_from(style.max_statement_bytes).unwrap_or(usize::MAX);
    if limit == 0 || cleaned.len() <= limit {
        let whole_bytes = redacted.then_some(text.len() as u64);
        return Shown { text: cleaned, redacted, whole_bytes };
    }
    // Cut after redaction, so that a cut can never hide that something is a secret.
    let cut = match cleaned {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..limit]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(limit);
            Cow::Owned(bytes)
        }
    };
    Shown { text: cut, redacted, whole_bytes: Some(text.len() as u64) }
}

/// Whether it prepares a text that it does not show, because that comes from a variable: nobody
/// can tell whether there is a secret in it.
fn executes_hidden_text(record: &Record<'_>, text: &[u8]) -> bool {
    matches!(record.sql_command, b"prepare_sql" | b"execute_immediate")
        && !text.iter().any(|byte| matches!(byte, b'\'' | b'"'))
}

/// Error messages quote the statement. When it has or may have secrets, what the message quotes
/// goes.
fn clean_message(message: &[u8], redacted: bool) -> std::borrow::Cow<'_, [u8]> {
    match message.iter().position(|b| matches!(b, b'\'' | b'"' | b'`')) {
        Some(quote) if redacted => [&message[..quote], b"<redacted>"].concat().into(),
        _ => message.into(),
    }
}

/// Writes the line of a statement that has a start. `running`: it has not ended.
pub fn write_statement(
    out: &mut Vec<u8>,
    drain: &Drain,
    scratch: &mut Scratch,
    style: &mut Style<'_>,
    seq: u64,
    statement: Statement<'_>,
) {
    let Statement { conn, open, ending } = statement;
    let Scratch { start, end, extras, known } = scratch;
    let started = match &open.start {
        Start::Record(place) => start.load(drain, place),
        Start::Running { .. } => None,
    };
    let ended = match ending {
        Ending::Record(place) => end.load(drain, place),
        _ => None,
    };
    let mut record = Record {
        seq,
        ts_us: open.ts_us,
        event: Some(EventKind::Statement),
        conn: Some(conn),
        conn_seq: (open.conn_seq != 0).then_some(open.conn_seq),
        query_id: (open.query_id != 0).then_some(open.query_id),
        ..Record::default()
    };
    let mut text: Option<&[u8]> = None;
    let mut number = -1;
    match (&started, &open.start) {
        (Some((view, whole)), _) => {
            identify(&mut record, &view.strings());
            record.identity = know(known, view, &record);
            number = view.body.sql_command;
            text = (view.body.present & PRESENT_TEXT != 0).then_some(*whole);
        }
        (None, Start::Running { seq, identity }) => {
            record.running_seq = Some(*seq);
            identify(
                &mut record,
                &std::array::from_fn(|i| identity.0.get(i).map_or(&[][..], |s| s)),
            );
            // The character set is that of a text which is in the other line.
            record.sql_charset = &[];
        }
        (None, Start::Record(_)) => {}
    }
    record.outcome = Some(match ending {
        Ending::Record(_) | Ending::Derived(0) => Outcome::Ok,
        Ending::Derived(_) => Outcome::Error,
        Ending::Unknown => Outcome::Interrupted,
        Ending::Running => Outcome::Running,
    });
    if let Ending::Derived(errno) = ending {
        record.errno = *errno;
    }
    let mut sqlstate = [0u8; 5];
    if let Some((view, end_text)) = &ended {
        outcome_of(&mut record, view);
        if record.query_time_us.is_none() {
            record.query_time_us = u64::try_from(view.header.ts_us - open.ts_us).ok();
        }
        // The query id may be given after the start: the one at the end is the one that the
        // server shows.
        if view.header.query_id != 0 {
            record.query_id = Some(view.header.query_id);
        }
        if view.body.present & PRESENT_SQL_COMMAND != 0 {
            number = view.body.sql_command;
        }
        if view.body.present & PRESENT_SQLSTATE != 0 && view.body.errno != 0 {
            sqlstate = view.body.sqlstate;
        }
        if view.body.present & PRESENT_TEXT != 0 {
            // The start has only the beginning of it.
            text = Some(end_text);
            if view.kind == RecordKind::Point {
                record.sql_charset = view.string(STRING_CHARSET);
            }
        } else if let Some(whole) = text {
            let shown = view.body.shown_bytes as usize;
            if shown < whole.len() {
                text = Some(&whole[..shown]);
            }
        }
    }
    if sqlstate[0] != 0 {
        record.sqlstate = &sqlstate;
    }
    let mut name = [0u8; 32];
    let name_bytes = command_name(drain, number, &mut name);
    record.sql_command = &name[..name_bytes];

    // Tables and messages on the way.
    let count = open.extras.len();
    if extras.len() < count {
        extras.resize_with(count, Buffers::default);
    }
    let mut uses: Vec<TableUse<'_>> = Vec::new();
    let mut message: Option<&[u8]> = None;
    for (place, buffers) in open.extras.iter().zip(extras.iter_mut()) {
        let Some((view, extra_text)) = buffers.load(drain, place) else { continue };
        match view.kind {
            RecordKind::Table => {
                let table = table_of(&view);
                if !uses.contains(&table) {
                    uses.push(table);
                }
            }
            RecordKind::Error => {
                // The last message with the number of the outcome is its message. Where no
                // end told the number, the message does.
                if record.errno == 0 && ended.is_none() && !matches!(ending, Ending::Running) {
                    record.errno = view.body.errno;
                    record.outcome = Some(Outcome::Error);
                }
                if view.body.errno == record.errno {
                    message = Some(extra_text);
                }
            }
            _ => {}
        }
    }
    record.tables = &uses;

    let shown = text.map(|text| show(text, &record, style));
    let redacted = shown.as_ref().is_some_and(|s| s.redacted);
    let hidden = text.is_some_and(|text| executes_hidden_text(&record, text));
    let message = message.map(|m| clean_message(m, redacted || hidden));
    if let Some(shown) = &shown {
        record.sql = Some(&shown.text);
        record.sql_bytes = shown.whole_bytes;
        record.sql_redacted = redacted;
    }
    if let Some(message) = &message {
        record.error = message;
    }
    if let (Some((view, whole)), None) = (&started, &record.sql_bytes)
        && matches!(ending, Ending::Unknown)
        && (view.body.text_bytes as usize) > whole.len()
    {
        record.sql_bytes = Some(u64::from(view.body.text_bytes));
    }
    json::write_line(out, &record, style.clock);
}

/// Writes the line of a record that is a line by itself.
pub fn write_single(
    out: &mut Vec<u8>,
    drain: &Drain,
    scratch: &mut Scratch,
    style: &mut Style<'_>,
    seq: u64,
    place: &Place,
    error: Option<&Place>,
) -> bool {
    let Scratch { start, end, known, .. } = scratch;
    let Some((view, text)) = start.load(drain, place) else { return false };
    let failed = view.body.errno != 0;
    let event = match view.kind {
        RecordKind::Connect if failed => EventKind::ConnectFailed,
        RecordKind::Connect => EventKind::Connect,
        RecordKind::Disconnect => EventKind::Disconnect,
        RecordKind::ChangeUser => EventKind::ChangeUser,
        RecordKind::Table => EventKind::Table,
        RecordKind::Config => EventKind::Config,
        _ => EventKind::Statement,
    };
    let mut record = Record {
        seq,
        ts_us: view.header.ts_us,
        event: Some(event),
        conn: (view.header.conn != 0).then_some(view.header.conn),
        conn_seq: (view.header.conn_seq != 0).then_some(view.header.conn_seq),
        ..Record::default()
    };
    let mut name = [0u8; 32];
    let mut table =
        [TableUse { access: TableAccess::Read, db: &[], table: &[], new_db: &[], new_table: &[] }];
    let mut sql = None;
    let mut message = None;
    match event {
        EventKind::Config => {
            record.variable = view.string(STRING_COMMAND);
            record.old_value = view.string(STRING_CHARSET);
            record.new_value = text;
            record.user = view.string(STRING_USER);
            record.host = view.string(STRING_HOST);
            record.ip = view.string(STRING_IP);
        }
        EventKind::Table => {
            table[0] = table_of(&view);
            record.query_id = (view.header.query_id != 0).then_some(view.header.query_id);
            record.tables = &table;
        }
        _ if view.kind == RecordKind::Error => {
            outcome_of(&mut record, &view);
            record.query_id = (view.header.query_id != 0).then_some(view.header.query_id);
            // Its text is the message.
            message = Some(text);
        }
        _ => {
            identify(&mut record, &view.strings());
            record.identity = know(known, &view, &record);
            outcome_of(&mut record, &view);
            if event == EventKind::Disconnect {
                record.outcome = None;
            }
            record.query_id = (view.header.query_id != 0).then_some(view.header.query_id);
            let name_bytes = command_name(drain, view.body.sql_command, &mut name);
            record.sql_command = &name[..name_bytes];
            if view.body.present & PRESENT_TEXT != 0 {
                sql = Some(text);
            }
        }
    }
    if view.body.present & PRESENT_SQLSTATE != 0 && failed {
        record.sqlstate = &view.body.sqlstate;
    }
    let shown = sql.map(|text| show(text, &record, style));
    let redacted = shown.as_ref().is_some_and(|s| s.redacted);
    let error = error.and_then(|place| end.load(drain, place));
    if let Some((error, text)) = &error {
        message = Some(*text);
        if record.errno == 0 {
            record.errno = error.body.errno;
        }
    }
    // Of an error by itself the statement is not known: its secrets cannot be told apart.
    let unknown = redacted || view.kind == RecordKind::Error;
    let cleaned = message.map(|text| clean_message(text, unknown));
    match &shown {
        Some(shown) => {
            record.sql = Some(&shown.text);
            record.sql_bytes = shown.whole_bytes;
            record.sql_redacted = redacted;
        }
        None => record.sql_charset = &[],
    }
    if let Some(cleaned) = &cleaned {
        record.error = cleaned;
    }
    json::write_line(out, &record, style.clock);
    true
}
