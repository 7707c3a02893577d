//! One line of the log, borrowed from the bytes read.
//!
//! The inverse of [`json`](crate::json); the normative text is `docs/specs/record.md`. Strict: a
//! duplicate field or one of another type makes the line invalid. Unknown fields are ignored, so
//! that a newer recorder may add some.

mod clock;
pub mod members;
mod read;
mod values;

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Deserialize;

use crate::fields::fields;

pub use values::{LineValue, write_field, write_string, write_values};

/// Version of the line format this program knows.
pub const VERSION: u32 = 1;

/// A text of a line, and its original bytes in base64 if the text alone does not give them back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<'a> {
    /// As in the line; borrowed if it has no escape.
    pub text: Cow<'a, str>,
    /// The field of the same name with `_b64`.
    pub b64: Option<String>,
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// The text of a statement, and its original bytes. An empty text counts as a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SqlText<'a> {
    /// `None`: the line has no text.
    pub text: Option<Cow<'a, str>>,
    /// The field of the same name with `_b64`.
    pub b64: Option<String>,
}

/// A value of JSON, as its text in the line; empty: the line has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Json<'a>(pub Cow<'a, str>);

impl std::ops::Deref for Json<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// The type of a field of [`Line`].
macro_rules! parsed {
    ($a:lifetime Seq) => { u64 };
    ($a:lifetime Instant) => { Timestamp };
    ($a:lifetime Event) => { Cow<$a, str> };
    ($a:lifetime Outcome) => { Cow<$a, str> };
    ($a:lifetime Number) => { Option<u64> };
    ($a:lifetime Port) => { Option<u16> };
    ($a:lifetime Errno) => { u32 };
    ($a:lifetime Flag) => { bool };
    ($a:lifetime Statement) => { SqlText<$a> };
    ($a:lifetime Digest) => { Cow<$a, str> };
    ($a:lifetime Tables) => { Vec<Touched<$a>> };
    ($a:lifetime Time) => { Option<Timestamp> };
    ($a:lifetime Attributes) => { Vec<Attribute<$a>> };
    ($a:lifetime Params) => { Json<$a> };
    // Name, Word, Message, CharsetName
    ($a:lifetime $text:ident) => { Text<$a> };
}

macro_rules! line {
    ($($group:ident { $($key:ident => $field:ident: $kind:ident,
        $what:literal, $present:literal, $source:literal;)* })*) => {
        /// A parsed line. Missing fields are empty; `seq` is then 0, which no line of the recorder
        /// has: see [`OwnedRecord::of_line`](crate::OwnedRecord::of_line).
        #[derive(Debug, Default)]
        pub struct Line<'a> {
            /// Version of the format: [`VERSION`].
            pub v: u32,
            $($(#[doc = $what] pub $key: parsed!('a $kind),)*)*
        }
    };
}
fields!(line);

/// An entry of `attributes`.
#[derive(Debug, Deserialize)]
#[allow(missing_docs, reason = "the names and meanings are those of crate::Attribute")]
pub struct Attribute<'a> {
    #[serde(borrow, default)]
    pub key: Cow<'a, str>,
    pub key_b64: Option<String>,
    #[serde(borrow, default)]
    pub value: Cow<'a, str>,
    pub value_b64: Option<String>,
}

/// An entry of `tables`.
#[derive(Debug, Deserialize)]
#[allow(missing_docs, reason = "the names and meanings are those of crate::TableUse")]
pub struct Touched<'a> {
    #[serde(borrow, default)]
    pub access: Cow<'a, str>,
    #[serde(borrow, default)]
    pub db: Cow<'a, str>,
    pub db_b64: Option<String>,
    #[serde(borrow, default)]
    pub table: Cow<'a, str>,
    pub table_b64: Option<String>,
    #[serde(borrow, default)]
    pub new_db: Cow<'a, str>,
    pub new_db_b64: Option<String>,
    #[serde(borrow, default)]
    pub new_table: Cow<'a, str>,
    pub new_table_b64: Option<String>,
}

impl<'a> Line<'a> {
    /// Parses a line, with or without its line end.
    ///
    /// # Errors
    /// A message that describes the error.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        if bytes.trim_ascii().is_empty() {
            return Err("the line is empty".to_owned());
        }
        // The whole line, because the parser does not check ignored fields.
        let text = std::str::from_utf8(bytes)
            .map_err(|e| format!("not UTF-8 after {} bytes of the line", e.valid_up_to()))?;
        let line = serde_json::from_str(text).map_err(|error| explain(text, &error));
        match line {
            Ok(Line { v, .. }) if v != VERSION => Err(other_version(v)),
            line => line,
        }
    }

    /// The text of the statement; empty if the line has none.
    pub fn sql_text(&self) -> &str {
        self.sql.text.as_deref().unwrap_or_default()
    }

    /// When the event of the line ended: the log is written in about this order, while `ts` of a
    /// long statement may be hours earlier. `None` for a line without an end, such as one about a
    /// statement that has not ended.
    pub fn end_ts(&self) -> Option<Timestamp> {
        if self.outcome != "ok" && self.outcome != "error" {
            return None;
        }
        let duration =
            jiff::SignedDuration::from_micros(i64::try_from(self.query_time_us.unwrap_or(0)).ok()?);
        self.ts.checked_add(duration).ok()
    }
}

fn other_version(version: u32) -> String {
    format!("the line has version {version}; this tacho knows version {VERSION}")
}

fn explain(text: &str, error: &serde_json::Error) -> String {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    // Fields of a newer version may not parse; then the version is the reason.
    if let Ok(Version { v }) = serde_json::from_str(text)
        && v != VERSION
    {
        return other_version(v);
    }
    let place = format!(" at line {} column {}", error.line(), error.column());
    let reason = error.to_string();
    format!("{} at column {}", reason.strip_suffix(&place).unwrap_or(&reason), error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_escapes_is_borrowed() {
        let text = br#"{"v":1,"seq":1,"ts":"2026-11-21T10:00:00.000001+01:00","event":"statement","user":"app","sql":"a\nb","later":[{}]}"#;
        let line = Line::parse(text).unwrap();
        assert!(matches!(line.user.text, Cow::Borrowed("app")));
        assert_eq!(line.sql_text(), "a\nb");
        assert_eq!(line.ts.as_microsecond(), 1_795_251_600_000_001);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (text, reason) in [
            (&b""[..], "the line is empty"),
            (b"{\"v\":1", "EOF while parsing an object at column 6"),
            (b"{\"v\":2,\"seq\":\"x\"}", "the line has version 2; this tacho knows version 1"),
            (b"{\"v\":1,\"x\":\"\xff\"}", "not UTF-8 after 12 bytes of the line"),
            (
                br#"{"v":1,"seq":1,"ts":"soon","event":"x"}"#,
                "`ts` is not an RFC 3339 time at column 26",
            ),
            (br#"{"v":1,"seq":1}"#, "missing field `ts` at column 15"),
        ] {
            assert_eq!(Line::parse(text).unwrap_err(), reason);
        }
    }

    #[test]
    fn end_is_start_plus_duration_and_unknown_while_open() {
        let parse = |rest: &str| {
            let text = format!(r#"{{"v":1,"seq":1,"ts":"1970-01-01T00:00:01Z",{rest}}}"#);
            Line::parse(text.as_bytes()).unwrap().end_ts().map(Timestamp::as_microsecond)
        };
        let ended = r#""event":"statement","outcome":"ok","query_time_us":5"#;
        assert_eq!(parse(ended), Some(1_000_005));
        assert_eq!(parse(r#""event":"statement","outcome":"interrupted""#), None);
        assert_eq!(parse(r#""event":"start""#), None);
    }
}
