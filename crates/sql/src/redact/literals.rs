//! Statements without any literal.
//!
//! The remaining text is that of the statement's digest (`docs/specs/digest.md`): names and
//! keywords stay, a literal becomes `?`. Which parts are literals depends on `sql_mode`, which the
//! recorder does not get; so a text is removed from the first position where it matters, unless the
//! server has parsed the statement and can have done so in only one way.

use crate::digest::Normaliser;
use crate::grouping::Grouping;
use crate::text::quoted_end;
use crate::{Doubt, Mode};

use std::borrow::Cow;

use super::lexer::REDACTED;
use super::{Setting, secrets};

/// Whether the server has parsed the whole text, as one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// It has.
    Yes,
    /// It has not, or it is unknown.
    Unknown,
}

/// `sql` without any literal, user variable's name, host name, comment, or secret.
///
/// Where literals cannot be determined, or there is not enough memory, `<redacted>` replaces the
/// rest of the text.
pub fn literals(
    sql: &[u8],
    setting: Setting,
    parsed: Parsed,
    normaliser: &mut Normaliser,
) -> Vec<u8> {
    let unknown_high = setting.has_unknown_characters() && !sql.is_ascii();
    let Some(mode) = setting.digest_mode().filter(|_| !unknown_high) else {
        return REDACTED.to_vec();
    };
    let stop = Mode { doubt: Doubt::Stop, ..mode };
    let Some(careful) = read(sql, stop, normaliser) else { return REDACTED.to_vec() };
    // All readings contribute secrets. The remains of an ambiguous text have other quotes than the
    // text had: it can only be read if it was unambiguous.
    if let Cow::Owned(cleaned) = secrets(sql, setting) {
        let read_again = || read(&cleaned, stop, normaliser).map(|reading| reading.text);
        let known = (!careful.is_given_up).then(read_again).flatten();
        return known.unwrap_or_else(|| REDACTED.to_vec());
    }
    if !careful.is_given_up || parsed == Parsed::Unknown {
        return careful.text;
    }
    let mut only: Option<Reading> = None;
    for (escapes, escapes_in_double) in [(true, true), (false, false), (true, false)] {
        let mode = Mode { escapes, escapes_in_double, doubt: Doubt::StopButEscapes, ..mode };
        let Some(reading) = read(sql, mode, normaliser) else { return careful.text };
        // Checked before whether it is broken: an unknown part may be what breaks it.
        if reading.is_given_up {
            return careful.text;
        }
        if reading.is_broken {
            continue;
        }
        if only.as_ref().is_some_and(|only| only.text != reading.text) {
            return careful.text;
        }
        only = Some(reading);
    }
    only.map_or(careful.text, |only| only.text)
}

struct Reading {
    text: Vec<u8>,
    is_broken: bool,
    is_given_up: bool,
}

/// `None`: there is not enough memory.
fn read(sql: &[u8], mode: Mode, normaliser: &mut Normaliser) -> Option<Reading> {
    let normalised = normaliser.normalise(sql, mode, usize::MAX);
    if normalised.out_of_memory {
        return None;
    }
    let text = without_quoted_variables(normalised.text)?;
    let (is_broken, is_given_up) = (normalised.is_broken, normalised.is_given_up);
    Some(Reading { text, is_broken, is_given_up })
}

/// A normalised text without the quoted names of user variables and hosts; unquoted ones are not in
/// it. `None`: there is not enough memory.
fn without_quoted_variables(text: &[u8]) -> Option<Vec<u8>> {
    let mut kept = Vec::new();
    kept.try_reserve_exact(text.len()).ok()?;
    let mut rest = text;
    while let [first, ..] = rest {
        if *first == b'`' {
            let (end, _) = quoted_end(rest, 1, b'`', false, Grouping::Bytes);
            let before = kept.trim_ascii_end();
            let is_variable = before.ends_with(b"@") && !before.ends_with(b"@@");
            kept.extend_from_slice(if is_variable { b"?" } else { &rest[..end] });
            rest = &rest[end..];
        } else {
            kept.push(*first);
            rest = &rest[1..];
        }
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parsed: Parsed, charset: &str, pairs: &[(&[u8], &str)]) {
        let setting = Setting::of(charset.as_bytes(), b"");
        let mut normaliser = Normaliser::default();
        for (sql, expected) in pairs {
            let text = literals(sql, setting, parsed, &mut normaliser);
            let (sql, text) = (String::from_utf8_lossy(sql), String::from_utf8_lossy(&text));
            assert_eq!(text, *expected, "{sql}");
        }
    }

    #[test]
    fn literals_go_and_names_stay() {
        check(
            Parsed::Unknown,
            "utf8mb4",
            &[
                (b"SELECT 'a', 1 FROM t WHERE b = \"c\"", "SELECT ?, ... FROM `t` WHERE `b` = ?"),
                (b"SELECT 'a\\n', 'b\\\\'", "SELECT ?, ..."),
                (b"SET @mine = 1 /* mine */", "SET @? = ?"),
                (b"SET @`name` = 1", "SET @? = ?"),
                (b"SELECT @@`name`, `a@`.`b`", "SELECT @@`name` , `a@` . `b`"),
                (b"SELECT 1e-5, 12e", "SELECT ?, ..."),
                (b"CREATE USER u IDENTIFIED BY <secret>", "CREATE USER `u` IDENTIFIED BY ?"),
                (b"SET PASSWORD = <redacted>", "SET PASSWORD = <redacted>"),
                (b"SELECT 'cut", "SELECT ?"),
            ],
        );
    }

    #[test]
    fn parts_that_depend_on_the_mode_are_removed() {
        check(
            Parsed::Unknown,
            "utf8mb4",
            &[
                (b"SELECT a, 'it\\'s', secret", "SELECT `a` , <redacted>"),
                (b"SELECT \"a\\\", 'b'", "SELECT <redacted>"),
                (b"/*!50000 SELECT '*/', a */ 'b'", "SELECT <redacted>"),
                (b"/*!50000 SELECT a -- */ b\n, c", "SELECT `a` <redacted>"),
                (b"/*!50000 SELECT 1 /*!50001 , 'a' */ */", "SELECT ? <redacted>"),
                (b"SELECT 1 --\xC2\xA0a", "SELECT ? <redacted>"),
            ],
        );
    }

    #[test]
    fn parsed_statements_are_unambiguous() {
        check(
            Parsed::Yes,
            "utf8mb4",
            &[
                (b"SELECT a, 'it\\'s', b", "SELECT `a` , ? , `b`"),
                (b"SELECT 'it\\'s', 'isn\\'t', c", "SELECT ?, ... , `c`"),
                (b"SELECT \"it's\\\"\", c", "SELECT ? , `c`"),
                // Only with NO_BACKSLASH_ESCAPES.
                (b"SELECT 'a\\', b", "SELECT ? , `b`"),
                (b"SELECT 'a\\', 'b', 'c'", "SELECT ?, ..."),
                // Both are possible.
                (b"SELECT 'x\\', \"', y /*\"*/", "SELECT <redacted>"),
            ],
        );
    }

    /// A secret that one reading removes changes the quotes of another.
    #[test]
    fn secrets_do_not_hide_an_ambiguity() {
        let unclear: &[u8] =
            b"INSERT INTO log VALUES ('don\\'t use PASSWORD(', 'my private note', 'x')";
        let path: &[u8] =
            b"UPDATE app SET dir='C:\\tmp\\', password = MD5(id), note='very private'";
        for parsed in [Parsed::Yes, Parsed::Unknown] {
            check(parsed, "utf8mb4", &[(unclear, "<redacted>")]);
        }
        // It contains no secret, and only one reading of it can be parsed.
        let parsed = "UPDATE `app` SET `dir` = ? , PASSWORD = `MD5` ( ID ) , `note` = ?";
        check(Parsed::Yes, "utf8mb4", &[(path, parsed)]);
        check(Parsed::Unknown, "utf8mb4", &[(path, "UPDATE `app` SET `dir` = <redacted>")]);
        let clear: &[u8] = b"CREATE USER u IDENTIFIED BY 'y', v IDENTIFIED BY 'x'";
        check(
            Parsed::Yes,
            "utf8mb4",
            &[(clear, "CREATE USER `u` IDENTIFIED BY ? , `v` IDENTIFIED BY ?")],
        );
    }

    /// A comment that the server may have skipped can contain anything.
    #[test]
    fn versioned_comments_are_ambiguous() {
        for sql in [
            &b"SELECT 'it\\'s', 'private' /*!99999 don't */"[..],
            b"SELECT 'it\\'s', 'private' /*!99999 \\ ' */",
            b"SELECT /*!99999 '/*' */ 1, 'abc */ 'private'",
            b"SELECT /*!99999 `/*` */ 1, 'abc */ 'private'",
            b"SELECT /*!99999 # /*\n */ 1, 'abc */ 'private'",
        ] {
            for parsed in [Parsed::Yes, Parsed::Unknown] {
                let setting = Setting::of(b"utf8mb4", b"");
                let text = literals(sql, setting, parsed, &mut Normaliser::default());
                let text = String::from_utf8_lossy(&text).into_owned();
                assert!(!text.contains("private"), "{text}");
            }
        }
    }

    #[test]
    fn character_sets() {
        // The second byte of the character is not a backslash.
        check(Parsed::Unknown, "sjis", &[(b"SELECT '\x83\\', a", "SELECT ? , `a`")]);
        check(Parsed::Unknown, "gbk", &[(b"SELECT '\xBF\\', a", "SELECT ? , `a`")]);
        check(
            Parsed::Unknown,
            "",
            &[(b"SELECT '\x83\\', a", "<redacted>"), (b"SELECT 'a'", "SELECT ?")],
        );
        check(Parsed::Unknown, "utf16", &[(b"S\0E\0", "<redacted>")]);
        // A no-break space is a space in latin1, and a digit after it a number.
        check(Parsed::Unknown, "latin1", &[(b"SELECT\xA012", "SELECT ?")]);
    }
}
