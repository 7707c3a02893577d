//! Compares every character set with the server's own answers.
//!
//! `fixtures/charset_digests.txt` holds one SHA-256 per set over what MariaDB answered for every
//! sequence (`scripts/charset-tables.py` makes it); the same lines are built here from the decoder.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use tacho_record::charset::{Charset, Fidelity, RestoreError, restore};

const DIGESTS: &str = include_str!("fixtures/charset_digests.txt");

/// UTF-8 or no character set, which need no table.
const WITHOUT_DIGEST: [&str; 2] = ["binary", "utf8mb3"];

/// One set of the fixture.
struct Expected {
    name: &'static str,
    sequences: usize,
    exact: usize,
    digest: &'static str,
}

fn expected() -> Vec<Expected> {
    DIGESTS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let [name, sequences, exact, digest] =
                line.split(' ').collect::<Vec<_>>().try_into().expect("four columns");
            Expected {
                name,
                sequences: sequences.parse().expect("a count"),
                exact: exact.parse().expect("a count"),
                digest,
            }
        })
        .collect()
}

fn is_unicode(name: &str) -> bool {
    matches!(name, "ucs2" | "utf16" | "utf16le" | "utf32" | "utf8mb4")
}

/// The sequences of the fixture, in its order.
fn sequences(charset: &Charset) -> Vec<Vec<u8>> {
    let name = charset.name();
    if is_unicode(name) {
        let last = if name == "ucs2" { '\u{FFFF}' } else { char::MAX };
        return ('\0'..=last)
            .filter(|character| *character <= '\u{FFFF}' || (*character as u32).is_multiple_of(251))
            .map(|character| charset.encode(character.encode_utf8(&mut [0; 4])).expect("has it"))
            .collect();
    }
    let mut found: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    if matches!(name, "big5" | "cp932" | "eucjpms" | "euckr" | "gb2312" | "gbk" | "sjis" | "ujis") {
        found.extend((0..=0xFFFF_u16).map(|pair| pair.to_be_bytes().to_vec()));
    }
    if matches!(name, "eucjpms" | "ujis") {
        found.extend((0..=0xFFFF_u16).map(|pair| [&[0x8F][..], &pair.to_be_bytes()].concat()));
    }
    found
}

fn decode(charset: &Charset, bytes: &[u8]) -> (String, Fidelity) {
    let mut text = Vec::new();
    let fidelity = charset.decode(bytes, &mut text);
    (String::from_utf8(text).expect("decoded text is UTF-8"), fidelity)
}

#[test]
fn every_sequence_is_converted_as_by_the_server() {
    for expected in expected() {
        let charset = Charset::by_name(expected.name.as_bytes()).expect(expected.name);
        let mut digest = Sha256::new();
        let mut line = String::new();
        let mut exact_count = 0;
        let sequences = sequences(charset);
        for sequence in &sequences {
            let (text, fidelity) = decode(charset, sequence);
            let exact = fidelity == Fidelity::Exact;
            exact_count += usize::from(exact);
            line.clear();
            for byte in sequence {
                write!(line, "{byte:02x}").expect("memory");
            }
            let mut separator = ' ';
            for character in text.chars() {
                // The server writes `?` where the product writes U+FFFD.
                let replaced = character == '\u{FFFD}' && !is_unicode(expected.name);
                let number = if replaced { u32::from('?') } else { u32::from(character) };
                write!(line, "{separator}{number:X}").expect("memory");
                separator = '.';
            }
            writeln!(line, " {}", u8::from(exact)).expect("memory");
            digest.update(line.as_bytes());
        }
        assert_eq!(sequences.len(), expected.sequences, "{}", expected.name);
        assert_eq!(exact_count, expected.exact, "{}", expected.name);
        assert_eq!(format!("{:x}", digest.finalize()), expected.digest, "{}", expected.name);
    }
}

#[test]
fn the_fixture_covers_every_set() {
    let covered: BTreeSet<&str> =
        expected().iter().map(|expected| expected.name).chain(WITHOUT_DIGEST).collect();
    let all: BTreeSet<&str> = Charset::all().iter().map(Charset::name).collect();
    assert_eq!(covered, all);
    assert_eq!(all.len(), 40);
}

#[test]
fn only_an_exact_text_gives_the_bytes_back() {
    for charset in Charset::all() {
        for sequence in sequences(charset) {
            let (text, fidelity) = decode(charset, &sequence);
            let back = restore(&text, None, charset);
            match fidelity {
                Fidelity::Exact => assert_eq!(back, Ok(sequence), "{}", charset.name()),
                Fidelity::Inexact => assert_ne!(back, Ok(sequence), "{}", charset.name()),
            }
        }
    }
}

#[test]
fn consecutive_sequences_are_read_in_order() {
    for charset in Charset::all() {
        let mut joined = Vec::new();
        let mut expected = String::new();
        for sequence in sequences(charset) {
            let (text, fidelity) = decode(charset, &sequence);
            if fidelity == Fidelity::Exact {
                joined.extend_from_slice(&sequence);
                expected.push_str(&text);
            }
        }
        assert_eq!(decode(charset, &joined), (expected.clone(), Fidelity::Exact));
        assert_eq!(restore(&expected, None, charset), Ok(joined));
    }
}

#[test]
fn differences_between_similar_sets() {
    let text = |name: &[u8], bytes: &[u8]| decode(Charset::by_name(name).expect("known"), bytes);
    let exact = |text: &str| (text.to_owned(), Fidelity::Exact);
    // The server's latin1 is cp1252, with C1 controls in its five holes.
    assert_eq!(text(b"latin1", b"\x80 \x81"), exact("€ \u{81}"));
    // The wave dash, and NEC's row 13, which only cp932 has.
    assert_eq!(text(b"sjis", b"\x81\x60"), exact("\u{301C}"));
    assert_eq!(text(b"cp932", b"\x81\x60"), exact("\u{FF5E}"));
    assert_eq!(text(b"cp932", b"\x87\x40"), exact("①"));
    assert_eq!(text(b"sjis", b"\x87\x40"), ("\u{FFFD}".into(), Fidelity::Inexact));
    // The second byte may be an ASCII backslash or quote without being one.
    assert_eq!(text(b"gbk", b"'\xBF\x5C'"), exact("'縗'"));
    assert_eq!(text(b"gbk", b"\xBF'"), ("\u{FFFD}'".into(), Fidelity::Inexact));
    assert_eq!(text(b"sjis", b"'\\\x95\x5C'"), exact("'\\表'"));
    assert_eq!(text(b"swe7", b"SELECT '}{|'"), exact("SELECT 'åäö'"));
    assert_eq!(text(b"utf8", "😀".as_bytes()), exact("😀"));
    assert_eq!(text(b"utf16le", b"\x3D\xD8\x00\xDE"), exact("😀"));
}

#[test]
fn ill_formed_input_is_shown_and_not_exact() {
    for (name, bytes, shown) in [
        ("utf8mb4", &b"a\xED\xA0\x80b"[..], "a\u{FFFD}\u{FFFD}\u{FFFD}b"),
        ("utf8mb4", b"\xC0\x80", "\u{FFFD}\u{FFFD}"),
        ("utf8mb3", b"\xF4\x90\x80\x80", "\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}"),
        ("binary", b"a\xFFb", "a\u{FFFD}b"),
        ("ucs2", b"\xD8\x00\x00A", "\u{FFFD}A"),
        ("utf16", b"\xD8\x00\x00A", "\u{FFFD}A"),
        ("utf16le", b"A\x00\xFF", "A\u{FFFD}"),
        ("utf32", b"\x00\x11\x00\x00\x00\x00\x00A\x00", "\u{FFFD}A\u{FFFD}"),
        ("ascii", b"caf\xE9", "caf\u{FFFD}"),
        ("ujis", b"\x8F\xA1", "\u{FFFD}\u{FFFD}"),
    ] {
        let charset = Charset::by_name(name.as_bytes()).expect(name);
        assert_eq!(decode(charset, bytes), (shown.to_owned(), Fidelity::Inexact), "{name}");
    }
}

#[test]
fn restore_refuses_text_that_was_never_written() {
    let latin1 = Charset::by_name(b"latin1").expect("known");
    assert_eq!(
        restore("表", None, latin1),
        Err(RestoreError::NotInCharset { character: '表', charset: "latin1" })
    );
    assert!(matches!(restore("x", Some("%"), latin1), Err(RestoreError::Base64(_))));
    assert_eq!(restore("\u{FFFD}", Some("/w=="), latin1), Ok(vec![0xFF]));
    assert!(Charset::by_name(b"gb18030").is_none());
}

/// Characters of one to four bytes, and trailing bytes that look like ASCII.
const CUT: [(&str, &str); 7] = [
    ("utf8mb4", "a\u{1F600}é\u{1F600}\u{1F600}中z"),
    ("utf16", "a\u{1F600}é\u{1F600}\u{1F600}中z"),
    ("utf16le", "a\u{1F600}é\u{1F600}\u{1F600}中z"),
    ("utf32", "a\u{1F600}é\u{1F600}\u{1F600}中z"),
    // The second byte of each is a backslash in its set.
    ("sjis", "SELECT 'ソソ表表十 十' ｱ表"),
    ("gbk", "SELECT '誠誠誠誠 誠'誠誠"),
    ("ujis", "丂丄a中ｱ丂丂中"),
];

#[test]
fn no_character_is_cut_in_two() {
    for (name, text) in CUT {
        let charset = Charset::by_name(name.as_bytes()).expect("a set");
        let bytes = charset.encode(text).expect("the set has all of it");
        let mut ends = BTreeSet::from([0]);
        for (at, character) in text.char_indices() {
            let until = &text[..at + character.len_utf8()];
            ends.insert(charset.encode(until).expect("as above").len());
        }
        for bytes_max in 0..=bytes.len() + 1 {
            let expected = ends.range(..=bytes_max).last().copied();
            assert_eq!(Some(charset.cut(&bytes, bytes_max)), expected, "{name} {bytes_max}");
        }
    }
    let sjis = Charset::by_name(b"sjis").expect("a set");
    assert!(sjis.encode("ソ表十").expect("has it").iter().skip(1).step_by(2).all(|b| *b == b'\\'));
}

/// Bytes that no decoder treats as a character may be cut anywhere, but nothing is cut
/// unnecessarily.
#[test]
fn ill_formed_bytes_are_cut_at_the_limit() {
    for charset in Charset::all() {
        for lead in 0x80..=0xFF_u8 {
            let bytes: Vec<u8> = [lead; 9].into_iter().chain([0xFF, 0, lead]).collect();
            for bytes_max in 0..=bytes.len() {
                let end = charset.cut(&bytes, bytes_max);
                assert!(end <= bytes_max && bytes_max - end < 4, "{} {lead:#x}", charset.name());
            }
        }
    }
    assert_eq!(Charset::UTF8MB4.cut(b"ab\xF0\x9F\x98", 4), 4, "the text ends in it");
    assert_eq!(Charset::UTF8MB4.cut(b"\x80\x80\x80\x80", 3), 3);
    assert_eq!(Charset::BINARY.cut("é".as_bytes(), 1), 0);
}
