//! A record that owns its bytes: what a line of the log says, without loss.

use jiff::Timestamp;
use tacho_record::charset::{Charset, RestoreError, restore};
use tacho_record::{Attribute, EventKind, Outcome, Record, TableAccess, TableUse};

use crate::line::{self, Line, Touched};

/// Why a line that parses is not a record.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LineError {
    /// It has no number, or number 0.
    #[error("`seq` is missing or 0")]
    Seq,
    /// A word that its field does not have in version 1.
    #[error("`{field}` is {word:?}, which version 1 does not have")]
    Word {
        /// The field.
        field: &'static str,
        /// What it has.
        word: String,
    },
    /// The original bytes of a field cannot be had from it.
    #[error("field `{field}`: {source}")]
    Text {
        /// The field.
        field: &'static str,
        /// Why.
        source: RestoreError,
    },
}

/// One line of the log. The fields are those of [`Record`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names and meanings are those of tacho_record::Record")]
pub struct OwnedRecord {
    pub seq: u64,
    pub ts_us: i64,
    pub event: Option<EventKind>,
    pub outcome: Option<Outcome>,
    pub run: Option<u64>,
    pub conn: Option<u64>,
    pub conn_seq: Option<u64>,
    pub query_id: Option<u64>,
    pub user: Vec<u8>,
    pub priv_user: Vec<u8>,
    pub proxy_user: Vec<u8>,
    pub os_user: Vec<u8>,
    pub host: Vec<u8>,
    pub ip: Vec<u8>,
    pub port: Option<u16>,
    pub db: Vec<u8>,
    pub command: Vec<u8>,
    pub sql_command: Vec<u8>,
    pub errno: u32,
    pub sqlstate: Vec<u8>,
    pub error: Vec<u8>,
    pub blocked_by: Vec<u8>,
    /// In the character set `sql_charset`.
    pub sql: Option<Vec<u8>>,
    pub sql_bytes: Option<u64>,
    pub sql_redacted: bool,
    pub sql_charset: Vec<u8>,
    pub digest: Vec<u8>,
    pub rewrite_rule: Option<u64>,
    /// In the character set `sql_charset`.
    pub rewritten_query: Option<Vec<u8>>,
    pub tables: Vec<OwnedTable>,
    pub rows_sent: Option<u64>,
    pub rows_examined: Option<u64>,
    pub rows_affected: Option<u64>,
    pub query_time_us: Option<u64>,
    pub lock_time_us: Option<u64>,
    pub start_ts_us: Option<i64>,
    pub running_seq: Option<u64>,
    pub count: Option<u64>,
    pub cause: Vec<u8>,
    pub server: Vec<u8>,
    pub program: Vec<u8>,
    pub tls: Vec<u8>,
    pub signing_key: Vec<u8>,
    pub variable: Vec<u8>,
    pub old_value: Vec<u8>,
    pub new_value: Vec<u8>,
    pub class: Vec<u8>,
    pub action: Vec<u8>,
    pub object: Vec<u8>,
    pub producer: Vec<u8>,
    pub detail: Vec<u8>,
    pub detail_bytes: Option<u64>,
    /// Key and value.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// One entry of `tables`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names and meanings are those of tacho_record::TableUse")]
pub struct OwnedTable {
    pub access: TableAccess,
    pub db: Vec<u8>,
    pub table: Vec<u8>,
    pub new_db: Vec<u8>,
    pub new_table: Vec<u8>,
}

/// The bytes of a name or message.
macro_rules! bytes {
    ($line:expr, $field:ident, $companion:ident) => {
        original(stringify!($field), &$line.$field, $line.$companion.as_deref(), Charset::UTF8MB4)?
    };
}

impl OwnedRecord {
    /// The record of a line.
    ///
    /// # Errors
    /// When the line was not written by the recorder, or was changed afterwards.
    pub fn of_line(line: &Line) -> Result<Self, LineError> {
        if line.seq == 0 {
            return Err(LineError::Seq);
        }
        let sql_charset = bytes!(line, sql_charset, sql_charset_b64);
        let charset = Charset::by_name(&sql_charset).unwrap_or(Charset::BINARY);
        let sql = line.sql.as_deref();
        let sql = sql.map(|text| original("sql", text, line.sql_b64.as_deref(), charset));
        let rewritten = line.rewritten_query.as_deref().map(|text| {
            original("rewritten_query", text, line.rewritten_query_b64.as_deref(), charset)
        });
        let tables = line.tables.iter().map(OwnedTable::of_line);
        Ok(Self {
            seq: line.seq,
            ts_us: line.ts.as_microsecond(),
            event: Some(word("event", &line.event, &EventKind::ALL, EventKind::name)?),
            outcome: match &*line.outcome {
                "" => None,
                outcome => Some(word("outcome", outcome, &Outcome::ALL, Outcome::name)?),
            },
            run: line.run,
            conn: line.conn,
            conn_seq: line.conn_seq,
            query_id: line.query_id,
            user: bytes!(line, user, user_b64),
            priv_user: bytes!(line, priv_user, priv_user_b64),
            proxy_user: bytes!(line, proxy_user, proxy_user_b64),
            os_user: bytes!(line, os_user, os_user_b64),
            host: bytes!(line, host, host_b64),
            ip: bytes!(line, ip, ip_b64),
            port: line.port,
            db: bytes!(line, db, db_b64),
            command: bytes!(line, command, command_b64),
            sql_command: bytes!(line, sql_command, sql_command_b64),
            errno: line.errno,
            sqlstate: bytes!(line, sqlstate, sqlstate_b64),
            error: bytes!(line, error, error_b64),
            blocked_by: bytes!(line, blocked_by, blocked_by_b64),
            sql: sql.transpose()?,
            sql_bytes: line.sql_bytes,
            sql_redacted: line.sql_redacted,
            sql_charset,
            digest: line.digest.as_bytes().to_vec(),
            rewrite_rule: line.rewrite_rule,
            rewritten_query: rewritten.transpose()?,
            tables: tables.collect::<Result<_, _>>()?,
            rows_sent: line.rows_sent,
            rows_examined: line.rows_examined,
            rows_affected: line.rows_affected,
            query_time_us: line.query_time_us,
            lock_time_us: line.lock_time_us,
            start_ts_us: line.start_ts.map(Timestamp::as_microsecond),
            running_seq: line.running_seq,
            count: line.count,
            cause: bytes!(line, cause, cause_b64),
            server: bytes!(line, server, server_b64),
            program: bytes!(line, program, program_b64),
            tls: bytes!(line, tls, tls_b64),
            signing_key: bytes!(line, signing_key, signing_key_b64),
            variable: bytes!(line, variable, variable_b64),
            old_value: bytes!(line, old_value, old_value_b64),
            new_value: bytes!(line, new_value, new_value_b64),
            class: bytes!(line, class, class_b64),
            action: bytes!(line, action, action_b64),
            object: bytes!(line, object, object_b64),
            producer: bytes!(line, producer, producer_b64),
            detail: bytes!(line, detail, detail_b64),
            detail_bytes: line.detail_bytes,
            attributes: line.attributes.iter().map(attribute).collect::<Result<_, _>>()?,
        })
    }

    /// Gives `use_it` the record as the formatters take it.
    pub fn with<R>(&self, use_it: impl FnOnce(&Record) -> R) -> R {
        let tables: Vec<TableUse> = self.tables.iter().map(OwnedTable::borrow).collect();
        let attributes = self.attributes.iter().map(|(key, value)| Attribute { key, value });
        let attributes: Vec<Attribute> = attributes.collect();
        use_it(&Record {
            seq: self.seq,
            ts_us: self.ts_us,
            event: self.event,
            outcome: self.outcome,
            run: self.run,
            conn: self.conn,
            conn_seq: self.conn_seq,
            query_id: self.query_id,
            user: &self.user,
            priv_user: &self.priv_user,
            proxy_user: &self.proxy_user,
            os_user: &self.os_user,
            host: &self.host,
            ip: &self.ip,
            port: self.port,
            db: &self.db,
            command: &self.command,
            sql_command: &self.sql_command,
            errno: self.errno,
            sqlstate: &self.sqlstate,
            error: &self.error,
            blocked_by: &self.blocked_by,
            sql: self.sql.as_deref(),
            sql_bytes: self.sql_bytes,
            sql_redacted: self.sql_redacted,
            sql_charset: &self.sql_charset,
            digest: &self.digest,
            rewrite_rule: self.rewrite_rule,
            rewritten_query: self.rewritten_query.as_deref(),
            tables: &tables,
            rows_sent: self.rows_sent,
            rows_examined: self.rows_examined,
            rows_affected: self.rows_affected,
            query_time_us: self.query_time_us,
            lock_time_us: self.lock_time_us,
            start_ts_us: self.start_ts_us,
            running_seq: self.running_seq,
            count: self.count,
            cause: &self.cause,
            server: &self.server,
            program: &self.program,
            tls: &self.tls,
            signing_key: &self.signing_key,
            variable: &self.variable,
            old_value: &self.old_value,
            new_value: &self.new_value,
            class: &self.class,
            action: &self.action,
            object: &self.object,
            producer: &self.producer,
            detail: &self.detail,
            detail_bytes: self.detail_bytes,
            attributes: &attributes,
            ..Record::default()
        })
    }
}

fn attribute(line: &line::Attribute) -> Result<(Vec<u8>, Vec<u8>), LineError> {
    Ok((bytes!(line, key, key_b64), bytes!(line, value, value_b64)))
}

impl OwnedTable {
    fn of_line(line: &Touched) -> Result<Self, LineError> {
        Ok(Self {
            access: word("access", &line.access, &ACCESSES, TableAccess::name)?,
            db: bytes!(line, db, db_b64),
            table: bytes!(line, table, table_b64),
            new_db: bytes!(line, new_db, new_db_b64),
            new_table: bytes!(line, new_table, new_table_b64),
        })
    }

    fn borrow(&self) -> TableUse<'_> {
        TableUse {
            access: self.access,
            db: &self.db,
            table: &self.table,
            new_db: &self.new_db,
            new_table: &self.new_table,
        }
    }
}

fn original(
    field: &'static str,
    text: &str,
    companion: Option<&str>,
    charset: &Charset,
) -> Result<Vec<u8>, LineError> {
    restore(text, companion, charset).map_err(|source| LineError::Text { field, source })
}

const ACCESSES: [TableAccess; 6] = [
    TableAccess::Read,
    TableAccess::Write,
    TableAccess::Create,
    TableAccess::Drop,
    TableAccess::Rename,
    TableAccess::Alter,
];

fn word<T: Copy>(
    field: &'static str,
    word: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, LineError> {
    let found = all.iter().find(|one| name(**one) == word);
    found.copied().ok_or_else(|| LineError::Word { field, word: word.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(fields: &str) -> Result<OwnedRecord, LineError> {
        let text = format!(r#"{{"v":1,"ts":"2026-11-21T10:00:00.000001+01:00",{fields}}}"#);
        OwnedRecord::of_line(&Line::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let refused = |fields| record(fields).unwrap_err().to_string();
        assert_eq!(refused(r#""event":"stop""#), "`seq` is missing or 0");
        assert_eq!(
            refused(r#""seq":1,"event":"party""#),
            "`event` is \"party\", which version 1 does not have"
        );
        let access = r#""seq":1,"event":"table","tables":[{"access":"eat","db":"d","table":"t"}]"#;
        assert!(refused(access).starts_with("`access` is \"eat\""));
        assert!(refused(r#""seq":1,"event":"stop","user":"x","user_b64":"*""#).contains("base64"));
        let unknown = r#""seq":1,"event":"statement","sql":"ä","sql_charset":"ascii""#;
        assert_eq!(refused(unknown), "field `sql`: character set ascii has no 'ä'");
    }

    #[test]
    fn no_text_and_an_empty_text_differ() {
        assert_eq!(record(r#""seq":1,"event":"statement""#).unwrap().sql, None);
        let empty = record(r#""seq":1,"event":"statement","sql":"","sql_charset":"utf8mb4""#);
        assert_eq!(empty.unwrap().sql, Some(Vec::new()));
    }
}
