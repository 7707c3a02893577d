//! The recorder behind the probe: that of a server, in this process.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use tacho_embed::{Config, Recorder};
use tacho_recorder::arena_file::{self, ArenaFile};
use tacho_settings::{Owner, Setting};

use crate::last_line;

/// Where and how to record.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Directory of the log; made if it is missing.
    pub log_directory: PathBuf,
    /// Directory of the arena: a file system in memory.
    pub arena_directory: PathBuf,
    /// Path of the signing key; empty: the log is not sealed.
    pub signing_key_file: PathBuf,
    /// Size of the arena, bytes.
    pub arena_bytes: u64,
    /// Removes all literals, not only secrets.
    pub redact_literals: bool,
    /// Times in UTC instead of local time.
    pub utc: bool,
    /// The packets are in the past.
    pub replay: bool,
}

impl Recording {
    /// When the last capture into this log was alive, as far as it has left a sign of that, µs
    /// since 1970-01-01 UTC. `None`: there was none. It is asked before the start, which recovers
    /// what that capture has left.
    pub fn last_alive_us(&self) -> Option<i64> {
        let log = self.log_directory.canonicalize().ok()?;
        // Whatever cannot be read is reported by the recovery.
        let arenas = arena_file::files(&self.arena_directory, Some(&log)).unwrap_or_default();
        let dead = arenas.iter().filter_map(|path| ArenaFile::open_released(path).ok());
        let dead = dead.filter(|arena| arena.info().log_directory == log);
        let alive_us =
            dead.map(|dead| dead.arena().shared().writer.0.heartbeat_us.load(Ordering::Relaxed));
        alive_us.filter(|us| *us > 0).max().or_else(|| last_line::time_us(&log))
    }

    /// Starts the recorder, with the default settings of a server; `Logging` is off. It first
    /// recovers what a capture that was killed has left. `of` says what is captured.
    ///
    /// # Errors
    /// Why it cannot start.
    pub fn start(&self, of: &str) -> Result<Recorder, String> {
        let config = Config {
            log_directory: self.log_directory.clone(),
            arena_directory: self.arena_directory.clone(),
            signing_key_file: self.signing_key_file.clone(),
            server: format!("tacho capture {}{of}", env!("CARGO_PKG_VERSION")),
            arena_bytes: self.arena_bytes,
            ending: None,
            tables: false,
            program: true,
            external: false,
            blocks: false,
            replay: self.replay,
        };
        let recorder = Recorder::start(&config).map_err(|error| error.to_string())?;
        for setting in Setting::ALL {
            if setting != Setting::Logging
                && matches!(setting.spec().owner, Owner::Arena | Owner::Writer)
            {
                recorder.set(setting, setting.default_number());
            }
        }
        recorder.set(Setting::Redact, u64::from(self.redact_literals));
        recorder.set(Setting::Timestamps, u64::from(self.utc));
        Ok(recorder)
    }
}
