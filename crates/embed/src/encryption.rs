//! Who may read closed files: the file with their public keys is read here, for the writer.

use std::path::Path;
use std::sync::Arc;

use tacho_logdir::Recipients;
use tacho_recorder::control::{ConfigChange, Control, Encryption, Who};

/// What is to be done with a file of recipients; see `tacho_encryption_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Say whether it is right.
    Check,
    /// Use it, if it is right.
    Apply,
    /// Use it; if it is wrong, remember that files should be encrypted and cannot be.
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

/// Takes a file into use, as `who` wants; an empty path means that nothing is encrypted. Returns what the log has to
/// tell of it.
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
    // A path says nothing about whose keys are in the file.
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
