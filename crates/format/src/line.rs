//! One line of the log, borrowed from the bytes read.
//!
//! The inverse of `tacho_record::json`; the normative text is `docs/specs/record.md`. Strict: a
//! field that is there twice or of another type makes the line a broken one. Fields that are not
//! known are passed over, so that a newer recorder may add some.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

/// Version of the line format this program knows.
pub const VERSION: u32 = 1;

/// A parsed line. A text that is missing is empty, except [`Line::sql`]; an `Option` around a
/// `Cow` would always be copied. A `…_b64` companion has the original bytes of the text before it.
#[derive(Debug, Deserialize)]
#[allow(missing_docs, reason = "the names and meanings are those of tacho_record::Record")]
pub struct Line<'a> {
    pub v: u32,
    /// 0 when it is missing, which no line of the recorder has: see [`crate::owned`].
    #[serde(default)]
    pub seq: u64,
    #[serde(deserialize_with = "timestamp")]
    pub ts: Timestamp,
    #[serde(borrow)]
    pub event: Cow<'a, str>,
    #[serde(borrow, default)]
    pub outcome: Cow<'a, str>,
    pub run: Option<u64>,
    pub conn: Option<u64>,
    pub conn_seq: Option<u64>,
    pub query_id: Option<u64>,
    #[serde(borrow, default)]
    pub user: Cow<'a, str>,
    pub user_b64: Option<String>,
    #[serde(borrow, default)]
    pub priv_user: Cow<'a, str>,
    pub priv_user_b64: Option<String>,
    #[serde(borrow, default)]
    pub proxy_user: Cow<'a, str>,
    pub proxy_user_b64: Option<String>,
    #[serde(borrow, default)]
    pub os_user: Cow<'a, str>,
    pub os_user_b64: Option<String>,
    #[serde(borrow, default)]
    pub host: Cow<'a, str>,
    pub host_b64: Option<String>,
    #[serde(borrow, default)]
    pub ip: Cow<'a, str>,
    pub ip_b64: Option<String>,
    pub port: Option<u16>,
    #[serde(borrow, default)]
    pub db: Cow<'a, str>,
    pub db_b64: Option<String>,
    #[serde(borrow, default)]
    pub command: Cow<'a, str>,
    pub command_b64: Option<String>,
    #[serde(borrow, default)]
    pub sql_command: Cow<'a, str>,
    pub sql_command_b64: Option<String>,
    #[serde(default)]
    pub errno: u32,
    #[serde(borrow, default)]
    pub sqlstate: Cow<'a, str>,
    pub sqlstate_b64: Option<String>,
    #[serde(borrow, default)]
    pub error: Cow<'a, str>,
    pub error_b64: Option<String>,
    #[serde(borrow, default)]
    pub blocked_by: Cow<'a, str>,
    pub blocked_by_b64: Option<String>,
    /// The text, also an empty one; `None`: the line has no text.
    #[serde(borrow, default, deserialize_with = "some_text")]
    pub sql: Option<Cow<'a, str>>,
    pub sql_b64: Option<String>,
    pub sql_bytes: Option<u64>,
    #[serde(default)]
    pub sql_redacted: bool,
    #[serde(borrow, default)]
    pub sql_charset: Cow<'a, str>,
    pub sql_charset_b64: Option<String>,
    #[serde(borrow, default)]
    pub digest: Cow<'a, str>,
    pub rewrite_rule: Option<u64>,
    #[serde(borrow, default, deserialize_with = "some_text")]
    pub rewritten_query: Option<Cow<'a, str>>,
    pub rewritten_query_b64: Option<String>,
    #[serde(borrow, default)]
    pub tables: Vec<Touched<'a>>,
    pub rows_sent: Option<u64>,
    pub rows_examined: Option<u64>,
    pub rows_affected: Option<u64>,
    pub query_time_us: Option<u64>,
    pub lock_time_us: Option<u64>,
    #[serde(default, deserialize_with = "some_timestamp")]
    pub start_ts: Option<Timestamp>,
    pub running_seq: Option<u64>,
    pub count: Option<u64>,
    #[serde(borrow, default)]
    pub cause: Cow<'a, str>,
    pub cause_b64: Option<String>,
    #[serde(borrow, default)]
    pub server: Cow<'a, str>,
    pub server_b64: Option<String>,
    #[serde(borrow, default)]
    pub program: Cow<'a, str>,
    pub program_b64: Option<String>,
    #[serde(borrow, default)]
    pub tls: Cow<'a, str>,
    pub tls_b64: Option<String>,
    #[serde(borrow, default)]
    pub signing_key: Cow<'a, str>,
    pub signing_key_b64: Option<String>,
    #[serde(borrow, default)]
    pub variable: Cow<'a, str>,
    pub variable_b64: Option<String>,
    #[serde(borrow, default)]
    pub old_value: Cow<'a, str>,
    pub old_value_b64: Option<String>,
    #[serde(borrow, default)]
    pub new_value: Cow<'a, str>,
    pub new_value_b64: Option<String>,
    #[serde(borrow, default)]
    pub class: Cow<'a, str>,
    pub class_b64: Option<String>,
    #[serde(borrow, default)]
    pub action: Cow<'a, str>,
    pub action_b64: Option<String>,
    #[serde(borrow, default)]
    pub object: Cow<'a, str>,
    pub object_b64: Option<String>,
    #[serde(borrow, default)]
    pub producer: Cow<'a, str>,
    pub producer_b64: Option<String>,
    #[serde(borrow, default)]
    pub detail: Cow<'a, str>,
    pub detail_b64: Option<String>,
    pub detail_bytes: Option<u64>,
    #[serde(borrow, default)]
    pub attributes: Vec<Attribute<'a>>,
}

/// An entry of `attributes`.
#[derive(Debug, Deserialize)]
#[allow(missing_docs, reason = "the names and meanings are those of tacho_record::Attribute")]
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
#[allow(missing_docs, reason = "the names and meanings are those of tacho_record::TableUse")]
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

/// A text that is borrowed where it has no escape.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn some_text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Cow<'de, str>>, D::Error> {
    Ok(Some(Text::deserialize(deserializer)?.0))
}

fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    time_of(deserializer, "`ts` is not an RFC 3339 time")
}

fn some_timestamp<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    time_of(deserializer, "`start_ts` is not an RFC 3339 time").map(Some)
}

fn time_of<'de, D: Deserializer<'de>>(
    deserializer: D,
    complaint: &str,
) -> Result<Timestamp, D::Error> {
    let text = Text::deserialize(deserializer)?.0;
    text.parse().map_err(|_| serde::de::Error::custom(complaint))
}

impl<'a> Line<'a> {
    /// Parses a line, with or without its line end.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        if bytes.trim_ascii().is_empty() {
            return Err("the line is empty".to_owned());
        }
        // The whole line, because fields that are passed over are not checked by the parser.
        let text = std::str::from_utf8(bytes)
            .map_err(|e| format!("not UTF-8 after {} bytes of the line", e.valid_up_to()))?;
        let line = serde_json::from_str(text).map_err(|error| explain(text, &error));
        match line {
            Ok(Line { v, .. }) if v != VERSION => Err(other_version(v)),
            line => line,
        }
    }

    /// The text of the statement; empty when the line has none.
    pub fn sql_text(&self) -> &str {
        self.sql.as_deref().unwrap_or_default()
    }

    /// When the line's matter was over: the log is written in about this order, while `ts` of
    /// a long statement may lie hours back. `None` for a line that says nothing about it, such
    /// as one about a statement that has not ended.
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
    format!("the line is of version {version}; this tacho knows version {VERSION}")
}

fn explain(text: &str, error: &serde_json::Error) -> String {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    // Fields of a newer version may well not parse; then the version is the reason.
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
        assert!(matches!(line.user, Cow::Borrowed("app")));
        assert_eq!(line.sql_text(), "a\nb");
        assert_eq!(line.ts.as_microsecond(), 1_795_251_600_000_001);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, reason) in [
            (&b""[..], "the line is empty"),
            (b"{\"v\":1", "EOF while parsing an object at column 6"),
            (b"{\"v\":2,\"seq\":\"x\"}", "the line is of version 2; this tacho knows version 1"),
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
