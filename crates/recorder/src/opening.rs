//! Opening the log for a writer: lock, last line, seal, and messages about them.

use std::path::Path;

use tacho_logdir::{
    FileError, FileErrorKind, LastSeqError, LogFiles, Opened, Options, RealFs, SealOptions,
};
use tacho_settings::{Setting, SettingNames};

use crate::control::Severity;

/// Why the log cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A failure of the directory or a file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The number to continue with cannot be determined.
    #[error(transparent)]
    LastSeq(#[from] LastSeqError),
}

impl OpenError {
    /// Another writer has the log; its process id, if known.
    #[must_use]
    pub fn locked_by(&self) -> Option<Option<u32>> {
        match self {
            OpenError::File(error) => match error.kind() {
                FileErrorKind::Locked { holder_pid } => Some(holder_pid),
                _ => None,
            },
            OpenError::LastSeq(_) => None,
        }
    }
}

/// Opens the log and returns it with the `seq` of its last line. With an empty `signing_key_file`
/// the log is not sealed. `names`: the setting names for messages.
///
/// # Errors
/// Another writer has the log, or it cannot be written.
pub fn open(
    log_directory: &Path,
    signing_key_file: &Path,
    names: SettingNames,
    say: &dyn Fn(Severity, &str),
) -> Result<(LogFiles, u64), OpenError> {
    let options = Options { rotate_bytes: 0 };
    let opened = LogFiles::open_with_key(RealFs, log_directory, options, signing_key_file)?;
    opened_with(opened, signing_key_file, true, names, say)
}

/// Like [`open`], to write what a dead server left and then release the log; a process that waits
/// for the log can detect this. Creates no key, because a new one would begin another chain:
/// without a key, the next server seals the lines.
///
/// # Errors
/// As [`open`].
pub fn open_to_recover(
    log_directory: &Path,
    signing_key_file: &Path,
    names: SettingNames,
    say: &dyn Fn(Severity, &str),
) -> Result<(LogFiles, u64), OpenError> {
    let options = Options { rotate_bytes: 0 };
    let mut opened = LogFiles::open_with_key(RealFs, log_directory, options, signing_key_file)?;
    opened.0.announce_recovery();
    opened_with(opened, signing_key_file, false, names, say)
}

fn opened_with(
    (mut files, opened): (LogFiles, Opened),
    signing_key_file: &Path,
    makes_key: bool,
    names: SettingNames,
    say: &dyn Fn(Severity, &str),
) -> Result<(LogFiles, u64), OpenError> {
    if opened.torn_bytes > 0 {
        let text = format!(
            "the last line of the audit log was torn ({} bytes); it was cut off and will \
             be written again",
            opened.torn_bytes
        );
        say(Severity::Note, &text);
    }
    // Numbers continue after the last line. If it cannot be read, there is no safe default.
    let last_seq = opened.last_seq?.unwrap_or(0);
    let is_sealing = !signing_key_file.as_os_str().is_empty()
        // If the key cannot be read, sealing fails and reports why.
        && (makes_key || files.has_key(signing_key_file).unwrap_or(true));
    if !is_sealing {
        files.leave_sealed_file();
    } else {
        seal(&mut files, signing_key_file, last_seq, names, say);
    }
    Ok((files, last_seq))
}

/// Begins to seal the log. A log that cannot be sealed is better than none.
fn seal(
    files: &mut LogFiles,
    key_file: &Path,
    last_seq: u64,
    names: SettingNames,
    say: &dyn Fn(Severity, &str),
) {
    // The setting follows shortly; until then the chain is signed at the default interval.
    let options =
        SealOptions { key_file: key_file.to_owned(), checkpoint_interval_s: 60, may_break: true };
    let sealed = match files.seal(&options, last_seq) {
        Ok(sealed) => sealed,
        Err(error) => {
            let text = format!(
                "the audit log is NOT SEALED, changes of it cannot be detected: {error} It is tried \
                 again with each new log file (SET GLOBAL {} = 1)",
                names.name(Setting::RotateNow)
            );
            return say(Severity::Error, &text);
        }
    };
    let new = if sealed.is_new_root { " (a new one: keep it somewhere else)" } else { "" };
    let text = format!(
        "the audit log is sealed with {}; its public key{new} is {}",
        sealed.key_file.display(),
        sealed.root
    );
    say(Severity::Note, &text);
    if sealed.is_new_root && sealed.key_file != key_file {
        let text = format!(
            "the signing key in {} belongs to another log directory, so this one has its own: copy \
             its public key, too",
            key_file.display()
        );
        say(Severity::Note, &text);
    }
    if sealed.recovered_bytes > 0 {
        let text = format!(
            "{} bytes of the audit log were not sealed when its last writer ended; they are now, \
             and marked as recovered",
            sealed.recovered_bytes
        );
        say(Severity::Note, &text);
    }
    if let Some(reason) = sealed.declared {
        let text = format!(
            "the chain that seals the audit log is broken ({reason}), and says so: look at it with \
             `tacho verify`"
        );
        say(Severity::Warning, &text);
    }
}
