//! A line, cut into its shape and its values. No schema is known: what looks like a value of JSON
//! is one, and everything else is in the shape. So a line is always its shape with its values.

use std::ops::Range;

use memchr::memchr2;

use crate::pattern::{DIGITS_MAX, PlaceKind};
use crate::time::{self, TIME_BYTES};

/// Values of a line. One with more is stored as it is.
pub(crate) const VALUES_MAX: usize = 512;
/// Length of a shape, bytes.
pub(crate) const SHAPE_BYTES_MAX: usize = 8 << 10;

/// The value of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlaceValue {
    Number(u64),
    /// Where it is in the content.
    Text(Range<u32>),
}

/// The parts of a line. It is used again for the next one.
#[derive(Default)]
pub(crate) struct LineParts {
    pub(crate) shape: Vec<u8>,
    pub(crate) values: Vec<PlaceValue>,
}

impl LineParts {
    /// Cuts a line of the content, which ends before its line feed. `false`: it must be stored as
    /// it is, because it has bytes that mean places, or too many values.
    pub(crate) fn cut(&mut self, content: &[u8], range: Range<usize>) -> bool {
        self.shape.clear();
        self.values.clear();
        let line = &content[range.clone()];
        // Without an end in the middle, so that it is compiled to vector instructions.
        if line.iter().fold(false, |any, byte| any | (*byte < 0x20)) {
            return false;
        }
        let (mut at, mut copied) = (0, 0);
        while let Some(byte) = line.get(at) {
            let place = match byte {
                b'"' => self.string(line, &mut at, range.start),
                b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'+' | b'.' => {
                    self.bare(line, &mut at, range.start)
                }
                _ => {
                    at += 1;
                    None
                }
            };
            if let Some((kind, value)) = place {
                self.shape.extend_from_slice(&line[copied..value.start]);
                self.shape.push(kind.mark());
                copied = value.end;
                if self.values.len() > VALUES_MAX || self.shape.len() > SHAPE_BYTES_MAX {
                    return false;
                }
            }
        }
        self.shape.extend_from_slice(&line[copied..]);
        self.shape.len() <= SHAPE_BYTES_MAX
    }

    /// A string that begins here. None: it is a key, or has no end.
    fn string(
        &mut self,
        line: &[u8],
        at: &mut usize,
        base: usize,
    ) -> Option<(PlaceKind, Range<usize>)> {
        let begin = *at + 1;
        let Some(end) = end_of_string(line, begin) else {
            *at = line.len();
            return None;
        };
        *at = end + 1;
        if line.get(end + 1) == Some(&b':') {
            return None;
        }
        if let Some(time) = line[begin..end].first_chunk::<TIME_BYTES>().and_then(time::parse) {
            self.values.push(PlaceValue::Number(time));
            return Some((PlaceKind::Time, begin..begin + TIME_BYTES));
        }
        self.values.push(PlaceValue::Text((base + begin) as u32..(base + end) as u32));
        Some((PlaceKind::Text, begin..end))
    }

    /// A number, or a word. None: a word that JSON knows.
    fn bare(
        &mut self,
        line: &[u8],
        at: &mut usize,
        base: usize,
    ) -> Option<(PlaceKind, Range<usize>)> {
        let begin = *at;
        let is_bare =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        let end = line[begin..].iter().position(|byte| !is_bare(byte));
        let end = end.map_or(line.len(), |count| begin + count);
        *at = end;
        let text = &line[begin..end];
        if matches!(text, b"true" | b"false" | b"null") {
            return None;
        }
        if let Some(number) = number(text) {
            self.values.push(PlaceValue::Number(number));
            return Some((PlaceKind::Number, begin..end));
        }
        self.values.push(PlaceValue::Text((base + begin) as u32..(base + end) as u32));
        Some((PlaceKind::Text, begin..end))
    }
}

/// Where the quote is that ends a string.
fn end_of_string(line: &[u8], begin: usize) -> Option<usize> {
    let mut at = begin;
    loop {
        at += memchr2(b'"', b'\\', line.get(at..)?)?;
        if line[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// A number whose decimal digits are exactly this text.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    let is_short = text.len() <= DIGITS_MAX && !text.is_empty();
    if !is_short || text[0] == b'0' && text.len() > 1 {
        return None;
    }
    digits(text)
}

/// The number of at most 19 decimal digits.
pub(crate) fn digits(text: &[u8]) -> Option<u64> {
    text.iter()
        .try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))
}

/// The path of the key of each place in a shape: the keys on the way to it. It is computed from
/// any bytes, and only has to be the same each time.
pub(crate) fn paths(shape: &[u8]) -> Vec<Vec<u8>> {
    let (mut paths, mut outer) = (Vec::new(), Vec::new());
    let (mut path, mut key) = (Vec::new(), 0..0);
    let mut at = 0;
    while let Some(byte) = shape.get(at) {
        match byte {
            b'{' | b'[' => {
                outer.push((path.len(), key.clone()));
                path.extend_from_slice(&shape[key.clone()]);
                path.push(*byte);
                key = 0..0;
            }
            b'}' | b']' => {
                if let Some((length, before)) = outer.pop() {
                    path.truncate(length);
                    key = before;
                }
            }
            b'"' => {
                let begin = at + 1;
                let end = end_of_string(shape, begin).unwrap_or(shape.len());
                if shape.get(end + 1) == Some(&b':') {
                    key = begin..end;
                }
                // The place in a string, or a place in a key.
                let places = shape[begin..end].iter().filter(|byte| **byte < 0x20).count();
                paths.extend((0..places).map(|_| [&path[..], &shape[key.clone()]].concat()));
                at = end;
            }
            0..0x20 => paths.push([&path[..], &shape[key.clone()]].concat()),
            _ => {}
        }
        at += 1;
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(line: &str) -> (String, Vec<PlaceValue>) {
        let mut parts = LineParts::default();
        assert!(parts.cut(line.as_bytes(), 0..line.len()), "{line}");
        (String::from_utf8(parts.shape).unwrap(), parts.values)
    }

    #[test]
    fn values_leave_the_line() {
        let line = r#"{"v":1,"ts":"2026-11-21T01:02:03.123456+01:00","a":"x\"y","ok":true,"f":-0}"#;
        let (shape, values) = cut(line);
        let expected =
            "{\"v\":\u{1},\"ts\":\"\u{3}+01:00\",\"a\":\"\u{2}\",\"ok\":true,\"f\":\u{2}}";
        assert_eq!(shape, expected);
        assert_eq!(values.len(), 4);
        assert_eq!(values[0], PlaceValue::Number(1));
        let PlaceValue::Text(text) = &values[2] else { panic!() };
        assert_eq!(&line[text.start as usize..text.end as usize], r#"x\"y"#);
    }

    #[test]
    fn only_canonical_numbers_are_numbers() {
        for text in ["01", "1e5", "1.5", "-1", "+1", "18446744073709551615", "00", "x"] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
        assert_eq!(number(b"9999999999999999999"), Some(9_999_999_999_999_999_999));
        assert_eq!(number(b"0"), Some(0));
    }

    #[test]
    fn lines_that_must_be_stored_as_they_are() {
        let mut parts = LineParts::default();
        for line in [&b"{\"a\":\x01}"[..], b"\t", b"\r"] {
            assert!(!parts.cut(line, 0..line.len()));
        }
        let many = format!("[{}]", "1,".repeat(VALUES_MAX + 1));
        assert!(!parts.cut(many.as_bytes(), 0..many.len()));
        let long = format!("{{{}}}", "\"x\":{".repeat(SHAPE_BYTES_MAX));
        assert!(!parts.cut(long.as_bytes(), 0..long.len()));
        assert!(cut("\"no end").1.is_empty() && cut("").1.is_empty());
    }

    #[test]
    fn a_path_has_the_keys_on_the_way() {
        let shape = b"{\"a\":\x01,\"t\":[{\"b\":\"\x02\"},{\"b\":\"\x02\"}],\"c\":\x01}";
        let paths = paths(shape);
        assert_eq!(paths, [&b"{a"[..], b"{t[{b", b"{t[{b", b"{c"]);
        // Any bytes have a path for each place.
        for shape in [&b"]]}\x01\"\x01\""[..], b"\"\x01", b"{\"\x02\":\x01}"] {
            let places = shape.iter().filter(|byte| **byte < 0x20).count();
            assert_eq!(super::paths(shape).len(), places, "{shape:?}");
        }
    }
}
