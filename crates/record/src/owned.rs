//! A record that owns its bytes: the content of a line of the log, without loss.

use jiff::Timestamp;

use crate::charset::{Charset, RestoreError, restore};
use crate::fields::{Field, fields};
use crate::json::write_line;
use crate::line::{self, Line, SqlText, Text, Touched};
use crate::record::{Attribute, EventKind, Outcome, Record, TableAccess, TableUse};
use crate::time::TimeFormatter;

/// Why a line that parses is not a record.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LineError {
    /// It has no number, or number 0.
    #[error("`seq` is missing or 0")]
    Seq,
    /// A word that version 1 does not have for its field.
    #[error("`{field}` is {word:?}, which version 1 does not have")]
    Word {
        /// The field.
        field: &'static str,
        /// The word.
        word: String,
    },
    /// The original bytes of a field cannot be restored from it.
    #[error("field `{field}`: {source}")]
    Text {
        /// The field.
        field: &'static str,
        /// The reason.
        source: RestoreError,
    },
}

/// The type of a field of [`OwnedRecord`].
macro_rules! owned {
    (Seq) => { u64 };
    (Instant) => { i64 };
    (Event) => { Option<EventKind> };
    (Outcome) => { Option<Outcome> };
    (Number) => { Option<u64> };
    (Port) => { Option<u16> };
    (Errno) => { u32 };
    (Flag) => { bool };
    (Statement) => { Option<Vec<u8>> };
    (Tables) => { Vec<OwnedTable> };
    (Time) => { Option<i64> };
    // Key and value.
    (Attributes) => { Vec<(Vec<u8>, Vec<u8>)> };
    // Name, Word, Message, CharsetName, Digest, Params
    ($text:ident) => { Vec<u8> };
}

/// Reads a field from a line.
macro_rules! of_line {
    (Instant $line:ident $key:ident $charset:ident) => {
        $line.$key.as_microsecond()
    };
    (Event $line:ident $key:ident $charset:ident) => {
        Some(word(stringify!($key), &$line.$key, &EventKind::ALL, EventKind::name)?)
    };
    (Outcome $line:ident $key:ident $charset:ident) => {
        match &*$line.$key {
            "" => None,
            outcome => Some(word(stringify!($key), outcome, &Outcome::ALL, Outcome::name)?),
        }
    };
    (Name $line:ident $key:ident $charset:ident) => {
        text(stringify!($key), &$line.$key)?
    };
    (Word $line:ident $key:ident $charset:ident) => {
        text(stringify!($key), &$line.$key)?
    };
    (Message $line:ident $key:ident $charset:ident) => {
        text(stringify!($key), &$line.$key)?
    };
    (CharsetName $line:ident $key:ident $charset:ident) => {
        text(stringify!($key), &$line.$key)?
    };
    (Statement $line:ident $key:ident $charset:ident) => {
        match &$line.$key {
            SqlText { text: None, .. } => None,
            SqlText { text: Some(text), b64 } => {
                Some(original(stringify!($key), text, b64.as_deref(), $charset)?)
            }
        }
    };
    (Digest $line:ident $key:ident $charset:ident) => {
        $line.$key.as_bytes().to_vec()
    };
    (Tables $line:ident $key:ident $charset:ident) => {
        $line.$key.iter().map(OwnedTable::of_line).collect::<Result<_, _>>()?
    };
    (Params $line:ident $key:ident $charset:ident) => {
        $line.$key.as_bytes().to_vec()
    };
    (Time $line:ident $key:ident $charset:ident) => {
        $line.$key.map(Timestamp::as_microsecond)
    };
    (Attributes $line:ident $key:ident $charset:ident) => {
        $line.$key.iter().map(attribute).collect::<Result<_, _>>()?
    };
    // Seq, Number, Port, Errno, Flag
    ($plain:ident $line:ident $key:ident $charset:ident) => {
        $line.$key
    };
}

/// A field in the form of [`Record`].
macro_rules! lend {
    (Statement $own:expr, $tables:ident $attributes:ident) => {
        $own.as_deref()
    };
    (Tables $own:expr, $tables:ident $attributes:ident) => {
        &$tables
    };
    (Attributes $own:expr, $tables:ident $attributes:ident) => {
        &$attributes
    };
    (Name $own:expr, $tables:ident $attributes:ident) => {
        &$own
    };
    (Word $own:expr, $tables:ident $attributes:ident) => {
        &$own
    };
    (Message $own:expr, $tables:ident $attributes:ident) => {
        &$own
    };
    (CharsetName $own:expr, $tables:ident $attributes:ident) => {
        &$own
    };
    (Digest $own:expr, $tables:ident $attributes:ident) => {
        &$own
    };
    (Params $own:expr, $tables:ident $attributes:ident) => {
        &$own
    };
    // Those that are copied.
    ($plain:ident $own:expr, $tables:ident $attributes:ident) => {
        $own
    };
}

macro_rules! owned_record {
    ($($group:ident { $($key:ident => $field:ident: $kind:ident,
        $what:literal, $present:literal, $source:literal;)* })*) => {
        /// One line of the log. The fields are those of [`Record`].
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct OwnedRecord {
            $($(#[doc = $what] pub $field: owned!($kind),)*)*
        }

        impl OwnedRecord {
            /// The record of a line.
            ///
            /// # Errors
            /// If the line was not written by the recorder, or was changed afterwards.
            pub fn of_line(line: &Line) -> Result<Self, LineError> {
                if line.seq == 0 {
                    return Err(LineError::Seq);
                }
                let charset = text("sql_charset", &line.sql_charset)?;
                let charset = Charset::by_name(&charset).unwrap_or(Charset::BINARY);
                Ok(Self { $($($field: of_line!($kind line $key charset),)*)* })
            }

            /// Passes the record to `use_it`, as the formatters take it.
            pub fn with<R>(&self, use_it: impl FnOnce(&Record) -> R) -> R {
                let tables: Vec<TableUse> = self.tables.iter().map(OwnedTable::borrow).collect();
                let attributes = self.attributes.iter();
                let attributes: Vec<Attribute> =
                    attributes.map(|(key, value)| Attribute { key, value }).collect();
                use_it(&Record {
                    $($($field: lend!($kind self.$field, tables attributes),)*)*
                    ..Record::default()
                })
            }

            /// Passes the line of the record to `use_it`, as the readers of logs take it.
            ///
            /// # Panics
            /// Never: the library reads what it writes.
            pub fn with_line<R>(&self, use_it: impl FnOnce(&Line<'_>) -> R) -> R {
                let mut bytes = Vec::new();
                self.with(|record| write_line(&mut bytes, record, &mut TimeFormatter::utc()));
                use_it(&Line::parse(&bytes).expect("the library reads what it writes"))
            }

            /// Replaces the fields that `takes` chooses by those of `other`.
            pub fn replace(&mut self, mut other: Self, takes: impl Fn(Field) -> bool) {
                $($(if takes(Field::$key) {
                    let own = std::mem::take(&mut self.$field);
                    other.$field.fill(own);
                    self.$field = other.$field;
                })*)*
            }

            /// Fills the empty fields that `takes` chooses from `other`.
            pub fn fill(&mut self, other: Self, takes: impl Fn(Field) -> bool) {
                $($(if takes(Field::$key) {
                    self.$field.fill(other.$field);
                })*)*
            }
        }
    };
}
fields!(owned_record);

/// A value that may be missing.
trait Fill {
    /// Takes `other` if this is missing.
    fn fill(&mut self, other: Self);
}

impl<T> Fill for Vec<T> {
    fn fill(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        }
    }
}

impl<T> Fill for Option<T> {
    fn fill(&mut self, other: Self) {
        if self.is_none() {
            *self = other;
        }
    }
}

impl Fill for bool {
    fn fill(&mut self, other: Self) {
        *self |= other;
    }
}

macro_rules! fill_numbers {
    ($($number:ty),*) => {
        $(impl Fill for $number {
            fn fill(&mut self, other: Self) {
                if *self == 0 {
                    *self = other;
                }
            }
        })*
    };
}
fill_numbers!(u32, u64, i64);

/// One entry of `tables`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names and meanings are those of crate::TableUse")]
pub struct OwnedTable {
    pub access: TableAccess,
    pub db: Vec<u8>,
    pub table: Vec<u8>,
    pub new_db: Vec<u8>,
    pub new_table: Vec<u8>,
}

/// The bytes of a name or message.
fn text(field: &'static str, text: &Text) -> Result<Vec<u8>, LineError> {
    original(field, text, text.b64.as_deref(), Charset::UTF8MB4)
}

/// The same in an element of an array.
macro_rules! bytes {
    ($line:expr, $field:ident, $companion:ident) => {
        original(stringify!($field), &$line.$field, $line.$companion.as_deref(), Charset::UTF8MB4)?
    };
}

fn attribute(line: &line::Attribute) -> Result<(Vec<u8>, Vec<u8>), LineError> {
    Ok((bytes!(line, key, key_b64), bytes!(line, value, value_b64)))
}

impl OwnedTable {
    fn of_line(line: &Touched) -> Result<Self, LineError> {
        Ok(Self {
            access: word("access", &line.access, &TableAccess::ALL, TableAccess::name)?,
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
    fn lines_that_are_not_records_are_refused() {
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
