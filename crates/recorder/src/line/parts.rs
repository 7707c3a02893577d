//! The fields of a record in a line.

use tacho_record::charset::Charset;
use tacho_record::json;
use tacho_record::{Outcome, Record, TableAccess, TableUse};
use tacho_ring::codec::{
    Captured, PRESENT_ANSWER, PRESENT_LOCK_TIME, PRESENT_QUERY_TIME, PRESENT_ROWS_AFFECTED,
    PRESENT_ROWS_EXAMINED, PRESENT_ROWS_SENT, STRING_CHARSET, STRING_COMMAND, STRING_COUNT,
    STRING_DB, STRING_HOST, STRING_IP, STRING_OS_USER, STRING_PRIV_USER, STRING_PROXY_USER,
    STRING_USER, View, is_captured,
};
use tacho_sql::redact;

use tacho_ring::layout::NameEntry;

use crate::drain::{Drain, EndParts};
use crate::join::StatementEnd;

/// Identity of a connection in its last line: the strings of the record, and their JSON.
pub(super) struct Known {
    lengths: [u16; STRING_COUNT],
    strings: Vec<u8>,
    /// It is one of a capture: the same strings mean something else then.
    is_captured: bool,
    /// JSON of the fields from `user` to `session`.
    json: Vec<u8>,
    /// The character set, if the server's name for it is a known one.
    charset: Option<&'static Charset>,
    text: TextKind,
}

/// Kind of the text of a record.
#[derive(Clone, Copy)]
pub(super) struct TextKind {
    /// The setting for its redaction.
    pub(super) setting: redact::Setting,
    /// It is SQL.
    pub(super) is_sql: bool,
    /// It is the name of a database. Otherwise it is the argument of another command.
    pub(super) is_name: bool,
}

impl TextKind {
    pub(super) fn of(charset: &[u8], db: &[u8], command: &[u8]) -> TextKind {
        let is_sql = matches!(command, b"Query" | b"Prepare" | b"Execute" | b"Bulk_execute");
        let is_name = command == b"Init DB";
        TextKind { setting: redact::Setting::of(charset, db), is_sql, is_name }
    }
}

impl Default for Known {
    fn default() -> Known {
        let text = TextKind::of(&[], &[], &[]);
        Known {
            lengths: [0; STRING_COUNT],
            strings: Vec::new(),
            is_captured: false,
            json: Vec::new(),
            charset: None,
            text,
        }
    }
}

/// Number of connections whose last identity is cached; the last bits of the id select the entry.
const KNOWN_COUNT: usize = 256;

/// Sets the identity in `record` from the strings of `view`. Returns the kind of its text.
// Inlined: then only the needed fields of the record are read.
#[inline(always)]
pub(super) fn know<'v>(
    known: &'v mut Vec<Known>,
    view: &View<'v>,
    record: &mut Record<'v>,
) -> &'v TextKind {
    if known.is_empty() {
        known.resize_with(KNOWN_COUNT, Known::default);
    }
    let conn = view.header.conn;
    let known = &mut known[conn as usize % KNOWN_COUNT];
    if known.lengths != view.body.string_bytes
        || known.is_captured != is_captured(conn)
        || known.strings != view.string_bytes()
    {
        known.renew(*view);
    }
    record.identity = &known.json;
    record.charset = known.charset;
    if known.charset.is_none() {
        record.sql_charset = view.string(STRING_CHARSET);
    }
    &known.text
}

impl Known {
    #[inline(never)]
    fn renew(&mut self, view: View<'_>) {
        self.lengths = view.body.string_bytes;
        self.strings.clear();
        self.strings.extend_from_slice(view.string_bytes());
        self.is_captured = is_captured(view.header.conn);
        let mut record = Record::default();
        identify(&mut record, view.header.conn, &view.strings());
        self.json.clear();
        json::write_identity(&mut self.json, &record);
        self.charset = Charset::by_name(record.sql_charset)
            .filter(|charset| charset.name().as_bytes() == record.sql_charset);
        self.text = TextKind::of(record.sql_charset, record.db, record.command);
    }
}

pub(super) fn identify<'v>(record: &mut Record<'v>, conn: u64, strings: &[&'v [u8]; STRING_COUNT]) {
    record.user = strings[STRING_USER];
    record.priv_user = strings[STRING_PRIV_USER];
    match Captured::read(conn, strings[STRING_PROXY_USER]) {
        None => record.proxy_user = strings[STRING_PROXY_USER],
        Some(captured) => capture_of(record, &captured),
    }
    record.os_user = strings[STRING_OS_USER];
    record.host = strings[STRING_HOST];
    record.ip = strings[STRING_IP];
    record.db = strings[STRING_DB];
    record.command = strings[STRING_COMMAND];
    record.sql_charset = strings[STRING_CHARSET];
}

/// Fields that only the records of a capture have.
pub(super) fn capture_of<'v>(record: &mut Record<'v>, captured: &Captured<'v>) {
    record.source = b"capture";
    record.server_addr = captured.server_addr;
    record.session = captured.session;
    record.port = std::str::from_utf8(captured.port).ok().and_then(|port| port.parse().ok());
}

/// How a statement ended, according to its record.
pub(super) fn end_of(view: &View<'_>) -> StatementEnd {
    StatementEnd {
        ts_us: view.header.ts_us,
        query_id: view.header.query_id,
        errno: view.body.errno,
        present: view.body.present,
        shown_bytes: view.body.shown_bytes,
        parts: EndParts {
            sql_command: view.body.sql_command,
            sqlstate: view.body.sqlstate,
            figures: view.figures,
        },
    }
}

pub(super) fn outcome_of(record: &mut Record<'_>, end: &StatementEnd) {
    record.errno = end.errno;
    record.outcome = Some(if end.errno == 0 { Outcome::Ok } else { Outcome::Error });
    let figure = |bit, i: usize| (end.present & bit != 0).then(|| end.parts.figures[i]);
    record.rows_sent = figure(PRESENT_ROWS_SENT, 0);
    record.rows_examined = figure(PRESENT_ROWS_EXAMINED, 1);
    record.rows_affected = figure(PRESENT_ROWS_AFFECTED, 2);
    record.query_time_us = figure(PRESENT_QUERY_TIME, 3);
    if end.present & PRESENT_LOCK_TIME != 0 {
        record.lock_time_us = Some(end.parts.figures[4]);
    } else if end.present & PRESENT_ANSWER != 0 {
        // Of a capture only, which has no lock time: other ends hardly get here.
        record.bytes_sent = Some(end.parts.figures[1]);
        record.first_byte_us = Some(end.parts.figures[4]);
    }
}

pub(super) fn table_of<'v>(view: &View<'v>) -> TableUse<'v> {
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

/// The names of SQL commands, as they are in the arena and in a line.
#[derive(Default)]
pub(super) struct Commands(Vec<Command>);

#[derive(Clone, Default)]
struct Command {
    entry: [u8; 32],
    name_bytes: usize,
    json: Vec<u8>,
}

impl Commands {
    /// Sets `sql_command` in `record` from its number.
    #[inline]
    pub(super) fn name<'c>(&'c mut self, drain: &Drain, number: i32, record: &mut Record<'c>) {
        let Ok(number) = usize::try_from(number) else { return };
        let Some(NameEntry(entry)) = drain.arena().name(number) else { return };
        if self.0.get(number).is_none_or(|command| command.entry != entry) {
            self.renew(number, entry);
        }
        let command = &self.0[number];
        record.sql_command = &command.entry[..command.name_bytes];
        record.sql_command_json = &command.json;
    }

    #[inline(never)]
    fn renew(&mut self, number: usize, entry: [u8; 32]) {
        if self.0.len() <= number {
            self.0.resize(number + 1, Command::default());
        }
        let name_bytes = entry.iter().position(|b| *b == 0).unwrap_or(entry.len());
        let mut json = Vec::new();
        json::write_sql_command(&mut json, &entry[..name_bytes]);
        self.0[number] = Command { entry, name_bytes, json };
    }
}
