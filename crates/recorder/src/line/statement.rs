//! The line of a statement: of its start, its end, and what it has met on its way.

use tacho_filter::Treatment;
use tacho_filter::program::USES_TABLE;
use tacho_record::{EventKind, Outcome, Record, TableUse};
use tacho_ring::codec::{
    PRESENT_SQL_COMMAND, PRESENT_SQLSTATE, PRESENT_TEXT, RecordKind, STRING_CHARSET, STRING_DB,
};
use tacho_sql::redact;

use super::calls::Gaps;
use super::load::{Buffers, Loaded, Shortfall};
use super::parts::{Known, TextKind, end_of, identify, know, outcome_of, table_of};
use super::secrets::{Shown, clean_message, executes_text, quotes_another_text, show};
use super::{Scratch, Style, Written, digest_of, is_blocked, wanted, without_text, write};
use crate::drain::Drain;
use crate::join::{Ending, NoText, Open, Place, Start, StatementEnd, Told};

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

/// What its records say of its text and of its SQL command.
struct Said<'v> {
    text: Option<Result<&'v [u8], NoText>>,
    /// Length of the whole text.
    text_bytes: u32,
    /// `None`: only another line knows.
    kind: Option<&'v TextKind>,
    /// Number of the SQL command; −1: none.
    sql_command: i32,
    is_command_known: bool,
}

impl<'v> Said<'v> {
    fn at_start(
        started: Option<&Loaded<'v>>,
        start: &'v Start,
        known: &'v mut Vec<Known>,
        record: &mut Record<'v>,
    ) -> Said<'v> {
        let mut said = Said {
            text: None,
            text_bytes: 0,
            kind: None,
            sql_command: -1,
            is_command_known: false,
        };
        match (started, start) {
            (Some(Loaded { view, text }), _) => {
                said.kind = Some(know(known, view, record));
                said.sql_command = view.body.sql_command;
                said.is_command_known = view.body.present & PRESENT_SQL_COMMAND != 0;
                said.text = (view.body.present & PRESENT_TEXT != 0).then_some(*text);
                said.text_bytes = view.body.text_bytes;
            }
            (None, Start::Running { seq, told }) => {
                record.running_seq = Some(*seq);
                let string = |i| told.strings.get(i).map_or(&[][..], Vec::as_slice);
                identify(record, &std::array::from_fn(string));
                // The character set is that of a text which is in the other line.
                record.sql_charset = &[];
            }
            (None, Start::Record(_)) => {}
        }
        said
    }

    /// Its end, which may say which part of the text was executed.
    fn end(&mut self, end: &'v StatementEnd, started_us: i64, record: &mut Record<'v>) {
        outcome_of(record, end);
        if record.query_time_us.is_none() {
            record.query_time_us = u64::try_from(end.ts_us - started_us).ok();
        }
        // The query id may be given after the start: the one at the end is the one that the
        // server shows.
        if end.query_id != 0 {
            record.query_id = Some(end.query_id);
        }
        if end.present & PRESENT_SQL_COMMAND != 0 {
            self.sql_command = end.parts.sql_command;
            self.is_command_known = true;
        }
        if end.present & PRESENT_SQLSTATE != 0 && end.errno != 0 && end.parts.sqlstate[0] != 0 {
            record.sqlstate = &end.parts.sqlstate;
        }
        if end.present & PRESENT_TEXT == 0 {
            self.text_bytes = self.text_bytes.min(end.shown_bytes);
            if let Some(Ok(whole)) = self.text {
                self.text = Some(Ok(&whole[..whole.len().min(end.shown_bytes as usize)]));
            }
        }
    }

    /// An end that has the text: the start has only the beginning of it, or its session has no slot. Returns
    /// what it is, if that is not what the start says. `is_told`: all of it is in another line.
    fn end_text(
        &mut self,
        ended: &Loaded<'v>,
        started: Option<&Loaded<'v>>,
        is_told: bool,
        record: &mut Record<'v>,
    ) -> Option<TextKind> {
        let Loaded { view, text } = ended;
        if view.body.present & PRESENT_TEXT == 0 || is_told {
            return None;
        }
        self.text = Some(*text);
        self.text_bytes = view.body.text_bytes;
        if view.kind != RecordKind::Point {
            return None;
        }
        record.charset = None;
        record.sql_charset = view.string(STRING_CHARSET);
        if let Some(started) = started {
            record.db = started.view.string(STRING_DB);
        }
        // The command is that of the start.
        let setting = redact::Setting::of(record.sql_charset, record.db);
        self.kind.map(|kind| TextKind { setting, ..*kind })
    }
}

/// What a statement has met on its way.
#[derive(Default)]
struct Gathered<'v> {
    tables: Vec<TableUse<'v>>,
    /// A record of what it has met is lost: there may be others.
    is_partial: bool,
    /// What the server does not report.
    gaps: Gaps,
    message: Option<&'v [u8]>,
    /// The text that it was rewritten to.
    rewritten: Option<&'v [u8]>,
}

/// `is_outcome_open`: it has ended, and no end has told how.
fn gather<'v>(
    extras: &'v mut Vec<Buffers>,
    drain: &Drain,
    places: &'v [Place],
    is_outcome_open: bool,
    record: &mut Record<'v>,
    shortfall: &mut Shortfall,
) -> Gathered<'v> {
    if extras.len() < places.len() {
        extras.resize_with(places.len(), Buffers::default);
    }
    let mut gathered = Gathered::default();
    for (place, buffers) in places.iter().zip(extras.iter_mut()) {
        let Some(Loaded { view, text }) = buffers.load(drain, place, shortfall) else {
            gathered.is_partial = true;
            continue;
        };
        match view.kind {
            RecordKind::Table => {
                gathered.gaps.note(&view);
                let table = table_of(&view);
                if !gathered.tables.contains(&table) {
                    gathered.tables.push(table);
                }
            }
            RecordKind::Rewrite => {
                record.rewrite_rule = Some(view.figures[0]);
                gathered.rewritten = text.ok();
            }
            RecordKind::Error => {
                // The last message with the number of the outcome is its message. Where no
                // end told the number, the message does.
                if record.errno == 0 && is_outcome_open {
                    record.errno = view.body.errno;
                    record.outcome = Some(Outcome::Error);
                }
                if is_blocked(&view) {
                    record.blocked_by = text.unwrap_or_default();
                } else if view.body.errno == record.errno {
                    gathered.message = text.ok();
                }
            }
            _ => {}
        }
    }
    gathered
}

/// The message that its start has left for its end, if that is the message of its outcome.
fn told_message<'v>(
    told: Option<&'v Told>,
    is_failed: bool,
    record: &mut Record<'v>,
) -> Option<&'v [u8]> {
    let (errno, text) = told?.error.as_ref()?;
    if record.errno == 0 && is_failed {
        record.errno = *errno;
        record.outcome = Some(Outcome::Error);
    }
    (*errno == record.errno).then_some(text)
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
    let told = match &open.start {
        Start::Record(_) => None,
        Start::Running { told, .. } => Some(&**told),
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
    let is_running = matches!(ending, Ending::Running);
    let is_unknown = matches!(ending, Ending::Unknown);
    let mut record = Record {
        seq,
        ts_us: open.ts_us,
        event: Some(EventKind::Statement),
        run: style.run,
        conn: Some(conn),
        conn_seq: (open.conn_seq != 0).then_some(open.conn_seq),
        query_id: (open.query_id != 0).then_some(open.query_id),
        outcome: Some(match ending {
            Ending::Record(_) | Ending::Read { .. } | Ending::Derived(0) => Outcome::Ok,
            Ending::Derived(_) => Outcome::Error,
            Ending::Unknown => Outcome::Interrupted,
            Ending::Running => Outcome::Running,
        }),
        ..Record::default()
    };
    if let Ending::Derived(errno) = ending {
        record.errno = *errno;
    }
    let mut said = Said::at_start(started.as_ref(), &open.start, known, &mut record);
    if let Some(end) = ended {
        said.end(end, open.ts_us, &mut record);
    }
    // Of what follows in a packet the `running` line has only the beginning.
    let is_told = matches!(open.start, Start::Running { .. }) && !open.remainder;
    let kind_at_end = end_record
        .as_ref()
        .and_then(|ended| said.end_text(ended, started.as_ref(), is_told, &mut record));
    commands.name(drain, said.sql_command, &mut record);

    let is_outcome_open = ended.is_none() && !is_running;
    let Gathered { tables, is_partial, gaps, message, rewritten } =
        gather(extras, drain, &open.extras, is_outcome_open, &mut record, shortfall);
    record.tables = &tables;
    let message = message.or_else(|| {
        let is_failed = open.failed && matches!(ending, Ending::Derived(_));
        told_message(told, is_failed, &mut record)
    });

    let mut treatment = Treatment::default();
    if let Some(Loaded { view, .. }) = &started {
        let filter = style.filter(open.ts_us);
        let has_ended = !is_unknown && !is_running;
        treatment = wanted::statement(&filter, view, || {
            let text = said.text.and_then(Result::ok).unwrap_or_default();
            let asks_for_tables = filter.uses() & USES_TABLE != 0 && !tables.is_empty();
            has_ended.then(|| wanted::End {
                sql_command: said.is_command_known.then_some(said.sql_command),
                errno: record.errno,
                tables: &tables,
                is_partial: is_partial || gaps.locked,
                may_hide: asks_for_tables
                    && gaps.may_hide(record.sql_command, text, said.kind, digests.normaliser()),
                command: record.sql_command,
                text,
            })
        });
        // What a rule has blocked is not for another one to leave out.
        if treatment.skip && style.may_skip && has_ended && record.blocked_by.is_empty() {
            return Written::Filtered;
        }
        style.redact_literals |= treatment.literals;
    }

    let Said { text, text_bytes, kind, .. } = said;
    let unknown_kind;
    let kind = match kind_at_end.as_ref().or(kind) {
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
        show(text, text_bytes, &record, kind, is_parsed, style, digests.normaliser())
    });
    // A text that must not be shown, or cannot, does not show in another form.
    let rewritten = rewritten
        .filter(|_| !is_gone && !treatment.no_text)
        .map(|text| show(text, 0, &record, kind, false, style, digests.normaliser()));
    let is_redacted = |it: &Option<Shown<'_>>| it.as_ref().is_some_and(|shown| shown.redacted);
    let redacted = is_redacted(&shown) || is_redacted(&rewritten);
    let message = message.map(|message| {
        let no_literals = treatment.no_text || told.is_some_and(|told| told.no_literals);
        if style.redact_literals || no_literals {
            return redact::message_without_literals(record.errno, message).into();
        }
        let has_secret = redacted || told.is_some_and(|told| told.has_secret);
        let shows_prepared = || {
            text.is_some_and(|text| redact::shows_prepared(text, kind.setting))
                || told.is_some_and(|told| told.shows_prepared)
        };
        let is_hidden = executes_text(&record) && !shows_prepared()
            || quotes_another_text(&record, message, text, kind);
        clean_message(record.errno, message, has_secret || is_hidden || is_gone)
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
        && is_unknown
        && (view.body.text_bytes as usize) > whole.len()
    {
        record.sql_bytes = Some(u64::from(view.body.text_bytes));
    }
    write(out, &mut record, style, shortfall);
    Written::Line
}
