//! The file that stores rules for the next start.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Name of the file.
pub(super) const NAME: &str = ".rewrite_rules.json";
/// Its name until it is complete.
pub(super) const NEW_NAME: &str = ".rewrite_rules.json.new";
/// The largest one that is written or read, bytes.
pub(super) const FILE_BYTES_MAX: usize = 512 << 20;
/// Version of its format.
pub(super) const VERSION: u32 = 1;

/// A rule as it was entered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rule {
    pub(super) id: u64,
    pub(super) pattern: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pattern_database: Option<String>,
    pub(super) replacement: String,
}

/// Content of the file.
#[derive(Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) version: u32,
    pub(super) rules: Vec<Rule>,
}

/// The file in a log directory.
pub(super) struct KeptFile {
    directory: PathBuf,
}

impl KeptFile {
    pub(super) fn of(directory: &Path) -> KeptFile {
        KeptFile { directory: directory.to_owned() }
    }

    /// The file's text for these rules; `None`: it would be too large.
    pub(super) fn text(rules: Vec<Rule>) -> Result<Option<Vec<u8>>, String> {
        let text = serde_json::to_vec(&Kept { version: VERSION, rules });
        let text = text.map_err(|error| error.to_string())?;
        Ok((text.len() <= FILE_BYTES_MAX).then_some(text))
    }

    /// The rules in it, with its hash; `None`: it does not exist.
    ///
    /// # Errors
    /// It cannot be read, or is not trusted.
    pub(super) fn read(&self) -> Result<Option<(Vec<Rule>, String)>, String> {
        let path = self.directory.join(NAME);
        let with_path = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path);
        let file = match file {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| with_path(&error))?,
        };
        is_own(&file).map_err(|error| with_path(&error))?;
        let mut text = Vec::new();
        let read = file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut text);
        if read.map_err(|error| with_path(&error))? > FILE_BYTES_MAX {
            return Err(with_path(&"it is too large"));
        }
        let kept: Kept = serde_json::from_slice(&text).map_err(|error| with_path(&error))?;
        if kept.version != VERSION {
            return Err(with_path(&format!("it has the version {}", kept.version)));
        }
        Ok(Some((kept.rules, sha256(&text))))
    }

    /// Stores a text; `None` removes the file.
    ///
    /// # Errors
    /// The file is in an unknown state for the next start.
    pub(super) fn keep(&self, text: Option<&[u8]>) -> Result<(), String> {
        let kept = text.map_or_else(|| self.remove(), |text| self.write(text));
        kept.map_err(|error| format!("{}: {error}", self.directory.join(NAME).display()))
    }

    fn write(&self, text: &[u8]) -> io::Result<()> {
        let new = self.directory.join(NEW_NAME);
        // A file from an interrupted load may belong to any user.
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&new, self.directory.join(NAME))?;
        self.sync()
    }

    fn remove(&self) -> io::Result<()> {
        match std::fs::remove_file(self.directory.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        // Even if there was none: a previous removal may not have been synced.
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

/// Checks that the recorder may have written a file: no other user can open it. A file that an
/// account with the privilege FILE writes (`INTO OUTFILE`) belongs to the server's user, too, but
/// its group can read it.
fn is_own(file: &File) -> Result<(), String> {
    let found = file.metadata().map_err(|error| error.to_string())?;
    // SAFETY: the call has no preconditions.
    let user = unsafe { libc::geteuid() };
    let mode = found.mode() & 0o7777;
    let wrong = if !found.is_file() {
        "it is not a regular file".to_owned()
    } else if found.uid() != user {
        format!("it belongs to the user {}, the server is {user}", found.uid())
    } else if mode & 0o077 != 0 {
        format!("its mode is {mode:04o}")
    } else {
        return Ok(());
    };
    Err(format!(
        "not trusted: {wrong}: look at it, then make it the server's with mode 0600 (chmod \
         600) and start the server again, or load the rules again"
    ))
}

pub(super) fn sha256(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
