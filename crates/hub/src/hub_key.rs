//! The hub's own key, which signs what it exports.
//!
//! `hub.key` has the secret (mode 0600), `hub.pub` the public key, which auditors keep elsewhere.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use tacho_chain::key::SecretKey;
use zeroize::Zeroizing;

use crate::data::{DataDirectory, DataError};

const HEAD: &str = "tachograph-hub-key-v1";
const SECRET: &str = "hub.key";
const PUBLIC: &str = "hub.pub";
/// Longer than any key file.
const BYTES_MAX: u64 = 1024;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum HubKeyError {
    /// A file cannot be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Others may read the secret.
    #[error("{0} may be read by others; make a new data directory, or `chmod 600` it")]
    Mode(String),
    /// It is not a key.
    #[error("{0} is not a key of a hub; restore it, or remove it to get a new one")]
    Invalid(String),
    /// There is no randomness.
    #[error("cannot make a key: {0}")]
    Random(getrandom::Error),
}

/// Reads the key of a hub, or makes it. Several processes may do it at the same time.
///
/// # Errors
/// It cannot be read or made, or others may read it.
pub fn open(data: &DataDirectory) -> Result<SecretKey, HubKeyError> {
    let path = data.path().join(SECRET);
    let error = |what, source| DataError::Io { what, path: path.clone(), source };
    let key = match read(&path) {
        Err(reason) if reason.kind() == io::ErrorKind::NotFound => {
            let made = SecretKey::generate().map_err(HubKeyError::Random)?;
            let text = Zeroizing::new(format!("{HEAD}\n{}\n", *made.to_base64()));
            publish(data.path(), SECRET, 0o600, text.as_bytes())
                .map_err(|source| error("make", source))?;
            // Another process may have been faster: the file counts.
            read(&path)
        }
        key => key,
    };
    let (text, mode) = key.map_err(|source| error("read", source))?;
    let shown = || path.display().to_string();
    if mode & 0o077 != 0 {
        return Err(HubKeyError::Mode(shown()));
    }
    let secret = text
        .strip_prefix(HEAD)
        .and_then(|rest| SecretKey::from_base64(rest.strip_prefix('\n')?.strip_suffix('\n')?));
    let key = secret.ok_or_else(|| HubKeyError::Invalid(shown()))?;
    let public = format!("{}\n", key.root());
    let public_path = data.path().join(PUBLIC);
    if std::fs::read(&public_path).ok().as_deref() != Some(public.as_bytes()) {
        let error = |source| DataError::Io { what: "write", path: public_path.clone(), source };
        match std::fs::remove_file(&public_path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(error(source).into());
            }
            _ => publish(data.path(), PUBLIC, 0o644, public.as_bytes()).map_err(error)?,
        }
    }
    Ok(key)
}

fn read(path: &Path) -> io::Result<(Zeroizing<String>, u32)> {
    let file = File::open(path)?;
    let mode = file.metadata()?.mode();
    let mut text = Zeroizing::new(String::new());
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok((text, mode))
}

/// Makes a whole file, if there is none of that name.
fn publish(directory: &Path, name: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let unfinished = directory.join(format!(".{name}.{}", std::process::id()));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(mode).open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    let linked = match std::fs::hard_link(&unfinished, directory.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    };
    std::fs::remove_file(&unfinished)?;
    linked?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_hub_keeps_its_key() {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirectory::open(directory.path()).unwrap();
        let key = open(&data).unwrap();
        let path = directory.path().join(SECRET);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(open(&data).unwrap().root(), key.root());
        let public = std::fs::read_to_string(directory.path().join(PUBLIC)).unwrap();
        assert_eq!(public.trim().parse(), Ok(key.root()));
        // A public key that was replaced is written again.
        std::fs::write(directory.path().join(PUBLIC), "x").unwrap();
        open(&data).unwrap();
        assert_eq!(std::fs::read_to_string(directory.path().join(PUBLIC)).unwrap(), public);
        let names = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(names, 2, "nothing unfinished is left");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(open(&data), Err(HubKeyError::Mode(_))));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "tachograph-hub-key-v1\nAAAA\n").unwrap();
        assert!(matches!(open(&data), Err(HubKeyError::Invalid(_))));
    }
}
