//! What the server's threads and the writer exchange: settings, requests, status.

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
    /// An operator has set the retention time: remove files that are too old at once.
    pub retain_now: AtomicBool,
    /// An operator has set the number of files to keep: remove the surplus at once.
    pub retain_files_now: AtomicBool,
    /// Begin a new file.
    pub rotate_now: AtomicBool,
    /// Write finished statements now.
    pub flush_now: AtomicBool,
    /// Drain what is left and end.
    pub stop: AtomicBool,
    /// Release the log for another writer.
    pub release: AtomicBool,
    /// How long a stopping writer may wait for a log that cannot be written, ms.
    pub stop_timeout_ms: AtomicU64,
    /// The server's settings have the names of a component's; see [`SettingNames`].
    is_component: AtomicBool,
    /// Changes of settings without a line yet.
    pub config_changes: Mutex<Vec<ConfigChange>>,
    /// How often the filter was changed.
    filter_version: AtomicU64,
    filters: Mutex<Filters>,
    /// How often the recipients of closed files were changed.
    encryption_version: AtomicU64,
    encryption: Mutex<Encryption>,
}

/// Whether closed files are encrypted.
#[derive(Clone, Debug, Default)]
pub enum Encryption {
    /// They are not.
    #[default]
    Off,
    /// Only these recipients can read them.
    To(Arc<Recipients>),
    /// They should be, but cannot be encrypted, for this reason.
    Impossible(String),
}

/// The account that did something; all fields empty: the server itself.
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
    /// The account that changed it.
    pub who: Who,
    /// Number that the writer's answer refers to ([`ConfigLogged`]).
    pub number: u64,
    /// Name of the variable.
    pub variable: Vec<u8>,
    /// Its value before.
    pub old_value: Vec<u8>,
    /// Its value now.
    pub new_value: Vec<u8>,
}

/// Called for each change, with its number and the `seq` of its line, before the line is written.
pub type ConfigLogged = Box<dyn FnMut(u64, u64) + Send>;

/// The latest filters. A statement is filtered by the one that was in effect when it started, even
/// if it reaches the writer later.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// Since when each is in effect, µs since 1970-01-01 UTC, and its bytes; the oldest first.
    list: Vec<(i64, Arc<[u8]>)>,
}

/// Number of filters that are kept. Statements that started before the oldest of them are recorded.
const FILTERS_MAX: usize = 64;

impl Filters {
    fn add(&mut self, since_us: i64, program: Arc<[u8]>) {
        if self.list.len() == FILTERS_MAX {
            self.list.remove(0);
        }
        self.list.push((since_us, program));
    }

    /// Each filter, and since when it is in effect, µs since 1970-01-01 UTC.
    pub fn list(&self) -> &[(i64, Arc<[u8]>)] {
        &self.list
    }

    /// The last filters, `count` at most.
    pub fn last(&self, count: u64) -> &[(i64, Arc<[u8]>)] {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.list.len());
        &self.list[self.list.len() - count..]
    }

    /// The bytes of the filter for a statement that started then; empty: record everything.
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
            stop_timeout_ms: AtomicU64::new(0),
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
    /// The value of a setting that the writer owns: 0 or 1 for a switch, otherwise the number of
    /// the choice.
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

    /// Replaces the compiled filter from now on. Returns the new version.
    pub fn set_filter(&self, program: Arc<[u8]>) -> u64 {
        let mut filters = self.filters.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        filters.add(sys::now_us(), program);
        // Under the lock, which is also held where filter and version are read together.
        self.filter_version.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds filters of another process that are newer than those already here, each with the time
    /// since when it is in effect, oldest first. `version` is the version of the last one.
    pub fn add_filters(&self, version: u64, list: Vec<(i64, Arc<[u8]>)>) {
        let mut filters = self.filters.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        list.into_iter().for_each(|(since_us, program)| filters.add(since_us, program));
        // As in `set_filter`.
        self.filter_version.store(version, Ordering::Relaxed);
    }

    /// The filters and their version, if it is not `version`.
    pub fn filters_newer_than(&self, version: u64) -> Option<(u64, Filters)> {
        if self.filter_version.load(Ordering::Relaxed) == version {
            return None;
        }
        let filters = self.filters.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Some((self.filter_version.load(Ordering::Relaxed), filters.clone()))
    }

    /// Sets the recipients of closed files, from the next file on. Returns the previous value.
    pub fn set_encryption(&self, encryption: Encryption) -> Encryption {
        let mut current = self.encryption.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, which is also held where both are read.
        self.encryption_version.fetch_add(1, Ordering::Relaxed);
        std::mem::replace(&mut current, encryption)
    }

    /// The recipients of closed files.
    pub(crate) fn encryption(&self) -> Encryption {
        self.encryption.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The current value and its version, if it is not `version`.
    pub(crate) fn encryption_newer_than(&self, version: u64) -> Option<(u64, Encryption)> {
        if self.encryption_version.load(Ordering::Relaxed) == version {
            return None;
        }
        let current = self.encryption.lock().unwrap_or_else(PoisonError::into_inner);
        Some((self.encryption_version.load(Ordering::Relaxed), current.clone()))
    }

    /// Sets how the server names its settings.
    pub fn set_names(&self, names: SettingNames) {
        self.is_component.store(names == SettingNames::Component, Ordering::Relaxed);
    }

    /// How the server names its settings.
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

/// The writer's status.
#[derive(Debug, Default)]
pub struct Status {
    /// Lines in the files.
    pub records_written: AtomicU64,
    /// Bytes in the files.
    pub bytes_written: AtomicU64,
    /// Statements that the filter discarded at their end.
    pub records_filtered: AtomicU64,
    /// Attempts to write that failed.
    pub write_errors: AtomicU64,
    /// How often the log was flushed to the device.
    pub sync_count: AtomicU64,
    /// Total time of these flushes, µs.
    pub sync_time_us: AtomicU64,
    /// Bytes of chunks in use.
    pub arena_bytes_used: AtomicU64,
    /// Closed files that retention has removed.
    pub files_removed: AtomicU64,
    /// Closed files that were compressed.
    pub files_compressed: AtomicU64,
    /// Closed files that were encrypted.
    pub files_encrypted: AtomicU64,
    /// Free space for the log, bytes.
    pub disk_free_bytes: AtomicU64,
    /// Backlog of the other format, bytes of lines.
    pub format_behind_bytes: AtomicU64,
    /// Overview of the log files.
    pub log_files: Mutex<LogFilesView>,
    /// The log cannot be written at the moment.
    pub is_failing: AtomicBool,
    /// The last error, with advice.
    pub last_error: Mutex<String>,
    /// The file that is being written.
    pub current_file: Mutex<String>,
}

/// Overview of the log files as of the writer's last look. Times are formatted as in the log;
/// empty: there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFilesView {
    /// Log files, in any form.
    pub count: u64,
    /// Bytes of all of them, including sidecars and renditions.
    pub bytes: u64,
    /// Age of the oldest one, days.
    pub days: u64,
    /// Closed files that wait to be compressed or encrypted.
    pub to_pack: u64,
    /// Name of the oldest.
    pub oldest_file: String,
    /// Time of its first line.
    pub oldest_time: String,
    /// When the seal was last signed.
    pub checkpoint_time: String,
    /// When the current file will be rotated because of its age.
    pub rotate_due_time: String,
}

impl Status {
    /// The overview of the log files.
    #[must_use]
    pub fn log_files(&self) -> LogFilesView {
        self.log_files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Publishes the overview of the log files.
    pub fn show_log_files(&self, view: LogFilesView) {
        *self.log_files.lock().unwrap_or_else(PoisonError::into_inner) = view;
    }

    /// Replaces a text, even if the lock is poisoned.
    pub fn set(text: &Mutex<String>, value: &str) {
        let mut text = text.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        text.clear();
        text.push_str(value);
    }
}

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Information.
    Note,
    /// Should be looked at.
    Warning,
    /// Must be repaired.
    Error,
}

/// Destination of messages: the server's error log, or a terminal.
pub type Log = Box<dyn Fn(Severity, &str) + Send>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_filtered_by_the_filter_of_its_start() {
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
