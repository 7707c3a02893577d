//! From records in the arena to the bytes of a line.

mod digests;
mod load;
mod notice;
mod parts;
mod secrets;
mod wanted;

use std::borrow::Cow;

use tacho_event::json;
use tacho_event::record::{EventKind, Outcome, Record, TableAccess, TableUse};
use tacho_event::redact;
use tacho_event::time::TimeFormatter;
use tacho_ring::codec::{
    PRESENT_BLOCKED, PRESENT_SQL_COMMAND, PRESENT_SQLSTATE, PRESENT_TEXT, RecordKind,
    STRING_CHARSET, STRING_COMMAND, STRING_DB, STRING_HOST, STRING_IP, STRING_USER, View,
};

use tacho_filter::{Program, Treatment};

use crate::control::Filters;
use crate::drain::Drain;
use crate::join::{Ending, NoText, Open, Place, Start, StatementEnd, Told};
use digests::Digests;
use load::{Buffers, Loaded};
use notice::Notice;
use parts::{Commands, Known, TextKind, end_of, identify, know, outcome_of, table_of};
use secrets::{
    Shown, clean_message, executes_text, has_literal, is_given_up, quotes_another_text, show,
};

pub use load::Shortfall;

/// Buffers that are reused for every line.
#[derive(Default)]
pub struct Scratch {
    start: Buffers,
    end: Buffers,
    extras: Vec<Buffers>,
    known: Vec<Known>,
    commands: Commands,
    digests: Digests,
    /// Since the last [`Scratch::take_shortfall`].
    shortfall: Shortfall,
}

/// Buffers for errors and tables that are kept for the next line.
const EXTRAS_KEPT: usize = 64;

/// Longest message that is kept until its statement ends, bytes; no server has longer ones.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

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
    /// Which statements are wanted, and how.
    pub filters: &'s Filters,
    /// Whether one that is not wanted may be left out.
    pub may_skip: bool,
    /// Lines of statements have their digests.
    pub digest: bool,
    /// No literal may go to the disk.
    pub redact_literals: bool,
}

impl<'s> Style<'s> {
    /// The filter of a statement that started then.
    #[inline]
    fn filter(&self, started_us: i64) -> Program<'s> {
        Program::new(self.filters.at(started_us))
    }
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is in the line.
    Line,
    /// The filter does not want it: there is no line.
    Filtered,
    /// It cannot be read, and was counted: there is no line.
    Unreadable,
}

impl Scratch {
    /// Whether lines since the last [`Scratch::take_shortfall`] had to do without something.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.shortfall.damaged > 0 || self.shortfall.no_memory_bytes.is_some()
    }

    /// What the lines since the last call had to do without.
    pub fn take_shortfall(&mut self) -> Shortfall {
        std::mem::take(&mut self.shortfall)
    }

    /// Gives back what a huge line has taken, beyond `bytes` for each buffer.
    pub fn shrink(&mut self, bytes: usize) {
        let Scratch { start, end, extras, digests, .. } = self;
        digests.shrink(bytes);
        // Some records of 8 KiB and more are not worth it; a million small ones are.
        extras.truncate(EXTRAS_KEPT);
        [start, end].into_iter().chain(extras).for_each(|buffers| buffers.shrink(bytes));
    }
}

/// What is to be kept of a start when the record itself leaves the arena.
pub fn told(drain: &Drain, scratch: &mut Scratch, place: &Place, filters: &Filters) -> Told {
    // Its line counts what cannot be read.
    let loaded = scratch.start.load(drain, place, &mut Shortfall::default());
    let Some(Loaded { view, text }) = loaded else { return Told::default() };
    let setting = redact::Setting::of(view.string(STRING_CHARSET), view.string(STRING_DB));
    let filter = Program::new(filters.at(view.header.ts_us));
    let treatment = wanted::statement(&filter, &view, None);
    let is_clean = |text| matches!(redact::secrets(text, setting), Cow::Borrowed(_));
    Told {
        strings: view.strings().map(<[u8]>::to_vec).to_vec(),
        has_secret: !text.is_ok_and(is_clean),
        has_literal: text.is_ok_and(has_literal),
        // What its text must not say, its error must not either.
        no_literals: treatment.no_text || treatment.literals,
        error: None,
    }
}

/// Number and message of the last error among what a statement has gathered.
pub fn last_error(
    drain: &Drain,
    scratch: &mut Scratch,
    extras: &[Place],
) -> Option<(u32, Vec<u8>)> {
    extras.iter().rev().find_map(|place| {
        let loaded = scratch.end.load(drain, place, &mut Shortfall::default())?;
        let message = loaded.text.ok().filter(|text| text.len() <= MESSAGE_BYTES_MAX)?;
        let Loaded { view, .. } = loaded;
        let is_message = view.kind == RecordKind::Error && !is_blocked(&view);
        is_message.then(|| (view.body.errno, message.to_vec()))
    })
}

/// Whether the new text of a statement that was rewritten is among what it has gathered.
pub fn is_rewritten(drain: &Drain, scratch: &mut Scratch, extras: &[Place]) -> bool {
    extras.iter().any(|place| {
        let loaded = scratch.end.load(drain, place, &mut Shortfall::default());
        loaded.is_some_and(|loaded| loaded.view.kind == RecordKind::Rewrite)
    })
}

/// Whether an error says that a rule has blocked the statement: its text is the rule's name.
fn is_blocked(view: &View<'_>) -> bool {
    view.body.present & PRESENT_BLOCKED != 0
}

/// Appends the line; without its texts, if there is not enough memory for them.
#[inline]
fn write(
    out: &mut Vec<u8>,
    record: &mut Record<'_>,
    style: &mut Style<'_>,
    shortfall: &mut Shortfall,
) {
    if json::try_write_line(out, record, style.clock).is_err() {
        write_less(out, record, style, shortfall);
    }
}

#[cold]
#[inline(never)]
fn write_less(
    out: &mut Vec<u8>,
    record: &mut Record<'_>,
    style: &mut Style<'_>,
    shortfall: &mut Shortfall,
) {
    let bytes = record.sql.map_or(0, |sql| sql.len() as u64);
    let is_rewritten = record.rewritten_query.take().is_some();
    if is_rewritten && json::try_write_line(out, record, style.clock).is_ok() {
        shortfall.no_memory_bytes = Some(bytes);
        return;
    }
    shortfall.no_memory_bytes = Some(record.sql_bytes.unwrap_or(bytes));
    if record.sql.take().is_some() {
        record.sql_bytes.get_or_insert(bytes);
        without_text(record);
        if json::try_write_line(out, record, style.clock).is_ok() {
            return;
        }
    }
    // What is left is as small as a name.
    record.error = &[];
    record.tables = &[];
    record.old_value = &[];
    record.new_value = &[];
    record.detail = &[];
    record.attributes = &[];
    json::write_line(out, record, style.clock);
}

/// Takes out what only says how to read `sql`.
fn without_text(record: &mut Record<'_>) {
    record.sql_redacted = false;
    record.charset = None;
    record.sql_charset = &[];
}

/// The digest of what is shown, as it came; empty: it has none.
fn digest_of<'d>(
    digests: &'d mut Digests,
    text: Option<&[u8]>,
    kind: &TextKind,
    shown: &Shown<'_>,
) -> &'d [u8] {
    match (text, kind.setting.digest_mode()) {
        (Some(text), Some(mode)) if kind.is_sql && !is_given_up(shown) => digests.of(text, mode),
        _ => &[],
    }
}

/// Writes the line of a statement that has a start, unless it has ended and the filter does not
/// want it.
pub fn write_statement(
    out: &mut Vec<u8>,
    drain: &Drain,
    scratch: &mut Scratch,
    style: &mut Style<'_>,
    seq: u64,
    statement: Statement<'_>,
) -> Written {
    let Statement { conn, open, ending } = statement;
    let Scratch { start, end, extras, known, commands, digests, shortfall } = scratch;
    let started = match &open.start {
        Start::Record(place) => start.load(drain, place, shortfall),
        Start::Running { .. } => None,
    };
    let end_record = match ending {
        Ending::Record(place) => end.load(drain, place, shortfall),
        _ => None,
    };
    let end_of_record = end_record.as_ref().map(|loaded| end_of(&loaded.view));
    let (ended, ending) = match ending {
        Ending::Read { end, .. } => (Some(end), ending),
        // It has ended, and nobody can say how.
        Ending::Record(_) if end_of_record.is_none() => (None, &Ending::Unknown),
        _ => (end_of_record.as_ref(), ending),
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
    let mut text: Option<Result<&[u8], NoText>> = None;
    let mut text_bytes = 0;
    let mut number = -1;
    let mut is_number_known = false;
    let mut kind = None;
    let other_kind;
    match (&started, &open.start) {
        (Some(Loaded { view, text: whole }), _) => {
            kind = Some(know(known, view, &mut record));
            number = view.body.sql_command;
            is_number_known = view.body.present & PRESENT_SQL_COMMAND != 0;
            text = (view.body.present & PRESENT_TEXT != 0).then_some(*whole);
            text_bytes = view.body.text_bytes;
        }
        (None, Start::Running { seq, told }) => {
            record.running_seq = Some(*seq);
            let string = |i| told.strings.get(i).map_or(&[][..], Vec::as_slice);
            identify(&mut record, &std::array::from_fn(string));
            // The character set is that of a text which is in the other line.
            record.sql_charset = &[];
        }
        (None, Start::Record(_)) => {}
    }
    record.outcome = Some(match ending {
        Ending::Record(_) | Ending::Read { .. } | Ending::Derived(0) => Outcome::Ok,
        Ending::Derived(_) => Outcome::Error,
        Ending::Unknown => Outcome::Interrupted,
        Ending::Running => Outcome::Running,
    });
    if let Ending::Derived(errno) = ending {
        record.errno = *errno;
    }
    let mut sqlstate = [0u8; 5];
    if let Some(end) = ended {
        outcome_of(&mut record, end);
        if record.query_time_us.is_none() {
            record.query_time_us = u64::try_from(end.ts_us - open.ts_us).ok();
        }
        // The query id may be given after the start: the one at the end is the one that the
        // server shows.
        if end.query_id != 0 {
            record.query_id = Some(end.query_id);
        }
        if end.present & PRESENT_SQL_COMMAND != 0 {
            number = end.parts.sql_command;
            is_number_known = true;
        }
        if end.present & PRESENT_SQLSTATE != 0 && end.errno != 0 {
            sqlstate = end.parts.sqlstate;
        }
        if end.present & PRESENT_TEXT == 0 {
            text_bytes = text_bytes.min(end.shown_bytes);
            if let Some(Ok(whole)) = text {
                text = Some(Ok(&whole[..whole.len().min(end.shown_bytes as usize)]));
            }
        }
    }
    if let Some(Loaded { view, text: end_text }) = &end_record
        && view.body.present & PRESENT_TEXT != 0
    {
        // The start has only the beginning of it.
        text = Some(*end_text);
        text_bytes = view.body.text_bytes;
        if view.kind == RecordKind::Point {
            record.charset = None;
            record.sql_charset = view.string(STRING_CHARSET);
            if let Some(started) = &started {
                record.db = started.view.string(STRING_DB);
            }
            // The command is that of the start.
            let setting = redact::Setting::of(record.sql_charset, record.db);
            if let Some(known) = kind {
                other_kind = TextKind { setting, ..*known };
                kind = Some(&other_kind);
            }
        }
    }
    if sqlstate[0] != 0 {
        record.sqlstate = &sqlstate;
    }
    commands.name(drain, number, &mut record);

    // Tables and messages on the way.
    let count = open.extras.len();
    if extras.len() < count {
        extras.resize_with(count, Buffers::default);
    }
    let mut uses: Vec<TableUse<'_>> = Vec::new();
    let mut message: Option<&[u8]> = None;
    let mut rewritten: Option<&[u8]> = None;
    for (place, buffers) in open.extras.iter().zip(extras.iter_mut()) {
        let loaded = buffers.load(drain, place, shortfall);
        let Some(Loaded { view, text: extra_text }) = loaded else { continue };
        match view.kind {
            RecordKind::Table => {
                let table = table_of(&view);
                if !uses.contains(&table) {
                    uses.push(table);
                }
            }
            RecordKind::Rewrite => {
                record.rewrite_rule = Some(view.figures[0]);
                rewritten = extra_text.ok();
            }
            RecordKind::Error => {
                // The last message with the number of the outcome is its message. Where no
                // end told the number, the message does.
                if record.errno == 0 && ended.is_none() && !matches!(ending, Ending::Running) {
                    record.errno = view.body.errno;
                    record.outcome = Some(Outcome::Error);
                }
                if is_blocked(&view) {
                    record.blocked_by = extra_text.unwrap_or_default();
                } else if view.body.errno == record.errno {
                    message = extra_text.ok();
                }
            }
            _ => {}
        }
    }
    record.tables = &uses;
    let told = match &open.start {
        Start::Running { told, .. } => Some(told),
        Start::Record(_) => None,
    };
    if let Some((errno, text)) = told.and_then(|told| told.error.as_ref())
        && message.is_none()
    {
        if record.errno == 0 && open.failed && matches!(ending, Ending::Derived(_)) {
            record.errno = *errno;
            record.outcome = Some(Outcome::Error);
        }
        if *errno == record.errno {
            message = Some(text);
        }
    }

    let mut treatment = Treatment::default();
    if let Some(Loaded { view, .. }) = &started {
        let end = wanted::End {
            sql_command: is_number_known.then_some(number),
            errno: record.errno,
            tables: &uses,
        };
        let has_ended = !matches!(ending, Ending::Unknown | Ending::Running);
        treatment = wanted::statement(&style.filter(open.ts_us), view, has_ended.then_some(end));
        // What a rule has blocked is not for another one to leave out.
        if treatment.skip && style.may_skip && has_ended && record.blocked_by.is_empty() {
            return Written::Filtered;
        }
        style.redact_literals |= treatment.literals;
    }

    let unknown_kind;
    let kind = match kind {
        Some(kind) => kind,
        None => {
            unknown_kind = TextKind::of(record.sql_charset, record.db, record.command);
            &unknown_kind
        }
    };
    let is_gone = matches!(text, Some(Err(_))) || (treatment.no_text && text.is_some());
    let text = text.and_then(Result::ok).filter(|_| !treatment.no_text);
    let shown = text.map(|text| {
        // Nothing says how much of it belongs to a statement whose end shows no text.
        let is_whole = |end: &StatementEnd| {
            end.shown_bytes != u32::MAX && end.shown_bytes as usize >= text.len()
        };
        let is_parsed = record.outcome == Some(Outcome::Ok) && ended.is_some_and(is_whole);
        show(text, &record, kind, is_parsed, style, digests.normaliser())
    });
    // A text that must not be shown, or cannot, does not show in another form.
    let rewritten = rewritten
        .filter(|_| !is_gone && !treatment.no_text)
        .map(|text| show(text, &record, kind, false, style, digests.normaliser()));
    let is_redacted = |it: &Option<Shown<'_>>| it.as_ref().is_some_and(|shown| shown.redacted);
    let redacted = is_redacted(&shown) || is_redacted(&rewritten);
    let message = message.map(|message| {
        let no_literals = treatment.no_text || told.is_some_and(|told| told.no_literals);
        if style.redact_literals || no_literals {
            return redact::message_without_literals(record.errno, message).into();
        }
        let has_secret = redacted || told.is_some_and(|told| told.has_secret);
        let has_literal =
            text.is_some_and(has_literal) || told.is_some_and(|told| told.has_literal);
        let is_hidden = executes_text(&record) && !has_literal || quotes_another_text(&record);
        clean_message(message, has_secret || is_hidden || is_gone)
    });
    if let Some(shown) = &shown {
        record.sql = Some(&shown.text);
        record.sql_bytes = shown.whole_bytes;
        record.sql_redacted = shown.redacted;
        if style.digest {
            record.digest = digest_of(digests, text, kind, shown);
        }
    } else if is_gone {
        record.sql_bytes = Some(text_bytes.into());
        without_text(&mut record);
    }
    record.rewritten_query = rewritten.as_ref().map(|shown| &*shown.text);
    if let Some(message) = &message {
        record.error = message;
    }
    if let (Some(Loaded { view, text: Ok(whole) }), None) = (&started, &record.sql_bytes)
        && matches!(ending, Ending::Unknown)
        && (view.body.text_bytes as usize) > whole.len()
    {
        record.sql_bytes = Some(u64::from(view.body.text_bytes));
    }
    write(out, &mut record, style, shortfall);
    Written::Line
}

/// Writes the line of a record that is a line by itself, unless the filter does not want it.
pub fn write_single(
    out: &mut Vec<u8>,
    drain: &Drain,
    scratch: &mut Scratch,
    style: &mut Style<'_>,
    seq: u64,
    place: &Place,
    error: Option<&Place>,
) -> Written {
    let Scratch { start, end, known, commands, digests, shortfall, .. } = scratch;
    let Some(loaded) = start.load(drain, place, shortfall) else { return Written::Unreadable };
    let Loaded { view, text } = loaded;
    let failed = view.body.errno != 0;
    let event = match view.kind {
        RecordKind::Connect if failed => EventKind::ConnectFailed,
        RecordKind::Connect => EventKind::Connect,
        RecordKind::Disconnect => EventKind::Disconnect,
        RecordKind::ChangeUser => EventKind::ChangeUser,
        RecordKind::Table => EventKind::Table,
        RecordKind::Config => EventKind::Config,
        RecordKind::Notice => EventKind::Notice,
        _ => EventKind::Statement,
    };
    let treatment = wanted::single(&style.filter(view.header.ts_us), &view);
    let error = error.and_then(|place| end.load(drain, place, shortfall));
    let blocks = error.as_ref().is_some_and(|loaded| is_blocked(&loaded.view));
    if treatment.skip && style.may_skip && !blocks {
        return Written::Filtered;
    }
    style.redact_literals |= treatment.literals;
    let mut record = Record {
        seq,
        ts_us: view.header.ts_us,
        event: Some(event),
        conn: (view.header.conn != 0).then_some(view.header.conn),
        conn_seq: (view.header.conn_seq != 0).then_some(view.header.conn_seq),
        ..Record::default()
    };
    let (notice, attributes);
    let mut table =
        [TableUse { access: TableAccess::Read, db: &[], table: &[], new_db: &[], new_table: &[] }];
    let mut sql = None;
    let mut message = None;
    match event {
        EventKind::Config => {
            record.variable = view.string(STRING_COMMAND);
            record.old_value = view.string(STRING_CHARSET);
            record.new_value = text.unwrap_or_default();
            record.user = view.string(STRING_USER);
            record.host = view.string(STRING_HOST);
            record.ip = view.string(STRING_IP);
        }
        EventKind::Notice => {
            notice = Notice::read(&view, text.unwrap_or_default(), style.redact_literals);
            attributes = notice.attributes();
            notice.tell(&view, &mut record);
            record.attributes = &attributes;
        }
        EventKind::Table => {
            table[0] = table_of(&view);
            record.query_id = (view.header.query_id != 0).then_some(view.header.query_id);
            record.tables = &table;
        }
        _ if view.kind == RecordKind::Error => {
            outcome_of(&mut record, &end_of(&view));
            record.query_id = (view.header.query_id != 0).then_some(view.header.query_id);
            if is_blocked(&view) {
                record.blocked_by = text.unwrap_or_default();
            } else {
                // Its text is the message.
                message = text.ok();
            }
        }
        _ => {
            let kind = know(known, &view, &mut record);
            outcome_of(&mut record, &end_of(&view));
            if event == EventKind::Disconnect {
                record.outcome = None;
            }
            record.query_id = (view.header.query_id != 0).then_some(view.header.query_id);
            commands.name(drain, view.body.sql_command, &mut record);
            if view.body.present & PRESENT_TEXT != 0 {
                match text {
                    _ if treatment.no_text => {
                        record.sql_bytes = Some(view.body.text_bytes.into());
                    }
                    Ok(text) => sql = Some((text, kind)),
                    Err(_) => record.sql_bytes = Some(view.body.text_bytes.into()),
                }
            }
        }
    }
    if view.body.present & PRESENT_SQLSTATE != 0 && failed {
        record.sqlstate = &view.body.sqlstate;
    }
    let shown = sql.map(|(text, kind)| {
        let is_whole = view.body.shown_bytes as usize == text.len();
        let is_parsed = record.outcome == Some(Outcome::Ok) && is_whole;
        show(text, &record, kind, is_parsed, style, digests.normaliser())
    });
    let redacted = shown.as_ref().is_some_and(|s| s.redacted);
    if let Some(Loaded { view, text }) = &error {
        if is_blocked(view) {
            record.blocked_by = text.unwrap_or_default();
        } else {
            message = text.ok();
        }
        if record.errno == 0 {
            record.errno = view.body.errno;
        }
    }
    // Of an error by itself the statement is not known: its secrets cannot be told apart.
    let unknown = redacted || record.sql_bytes.is_some() || view.kind == RecordKind::Error;
    let cleaned = message.map(|text| {
        let no_literals = style.redact_literals || treatment.no_text;
        if no_literals && event == EventKind::Statement {
            redact::message_without_literals(record.errno, text).into()
        } else {
            clean_message(text, unknown)
        }
    });
    match &shown {
        Some(shown) => {
            record.sql = Some(&shown.text);
            record.sql_bytes = shown.whole_bytes;
            record.sql_redacted = redacted;
            if let (true, Some((text, kind))) = (style.digest, sql) {
                record.digest = digest_of(digests, Some(text), kind, shown);
            }
        }
        None => {
            record.charset = None;
            record.sql_charset = &[];
        }
    }
    if let Some(cleaned) = &cleaned {
        record.error = cleaned;
    }
    write(out, &mut record, style, shortfall);
    Written::Line
}
