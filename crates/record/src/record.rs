//! The fields of one log line, version 1.
//!
//! A [`Record`] borrows its bytes: the writer thread builds one on its stack for every line and
//! formats it immediately. Text is kept as the server's bytes, together with their character set;
//! the formatter converts it.
//!
//! The normative text is `docs/specs/record.md`.

use crate::charset::Charset;
use crate::fields::{Field, fields};

/// Words of the field `class`.
pub const CLASSES: [&str; 5] =
    ["authentication", "global_variable", "lifecycle", "message", "stored_program"];

/// Words of the field `action`.
pub const ACTIONS: [&str; 11] = [
    "flush",
    "authid_create",
    "credential_change",
    "authid_rename",
    "authid_drop",
    "set",
    "user",
    "internal",
    "execute",
    "startup",
    "shutdown",
];

/// Bytes of a written digest: version, a colon, 32 digits.
pub const DIGEST_BYTES: usize = 34;

/// The subject of a line. JSON field `event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A session was authenticated.
    Connect,
    /// A session ended.
    Disconnect,
    /// `COM_CHANGE_USER` completed.
    ChangeUser,
    /// A session was refused.
    ConnectFailed,
    /// A statement or another client command.
    Statement,
    /// A table was used outside any statement that the recorder knows.
    Table,
    /// Records were lost; `count`, `cause`, `start_ts` and `ts` give the number, the cause and the
    /// period.
    Lost,
    /// Recording began.
    Start,
    /// Recording ended in an orderly way.
    Stop,
    /// The recorder's own configuration was changed.
    Config,
    /// The server reports something that is not a statement; `class` and `action` describe it.
    Notice,
}

impl EventKind {
    /// All kinds, the most frequent ones first.
    pub const ALL: [EventKind; 11] = [
        Self::Statement,
        Self::Connect,
        Self::Disconnect,
        Self::ChangeUser,
        Self::ConnectFailed,
        Self::Table,
        Self::Lost,
        Self::Start,
        Self::Stop,
        Self::Config,
        Self::Notice,
    ];

    /// Its name in every log format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Disconnect => "disconnect",
            Self::ChangeUser => "change_user",
            Self::ConnectFailed => "connect_failed",
            Self::Statement => "statement",
            Self::Table => "table",
            Self::Lost => "lost",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Config => "config",
            Self::Notice => "notice",
        }
    }
}

/// How an event ended. JSON field `outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Completed without an error.
    Ok,
    /// Completed with `errno`.
    Error,
    /// Not ended yet; a later line with the same `conn` and `conn_seq` completes it.
    Running,
    /// The server died before it ended.
    Interrupted,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Outcome; 4] = [Self::Ok, Self::Error, Self::Running, Self::Interrupted];

    /// Its name in every log format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Running => "running",
            Self::Interrupted => "interrupted",
        }
    }
}

/// The type of a field of [`Record`].
macro_rules! borrowed {
    ($a:lifetime Seq) => { u64 };
    ($a:lifetime Instant) => { i64 };
    ($a:lifetime Event) => { Option<EventKind> };
    ($a:lifetime Outcome) => { Option<Outcome> };
    ($a:lifetime Number) => { Option<u64> };
    ($a:lifetime Port) => { Option<u16> };
    ($a:lifetime Errno) => { u32 };
    ($a:lifetime Flag) => { bool };
    ($a:lifetime Statement) => { Option<&$a [u8]> };
    ($a:lifetime Tables) => { &$a [TableUse<$a>] };
    ($a:lifetime Time) => { Option<i64> };
    ($a:lifetime Attributes) => { &$a [Attribute<$a>] };
    // Name, Word, Message, CharsetName, Digest, Params
    ($a:lifetime $text:ident) => { &$a [u8] };
}

/// The [`Value`] of a field.
macro_rules! value {
    (Seq $value:expr) => {
        Value::Number(Some($value))
    };
    (Instant $value:expr) => {
        Value::Time(Some($value))
    };
    (Event $value:expr) => {
        Value::Name($value.map(EventKind::name))
    };
    (Outcome $value:expr) => {
        Value::Name($value.map(Outcome::name))
    };
    (Number $value:expr) => {
        Value::Number($value)
    };
    (Port $value:expr) => {
        Value::Number($value.map(u64::from))
    };
    (Errno $value:expr) => {
        Value::Number(($value != 0).then_some($value as u64))
    };
    (Flag $value:expr) => {
        Value::Flag($value)
    };
    (Statement $value:expr) => {
        Value::Statement($value)
    };
    (Tables $value:expr) => {
        Value::Tables($value)
    };
    (Time $value:expr) => {
        Value::Time($value)
    };
    (Attributes $value:expr) => {
        Value::Attributes($value)
    };
    ($text:ident $value:expr) => {
        Value::Text($value)
    };
}

/// Passes a field that is a text to `each`.
macro_rules! each_text {
    (Message $each:ident $value:expr) => {
        $each(Length::Message, $value)
    };
    (Params $each:ident $value:expr) => {
        $each(Length::Message, $value)
    };
    (Statement $each:ident $value:expr) => {
        if let Some(text) = $value {
            $each(Length::Statement, text);
        }
    };
    (Name $each:ident $value:expr) => {
        $each(Length::Name, $value)
    };
    (Word $each:ident $value:expr) => {
        $each(Length::Name, $value)
    };
    (CharsetName $each:ident $value:expr) => {
        $each(Length::Name, $value)
    };
    (Digest $each:ident $value:expr) => {
        $each(Length::Name, $value)
    };
    ($other:ident $each:ident $value:expr) => {};
}

macro_rules! record {
    ($($group:ident { $($key:ident => $field:ident: $kind:ident,
        $what:literal, $present:literal, $source:literal;)* })*) => {
        /// One line of the log, borrowed.
        ///
        /// `None` and empty strings are omitted from the line. All names (`user`, `db`, `tables`
        /// and so on) are in the server's system character set, UTF-8; `sql` and `rewritten_query`
        /// are in `sql_charset`. For the kinds of fields, see [`Kind`](crate::Kind).
        #[derive(Clone, Debug, Default)]
        pub struct Record<'a> {
            $($(
                #[doc = $what]
                pub $field: borrowed!('a $kind),
            )*)*
            /// The fields from `user` to `session` as `json::write_identity` wrote them for the
            /// same values before; if empty, they are written from the values.
            pub identity: &'a [u8],
            /// The field `sql_command` as `json::write_sql_command` wrote it before; if empty, it
            /// is written from the value.
            pub sql_command_json: &'a [u8],
            /// The fields from `sql` to `digest` as `json::write_text` wrote them for the same
            /// values before; if empty, they are written from the values. `sql` has its value in
            /// any case: it decides how much memory the line needs.
            pub text_json: &'a [u8],
            /// The character set that `sql_charset` names, if the caller has looked it up; then
            /// `sql_charset` is ignored.
            pub charset: Option<&'static Charset>,
        }

        impl<'a> Record<'a> {
            /// The value of a field.
            pub fn value(&self, field: Field) -> Value<'a> {
                match field {
                    $($(Field::$key => value!($kind self.$field),)*)*
                }
            }

            /// Passes all texts and their limits to `each`, except those of tables and attributes.
            // Inlined: then a text that `each` ignores costs nothing.
            #[inline(always)]
            pub fn each_text(&self, mut each: impl FnMut(Length, &'a [u8])) {
                $($(each_text!($kind each self.$field);)*)*
            }
        }
    };
}
fields!(record);

/// The value of a field of a record.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A number, if there is one.
    Number(Option<u64>),
    /// µs since 1970-01-01 UTC.
    Time(Option<i64>),
    /// One of our words, from a fixed list.
    Name(Option<&'static str>),
    /// True, or omitted.
    Flag(bool),
    /// UTF-8; empty if missing.
    Text(&'a [u8]),
    /// In the character set of the statement.
    Statement(Option<&'a [u8]>),
    /// Tables in the order of their first use.
    Tables(&'a [TableUse<'a>]),
    /// Keys and values of a message.
    Attributes(&'a [Attribute<'a>]),
}

/// The limit of a text's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// As long as names are: all names of a record together have at most 32 KiB, the size of its
    /// fixed part in the arena.
    Name,
    /// Of any length.
    Message,
    /// Of any length, in the character set of the statement.
    Statement,
}

/// A key and a value of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its name.
    pub key: &'a [u8],
    /// Its value; a number in decimal digits.
    pub value: &'a [u8],
}

impl Record<'_> {
    /// The character set of `sql`. `None`: the server has no set with that name.
    pub fn text_charset(&self) -> Option<&'static Charset> {
        self.charset.or_else(|| Charset::by_name(self.sql_charset))
    }
}

/// How a statement used a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableAccess {
    /// Locked for reading.
    Read,
    /// Locked for writing.
    Write,
    /// Created.
    Create,
    /// Dropped.
    Drop,
    /// Renamed, to `new_db`.`new_table`.
    Rename,
    /// Altered.
    Alter,
}

impl TableAccess {
    /// All kinds of access.
    pub const ALL: [TableAccess; 6] =
        [Self::Read, Self::Write, Self::Create, Self::Drop, Self::Rename, Self::Alter];

    /// Its name in every log format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
            Self::Drop => "drop",
            Self::Rename => "rename",
            Self::Alter => "alter",
        }
    }
}

/// One entry of `tables`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableUse<'a> {
    /// How it was used.
    pub access: TableAccess,
    /// Database.
    pub db: &'a [u8],
    /// Table.
    pub table: &'a [u8],
    /// New database of a rename.
    pub new_db: &'a [u8],
    /// New name of a rename.
    pub new_table: &'a [u8],
}
