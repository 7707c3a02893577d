//! Compares the ids with an answer with the ids in a log.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::tagged::{Tag, Tally};

/// How often each tag occurs in a log.
pub type TagCounts = HashMap<Tag, u64>;

/// All violations. Empty if everything is right.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Acknowledged, not in the log.
    pub missing: Vec<Tag>,
    /// More than once in the log.
    pub duplicate: Vec<Tag>,
    /// In the log, although never sent.
    pub unknown: Vec<Tag>,
}

impl Verdict {
    /// Compares; the resulting lists are sorted.
    pub fn new(tally: &Tally, found: &TagCounts) -> Self {
        let mut verdict = Self::default();
        for tag in &tally.acknowledged {
            if !found.contains_key(tag) {
                verdict.missing.push(tag.clone());
            }
        }
        let sent: HashSet<&Tag> = tally.acknowledged.iter().chain(&tally.in_flight).collect();
        for (tag, count) in found {
            if *count > 1 {
                verdict.duplicate.push(tag.clone());
            }
            if !sent.contains(tag) {
                verdict.unknown.push(tag.clone());
            }
        }
        for list in [&mut verdict.missing, &mut verdict.duplicate, &mut verdict.unknown] {
            list.sort();
        }
        verdict
    }

    /// Nothing is missing, doubled or unknown.
    pub fn is_good(&self) -> bool {
        self.missing.is_empty() && self.duplicate.is_empty() && self.unknown.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists =
            [("missing", &self.missing), ("twice", &self.duplicate), ("unknown", &self.unknown)];
        for (name, tags) in lists {
            write!(f, "{name}: {}", tags.len())?;
            for tag in tags.iter().take(5) {
                write!(f, " {tag}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tagged::Command;

    fn tag(id: &str) -> Tag {
        Tag { id: id.to_owned(), command: Command::Query }
    }

    #[test]
    fn distinguishes_missing_duplicate_and_unknown() {
        let tally = Tally {
            acknowledged: vec![tag("a"), tag("b"), tag("c")],
            in_flight: vec![tag("d"), tag("e")],
            ..Tally::default()
        };
        let executed = Tag { command: Command::Execute, ..tag("a") };
        let found =
            TagCounts::from([(tag("a"), 1), (tag("b"), 2), (tag("d"), 1), (executed.clone(), 1)]);
        let verdict = Verdict::new(&tally, &found);
        assert_eq!(verdict.missing, [tag("c")]);
        assert_eq!(verdict.duplicate, [tag("b")]);
        assert_eq!(verdict.unknown, [executed]);
        assert!(!verdict.is_good());
        let all = TagCounts::from([(tag("a"), 1), (tag("b"), 1), (tag("c"), 1)]);
        assert!(Verdict::new(&tally, &all).is_good());
    }
}
