//! Searches against DuckDB: what is hostile to SQL is found as the text that it is.

use std::collections::BTreeSet;

use serde_json::json;
use tacho_query::{Answer, Cancel, literal};

use crate::Hub;
use crate::rollups::Random;

const HOSTILE: &[&str] = &[
    "o'brien",
    "a\"b",
    "x'); DROP VIEW records; --",
    "' OR '1'='1",
    "100%",
    "1000",
    "a_b",
    "acb",
    "back\\slash",
    "back\\\\slash",
    "*",
    "?",
    "é表😀",
    "$1",
    "{{x}}",
    "--",
    "/* x */",
    "E'\\x41'",
    "\u{2028}",
    "İ",
];

fn line(seq: usize, text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    let sql = format!("\"SELECT {}", &text[1..]);
    format!(
        "{{\"v\":1,\"seq\":{seq},\"ts\":\"2026-11-21T10:00:00.000007+01:00\",\
         \"event\":\"statement\",\"outcome\":\"ok\",\"user\":{text},\"sql\":{sql},\
         \"tables\":[{{\"access\":\"read\",\"db\":{text},\"table\":{text}}}]}}"
    )
}

impl Hub {
    fn find(&self, search: &str) -> BTreeSet<u64> {
        let search =
            tacho_search::parse(search).unwrap_or_else(|error| panic!("{search}: {error}"));
        let sql = format!("SELECT seq FROM records WHERE {}", search.condition());
        let result = self.pool.fetch(&self.request(&sql), &Cancel::default());
        let Answer { rows, .. } = result.unwrap_or_else(|error| panic!("{sql}: {error}"));
        rows.iter().map(|row| row[0].as_u64().unwrap()).collect()
    }
}

#[test]
fn hostile_texts_are_found_and_nothing_else() {
    let lines = HOSTILE.iter().enumerate().map(|(at, text)| line(at + 1, text));
    let hub = Hub::of_lines(lines, |_| {});
    for (at, text) in HOSTILE.iter().enumerate() {
        let seq = BTreeSet::from([at as u64 + 1]);
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        assert_eq!(hub.find(&format!("user:\"{quoted}\"")), seq, "{text}");
        assert_eq!(hub.find(&format!("table:\"{quoted}\"")), seq, "{text}");
        assert!(hub.find(&format!("\"{quoted}\"")).contains(&(at as u64 + 1)), "{text}");
        let others = hub.find(&format!("-user:\"{quoted}\""));
        assert_eq!(others.len(), HOSTILE.len() - 1, "{text}");
    }
    assert_eq!(hub.find("user:a_b"), BTreeSet::from([7]));
    assert_eq!(hub.find("user:a?b"), BTreeSet::from([2, 7, 8]));
    assert_eq!(hub.find("user:100%"), BTreeSet::from([5]));
    assert_eq!(hub.find("user:10*"), BTreeSet::from([5, 6]));
    assert_eq!(hub.find("user:\\*"), BTreeSet::from([11]));
    assert_eq!(hub.find("\"O'BRIEN\""), BTreeSet::from([1]));
}

#[test]
fn every_condition_is_valid_sql() {
    let hub = Hub::new();
    for target in tacho_search::targets() {
        hub.find(&format!("{}:*", target.name));
    }
    for (search, count) in [
        ("", 300),
        ("seq:10..19", 10),
        ("time:>=2.9ms", 11),
        ("query_time_us:<50", 4),
        ("ts:>=2026-11-21T09:04:00Z ts:<2026-11-21T09:04:10Z", 10),
        ("ts:2026-11-21T10:04:01.000007+01:00", 1),
        ("table:shop.card", 100),
        ("table:s*.c?rd", 100),
        ("-table:card", 200),
        ("attributes:x", 0),
        ("errno:0", 300),
        ("sql_redacted:false", 300),
        ("user:(app0 or app1) -user:app1", 150),
        ("sql:sel*7", 57),
        ("digest:ab", 0),
        ("-digest_text:*", 300),
        ("digest:00112233445566778899aabbccddeeff", 0),
        ("event:statement outcome:o* server:db1 generation:1 file:audit-* offset:0", 1),
    ] {
        assert_eq!(hub.find(search).len(), count, "{search}");
    }
    // A text that was not looked up is an error, not an empty answer.
    let mut search = tacho_search::parse("-digest_text:x").unwrap();
    let sql = |search: &tacho_search::Search| {
        format!("SELECT count(*) FROM records WHERE {}", search.condition())
    };
    assert!(hub.pool.fetch(&hub.request(&sql(&search)), &Cancel::default()).is_err());
    search.look_up::<()>(|_| Ok(Vec::new())).unwrap();
    assert_eq!(hub.fetch(&sql(&search)).rows, [[json!(300)]]);
    assert_eq!(hub.fetch("SELECT count(*) FROM records").rows, [[json!(300)]]);
}

/// Characters whose other case is hard, and those that have none.
const LETTERS: &[&str] = &[
    "0", "1", "2", "'", "-", " ", "%", "_", "\\", "k", "K", "\u{212A}", "i", "I", "İ", "ı",
    "i\u{307}", "s", "ſ", "ß", "ẞ", "å", "\u{212B}", "É", "é", "Σ", "σ", "ς", "ǅ", "ﬁ", "１", "²",
    "😀", "\u{301}",
];

pub fn text(random: &mut Random, length: u64) -> String {
    // Two in three have no case, so that there are long runs of them.
    let letter = |random: &mut Random| match random.below(3) {
        0 => random.of(LETTERS),
        _ => random.of(&LETTERS[..9]),
    };
    (0..length).map(|_| letter(random)).collect()
}

/// The same characters, some in another case.
pub fn in_another_case(random: &mut Random, text: &str) -> String {
    let change = |c: char| match random.below(4) {
        0 => c.to_lowercase().collect::<String>(),
        1 => c.to_uppercase().collect(),
        _ => c.to_string(),
    };
    text.chars().map(change).collect()
}

#[test]
fn the_case_of_a_literal_does_not_matter() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let texts: Vec<String> = (0..400).map(|_| text(&mut random, 12)).collect();
    let hub = Hub::of_lines(texts.iter().enumerate().map(|(at, text)| line(at + 1, text)), |_| {});
    let (mut found, mut with_run) = (0, 0);
    for _ in 0..300 {
        let needle = match random.below(4) {
            0 => text(&mut random, 3),
            _ => {
                let all: Vec<char> = texts[random.below(400) as usize].chars().collect();
                let begin = random.below(6) as usize;
                let part: String =
                    all[begin..begin + 4 + random.below(4) as usize].iter().collect();
                in_another_case(&mut random, &part)
            }
        };
        let quoted = needle.replace('\\', "\\\\").replace('"', "\\\"");
        let search = tacho_search::parse(&format!("sql:\"{quoted}\"")).unwrap();
        let condition = search.condition();
        let plain = format!("contains(lower(sql), lower({}))", literal(&needle));
        let answer = hub.fetch(&format!(
            "SELECT count(*) FILTER (({condition}) IS DISTINCT FROM ({plain})), \
             count(*) FILTER ({plain}) FROM records"
        ));
        assert_eq!(answer.rows[0][0], json!(0), "{needle:?}: {condition}");
        found += u64::from(answer.rows[0][1] != json!(0));
        with_run += u64::from(condition.contains(" AND "));
    }
    assert!(found > 150 && with_run > 100, "{found}, {with_run}");
}
