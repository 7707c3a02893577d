//! The files of the replica that cannot be indexed, and messages about them.
//!
//! The indexer tries each of them again every second. A message is for a file that fails for a new
//! reason, and for one that was restored.

use std::collections::BTreeMap;

use tacho_store::{Failure, FileKey, Report};

use crate::say::say;

/// What was said.
#[derive(Debug, Default)]
pub struct Troubles {
    known: BTreeMap<FileKey, Failure>,
}

impl Troubles {
    /// Says what is new. Returns how many files cannot be indexed.
    pub fn say(&mut self, report: &Report) -> usize {
        for sentence in self.news(report) {
            say(&sentence);
        }
        self.known.len()
    }

    fn news(&mut self, report: &Report) -> Vec<String> {
        let is_new = |&(key, failure): &(&FileKey, &Failure)| self.known.get(key) != Some(failure);
        let mut sentences: Vec<String> =
            report.failed.iter().filter(is_new).map(|(_, failure)| sentence(failure)).collect();
        let is_over = |key: &&FileKey| !report.failed.contains_key(*key);
        sentences.extend(self.known.keys().filter(is_over).map(|key| {
            let FileKey { origin, generation, file } = key;
            format!("{file} of {origin}, generation {generation}, can be indexed again")
        }));
        self.known.clone_from(&report.failed);
        sentences
    }
}

fn sentence(failure: &Failure) -> String {
    let Failure { indexed, reason } = failure;
    format!(
        "cannot index {reason}; searches find what is before byte {indexed} of the log file. Restore \
         the file from a backup: it is read again"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_named_once() {
        let report = |reasons: &[(u32, &str)]| {
            let failed = reasons.iter().map(|&(generation, reason)| {
                let (origin, file) = ("db1".to_owned(), "audit-1.jsonl".to_owned());
                let failure = Failure { indexed: 7, reason: format!("/replica: {reason}") };
                (FileKey { origin, generation, file }, failure)
            });
            Report { failed: failed.collect(), ..Report::default() }
        };
        let mut troubles = Troubles::default();
        assert_eq!(troubles.news(&report(&[])), [""; 0]);
        let both = report(&[(1, "damaged"), (2, "denied")]);
        let said = troubles.news(&both);
        assert_eq!(said.len(), 2);
        assert!(said[0].starts_with("cannot index /replica: damaged; searches find"), "{said:?}");
        assert!(said[0].contains("before byte 7 "), "{said:?}");
        assert_eq!(troubles.news(&both), [""; 0]);
        assert_eq!(troubles.news(&report(&[(1, "damaged"), (2, "cut")])).len(), 1);
        let end = "audit-1.jsonl of db1, generation 1, can be indexed again";
        assert_eq!(troubles.news(&report(&[(2, "cut")])), [end]);
        assert_eq!(troubles.say(&both), 2);
    }
}
