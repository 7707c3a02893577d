//! What the server's threads say to the writer, and what it tells them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tacho_logdir::Recipients;
use tacho_ring::sys;
use tacho_settings::{Setting, SettingNames};

use crate::settings::Values;

/// Zone of the time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timestamps {
    /// Local time of the server, with offset.
    System,
    /// UTC, offset +00:00.
    Utc,
}

/// Settings that may change at any time, and requests.
#[derive(Debug)]
pub struct Control {
    settings: Values,
    /// An operator has set how long files are kept: what is too old goes at once.
    pub retain_now: AtomicBool,
    /// An operator has set how many files are kept: those beyond go at once.
    pub retain_files_now: AtomicBool,
    /// A new file is wanted.
    pub rotate_now: AtomicBool,
    /// Finished statements are to be written now.
    pub flush_now: AtomicBool,
    /// The writer is to drain what there is and end.
    pub stop: AtomicBool,
    /// The writer is to release the log, for another one.
    pub release: AtomicBool,
    /// How long it may wait for a log that cannot be written, once told to stop, ms.
    pub patience_ms: AtomicU64,
    /// The server's settings are named as a component's; see [`SettingNames`].
    is_component: AtomicBool,
    /// Changes of settings without a line yet.
    pub config_changes: Mutex<Vec<ConfigChange>>,
    /// How often the filter was changed.
    filter_version: AtomicU64,
    filters: Mutex<Filters>,
    /// How often it was said who may read closed files.
    encryption_version: AtomicU64,
    encryption: Mutex<Encryption>,
}

/// Whether closed files are encrypted.
#[derive(Clone, Debug, Default)]
pub enum Encryption {
    /// They are not.
    #[default]
    Off,
    /// Only these can read them.
    To(Arc<Recipients>),
    /// They should be, and cannot, for this reason.
    Impossible(String),
}

/// Who has done something; all empty: the server itself.
#[derive(Clone, Debug, Default)]
pub struct Who {
    /// Connection id; 0: none.
    pub conn: u64,
    /// User name the client gave.
    pub user: Vec<u8>,
    /// Account name the privileges come from.
    pub priv_user: Vec<u8>,
    /// Client host name.
    pub host: Vec<u8>,
    /// Client address.
    pub ip: Vec<u8>,
}

/// One change of a setting.
#[derive(Clone, Debug, Default)]
pub struct ConfigChange {
    /// Who has changed it.
    pub who: Who,
    /// By what the writer's answer refers to it ([`ConfigTold`]).
    pub number: u64,
    /// Name of the variable.
    pub variable: Vec<u8>,
    /// Its value before.
    pub old_value: Vec<u8>,
    /// Its value now.
    pub new_value: Vec<u8>,
}

/// Hears of each change, by its number, the `seq` of its line, before that is written.
pub type ConfigTold = Box<dyn FnMut(u64, u64) + Send>;

/// The filters of the last time: a statement is judged by that of the moment when it started,
/// also if it reaches the writer later.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// Since when each is in effect, µs since 1970-01-01 UTC, and its bytes; the oldest first.
    list: Vec<(i64, Arc<[u8]>)>,
}

/// Filters that are kept. What started before the oldest of them is recorded.
const FILTERS_MAX: usize = 64;

impl Filters {
    fn add(&mut self, since_us: i64, program: Arc<[u8]>) {
        if self.list.len() == FILTERS_MAX {
            self.list.remove(0);
        }
        self.list.push((since_us, program));
    }

    /// Each of them, and since when it is in effect, µs since 1970-01-01 UTC.
    pub fn list(&self) -> &[(i64, Arc<[u8]>)] {
        &self.list
    }

    /// The last of them, `count` at most.
    pub fn last(&self, count: u64) -> &[(i64, Arc<[u8]>)] {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.list.len());
        &self.list[self.list.len() - count..]
    }

    /// The bytes of the filter for a statement that started then; none: everything is wanted.
    #[inline]
    pub fn at(&self, started_us: i64) -> &[u8] {
        let found = self.list.iter().rev().find(|(since_us, _)| *since_us <= started_us);
        found.map_or(&[], |(_, program)| program)
    }
}

impl Default for Control {
    fn default() -> Control {
        Control {
            settings: Values::default(),
            retain_now: AtomicBool::new(false),
            retain_files_now: AtomicBool::new(false),
            rotate_now: AtomicBool::new(false),
            flush_now: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            release: AtomicBool::new(false),
            patience_ms: AtomicU64::new(0),
            is_component: AtomicBool::new(false),
            config_changes: Mutex::new(Vec::new()),
            filter_version: AtomicU64::new(0),
            filters: Mutex::new(Filters::default()),
            encryption_version: AtomicU64::new(0),
            encryption: Mutex::new(Encryption::Off),
        }
    }
}

impl Control {
    /// The value of a setting that the writer owns: 0 or 1 for a switch, the number of a choice.
    pub fn setting(&self, setting: Setting) -> u64 {
        self.settings.get(setting)
    }

    /// Whether a switch is on, or a choice is not the first one.
    pub fn is_on(&self, setting: Setting) -> bool {
        self.setting(setting) != 0
    }

    /// Changes a setting that the writer owns.
    pub fn set(&self, setting: Setting, value: u64) {
        self.settings.set(setting, value);
    }

    /// Puts a compiled filter in the place of the one before, from now on. Returns its version.
    pub fn set_filter(&self, program: Arc<[u8]>) -> u64 {
        let mut filters = self.filters.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        filters.add(sys::now_us(), program);
        // Under the lock, which is also held where both are read.
        self.filter_version.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes the filters of another process that are newer than those that are here: of each, since
    /// when it is in effect, the oldest first. `version`: that of the last one.
    pub fn add_filters(&self, version: u64, list: Vec<(i64, Arc<[u8]>)>) {
        let mut filters = self.filters.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        list.into_iter().for_each(|(since_us, program)| filters.add(since_us, program));
        // As in `set_filter`.
        self.filter_version.store(version, Ordering::Relaxed);
    }

    /// The filters and how often they were changed, if that is not `version`.
    pub fn filters_newer_than(&self, version: u64) -> Option<(u64, Filters)> {
        if self.filter_version.load(Ordering::Relaxed) == version {
            return None;
        }
        let filters = self.filters.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Some((self.filter_version.load(Ordering::Relaxed), filters.clone()))
    }

    /// Says who may read closed files, from the next one on. Returns what was said before.
    pub fn set_encryption(&self, encryption: Encryption) -> Encryption {
        let mut current = self.encryption.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, which is also held where both are read.
        self.encryption_version.fetch_add(1, Ordering::Relaxed);
        std::mem::replace(&mut current, encryption)
    }

    /// Who may read closed files.
    pub(crate) fn encryption(&self) -> Encryption {
        self.encryption.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was last said and how often that was, if it is not `version`.
    pub(crate) fn encryption_newer_than(&self, version: u64) -> Option<(u64, Encryption)> {
        if self.encryption_version.load(Ordering::Relaxed) == version {
            return None;
        }
        let current = self.encryption.lock().unwrap_or_else(PoisonError::into_inner);
        Some((self.encryption_version.load(Ordering::Relaxed), current.clone()))
    }

    /// Says what the server calls its settings.
    pub fn set_names(&self, names: SettingNames) {
        self.is_component.store(names == SettingNames::Component, Ordering::Relaxed);
    }

    /// What the server calls its settings.
    pub fn names(&self) -> SettingNames {
        match self.is_component.load(Ordering::Relaxed) {
            true => SettingNames::Component,
            false => SettingNames::Plugin,
        }
    }

    /// The name of a setting in this server.
    pub(crate) fn name(&self, setting: Setting) -> String {
        self.names().name(setting)
    }

    /// Zone of the time stamps.
    pub fn timestamps(&self) -> Timestamps {
        if self.is_on(Setting::Timestamps) { Timestamps::Utc } else { Timestamps::System }
    }
}

/// What the writer tells.
#[derive(Debug, Default)]
pub struct Status {
    /// Lines in the files.
    pub records_written: AtomicU64,
    /// Bytes in the files.
    pub bytes_written: AtomicU64,
    /// Statements that the filter did not want once they had ended.
    pub records_filtered: AtomicU64,
    /// Attempts to write that failed.
    pub write_errors: AtomicU64,
    /// How often the log was brought to the device.
    pub sync_count: AtomicU64,
    /// How long that took, µs.
    pub sync_time_us: AtomicU64,
    /// Bytes of chunks in use.
    pub arena_bytes_used: AtomicU64,
    /// Closed files that retention has removed.
    pub files_removed: AtomicU64,
    /// Closed files that were compressed.
    pub files_compressed: AtomicU64,
    /// Closed files that were encrypted.
    pub files_encrypted: AtomicU64,
    /// Room for the log, bytes.
    pub disk_free_bytes: AtomicU64,
    /// How much of the log is not written in the other format yet, bytes of lines.
    pub format_behind_bytes: AtomicU64,
    /// What there is of the log.
    pub log_files: Mutex<LogFilesView>,
    /// The log cannot be written at the moment.
    pub is_failing: AtomicBool,
    /// The last error, with advice.
    pub last_error: Mutex<String>,
    /// The file that is written now.
    pub current_file: Mutex<String>,
}

/// What there is of the log, when the writer has last looked. Times are as those in the log; empty:
/// there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFilesView {
    /// Log files, in whatever form.
    pub count: u64,
    /// Bytes of all of them, of their sidecars and their renditions.
    pub bytes: u64,
    /// How far back they go, days.
    pub days: u64,
    /// Closed files that wait to be compressed or encrypted.
    pub to_pack: u64,
    /// Name of the oldest.
    pub oldest_file: String,
    /// Time of its first line.
    pub oldest_time: String,
    /// When the seal was last signed.
    pub checkpoint_time: String,
    /// When the current file will be followed by another one because of its age.
    pub rotate_due_time: String,
}

impl Status {
    /// What there is of the log.
    #[must_use]
    pub fn log_files(&self) -> LogFilesView {
        self.log_files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows what there is of the log.
    pub fn show_log_files(&self, view: LogFilesView) {
        *self.log_files.lock().unwrap_or_else(PoisonError::into_inner) = view;
    }

    /// Replaces a text; a poisoned lock still holds a text.
    pub fn set(text: &Mutex<String>, value: &str) {
        let mut text = text.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        text.clear();
        text.push_str(value);
    }
}

/// How grave a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For the record.
    Note,
    /// Something to look at.
    Warning,
    /// Something to mend.
    Error,
}

/// Where messages go: the server's error log, or a terminal.
pub type Log = Box<dyn Fn(Severity, &str) + Send>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_judged_by_the_filter_of_its_start() {
        let mut filters = Filters::default();
        assert!(filters.at(5).is_empty());
        for since_us in 1..=100u8 {
            filters.add(10 * i64::from(since_us), Arc::new([since_us]));
        }
        assert_eq!(filters.at(2_000), [100]);
        assert_eq!(filters.at(999), [99]);
        assert_eq!(filters.at(370), [37]);
        assert!(filters.at(369).is_empty(), "older than what is kept: recorded");
    }
}
