//! Keys on the command line and in files.

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tacho_chain::key::VerifierKey;
use tacho_chain::key_file::{BYTES_MAX, KeyFile};
use tacho_logdir::private_file;
use tacho_ship::small_file;
use zeroize::Zeroizing;

use super::VerifyError;
use crate::cli::KeygenArgs;
use crate::say;

/// Reads a public key: the text itself, or the path of a file that has it. A signing key file also
/// has it. `option`: its name, for messages.
pub fn read(option: &str, given: &str) -> anyhow::Result<VerifierKey> {
    if let Ok(key) = given.parse() {
        return root(option, key);
    }
    if std::fs::metadata(given).is_err() {
        bail!("{option} `{given}` is neither a public key nor a readable file");
    }
    // It may be a signing key file, with its secrets.
    let text = match text_of(Path::new(given)) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            bail!("{option} {given} is too large to be a key file")
        }
        text => Zeroizing::new(text.with_context(|| format!("cannot read the key file {given}"))?),
    };
    if let Ok(key) = text.trim().parse() {
        return root(option, key);
    }
    match KeyFile::parse(&text) {
        Ok(file) => Ok(file.root),
        Err(_) => bail!("{option} {given} has no public key"),
    }
}

/// The text of a key file, including one that a recorder of this user has created, which has mode
/// 0000.
fn text_of(path: &Path) -> io::Result<String> {
    match small_file::read_text(path, BYTES_MAX as u64) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let Ok(file) = private_file::open(path) else { return Err(error) };
            let mut text = String::new();
            // A truncated one cannot be parsed.
            file.take(BYTES_MAX as u64).read_to_string(&mut text)?;
            Ok(text)
        }
        text => text,
    }
}

fn root(option: &str, key: VerifierKey) -> anyhow::Result<VerifierKey> {
    if key.is_root() {
        Ok(key)
    } else {
        bail!(
            "{option} is the key of one epoch; take the root key from the `start` lines of the log"
        )
    }
}

/// Runs `tacho keygen`.
///
/// # Errors
/// A file already exists or cannot be written.
pub fn generate(args: &KeygenArgs) -> anyhow::Result<()> {
    let mut public_path = args.output.as_os_str().to_owned();
    public_path.push(".pub");
    let public_path = PathBuf::from(public_path);
    // Before the secret is written: an incomplete pair would prevent the next attempt.
    for path in [&args.output, &public_path] {
        if path.symlink_metadata().is_ok() {
            bail!("{} exists and is not overwritten; name another file", path.display());
        }
    }
    let key = KeyFile::generate().context("cannot make a key").map_err(VerifyError)?;
    write(&args.output, 0o600, key.to_text().as_bytes()).map_err(VerifyError)?;
    let public = format!("{}\n", key.root);
    if let Err(error) = write(&public_path, 0o644, public.as_bytes()) {
        // A secret key must not be used if its public half was never shown.
        return Err(VerifyError(remove(&args.output, error)).into());
    }
    say::result(public.trim_end()).context("cannot write the public key")?;
    Ok(())
}

fn write(path: &Path, mode: u32, bytes: &[u8]) -> anyhow::Result<()> {
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = file.with_context(|| format!("cannot create {}", path.display()))?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    let written = written.with_context(|| format!("cannot write {}", path.display()));
    written.map_err(|error| remove(path, error))
}

/// Removes our own file after an error.
fn remove(path: &Path, error: anyhow::Error) -> anyhow::Error {
    match std::fs::remove_file(path) {
        Ok(()) => error,
        Err(more) => {
            error.context(format!("cannot remove the incomplete {} ({more})", path.display()))
        }
    }
}
