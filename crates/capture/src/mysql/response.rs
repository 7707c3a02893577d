//! The answer to one command: from its first packet to its last one.

use super::answer::{EOF_BYTES, Failure, Ok, eof};
use super::caps;
use super::command::{Answers, Kind, PREPARE, QUERY};
use super::frame::{Keep, Message};
use super::login::name;
use super::read::Reader;

/// Bytes of a packet that may matter: messages, changes of the session.
const KEPT_BYTES: usize = 64 << 10;
/// Packets of at least this length cannot end a result set.
const END_BYTES_MAX: u64 = 0xff_ffff;
/// The longest `info` that is recorded: no text of a server is longer (`MYSQL_ERRMSG_SIZE`).
const INFO_BYTES_MAX: usize = 512;

/// Where an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponsePart {
    /// Before the first packet of a result.
    First,
    /// So many columns are described next.
    Columns(u64),
    /// After the columns: an EOF packet, unless the capabilities omit it.
    ColumnsEnd,
    /// Rows.
    Rows,
    /// The client sends a file.
    File,
    /// Descriptions of parameters, and then of columns, of a prepared statement.
    Prepared {
        params: u16,
        columns: u16,
        /// The last group may be followed by an EOF packet.
        has_group: bool,
    },
    /// Packets that say nothing about the end.
    Stream,
}

/// What a prepared statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Its number.
    pub id: u32,
    /// The number of its parameters.
    pub params: u16,
}

/// How the answer ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The error.
    pub failure: Option<Failure>,
    /// Rows sent.
    pub rows_sent: u64,
    /// Rows affected, unless the last result was a result set.
    pub rows_affected: Option<u64>,
    /// The last value of an `AUTO_INCREMENT` column that a result has; 0: none has.
    pub last_insert_id: u64,
    /// Warnings of all results.
    pub warnings: u64,
    /// The last text about a result.
    pub info: Vec<u8>,
    /// The prepared statement.
    pub prepared: Option<Prepared>,
    /// The new default database.
    pub db: Option<Vec<u8>>,
    /// The new character set of statements.
    pub charset: Option<Vec<u8>>,
    /// Number of results.
    pub results: u32,
}

/// What a packet has meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More follows from the server.
    More,
    /// The client sends a file now.
    ClientSends,
    /// It was the last one: see [`Response::outcome`].
    Done,
    /// It cannot be part of this answer.
    Wrong,
}

/// An answer that is arriving.
#[derive(Debug)]
pub struct Response {
    kind: Kind,
    session_caps: Option<u64>,
    state: ResponsePart,
    outcome: Outcome,
}

impl Response {
    /// The answer to a command of this kind.
    pub fn new(kind: Kind, session_caps: Option<u64>) -> Response {
        let state = match kind.answers {
            Answers::Rows => ResponsePart::Rows,
            Answers::Columns => ResponsePart::Columns(u64::MAX),
            Answers::Stream => ResponsePart::Stream,
            _ => ResponsePart::First,
        };
        Response { kind, session_caps, state, outcome: Outcome::default() }
    }

    /// How much of the next packet is needed.
    pub fn keep(&self) -> Keep<'static> {
        match self.state {
            ResponsePart::First => Keep::First(KEPT_BYTES),
            ResponsePart::Prepared { .. } => Keep::First(16),
            _ => Keep::Row(KEPT_BYTES),
        }
    }

    /// The kind of answer.
    pub fn answers(&self) -> Answers {
        self.kind.answers
    }

    /// How it has ended, after its last packet.
    pub fn outcome(self) -> Outcome {
        self.outcome
    }

    /// Whether the client is sending a file.
    pub fn is_file(&self) -> bool {
        self.state == ResponsePart::File
    }

    /// The client has sent all of the file.
    pub fn end_file(&mut self) {
        self.state = ResponsePart::First;
    }

    fn has(&self, capability: u64) -> Option<bool> {
        self.session_caps.map(|session| session & capability != 0)
    }

    /// Takes the next packet.
    pub fn step(&mut self, message: &Message<'_>) -> Step {
        let Some((&first, rest)) = message.bytes.split_first() else {
            return Step::Wrong;
        };
        if first == 0xff && self.is_progress(rest) {
            return Step::More;
        }
        match self.state {
            ResponsePart::File => Step::Wrong,
            ResponsePart::First => self.first(first, rest, message),
            ResponsePart::Stream if first == 0xff => self.failed(rest, message),
            ResponsePart::Stream if first == 0xfe && message.total == EOF_BYTES => Step::Done,
            ResponsePart::Stream => Step::More,
            ResponsePart::Prepared { .. } => self.prepared(first, message),
            ResponsePart::Columns(left) => self.column(left, first, rest, message),
            ResponsePart::ColumnsEnd => {
                self.state = ResponsePart::Rows;
                let is_eof = first == 0xfe && message.total == EOF_BYTES;
                if !is_eof && self.has(caps::DEPRECATE_EOF) == Some(false) && first != 0xff {
                    return Step::Wrong;
                }
                if !is_eof {
                    return self.row(first, rest, message);
                }
                match eof(rest) {
                    Some(ok) if ok.status & caps::STATUS_CURSOR != 0 => self.end(&ok),
                    Some(_) => Step::More,
                    None => Step::Wrong,
                }
            }
            ResponsePart::Rows => self.row(first, rest, message),
        }
    }

    /// MariaDB reports progress in packets that look like errors with this number.
    fn is_progress(&self, rest: &[u8]) -> bool {
        rest.starts_with(&[0xff, 0xff]) && self.has(caps::MARIADB_PROGRESS) != Some(false)
    }

    fn first(&mut self, first: u8, rest: &[u8], message: &Message<'_>) -> Step {
        match (self.kind.answers, first) {
            (_, 0xff) => self.failed(rest, message),
            (Answers::Text, _) => Step::Done,
            (Answers::Prepared, 0) => self.prepared_ok(rest),
            (Answers::Prepared, _) => Step::Wrong,
            (_, 0) => self.ok(rest, message),
            (Answers::Status | Answers::Unknown, 0xfe) if message.total == EOF_BYTES => Step::Done,
            (Answers::Status | Answers::Unknown, 0xfe) => self.ok(rest, message),
            (Answers::Results, 0xfb) if self.kind.code == QUERY => {
                self.state = ResponsePart::File;
                Step::ClientSends
            }
            (Answers::Results, _) if message.is_whole() => match self.column_count(message.bytes) {
                Some((columns, has_metadata)) => {
                    let described = if has_metadata { columns } else { 0 };
                    self.state = ResponsePart::Columns(described);
                    if described == 0 {
                        self.state = ResponsePart::ColumnsEnd;
                    }
                    Step::More
                }
                None => Step::Wrong,
            },
            _ => Step::Wrong,
        }
    }

    /// The number of columns, and whether they are described.
    fn column_count(&self, payload: &[u8]) -> Option<(u64, bool)> {
        let mut reader = Reader::new(payload);
        let count = reader.lenenc();
        let flag = reader.u8();
        if let (Some(count @ 1..), None) = (count, flag) {
            return Some((count, true));
        }
        let may_have = |capability| self.has(capability) != Some(false);
        if !may_have(caps::MARIADB_CACHE_METADATA) && !may_have(caps::OPTIONAL_METADATA) {
            return None;
        }
        // Behind the number: 0 before it would be an OK packet.
        let (Some(count @ 1..), Some(flag @ 0..=1)) = (count, flag) else { return None };
        reader.is_empty().then_some((count, flag == 1))
    }

    fn column(&mut self, left: u64, first: u8, rest: &[u8], message: &Message<'_>) -> Step {
        // Those of `COM_FIELD_LIST` have no number.
        if left == u64::MAX {
            return match first {
                0xff => self.failed(rest, message),
                // A description begins with a short text; this may have changes of the session.
                0xfe => Step::Done,
                _ => Step::More,
            };
        }
        if first == 0xff {
            return self.failed(rest, message);
        }
        self.state = match left - 1 {
            0 => ResponsePart::ColumnsEnd,
            left => ResponsePart::Columns(left),
        };
        Step::More
    }

    fn row(&mut self, first: u8, rest: &[u8], message: &Message<'_>) -> Step {
        match first {
            0xff => self.failed(rest, message),
            0xfe if message.total == EOF_BYTES => match eof(rest) {
                Some(ok) => self.end(&ok),
                None => Step::Wrong,
            },
            0xfe if message.total < END_BYTES_MAX => match Ok::read(rest, self.session_caps) {
                Some(ok) => self.end(&ok),
                None => Step::Wrong,
            },
            _ => {
                self.outcome.rows_sent += 1;
                Step::More
            }
        }
    }

    fn ok(&mut self, rest: &[u8], message: &Message<'_>) -> Step {
        let Some(ok) = Ok::read(rest, self.session_caps).filter(|_| !message.is_damaged) else {
            return Step::Wrong;
        };
        self.note(&ok);
        self.outcome.results += 1;
        let before = self.outcome.rows_affected.unwrap_or(0);
        self.outcome.rows_affected = Some(before.saturating_add(ok.affected));
        self.after_result(ok.status)
    }

    /// What the packet at the end of a result says, except the rows.
    fn note(&mut self, ok: &Ok<'_>) {
        let Outcome { db, charset, last_insert_id, warnings, info, .. } = &mut self.outcome;
        *warnings += u64::from(ok.warnings);
        if ok.last_insert_id != 0 {
            *last_insert_id = ok.last_insert_id;
        }
        if (1..=INFO_BYTES_MAX).contains(&ok.info.len()) {
            *info = ok.info.to_vec();
        }
        if let Some(new) = ok.db {
            *db = Some(name(new));
        }
        if let Some(new) = ok.charset {
            *charset = Some(name(new));
        }
    }

    /// A result set has ended.
    fn end(&mut self, ok: &Ok<'_>) -> Step {
        self.note(ok);
        self.outcome.results += 1;
        self.after_result(ok.status)
    }

    fn after_result(&mut self, status: u16) -> Step {
        if status & caps::STATUS_MORE_RESULTS == 0 || self.kind.answers != Answers::Results {
            return Step::Done;
        }
        self.state = ResponsePart::First;
        Step::More
    }

    fn failed(&mut self, rest: &[u8], message: &Message<'_>) -> Step {
        match Failure::read(rest).filter(|_| !message.is_damaged) {
            Some(failure) => {
                self.outcome.failure = Some(failure);
                self.outcome.rows_affected = None;
                self.outcome.last_insert_id = 0;
                self.outcome.warnings = 0;
                self.outcome.info = Vec::new();
                Step::Done
            }
            None => Step::Wrong,
        }
    }

    fn prepared_ok(&mut self, rest: &[u8]) -> Step {
        let mut reader = Reader::new(rest);
        let (Some(id), Some(columns), Some(params)) = (reader.u32(), reader.u16(), reader.u16())
        else {
            return Step::Wrong;
        };
        self.outcome.prepared = Some(Prepared { id, params });
        self.outcome.results += 1;
        let warnings = reader.take(1).and_then(|_| reader.u16());
        self.outcome.warnings = warnings.map_or(0, u64::from);
        let is_described = warnings.and_then(|_| reader.u8()) != Some(0);
        if (params == 0 && columns == 0) || !is_described {
            return Step::Done;
        }
        self.state = ResponsePart::Prepared { params, columns, has_group: false };
        Step::More
    }

    /// A description, or the EOF packet behind a group of them.
    fn prepared(&mut self, first: u8, message: &Message<'_>) -> Step {
        let ResponsePart::Prepared { mut params, mut columns, mut has_group } = self.state else {
            return Step::Wrong;
        };
        let omits_eof = self.has(caps::DEPRECATE_EOF);
        let is_eof = first == 0xfe && message.total == EOF_BYTES;
        if is_eof {
            if !has_group || omits_eof == Some(true) {
                return Step::Wrong;
            }
            has_group = false;
        } else if has_group && omits_eof == Some(false) {
            return Step::Wrong;
        } else if params > 0 {
            params -= 1;
            has_group = params == 0;
        } else if columns > 0 {
            columns -= 1;
            has_group = columns == 0;
        } else {
            return Step::Wrong;
        }
        self.state = ResponsePart::Prepared { params, columns, has_group };
        // If the capabilities are not known, an EOF packet may still follow: the session ignores
        // it.
        let is_over = params == 0 && columns == 0 && (!has_group || omits_eof != Some(false));
        if is_over { Step::Done } else { Step::More }
    }

    /// Whether an EOF packet may follow the last one.
    pub fn may_have_eof(&self) -> bool {
        self.session_caps.is_none() && self.kind.code == PREPARE
    }
}

#[cfg(test)]
mod tests;
