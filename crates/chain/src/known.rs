//! Keys of epochs that a trusted root leads to.

use std::collections::HashMap;

use crate::key::VerifierKey;
use crate::note::Note;

/// Keys by their id, which is short: several may have the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownKeys(HashMap<[u8; 4], Vec<VerifierKey>>);

impl KnownKeys {
    /// Adds one.
    pub fn add(&mut self, key: &VerifierKey) {
        self.0.entry(key.id()).or_default().push(key.clone());
    }

    /// The one that has signed a note.
    pub fn signer(&self, note: &Note) -> Option<VerifierKey> {
        let keys = self.0.get(&note.key_id)?;
        keys.iter().find(|key| note.is_by(key)).cloned()
    }

    /// Number of those that may have signed a note, by its key id.
    pub fn count(&self, note: &Note) -> usize {
        self.0.get(&note.key_id).map_or(0, Vec::len)
    }
}
