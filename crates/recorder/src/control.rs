//! What the server's threads say to the writer, and what it tells them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

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
    /// Longest time that a finished record stays unwritten, ms.
    pub flush_interval_ms: AtomicU64,
    /// Write earlier when this much is waiting, bytes.
    pub flush_bytes: AtomicU64,
    /// Size at which a new file is begun, bytes; 0 = never.
    pub rotate_bytes: AtomicU64,
    /// Longest statement text, bytes; 0 = no limit.
    pub max_statement_bytes: AtomicU64,
    /// Lines of statements have their digests.
    pub digest: AtomicBool,
    /// 1 = UTC.
    pub utc: AtomicU32,
    /// A new file is wanted.
    pub rotate_now: AtomicBool,
    /// The writer shall drain what there is and end.
    pub stop: AtomicBool,
    /// How long it may wait for a log that cannot be written, once told to stop, ms.
    pub patience_ms: AtomicU64,
    /// Changes of settings that no line tells of yet.
    pub config_changes: Mutex<Vec<ConfigChange>>,
}

/// One change of a setting.
#[derive(Clone, Debug, Default)]
pub struct ConfigChange {
    /// Name of the variable.
    pub variable: Vec<u8>,
    /// Its value before.
    pub old_value: Vec<u8>,
    /// Its value now.
    pub new_value: Vec<u8>,
}

impl Default for Control {
    fn default() -> Control {
        Control {
            flush_interval_ms: AtomicU64::new(100),
            flush_bytes: AtomicU64::new(262_144),
            rotate_bytes: AtomicU64::new(268_435_456),
            max_statement_bytes: AtomicU64::new(0),
            digest: AtomicBool::new(true),
            utc: AtomicU32::new(0),
            rotate_now: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            patience_ms: AtomicU64::new(0),
            config_changes: Mutex::new(Vec::new()),
        }
    }
}

impl Control {
    /// Zone of the time stamps.
    pub fn timestamps(&self) -> Timestamps {
        if self.utc.load(Ordering::Relaxed) != 0 { Timestamps::Utc } else { Timestamps::System }
    }
}

/// What the writer tells.
#[derive(Debug, Default)]
pub struct Status {
    /// Lines in the files.
    pub records_written: AtomicU64,
    /// Bytes in the files.
    pub bytes_written: AtomicU64,
    /// Attempts to write that failed.
    pub write_errors: AtomicU64,
    /// Bytes of chunks in use.
    pub arena_bytes_used: AtomicU64,
    /// The last error, with advice.
    pub last_error: Mutex<String>,
    /// The file that is written now.
    pub current_file: Mutex<String>,
}

impl Status {
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
