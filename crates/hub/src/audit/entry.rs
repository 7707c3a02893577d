//! One record of the hub's own log, before it has its number.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tacho_record::json::write_line;
use tacho_record::time::TimeFormatter;
use tacho_record::{Attribute, EventKind, Outcome, Record};
use tacho_ship::protocol::Origin;

use super::outbox;
use super::sessions::RecordNumber;
use crate::clock::now_us;
use crate::database::{Database, DatabaseError};
use crate::roles::{Roles, Scope};

/// Longest text of a request that is kept, bytes; `sql_bytes` has its length.
const TEXT_MAX: usize = 64 << 10;
/// Longest other text, characters.
const WORDS_MAX: usize = 2_000;
/// The attribute that identifies a session or token over restarts.
const SESSION: &str = "session";

/// The event of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A sign-in.
    Connect,
    /// A sign-in or a token that was refused.
    ConnectFailed,
    /// The end of a session.
    Disconnect,
    /// A question: search, SQL, a record, an export.
    #[default]
    Statement,
    /// A change: accounts, tokens, rules, alerts.
    Config,
}

impl Kind {
    fn event(self) -> EventKind {
        match self {
            Self::Connect => EventKind::Connect,
            Self::ConnectFailed => EventKind::ConnectFailed,
            Self::Disconnect => EventKind::Disconnect,
            Self::Statement => EventKind::Statement,
            Self::Config => EventKind::Config,
        }
    }
}

/// Where a request comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestSource {
    /// Identifies a session or a token without being a secret; empty: none.
    pub session: String,
    /// Address of the client.
    pub ip: Option<IpAddr>,
    /// Name that the client's program gives itself.
    pub program: String,
    /// Account of the operating system, of a command on the hub's machine.
    pub os_user: String,
}

impl RequestSource {
    /// A command on the hub's machine.
    #[must_use]
    pub fn command(name: &str) -> Self {
        let os_user = format!("uid {}", rustix::process::getuid().as_raw());
        Self { program: format!("tacho-hub {name}"), os_user, ..Self::default() }
    }

    /// Identifies a cookie or a token in records, by the hash of it: the first digits, from which
    /// the secret cannot be made.
    #[must_use]
    pub fn session_of(hash: &[u8]) -> String {
        hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// When it happened, µs since 1970-01-01 UTC.
    pub ts_us: i64,
    /// Its event.
    pub kind: Kind,
    /// Account, or name of a token.
    pub user: String,
    /// Where the request comes from.
    pub source: RequestSource,
    /// Kind of the question.
    pub command: String,
    /// Text of the question: a search, or SQL.
    pub text: Option<String>,
    /// Status of the answer, if it is 400 or more.
    pub status: u16,
    /// Its message.
    pub error: String,
    /// Records or rows in the answer.
    pub rows: Option<u64>,
    /// How long the answer took, µs.
    pub took_us: Option<u64>,
    /// What was changed.
    pub variable: String,
    /// Its value before.
    pub old_value: String,
    /// Its value after.
    pub new_value: String,
    /// Further facts: names and values.
    pub attributes: Vec<(String, String)>,
}

impl Entry {
    /// A record of now.
    #[must_use]
    pub fn new(kind: Kind, user: &str, source: RequestSource) -> Self {
        Self { ts_us: now_us(), kind, user: user.to_owned(), source, ..Self::default() }
    }

    /// A question of a command on the hub's machine. `command`: its kind, as of one of the API.
    #[must_use]
    pub fn asked_by_command(name: &str, command: &str, text: &str) -> Self {
        let (command, text) = (command.to_owned(), Some(text.to_owned()));
        Self { command, text, ..Self::new(Kind::Statement, "", RequestSource::command(name)) }
    }

    /// Stores it in the database, from where the log gets it.
    ///
    /// # Errors
    /// The database fails.
    pub fn store(&self, database: &Database) -> Result<(), DatabaseError> {
        database.write(|transaction| outbox::put(transaction, self))
    }

    /// A change.
    #[must_use]
    pub fn change(user: &str, source: RequestSource, variable: &str, old: &str, new: &str) -> Self {
        let (variable, old_value, new_value) = (variable.into(), old.into(), new.into());
        Self { variable, old_value, new_value, ..Self::new(Kind::Config, user, source) }
    }

    /// The same with another fact, unless its value is empty.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        if !value.is_empty() {
            self.attributes.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// The same for a request that was refused or failed.
    #[must_use]
    pub fn failed(mut self, status: u16, message: &str) -> Self {
        (self.status, self.error) = (status, message.to_owned());
        self
    }

    fn outcome(&self) -> Option<Outcome> {
        match self.kind {
            Kind::Disconnect | Kind::Config if self.status == 0 => None,
            _ if self.status == 0 => Some(Outcome::Ok),
            _ => Some(Outcome::Error),
        }
    }

    /// Appends its line. `run`: `seq` of the `start` line; `place`: its session in this run.
    pub(super) fn append(
        &self,
        out: &mut Vec<u8>,
        seq: u64,
        run: u64,
        place: Option<RecordNumber>,
        clock: &mut TimeFormatter,
    ) {
        let cut = |text: &str| text.chars().take(WORDS_MAX).collect::<String>();
        let [user, command, error, variable, old_value, new_value, program, os_user] = [
            &self.user,
            &self.command,
            &self.error,
            &self.variable,
            &self.old_value,
            &self.new_value,
            &self.source.program,
            &self.source.os_user,
        ]
        .map(|text| cut(text));
        let mut facts = self.attributes.clone();
        if !self.source.session.is_empty() {
            facts.insert(0, (SESSION.to_owned(), self.source.session.clone()));
        }
        let facts: Vec<(String, String)> =
            facts.iter().map(|(key, value)| (cut(key), cut(value))).collect();
        let attributes: Vec<Attribute<'_>> = facts
            .iter()
            .map(|(key, value)| Attribute { key: key.as_bytes(), value: value.as_bytes() })
            .collect();
        let text = self.text.as_deref().map(kept);
        let is_cut = self.text.as_ref().map(String::len) != text.map(str::len);
        let ip = self.source.ip.map(|ip| ip.to_string()).unwrap_or_default();
        let record = Record {
            seq,
            ts_us: self.ts_us,
            event: Some(self.kind.event()),
            outcome: self.outcome(),
            run: Some(run),
            conn: place.map(|place| place.conn),
            conn_seq: place.map(|place| place.conn_seq),
            user: user.as_bytes(),
            os_user: os_user.as_bytes(),
            ip: ip.as_bytes(),
            command: command.as_bytes(),
            errno: self.status.into(),
            error: error.as_bytes(),
            sql: text.map(str::as_bytes),
            sql_bytes: self.text.as_ref().filter(|_| is_cut).map(|text| text.len() as u64),
            sql_charset: if text.is_some() { b"utf8mb4" } else { b"" },
            rows_sent: self.rows,
            query_time_us: self.took_us,
            program: program.as_bytes(),
            variable: variable.as_bytes(),
            old_value: old_value.as_bytes(),
            new_value: new_value.as_bytes(),
            attributes: &attributes,
            ..Record::default()
        };
        write_line(out, &record, clock);
    }
}

/// The person who makes accounts and tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maker {
    /// The account, or the name of a token; empty: a command on the hub's machine.
    pub user: String,
    /// Where the request comes from.
    pub source: RequestSource,
}

impl Maker {
    /// A command on the hub's machine.
    #[must_use]
    pub fn command(name: &str) -> Self {
        Self { user: String::new(), source: RequestSource::command(name) }
    }

    /// The record of what was made. `variable`: what it is.
    #[must_use]
    pub fn made(&self, variable: &str, name: &str, roles: Roles, scope: &Scope) -> Entry {
        let servers = scope
            .servers()
            .map(|servers| servers.iter().map(Origin::as_str).collect::<Vec<_>>().join(","));
        Entry::change(&self.user, self.source.clone(), variable, "", name)
            .with("roles", &roles.to_string())
            .with("servers", servers.as_deref().unwrap_or("all"))
    }
}

/// The part of a text that is kept.
fn kept(text: &str) -> &str {
    let end = (0..=text.len().min(TEXT_MAX)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use tacho_record::Line;

    use super::*;

    fn line(entry: &Entry, place: Option<RecordNumber>) -> String {
        let mut out = Vec::new();
        entry.append(&mut out, 7, 1, place, &mut TimeFormatter::utc());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_question_is_a_statement_with_its_text() {
        let source = RequestSource {
            session: "00ff".to_owned(),
            ip: Some("10.0.0.1".parse().unwrap()),
            ..RequestSource::default()
        };
        let mut entry = Entry::new(Kind::Statement, "ann", source).with("role", "auditor");
        (entry.ts_us, entry.command, entry.rows) = (0, "Search".to_owned(), Some(3));
        entry.text = Some("user:\"bob\"".to_owned());
        assert_eq!(
            line(&entry, Some(RecordNumber { conn: 2, conn_seq: 5 })),
            "{\"v\":1,\"seq\":7,\"ts\":\"1970-01-01T00:00:00.000000+00:00\",\
             \"event\":\"statement\",\"outcome\":\"ok\",\"run\":1,\"conn\":2,\"conn_seq\":5,\
             \"user\":\"ann\",\"ip\":\"10.0.0.1\",\"command\":\"Search\",\
             \"sql\":\"user:\\\"bob\\\"\",\"sql_charset\":\"utf8mb4\",\"rows_sent\":3,\
             \"attributes\":[{\"key\":\"session\",\"value\":\"00ff\"},\
             {\"key\":\"role\",\"value\":\"auditor\"}]}\n"
        );
    }

    #[test]
    fn a_long_text_is_cut_between_two_characters() {
        let mut entry = Entry::new(Kind::Statement, "ann", RequestSource::default());
        entry.text = Some(format!("x{}", "é".repeat(TEXT_MAX)));
        let text = line(&entry, None);
        let line = Line::parse(text.trim_end().as_bytes()).unwrap();
        let sql = line.sql.text.as_deref().unwrap();
        assert_eq!((sql.len(), line.sql_bytes), (TEXT_MAX - 1, Some(1 + 2 * TEXT_MAX as u64)));
    }

    #[test]
    fn a_refusal_has_its_status() {
        let entry =
            Entry::new(Kind::ConnectFailed, "ann", RequestSource::default()).failed(401, "no");
        let text = line(&entry, None);
        assert!(text.contains("\"event\":\"connect_failed\",\"outcome\":\"error\""), "{text}");
        assert!(text.contains("\"errno\":401,\"error\":\"no\""), "{text}");
    }

    #[test]
    fn a_session_shows_a_part_of_its_hash() {
        assert_eq!(RequestSource::session_of(&[0xab; 32]), "ab".repeat(8));
    }
}
