//! Zone: outside. Digests of version 1 in every mode are what they were when the version was made.
//!
//! `golden.txt` has a line for each statement of the corpus, for each seed of the fuzzer, and for
//! each of some groups of random texts: its digest in the default mode (`-` for a group), and a
//! hash of all results of normalising it, and its beginnings, in all modes. It was written by the
//! first implementation. An existing line MUST NOT change; lines for new texts are printed by
//! `TACHO_GOLDEN=print cargo test -p tacho-sql --test golden -- --nocapture`.

use std::fs;
use std::path::{Path, PathBuf};

use tacho_sql::digest::Normaliser;
use tacho_sql::grouping::Grouping;
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

const DOUBTS: [Doubt; 3] = [Doubt::Guess, Doubt::Stop, Doubt::StopButEscapes];

/// Groups of random texts, and texts in each.
const GROUPS: u64 = 64;
const GROUP_TEXTS: usize = 200;

/// Parts of random texts.
const PARTS: &[&[u8]] = &[
    b"'",
    b"'",
    b"\"",
    b"`",
    b"\\",
    b"\\'",
    b"''",
    b";",
    b"/*",
    b"*/",
    b"/*!",
    b"/*!50000 ",
    b"/*M!100100",
    b"-- ",
    b"--",
    b"#",
    b"\n",
    b" ",
    b" ",
    b" ",
    b"  ",
    b"\t",
    b"(",
    b"(",
    b")",
    b")",
    b"=",
    b",",
    b",",
    b", ",
    b"@",
    b"@@",
    b".",
    b"...",
    b"?",
    b"SELECT ",
    b"null",
    b"NULL",
    b" IS ",
    b"NOT ",
    b"COUNT(",
    b"count (",
    b"now()",
    b"USER",
    b"SYSTEM_USER(",
    b"1",
    b"23",
    b"1.5",
    b".5",
    b"1e",
    b"1e-5",
    b"0x1f",
    b"0b1",
    b"0xg",
    b"x'",
    b"X'4a'",
    b"B'1'",
    b"N'a'",
    b"n'",
    b"_utf8mb4",
    b"_id",
    b"a",
    b"t.5",
    b"t.1e",
    b"a.b.c",
    b"+",
    b"-",
    b"- ",
    b"<",
    b">",
    b"!",
    b"<>",
    b"<=>",
    b":=",
    b"|",
    b"||",
    b"&&",
    b"\\N",
    b"/* , ... */",
    b"(?)",
    b"(...)",
    b"(_charset)",
    b"(_",
    b"\xC3\xA9",
    b"\x95\x5C",
    b"\x81\x60",
    b"\xA4\x41",
    b"\xFF",
    b"\xA0",
    b"\x80",
    b"x",
    b";;",
    b"\0",
    b"\x7F",
    b" IN (",
    b"VALUES ",
    b"(1, 'a')",
    b", (2,'b')",
    b", (NULL, -3.5e2)",
    b",(4)",
    b", ('x')",
    b"(-1)",
    b"DAY",
    b"mid(",
    b"substring ",
    b"current_timestamp",
    b"{",
    b"$",
    b"~",
    b"'it''s'",
    b"'a\\\\b'",
    b"\"x\"",
    b"`a``b`",
    b"a_name_that_is_longer_than_one_block",
    b"MASTER_SSL_VERIFY_SERVER_CERT",
    b"12345678901234567890",
    b"'a string that is longer than three blocks of sixteen bytes, with it''s \\'quotes\\''",
    b"<secret>",
    b"<redacted>",
    b"*",
    b"/",
    b"%",
    b"^",
    b":",
    b"AND ",
    b"LIMIT ",
    b"--1",
    b"++ 1",
    b"((((((((((((",
    b"- - - - - - - - - - - - - - - - - - 7",
    b";;;;;;;;;;;;;;;;;;;;;;;;",
];

/// A linear congruential generator: the same texts everywhere, whatever the version of a crate.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn text(&mut self) -> Vec<u8> {
        let count = self.below(40);
        (0..count).flat_map(|_| PARTS[self.below(PARTS.len())]).copied().collect()
    }
}

fn modes() -> Vec<Mode> {
    // As in latin1: letters from 0xC0, a space at 0xA0.
    let latin1 = High::of(|byte| Some(char::from(byte)));
    let mut modes = Vec::new();
    for grouping in GROUPINGS {
        // The other groupings belong to sets with several bytes per character.
        let highs = [High::LETTERS, latin1];
        for high in &highs[..if grouping == Grouping::Bytes { 2 } else { 1 }] {
            for doubt in DOUBTS {
                for flags in 0..8 {
                    modes.push(Mode {
                        escapes: flags & 1 == 0,
                        escapes_in_double: flags & 2 == 0,
                        ansi_quotes: flags & 4 != 0,
                        doubt,
                        ..Mode::new(grouping, *high)
                    });
                }
            }
        }
    }
    modes
}

fn usual() -> Mode {
    Mode::new(Grouping::Bytes, High::LETTERS)
}

/// Adds all results for a text.
fn take(
    hasher: &mut blake3::Hasher,
    normaliser: &mut Normaliser,
    sql: &[u8],
    mode: Mode,
    max: usize,
) {
    let normalised = normaliser.normalise(sql, mode, max);
    let flags =
        [normalised.is_cut, normalised.is_broken, normalised.is_given_up, normalised.out_of_memory];
    hasher.update(&(normalised.text.len() as u64).to_le_bytes());
    hasher.update(normalised.text);
    hasher.update(&normalised.digest.written());
    hasher.update(&flags.map(u8::from));
}

/// Texts in some modes, and the beginnings of one in so many texts in two modes.
fn hash_of(texts: &[Vec<u8>], modes: &[Mode], step: usize) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut normaliser = Normaliser::default();
    for sql in texts {
        for mode in modes {
            take(&mut hasher, &mut normaliser, sql, *mode, usize::MAX);
        }
        let stop = Mode { doubt: Doubt::Stop, ..usual() };
        for end in (0..sql.len().min(400)).step_by(step) {
            for mode in [usual(), stop] {
                take(&mut hasher, &mut normaliser, &sql[..end], mode, 20);
            }
        }
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Texts with a line of their own.
fn single_texts() -> Vec<Vec<u8>> {
    let corpus = fs::read_to_string(folder().join("corpus.json")).expect("the corpus");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&corpus).expect("JSON");
    let mut texts: Vec<Vec<u8>> =
        rows.iter().map(|row| row["sql"].as_str().expect("a text").as_bytes().to_vec()).collect();
    let seeds = folder().join("../../../fuzz/corpus/statement");
    let mut seeds: Vec<PathBuf> =
        fs::read_dir(seeds).expect("the seeds").map(|seed| seed.expect("a seed").path()).collect();
    seeds.sort();
    texts.extend(seeds.iter().map(|seed| fs::read(seed).expect("a seed")));
    // Longer than every buffer that it passes.
    let columns: Vec<String> = (0..9_000).map(|number| format!("t{number}.c")).collect();
    texts.push(format!("SELECT {} FROM t", columns.join(", ")).into_bytes());
    texts.push(format!("SELECT {}", "-".repeat(70)).into_bytes());
    texts.push(format!("SELECT `{}`", "n`` ".repeat(20_000)).into_bytes());
    texts.push(format!("SELECT {}1{}", "((1,".repeat(9_000), ")".repeat(18_000)).into_bytes());
    texts
}

fn lines() -> Vec<String> {
    let modes = modes();
    let mut normaliser = Normaliser::default();
    let mut lines = Vec::new();
    for sql in single_texts() {
        let digest = normaliser.normalise(&sql, usual(), 0).digest;
        // In all modes the long texts would take minutes.
        let modes = if sql.len() > 10_000 { &modes[..4] } else { &modes };
        lines.push(format!("{digest} {}", hash_of(&[sql], modes, 1)));
    }
    for group in 0..GROUPS {
        let mut random = Random(group);
        let texts: Vec<Vec<u8>> = (0..GROUP_TEXTS).map(|_| random.text()).collect();
        // A few modes for each text; each mode in many groups.
        let few: Vec<Mode> = (0..6).map(|_| modes[random.below(modes.len())]).collect();
        lines.push(format!("- {}", hash_of(&texts, &few, 23)));
    }
    lines
}

#[test]
fn nothing_has_changed_in_any_mode() {
    let lines = lines();
    if std::env::var("TACHO_GOLDEN").is_ok() {
        println!("{}", lines.join("\n"));
    }
    let golden = fs::read_to_string(folder().join("golden.txt")).expect("golden.txt");
    let golden: Vec<&str> = golden.lines().collect();
    assert_eq!(golden.len(), lines.len());
    for (index, (line, golden)) in lines.iter().zip(golden).enumerate() {
        assert_eq!(line, golden, "line {} of golden.txt", index + 1);
    }
}
