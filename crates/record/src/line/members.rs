//! Reads some members of a line and skips the others: for programs that read a lot of log and need
//! little of each line.
//!
//! It knows only the form in which [`json`](crate::json) writes lines: no blanks between tokens, the
//! members in the order of the table of fields. For anything else it returns `None`, and
//! [`Line::parse`](super::Line::parse) has to decide. A line that it accepts is complete, UTF-8, and
//! has each member once and of the right type; the content of arrays is not checked.

use std::borrow::Cow;

use memchr::memchr2;

use super::Touched;
use super::clock::Clock;
use crate::fields::{Field, Kind};

const COUNT: usize = Field::ALL.len();
const _: () = assert!(COUNT < u128::BITS as usize, "a set of fields is one number");

/// The beginning of each line.
const HEAD: &[u8] = b"{\"v\":1";

/// A set of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(u128);

impl FieldSet {
    /// Whether it has the field.
    pub const fn has(self, field: Field) -> bool {
        self.0 >> field as u32 & 1 != 0
    }
}

impl FromIterator<Field> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Self {
        Self(fields.into_iter().fold(0, |set, field| set | 1 << field as u32))
    }
}

impl Extend<Field> for FieldSet {
    fn extend<I: IntoIterator<Item = Field>>(&mut self, fields: I) {
        self.0 |= Self::from_iter(fields).0;
    }
}

/// Reads the members of lines.
#[derive(Debug)]
pub struct MemberReader {
    wanted: FieldSet,
    /// The field that last followed each one, as an index; `COUNT` is the beginning of the line.
    /// Lines resemble each other, so the guess is nearly always right.
    next: [u8; COUNT + 1],
    clock: Clock,
    found: MemberSpans,
}

/// Where the wanted members of a line are.
#[derive(Debug)]
struct MemberSpans {
    present: FieldSet,
    /// Begin and end of the JSON of each present member, without the quotes of a text.
    spans: [(u32, u32); COUNT],
    ts_us: i64,
}

/// The members of one line that were wanted.
#[derive(Clone, Copy, Debug)]
pub struct Members<'r, 'a> {
    line: &'a str,
    found: &'r MemberSpans,
}

impl MemberReader {
    /// Of these members; `ts` is always read.
    pub fn new(mut wanted: FieldSet) -> Self {
        wanted.extend([Field::ts]);
        let next = std::array::from_fn(|field| ((field + 1) % (COUNT + 1)) as u8);
        let found = MemberSpans { present: FieldSet::default(), spans: [(0, 0); COUNT], ts_us: 0 };
        Self { wanted, next, clock: Clock::default(), found }
    }

    /// Reads a line, without its newline. `None`: it does not have the usual form.
    pub fn read<'a>(&mut self, line: &'a [u8]) -> Option<Members<'_, 'a>> {
        // In one pass over the line, without a branch: control characters are escaped in texts.
        if line.iter().fold(false, |found, byte| found | (*byte < b' ')) {
            return None;
        }
        let line = std::str::from_utf8(line).ok()?;
        u32::try_from(line.len()).ok()?;
        self.found.present = FieldSet::default();
        self.walk(line)?;
        self.found.present.has(Field::ts).then_some(Members { line, found: &self.found })
    }

    fn walk(&mut self, text: &str) -> Option<()> {
        let line = text.as_bytes();
        line.starts_with(HEAD).then_some(())?;
        let mut at = HEAD.len();
        let mut last = COUNT;
        // The same as `last`, until a member has had a companion.
        let mut companion_of = COUNT;
        let mut has_event = false;
        loop {
            match line.get(at)? {
                b',' => at += 1,
                b'}' if at + 1 == line.len() => return has_event.then_some(()),
                _ => return None,
            }
            let guess = usize::from(self.next[last]);
            let (name, value_at) = match KEYS.get(guess) {
                Some(key) if line[at..].starts_with(key.as_bytes()) => {
                    (Name::Field(guess), at + key.len())
                }
                _ => key_at(text, at, companion_of)?,
            };
            let (kind, end) = value_end(line, value_at)?;
            match name {
                Name::Field(index) => {
                    if last != COUNT && index <= last {
                        return None;
                    }
                    self.next[last] = index as u8;
                    (last, companion_of) = (index, index);
                    let field = Field::ALL[index];
                    let (from, to) = match kind {
                        Json::Text => (value_at + 1, end - 1),
                        _ => (value_at, end),
                    };
                    let json = &text[from..to];
                    is_of(field.kind(), kind, json).then_some(())?;
                    has_event |= field == Field::event;
                    if field == Field::ts {
                        self.found.ts_us = self.clock.read(json)?;
                    }
                    if self.wanted.has(field) {
                        self.found.present.0 |= 1 << index;
                        self.found.spans[index] = (from as u32, to as u32);
                    }
                }
                Name::Companion if kind == Json::Text => companion_of = COUNT,
                Name::Companion => return None,
                Name::Unknown => {}
            }
            at = end;
        }
    }
}

impl<'a> Members<'_, 'a> {
    /// µs since 1970-01-01 UTC.
    pub fn ts_us(&self) -> i64 {
        self.found.ts_us
    }

    /// The JSON of a member, without the quotes of a text: two texts are equal if their JSON is.
    pub fn json(&self, field: Field) -> Option<&'a str> {
        let (from, to) = self.found.spans[field as usize];
        self.found.present.has(field).then(|| &self.line[from as usize..to as usize])
    }

    /// A text; empty if the line has none.
    pub fn text(&self, field: Field) -> Cow<'a, str> {
        match self.json(field) {
            None => Cow::Borrowed(""),
            Some(json) if !json.contains('\\') => Cow::Borrowed(json),
            // `read` has checked the escapes.
            Some(json) => {
                Cow::Owned(serde_json::from_str(&format!("\"{json}\"")).unwrap_or_default())
            }
        }
    }

    /// A number.
    pub fn number(&self, field: Field) -> Option<u64> {
        self.json(field)?.parse().ok()
    }

    /// The entries of `tables`.
    ///
    /// # Errors
    /// It is not an array of tables.
    pub fn tables(&self) -> Result<Vec<Touched<'a>>, serde_json::Error> {
        self.json(Field::tables).map_or_else(|| Ok(Vec::new()), serde_json::from_str)
    }
}

/// `"name":` of each field.
macro_rules! keys {
    ($($group:ident { $($key:ident => $field:ident: $kind:ident,
        $what:literal, $present:literal, $source:literal;)* })*) => {
        const KEYS: [&str; COUNT] = [$($(concat!("\"", stringify!($key), "\":"),)*)*];
    };
}
crate::fields::fields!(keys);

enum Name {
    /// By its index.
    Field(usize),
    /// Of the field before it.
    Companion,
    /// Of a later release.
    Unknown,
}

/// The key that begins at `at`, and where its value begins.
fn key_at(text: &str, at: usize, companion_of: usize) -> Option<(Name, usize)> {
    let rest = text.get(at..)?;
    let end = rest.strip_prefix('"')?.find('"')? + 2;
    let key = rest.get(..=end)?;
    if !key.ends_with(':') || key.contains('\\') {
        return None;
    }
    let value_at = at + key.len();
    if let Some(index) = KEYS.iter().position(|known| *known == key) {
        return Some((Name::Field(index), value_at));
    }
    match key.strip_suffix("_b64\":") {
        None if key == "\"v\":" => None,
        None => Some((Name::Unknown, value_at)),
        Some(stem) => {
            let own = KEYS.get(companion_of)?;
            let is_companion = own.strip_suffix("\":") == Some(stem);
            is_companion.then_some((Name::Companion, value_at))
        }
    }
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Json {
    Text,
    Number,
    True,
    Array,
    Object,
}

/// Whether a field may have this value.
fn is_of(kind: Kind, json: Json, text: &str) -> bool {
    match kind {
        Kind::Seq | Kind::Number => json == Json::Number,
        Kind::Port => json == Json::Number && text.parse::<u16>().is_ok(),
        Kind::Errno => json == Json::Number && text.parse::<u32>().is_ok(),
        Kind::Flag => json == Json::True,
        Kind::Tables | Kind::Attributes | Kind::Params => json == Json::Array,
        // Only lines about losses have it; they are rare.
        Kind::Time => false,
        Kind::Instant
        | Kind::Event
        | Kind::Outcome
        | Kind::Name
        | Kind::Word
        | Kind::Message
        | Kind::Statement
        | Kind::CharsetName
        | Kind::Digest => json == Json::Text,
    }
}

/// The kind of the value at `at`, and its end.
fn value_end(line: &[u8], at: usize) -> Option<(Json, usize)> {
    match line.get(at)? {
        b'"' => Some((Json::Text, text_end(line, at + 1)?)),
        b'0'..=b'9' => Some((Json::Number, number_end(line, at)?)),
        b'[' => Some((Json::Array, nested_end(line, at)?)),
        b'{' => Some((Json::Object, nested_end(line, at)?)),
        b't' if line[at..].starts_with(b"true") => Some((Json::True, at + 4)),
        _ => None,
    }
}

/// The end of a text, after its quote. Accepts the escapes that the recorder writes.
fn text_end(line: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr2(b'"', b'\\', line.get(at..)?)?;
        if line[at] == b'"' {
            return Some(at + 1);
        }
        at += match line.get(at + 1)? {
            b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
            b'u' => {
                let digits = line.get(at + 2..at + 6)?;
                let is_control = digits.starts_with(b"00")
                    && matches!(digits[2], b'0' | b'1')
                    && digits[3].is_ascii_hexdigit();
                is_control.then_some(6)?
            }
            _ => return None,
        };
    }
}

/// The end of a number that fits 64 bits.
fn number_end(line: &[u8], at: usize) -> Option<usize> {
    const DIGITS_MAX: usize = 19;
    let digits = line[at..].iter().take(DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit());
    let count = digits.count();
    let has_form = count <= DIGITS_MAX && (line[at] != b'0' || count == 1);
    has_form.then_some(at + count)
}

/// The end of an array or object.
fn nested_end(line: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match line.get(at)? {
            b'"' => {
                at = text_end(line, at + 1)?;
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests;
