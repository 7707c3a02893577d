//! The values of the settings that the writer reads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use tacho_settings::{Owner, Setting};

use crate::control::Control;

/// A value of [`Setting::Format`]: the server has not set it yet, so files of other formats stay
/// unchanged.
pub const FORMAT_NOT_SET: u64 = u64::MAX;

/// The settings that the writer owns, in the order of the table.
pub fn of_writer() -> impl Iterator<Item = Setting> {
    Setting::ALL.into_iter().filter(|setting| setting.spec().owner == Owner::Writer)
}

/// Their values; entries of other settings are unused.
#[derive(Debug)]
pub(crate) struct Values([AtomicU64; Setting::COUNT]);

impl Values {
    pub(crate) fn get(&self, setting: Setting) -> u64 {
        debug_assert_eq!(setting.spec().owner, Owner::Writer, "{setting:?}");
        self.0[setting as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, setting: Setting, value: u64) {
        debug_assert_eq!(setting.spec().owner, Owner::Writer, "{setting:?}");
        self.0[setting as usize].store(value, Ordering::Relaxed);
    }
}

impl Default for Values {
    /// The defaults of the table, with removal, warnings and format changes off until the server
    /// has sent its values: a recovery has none, and must not lose anything.
    fn default() -> Values {
        let values = Values(std::array::from_fn(|_| AtomicU64::new(0)));
        for setting in of_writer() {
            values.set(
                setting,
                match setting {
                    Setting::RetentionDays | Setting::DiskWarnPercent => 0,
                    Setting::Format => FORMAT_NOT_SET,
                    _ => setting.default_number(),
                },
            );
        }
        values
    }
}

/// The values at one moment, for a recorder in another process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, u64>", into = "BTreeMap<String, u64>")]
pub struct Snapshot(Vec<(Setting, u64)>);

impl Snapshot {
    /// The current values.
    #[must_use]
    pub fn of(control: &Control) -> Snapshot {
        Snapshot(of_writer().map(|setting| (setting, control.setting(setting))).collect())
    }

    /// Applies them.
    pub fn apply(&self, control: &Control) {
        self.0.iter().for_each(|(setting, value)| control.set(*setting, *value));
    }
}

impl From<Snapshot> for BTreeMap<String, u64> {
    fn from(snapshot: Snapshot) -> BTreeMap<String, u64> {
        let named = |(setting, value): (Setting, u64)| (setting.name().to_owned(), value);
        snapshot.0.into_iter().map(named).collect()
    }
}

impl TryFrom<BTreeMap<String, u64>> for Snapshot {
    type Error = String;

    /// Both sides come from the same build, so they know the same settings.
    fn try_from(mut named: BTreeMap<String, u64>) -> Result<Snapshot, String> {
        let take = |setting: Setting| {
            let value = named.remove(setting.name());
            Ok((setting, value.ok_or_else(|| format!("{} is missing", setting.name()))?))
        };
        let values = of_writer().map(take).collect::<Result<_, String>>()?;
        match named.keys().next() {
            None => Ok(Snapshot(values)),
            Some(name) => Err(format!("there is no setting {name}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_arrive_by_name() {
        let (control, other) = (Control::default(), Control::default());
        for (place, setting) in of_writer().enumerate() {
            control.set(setting, 1_000 + place as u64);
        }
        let text = serde_json::to_string(&Snapshot::of(&control)).unwrap();
        assert!(text.contains(r#""flush_bytes":10"#), "{text}");
        serde_json::from_str::<Snapshot>(&text).unwrap().apply(&other);
        for setting in of_writer() {
            assert_eq!(other.setting(setting), control.setting(setting), "{setting:?}");
        }
        // The format of another build is rejected.
        for wrong in [text.replace("flush_bytes", "flush_kilobytes"), "{}".to_owned()] {
            assert!(serde_json::from_str::<Snapshot>(&wrong).is_err(), "{wrong}");
        }
        let more = text.replacen('{', r#"{"new":1,"#, 1);
        assert!(serde_json::from_str::<Snapshot>(&more).is_err(), "{more}");
    }

    #[test]
    fn nothing_is_removed_before_the_server_has_set_the_limits() {
        let control = Control::default();
        for setting in [Setting::RetentionDays, Setting::RetentionBytes, Setting::RetentionFiles] {
            assert_eq!(control.setting(setting), 0, "{setting:?}");
        }
        assert_eq!(control.setting(Setting::Format), FORMAT_NOT_SET);
        assert_eq!(control.setting(Setting::FlushIntervalMs), 100);
        assert!(control.is_on(Setting::Digest));
    }
}
