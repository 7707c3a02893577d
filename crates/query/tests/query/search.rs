//! Searches against DuckDB: what is hostile to SQL is found as the text that it is.

use std::collections::BTreeSet;

use serde_json::json;
use tacho_query::{Answer, Cancel};

use crate::Hub;

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
