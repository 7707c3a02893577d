//! Events of the files, as messages for the error log.

use std::path::Path;

use tacho_logdir::{Event, Sealed};

use crate::control::Severity;
use tacho_settings::{Setting, SettingNames};

/// Severity of an event.
pub(super) fn severity_of(event: &Event) -> Severity {
    match event {
        Event::Rotated { .. } | Event::SealResumed | Event::SealBegun { .. } => Severity::Note,
        _ => Severity::Warning,
    }
}

/// The name of a file without its directory.
pub(super) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// An event of the files, as a message for the error log.
pub(super) fn describe(event: &Event, names: SettingNames) -> String {
    match event {
        Event::Rotated { closed, closed_bytes, opened } => format!(
            "{} is complete ({closed_bytes} bytes), continuing in {}",
            closed.display(),
            opened.display()
        ),
        Event::RotateFailed { error } => {
            format!("cannot begin a new log file, continuing in the old one: {error}")
        }
        Event::Recreated { path, bytes } => format!(
            "the log file was deleted; its {bytes} bytes were written again to {}. \
             Do not delete files that are still being written",
            path.display()
        ),
        Event::Moved { from, opened } => {
            format!(
                "{} was renamed by another process, continuing in {}",
                from.display(),
                opened.display()
            )
        }
        Event::Truncated { path, gone_bytes, .. } => format!(
            "{} was truncated by another process: {gone_bytes} bytes of the audit log are gone. \
             Use SET GLOBAL {}=1 instead of copytruncate",
            path.display(),
            names.name(Setting::RotateNow)
        ),
        Event::SealFailed { error } => {
            format!("the audit log continues, but its seal cannot be written: {error}")
        }
        Event::SealBegun { sealed } => {
            let Sealed { root, declared, .. } = sealed;
            let broken = declared
                .map(|reason| format!("; its chain is broken ({reason}), which the seal declares"))
                .unwrap_or_default();
            format!("the audit log is sealed from here on{broken}; its public key is {root}")
        }
        Event::SealResumed => "the seal of the audit log is complete again".to_owned(),
        Event::SetAside { from, to } => format!(
            "{} was not made by Tachograph; it is set aside as {}. An account with the privilege FILE \
             can make such files (secure_file_priv)",
            from.display(),
            to.display()
        ),
        Event::Foreign { path, kept_bytes, removed_bytes } => format!(
            "another process writes into {}: {kept_bytes} bytes were left, {removed_bytes} removed",
            path.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_names_the_setting_of_the_server() {
        let path = Path::new("/log/audit.jsonl").to_owned();
        let event = Event::Truncated { path, gone_bytes: 7, rewritten_bytes: 0 };
        assert_eq!(severity_of(&event), Severity::Warning);
        let plugin = describe(&event, SettingNames::Plugin);
        assert!(
            plugin.contains("7 bytes") && plugin.contains("GLOBAL tacho_rotate_now"),
            "{plugin}"
        );
        let component = describe(&event, SettingNames::Component);
        assert!(component.contains("GLOBAL tacho.rotate_now"), "{component}");
    }
}
