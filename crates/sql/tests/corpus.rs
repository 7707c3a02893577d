//! Zone: outside. Digests beside those of a real server: `corpus.json` has MariaDB 10.11.19's
//! result for each line of `statements.sql` (`scripts/digest-differences.py --write`).
//!
//! Two statements have the same digest here if, and only if, they have the same one there, except
//! for the classes of differences in `docs/specs/digest.md`.

mod beside;

use std::collections::BTreeMap;

use beside::{Row, assert_same_groups, corpus, in_our_words, without_gaps};
use tacho_sql::digest::Normaliser;
use tacho_sql::grouping::Grouping;
use tacho_sql::redact::{Setting, secrets};
use tacho_sql::{High, Mode};

/// Each with the class of its difference, empty if there is none.
fn rows() -> Vec<(String, Row)> {
    let mut normaliser = Normaliser::default();
    let row = |entry: BTreeMap<String, String>| {
        let row = Row::new(&mut normaliser, &entry["sql"], &entry["digest"], &entry["text"]);
        (entry["class"].clone(), row)
    };
    corpus().into_iter().map(row).collect()
}

#[test]
fn texts_differ_only_where_intended() {
    let rows = rows();
    assert!(rows.len() > 400, "only {}", rows.len());
    let mut count_of_class: BTreeMap<&str, usize> = BTreeMap::new();
    for (class, row) in &rows {
        let is_same = in_our_words(&row.their_text) == without_gaps(&row.our_text);
        assert_eq!(
            is_same,
            class.is_empty(),
            "{}\nthere {}\nhere  {}\nclass {class:?}",
            row.sql,
            row.their_text,
            row.our_text
        );
        if !is_same {
            *count_of_class.entry(class).or_default() += 1;
        }
    }
    let names: Vec<&str> = count_of_class.keys().copied().collect();
    assert_eq!(names, ["hex", "sign", "version"], "{count_of_class:?}");
}

#[test]
fn statements_are_grouped_as_the_server_groups_them() {
    let rows = rows();
    let same = rows.iter().filter(|(class, _)| class.is_empty()).map(|(_, row)| row);
    let count = assert_same_groups(same);
    assert!(count > 250, "only {count} shapes");
}

/// The algorithm is part of the log: its results must not change without a new version.
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

/// Redacts the same statements: redacting the result again changes nothing.
#[test]
fn one_redaction_suffices() {
    let mode = Mode::new(Grouping::Bytes, High::LETTERS);
    let mut normaliser = Normaliser::default();
    let mut untouched = 0;
    for entry in corpus() {
        let sql = entry["sql"].as_bytes();
        for whole in [Setting::of(b"utf8mb4", b""), Setting::of(b"utf8mb4", b"mysql")] {
            for setting in [whole, whole.of_part()] {
                let once = secrets(sql, setting);
                assert_eq!(secrets(&once, setting), once, "{}", entry["sql"]);
                if once == sql {
                    untouched += 1;
                }
            }
        }
        // Without literals it is another text of the same shape.
        let bare = normaliser.normalise(sql, mode, usize::MAX).text.to_vec();
        assert_eq!(secrets(&bare, Setting::of(b"utf8mb4", b"")), bare, "{}", entry["sql"]);
    }
    assert!(untouched > 400, "only {untouched}");
}
