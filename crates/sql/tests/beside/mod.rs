//! Our digests beside those of a server: the corpus, and what is compared.

use std::collections::BTreeMap;

use tacho_sql::digest::Normaliser;
use tacho_sql::grouping::Grouping;
use tacho_sql::{High, Mode};

/// `corpus.json`: of each statement `sql`, what MariaDB 10.11.19 makes of it, `digest` and `text`,
/// and why ours is another, `class`.
pub fn corpus() -> Vec<BTreeMap<String, String>> {
    serde_json::from_str(include_str!("../corpus.json")).expect("the corpus")
}

/// A statement, what the server makes of it, and what we do.
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

/// The server's text in our words: some of its own would be read as something else, and of those
/// that mean the same we have one.
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
/// how many shapes there are.
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
