//! What a recorder opens and recovers before its writer runs.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use tacho_logdir::{LogFiles, RealFs};
use tacho_recorder::arena_file::ArenaFile;
use tacho_recorder::arena_list;
use tacho_recorder::control::Severity;
use tacho_recorder::opening::{self, OpenError};
use tacho_recorder::recover::{self, RecoverError};
use tacho_recorder::writer::Writer;
use tacho_settings::{Setting, SettingNames};

use crate::error_log;
use crate::lock_wait::LockWait;
use crate::recorder::Config;

/// Why a recorder cannot start.
pub type Failure = Box<dyn std::error::Error>;

/// Opens the log. Waits for a recorder outside the server that recovers what a dead server left.
pub fn open_log(config: &Config) -> Result<(LogFiles, u64), OpenError> {
    let mut wait = LockWait::new(&config.log_directory, config.external);
    let Config { log_directory, signing_key_file, .. } = config;
    let names = SettingNames::of_server(&config.server);
    loop {
        let is_ending = config.ending.is_some_and(|it| it.load(Ordering::Relaxed) != 0);
        match opening::open(log_directory, signing_key_file, names, &error_log::write) {
            Err(error) if error.locked_by().is_some() && !is_ending && wait.continues(&error) => {
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => return opened,
        }
    }
}

/// The absolute path of a directory.
pub fn canonical(directory: &Path) -> Result<PathBuf, Failure> {
    std::fs::canonicalize(directory).map_err(|e| format!("{}: {e}", directory.display()).into())
}

/// Writes what dead servers left in their arenas. A failure is reported, and recording starts.
pub fn recover(writer: Writer<RealFs>, config: &Config, log_directory: &Path) -> Writer<RealFs> {
    let (writer, recovered) = recover::recover_all(writer, &config.arena_directory, log_directory);
    match recovered {
        Ok(_) => {}
        Err(error @ RecoverError::NotWritten(_)) => {
            error_log::write(Severity::Warning, &format!("{error} until it can"));
        }
        Err(error) => {
            let text = format!("{error}. `tacho recover` can be run later");
            error_log::write(Severity::Error, &text);
        }
    }
    writer
}

/// Creates the arena and adds it to the list of arenas in the log directory.
pub fn create_arena(
    config: &Config,
    log_directory: &Path,
    names: SettingNames,
) -> Result<ArenaFile, Failure> {
    let Config { arena_directory, arena_bytes, server, .. } = config;
    let arena_file = ArenaFile::create(arena_directory, *arena_bytes, log_directory, server)?;
    // Before the first record: the next start may have another arena directory.
    if let Err(error) = arena_list::add(log_directory, arena_file.path()) {
        let text = format!(
            "{} cannot be written: {error}. If {} is changed after a crash, what the crash has left \
             will not be found",
            log_directory.join(arena_list::NAME).display(),
            names.name(Setting::ArenaDirectory)
        );
        error_log::write(Severity::Warning, &text);
    }
    Ok(arena_file)
}
