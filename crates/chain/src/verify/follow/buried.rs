//! Files that a hub removes from its copy while they are followed.

use super::super::{LOG_ENDINGS, Parts};
use super::{Follower, GrowingDirectory};
use crate::SIDECAR_ENDING;

/// Tombstones of the hub itself that are kept: no other program writes so many.
pub const HUB_TOMBSTONES_MAX: usize = 1_000_000;
/// Lengths of a file that is not there.
pub const GONE: (u64, u64) = (0, 0);

impl Follower {
    /// Counts files that a hub has removed since they were read.
    pub(super) fn forget_buried(&mut self, directory: &dyn GrowingDirectory) {
        let is_gone = |stem: &&String| lengths(directory, stem) == GONE;
        let gone: Vec<String> = self.buried.iter().filter(is_gone).cloned().collect();
        for stem in gone {
            self.buried.remove(&stem);
            self.removed.forget(&stem, &mut self.memory.report);
            self.done.insert(stem.clone(), GONE);
            self.stems.insert(stem, Parts::default());
        }
    }
}

/// Lengths of a log file, in any form, and of its sidecar.
pub fn lengths(directory: &dyn GrowingDirectory, stem: &str) -> (u64, u64) {
    let length = |ending: &str| directory.length(&format!("{stem}.{ending}"));
    (LOG_ENDINGS.iter().map(|ending| length(ending)).sum(), length(SIDECAR_ENDING))
}
