//! One record as bytes, and back with every length checked.
//!
//! The body follows the [`RecordHeader`] of a whole record or of its first fragment:
//!
//! ```text
//! 64  u32 text_bytes        length of the whole text, also when it is in fragments
//! 68  i32 sql_command       the server's number, −1 = none
//! 72  u32 errno
//! 76  u32 present           bits PRESENT_*
//! 80  u16[10] string_bytes  lengths of the strings, in the order of STRING_*
//! 100 u8[5] sqlstate, u8[3] 0
//! 108 u32 shown_bytes       how much of the start's text was this statement
//! 112 u64[5] figures        only with PRESENT_FIGURES
//! …   strings, one after the other, then (a part of) the text
//! ```

pub use crate::captured::{Captured, captured_conn, is_captured, server_conn};
use crate::layout::{FRAGMENT_FIRST, FRAGMENT_WHOLE, RECORD_HEADER_BYTES, RecordHeader};

/// What a record says. `u8` in [`RecordHeader::kind`].
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A statement started; has identity and text.
    Start = 1,
    /// A statement ended; has the outcome.
    End = 2,
    /// A command that is reported only when it ended; has everything.
    Point = 3,
    /// Message of an error; belongs to the statement that is open, or to a failed connect.
    Error = 4,
    /// A table was touched.
    Table = 5,
    /// A session was authenticated, or (errno) refused.
    Connect = 6,
    /// A session ended.
    Disconnect = 7,
    /// The user of a session changed.
    ChangeUser = 8,
    /// A setting of the recorder changed.
    Config = 9,
    /// The statement that is open is rewritten before it is parsed: the new text, and in
    /// `figures[0]` the id of the rule.
    Rewrite = 10,
    /// The server reports something that is not a statement: `sql_command` is one of `NOTICE_*`.
    Notice = 11,
    /// A capture has not seen, or not understood, a part of a connection: `figures[0]` bytes (0:
    /// not known) since `figures[1]`, µs since 1970-01-01 UTC; [`STRING_COMMAND`] is the cause.
    /// Or the kernel has dropped `figures[2]` packets of any connection.
    Lost = 12,
    /// The statement that is open has these parameters: the text is what [`crate::params`] has.
    /// If not all of them are there, `figures[0]` has the length of all as they were sent,
    /// otherwise 0.
    Params = 13,
    /// The answer to the statement that is open says: `figures[0]` the `last_insert_id`,
    /// `figures[1]` the number of warnings (both 0: none), the text `info`, in UTF-8. Only a
    /// capture writes it, before the end of the statement.
    Answer = 14,
}

impl RecordKind {
    /// Whether a record of this kind (as a byte) begins a line of the log.
    #[inline]
    pub const fn begins_line(kind: u32) -> bool {
        const BEGIN: u32 = 1 << RecordKind::Start as u32
            | 1 << RecordKind::Point as u32
            | 1 << RecordKind::Connect as u32
            | 1 << RecordKind::Disconnect as u32
            | 1 << RecordKind::ChangeUser as u32
            | 1 << RecordKind::Notice as u32
            | 1 << RecordKind::Lost as u32;
        kind < 32 && BEGIN & (1u32.wrapping_shl(kind)) != 0
    }

    /// Whether a record of this kind has strings. An end and an error only identify their
    /// statement; its start has the rest.
    #[inline]
    pub const fn has_strings(kind: u32) -> bool {
        kind != RecordKind::End as u32 && kind != RecordKind::Error as u32
    }

    /// From the byte in a header.
    pub fn from_byte(byte: u8) -> Option<RecordKind> {
        use RecordKind::*;
        Some(match byte {
            1 => Start,
            2 => End,
            3 => Point,
            4 => Error,
            5 => Table,
            6 => Connect,
            7 => Disconnect,
            8 => ChangeUser,
            9 => Config,
            10 => Rewrite,
            11 => Notice,
            12 => Lost,
            13 => Params,
            14 => Answer,
            _ => return None,
        })
    }
}

// A record that begins a line has identity and host.
const _: () = assert!(!RecordKind::begins_line(RecordKind::End as u32));
const _: () = assert!(!RecordKind::begins_line(RecordKind::Error as u32));

/// Number of strings of a record.
pub const STRING_COUNT: usize = 10;
/// Longest string; longer ones are cut. (No server has names longer than this.)
pub const STRING_BYTES_MAX: usize = 640;
/// User name the client gave. In `Table` records: the access, one digit.
pub const STRING_USER: usize = 0;
/// Account name. In `Table` records: name of the table.
pub const STRING_PRIV_USER: usize = 1;
/// Proxy user. In `Table` records: new name of the table. In `Notice` records: its subject, or the
/// first half of the subject's name. In records of a capture: what [`Captured`] has.
pub const STRING_PROXY_USER: usize = 2;
/// External user. In `Table` records: new database. In `Notice` records: the second half.
pub const STRING_OS_USER: usize = 3;
/// Client host.
pub const STRING_HOST: usize = 4;
/// Client address.
pub const STRING_IP: usize = 5;
/// Default database; in `Table` records: database of the table.
pub const STRING_DB: usize = 6;
/// Command in the server's words. In `Config` records: the variable.
pub const STRING_COMMAND: usize = 7;
/// Character set of the text. (In `Config` records the text is the old value, of `shown_bytes`
/// bytes, and behind it the new one.)
pub const STRING_CHARSET: usize = 8;
/// Reserved: never written.
pub const STRING_RESERVED: usize = 9;

/// Privileges were reloaded.
pub const NOTICE_FLUSH: i32 = 1;
/// An account was created, unless there is an `errno`; its name has two halves, user and host.
pub const NOTICE_AUTHID_CREATE: i32 = 2;
/// Its credentials, privileges or attributes were changed.
pub const NOTICE_CREDENTIAL_CHANGE: i32 = 3;
/// It was renamed: the old name.
pub const NOTICE_AUTHID_RENAME: i32 = 4;
/// It was dropped.
pub const NOTICE_AUTHID_DROP: i32 = 5;
/// A global variable, named in the first half, is about to be set to the text.
pub const NOTICE_SET: i32 = 6;
/// An application sends a message: component and producer. The text is the message, of `figures[0]`
/// bytes, followed by each attribute: u32 length of the key, u32 length of the value, key, value.
/// `figures[1]`: length of the original if some of it was left out; otherwise 0.
pub const NOTICE_USER: i32 = 7;
/// A component of the server sends a message.
pub const NOTICE_INTERNAL: i32 = 8;
/// A stored procedure (database and name) is about to be executed.
pub const NOTICE_EXECUTE: i32 = 9;
/// The server has started: the text has its arguments, each followed by a NUL. `figures[1]` as
/// above.
pub const NOTICE_STARTUP: i32 = 10;
/// The server shuts down: the first half has the reason, the text the exit code.
pub const NOTICE_SHUTDOWN: i32 = 11;

/// `sql_command` belongs to the statement (known at its end only).
pub const PRESENT_SQL_COMMAND: u32 = 1;
/// The five figures follow the fixed part; the next bits say which of them are valid.
pub const PRESENT_FIGURES: u32 = 2;
/// `figures[0]`.
pub const PRESENT_ROWS_SENT: u32 = 4;
/// `figures[1]`.
pub const PRESENT_ROWS_EXAMINED: u32 = 8;
/// `figures[2]`.
pub const PRESENT_ROWS_AFFECTED: u32 = 16;
/// `figures[3]`.
pub const PRESENT_QUERY_TIME: u32 = 32;
/// `figures[4]`.
pub const PRESENT_LOCK_TIME: u32 = 64;
/// `sqlstate` is valid.
pub const PRESENT_SQLSTATE: u32 = 128;
/// An end: it is a result without a status, and ends the outermost open statement. A start or a
/// point: a separate command, so nothing before it can still be open.
pub const PRESENT_OUTERMOST: u32 = 256;
/// There is a text, though it may be empty.
pub const PRESENT_TEXT: u32 = 512;
/// The start belongs to what follows a statement in its packet, detected when that statement ended.
pub const PRESENT_REMAINDER: u32 = 1024;
/// The end shows the text of another statement: it ends the innermost open statement.
pub const PRESENT_INNERMOST: u32 = 2048;
/// START and POINT: inside a stored program.
pub const PRESENT_NESTED: u32 = 4096;
/// Its producer waits until its line is on the device
/// ([`DURABILITY_SYNC`](crate::layout::DURABILITY_SYNC)).
pub const PRESENT_AWAITED: u32 = 8192;
/// ERROR: a rule of the filter keeps the statement from running, and the text is its name.
pub const PRESENT_BLOCKED: u32 = 16384;
/// END and POINT of a capture, which has no rows examined and no lock time: `figures[1]` has the
/// bytes of the answer, `figures[4]` the time to its first byte, µs.
pub const PRESENT_ANSWER: u32 = 32768;

/// The fixed part of the body.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Body {
    /// Length of the whole text, bytes.
    pub text_bytes: u32,
    /// The server's number of the statement's class.
    pub sql_command: i32,
    /// Error number, 0 = none.
    pub errno: u32,
    /// Bits `PRESENT_*`.
    pub present: u32,
    /// Lengths of the strings.
    pub string_bytes: [u16; STRING_COUNT],
    /// SQLSTATE.
    pub sqlstate: [u8; 5],
    /// 0.
    pub reserved: [u8; 3],
    /// Length of the statement as known at its end. The first of several statements in one packet
    /// starts with the text of all of them.
    pub shown_bytes: u32,
}

/// Size of [`Body`].
pub const BODY_BYTES: usize = 48;
/// Size of the figures.
pub const FIGURES_BYTES: usize = 40;
/// Most bytes that header, body, figures and strings of one record can take.
pub const FIXED_BYTES_MAX: usize =
    RECORD_HEADER_BYTES + BODY_BYTES + FIGURES_BYTES + STRING_COUNT * STRING_BYTES_MAX;

const _: () = assert!(core::mem::size_of::<Body>() == BODY_BYTES);
const _: () = assert!(core::mem::align_of::<Body>() <= 8);
const _: () = assert!(core::mem::offset_of!(Body, string_bytes) == 16);
const _: () = assert!(core::mem::offset_of!(Body, sqlstate) == 36);
const _: () = assert!(core::mem::offset_of!(Body, shown_bytes) == 44);

/// A borrowed record to be written. `#[repr(C)]`: the adapters fill it in C++.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// A [`RecordKind`].
    pub kind: u32,
    /// Bits `PRESENT_*`.
    pub present: u32,
    /// Connection id.
    pub conn: u64,
    /// Query id.
    pub query_id: u64,
    /// Joins an end with its start; 0 = none.
    pub text_id: u64,
    /// Microseconds since 1970-01-01 UTC.
    pub ts_us: i64,
    /// The server's number of the statement's class, −1 = unknown.
    pub sql_command: i32,
    /// Error number, 0 = none.
    pub errno_: u32,
    /// SQLSTATE in the first five bytes.
    pub sqlstate: [u8; 8],
    /// See [`Body::shown_bytes`].
    pub shown_bytes: u32,
    /// 0.
    pub reserved: u32,
    /// rows_sent, rows_examined, rows_affected, query_time_us, lock_time_us. Ignored without
    /// [`PRESENT_FIGURES`].
    pub figures: [u64; 5],
    /// The strings, in the order of `STRING_*`. Ignored in kinds without strings.
    pub strings: [Bytes; STRING_COUNT],
    /// The text.
    pub text: Bytes,
}

impl Event {
    /// An event without a kind and without data.
    pub const EMPTY: Event = Event {
        kind: 0,
        present: 0,
        conn: 0,
        query_id: 0,
        text_id: 0,
        ts_us: 0,
        sql_command: -1,
        errno_: 0,
        sqlstate: [0; 8],
        shown_bytes: 0,
        reserved: 0,
        figures: [0; 5],
        strings: [Bytes::EMPTY; STRING_COUNT],
        text: Bytes::EMPTY,
    };
}

/// Borrowed bytes; `#[repr(C)]`. A null pointer with length 0 is empty.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// First byte.
    pub data: *const u8,
    /// Number of bytes.
    pub len: usize,
}

impl Bytes {
    /// No bytes.
    pub const EMPTY: Bytes = Bytes { data: core::ptr::null(), len: 0 };

    /// Borrows a slice.
    pub fn of(slice: &[u8]) -> Bytes {
        Bytes { data: slice.as_ptr(), len: slice.len() }
    }
}

/// A record read back from private memory: every length has been checked.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Its header.
    pub header: RecordHeader,
    /// Its kind.
    pub kind: RecordKind,
    /// Its fixed part; all zero in MIDDLE and LAST fragments.
    pub body: Body,
    /// Its figures; zero when not present.
    pub figures: [u64; 5],
    strings: &'a [u8],
    /// Its text, or the part of it in this fragment.
    pub text: &'a [u8],
}

impl<'a> View<'a> {
    /// One of `STRING_*`.
    pub fn string(&self, which: usize) -> &'a [u8] {
        let lens = self.body.string_bytes;
        let start: usize = lens.iter().take(which).map(|n| usize::from(*n)).sum();
        let len = lens.get(which).map_or(0, |n| usize::from(*n));
        let end = start.saturating_add(len);
        self.strings.get(start..end).unwrap_or(&[])
    }

    /// All strings, in the order of `STRING_*`.
    pub fn strings(&self) -> [&'a [u8]; STRING_COUNT] {
        let mut rest = self.strings;
        self.body.string_bytes.map(|len| match rest.split_at_checked(usize::from(len)) {
            Some((string, behind)) => {
                rest = behind;
                string
            }
            None => &[],
        })
    }

    /// The bytes of all strings, one after the other.
    pub fn string_bytes(&self) -> &'a [u8] {
        self.strings
    }

    /// Whether the record is complete.
    pub fn is_whole(&self) -> bool {
        self.header.fragment == FRAGMENT_WHOLE
    }

    /// Reads a record from private memory. `None`: it is damaged.
    // Inlined: what the caller does not need is not read.
    #[inline(always)]
    pub fn decode(bytes: &'a [u8]) -> Option<View<'a>> {
        let (head, rest) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>()?;
        let header = read_header(head);
        let kind = RecordKind::from_byte(header.kind)?;
        if header.fragment > crate::layout::FRAGMENT_LAST {
            return None;
        }
        if header.fragment > FRAGMENT_FIRST {
            let text_bytes = usize::from_le_bytes([
                *rest.first()?,
                *rest.get(1)?,
                *rest.get(2)?,
                *rest.get(3)?,
                0,
                0,
                0,
                0,
            ]);
            let text = rest.get(8..8usize.checked_add(text_bytes)?)?;
            let body = Body { text_bytes: text_bytes as u32, ..Body::default() };
            return Some(View { header, kind, body, figures: [0; 5], strings: &[], text });
        }
        let (fixed, rest) = rest.split_first_chunk::<BODY_BYTES>()?;
        let body = read_body(fixed);
        let (figures, rest) = if body.present & PRESENT_FIGURES != 0 {
            let (bytes, rest) = rest.split_at_checked(FIGURES_BYTES)?;
            (read_figures(bytes), rest)
        } else {
            ([0; 5], rest)
        };
        let string_bytes: usize = body.string_bytes.iter().map(|n| usize::from(*n)).sum();
        let (strings, rest) = rest.split_at_checked(string_bytes)?;
        let text = if header.fragment == FRAGMENT_WHOLE {
            rest.get(..body.text_bytes as usize)?
        } else {
            // A first fragment is filled to the last byte of its text part, whose length
            // follows from the size of the record. More always follows.
            Some(rest).filter(|part| part.len() < body.text_bytes as usize)?
        };
        Some(View { header, kind, body, figures, strings, text })
    }
}

#[inline(always)]
fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn read_header(bytes: &[u8; RECORD_HEADER_BYTES]) -> RecordHeader {
    // SAFETY: a header has this many bytes (asserted in `layout`), and has neither padding nor
    // forbidden values; the byte order is the same (asserted there, too).
    unsafe { bytes.as_ptr().cast::<RecordHeader>().read_unaligned() }
}

fn read_body(bytes: &[u8; BODY_BYTES]) -> Body {
    // SAFETY: as in `read_header`; the size is asserted above.
    let body = unsafe { bytes.as_ptr().cast::<Body>().read_unaligned() };
    Body { reserved: [0; 3], ..body }
}

fn read_figures(b: &[u8]) -> [u64; 5] {
    let mut figures = [0u64; 5];
    for (figure, chunk) in figures.iter_mut().zip(b.chunks_exact(8)) {
        *figure = u64::from_le_bytes(array(chunk, 0).unwrap_or([0; 8]));
    }
    figures
}
