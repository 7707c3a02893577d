//! The state of the hub's copy, and the search for contradictions.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use tacho_logdir::read::content::Access;

use super::cache::Lengths;
use super::client::{Client, Failure};
use crate::protocol::FileName;
use crate::protocol::answers::{Contradiction, OriginState};
use crate::protocol::errors::Remedy;
use crate::protocol::names::Stem;
use crate::source::compare::{self, FileContradiction};
use crate::source::look::Look;
use crate::source::track::Track;

/// The hub's copy of the log, as far as this process knows it.
pub struct HubCopy {
    /// Its generation.
    pub generation: u64,
    /// Durable offsets.
    pub offsets: BTreeMap<FileName, u64>,
    /// Log files that are not complete.
    pub tracks: BTreeMap<Stem, Track>,
    /// Log files of which nothing is left to ship.
    pub complete: BTreeSet<Stem>,
    /// The ends of both sides were compared.
    pub is_compared: bool,
    /// A contradiction that shipping has met.
    pub contradicted: Option<FileContradiction>,
}

impl HubCopy {
    /// The copy as the hub describes it.
    pub fn of(state: OriginState) -> Self {
        Self {
            generation: state.generation,
            offsets: state.files.into_iter().map(|file| (file.name, file.offset)).collect(),
            tracks: BTreeMap::new(),
            complete: BTreeSet::new(),
            is_compared: false,
            contradicted: None,
        }
    }

    /// The durable offset of a file.
    pub fn offset(&self, name: &FileName) -> u64 {
        self.offsets.get(name).copied().unwrap_or(0)
    }

    /// The hub has a file up to `offset`.
    pub fn set(&mut self, name: &FileName, offset: u64) {
        self.offsets.insert(name.clone(), offset);
        if let Some(track) = name.stem().and_then(|stem| self.tracks.get_mut(stem)) {
            track.set(name, offset);
        }
    }

    /// Believes that these files are complete, if the hub has exactly as much of them.
    pub fn believe(&mut self, complete: BTreeMap<Stem, Lengths>) {
        for (stem, lengths) in complete {
            if self.lengths(&stem) == lengths {
                self.track(&stem).settle();
            }
        }
    }

    /// How many files have nothing left to ship.
    pub fn settled_count(&self) -> usize {
        self.tracks.values().filter(|track| track.is_settled()).count() + self.complete.len()
    }

    /// These files, as far as they are in the directory.
    pub fn settled(&self, look: &Look) -> BTreeMap<Stem, Lengths> {
        let tracks = self.tracks.iter().filter(|(_, track)| track.is_settled());
        let stems = tracks.map(|(stem, _)| stem).chain(&self.complete);
        let stems = stems.filter(|stem| look.logs.contains_key(*stem));
        stems.map(|stem| (stem.clone(), self.lengths(stem))).collect()
    }

    fn lengths(&self, stem: &Stem) -> Lengths {
        let lines = self.offset(&FileName::Lines(stem.clone()));
        (lines, self.offset(&FileName::Chain(stem.clone())))
    }

    /// Shipping has met a contradiction: it stops until that is settled.
    pub fn contradict(&mut self, found: FileContradiction) {
        self.contradicted = Some(found);
        self.is_compared = false;
        self.tracks.clear();
        self.complete.clear();
    }

    /// The progress of a log file.
    pub fn track(&mut self, stem: &Stem) -> &mut Track {
        let (lines, chain) = self.lengths(stem);
        let track = || Track::new(stem.clone(), lines, chain);
        self.tracks.entry(stem.clone()).or_insert_with(track)
    }

    /// Asks the hub whether the ends of the newest files are the same there.
    ///
    /// # Errors
    /// No answer, or one that has another reason.
    pub fn compare_ends(
        &self,
        client: &Client,
        look: &Look,
        access: &Access,
    ) -> Result<Option<FileContradiction>, Failure> {
        let mut found = None;
        if let Some(removed) = self.differs(client, look, access, &FileName::Removed)? {
            found = Some(removed);
        }
        let at_hub: BTreeSet<_> = self.offsets.keys().filter_map(FileName::stem).collect();
        // From the newest back, to the first that is the same.
        for stem in at_hub.into_iter().rev() {
            let mut is_same = None;
            for name in [FileName::Chain(stem.clone()), FileName::Lines(stem.clone())] {
                match self.differs(client, look, access, &name)? {
                    Some(other) => {
                        found = Some(other);
                        is_same = Some(false);
                    }
                    None if self.offset(&name) > 0 => {
                        is_same.get_or_insert(true);
                    }
                    None => {}
                }
            }
            if is_same == Some(true) {
                break;
            }
        }
        Ok(found)
    }

    fn differs(
        &self,
        client: &Client,
        look: &Look,
        access: &Access,
        name: &FileName,
    ) -> Result<Option<FileContradiction>, Failure> {
        let offset = self.offset(name);
        if offset == 0 {
            return Ok(None);
        }
        let found = |reason| Ok(Some(FileContradiction { reason, file: name.clone(), offset }));
        let portion = match name {
            FileName::Lines(stem) => Track::new(stem.clone(), offset, 0).probe(look, access),
            name => compare::probe(look, name, offset).map(Some),
        };
        let portion = match portion {
            Ok(Some(portion)) => portion,
            // Removed since, or for no key of ours.
            Ok(None) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return found(Contradiction::Shorter);
            }
            // Reported when it is shipped.
            Err(_) => return Ok(None),
        };
        match client.put(&portion, self.generation) {
            Ok(_) => Ok(None),
            Err(Failure::Refused(refusal)) if refusal.remedy() == Remedy::Fork => {
                found(Contradiction::Different)
            }
            // The hub has less than it said: that is settled when the file is shipped.
            Err(Failure::Refused(refusal)) if refusal.remedy() == Remedy::Seek => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}
