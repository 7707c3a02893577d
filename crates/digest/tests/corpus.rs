//! Zone: outside. Digests beside those of a real server: `corpus.json` has what MariaDB 10.11.19
//! made of each line of `statements.sql` (`scripts/digest-differences.py --write`).
//!
//! Two statements have the same digest here if, and only if, they have the same one there, but for
//! the classes of differences in `docs/specs/digest.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tacho_digest::grouping::Grouping;
use tacho_digest::{High, Mode, Normaliser};

struct Row {
    sql: String,
    class: String,
    their_digest: String,
    their_text: String,
    our_digest: String,
    our_text: String,
}

fn rows() -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus.json");
    let corpus = fs::read_to_string(path).expect("the corpus");
    let corpus: Vec<Value> = serde_json::from_str(&corpus).expect("JSON");
    let mode = Mode::new(Grouping::Bytes, High::LETTERS);
    let mut normaliser = Normaliser::default();
    let mut row = |row: &Value| {
        let field = |name: &str| row[name].as_str().expect("a text").to_owned();
        let sql = field("sql");
        let ours = normaliser.normalise(sql.as_bytes(), mode, usize::MAX);
        Row {
            class: field("class"),
            their_digest: field("digest"),
            their_text: field("text"),
            our_digest: ours.digest.to_string(),
            our_text: String::from_utf8(ours.text.to_vec()).expect("UTF-8"),
            sql,
        }
    };
    corpus.iter().map(&mut row).collect()
}

/// The server's text in our words: some of its own would be read as something else.
fn in_our_words(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut ours = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let is_call = words.get(index + 1).is_some_and(|next| next.starts_with('('));
        ours.push(match *word {
            "SYSTEM_USER" => "USER",
            "NOW" if !is_call => "CURRENT_TIMESTAMP",
            "CURDATE" if !is_call => "CURRENT_DATE",
            "CURTIME" if !is_call => "CURRENT_TIME",
            word => word,
        });
    }
    without_gaps(&ours.join(" "))
}

/// Functions have no blank before their parenthesis here.
fn without_gaps(text: &str) -> String {
    text.replace(" (", "(")
}

#[test]
fn texts_differ_only_where_they_are_meant_to() {
    let rows = rows();
    assert!(rows.len() > 400, "only {}", rows.len());
    let mut count_of_class: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &rows {
        let is_same = in_our_words(&row.their_text) == without_gaps(&row.our_text);
        assert_eq!(
            is_same,
            row.class.is_empty(),
            "{}\nthere {}\nhere  {}\nclass {:?}",
            row.sql,
            row.their_text,
            row.our_text,
            row.class
        );
        if !is_same {
            *count_of_class.entry(&row.class).or_default() += 1;
        }
    }
    let names: Vec<&str> = count_of_class.keys().copied().collect();
    assert_eq!(names, ["hex", "sign", "version"], "{count_of_class:?}");
}

#[test]
fn statements_are_grouped_as_the_server_groups_them() {
    let rows = rows();
    let mut ours_of_theirs = BTreeMap::new();
    let mut theirs_of_ours = BTreeMap::new();
    for row in rows.iter().filter(|row| row.class.is_empty()) {
        let ours = ours_of_theirs.entry(&row.their_digest).or_insert(row);
        assert_eq!(ours.our_digest, row.our_digest, "split: {:?}, {:?}", ours.sql, row.sql);
        let theirs = theirs_of_ours.entry(&row.our_digest).or_insert(row);
        assert_eq!(
            theirs.their_digest, row.their_digest,
            "joined: {:?}, {:?}",
            theirs.sql, row.sql
        );
    }
    assert!(ours_of_theirs.len() > 250, "only {} shapes", ours_of_theirs.len());
}

/// The algorithm is part of the log: what it gives must not change without a new version.
#[test]
fn digests_of_version_1_stay_what_they_are() {
    let mode = Mode::new(Grouping::Bytes, High::LETTERS);
    let mut normaliser = Normaliser::default();
    for (sql, digest) in [
        ("", "1:d75d4a9761503ab7b93abfde861fed24"),
        ("SELECT 1", "1:4f563a79ea84d565253518391d964862"),
        ("INSERT INTO t VALUES (1, 'x'), (2, 'y')", "1:5993092462c466a6bef602b770726de0"),
    ] {
        let ours = normaliser.normalise(sql.as_bytes(), mode, 0);
        assert_eq!(ours.digest.to_string(), digest, "{sql}");
    }
}
