//! The settings of the recorder's retention, as far as a command without a server knows them.

use std::path::Path;

use anyhow::{Context as _, bail};
use tacho_logdir::Keep;
use tacho_settings::{Kind, Setting, SettingNames};

use crate::cli::size;
use crate::option_file::{self, Reader};

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The limits.
    pub keep: Keep,
    /// Files that a hub does not have are removed as others.
    pub removes_unshipped: bool,
    /// They were read, and are not only the defaults.
    pub is_known: bool,
}

impl Default for Limits {
    fn default() -> Self {
        let default = |setting: Setting| match setting.spec().kind {
            Kind::Number { default, .. } => default,
            _ => 0,
        };
        let keep = Keep {
            days: default(Setting::RetentionDays),
            bytes: default(Setting::RetentionBytes),
            files: default(Setting::RetentionFiles),
        };
        Self { keep, removes_unshipped: false, is_known: false }
    }
}

impl Limits {
    /// Reads them from the server's option file.
    ///
    /// # Errors
    /// It cannot be read, or has a value that is not valid.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let mut limits = Self { is_known: true, ..Self::default() };
        for (name, value) in option_file::read(file, Reader::Server)? {
            limits.set(&name, &value).with_context(|| file.display().to_string())?;
        }
        Ok(limits)
    }

    /// As [`Limits::read`] if there is a file, otherwise the defaults.
    ///
    /// # Errors
    /// As [`Limits::read`].
    pub fn of(file: Option<&Path>) -> anyhow::Result<Self> {
        file.map_or(Ok(Self::default()), |file| Self::read(file).context("--config"))
    }

    /// Sets the limit of a setting. `false`: it is another setting.
    ///
    /// # Errors
    /// The value is not valid.
    pub fn set(&mut self, name: &str, value: &str) -> anyhow::Result<bool> {
        let named = |prefix: SettingNames| name.strip_prefix(prefix.prefix());
        let setting = named(SettingNames::Plugin).or_else(|| named(SettingNames::Component));
        let limit = match setting.and_then(Setting::from_name) {
            Some(Setting::RetentionDays) => &mut self.keep.days,
            Some(Setting::RetentionBytes) => &mut self.keep.bytes,
            Some(Setting::RetentionFiles) => &mut self.keep.files,
            Some(Setting::RetentionUnshipped) => {
                self.removes_unshipped = match &*value.to_ascii_uppercase() {
                    // The servers accept the number of a choice, too.
                    "KEEP" | "0" => false,
                    "REMOVE" | "1" => true,
                    _ => bail!("{name}={value} is neither KEEP nor REMOVE"),
                };
                return Ok(true);
            }
            _ => return Ok(false),
        };
        let Some(number) = size::bytes(value) else { bail!("{name}={value} is not a number") };
        *limit = number;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_the_server_s_groups() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("my.cnf");
        std::fs::write(
            &file,
            "[client]\ntacho_retention_days=1\n[mysqld]\nloose-tacho-retention-bytes = 10G\n\
             tacho.retention_files=9\ntacho_rotate_bytes=1M\ntacho_retention_unshipped=remove\n",
        )
        .unwrap();
        let keep = Keep { days: 183, bytes: 10 << 30, files: 9 };
        let limits = Limits { keep, removes_unshipped: true, is_known: true };
        assert_eq!(Limits::read(&file).unwrap(), limits);
        for (line, reason) in [
            ("tacho_retention_days=many", "tacho_retention_days=many is not a number"),
            (
                "tacho_retention_unshipped=2",
                "tacho_retention_unshipped=2 is neither KEEP nor REMOVE",
            ),
        ] {
            std::fs::write(&file, format!("[mysqld]\n{line}\n")).unwrap();
            let error = format!("{:#}", Limits::read(&file).unwrap_err());
            assert!(error.ends_with(reason), "{error}");
            assert!(error.starts_with(&file.display().to_string()), "{error}");
        }
        assert!(Limits::of(Some(Path::new("/missing"))).is_err());
        assert!(!Limits::of(None).unwrap().is_known);
    }
}
