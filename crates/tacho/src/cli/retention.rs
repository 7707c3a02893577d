//! `tacho retention`.

use std::path::PathBuf;

use clap::Args;

use super::log::LogDirectory;
use super::report::ReportFormat;

/// Shown at the end of `tacho retention --help`.
const NOTES: &str = "\
The command changes nothing: only the recorder removes files, and writes a tombstone for each. It
decides with the recorder's own code, without the facts that only a running recorder knows: its rate
limits by age and count, and files that it is compressing.

Without --config and --set, the limits are the defaults of the settings. SET GLOBAL changes those of
a running server without changing its option file.

Run it as the server's user or as root: other users cannot read what the hubs have acknowledged.

Exit code: 0 success; 1 the log directory cannot be read; 2 wrong usage, or no log at that place.";

/// Arguments of `tacho retention`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub struct RetentionArgs {
    /// The log.
    #[command(flatten)]
    pub log: LogDirectory,

    /// Format.
    #[command(flatten)]
    pub format: ReportFormat,

    /// Write times in UTC instead of local time
    #[arg(long)]
    pub utc: bool,

    /// Only show what would be removed. The command does nothing else, with or without this option
    #[arg(long)]
    pub dry_run: bool,

    /// Read the retention settings from the server's option file (my.cnf) and its includes. Missing
    /// settings have the recorder's default
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Try another value of a setting, such as tacho_retention_days=30; may be repeated
    #[arg(long, value_name = "SETTING=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or("expected SETTING=VALUE, such as tacho_retention_days=30")?;
    let (name, value) = (name.trim().to_ascii_lowercase().replace('-', "_"), value.trim());
    match crate::limits::Limits::default().set(&name, value) {
        Ok(true) => Ok((name, value.to_owned())),
        Ok(false) => Err(format!(
            "{name} is no setting of retention; there are tacho_retention_days, _bytes, _files, \
             _unshipped"
        )),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_of_retention_can_be_tried() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(setting("tacho-retention-days=30"), Ok(pair("tacho_retention_days", "30")));
        assert_eq!(setting("tacho.retention_bytes=1G"), Ok(pair("tacho.retention_bytes", "1G")));
        for (wrong, message) in [
            ("tacho_retention_days", "expected SETTING=VALUE"),
            ("tacho_rotate_s=1", "tacho_rotate_s is no setting of retention"),
            ("retention_days=1", "retention_days is no setting of retention"),
            ("tacho_retention_files=x", "tacho_retention_files=x is not a number"),
        ] {
            let error = setting(wrong).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
