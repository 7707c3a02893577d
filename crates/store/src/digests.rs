//! The dictionary of digests: the text of each statement without its literals.
//!
//! It is made while lines are indexed, because then the statement is at hand.

use std::collections::{BTreeMap, HashSet};

use tacho_record::Field;
use tacho_record::line::{Line, LineValue};
use tacho_sql::digest::Normaliser;
use tacho_sql::redact::Setting;

/// Digests in the dictionary at most: a client can make any number of them.
const DIGESTS_MAX: usize = 1 << 20;
/// Bytes of a text that are kept.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Memory that the normaliser keeps between statements, in bytes.
const KEPT_BYTES: usize = 1 << 20;

/// Digests that are in the dictionary, or will be.
pub struct Digests {
    known: HashSet<u128>,
    normaliser: Normaliser,
    /// Texts that the catalogue does not have yet, by written digest.
    pub new: BTreeMap<String, String>,
}

impl Digests {
    /// With those that the catalogue has.
    pub fn new(known: impl IntoIterator<Item = String>) -> Self {
        Self {
            known: known.into_iter().filter_map(|digest| key(&digest)).collect(),
            normaliser: Normaliser::default(),
            new: BTreeMap::new(),
        }
    }

    /// Notes the statement of a line.
    pub fn note(&mut self, line: &Line) {
        let (LineValue::Text(digest), LineValue::Text(sql)) =
            (line.value(Field::digest), line.value(Field::sql))
        else {
            return;
        };
        let Some(key) = key(digest) else { return };
        if self.known.contains(&key) || self.known.len() >= DIGESTS_MAX {
            return;
        }
        if let Some(text) = normalised(&mut self.normaliser, sql) {
            self.known.insert(key);
            self.new.insert(digest.to_owned(), text);
        }
    }
}

/// The hash of a written digest of version 1.
fn key(digest: &str) -> Option<u128> {
    let digits = digest.strip_prefix("1:").filter(|digits| digits.len() == 32)?;
    u128::from_str_radix(digits, 16).ok()
}

/// The text of a statement without its literals; `sql` is as in a line, in UTF-8.
pub fn normalised(normaliser: &mut Normaliser, sql: &str) -> Option<String> {
    let mode = Setting::of(b"utf8mb4", b"").digest_mode()?;
    let text = normaliser.normalise(sql.as_bytes(), mode, TEXT_BYTES_MAX);
    let text = (!text.out_of_memory).then(|| String::from_utf8_lossy(text.text).into_owned());
    normaliser.shrink(KEPT_BYTES);
    text
}
