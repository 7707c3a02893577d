//! Finds a text in bytes, its ASCII letters in any case.

use aho_corasick::Span;
use aho_corasick::packed::{MatchKind, Searcher};
use memchr::{memchr2_iter, memmem};

/// Bytes of the part of a text that is looked for first. The vector instructions compare so many.
const WINDOW_BYTES: usize = 4;
/// Bytes in the order in which they are frequent in statements, letters for both cases.
const FREQUENT: &[u8] = b" etaoinsrldcu_=,.'0123456789mpfhgbywvkxjqz";

/// A text to find.
pub struct TextFinder {
    /// In lower case.
    text: Vec<u8>,
    method: Method,
}

enum Method {
    /// It has no letters.
    Exact(memmem::Finder<'static>),
    /// The part of it that begins at `at`, in all its spellings.
    Spellings { searcher: Searcher, at: usize },
    /// The byte at `at`, on processors without these vector instructions.
    Byte { at: usize },
}

impl TextFinder {
    /// A finder of this text. An empty one is everywhere.
    pub fn new(text: &str) -> Self {
        let text = text.to_ascii_lowercase().into_bytes();
        let method = if text.iter().any(u8::is_ascii_lowercase) {
            by_window(&text).unwrap_or_else(|| by_byte(&text))
        } else {
            Method::Exact(memmem::Finder::new(&text).into_owned())
        };
        Self { text, method }
    }

    /// Whether it is in these bytes.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        match &self.method {
            Method::Exact(finder) => finder.find(bytes).is_some(),
            Method::Spellings { searcher, at } => {
                let mut from = 0;
                while let Some(found) = searcher.find_in(bytes, Span::from(from..bytes.len())) {
                    if self.is_at(bytes, found.start(), *at) {
                        return true;
                    }
                    from = found.start() + 1;
                }
                false
            }
            Method::Byte { at } => {
                let Some(&byte) = self.text.get(*at) else { return true };
                memchr2_iter(byte, byte.to_ascii_uppercase(), bytes)
                    .any(|found| self.is_at(bytes, found, *at))
            }
        }
    }

    /// Whether the text is there, if its byte number `at` is at `found`.
    fn is_at(&self, bytes: &[u8], found: usize, at: usize) -> bool {
        let Some(begin) = found.checked_sub(at) else { return false };
        let part = bytes.get(begin..begin + self.text.len());
        part.is_some_and(|part| part.eq_ignore_ascii_case(&self.text))
    }
}

/// Higher: more frequent.
fn frequency(byte: u8) -> usize {
    let at = FREQUENT.iter().position(|&it| it == byte);
    at.map_or(0, |at| FREQUENT.len() - at)
}

fn by_window(text: &[u8]) -> Option<Method> {
    let windows = text.windows(WINDOW_BYTES.min(text.len())).enumerate();
    let rarity = |window: &[u8]| window.iter().map(|&byte| frequency(byte)).sum::<usize>();
    let (at, window) = windows.min_by_key(|(_, window)| rarity(window))?;
    let config = aho_corasick::packed::Config::new().match_kind(MatchKind::LeftmostFirst).clone();
    let searcher = config.builder().extend(spellings(window)).build()?;
    Some(Method::Spellings { searcher, at })
}

fn by_byte(text: &[u8]) -> Method {
    let rarest = text.iter().enumerate().min_by_key(|(_, byte)| frequency(**byte));
    Method::Byte { at: rarest.map_or(0, |(at, _)| at) }
}

/// A text with its letters in all combinations of cases: 16 at most for 4 bytes.
fn spellings(text: &[u8]) -> Vec<Vec<u8>> {
    text.iter().fold(vec![Vec::new()], |begins, &byte| {
        let mut cases = vec![byte];
        if byte.is_ascii_lowercase() {
            cases.push(byte.to_ascii_uppercase());
        }
        let longer = |begin: Vec<u8>| {
            let add = move |&case: &u8| [begin.as_slice(), &[case]].concat();
            cases.iter().map(add).collect::<Vec<_>>()
        };
        begins.into_iter().flat_map(longer).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All ways to find a text.
    fn finders(text: &str) -> Vec<TextFinder> {
        let lower = text.to_ascii_lowercase().into_bytes();
        let mut all = vec![TextFinder::new(text)];
        all.push(TextFinder { method: by_byte(&lower), text: lower.clone() });
        if let Some(method) = by_window(&lower) {
            all.push(TextFinder { method, text: lower });
        }
        all
    }

    #[test]
    fn a_text_is_found_in_any_case_at_any_place() {
        let around = "SELECT a0Bc FROM t WHERE x = 'é' AND abc = 1 -- ".repeat(5);
        for text in ["abc0", "x0badc0de", "12345678", "'';", "=1=", "select_", "qqq", "a b c d e"] {
            for spelled in [text.to_owned(), text.to_uppercase(), title(text)] {
                for at in (0..around.len()).filter(|&at| around.is_char_boundary(at)) {
                    let (before, after) = around.split_at(at);
                    let whole = format!("{before}{spelled}{after}");
                    let without = format!("{before}{}{after}", &spelled[1..]);
                    for finder in finders(text) {
                        assert!(finder.is_in(whole.as_bytes()), "{whole}");
                        assert!(finder.is_in(&whole.as_bytes()[before.len()..]), "{whole}");
                        let end = before.len() + spelled.len();
                        assert!(finder.is_in(&whole.as_bytes()[..end]), "{whole}");
                        assert!(!finder.is_in(&whole.as_bytes()[..end - 1]), "{whole}");
                        let is_there = without.to_ascii_lowercase().contains(text);
                        assert_eq!(finder.is_in(without.as_bytes()), is_there, "{without}");
                    }
                }
            }
        }
        for finder in finders("abc") {
            assert!(!finder.is_in(b"") && !finder.is_in(b"ab") && finder.is_in(b"ABC"));
        }
    }

    /// Every second letter in upper case.
    fn title(text: &str) -> String {
        let change = |(at, c): (usize, char)| match at % 2 {
            0 => c.to_ascii_uppercase(),
            _ => c,
        };
        text.chars().enumerate().map(change).collect()
    }

    #[test]
    fn the_rarest_part_is_looked_for() {
        let at = |text: &str| match TextFinder::new(text).method {
            Method::Spellings { at, .. } => Some(at),
            Method::Exact(_) | Method::Byte { .. } => None,
        };
        // Where there are such vector instructions.
        assert!(matches!(at("select from jqxz"), None | Some(12)));
        assert_eq!(spellings(b"a1b"), [b"a1b", b"a1B", b"A1b", b"A1B"]);
    }
}
