//! Digests of any bytes in any character set and mode: no panic, a text that stays what it is when
//! it is normalised again, and the same hash whatever part of it is kept.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tacho_sql::grouping::Grouping;
use tacho_sql::digest::Normaliser;
use tacho_sql::{Doubt, High, Mode};

const GROUPINGS: [Grouping; 7] = [
    Grouping::Bytes,
    Grouping::Sjis,
    Grouping::Big5,
    Grouping::Gbk,
    Grouping::Gb18030,
    Grouping::Euckr,
    Grouping::Unknown,
];

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (grouping, flags, sql) = input;
    let mode = Mode {
        escapes: flags & 1 == 0,
        escapes_in_double: flags & 2 == 0,
        ansi_quotes: flags & 4 != 0,
        doubt: [Doubt::Guess, Doubt::Stop, Doubt::StopButEscapes][usize::from(flags >> 3) % 3],
        ..Mode::new(GROUPINGS[usize::from(grouping) % GROUPINGS.len()], High::LETTERS)
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
});
