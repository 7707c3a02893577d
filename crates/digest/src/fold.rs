//! Tokens to the text of the digest: lists of values and rows become one, signs go with their
//! numbers.
//!
//! The rules are those of the server (`digest_add_token` in MariaDB's `sql/sql_digest.cc`), which
//! looks at the last two tokens for each new one, but never across a name. So only the tokens
//! since the last name can still change; what is before them goes to the hash, and all but the
//! beginning is then forgotten.

use crate::keywords::Keyword;
use crate::lexer::{INTRODUCER, Token};
use crate::shapes::Shapes;

/// What a token is to those after it.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// `?`
    Value,
    /// `?, ...`
    Values,
    /// `(?)`
    Row,
    /// `(?) /* , ... */`
    Rows,
    /// `(...)`
    Tuple,
    /// `(...) /* , ... */`
    Tuples,
    Comma,
    Open,
    Sign,
    /// An operator that is not a sign: an expression follows.
    Operator,
    Semicolon,
    Keyword(&'static Keyword),
    Other,
}

const VALUE: &str = "?";
const VALUES: &str = "?, ...";
const ROW: &str = "(?)";
const ROWS: &str = "(?) /* , ... */";
const TUPLE: &str = "(...)";
const TUPLES: &str = "(...) /* , ... */";

impl Kind {
    /// Whether what follows is an expression: a sign there is not an operator between two.
    fn starts_expression(self) -> bool {
        match self {
            Kind::Comma | Kind::Open | Kind::Sign | Kind::Operator => true,
            Kind::Keyword(keyword) => keyword.starts_expression(),
            _ => false,
        }
    }

    fn is_keyword(self, word: &str) -> bool {
        matches!(self, Kind::Keyword(keyword) if keyword.is(word))
    }
}

/// A token that can still change.
#[derive(Clone, Copy, Debug)]
struct Recent {
    kind: Kind,
    /// Where its text begins in the output.
    start: usize,
}

/// Tokens that can still change, at most. All but signs need four.
const RECENT_MAX: usize = 32;
/// Output that goes to the hash, or is forgotten, at a time, bytes.
const PIECE_BYTES: usize = 4096;

/// The text of a digest while it is made.
pub(crate) struct Fold {
    /// The beginning that is kept, then what has not gone to the hash.
    out: Vec<u8>,
    /// Bytes at the begin of `out` that have gone to the hash.
    hashed: usize,
    /// Bytes of the text that are wanted.
    text_bytes_max: usize,
    recent: [Recent; RECENT_MAX],
    recent_count: usize,
    hasher: Option<Box<blake3::Hasher>>,
    shapes: Shapes,
    is_hashed: bool,
    is_cut: bool,
    out_of_memory: bool,
}

/// What a finished text is.
pub(crate) struct Folded {
    pub(crate) hash: [u8; 16],
    pub(crate) is_cut: bool,
    pub(crate) out_of_memory: bool,
}

impl Fold {
    pub(crate) fn new() -> Fold {
        Fold {
            out: Vec::new(),
            hashed: 0,
            text_bytes_max: 0,
            recent: [Recent { kind: Kind::Other, start: 0 }; RECENT_MAX],
            recent_count: 0,
            hasher: None,
            shapes: Shapes::default(),
            is_hashed: false,
            is_cut: false,
            out_of_memory: false,
        }
    }

    /// Begins another text.
    pub(crate) fn begin(&mut self, text_bytes_max: usize) {
        self.out.clear();
        self.hashed = 0;
        self.text_bytes_max = text_bytes_max;
        self.recent_count = 0;
        self.is_hashed = false;
        self.is_cut = false;
        self.out_of_memory = false;
    }

    /// The text, after [`Fold::finish`].
    pub(crate) fn text(&self) -> &[u8] {
        &self.out
    }

    /// Gives back what a large text has taken, beyond `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        if self.out.capacity() > bytes {
            self.out = Vec::new();
        }
    }

    /// Takes in a token. `false`: the text ends here.
    #[inline]
    pub(crate) fn add(&mut self, token: Token<'_>) -> bool {
        match token {
            Token::Keyword(keyword, text) => self.push(Kind::Keyword(keyword), text),
            Token::Function(keyword, text) => {
                self.remember(Kind::Keyword(keyword));
                self.append(text.as_bytes());
            }
            Token::Name(name) => self.name(name, None),
            Token::Quoted(name, quote) => self.name(name, Some(quote)),
            Token::Number => {
                while let [.., before, Recent { kind: Kind::Sign, .. }] = self.recent()
                    && before.kind.starts_expression()
                {
                    self.pop(1);
                }
                self.value();
            }
            Token::Literal => self.value(),
            Token::Null if self.is_null_a_value() => self.value(),
            Token::Null => self.push(Kind::Other, "NULL"),
            Token::Introducer => self.push(Kind::Other, INTRODUCER),
            Token::Variable(is_named) => {
                self.remember(Kind::Other);
                self.append(if is_named { b"@@" } else { b"@@ " });
            }
            Token::Operator(text) => self.push(Kind::Operator, text),
            Token::Byte(byte) => self.byte(byte),
            Token::More => self.more(),
            Token::MoreRows => self.more_rows(),
            Token::Doubt => {
                self.push(Kind::Other, "<redacted>");
                return false;
            }
        }
        !self.out_of_memory
    }

    fn recent(&self) -> &[Recent] {
        &self.recent[..self.recent_count]
    }

    /// The last two tokens, if they can still change: the one before, and the last.
    fn last_two(&self) -> Option<[Kind; 2]> {
        let (_, [before, last]) = self.recent().split_last_chunk()?;
        Some([before.kind, last.kind])
    }

    fn last(&self) -> Option<Kind> {
        self.recent().last().map(|recent| recent.kind)
    }

    /// Takes back the last `count` tokens.
    fn pop(&mut self, count: usize) {
        self.recent_count -= count;
        self.out.truncate(self.recent[self.recent_count].start);
    }

    /// Adds a token and a blank.
    #[inline]
    fn push(&mut self, kind: Kind, text: &str) {
        self.remember(kind);
        self.append(text.as_bytes());
        self.append(b" ");
    }

    #[inline]
    fn remember(&mut self, kind: Kind) {
        if self.recent_count == RECENT_MAX {
            // Half of them will do.
            self.recent.copy_within(RECENT_MAX / 2.., 0);
            self.recent_count = RECENT_MAX / 2;
        }
        self.recent[self.recent_count] = Recent { kind, start: self.out.len() };
        self.recent_count += 1;
    }

    fn byte(&mut self, byte: u8) {
        match byte {
            b')' => self.close(),
            b'@' => {
                self.remember(Kind::Other);
                self.append(b"@");
            }
            _ => {
                let kind = match byte {
                    b',' => Kind::Comma,
                    b'(' => Kind::Open,
                    b'+' | b'-' => Kind::Sign,
                    b';' => Kind::Semicolon,
                    b'=' | b'<' | b'>' | b'*' | b'/' | b'%' | b'|' | b'&' | b'^' | b'!' | b'~' => {
                        Kind::Operator
                    }
                    _ => Kind::Other,
                };
                self.remember(kind);
                self.append(&[byte, b' ']);
            }
        }
    }

    /// A name is what the rules do not look across.
    #[inline]
    fn name(&mut self, name: &[u8], quote: Option<u8>) {
        self.recent_count = 0;
        self.append(b"`");
        match quote {
            // Doubled already.
            Some(b'`') | None => self.append_long(name),
            Some(quote) => {
                // Under ANSI_QUOTES it is the other quotes that are doubled.
                let mut rest = name;
                while let Some(at) = memchr::memchr2(b'`', quote, rest) {
                    self.append_long(&rest[..at]);
                    let is_doubled = rest[at] == quote;
                    self.append(if is_doubled { &rest[at..=at] } else { b"``" });
                    rest = rest.get(at + 1 + usize::from(is_doubled)..).unwrap_or_default();
                }
                self.append_long(rest);
            }
        }
        self.append(b"` ");
    }

    fn value(&mut self) {
        if let Some([Kind::Value | Kind::Values, Kind::Comma]) = self.last_two() {
            self.pop(2);
            self.push(Kind::Values, VALUES);
        } else {
            self.push(Kind::Value, VALUE);
        }
    }

    /// `)`: a list of values in parentheses is a row, and rows side by side are one.
    fn close(&mut self) {
        match self.last_two() {
            Some([Kind::Open, Kind::Value]) => {
                self.pop(2);
                if let Some([Kind::Row | Kind::Rows, Kind::Comma]) = self.last_two() {
                    self.pop(2);
                    self.push(Kind::Rows, ROWS);
                } else {
                    self.push(Kind::Row, ROW);
                }
            }
            Some([Kind::Open, Kind::Values]) => {
                self.pop(2);
                if let Some([Kind::Tuple | Kind::Tuples, Kind::Comma]) = self.last_two() {
                    self.pop(2);
                    self.push(Kind::Tuples, TUPLES);
                } else {
                    self.push(Kind::Tuple, TUPLE);
                }
            }
            _ => self.push(Kind::Other, ")"),
        }
    }

    /// `...`: a text that has been normalised before.
    fn more(&mut self) {
        match self.last() {
            Some(Kind::Open) => self.push(Kind::Values, VALUES),
            Some(Kind::Comma) => self.value(),
            _ => [(); 3].iter().for_each(|()| self.push(Kind::Other, ".")),
        }
    }

    fn more_rows(&mut self) {
        match self.last() {
            Some(Kind::Row) => {
                self.pop(1);
                self.push(Kind::Rows, ROWS);
            }
            Some(Kind::Tuple) => {
                self.pop(1);
                self.push(Kind::Tuples, TUPLES);
            }
            _ => {}
        }
    }

    /// The server's parser knows; a digest by tokens alone goes by what stands before it.
    fn is_null_a_value(&self) -> bool {
        match self.recent() {
            [.., before, last] if last.kind.is_keyword("NOT") => before.kind.starts_expression(),
            [.., last] => last.kind.starts_expression() && !last.kind.is_keyword("NOT"),
            [] => false,
        }
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        if self.out.capacity() - self.out.len() < bytes.len() && !self.grow(bytes.len()) {
            return;
        }
        self.out.extend_from_slice(bytes);
        if self.out.len() - self.hashed > PIECE_BYTES {
            self.settle();
        }
    }

    #[inline(never)]
    fn grow(&mut self, bytes: usize) -> bool {
        self.out_of_memory |= self.out.try_reserve(bytes.max(2 * PIECE_BYTES)).is_err();
        !self.out_of_memory
    }

    fn append_long(&mut self, bytes: &[u8]) {
        if bytes.len() <= PIECE_BYTES {
            self.append(bytes);
        } else {
            bytes.chunks(PIECE_BYTES).for_each(|piece| self.append(piece));
        }
    }

    /// Hashes what cannot change any more, and forgets of it what is not wanted.
    #[inline(never)]
    fn settle(&mut self) {
        let end = self.recent().first().map_or(self.out.len(), |first| first.start);
        // The last blank may be the end of the text, which has none there.
        let end = end.saturating_sub(1).max(self.hashed);
        self.hash(end);
        let kept = self.text_bytes_max.min(end);
        if kept < end {
            self.is_cut = true;
            self.out.drain(kept..end);
            let gone = end - kept;
            self.recent[..self.recent_count].iter_mut().for_each(|recent| recent.start -= gone);
        }
        self.hashed = kept;
    }

    fn hash(&mut self, end: usize) {
        let hasher = self.hasher.get_or_insert_with(|| Box::new(hasher()));
        if !self.is_hashed {
            hasher.reset();
            self.is_hashed = true;
        }
        hasher.update(&self.out[self.hashed..end]);
    }

    /// The hash of the text up to `end`.
    fn whole_hash(&mut self, end: usize) -> [u8; 16] {
        if self.is_hashed {
            self.hash(end);
            self.hashed = end;
            return self.hasher.as_deref().map_or([0; 16], finished);
        }
        let hasher = self.hasher.get_or_insert_with(|| Box::new(hasher()));
        self.shapes.hash_of(&self.out[..end], |text| {
            hasher.reset();
            finished(hasher.update(text))
        })
    }

    /// Ends the text: no blank and no semicolon stand at its end.
    pub(crate) fn finish(&mut self) -> Folded {
        while let Some(Kind::Semicolon) = self.last() {
            self.pop(1);
        }
        if self.out.len() > self.hashed && self.out.last() == Some(&b' ') {
            self.out.pop();
        }
        let end = self.out.len();
        let hash = self.whole_hash(end);
        if end > self.text_bytes_max {
            self.is_cut = true;
            self.out.truncate(self.text_bytes_max);
        }
        Folded { hash, is_cut: self.is_cut, out_of_memory: self.out_of_memory }
    }
}

fn finished(hasher: &blake3::Hasher) -> [u8; 16] {
    let mut hash = [0; 16];
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    hash
}

/// BLAKE3 in its mode for a key that says what it is for: digests of another version, and hashes
/// of anything else, are never the same by accident.
fn hasher() -> blake3::Hasher {
    blake3::Hasher::new_derive_key("tachograph statement digest 1")
}
