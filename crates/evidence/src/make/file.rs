//! One log file of the replica with what proves it, for the proof of a single record.

use std::fs::File;
use std::io::{self, BufReader, Take};
use std::path::PathBuf;

use tacho_chain::key::VerifierKey;
use tacho_chain::proof::Keys;
use tacho_chain::sidecar::Entries;
use tacho_ship::protocol::FileName;

use super::copy::Copy;
use super::{MakeError, keys};

/// A log file in the directory of a generation.
#[derive(Clone, Debug)]
pub struct LogFile {
    /// The directory.
    pub directory: PathBuf,
    /// The name of the log file.
    pub name: FileName,
    /// The root key of the log; none: that of its oldest file.
    pub root: Option<VerifierKey>,
}

impl LogFile {
    /// Its path, in its plain form.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join(self.name.to_string())
    }

    /// The keys up to this file.
    ///
    /// # Errors
    /// The replica cannot be read.
    pub fn keys(&self) -> Result<Keys, MakeError> {
        let mut root = self.root.clone();
        let Some(stem) = self.name.stem() else { return Ok(Keys::new(Vec::new())) };
        let copy = Copy::sidecars(&self.directory)?;
        Ok(keys::read(&copy, stem, None, &mut root)?.keys)
    }

    /// The entries of its sidecar; none: it has no sidecar.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn sidecar(&self) -> Result<Option<Entries<BufReader<Take<File>>>>, MakeError> {
        let Some(stem) = self.name.stem() else { return Ok(None) };
        let copy = Copy { directory: self.directory.clone(), ..Copy::default() };
        match copy.open(&FileName::Chain(stem.clone()), u64::MAX) {
            Ok(source) => Ok(Some(Entries::new(source))),
            Err(MakeError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// An error of this file.
    #[must_use]
    pub fn error(&self, source: io::Error) -> MakeError {
        MakeError::Read { path: self.path(), source }
    }
}
