//! The messages between server and recorder: one JSON object per line.
//!
//! Both come from the same build: a peer of another build is refused ([`PROTOCOL`]), so no message
//! has to be compatible with other versions.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tacho_logdir::Recipients;

use crate::control::{ConfigChange, Control, Encryption, LogFilesView, Severity, Status, Who};
use crate::settings::Snapshot;

/// Version of the program and of its messages.
pub const PROTOCOL: &str = concat!(env!("CARGO_PKG_VERSION"), "/8");

/// Bytes that need not be text, as hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(2 * self.0.len());
        for byte in &self.0 {
            text.push(DIGITS[usize::from(byte >> 4)].into());
            text.push(DIGITS[usize::from(byte & 15)].into());
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes = pairs.iter().map(|[high, low]| Some((digit(*high)? * 16 + digit(*low)?) as u8));
        match bytes.collect() {
            Some(bytes) if rest.is_empty() => Ok(Bytes(bytes)),
            _ => Err(serde::de::Error::custom("not pairs of hexadecimal digits")),
        }
    }
}

impl From<&Path> for Bytes {
    fn from(path: &Path) -> Bytes {
        Bytes(path.as_os_str().as_bytes().to_vec())
    }
}

impl Bytes {
    /// As a path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.0.clone()))
    }
}

/// The settings of the writer that are not in the arena.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    values: Snapshot,
    encryption: Keys,
}

/// See [`Encryption`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Keys {
    #[default]
    Off,
    /// Public keys.
    To(Vec<String>),
    Impossible(String),
}

impl Keys {
    fn of(control: &Control) -> Keys {
        match control.encryption() {
            Encryption::Off => Keys::Off,
            Encryption::To(recipients) => {
                Keys::To(recipients.to_string().split(',').map(str::to_owned).collect())
            }
            Encryption::Impossible(why) => Keys::Impossible(why),
        }
    }

    fn apply(&self, control: &Control) {
        // If only this changes, the writer retries files that it failed to encrypt.
        if Keys::of(control) == *self {
            return;
        }
        control.set_encryption(match self {
            Keys::Off => Encryption::Off,
            Keys::To(keys) => match Recipients::parse(&keys.join("\n")) {
                Ok(recipients) => Encryption::To(Arc::new(recipients)),
                Err(error) => Encryption::Impossible(error.to_string()),
            },
            Keys::Impossible(why) => Encryption::Impossible(why.clone()),
        });
    }
}

impl Settings {
    /// The current ones.
    #[must_use]
    pub fn of(control: &Control) -> Settings {
        Settings { values: Snapshot::of(control), encryption: Keys::of(control) }
    }

    /// Applies them.
    pub fn apply(&self, control: &Control) {
        self.values.apply(control);
        self.encryption.apply(control);
    }
}

/// The filters that the peer has not received yet, each with the time since when it is in effect.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FilterList {
    /// Version of the last one.
    version: u64,
    list: Vec<(i64, Bytes)>,
}

impl FilterList {
    /// The filters that are newer than `version`.
    #[must_use]
    pub fn newer_than(control: &Control, version: u64) -> Option<FilterList> {
        let (newest, filters) = control.filters_newer_than(version)?;
        let new = filters.last(newest.saturating_sub(version));
        let list = new.iter().map(|(since, it)| (*since, Bytes(it.to_vec()))).collect();
        Some(FilterList { version: newest, list })
    }

    /// The version of the last one.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Applies them.
    pub fn apply(self, control: &Control) {
        let list = self.list.into_iter().map(|(since_us, bytes)| (since_us, Arc::from(bytes.0)));
        control.add_filters(self.version, list.collect());
    }
}

/// A change of a setting; it gets a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Change {
    number: u64,
    conn: u64,
    user: Bytes,
    priv_user: Bytes,
    host: Bytes,
    ip: Bytes,
    variable: Bytes,
    old_value: Bytes,
    new_value: Bytes,
}

impl From<&ConfigChange> for Change {
    fn from(change: &ConfigChange) -> Change {
        Change {
            number: change.number,
            conn: change.who.conn,
            user: Bytes(change.who.user.clone()),
            priv_user: Bytes(change.who.priv_user.clone()),
            host: Bytes(change.who.host.clone()),
            ip: Bytes(change.who.ip.clone()),
            variable: Bytes(change.variable.clone()),
            old_value: Bytes(change.old_value.clone()),
            new_value: Bytes(change.new_value.clone()),
        }
    }
}

impl From<Change> for ConfigChange {
    fn from(change: Change) -> ConfigChange {
        let who = Who {
            conn: change.conn,
            user: change.user.0,
            priv_user: change.priv_user.0,
            host: change.host.0,
            ip: change.ip.0,
        };
        ConfigChange {
            who,
            number: change.number,
            variable: change.variable.0,
            old_value: change.old_value.0,
            new_value: change.new_value.0,
        }
    }
}

/// Everything that a recorder needs to write the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attach {
    /// The arena.
    pub arena: Bytes,
    /// The log directory, by the path in the arena's header.
    pub log_directory: Bytes,
    /// Path of the signing key; empty: the log is not sealed.
    pub signing_key_file: Bytes,
    /// Process id of the server in its own namespace.
    pub pid: u32,
    /// See [`Settings`].
    pub settings: Settings,
    /// See [`FilterList`].
    pub filters: FilterList,
}

/// A one-time request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Begin a new file.
    Rotate,
    /// Write finished statements.
    Flush,
    /// Remove all files that are too old.
    Retain,
    /// Remove all files beyond the number to keep.
    RetainFiles,
}

/// From the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToRecorder {
    /// The server does not use this recorder, and why.
    Refuse(String),
    /// The server's local time zone (its `TZ`) is a different one: restart with it.
    Zone(Option<Bytes>),
    /// The recorder owns the log now.
    Attach(Box<Attach>),
    /// Settings have changed.
    Settings(Settings),
    /// Filters have changed.
    Filters(FilterList),
    /// A change that gets a line.
    Config(Change),
    /// See [`Request`].
    Request(Request),
    /// Release the log.
    Release,
    /// Write everything and the `stop` line, and release the log.
    Stop {
        /// How long the recorder may wait for a log that cannot be written, ms.
        timeout_ms: u64,
    },
}

/// Figures and texts for SHOW STATUS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// See [`Status`]; since this recorder took over.
    pub records_written: u64,
    /// Likewise.
    pub bytes_written: u64,
    /// Likewise.
    pub records_filtered: u64,
    /// Likewise.
    pub write_errors: u64,
    /// Likewise.
    pub sync_count: u64,
    /// Likewise.
    pub sync_time_us: u64,
    /// Likewise.
    pub files_removed: u64,
    /// Likewise.
    pub files_compressed: u64,
    /// Likewise.
    pub files_encrypted: u64,
    /// See [`Status`]; now.
    pub arena_bytes_used: u64,
    /// Likewise.
    pub disk_free_bytes: u64,
    /// Likewise.
    pub format_behind_bytes: u64,
    /// Likewise.
    pub log_files: LogFilesView,
    /// Likewise.
    pub is_failing: bool,
    /// Likewise.
    pub last_error: String,
    /// Likewise.
    pub current_file: String,
}

impl Figures {
    /// The current ones.
    #[must_use]
    pub fn of(status: &Status) -> Figures {
        let text = |text: &std::sync::Mutex<String>| {
            text.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
        };
        Figures {
            records_written: status.records_written.load(Ordering::Relaxed),
            bytes_written: status.bytes_written.load(Ordering::Relaxed),
            records_filtered: status.records_filtered.load(Ordering::Relaxed),
            write_errors: status.write_errors.load(Ordering::Relaxed),
            sync_count: status.sync_count.load(Ordering::Relaxed),
            sync_time_us: status.sync_time_us.load(Ordering::Relaxed),
            files_removed: status.files_removed.load(Ordering::Relaxed),
            files_compressed: status.files_compressed.load(Ordering::Relaxed),
            files_encrypted: status.files_encrypted.load(Ordering::Relaxed),
            arena_bytes_used: status.arena_bytes_used.load(Ordering::Relaxed),
            disk_free_bytes: status.disk_free_bytes.load(Ordering::Relaxed),
            format_behind_bytes: status.format_behind_bytes.load(Ordering::Relaxed),
            log_files: status.log_files(),
            is_failing: status.is_failing.load(Ordering::Relaxed),
            last_error: text(&status.last_error),
            current_file: text(&status.current_file),
        }
    }

    /// Adds the difference to `before`.
    pub fn add_to(&self, status: &Status, before: &Figures) {
        let add = |to: &std::sync::atomic::AtomicU64, now: u64, before: u64| {
            to.fetch_add(now.saturating_sub(before), Ordering::Relaxed);
        };
        add(&status.records_written, self.records_written, before.records_written);
        add(&status.bytes_written, self.bytes_written, before.bytes_written);
        add(&status.records_filtered, self.records_filtered, before.records_filtered);
        add(&status.write_errors, self.write_errors, before.write_errors);
        add(&status.sync_count, self.sync_count, before.sync_count);
        add(&status.sync_time_us, self.sync_time_us, before.sync_time_us);
        add(&status.files_removed, self.files_removed, before.files_removed);
        add(&status.files_compressed, self.files_compressed, before.files_compressed);
        add(&status.files_encrypted, self.files_encrypted, before.files_encrypted);
        status.arena_bytes_used.store(self.arena_bytes_used, Ordering::Relaxed);
        status.disk_free_bytes.store(self.disk_free_bytes, Ordering::Relaxed);
        status.format_behind_bytes.store(self.format_behind_bytes, Ordering::Relaxed);
        if self.log_files != before.log_files {
            status.show_log_files(self.log_files.clone());
        }
        status.is_failing.store(self.is_failing, Ordering::Relaxed);
        if self.last_error != before.last_error {
            Status::set(&status.last_error, &self.last_error);
        }
        if self.current_file != before.current_file {
            Status::set(&status.current_file, &self.current_file);
        }
    }
}

/// Serialized form of [`Severity`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(remote = "Severity")]
pub enum SeverityName {
    /// See [`Severity`].
    Note,
    /// See [`Severity`].
    Warning,
    /// See [`Severity`].
    Error,
}

/// From the recorder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToServer {
    /// The recorder is running and ready to write.
    Hello {
        /// [`PROTOCOL`].
        protocol: String,
        /// Its `TZ`.
        zone: Option<Bytes>,
    },
    /// The recorder has the lock of the log, and reads what is left in the arena.
    Opened,
    /// The recorder now writes the log.
    Attached,
    /// The recorder has not taken the log over, and why.
    Refused(String),
    /// See [`Figures`]. Sent at least once a second, so that the server detects a recorder that
    /// hangs.
    Figures(Box<Figures>),
    /// A message for the error log.
    Say {
        /// Its severity.
        #[serde(with = "SeverityName")]
        severity: Severity,
        /// The message.
        text: String,
    },
    /// The change gets this line. Sent before the line is written: the change has its line exactly
    /// if that line is in the file.
    ConfigLogged {
        /// Number of the change.
        number: u64,
        /// `seq` of the line.
        seq: u64,
    },
    /// The recorder has released the log, and why.
    Released(String),
    /// The recorder has released the log, after it has written everything or given up.
    Stopped {
        /// Everything is in the file, including the `stop` line.
        is_drained: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_settings::Setting;

    #[test]
    fn settings_survive_a_round_trip() {
        let (control, other) = (Control::default(), Control::default());
        control.set(Setting::RetentionDays, 183);
        control.set(Setting::Digest, 0);
        let key = |_| age::x25519::Identity::generate().to_public().to_string();
        let keys = [1, 2].map(key).join("\n");
        let recipients = Arc::new(Recipients::parse(&keys).unwrap());
        control.set_encryption(Encryption::To(recipients));
        let settings = Settings::of(&control);
        assert_ne!(settings, Settings::of(&other));
        let text = serde_json::to_string(&settings).unwrap();
        serde_json::from_str::<Settings>(&text).unwrap().apply(&other);
        assert_eq!(Settings::of(&other), settings);
    }

    #[test]
    fn filters_arrive_with_their_times() {
        let (control, other) = (Control::default(), Control::default());
        assert!(FilterList::newer_than(&control, 0).is_none());
        control.set_filter(Arc::from([1, 2, 255]));
        control.set_filter(Arc::from([3]));
        let send = |known: u64| {
            let list = FilterList::newer_than(&control, known).unwrap();
            let text = serde_json::to_string(&list).unwrap();
            serde_json::from_str::<FilterList>(&text).unwrap().apply(&other);
            list
        };
        assert_eq!(send(0).version(), 2);
        assert!(FilterList::newer_than(&control, 2).is_none());
        // Later only new filters are sent, and the others stay.
        control.set_filter(Arc::from([4]));
        assert_eq!(send(2).list.len(), 1);
        let (version, arrived) = other.filters_newer_than(0).unwrap();
        let (_, sent) = control.filters_newer_than(0).unwrap();
        assert_eq!((version, arrived.list().len()), (3, 3));
        assert_eq!(arrived.list(), sent.list());
    }

    #[test]
    fn bytes_are_pairs_of_digits() {
        assert_eq!(serde_json::to_string(&Bytes(vec![0, 255])).unwrap(), "\"00ff\"");
        for text in ["\"0\"", "\"0g\"", "\"000\"", "1"] {
            assert!(serde_json::from_str::<Bytes>(text).is_err(), "{text}");
        }
    }
}
