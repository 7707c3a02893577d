//! The line of a statement: start, end, errors and tables.

use tacho_filter::Action;
use tacho_filter::program::USES_TABLE;
use tacho_record::{EventKind, Outcome, Record, TableUse};
use tacho_ring::codec::{
    PRESENT_SQL_COMMAND, PRESENT_SQLSTATE, PRESENT_TEXT, RecordKind, STRING_CHARSET, STRING_DB,
    server_conn,
};
use tacho_sql::digest::Normaliser;
use tacho_sql::redact;

use super::answer::AnswerRecord;
use super::calls::Gaps;
use super::load::{Buffers, Loaded, Shortfall};
use super::parts::{Known, TextKind, end_of, identify, know, outcome_of, table_of};
use super::secrets::show;
use super::shown_texts::{Texts, is_redacted};
use super::style::{Scratch, Style, Written, is_blocked, write};
use super::wanted;
use crate::drain::Drain;
use crate::join::{CarryOver, Ending, NoText, Open, RecordPlace, Start, StatementEnd};

/// A statement that has a start, and its state.
#[derive(Clone, Copy)]
pub struct Statement<'s> {
    /// Connection id.
    pub conn: u64,
    /// Its start.
    pub open: &'s Open,
    /// How it ended, or that it is running.
    pub ending: &'s Ending,
}

/// Its text and SQL command, according to its records.
struct Said<'v> {
    text: Option<Result<&'v [u8], NoText>>,
    /// Length of the whole text.
    text_bytes: u32,
    /// `None`: it is only in another line.
    kind: Option<&'v TextKind>,
    /// Number of the SQL command; −1: none.
    sql_command: i32,
    is_command_known: bool,
}

impl<'v> Said<'v> {
    fn at_start(
        started: Option<&Loaded<'v>>,
        statement: &Statement<'v>,
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
        match (started, &statement.open.start) {
            (Some(Loaded { view, text }), _) => {
                said.kind = Some(know(known, view, record));
                said.sql_command = view.body.sql_command;
                said.is_command_known = view.body.present & PRESENT_SQL_COMMAND != 0;
                said.text = (view.body.present & PRESENT_TEXT != 0).then_some(*text);
                said.text_bytes = view.body.text_bytes;
            }
            (None, Start::Running { seq, carry_over }) => {
                record.running_seq = Some(*seq);
                let string = |i| carry_over.strings.get(i).map_or(&[][..], Vec::as_slice);
                identify(record, statement.conn, &std::array::from_fn(string));
                // The character set belongs to a text that is in the other line.
                record.sql_charset = &[];
            }
            (None, Start::Record(_)) => {}
        }
        said
    }

    /// Adds the end, which may say which part of the text was executed.
    fn end(&mut self, end: &'v StatementEnd, started_us: i64, record: &mut Record<'v>) {
        outcome_of(record, end);
        if record.query_time_us.is_none() {
            record.query_time_us = u64::try_from(end.ts_us - started_us).ok();
        }
        // The server may assign the query id after the start: it shows the id that the end has.
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

    /// Adds the text of an end: the start has only its beginning, or the session has no slot.
    /// Returns the kind of the text, if it differs from that of the start. `is_told`: all of the
    /// text is in another line.
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

/// The other records of a statement.
#[derive(Default)]
struct Gathered<'v> {
    tables: Vec<TableUse<'v>>,
    /// One of the records is lost, so there may be more tables.
    is_partial: bool,
    /// Tables that the server does not report.
    gaps: Gaps,
    message: Option<&'v [u8]>,
    /// The text after rewriting.
    rewritten: Option<&'v [u8]>,
    /// The parameters as they are in the arena, and the length of all of them if some are missing.
    params: Option<(&'v [u8], u64)>,
    /// What the answer says.
    answer: Option<AnswerRecord<'v>>,
}

impl<'v> Gathered<'v> {
    /// Puts what only a capture knows into the line, except its parameters, which are returned as
    /// JSON. `is_redacted`: something was removed from the shown texts.
    #[inline(always)]
    fn captured(
        &self,
        texts: &Texts<'_>,
        is_redacted: bool,
        record: &mut Record<'v>,
        style: &Style<'_>,
    ) -> Option<Vec<u8>> {
        if let Some(answer) = &self.answer {
            texts.answer(answer, is_redacted, record, style);
        }
        self.params.and_then(|params| texts.params(params, record, style))
    }
}

/// `is_outcome_open`: it has ended, and no end has recorded the outcome.
fn gather<'v>(
    extras: &'v mut Vec<Buffers>,
    drain: &Drain,
    places: &'v [RecordPlace],
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
            RecordKind::Params => {
                gathered.params = text.ok().map(|text| (text, view.figures[0]));
            }
            RecordKind::Answer => gathered.answer = Some(AnswerRecord::read(&view, text)),
            RecordKind::Error => {
                // The last message with the error number of the outcome is its message. If no end
                // recorded that number, the message gives it.
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

/// The message that is kept with its start, if it is the message of the outcome.
fn carried_message<'v>(
    carry_over: Option<&'v CarryOver>,
    is_failed: bool,
    record: &mut Record<'v>,
) -> Option<&'v [u8]> {
    let (errno, text) = carry_over?.error.as_ref()?;
    if record.errno == 0 && is_failed {
        record.errno = *errno;
        record.outcome = Some(Outcome::Error);
    }
    (*errno == record.errno).then_some(text)
}

/// How a statement ended, as far as that is known; `read`: its end, if the record can be read.
#[inline(always)]
fn ended_by<'e>(
    ending: &'e Ending,
    read: Option<&'e StatementEnd>,
) -> (Option<&'e StatementEnd>, &'e Ending) {
    match ending {
        Ending::Read { end, .. } => (Some(end), ending),
        // It has ended, with an unknown outcome.
        Ending::Record(_) if read.is_none() => (None, &Ending::Unknown),
        _ => (read, ending),
    }
}

/// The line of a statement, without its texts, errors and tables.
#[inline(always)]
fn record_of<'r>(seq: u64, statement: &Statement<'_>, run: Option<u64>) -> Record<'r> {
    let Statement { conn, open, ending } = *statement;
    let outcome = match ending {
        Ending::Record(_) | Ending::Read { .. } | Ending::Derived(0) => Outcome::Ok,
        Ending::Derived(_) => Outcome::Error,
        Ending::Unknown => Outcome::Interrupted,
        Ending::Running => Outcome::Running,
    };
    Record {
        seq,
        ts_us: open.ts_us,
        event: Some(EventKind::Statement),
        run,
        conn: server_conn(conn),
        conn_seq: (open.conn_seq != 0).then_some(open.conn_seq),
        query_id: (open.query_id != 0).then_some(open.query_id),
        outcome: Some(outcome),
        errno: if let Ending::Derived(errno) = ending { *errno } else { 0 },
        ..Record::default()
    }
}

/// Length of the whole text, if only its beginning is known.
fn whole_bytes(started: &Loaded<'_>) -> Option<u64> {
    let whole = u64::from(started.view.body.text_bytes);
    started.text.ok().filter(|text| whole > text.len() as u64).map(|_| whole)
}

/// The decision of the filter; `None`: the statement has ended, and is discarded.
#[inline(always)]
fn judge(
    started: Option<&Loaded<'_>>,
    statement: &Statement<'_>,
    said: &Said<'_>,
    gathered: &Gathered<'_>,
    record: &Record<'_>,
    style: &Style<'_>,
    normaliser: &mut Normaliser,
) -> Option<Action> {
    let Some(Loaded { view, .. }) = started else { return Some(Action::default()) };
    let Gathered { tables, is_partial, gaps, .. } = gathered;
    let filter = style.filter(statement.open.ts_us);
    let has_ended = !matches!(statement.ending, Ending::Unknown | Ending::Running);
    let action = wanted::statement(&filter, view, || {
        let text = said.text.and_then(Result::ok).unwrap_or_default();
        let asks_for_tables = filter.uses() & USES_TABLE != 0 && !tables.is_empty();
        has_ended.then(|| wanted::End {
            sql_command: said.is_command_known.then_some(said.sql_command),
            errno: record.errno,
            tables,
            is_partial: *is_partial || gaps.locked,
            may_hide: asks_for_tables
                && gaps.may_hide(record.sql_command, text, said.kind, normaliser),
            command: record.sql_command,
            text,
        })
    });
    // A statement that a rule blocked is always recorded.
    let is_skipped = action.skip && style.may_skip && has_ended && record.blocked_by.is_empty();
    (!is_skipped).then_some(action)
}

/// The state of a start that is in the file.
#[inline(always)]
fn carried(start: &Start) -> Option<&CarryOver> {
    match start {
        Start::Record(_) => None,
        Start::Running { carry_over, .. } => Some(carry_over),
    }
}

/// Writes the line of a statement that has a start, unless it has ended and the filter discards it.
pub fn write_statement(
    out: &mut Vec<u8>,
    drain: &Drain,
    scratch: &mut Scratch,
    style: &mut Style<'_>,
    seq: u64,
    statement: Statement<'_>,
) -> Written {
    let Statement { open, ending, .. } = statement;
    let Scratch { start, end, extras, known, commands, digests, shortfall } = scratch;
    let started = match &open.start {
        Start::Record(place) => start.load(drain, place, shortfall),
        Start::Running { .. } => None,
    };
    let carry_over = carried(&open.start);
    let end_record = match ending {
        Ending::Record(place) => end.load(drain, place, shortfall),
        _ => None,
    };
    let end_of_record = end_record.as_ref().map(|loaded| end_of(&loaded.view));
    let (ended, ending) = ended_by(ending, end_of_record.as_ref());
    let statement = Statement { ending, ..statement };
    let mut record = record_of(seq, &statement, style.run);
    let mut said = Said::at_start(started.as_ref(), &statement, known, &mut record);
    if let Some(end) = ended {
        said.end(end, open.ts_us, &mut record);
    }
    // For the rest of a packet, the `running` line has only its beginning.
    let is_told = carry_over.is_some() && !open.remainder;
    let kind_at_end = end_record
        .as_ref()
        .and_then(|ended| said.end_text(ended, started.as_ref(), is_told, &mut record));
    commands.name(drain, said.sql_command, &mut record);
    let is_outcome_open = ended.is_none() && !matches!(ending, Ending::Running);
    let gathered = gather(extras, drain, &open.extras, is_outcome_open, &mut record, shortfall);
    record.tables = &gathered.tables;
    let message = gathered.message.or_else(|| {
        let is_failed = open.failed && matches!(ending, Ending::Derived(_));
        carried_message(carry_over, is_failed, &mut record)
    });
    let normaliser = digests.normaliser();
    let judged = judge(started.as_ref(), &statement, &said, &gathered, &record, style, normaliser);
    let Some(action) = judged else { return Written::Filtered };
    style.redact_literals |= action.literals;
    let unknown_kind;
    let kind = match kind_at_end.as_ref().or(said.kind) {
        Some(kind) => kind,
        None => {
            unknown_kind = TextKind::of(record.sql_charset, record.db, record.command);
            &unknown_kind
        }
    };
    let texts = Texts {
        text: if action.no_text { None } else { said.text.and_then(Result::ok) },
        text_bytes: said.text_bytes,
        kind,
        is_gone: matches!(said.text, Some(Err(_))) || (action.no_text && said.text.is_some()),
        rewritten: gathered.rewritten,
        action,
        carry_over,
        ended,
    };
    let found = texts.ordinary(&record, style).map(|ordinary| digests.find(&ordinary));
    let (is_parsed, normaliser) = (texts.is_parsed(&record), digests.normaliser());
    let mut show =
        |text, bytes, is_parsed| show(text, bytes, &record, kind, is_parsed, style, normaliser);
    let shown = texts.without_json(found).map(|text| show(text, texts.text_bytes, is_parsed));
    let rewritten = texts.shown_rewritten().map(|text| show(text, 0, false));
    let is_redacted = is_redacted(&shown) || is_redacted(&rewritten);
    let message = message.map(|message| texts.clean(message, is_redacted, &record, style));
    let params = gathered.captured(&texts, is_redacted, &mut record, style);
    record.params = params.as_deref().unwrap_or_default();
    let digests = style.digest.then_some(digests);
    texts.put((&shown, &rewritten), message.as_deref(), (found, digests), &mut record);
    if matches!(ending, Ending::Unknown) && record.sql_bytes.is_none() {
        record.sql_bytes = started.as_ref().and_then(whole_bytes);
    }
    write(out, &mut record, style, shortfall);
    Written::Line
}
