//! Any bytes as a statement, in any character set and mode, for all readers of statements; the last
//! two bytes of the input select the character set and the mode.
//!
//! - Digest: the text is stable when it is normalised again, and the hash does not depend on how
//!   much of the text is kept.
//! - Redaction: bounded growth, and a second pass changes nothing. Without literals, too.
//! - Rules that rewrite: tokens follow one another in the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tacho_rewrite::Reading;
use tacho_rewrite::lexer::Lexer;
use tacho_sql::digest::Normaliser;
use tacho_sql::grouping::Grouping;
use tacho_sql::redact::{Setting, secrets};
use tacho_sql::{Doubt, High, Mode};

const CHARSETS: &[&[u8]] = &[
    b"utf8mb4", b"latin1", b"sjis", b"cp932", b"big5", b"gbk", b"gb18030", b"euckr", b"utf16", b"",
];

fn digest(sql: &[u8], charset: &[u8], flags: u8) {
    let mode = Mode {
        escapes: flags & 1 == 0,
        escapes_in_double: flags & 2 == 0,
        ansi_quotes: flags & 4 != 0,
        doubt: [Doubt::Guess, Doubt::Stop, Doubt::StopButEscapes][usize::from(flags >> 3) % 3],
        ..Mode::new(Grouping::of(charset), High::LETTERS)
    };
    let mut normaliser = Normaliser::default();
    let normalised = normaliser.normalise(sql, mode, usize::MAX);
    let (text, digest) = (normalised.text.to_vec(), normalised.digest);
    assert_eq!(normaliser.normalise(sql, mode, 7).digest, digest);
    // Half of a character at the end of a name may swallow its backtick.
    let usual = Mode::new(Grouping::Bytes, High::LETTERS);
    if mode == usual {
        assert_eq!(normaliser.normalise(&text, usual, usize::MAX).text, text);
    }
}

fn redact(sql: &[u8], charset: &[u8], flags: u8) {
    let db: &[u8] = if flags & 1 != 0 { b"mysql" } else { b"app" };
    let whole = Setting::of(charset, db);
    let setting = if flags & 2 != 0 { whole.of_part() } else { whole };
    let once = secrets(sql, setting);
    assert!(once.len() <= 8 * sql.len() + 10);
    assert_eq!(once, secrets(&once, setting));
}

fn rewrite(sql: &[u8], charset: &[u8], flags: u8) {
    let reading = Reading {
        ansi_quotes: flags & 1 != 0,
        no_escapes: flags & 2 != 0,
        is_unknown: flags & 4 != 0,
        is_utf8: charset == b"utf8mb4",
    };
    let mut end = 0;
    for token in Lexer::new(sql, reading) {
        assert!(token.start >= end && !token.text.is_empty());
        end = token.end();
        assert_eq!(sql.get(token.start..end), Some(token.text));
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((sql, [charset, flags])) = input.split_last_chunk() else { return };
    let charset = CHARSETS[usize::from(*charset) % CHARSETS.len()];
    digest(sql, charset, *flags);
    redact(sql, charset, *flags);
    rewrite(sql, charset, *flags);
});
