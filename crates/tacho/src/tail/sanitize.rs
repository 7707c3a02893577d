//! Sanitizes foreign text for a terminal.
//!
//! Clients of the server choose the content of log fields, so it may contain escape sequences that
//! retitle, recolour or type into the reader's terminal, or marks that reverse the reading
//! direction. None of them is printed: they are written as `\e`, `\n`, `\u{202e}`.

use std::fmt::Write as _;
use std::ops::Range;

use unicode_width::UnicodeWidthChar as _;

/// Longest run of marks that combine with the previous character. No language has more, and they
/// would let a field of zero width have any length.
const COMBINING_RUN_MAX: usize = 4;

/// Sanitizes `text`.
pub fn sanitize(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_sanitized(&mut out, text, None);
    out
}

/// Sanitizes `text`, cut as by [`push_sanitized`]. Also returns where some ranges of it are in the
/// result; they must be in order and not overlap.
pub fn sanitize_ranges(
    text: &str,
    ranges: &[Range<usize>],
    columns_max: Option<usize>,
) -> (String, Vec<Range<usize>>) {
    let mut out = String::new();
    let mut borders = ranges.iter().flat_map(|range| [range.start, range.end]).peekable();
    let mut places = Vec::new();
    push_each(&mut out, text, columns_max, |from, to| {
        while borders.next_if(|border| *border <= from).is_some() {
            places.push(to);
        }
    });
    places.resize(2 * ranges.len(), out.len());
    // What was cut is in the mark at the end.
    let place = |pair: &[usize]| pair[0].min(out.len())..pair[1].min(out.len());
    let places = places.chunks_exact(2).map(place).collect();
    (out, places)
}

/// Appends the sanitized `text` to `out`, in at most `columns_max` columns; if it does not fit, it
/// is cut and ends with `…`. Returns the number of columns used.
pub fn push_sanitized(out: &mut String, text: &str, columns_max: Option<usize>) -> usize {
    // Nearly all text: a column for each byte.
    let is_plain = |text: &str| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if columns_max.is_none_or(|columns| text.len() <= columns) && is_plain(text) {
        out.push_str(text);
        return text.len();
    }
    push_each(out, text, columns_max, |_, _| {})
}

/// The same; calls `each` with the place of each character in `text`, and its place in `out`.
fn push_each(
    out: &mut String,
    text: &str,
    columns_max: Option<usize>,
    mut each: impl FnMut(usize, usize),
) -> usize {
    let columns_max = columns_max.unwrap_or(usize::MAX);
    let mut columns = 0;
    // Where to cut so that `…` still fits.
    let mut cut = (out.len(), 0);
    let mut combining_run = 0;
    for (at, character) in text.char_indices() {
        let before = out.len();
        each(at, before);
        let width = match character.width() {
            Some(width) if !is_hidden(character) => {
                combining_run = if width == 0 { combining_run + 1 } else { 0 };
                (combining_run <= COMBINING_RUN_MAX).then_some(width)
            }
            _ => None,
        };
        columns += if let Some(width) = width {
            out.push(character);
            width
        } else {
            push_escape(out, character);
            out.len() - before
        };
        if columns > columns_max {
            out.truncate(cut.0);
            if columns_max == 0 {
                return 0;
            }
            out.push('…');
            return cut.1 + 1;
        }
        if columns < columns_max {
            cut = (out.len(), columns);
        }
    }
    columns
}

fn push_escape(out: &mut String, character: char) {
    match character {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{1b}' => out.push_str("\\e"),
        other => write!(out, "\\u{{{:x}}}", u32::from(other)).expect("a String takes all text"),
    }
}

/// Invisible characters that change the display: controls (C0, DEL, C1), format characters
/// (joiners, bidirectional marks, tags) and the separators that break a line.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{600}'..='\u{605}'
                | '\u{61c}'
                | '\u{6dd}'
                | '\u{70f}'
                | '\u{115f}'..='\u{1160}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hidden_gets_through() {
        assert_eq!(sanitize("a\u{1b}[31mb"), "a\\e[31mb");
        assert_eq!(sanitize("\u{9b}2J\u{7f}\0\u{7}"), "\\u{9b}2J\\u{7f}\\u{0}\\u{7}");
        assert_eq!(sanitize("\u{202e}x\u{2066}\u{feff}"), "\\u{202e}x\\u{2066}\\u{feff}");
        for code in 0..=0x0010_ffff_u32 {
            if let Some(character) = char::from_u32(code) {
                let shown = sanitize(&character.to_string());
                assert!(!shown.chars().any(char::is_control), "U+{code:04X}");
                assert!(!shown.is_empty());
            }
        }
    }

    #[test]
    fn other_languages_stay() {
        for text in ["größer", "データ", "e\u{301}", "नमस्ते", "مرحبا", "🙂"]
        {
            assert_eq!(sanitize(text), text);
        }
    }

    #[test]
    fn marks_cannot_pile_up() {
        let pile = format!("a{}", "\u{301}".repeat(1_000_000));
        let mut out = String::new();
        assert!(push_sanitized(&mut out, &pile, Some(10)) <= 10);
        assert!(out.len() < 40, "{} bytes", out.len());
    }

    #[test]
    fn ranges_are_found_in_the_result() {
        let shown = |text: &str, ranges: &[Range<usize>], columns| {
            let (out, places) = sanitize_ranges(text, ranges, columns);
            let parts = places.iter().map(|place| out[place.clone()].to_owned());
            (out.clone(), parts.collect::<Vec<_>>())
        };
        let all = |text: &str, ranges: &[Range<usize>]| shown(text, ranges, None).1;
        assert_eq!(all("abcd", &[0..1, 2..4]), ["a", "cd"]);
        assert_eq!(all("a\nb\u{1b}c", &[1..3, 3..5]), ["\\nb", "\\ec"]);
        assert_eq!(all("größe", &[0..1, 2.."größ".len()]), ["g", "öß"]);
        let (out, parts) = shown("abcdef", &[1..2, 2..6], Some(4));
        assert_eq!((out.as_str(), parts), ("abc…", vec!["b".to_owned(), "c…".to_owned()]));
        // All of it was cut.
        let (out, parts) = shown("データ1", &[0..3, 9..10], Some(4));
        assert_eq!((out.as_str(), parts), ("デ…", vec!["デ".to_owned(), String::new()]));
    }

    #[test]
    fn cut_at_the_width() {
        let cut = |text: &str, columns| {
            let mut out = String::new();
            let used = push_sanitized(&mut out, text, Some(columns));
            (out, used)
        };
        assert_eq!(cut("abc", 3), ("abc".into(), 3));
        assert_eq!(cut("abcd", 3), ("ab…".into(), 3));
        // A wide character that does not fit before the mark is removed completely.
        assert_eq!(cut("データ", 4), ("デ…".into(), 3));
        assert_eq!(cut("a\u{1b}b", 3), ("a…".into(), 2));
        assert_eq!(cut("a", 0), (String::new(), 0));
    }
}
