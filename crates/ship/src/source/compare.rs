//! How a log directory contradicts what the hub has.

use std::collections::BTreeMap;
use std::io;

use tacho_logdir::Form;
use tacho_logdir::read::files::LogFile;

use super::Portion;
use super::look::Look;
use super::sidecar;
use crate::protocol::FileName;
use crate::protocol::answers::Contradiction;

/// A contradiction, and the file that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContradiction {
    /// How.
    pub reason: Contradiction,
    /// The file.
    pub file: FileName,
    /// The hub's offset of it.
    pub offset: u64,
}

/// The first file that is missing or shorter than what the hub has, as far as a look shows it:
/// the length of packed files is not in it.
///
/// # Errors
/// When the directory cannot be read.
pub fn compare(
    look: &Look,
    hub: &BTreeMap<FileName, u64>,
) -> io::Result<Option<FileContradiction>> {
    let mut tombstones = None;
    for (name, &offset) in hub.iter().filter(|(_, offset)| **offset > 0) {
        let found = |reason| Ok(Some(FileContradiction { reason, file: name.clone(), offset }));
        let Some(stem) = name.stem() else {
            match look.removed {
                None => return found(Contradiction::Missing),
                Some(length) if length < offset => return found(Contradiction::Shorter),
                Some(_) => continue,
            }
        };
        let is_there = match name {
            FileName::Chain(_) => match look.chains.get(stem) {
                Some(length) if *length < offset => return found(Contradiction::Shorter),
                length => length.is_some(),
            },
            _ => match look.logs.get(stem) {
                Some(log) if is_shorter(log, offset) => return found(Contradiction::Shorter),
                log => log.is_some(),
            },
        };
        if is_there {
            continue;
        }
        if hub.get(&FileName::Chain(stem.clone())).is_some_and(|offset| *offset > 0) {
            if tombstones.is_none() {
                tombstones = Some(look.tombstones()?);
            }
            if !tombstones.as_ref().is_some_and(|tombstones| tombstones.contains(stem)) {
                return found(Contradiction::Missing);
            }
        } else if look.logs.keys().next().is_some_and(|oldest| oldest < stem) {
            return found(Contradiction::Missing);
        }
    }
    Ok(None)
}

/// The length of a packed file is not that of its lines.
fn is_shorter(log: &LogFile, offset: u64) -> bool {
    let is_plain = log.form == Form::Plain;
    is_plain && std::fs::metadata(&log.path).is_ok_and(|metadata| metadata.len() < offset)
}

/// An empty portion of a sidecar or of the tombstones: asks whether the hub has the same.
///
/// # Errors
/// When it cannot be read. `UnexpectedEof`: it is shorter.
pub fn probe(look: &Look, name: &FileName, offset: u64) -> io::Result<Portion> {
    let file = tacho_logdir::read::content::open_in_log(&look.path(name))?;
    let before = sidecar::before(&file, offset)?;
    Ok(Portion { name: name.clone(), offset, before, bytes: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_chain::entry::{RemovalReason, Tombstone};
    use tacho_chain::hash::Hash;
    use tacho_chain::key::SecretKey;
    use tacho_chain::note;

    const ONE: &str = "audit-20261121T100000Z-000001";
    const TWO: &str = "audit-20261121T110000Z-000002";

    fn hub(files: &[(&str, u64)]) -> BTreeMap<FileName, u64> {
        files.iter().map(|(name, offset)| (name.parse().unwrap(), *offset)).collect()
    }

    /// A directory with files of so many bytes.
    fn look(files: &[(&str, usize)]) -> Look {
        let directory = tempfile::tempdir().unwrap();
        for (name, length) in files {
            std::fs::write(directory.path().join(name), vec![b'x'; *length]).unwrap();
        }
        let look = Look::at(directory.path()).unwrap();
        // The comparison uses the look; it reads only tombstones.
        drop(directory);
        look
    }

    fn found(look: &Look, files: &[(&str, u64)]) -> Option<(Contradiction, String)> {
        let found = compare(look, &hub(files)).unwrap();
        found.map(|found| (found.reason, found.file.to_string()))
    }

    #[test]
    fn what_the_hub_has_is_there() {
        let (lines, chain) = (format!("{ONE}.jsonl"), format!("{ONE}.chain"));
        let look = look(&[(&format!("{lines}.zst"), 9), (&chain, 9), ("removed.chain", 0)]);
        assert_eq!(found(&look, &[(&lines, 100), (&chain, 9), ("removed.chain", 0)]), None);
        assert_eq!(found(&look, &[]), None);
        let shorter = Some((Contradiction::Shorter, chain.clone()));
        assert_eq!(found(&look, &[(&lines, 100), (&chain, 10)]), shorter);
        let shorter = Some((Contradiction::Shorter, "removed.chain".to_owned()));
        assert_eq!(found(&look, &[(&lines, 100), ("removed.chain", 1)]), shorter);
    }

    #[test]
    fn a_file_that_retention_may_have_taken_is_not_missing() {
        let (one, two) = (format!("{ONE}.jsonl"), format!("{TWO}.jsonl"));
        assert_eq!(found(&look(&[(&two, 9)]), &[(&one, 9), (&two, 9)]), None);
        // Retention takes the oldest first.
        let missing = Some((Contradiction::Missing, two.clone()));
        assert_eq!(found(&look(&[(&one, 9)]), &[(&one, 9), (&two, 9)]), missing);
    }

    #[test]
    fn a_sealed_file_needs_a_tombstone() {
        let (one, chain) = (format!("{ONE}.jsonl"), format!("{ONE}.chain"));
        let files: &[(&str, u64)] = &[(&one, 9), (&chain, 9)];
        let missing = Some((Contradiction::Missing, one.clone()));
        let directory = tempfile::tempdir().unwrap();
        let look = || Look::at(directory.path()).unwrap();
        assert_eq!(found(&look(), files), missing);
        let key = SecretKey::from_bytes(&[1; 32]);
        let tombstone = Tombstone {
            origin: key.root().origin().to_owned(),
            file: one.clone(),
            first_seq: 1,
            last_seq: 2,
            chain: Hash::ZERO,
            time_s: 0,
            reason: RemovalReason::Age,
            previous: Hash::ZERO,
        };
        let note = note::sign(&tombstone.to_text(), key.root().origin(), &key);
        std::fs::write(directory.path().join("removed.chain"), note).unwrap();
        assert_eq!(found(&look(), files), None);
    }
}
