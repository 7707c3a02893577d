//! The recipients of closed files: reads the file with their public keys, for the writer.

use std::path::Path;
use std::sync::Arc;

use tacho_logdir::Recipients;
use tacho_recorder::control::{ConfigChange, Control, Encryption, Who};

/// How to use a file of recipients; see `tacho_encryption_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only check it.
    Check,
    /// Use it, if it is valid.
    Apply,
    /// Use it; if it is invalid, remember that files should be encrypted and cannot be.
    Begin,
}

impl Mode {
    pub fn of(number: u32) -> Mode {
        match number {
            0 => Mode::Check,
            1 => Mode::Apply,
            _ => Mode::Begin,
        }
    }
}

/// Takes a file into use, on behalf of `who`; with an empty path, files are not encrypted. Returns
/// the change for the log.
///
/// # Errors
/// What is wrong with the file.
pub fn set(
    who: Who,
    path: &Path,
    mode: Mode,
    control: &Control,
) -> Result<Option<ConfigChange>, String> {
    let read = if path.as_os_str().is_empty() {
        Ok(Encryption::Off)
    } else {
        let recipients = Recipients::read(path).map(|it| Encryption::To(Arc::new(it)));
        recipients.map_err(|error| format!("{}: {error}", path.display()))
    };
    if mode == Mode::Check {
        return read.map(|_| None);
    }
    let encryption = match read {
        Ok(encryption) => encryption,
        Err(why) => {
            if mode == Mode::Begin {
                control.set_encryption(Encryption::Impossible(why.clone()));
            }
            return Err(why);
        }
    };
    let new_value = keys(&encryption);
    let old_value = keys(&control.set_encryption(encryption));
    // A path does not show whose keys are in the file.
    let variable = b"encryption_recipients".to_vec();
    Ok((old_value != new_value).then_some(ConfigChange {
        who,
        number: 0,
        variable,
        old_value,
        new_value,
    }))
}

fn keys(encryption: &Encryption) -> Vec<u8> {
    match encryption {
        Encryption::To(recipients) => recipients.to_string().into_bytes(),
        Encryption::Off | Encryption::Impossible(_) => Vec::new(),
    }
}
