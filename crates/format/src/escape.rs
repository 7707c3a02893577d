//! Text inside a field of another format.
//!
//! The first byte of a character decides whether a format escapes it, so text without such bytes,
//! which is nearly all text, is copied in runs.

use tacho_record::Record;
use tacho_record::charset::{Charset, TextSink};

/// Characters that a format cannot have in a field, and their replacements.
pub trait Escape {
    /// Whether a character that begins with this byte may have to be escaped.
    fn is_special(byte: u8) -> bool;

    /// Appends the replacement of the first character of `rest`. Returns the character's length in
    /// bytes.
    fn append(out: &mut Vec<u8>, rest: &[u8]) -> usize;
}

/// Appends a name or message, which the server provides in UTF-8. Ill-formed bytes become U+FFFD.
pub fn name<E: Escape>(out: &mut Vec<u8>, utf8: &[u8]) {
    decode::<E>(out, utf8, Charset::UTF8MB4);
}

/// Appends the text of the statement.
pub fn sql<E: Escape>(out: &mut Vec<u8>, record: &Record) {
    statement::<E>(out, record, record.sql.unwrap_or_default());
}

/// Appends the text that was executed instead.
pub fn rewritten<E: Escape>(out: &mut Vec<u8>, record: &Record) {
    statement::<E>(out, record, record.rewritten_query.unwrap_or_default());
}

/// Appends a text in the character set of the record's statement.
pub fn statement<E: Escape>(out: &mut Vec<u8>, record: &Record, text: &[u8]) {
    decode::<E>(out, text, record.text_charset().unwrap_or(Charset::BINARY));
}

fn decode<E: Escape>(out: &mut Vec<u8>, bytes: &[u8], charset: &Charset) {
    let mut sink = Sink::<E> { out, escape: std::marker::PhantomData };
    // These formats have no field for the original bytes; our own log keeps them.
    let _fidelity = charset.decode(bytes, &mut sink);
}

struct Sink<'a, E> {
    out: &'a mut Vec<u8>,
    escape: std::marker::PhantomData<E>,
}

impl<E: Escape> TextSink for Sink<'_, E> {
    fn text(&mut self, utf8: &[u8]) {
        let mut rest = utf8;
        while !rest.is_empty() {
            let plain = rest.iter().take_while(|byte| !E::is_special(**byte)).count();
            let (run, special) = rest.split_at(plain);
            self.out.extend_from_slice(run);
            rest = special;
            if !special.is_empty() {
                // At least one byte, whatever the format returns: the loop must end.
                let length = E::append(self.out, special).clamp(1, special.len());
                rest = &special[length..];
            }
        }
    }

    fn character(&mut self, character: char) {
        self.text(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// The C0 controls and DEL.
pub const fn is_control(byte: u8) -> bool {
    byte < 0x20 || byte == 0x7F
}

/// Appends a backslash and the usual letter of a control character, or `x` and two hexadecimal
/// digits, which are also used for any other byte.
pub fn backslash(out: &mut Vec<u8>, byte: u8) {
    let letter = match byte {
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0C => b'f',
        b'\r' => b'r',
        b'\'' | b'\\' => byte,
        _ => {
            out.extend_from_slice(b"\\x");
            hex(out, byte, b"0123456789abcdef");
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

/// Appends two hexadecimal digits.
pub fn hex(out: &mut Vec<u8>, byte: u8, digits: &[u8; 16]) {
    out.push(digits[usize::from(byte >> 4)]);
    out.push(digits[usize::from(byte & 0xF)]);
}

/// Text inside a JSON string (RFC 8259, section 7), escaped as in our own lines.
pub struct Json;

impl Escape for Json {
    fn is_special(byte: u8) -> bool {
        byte < 0x20 || byte == b'"' || byte == b'\\'
    }

    fn append(out: &mut Vec<u8>, rest: &[u8]) -> usize {
        json(out, rest[0], b"0123456789abcdef");
        1
    }
}

/// Appends a JSON escape.
pub fn json(out: &mut Vec<u8>, byte: u8, digits: &[u8; 16]) {
    let short = match byte {
        b'"' | b'\\' | b'/' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0C => b'f',
        b'\r' => b'r',
        _ => {
            out.extend_from_slice(b"\\u00");
            hex(out, byte, digits);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_specials_keep_their_order() {
        let mut out = Vec::new();
        name::<Json>(&mut out, b"a\nb\x00\xFFc");
        assert_eq!(String::from_utf8(out).unwrap(), "a\\nb\\u0000\u{FFFD}c");
        let mut out = Vec::new();
        name::<Json>(&mut out, b"\"\\\x1f\n/");
        assert_eq!(out, b"\\\"\\\\\\u001f\\n/");
    }

    #[test]
    fn statements_are_decoded_by_their_character_set() {
        let record = Record {
            sql: Some(b"\xE4\n"),
            rewritten_query: Some(b"\xF6"),
            sql_charset: b"latin1",
            ..Record::default()
        };
        let mut out = Vec::new();
        sql::<Json>(&mut out, &record);
        rewritten::<Json>(&mut out, &record);
        assert_eq!(out, "ä\\nö".as_bytes());
    }
}
