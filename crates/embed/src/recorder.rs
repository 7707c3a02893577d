//! One recorder: an arena, a log directory and a writer thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;

use tacho_filter::compile::Server;
use tacho_probe::Probe;
use tacho_record::EventKind;
use tacho_recorder::arena_file::ArenaFile;
use tacho_recorder::control::{ConfigChange, Control, Log, Severity, Status, Who};
use tacho_recorder::writer::Writer;
use tacho_ring::arena::Arena;
use tacho_ring::layout::{NAME_COUNT, NameEntry, Settings as ArenaSettings};
use tacho_ring::producer::Futex;
use tacho_ring::sys;
use tacho_settings::{Owner, Setting, SettingNames};

use crate::config;
use crate::encryption::{self, Mode};
use crate::faults::{Fault, Faults};
use crate::filter::Filters;
use crate::opening::{self, Failure};
use crate::outside::Outside;
use crate::rewrite::{self, List, Rewriting};
use crate::supervisor::Supervisor;
use crate::{EmbedStatus, StatusText, error_log, exposure};

/// Configuration of a recorder.
pub struct Config {
    /// Directory of the log files.
    pub log_directory: PathBuf,
    /// Directory of the arena.
    pub arena_directory: PathBuf,
    /// Path of the signing key; empty: the log is not sealed.
    pub signing_key_file: PathBuf,
    /// Server and version.
    pub server: String,
    /// Size of the arena.
    pub arena_bytes: u64,
    /// Not 0 when the server shuts down.
    pub ending: Option<&'static AtomicU8>,
    /// Whether the adapter sends the tables of statements.
    pub tables: bool,
    /// Whether the adapter knows the program name of a connection.
    pub program: bool,
    /// Whether a recorder outside the server should write.
    pub external: bool,
    /// Whether the server can block a statement.
    pub blocks: bool,
    /// Whether the records have times in the past: see [`Writer::set_replay`].
    pub replay: bool,
}

/// A recorder, see the module documentation.
pub struct Recorder {
    probe: Probe,
    arena_file: Option<ArenaFile>,
    arena_path: String,
    control: Arc<Control>,
    status: Arc<Status>,
    /// Set by the writer when everything is written.
    drained: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    outside: Arc<Outside>,
    filters: Filters,
    rewriting: Rewriting,
    faults: Faults,
    tables: bool,
    program: bool,
    blocks: bool,
}

/// Distinguishes the arenas of this process.
static INSTANCES: AtomicU64 = AtomicU64::new(0);

fn log() -> Log {
    Box::new(error_log::write)
}

/// Whether the setting is one of the arena's.
fn set_in_arena(settings: &ArenaSettings, setting: Setting, value: u64) -> bool {
    let word = match setting {
        Setting::Logging => &settings.logging,
        Setting::Overflow => &settings.overflow,
        Setting::Redact => &settings.redact,
        Setting::Durability => &settings.durability,
        Setting::OverflowTimeoutMs => {
            settings.overflow_timeout_us.store(value * 1_000, Ordering::Relaxed);
            return true;
        }
        _ => return false,
    };
    word.store(value as u32, Ordering::Relaxed);
    true
}

impl Recorder {
    /// Recovers what a crash left, creates the arena, starts the writer.
    pub fn start(config: &Config) -> Result<Recorder, Failure> {
        let (files, last_seq) = opening::open_log(config)?;
        let log_directory = opening::canonical(&config.log_directory)?;
        let control = Arc::new(Control::default());
        let names = SettingNames::of_server(&config.server);
        control.set_names(names);
        let status = Arc::new(Status::default());
        let (control_too, status_too) = (control.clone(), status.clone());
        // Before any new line, and before the new arena, because there may not be space for both:
        // what the last server did not write.
        let nothing = ArenaFile::placeholder()?;
        let writer = Writer::new(nothing.arena(), files, last_seq, control_too, status_too, log());
        let writer = opening::recover(writer, config, &log_directory);
        // The recovered arenas no longer use memory.
        let writer = writer.with_arena(nothing.arena());
        let arena_file = opening::create_arena(config, &log_directory, names)?;
        exposure::warn(&log_directory);
        let arena = arena_file.arena();
        let mut writer = writer.with_arena(arena_file.new_source());
        drop(nothing);
        if config.replay {
            writer.set_replay();
        }
        writer.note(EventKind::Start, &config.server);
        // In the file before the first statement: if this recording must be recovered, its records
        // then follow their own `start`. If it cannot be written, the writer continues.
        writer.round();
        let drained = Arc::new(AtomicBool::new(false));
        let outside = Arc::new(Outside::new()?);
        let supervisor = Supervisor {
            control: control.clone(),
            status: status.clone(),
            drained: drained.clone(),
            ending: config.ending,
            arena,
            arena_path: arena_file.path().to_owned(),
            arena_directory: config.arena_directory.clone(),
            log_directory: log_directory.clone(),
            signing_key_file: config.signing_key_file.clone(),
            outside: outside.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("tacho-writer".to_owned())
            .spawn(move || supervisor.guarded(writer))?;
        let arena_path = arena_file.path().display().to_string();
        let instance = INSTANCES.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Recorder {
            // The time distinguishes it from instances of an earlier load of this library.
            probe: Probe::keyed(
                arena,
                sys::now_us() as u64 ^ (instance << 56),
                rewrite::random_key(),
            ),
            arena_file: Some(arena_file),
            arena_path,
            control,
            status,
            drained,
            thread: Some(thread),
            outside,
            filters: Filters::default(),
            rewriting: Rewriting::new(&log_directory),
            faults: Faults::default(),
            tables: config.tables,
            program: config.program,
            blocks: config.blocks,
        })
    }

    /// The arena.
    pub fn arena(&self) -> &Arena {
        &self.probe.arena
    }

    /// The argument of the probe functions.
    pub fn probe(&self) -> &Probe {
        &self.probe
    }

    fn ring(&self) {
        self.arena().shared().wakeup.0.call(&Futex);
        self.outside.wake();
    }

    /// Changes a setting that the recorder owns.
    pub fn set(&self, setting: Setting, value: u64) {
        let shared = self.arena().shared();
        let has_writer = !self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        match setting.spec().owner {
            // Without a writer, a blocked session would wait for ever.
            Owner::Arena if setting == Setting::Overflow && !has_writer => {}
            Owner::Arena => {
                set_in_arena(&shared.settings.0, setting, value);
            }
            Owner::Server => self.outside.want(value != 0),
            Owner::Writer => self.control.set(setting, value),
            Owner::Adapter => {}
        }
        // Sessions that wait for a chunk check the policy again, and the writer the interval.
        shared.backpressure.0.open(&Futex);
        self.ring();
    }

    /// Records a change of a setting in the arena, which outlives the server. The caller may hold
    /// locks of the server, so this does not wait: if the arena is full, the change is kept in this
    /// process until the writer takes it.
    pub fn note_config(&self, change: ConfigChange) {
        if !config::record(&self.probe, &change) {
            let changes = &self.control.config_changes;
            changes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(change);
        }
        self.ring();
    }

    /// Puts the error of a part that the recorder can run without into SHOW STATUS and the log. An
    /// empty `text` clears it.
    pub fn report_fault(&self, who: Who, fault: Fault, text: &str) {
        if let Some(before) = self.faults.set(fault, text) {
            self.note_config(ConfigChange {
                who,
                number: 0,
                variable: fault.name().as_bytes().to_vec(),
                old_value: before.into_bytes(),
                new_value: text.as_bytes().to_vec(),
            });
        }
    }

    /// What a filter can use on this server.
    fn server(&self) -> Server {
        let name = |number| {
            let NameEntry(entry) = self.arena().name(number).unwrap_or(NameEntry([0; 32]));
            let name = entry.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        };
        Server {
            sql_commands: (0..NAME_COUNT).map(name).collect(),
            setting_prefix: self.control.names().prefix(),
            tables: self.tables,
            program: self.program,
            blocks: self.blocks,
        }
    }

    /// Checks a filter on behalf of `who`, and takes it into use if it is to be `applied`. The log
    /// calls it `variable`.
    ///
    /// # Errors
    /// Where it is wrong, and why.
    pub fn filter(
        &self,
        who: Who,
        variable: &[u8],
        text: &str,
        applied: bool,
    ) -> Result<(), String> {
        let server = self.server();
        if !applied {
            return Filters::check(text, &server).map(|_| ());
        }
        let before = self.filters.set(text, &server, &self.probe, &self.control)?;
        self.report_fault(who.clone(), Fault::Filter, "");
        if before != text {
            if let Some(warning) = Filters::warning(text, &server) {
                error_log::write(Severity::Warning, &warning);
            }
            self.note_config(ConfigChange {
                who,
                number: 0,
                variable: variable.to_vec(),
                old_value: before.into_bytes(),
                new_value: text.as_bytes().to_vec(),
            });
        }
        // Even without a change for the log: a recorder outside waits for each filter.
        self.ring();
        Ok(())
    }

    /// Takes rewrite rules into use, on behalf of `who`. Returns their number.
    ///
    /// # Errors
    /// They cannot be stored for the next start, or are too many. The previous ones stay in force.
    pub fn rewrite(&self, who: Who, list: List) -> Result<u64, String> {
        let left_out = list.left_out();
        let (count, change) = self.rewriting.apply(who.clone(), list, &self.probe)?;
        self.report_fault(who, Fault::Rewrite, "");
        left_out.for_each(|line| error_log::write(Severity::Warning, &line));
        if let Some(change) = change {
            self.note_config(change);
        }
        Ok(count)
    }

    /// The rewrite rules.
    pub fn rewriting(&self) -> &Rewriting {
        &self.rewriting
    }

    /// Takes the rewrite rules into use that were last in force. Returns their number.
    pub fn restore_rewrite(&self) -> u64 {
        let restored = self.rewriting.kept().and_then(|kept| match kept {
            Some(list) => self.rewrite(Who::default(), list),
            None => Ok(0),
        });
        restored.unwrap_or_else(|error| {
            let text = format!("no statement is rewritten: {error}");
            error_log::write(Severity::Error, &text);
            self.report_fault(Who::default(), Fault::Rewrite, &error);
            0
        })
    }

    /// Checks a file with the keys of the recipients of closed files, or takes it into use.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn encryption(&self, who: Who, path: &Path, mode: Mode) -> Result<(), String> {
        let change = match encryption::set(who.clone(), path, mode, &self.control) {
            Ok(change) => change,
            Err(why) => {
                if mode == Mode::Begin {
                    let name = self.control.names().name(Setting::EncryptionRecipientsFile);
                    self.report_fault(who, Fault::Encryption, &format!("{name}: {why}"));
                }
                return Err(why);
            }
        };
        if mode != Mode::Check {
            self.report_fault(who, Fault::Encryption, "");
        }
        if let Some(change) = change {
            self.note_config(change);
        }
        self.ring();
        Ok(())
    }

    /// Requests a new log file.
    pub fn rotate(&self) {
        self.control.rotate_now.store(true, Ordering::Relaxed);
        self.ring();
    }

    /// Removes all files beyond one of the two rate-limited limits, even if their number is
    /// suspicious.
    pub fn retain(&self, setting: Setting) {
        let wanted = match setting {
            Setting::RetentionDays => &self.control.retain_now,
            Setting::RetentionFiles => &self.control.retain_files_now,
            _ => return,
        };
        // SYNC retain: pairs with the Acquire of the writer: it acts on settings that were stored
        // before.
        wanted.store(true, Ordering::Release);
        self.ring();
    }

    /// Requests that finished statements are written now.
    pub fn flush(&self) {
        self.control.flush_now.store(true, Ordering::Relaxed);
        self.ring();
    }

    /// Figures for SHOW STATUS.
    pub fn status(&self) -> EmbedStatus {
        let counters = &self.arena().shared().counters.0;
        let status = &self.status;
        let sessions = self.arena().sessions();
        let timeout = counters.lost_timeout.load(Ordering::Relaxed);
        let dropped = counters.lost_dropped.load(Ordering::Relaxed);
        let corrupt = counters.lost_corrupt.load(Ordering::Relaxed);
        let killed = counters.lost_killed.load(Ordering::Relaxed);
        let files = status.log_files();
        EmbedStatus {
            records_written: status.records_written.load(Ordering::Relaxed),
            bytes_written: status.bytes_written.load(Ordering::Relaxed),
            records_filtered: self.probe.filter.filtered.load(Ordering::Relaxed)
                + status.records_filtered.load(Ordering::Relaxed),
            filter_rules: self.filters.rule_count(),
            statements_blocked: self.probe.filter.blocked.load(Ordering::Relaxed),
            statements_rewritten: rewrite::sum(&self.probe, |shard| &shard.rewritten),
            rewrite_rules: self.rewriting.rule_count(),
            rewrites_failed: rewrite::sum(&self.probe, |shard| &shard.failed),
            records_lost: timeout + dropped + corrupt + killed,
            records_lost_timeout: timeout,
            records_lost_dropped: dropped,
            records_lost_corrupt: corrupt,
            records_lost_killed: killed,
            blocked_count: counters.blocked_count.load(Ordering::Relaxed),
            blocked_time_us: counters.blocked_time_us.load(Ordering::Relaxed),
            arena_bytes_used: status.arena_bytes_used.load(Ordering::Relaxed),
            write_errors: status.write_errors.load(Ordering::Relaxed),
            sync_count: status.sync_count.load(Ordering::Relaxed),
            sync_time_us: status.sync_time_us.load(Ordering::Relaxed),
            sync_given_up: counters.sync_given_up.load(Ordering::Relaxed),
            files_removed: status.files_removed.load(Ordering::Relaxed),
            files_compressed: status.files_compressed.load(Ordering::Relaxed),
            disk_free_bytes: status.disk_free_bytes.load(Ordering::Relaxed),
            sessions: sessions.iter().filter(|it| it.conn.load(Ordering::Relaxed) != 0).count()
                as u64,
            sessions_max: sessions.len() as u64,
            files_encrypted: status.files_encrypted.load(Ordering::Relaxed),
            files: files.count,
            files_bytes: files.bytes,
            files_days: files.days,
            files_to_pack: files.to_pack,
            format_behind_bytes: status.format_behind_bytes.load(Ordering::Relaxed),
        }
    }

    /// A text for SHOW STATUS.
    pub fn text(&self, which: StatusText) -> String {
        let of = |text: &std::sync::Mutex<String>| {
            text.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
        };
        match which {
            StatusText::LastError => of(&self.status.last_error),
            StatusText::CurrentFile => of(&self.status.current_file),
            StatusText::Arena => self.arena_path.clone(),
            StatusText::Writer => match self.outside.writer_pid() {
                None => "EMBEDDED".to_owned(),
                Some(pid) => format!("EXTERNAL {pid}"),
            },
            StatusText::OldestFile => self.status.log_files().oldest_file,
            StatusText::OldestTime => self.status.log_files().oldest_time,
            StatusText::CheckpointTime => self.status.log_files().checkpoint_time,
            StatusText::RotateDueTime => self.status.log_files().rotate_due_time,
            StatusText::FilterError => self.faults.text(Fault::Filter),
            StatusText::EncryptionError => self.faults.text(Fault::Encryption),
            StatusText::RewriteError => self.faults.text(Fault::Rewrite),
        }
    }

    /// Stops: writes everything, and keeps the arena if that does not succeed in time.
    pub fn stop(mut self, timeout_ms: u64) {
        self.arena().shared().settings.0.logging.store(0, Ordering::Relaxed);
        self.control.stop_timeout_ms.store(timeout_ms, Ordering::Relaxed);
        self.control.stop.store(true, Ordering::Relaxed);
        self.ring();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            error_log::write(Severity::Error, "the writer thread ended with a panic");
        }
        let Some(arena_file) = self.arena_file.take() else { return };
        if self.drained.load(Ordering::Relaxed) {
            if let Err(error) = arena_file.remove() {
                error_log::write(Severity::Warning, &error.to_string());
            }
        } else {
            let text = format!(
                "the audit log could not be completed; the missing records are in {} and will \
                 be written at the next start, or by `tacho recover`",
                self.arena_path
            );
            error_log::write(Severity::Error, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    fn arena_settings() -> ArenaSettings {
        ArenaSettings {
            logging: AtomicU32::new(0),
            overflow: AtomicU32::new(0),
            overflow_timeout_us: AtomicU64::new(0),
            session_epoch: AtomicU64::new(0),
            redact: AtomicU32::new(0),
            durability: AtomicU32::new(0),
            filter_version: AtomicU64::new(0),
        }
    }

    #[test]
    fn the_arena_has_what_it_owns() {
        for setting in Setting::ALL {
            let settings = arena_settings();
            let is_stored = set_in_arena(&settings, setting, 1);
            assert_eq!(is_stored, setting.spec().owner == Owner::Arena, "{setting:?}");
            let words = [
                u64::from(settings.logging.into_inner()),
                u64::from(settings.overflow.into_inner()),
                settings.overflow_timeout_us.into_inner(),
                u64::from(settings.redact.into_inner()),
                u64::from(settings.durability.into_inner()),
            ];
            assert_eq!(words.iter().filter(|word| **word != 0).count(), usize::from(is_stored));
        }
    }
}
