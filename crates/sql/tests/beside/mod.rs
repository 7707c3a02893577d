//! Our digests beside those of a server: the corpus, and the comparison.

use std::collections::BTreeMap;

use tacho_sql::digest::Normaliser;
use tacho_sql::grouping::Grouping;
use tacho_sql::{High, Mode};

/// `corpus.json`: for each statement `sql`, MariaDB 10.11.19's result, `digest` and `text`, and why
/// ours differs, `class`.
pub fn corpus() -> Vec<BTreeMap<String, String>> {
    serde_json::from_str(include_str!("../corpus.json")).expect("the corpus")
}

/// A statement, the server's result, and ours.
pub struct Row {
    pub sql: String,
    pub their_digest: String,
    pub their_text: String,
    pub our_digest: String,
    pub our_text: String,
}

impl Row {
    pub fn new(
        normaliser: &mut Normaliser,
        sql: &str,
        their_digest: &str,
        their_text: &str,
    ) -> Self {
        let mode = Mode::new(Grouping::Bytes, High::LETTERS);
        let ours = normaliser.normalise(sql.as_bytes(), mode, usize::MAX);
        Self {
            sql: sql.to_owned(),
            their_digest: their_digest.to_owned(),
            their_text: their_text.to_owned(),
            our_digest: ours.digest.to_string(),
            our_text: String::from_utf8(ours.text.to_vec()).expect("UTF-8"),
        }
    }
}

/// The server's text in our words: some of its words would be read as something else, and we have
/// one word where it has several with the same meaning.
pub fn in_our_words(text: &str) -> String {
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
pub fn without_gaps(text: &str) -> String {
    text.replace(" (", "(")
}

/// Two statements have the same digest here if, and only if, they have the same one there. Returns
/// the number of shapes.
pub fn assert_same_groups<'r>(rows: impl Iterator<Item = &'r Row>) -> usize {
    let mut ours_of_theirs = BTreeMap::new();
    let mut theirs_of_ours = BTreeMap::new();
    for row in rows {
        let ours = ours_of_theirs.entry(&row.their_digest).or_insert(row);
        assert_eq!(ours.our_digest, row.our_digest, "split: {:?}, {:?}", ours.sql, row.sql);
        let theirs = theirs_of_ours.entry(&row.our_digest).or_insert(row);
        let (one, other) = (&theirs.their_digest, &row.their_digest);
        assert_eq!(one, other, "joined: {:?}, {:?}", theirs.sql, row.sql);
    }
    ours_of_theirs.len()
}
