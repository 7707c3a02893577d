//! Reports once at start what an account with the privilege FILE can reach.
//!
//! The recorder keeps SQL away from the arena and the signing key (`tacho_logdir::private_file`).
//! It cannot do so if the server can read every file, and never for the log, which people read as
//! files.

use std::ffi::{CStr, c_char};
use std::path::Path;

use tacho_recorder::control::Severity;

use crate::error_log;

/// Where the server's file functions may work, in the server's variable `char
/// *opt_secure_file_priv` (`sql/mysqld.h` of MariaDB 10.11, `sql/mysqld.h` of MySQL 8.0 and 9.7).
const SECURE_FILE_PRIV: &CStr = c"opt_secure_file_priv";

/// Bits of `CapEff` (`linux/capability.h`): CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
const READS_EVERYTHING: u64 = 1 << 1 | 1 << 2;

/// Warns if SQL may access files anywhere.
pub(crate) fn warn(log_directory: &Path) {
    // SAFETY: the name is terminated; the call looks it up in loaded libraries.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, SECURE_FILE_PRIV.as_ptr()) };
    if symbol.is_null() {
        return;
    }
    // SAFETY: in each release the symbol is a variable of this type, set before plugins are loaded
    // and read-only afterwards; the server reads it in the same way.
    let value = unsafe { *symbol.cast::<*const c_char>() };
    // SAFETY: if it is not null, it is a terminated text that stays valid.
    if !is_everywhere((!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })) {
        return;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    error_log::write(Severity::Warning, &text(log_directory, reads_everything(&status)));
}

/// Null is MariaDB's default. On MySQL, the text `NULL` means nowhere.
fn is_everywhere(secure_file_priv: Option<&CStr>) -> bool {
    secure_file_priv.is_none_or(CStr::is_empty)
}

/// Whether this process can open files without permission; `status` is `/proc/self/status`.
fn reads_everything(status: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    effective.is_some_and(|bits| bits & READS_EVERYTHING != 0)
}

fn text(log_directory: &Path, reads_everything: bool) -> String {
    let more = match reads_everything {
        true => {
            ", and, because this server runs as root or with CAP_DAC_OVERRIDE, the arena with all \
             statements as they came and the signing key"
        }
        false => "",
    };
    format!(
        "secure_file_priv is empty: an account with the privilege FILE can read the audit log in {}{more}. \
         Set secure_file_priv to a directory of its own",
        log_directory.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_directory_is_every_directory() {
        assert!(is_everywhere(None) && is_everywhere(Some(c"")));
        assert!(!is_everywhere(Some(c"NULL")) && !is_everywhere(Some(c"/var/lib/mysql-files/")));
    }

    #[test]
    fn capabilities_are_read() {
        let status =
            |bits: &str| format!("Name:\tmysqld\nCapPrm:\t0\nCapEff:\t{bits}\nCapBnd:\t0\n");
        assert!(reads_everything(&status("000001ffffffffff")));
        assert!(reads_everything(&status("0000000000000004")));
        assert!(!reads_everything(&status("0000000000000000")));
        assert!(!reads_everything(&status("0000000000800001")));
        let own = std::fs::read_to_string("/proc/self/status").unwrap();
        assert!(own.contains("CapEff:"), "{own}");
    }

    #[test]
    fn the_warning_names_what_can_be_read() {
        let log = Path::new("/var/lib/mysql/tacho");
        assert!(!text(log, false).contains("arena"));
        assert!(text(log, true).contains("signing key"));
    }
}
