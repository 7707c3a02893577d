//! From tokens to the text of the digest: lists of values and rows become one, signs belong to
//! their numbers.
//!
//! The rules are those of the server (`digest_add_token` in MariaDB's `sql/sql_digest.cc`), which
//! checks the last two tokens for each new one, but never beyond a name. So only the tokens since
//! the last name can still change; everything before them goes to the hash, and all of it except
//! the beginning is then discarded.

use crate::block::{BLOCK_BYTES, Block};
use crate::digest::kind::Kind;
use crate::digest::out::{Finished, Out, PADDED_BYTES, Padded, ROOM_BYTES};

const VALUE: Padded = Padded::new("?");
const VALUES: Padded = Padded::new("?, ...");
const ROW: Padded = Padded::new("(?)");
const ROWS: Padded = Padded::new("(?) /* , ... */");
const TUPLE: Padded = Padded::new("(...)");
const TUPLES: Padded = Padded::new("(...) /* , ... */");
const CLOSE: Padded = Padded::new(")");
const POINT: Padded = Padded::new(".");
const NULL: Padded = Padded::new("NULL");
const INTRODUCER: Padded = Padded::new("(_charset)");
const REDACTED: Padded = Padded::new("<redacted>");

/// A token that can still change.
#[derive(Clone, Copy, Debug)]
struct Recent {
    kind: Kind,
    /// Where its text begins in the buffer of the output.
    start: u32,
}

/// Maximum number of tokens that can still change. Everything except signs needs four.
const RECENT_MAX: usize = 32;
/// More than a row can need before it becomes one token.
const SPARE: usize = 8;

/// How many values are in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    Several,
}

/// See the module documentation.
pub(crate) struct Fold {
    out: Out,
    recent: [Recent; RECENT_MAX],
    recent_count: usize,
}

impl Fold {
    pub(crate) fn new() -> Fold {
        Fold {
            out: Out::new(),
            recent: [Recent { kind: Kind::Other, start: 0 }; RECENT_MAX],
            recent_count: 0,
        }
    }

    /// Starts another text.
    pub(crate) fn begin(&mut self, text_bytes_max: usize) {
        self.out.begin(text_bytes_max);
        self.recent_count = 0;
    }

    /// The text, after [`Fold::finish`].
    pub(crate) fn text(&self) -> &[u8] {
        self.out.text()
    }

    /// Releases the memory of a large text, beyond `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        self.out.shrink(bytes);
    }

    #[inline]
    fn recent(&self) -> &[Recent] {
        &self.recent[..self.recent_count]
    }

    /// The last two tokens, if they can still change: the one before the last, and the last.
    #[inline]
    fn last_two(&self) -> Option<[Kind; 2]> {
        let (_, [before, last]) = self.recent().split_last_chunk()?;
        Some([before.kind, last.kind])
    }

    #[inline]
    fn last(&self) -> Option<Kind> {
        self.recent().last().map(|recent| recent.kind)
    }

    /// Removes the last `count` tokens.
    #[inline]
    fn pop(&mut self, count: usize) {
        self.recent_count -= count;
        self.out.truncate(self.recent[self.recent_count].start as usize);
    }

    #[inline]
    fn remember(&mut self, kind: Kind) {
        if self.recent_count >= RECENT_MAX {
            self.forget();
        }
        let start = self.out.bytes() as u32;
        if let Some(recent) = self.recent.get_mut(self.recent_count) {
            *recent = Recent { kind, start };
            self.recent_count += 1;
        }
    }

    #[inline(never)]
    fn forget(&mut self) {
        // Half of them suffice.
        self.recent.copy_within(RECENT_MAX / 2.., 0);
        self.recent_count = RECENT_MAX / 2;
    }

    /// Where to write. Everything that can change takes less than the buffer has, so there is
    /// always space: at most [`RECENT_MAX`] tokens, none of them a name.
    #[inline]
    fn room(&mut self) -> &mut [u8] {
        if self.out.is_full() {
            self.make_room();
        }
        self.out.room()
    }

    #[inline(never)]
    fn make_room(&mut self) {
        let end = self.recent().first().map_or(self.out.bytes(), |first| first.start as usize);
        let gone = self.out.settle(end) as u32;
        self.recent[..self.recent_count].iter_mut().for_each(|recent| recent.start -= gone);
    }

    /// Writes the first `bytes` of a text, and the bytes after them.
    #[inline]
    fn write(&mut self, text: &Padded, bytes: usize) {
        self.room()[..PADDED_BYTES].copy_from_slice(text.bytes());
        self.out.wrote(bytes);
    }

    /// Writes any text.
    fn append(&mut self, text: &[u8]) {
        for piece in text.chunks(ROOM_BYTES) {
            self.room()[..piece.len()].copy_from_slice(piece);
            self.out.wrote(piece.len());
        }
    }

    /// A token and a blank.
    #[inline]
    pub(crate) fn word(&mut self, kind: Kind, text: &Padded) {
        self.remember(kind);
        self.write(text, text.len() + 1);
    }

    /// A function before its parenthesis: no blank.
    #[inline]
    pub(crate) fn function(&mut self, kind: Kind, text: &Padded) {
        self.remember(kind);
        self.write(text, text.len());
    }

    /// A name without quotes, or in backticks: the first `bytes` of a block. The rules do not look
    /// beyond it.
    #[inline]
    pub(crate) fn short_name(&mut self, block: Block, bytes: usize) {
        let bytes = bytes.min(BLOCK_BYTES);
        self.recent_count = 0;
        let room = self.room();
        room[0] = b'`';
        room[1..=BLOCK_BYTES].copy_from_slice(&block.bytes());
        room[1 + bytes..3 + bytes].copy_from_slice(b"` ");
        self.out.wrote(bytes + 3);
    }

    /// The same for two names with a point between them.
    #[inline]
    pub(crate) fn short_qualified_name(&mut self, of: (Block, usize), name: (Block, usize)) {
        const { assert!(2 * BLOCK_BYTES + 8 <= ROOM_BYTES) };
        let [of, name] = [of, name].map(|(block, bytes)| (block, bytes.min(BLOCK_BYTES)));
        self.recent_count = 0;
        let room = self.room();
        room[0] = b'`';
        room[1..=BLOCK_BYTES].copy_from_slice(&of.0.bytes());
        let at = 1 + of.1;
        room[at..at + 5].copy_from_slice(b"` . `");
        let at = at + 5;
        room[at..at + BLOCK_BYTES].copy_from_slice(&name.0.bytes());
        let at = at + name.1;
        room[at..at + 2].copy_from_slice(b"` ");
        self.out.wrote(at + 2);
    }

    /// A name of any length, with the result of a short one: doubled backticks in it stay doubled.
    pub(crate) fn name(&mut self, name: &[u8]) {
        let bytes = name.len();
        if bytes + 3 > ROOM_BYTES {
            return self.quoted(name, b'`');
        }
        self.recent_count = 0;
        let room = self.room();
        room[0] = b'`';
        room[1..=bytes].copy_from_slice(name);
        room[1 + bytes..3 + bytes].copy_from_slice(b"` ");
        self.out.wrote(bytes + 3);
    }

    /// The contents of quotes around a name of any length.
    #[inline(never)]
    pub(crate) fn quoted(&mut self, name: &[u8], quote: u8) {
        self.recent_count = 0;
        self.append(b"`");
        let mut rest = name;
        if quote != b'`' {
            // Under ANSI_QUOTES the other quotes are the doubled ones.
            while let Some(at) = memchr::memchr2(b'`', quote, rest) {
                self.append(&rest[..at]);
                let is_doubled = rest[at] == quote;
                self.append(if is_doubled { &rest[at..=at] } else { b"``" });
                rest = rest.get(at + 1 + usize::from(is_doubled)..).unwrap_or_default();
            }
        }
        self.append(rest);
        self.append(b"` ");
    }

    /// A number: the signs before it belong to it.
    #[inline]
    pub(crate) fn number(&mut self) {
        while let [.., before, Recent { kind: Kind::Sign, .. }] = self.recent()
            && before.kind.starts_expression()
        {
            self.pop(1);
        }
        self.value();
    }

    /// Another literal, a `?`, or the name of a user variable or a host.
    #[inline]
    pub(crate) fn value(&mut self) {
        match self.last_two() {
            Some([Kind::Values, Kind::Comma]) => self.pop(1),
            Some([Kind::Value, Kind::Comma]) => {
                self.pop(2);
                self.word(Kind::Values, &VALUES);
            }
            _ => self.word(Kind::Value, &VALUE),
        }
    }

    /// NULL, which is a literal or not. The server's parser knows; a digest that uses only tokens
    /// depends on the token before it.
    pub(crate) fn null(&mut self) {
        let is_value = match self.recent() {
            [.., before, Recent { kind: Kind::Not, .. }] => before.kind.starts_expression(),
            [.., last] => last.kind != Kind::Not && last.kind.starts_expression(),
            [] => false,
        };
        if is_value {
            self.value();
        } else {
            self.word(Kind::Other, &NULL);
        }
    }

    /// `_utf8mb4` and similar.
    pub(crate) fn introducer(&mut self) {
        self.word(Kind::Other, &INTRODUCER);
    }

    /// `@@`, and whether a name follows immediately.
    pub(crate) fn variable(&mut self, is_named: bool) {
        self.remember(Kind::Other);
        self.append(if is_named { b"@@" } else { b"@@ " });
    }

    /// An operator of several bytes.
    pub(crate) fn operator(&mut self, text: &str) {
        self.remember(Kind::Operator);
        self.append(text.as_bytes());
        self.append(b" ");
    }

    /// Any other byte.
    #[inline]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.remember(Kind::of_byte(byte));
        let room = self.room();
        [room[0], room[1]] = [byte, b' '];
        self.out.wrote(if byte == b'@' { 1 } else { 2 });
    }

    /// `)`: a list of values in parentheses is a row, and consecutive rows become one.
    #[inline]
    pub(crate) fn close(&mut self) {
        match self.last_two() {
            Some([Kind::Open, Kind::Value]) => {
                self.pop(2);
                if let Some([Kind::Row | Kind::Rows, Kind::Comma]) = self.last_two() {
                    self.pop(2);
                    self.word(Kind::Rows, &ROWS);
                } else {
                    self.word(Kind::Row, &ROW);
                }
            }
            Some([Kind::Open, Kind::Values]) => {
                self.pop(2);
                if let Some([Kind::Tuple | Kind::Tuples, Kind::Comma]) = self.last_two() {
                    self.pop(2);
                    self.word(Kind::Tuples, &TUPLES);
                } else {
                    self.word(Kind::Tuple, &TUPLE);
                }
            }
            _ => self.word(Kind::Other, &CLOSE),
        }
    }

    /// `...`: from a text that was normalised before.
    pub(crate) fn more(&mut self) {
        match self.last() {
            Some(Kind::Open) => self.word(Kind::Values, &VALUES),
            Some(Kind::Comma) => self.value(),
            _ => [(); 3].iter().for_each(|()| self.word(Kind::Other, &POINT)),
        }
    }

    /// `/* , ... */`, from a text that was normalised before.
    pub(crate) fn more_rows(&mut self) {
        self.rows_go_on();
    }

    /// The rest is unknown.
    pub(crate) fn doubt(&mut self) {
        self.word(Kind::Other, &REDACTED);
    }

    /// Whether a row can be added without discarding a token that can still change. If not, it
    /// depends on each token which of them are kept.
    #[inline]
    pub(crate) fn has_spare_tokens(&self) -> bool {
        self.recent_count <= RECENT_MAX - SPARE
    }

    /// After a value: more values followed, each after a comma.
    #[inline]
    pub(crate) fn values_go_on(&mut self) {
        if self.last() == Some(Kind::Value) {
            self.pop(1);
            self.word(Kind::Values, &VALUES);
        }
    }

    /// The shape of the rows in the last token, if it is rows.
    #[inline]
    pub(crate) fn last_shape(&self) -> Option<Shape> {
        match self.last()? {
            Kind::Row | Kind::Rows => Some(Shape::One),
            Kind::Tuple | Kind::Tuples => Some(Shape::Several),
            _ => None,
        }
    }

    /// After a row: more rows of its shape followed, each after a comma.
    #[inline]
    pub(crate) fn rows_go_on(&mut self) {
        match self.last() {
            Some(Kind::Row) => {
                self.pop(1);
                self.word(Kind::Rows, &ROWS);
            }
            Some(Kind::Tuple) => {
                self.pop(1);
                self.word(Kind::Tuples, &TUPLES);
            }
            _ => {}
        }
    }

    /// Ends the text: a semicolon at the end is removed.
    pub(crate) fn finish(&mut self) -> Finished {
        while let Some(Kind::Semicolon) = self.last() {
            self.pop(1);
        }
        self.out.finish()
    }
}
