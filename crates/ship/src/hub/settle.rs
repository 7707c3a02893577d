//! Settles differences between the log directory and the hub's copy.

use std::time::{Duration, Instant};

use super::client::{Failure, Refusal};
use super::copy::HubCopy;
use super::shipper::Shipper;
use crate::protocol::FileName;
use crate::protocol::answers::{Contradiction, NewGeneration};
use crate::protocol::errors::Remedy;
use crate::source::compare::{self, FileContradiction};
use crate::source::look::Look;

/// A contradiction has to be there for so long: a file may just be written again.
const SUSPECT: Duration = Duration::from_secs(1);
/// Time between two comparisons of the names at the hub with those in the directory.
const COMPARE_INTERVAL: Duration = Duration::from_secs(10);

impl Shipper {
    /// Looks for contradictions. Returns whether there is one.
    pub(super) fn compare(&mut self, look: &Look) -> Result<bool, Failure> {
        let Some(copy) = &mut self.copy else { return Ok(false) };
        let mut found = None;
        if self.suspect.is_some() || Instant::now() >= self.next_comparison {
            self.next_comparison = Instant::now() + COMPARE_INTERVAL;
            // Unreadable files are reported when they are shipped.
            found = compare::compare(look, &copy.offsets).unwrap_or_default();
        }
        if found.is_none() && !copy.is_compared {
            found = copy.compare_ends(&self.client, look, &self.options.access)?;
            found = found.or_else(|| copy.contradicted.clone());
            copy.is_compared = found.is_none();
        }
        let is_found = found.is_some();
        match found {
            Some(found) => self.suspect(found)?,
            None => self.suspect = None,
        }
        Ok(is_found)
    }

    /// Begins a generation if a contradiction lasts.
    fn suspect(&mut self, found: FileContradiction) -> Result<(), Failure> {
        match &self.suspect {
            Some((known, since)) if *known == found => {
                if since.elapsed() < SUSPECT {
                    return Ok(());
                }
            }
            _ => {
                self.suspect = Some((found, Instant::now()));
                return Ok(());
            }
        }
        let Some(copy) = &self.copy else { return Ok(()) };
        let FileContradiction { reason, file, offset } = found;
        let text = match reason {
            Contradiction::Different => "it has other bytes than the hub's copy",
            Contradiction::Shorter => "it is shorter than the hub's copy",
            Contradiction::Missing => "it is in the hub's copy, but not in the directory",
        };
        let request = NewGeneration { after: copy.generation, reason, file: file.clone(), offset };
        self.note_problem(&file, "contradiction", text);
        let state = match self.client.begin_generation(&request) {
            Err(Failure::Refused(refusal)) if refusal.remedy() == Remedy::Ask => {
                self.copy = None;
                return Ok(());
            }
            state => state?,
        };
        self.say(&format!(
            "{file}: the log was changed, or lost its end in a power failure. The hub keeps both; \
             shipping continues as generation {}",
            state.generation
        ));
        self.shipped.follow_generation(state.generation);
        self.copy = Some(HubCopy::of(state));
        self.suspect = None;
        self.problems.remove(&(file, "contradiction"));
        self.fork_count += 1;
        Ok(())
    }

    /// Handles a refused `PUT`.
    pub(super) fn settle(
        &mut self,
        name: &FileName,
        offset: u64,
        refusal: Box<Refusal>,
    ) -> Result<bool, Failure> {
        let hubs = refusal.error.as_ref().and_then(|error| error.offset);
        match (refusal.remedy(), hubs, &mut self.copy) {
            (Remedy::Seek, Some(hubs), Some(_)) if hubs < offset => {
                // Other files may be shorter there, too.
                self.copy = None;
                self.shipped.lower();
                self.say(&format!(
                    "{}: has {hubs} bytes of {name}, and had acknowledged {offset}, as after a \
                     restore from a backup; shipping again from there",
                    self.client.address()
                ));
            }
            (Remedy::Fork, hubs, Some(copy)) => {
                let (file, offset) = (name.clone(), hubs.unwrap_or(offset));
                copy.offsets.insert(file.clone(), offset);
                copy.contradict(FileContradiction {
                    reason: Contradiction::Different,
                    file,
                    offset,
                });
            }
            (Remedy::Ask, ..) => self.copy = None,
            (Remedy::Seek, ..) => {
                self.copy = None;
                return Err(Failure::Refused(refusal));
            }
            _ => return Err(Failure::Refused(refusal)),
        }
        Ok(false)
    }
}
