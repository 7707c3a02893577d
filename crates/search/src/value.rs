//! Values of terms: numbers, durations, times, patterns.

use crate::digest_text::DigestPattern;
use crate::target::{Target, TargetKind};

/// How a number or time is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `>`
    Above,
    /// `>=`
    From,
    /// `<`
    Below,
    /// `<=`
    To,
}

impl Comparison {
    /// The operator of SQL, and of the language.
    pub const fn operator(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Above => ">",
            Self::From => ">=",
            Self::Below => "<",
            Self::To => "<=",
        }
    }

    fn split(text: &str) -> (Self, &str) {
        let all = [Self::From, Self::To, Self::Above, Self::Below, Self::Equal];
        all.into_iter()
            .find_map(|it| text.strip_prefix(it.operator()).map(|rest| (it, rest)))
            .unwrap_or((Self::Equal, text))
    }
}

/// A text with wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Pieces between the wildcards.
    pub pieces: Vec<Piece>,
}

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Exactly this.
    Text(String),
    /// `*`: anything.
    Any,
    /// `?`: one character.
    One,
}

impl Pattern {
    /// The longest run of characters in its texts that has none of the excluded ones. `None`: it
    /// is shorter than `bytes_min`.
    pub(crate) fn longest_run(
        &self,
        bytes_min: usize,
        is_excluded: impl Fn(char) -> bool,
    ) -> Option<&str> {
        let texts = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(&**text),
            Piece::Any | Piece::One => None,
        });
        texts
            .flat_map(|text| text.split(&is_excluded))
            .filter(|run| run.len() >= bytes_min)
            .max_by_key(|run| run.len())
    }

    /// A text in which `*` and `?` have their meaning, and a backslash takes it away.
    pub fn read(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut chars = text.chars();
        while let Some(next) = chars.next() {
            let literal = match next {
                '*' => {
                    if pieces.last() != Some(&Piece::Any) {
                        pieces.push(Piece::Any);
                    }
                    continue;
                }
                '?' => {
                    pieces.push(Piece::One);
                    continue;
                }
                '\\' => match chars.clone().next() {
                    Some(escaped @ ('*' | '?' | '\\')) => {
                        chars.next();
                        escaped
                    }
                    _ => '\\',
                },
                other => other,
            };
            match pieces.last_mut() {
                Some(Piece::Text(text)) => text.push(literal),
                _ => pieces.push(Piece::Text(literal.to_string())),
            }
        }
        Self { pieces }
    }

    /// A text as it is.
    pub fn exact(text: &str) -> Self {
        let pieces = (!text.is_empty()).then(|| Piece::Text(text.to_owned()));
        Self { pieces: pieces.into_iter().collect() }
    }

    /// The text, if it has no wildcard.
    pub fn text(&self) -> Option<&str> {
        match &self.pieces[..] {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }
}

/// What a term asks of its columns.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// They have a value.
    Present,
    /// Numbers: all of the comparisons hold.
    Numbers(Vec<(Comparison, u64)>),
    /// Times in RFC 3339: all of the comparisons hold.
    Times(Vec<(Comparison, String)>),
    /// Flag is true, or missing.
    Flag(bool),
    /// The whole text is like this.
    Like(Pattern),
    /// The text contains this, without regard to case.
    Contains(Pattern),
    /// It begins with this.
    Begins(String),
    /// The text of the digest is like this: see [`Search::look_up`](crate::Search::look_up).
    DigestText(DigestPattern),
    /// One of these digests.
    Digests(Vec<String>),
    /// A database, if any, and a table.
    Table(Option<Pattern>, Pattern),
}

/// Reads a value. `is_quoted`: it was in quotes, so nothing in it has a special meaning.
///
/// # Errors
/// What was expected instead.
pub fn read(target: &Target, text: &str, is_quoted: bool) -> Result<Test, String> {
    if text == "*" && !is_quoted {
        return Ok(Test::Present);
    }
    let pattern = || if is_quoted { Pattern::exact(text) } else { Pattern::read(text) };
    match &target.kind {
        TargetKind::Number => {
            numbers(text, number, "a number, such as 5, >1e5 or 10..20").map(Test::Numbers)
        }
        TargetKind::Micros => {
            let read = |text: &str| number(text).or_else(|| duration(text));
            numbers(text, read, "microseconds or a duration, such as >1500 or >2s")
                .map(Test::Numbers)
        }
        TargetKind::Duration => {
            numbers(text, duration, "a duration with its unit, such as >2s or 100ms..1s")
                .map(Test::Numbers)
        }
        TargetKind::Time => {
            numbers(text, time, "a time, such as >2026-11-21T10:00:00Z").map(Test::Times)
        }
        TargetKind::Flag => match text {
            "true" | "yes" | "1" => Ok(Test::Flag(true)),
            "false" | "no" | "0" => Ok(Test::Flag(false)),
            _ => Err("true or false".to_owned()),
        },
        TargetKind::Text => Ok(Test::Like(pattern())),
        TargetKind::Word(words) => match pattern() {
            pattern if pattern.text().is_none_or(|text| words.contains(&text)) => {
                Ok(Test::Like(pattern))
            }
            _ => Err(format!("one of {}", words.join(", "))),
        },
        TargetKind::Contains | TargetKind::Attributes => Ok(Test::Contains(pattern())),
        TargetKind::Digest => digest(text),
        TargetKind::DigestText => {
            let pattern = DigestPattern::new(&pattern());
            let expected = || "a text other than blanks and backticks".to_owned();
            pattern.map(Test::DigestText).ok_or_else(expected)
        }
        TargetKind::Table => table(text, is_quoted),
    }
}

/// A comparison, or a range `a..b`, both ends included.
fn numbers<T>(
    text: &str,
    read: impl Fn(&str) -> Option<T>,
    expected: &str,
) -> Result<Vec<(Comparison, T)>, String> {
    let wrong = || expected.to_owned();
    if let Some((from, to)) = text.split_once("..") {
        let from = read(from).ok_or_else(wrong)?;
        let to = read(to).ok_or_else(wrong)?;
        return Ok(vec![(Comparison::From, from), (Comparison::To, to)]);
    }
    let (comparison, rest) = Comparison::split(text);
    Ok(vec![(comparison, read(rest).ok_or_else(wrong)?)])
}

/// A whole number: `5`, `1e5`, `1.5e6`, `10k`, `2M`, `1G`.
fn number(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1e3),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if factor == 1.0 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return digits.parse().ok();
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte)) {
        return None;
    }
    whole(digits.parse::<f64>().ok()? * factor)
}

fn whole(number: f64) -> Option<u64> {
    // Beyond that not every whole number is a float.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let is_whole = (0.0..=EXACT).contains(&number) && number.fract() == 0.0;
    is_whole.then_some(number as u64)
}

/// A duration with its unit, in µs.
fn duration(text: &str) -> Option<u64> {
    let at = text.find(|c: char| c.is_alphabetic() && c != 'e')?;
    let (digits, unit) = text.split_at(at);
    let factor = match unit {
        "us" | "µs" | "μs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" | "min" => 60e6,
        "h" => 3_600e6,
        _ => return None,
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit())
        || !digits.bytes().all(|byte| byte.is_ascii_digit() || b".e".contains(&byte))
    {
        return None;
    }
    whole((digits.parse::<f64>().ok()? * factor).round())
}

/// A time in RFC 3339, or its beginning: a date, or date and time without a zone (UTC).
fn time(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let shape = |from: usize, shape: &str| {
        let part = bytes.get(from..from + shape.len())?;
        let fits = part.iter().zip(shape.bytes()).all(|(byte, wanted)| match wanted {
            b'0' => byte.is_ascii_digit(),
            other => *byte == other,
        });
        fits.then_some(from + shape.len())
    };
    let mut at = shape(0, "0000-00-00")?;
    if at == bytes.len() {
        return Some(format!("{text}T00:00:00+00:00"));
    }
    at = shape(at, "T00:00")?;
    let mut written = text[..at].to_owned();
    match shape(at, ":00") {
        Some(end) => {
            at = end;
            if bytes.get(at) == Some(&b'.') {
                let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit());
                let count = digits.count();
                if !(1..=6).contains(&count) {
                    return None;
                }
                at += 1 + count;
            }
            written = text[..at].to_owned();
        }
        None => written.push_str(":00"),
    }
    match &text[at..] {
        "" | "Z" => written.push_str("+00:00"),
        zone if shape(at + 1, "00:00") == Some(bytes.len()) && zone.starts_with(['+', '-']) => {
            written.push_str(zone);
        }
        _ => return None,
    }
    Some(written)
}

fn digest(text: &str) -> Result<Test, String> {
    let expected = || "the beginning of a digest: hexadecimal digits".to_owned();
    let (version, digits) = text.split_once(':').unwrap_or(("1", text));
    let is_digest = !digits.is_empty()
        && version.bytes().all(|byte| byte.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    // A digest is usually pasted; a prefix may end with a star.
    match digits.strip_suffix('*') {
        Some(prefix) if !is_digest => digest(&format!("{version}:{prefix}")),
        _ if is_digest => {
            let whole = format!("{version}:{}", digits.to_ascii_lowercase());
            Ok(if digits.len() == 32 {
                Test::Like(Pattern::exact(&whole))
            } else {
                Test::Begins(whole)
            })
        }
        _ => Err(expected()),
    }
}

fn table(text: &str, is_quoted: bool) -> Result<Test, String> {
    if is_quoted {
        return Ok(Test::Table(None, Pattern::exact(text)));
    }
    let read = |text: &str| match text {
        "" => Err("a table, such as card, shop.card or shop.*".to_owned()),
        text => Ok(Pattern::read(text)),
    };
    match text.split_once('.') {
        Some((db, table)) => Ok(Test::Table(Some(read(db)?), read(table)?)),
        None => Ok(Test::Table(None, read(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_durations_and_times_are_read() {
        for (text, value) in [("5", 5), ("1e5", 100_000), ("1.5e3", 1_500), ("10k", 10_000)] {
            assert_eq!(number(text), Some(value), "{text}");
        }
        assert_eq!(number("18446744073709551615"), Some(u64::MAX));
        for text in ["", "x", "-1", "1.5", "1e30", "k", "1e", "18446744073709551616", "e5", "inf"] {
            assert_eq!(number(text), None, "{text}");
        }
        for (text, value) in
            [("2s", 2_000_000), ("1.5ms", 1_500), ("7us", 7), ("1h", 3_600_000_000)]
        {
            assert_eq!(duration(text), Some(value), "{text}");
        }
        for text in ["2", "2x", "s", "-2s", "1e400s"] {
            assert_eq!(duration(text), None, "{text}");
        }
        for (text, value) in [
            ("2026-11-21", "2026-11-21T00:00:00+00:00"),
            ("2026-11-21T10:00", "2026-11-21T10:00:00+00:00"),
            ("2026-11-21T10:00:05.25Z", "2026-11-21T10:00:05.25+00:00"),
            ("2026-11-21T10:00:05-09:30", "2026-11-21T10:00:05-09:30"),
        ] {
            assert_eq!(time(text).as_deref(), Some(value), "{text}");
        }
        for text in ["", "2026", "2026-11-21 10:00", "2026-11-21T10:00:05.x", "2026-11-21T10:00'"] {
            assert_eq!(time(text), None, "{text}");
        }
    }

    #[test]
    fn patterns_have_wildcards_and_escapes() {
        use Piece::{Any, One};
        let text = |text: &str| Piece::Text(text.to_owned());
        assert_eq!(
            Pattern::read("a**b?\\*\\x").pieces,
            [text("a"), Any, text("b"), One, text("*\\x")]
        );
        assert_eq!(Pattern::read("100%").text(), Some("100%"));
    }
}
