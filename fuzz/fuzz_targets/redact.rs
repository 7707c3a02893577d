//! Redaction of any bytes in any character set: it must not panic, must not grow the text
//! beyond its bound, and must have nothing left to do the second time.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tacho_sql::redact::{Setting, secrets};

const CHARSETS: &[&[u8]] = &[
    b"utf8mb4", b"latin1", b"sjis", b"cp932", b"big5", b"gbk", b"gb18030", b"euckr", b"utf16", b"",
];

fuzz_target!(|input: (u8, bool, bool, &[u8])| {
    let (charset, in_mysql, is_part, sql) = input;
    let charset = CHARSETS[usize::from(charset) % CHARSETS.len()];
    let db: &[u8] = if in_mysql { b"mysql" } else { b"app" };
    let whole = Setting::of(charset, db);
    let setting = if is_part { whole.of_part() } else { whole };
    let once = secrets(sql, setting);
    assert!(once.len() <= 8 * sql.len() + 10);
    let twice = secrets(&once, setting);
    assert_eq!(once, twice);
});
