//! Commands of the client.

use super::caps;
use super::read::Reader;

/// The kind of answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// None.
    Never,
    /// OK, or a failure; some servers send EOF instead of OK.
    Status,
    /// Results: each OK or a result set.
    Results,
    /// The result of `COM_STMT_PREPARE`.
    Prepared,
    /// One packet with a text.
    Text,
    /// Columns up to an EOF packet.
    Columns,
    /// Rows up to an EOF packet.
    Rows,
    /// An exchange as in a login.
    Login,
    /// Packets without end.
    Stream,
    /// Not known: OK, EOF or a failure are understood.
    Unknown,
}

/// A kind of command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its number.
    pub code: u8,
    /// The server's name of it; empty: not known.
    pub name: &'static str,
    /// How it is answered.
    pub answers: Answers,
}

/// `COM_QUIT`.
pub const QUIT: u8 = 0x01;
/// `COM_INIT_DB`.
pub const INIT_DB: u8 = 0x02;
/// `COM_QUERY`.
pub const QUERY: u8 = 0x03;
/// `COM_CHANGE_USER`.
pub const CHANGE_USER: u8 = 0x11;
/// `COM_STMT_PREPARE`.
pub const PREPARE: u8 = 0x16;
/// `COM_STMT_EXECUTE`.
pub const EXECUTE: u8 = 0x17;
/// `COM_STMT_SEND_LONG_DATA`.
pub const LONG_DATA: u8 = 0x18;
/// `COM_STMT_RESET`.
pub const RESET: u8 = 0x1a;
/// `COM_STMT_CLOSE`.
pub const CLOSE: u8 = 0x19;
/// `COM_RESET_CONNECTION`.
pub const RESET_CONNECTION: u8 = 0x1f;
/// `COM_STMT_BULK_EXECUTE` of MariaDB.
pub const BULK_EXECUTE: u8 = 0xfa;

/// All commands that clients send. The names are MariaDB's and MySQL's own.
const KINDS: &[Kind] = &[
    kind(0x00, "Sleep", Answers::Status),
    kind(QUIT, "Quit", Answers::Never),
    kind(INIT_DB, "Init DB", Answers::Status),
    kind(QUERY, "Query", Answers::Results),
    kind(0x04, "Field List", Answers::Columns),
    kind(0x05, "Create DB", Answers::Status),
    kind(0x06, "Drop DB", Answers::Status),
    kind(0x07, "Refresh", Answers::Status),
    kind(0x08, "Shutdown", Answers::Status),
    kind(0x09, "Statistics", Answers::Text),
    kind(0x0a, "Processlist", Answers::Results),
    kind(0x0b, "Connect", Answers::Status),
    kind(0x0c, "Kill", Answers::Status),
    kind(0x0d, "Debug", Answers::Status),
    kind(0x0e, "Ping", Answers::Status),
    kind(0x0f, "Time", Answers::Status),
    kind(0x10, "Delayed insert", Answers::Status),
    kind(CHANGE_USER, "Change user", Answers::Login),
    kind(0x12, "Binlog Dump", Answers::Stream),
    kind(0x13, "Table Dump", Answers::Stream),
    kind(0x14, "Connect Out", Answers::Status),
    kind(0x15, "Register Slave", Answers::Status),
    kind(PREPARE, "Prepare", Answers::Prepared),
    kind(EXECUTE, "Execute", Answers::Results),
    kind(LONG_DATA, "Long Data", Answers::Never),
    kind(CLOSE, "Close stmt", Answers::Never),
    kind(RESET, "Reset stmt", Answers::Status),
    kind(0x1b, "Set option", Answers::Status),
    kind(0x1c, "Fetch", Answers::Rows),
    kind(0x1d, "Daemon", Answers::Status),
    kind(0x1e, "Binlog Dump GTID", Answers::Stream),
    kind(RESET_CONNECTION, "Reset connection", Answers::Status),
    kind(BULK_EXECUTE, "Bulk_execute", Answers::Results),
];

const fn kind(code: u8, name: &'static str, answers: Answers) -> Kind {
    Kind { code, name, answers }
}

impl Kind {
    /// Of a command's first byte.
    pub fn of(code: u8) -> Kind {
        // Except for the last one, a number is the place in the list.
        let at_place = KINDS.get(usize::from(code)).filter(|kind| kind.code == code);
        let found = at_place.or_else(|| KINDS.iter().find(|kind| kind.code == code));
        found.copied().unwrap_or(kind(code, "", Answers::Unknown))
    }

    /// Whether its number is that of a command, as far as we know.
    pub fn is_known(self) -> bool {
        !self.name.is_empty()
    }
}

/// Whether the command of this number has a text of its own.
pub fn is_text(code: u8) -> bool {
    matches!(code, QUERY | PREPARE | INIT_DB)
}

/// Whether the text of a `COM_QUERY` has attributes before it, if the capabilities are not known: a
/// statement does not begin with their number and that of their sets, 1.
fn seems_to_have_attributes(payload: &[u8]) -> bool {
    matches!(payload, [0..=0x20, 1, ..])
}

/// The statement of a `COM_QUERY`, whose payload is given after its first byte. `None`: its
/// attributes cannot be read.
pub fn query_text(payload: &[u8], session_caps: Option<u64>) -> Option<&[u8]> {
    let has_attributes = match session_caps {
        Some(session) => session & caps::QUERY_ATTRIBUTES != 0,
        None => seems_to_have_attributes(payload),
    };
    if !has_attributes {
        return Some(payload);
    }
    let mut reader = Reader::new(payload);
    let count = usize::try_from(reader.lenenc()?).ok()?;
    // The number of sets: the server knows only one.
    if reader.lenenc()? != 1 {
        return None;
    }
    if count == 0 {
        return Some(reader.rest());
    }
    let nulls = reader.take(count.div_ceil(8))?;
    // Without their types the server cannot read them either; any other value says they follow.
    if reader.u8()? == 0 {
        return None;
    }
    // As many as the packet can have: the number is not believed.
    let mut types = Vec::new();
    for _ in 0..count {
        types.push(reader.u16()?);
        reader.lenenc_bytes()?;
    }
    for (at, kind) in types.into_iter().enumerate() {
        if nulls[at / 8] & 1 << (at % 8) == 0 {
            skip_value(&mut reader, kind & !UNSIGNED)?;
        }
    }
    Some(reader.rest())
}

/// The bit of a type that says that its value has no sign.
const UNSIGNED: u16 = 1 << 15;

/// Skips the value of an attribute just as the server does: where the statement begins must not
/// depend on who reads. The server has four lengths (`get_ps_param_len` in `protocol_classic.cc`),
/// fewer than the protocol documents; values of all other types have their length before them, even
/// those of types that do not exist. Tried with 8.0 and 9.7.
fn skip_value(reader: &mut Reader<'_>, kind: u16) -> Option<()> {
    let bytes = match kind {
        // TINY
        1 => 1,
        // SHORT
        2 => 2,
        // LONG, FLOAT
        3 | 4 => 4,
        // DOUBLE, LONGLONG
        5 | 8 => 8,
        // BOOL: the server refuses the packet.
        244 => return None,
        // A length of eight bytes, of which the server reads four.
        _ if reader.rest().first() == Some(&0xfe) => {
            reader.u8()?;
            let bytes = reader.u32()?;
            reader.take(4)?;
            usize::try_from(bytes).ok()?
        }
        _ => return reader.lenenc_bytes().map(|_| ()),
    };
    reader.take(bytes).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_not_part_of_the_statement() {
        let caps = Some(caps::QUERY_ATTRIBUTES);
        assert_eq!(query_text(b"SELECT 1", Some(0)), Some(&b"SELECT 1"[..]));
        assert_eq!(query_text(b"\0\x01SELECT 1", caps), Some(&b"SELECT 1"[..]));
        let two = b"\x02\x01\x02\x01\xfe\0\x01n\x08\0\x01m\x03abcSELECT 2";
        // The second one is NULL.
        assert_eq!(query_text(two, caps), Some(&b"SELECT 2"[..]));
        for end in 0..two.len() - 8 {
            assert_eq!(query_text(&two[..end], caps), None, "{end}");
        }
        assert_eq!(query_text(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", caps), None);
    }

    /// A `COM_QUERY` with one attribute, and what is behind its types.
    fn with_attribute(kind: [u8; 2], value: &[u8]) -> Vec<u8> {
        [&b"\x01\x01\0\x01"[..], &kind, b"\x01n", value].concat()
    }

    #[test]
    fn the_statement_begins_where_the_server_looks_for_it() {
        let caps = Some(caps::QUERY_ATTRIBUTES);
        // DATETIME: the server reads the length fc 00 00, so a comment hides what it does not.
        let hidden = b"DELETE FROM secrets /*SELECT 1 */";
        let mut value = b"\xfc\0\0".to_vec();
        value.extend(hidden);
        assert_eq!(query_text(&with_attribute([12, 0], &value), caps), Some(&hidden[..]));
        // YEAR, INT24, NULL without its bit: texts with a length.
        let value = b"\x04abcdDROP TABLE t";
        for kind in [13, 9, 6, 7, 10, 11, 0xf3, 0xf6, 0xfe, 0xff] {
            let payload = with_attribute([kind, 0x80], value);
            assert_eq!(query_text(&payload, caps), Some(&b"DROP TABLE t"[..]), "{kind}");
        }
        // A type of 15 bits whose low ones are those of TINY.
        let payload = with_attribute([1, 1], value);
        assert_eq!(query_text(&payload, caps), Some(&b"DROP TABLE t"[..]));
        let payload = with_attribute([0xfe, 0], b"\xfe\x01\0\0\0\xff\xff\xff\xffxDO 1");
        assert_eq!(query_text(&payload, caps), Some(&b"DO 1"[..]));
        for (kind, bytes) in [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (8, 8)] {
            let value = [&vec![0xfc; bytes][..], b"DO 1"].concat();
            let payload = with_attribute([kind, 0x80], &value);
            assert_eq!(query_text(&payload, caps), Some(&b"DO 1"[..]), "{kind}");
        }
    }

    #[test]
    fn attributes_that_the_server_refuses_have_no_statement() {
        let caps = Some(caps::QUERY_ATTRIBUTES);
        // BOOL; a length that is none.
        assert_eq!(query_text(&with_attribute([244, 0], b"\x01xDO 1"), caps), None);
        assert_eq!(query_text(&with_attribute([0xfe, 0], b"\xfb\0\0DO 1"), caps), None);
        // Two sets; no types.
        assert_eq!(query_text(b"\0\x02DO 1", caps), None);
        assert_eq!(query_text(b"\x01\x02\0\x01\x01\0\x01nxDO 1", caps), None);
        assert_eq!(query_text(b"\x01\x01\0\0\x01\0\x01nxDO 1", caps), None);
        // Any other value says that types follow.
        let payload = b"\x01\x01\0\x07\x01\0\x01nxDO 1";
        assert_eq!(query_text(payload, caps), Some(&b"DO 1"[..]));
    }

    #[test]
    fn unknown_capabilities_are_guessed_from_the_text() {
        assert_eq!(query_text(b"SELECT 1", None), Some(&b"SELECT 1"[..]));
        assert_eq!(query_text(b"\n\tSELECT 1", None), Some(&b"\n\tSELECT 1"[..]));
        assert_eq!(query_text(b"\0\x01SELECT 1", None), Some(&b"SELECT 1"[..]));
    }
}
