//! What has happened to the files, in words for the error log.

use std::path::Path;

use tacho_logdir::{Event, Sealed};

use crate::control::Severity;
use crate::setting_names::SettingNames;

/// How grave an event is.
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

/// What happened to the files, in a sentence for the error log.
pub(super) fn describe(event: &Event, names: SettingNames) -> String {
    match event {
        Event::Rotated { closed, closed_bytes, opened } => format!(
            "{} is complete ({closed_bytes} bytes), going on in {}",
            closed.display(),
            opened.display()
        ),
        Event::RotateFailed { error } => {
            format!("no new log file could be begun, going on in the old one: {error}")
        }
        Event::Recreated { path, bytes } => format!(
            "the log file was deleted; its {bytes} bytes were written again to {}. \
             Do not delete files that are still being written",
            path.display()
        ),
        Event::Moved { from, opened } => {
            format!("{} was renamed by somebody, going on in {}", from.display(), opened.display())
        }
        Event::Truncated { path, gone_bytes, .. } => format!(
            "{} was cut short by somebody: {gone_bytes} bytes of the audit log are gone. \
             Use SET GLOBAL {}=1 instead of copytruncate",
            path.display(),
            names.name("rotate_now")
        ),
        Event::SealFailed { error } => {
            format!("the audit log goes on and its seal cannot be written at the moment: {error}")
        }
        Event::SealBegun { sealed } => {
            let Sealed { root, declared, .. } = sealed;
            let broken = declared
                .map(|reason| format!("; its chain is broken ({reason}), and says so"))
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
            "somebody else writes into {}: {kept_bytes} bytes were left, {removed_bytes} removed",
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
