//! The file that keeps rules for the next start.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Its name.
pub(super) const NAME: &str = ".rewrite_rules.json";
/// Its name until it is whole.
pub(super) const NEW_NAME: &str = ".rewrite_rules.json.new";
/// The largest one that is written or read, bytes.
pub(super) const FILE_BYTES_MAX: usize = 512 << 20;
/// What it says of its form.
pub(super) const VERSION: u32 = 1;

/// A rule as it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rule {
    pub(super) id: u64,
    pub(super) pattern: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pattern_database: Option<String>,
    pub(super) replacement: String,
}

/// What is in the file.
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

    /// Its text for these rules; `None`: it would be too large.
    pub(super) fn text(rules: Vec<Rule>) -> Result<Option<Vec<u8>>, String> {
        let text = serde_json::to_vec(&Kept { version: VERSION, rules });
        let text = text.map_err(|error| error.to_string())?;
        Ok((text.len() <= FILE_BYTES_MAX).then_some(text))
    }

    /// The rules that are in it, with its hash; `None`: it is not there.
    ///
    /// # Errors
    /// It cannot be read, or not be believed.
    pub(super) fn read(&self) -> Result<Option<(Vec<Rule>, String)>, String> {
        let path = self.directory.join(NAME);
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path);
        let file = match file {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| told(&error))?,
        };
        is_own(&file).map_err(|error| told(&error))?;
        let mut text = Vec::new();
        let read = file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut text);
        if read.map_err(|error| told(&error))? > FILE_BYTES_MAX {
            return Err(told(&"it is too large"));
        }
        let kept: Kept = serde_json::from_slice(&text).map_err(|error| told(&error))?;
        if kept.version != VERSION {
            return Err(told(&format!("it has the version {}", kept.version)));
        }
        Ok(Some((kept.rules, sha256(&text))))
    }

    /// Keeps a text; where there is none, nothing.
    ///
    /// # Errors
    /// Nobody knows what the next start finds.
    pub(super) fn keep(&self, text: Option<&[u8]>) -> Result<(), String> {
        let kept = text.map_or_else(|| self.remove(), |text| self.write(text));
        kept.map_err(|error| format!("{}: {error}", self.directory.join(NAME).display()))
    }

    fn write(&self, text: &[u8]) -> io::Result<()> {
        let new = self.directory.join(NEW_NAME);
        // One that is there, from a load that did not end, may be anybody's.
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
        // Also where there was none: it may be gone since a removal that was not synced.
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

/// Whether the recorder may have written a file: nobody else can open it. What an account with the
/// privilege FILE writes (`INTO OUTFILE`) is the server's, too, but its group can read it.
fn is_own(file: &File) -> Result<(), String> {
    let found = file.metadata().map_err(|error| error.to_string())?;
    // SAFETY: it has no conditions.
    let user = unsafe { libc::geteuid() };
    let mode = found.mode() & 0o7777;
    let wrong = if !found.is_file() {
        "it is not a plain file".to_owned()
    } else if found.uid() != user {
        format!("it belongs to the user {}, the server is {user}", found.uid())
    } else if mode & 0o077 != 0 {
        format!("its mode is {mode:04o}")
    } else {
        return Ok(());
    };
    Err(format!(
        "not believed, for {wrong}: look at it, then make it the server's with mode 0600 (chmod \
         600) and start the server again, or load the rules again"
    ))
}

pub(super) fn sha256(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
