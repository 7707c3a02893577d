//! Zone: cold. The recorder inside a database server: C interface and writer thread.
//!
//! One staticlib brings all of Tachograph into an adapter: this crate, the recorder and the probe
//! (whose C functions it re-exports by linking it). Every function here runs under [`guard`]: no
//! panic reaches the server.
//!
//! The C side is `include/tacho_embed.h`.

mod config;
mod encryption;
mod error_log;
mod exposure;
mod faults;
mod filter;
#[cfg(test)]
mod header;
mod listener;
mod lock_wait;
mod opening;
mod outside;
mod priority;
mod recorder;
mod rewrite;
mod rewrite_calls;
mod silence;
mod supervisor;

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::AtomicU8;

pub use error_log::write as write_error_log;
pub use recorder::{Config, Recorder};
use tacho_probe::Probe;
use tacho_recorder::control::{ConfigChange, Severity, Who};
use tacho_settings::Setting;

// Only C++ calls the probe's functions; this keeps them in the library.
#[doc(hidden)]
pub use tacho_probe::{
    tacho_probe_block, tacho_probe_decide, tacho_probe_emit, tacho_probe_end_known,
    tacho_probe_forget, tacho_probe_has_block, tacho_probe_has_open, tacho_probe_identity_changed,
    tacho_probe_logging, tacho_probe_look, tacho_probe_may_block, tacho_probe_may_rewrite,
    tacho_probe_note_blocked, tacho_probe_rewrite, tacho_probe_session, tacho_probe_wanted,
};

/// See `tacho_embed_config`.
#[repr(C)]
pub struct EmbedConfig {
    log_directory: *const c_char,
    arena_directory: *const c_char,
    signing_key_file: *const c_char,
    server: *const c_char,
    arena_bytes: u64,
    ending: *const AtomicU8,
    tables: bool,
    program: bool,
    external: bool,
    blocks: bool,
}

/// See `tacho_embed_status`.
#[repr(C)]
#[derive(Default)]
pub struct EmbedStatus {
    /// Lines in the files.
    pub records_written: u64,
    /// Bytes in the files.
    pub bytes_written: u64,
    /// Records that the filter discarded.
    pub records_filtered: u64,
    /// Sum of the four causes.
    pub records_lost: u64,
    /// Lost after waiting too long.
    pub records_lost_timeout: u64,
    /// Lost because of the policy DROP.
    pub records_lost_dropped: u64,
    /// Lost because memory was damaged.
    pub records_lost_corrupt: u64,
    /// Given up because the session was killed.
    pub records_lost_killed: u64,
    /// How often a query thread had to wait.
    pub blocked_count: u64,
    /// How long query threads waited, µs.
    pub blocked_time_us: u64,
    /// Bytes of chunks in use.
    pub arena_bytes_used: u64,
    /// Attempts to write that failed.
    pub write_errors: u64,
    /// Rules of the filter.
    pub filter_rules: u64,
    /// How often the log was flushed to the device.
    pub sync_count: u64,
    /// Total time of these flushes, µs.
    pub sync_time_us: u64,
    /// Statements that began before their line was on the device, although SYNC was set.
    pub sync_given_up: u64,
    /// Closed files that retention has removed.
    pub files_removed: u64,
    /// Closed files that were compressed.
    pub files_compressed: u64,
    /// Free space for the log, bytes.
    pub disk_free_bytes: u64,
    /// Sessions that have a slot.
    pub sessions: u64,
    /// Slots for sessions.
    pub sessions_max: u64,
    /// Closed files that were encrypted.
    pub files_encrypted: u64,
    /// Log files.
    pub files: u64,
    /// Bytes of all of them on the disk.
    pub files_bytes: u64,
    /// Age of the oldest one, days.
    pub files_days: u64,
    /// Closed files that wait to be compressed or encrypted.
    pub files_to_pack: u64,
    /// Backlog of the other format, bytes of lines.
    pub format_behind_bytes: u64,
    /// Statements that a rule blocked.
    pub statements_blocked: u64,
    /// Statements that a rule has rewritten.
    pub statements_rewritten: u64,
    /// Rewrite rules.
    pub rewrite_rules: u64,
    /// A rule matched, but there was not enough memory for the new text.
    pub rewrites_failed: u64,
}

/// See `tacho_text`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum StatusText {
    /// The last error, with advice.
    LastError,
    /// The file that is being written.
    CurrentFile,
    /// The arena.
    Arena,
    /// The process that writes the log.
    Writer,
    /// The oldest log file.
    OldestFile,
    /// The time of its first line.
    OldestTime,
    /// When the seal was last signed.
    CheckpointTime,
    /// When a new file is begun because of its age.
    RotateDueTime,
    /// What is wrong with the filter.
    FilterError,
    /// Why closed files are not encrypted.
    EncryptionError,
    /// Why no statement is rewritten.
    RewriteError,
}

impl StatusText {
    const ALL: [StatusText; 11] = [
        StatusText::LastError,
        StatusText::CurrentFile,
        StatusText::Arena,
        StatusText::Writer,
        StatusText::OldestFile,
        StatusText::OldestTime,
        StatusText::CheckpointTime,
        StatusText::RotateDueTime,
        StatusText::FilterError,
        StatusText::EncryptionError,
        StatusText::RewriteError,
    ];

    fn from_number(number: i32) -> Option<StatusText> {
        StatusText::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// Runs `f`; a panic becomes `fallback` and a line in the error log.
fn guard<T>(fallback: T, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| {
        error_log::write(Severity::Error, "internal error (panic) in a control function");
        fallback
    })
}

/// # Safety
/// `text` is null or a terminated string that lives during the call.
unsafe fn string<'a>(text: *const c_char) -> &'a CStr {
    if text.is_null() {
        return c"";
    }
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(text) }
}

/// # Safety
/// `to` is valid for `bytes` bytes.
unsafe fn copy_out(text: &str, to: *mut c_char, bytes: usize) {
    let mut n = text.len().min(bytes.saturating_sub(1));
    while !text.is_char_boundary(n) {
        n -= 1;
    }
    if bytes > 0 {
        // SAFETY: `n` is less than `bytes`.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast::<c_char>(), to, n);
            to.add(n).write(0);
        }
    }
}

/// See `include/tacho_embed.h`.
///
/// # Safety
/// `config` is valid; `error` is valid for `error_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_embed_start(
    config: &EmbedConfig,
    error: *mut c_char,
    error_bytes: usize,
) -> Option<Box<Recorder>> {
    use std::os::unix::ffi::OsStrExt;
    guard(None, || {
        // SAFETY: the strings of the configuration are valid, as promised.
        let path =
            |text| unsafe { PathBuf::from(std::ffi::OsStr::from_bytes(string(text).to_bytes())) };
        let config = Config {
            log_directory: path(config.log_directory),
            arena_directory: path(config.arena_directory),
            signing_key_file: path(config.signing_key_file),
            // SAFETY: as above.
            server: unsafe { string(config.server) }.to_string_lossy().into_owned(),
            arena_bytes: config.arena_bytes,
            // SAFETY: null, or a variable of the server, which lives as long as the process.
            ending: unsafe { config.ending.as_ref() },
            tables: config.tables,
            program: config.program,
            external: config.external,
            blocks: config.blocks,
            replay: false,
        };
        match Recorder::start(&config) {
            Ok(recorder) => Some(Box::new(recorder)),
            Err(cause) => {
                // SAFETY: promised by the caller.
                unsafe { copy_out(&cause.to_string(), error, error_bytes) };
                None
            }
        }
    })
}

/// See `include/tacho_embed.h`.
///
/// # Safety
/// All pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_embed_set_name(
    recorder: &Recorder,
    number: u32,
    name: *const c_char,
) {
    // SAFETY: promised by the caller.
    let name = unsafe { string(name) };
    guard((), || recorder.arena().set_name(number as usize, name.to_bytes()));
}

/// See `include/tacho_embed.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tacho_embed_probe(recorder: &Recorder) -> &Probe {
    recorder.probe()
}

/// See `include/tacho_embed.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tacho_embed_set(recorder: &Recorder, setting: i32, value: u64) {
    if let Some(setting) = Setting::from_number(setting) {
        guard((), || recorder.set(setting, value));
    }
}

/// See `include/tacho_embed.h`.
///
/// # Safety
/// All pointers are valid; those in `who`, and `who` itself, may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_embed_note_config(
    recorder: &Recorder,
    who: *const WhoStrings,
    variable: *const c_char,
    old_value: *const c_char,
    new_value: *const c_char,
) {
    // SAFETY: promised by the caller.
    let [variable, old_value, new_value] =
        [variable, old_value, new_value].map(|text| unsafe { string(text) }.to_bytes().to_vec());
    // SAFETY: promised by the caller.
    let who = unsafe { who_of(who) };
    guard((), || {
        recorder.note_config(ConfigChange { who, number: 0, variable, old_value, new_value })
    });
}

/// See `tacho_who`.
#[repr(C)]
#[derive(Debug)]
pub struct WhoStrings {
    conn: u64,
    user: *const c_char,
    priv_user: *const c_char,
    host: *const c_char,
    ip: *const c_char,
}

/// # Safety
/// `who` is null or valid, and so are its strings.
unsafe fn who_of(who: *const WhoStrings) -> Who {
    // SAFETY: promised by the caller.
    let Some(who) = (unsafe { who.as_ref() }) else { return Who::default() };
    let copy = |text: *const c_char| {
        // SAFETY: promised by the caller.
        if text.is_null() { Vec::new() } else { unsafe { string(text) }.to_bytes().to_vec() }
    };
    Who {
        conn: who.conn,
        user: copy(who.user),
        priv_user: copy(who.priv_user),
        host: copy(who.host),
        ip: copy(who.ip),
    }
}

/// Returns whether an operation succeeded; otherwise its cause is in `error`.
///
/// # Safety
/// `error` is valid for `error_bytes` bytes.
unsafe fn answer(result: Result<(), String>, error: *mut c_char, error_bytes: usize) -> bool {
    if let Err(cause) = &result {
        // SAFETY: promised by the caller.
        unsafe { copy_out(cause, error, error_bytes) };
    }
    result.is_ok()
}

/// See `include/tacho_embed.h`.
///
/// # Safety
/// `text` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_embed_fault(recorder: &Recorder, fault: i32, text: *const c_char) {
    // SAFETY: promised by the caller.
    let text = unsafe { string(text) }.to_string_lossy();
    guard((), || {
        if let Some(fault) = faults::Fault::of(fault) {
            recorder.report_fault(Who::default(), fault, &text);
        }
    });
}

/// See `tacho_filter_flag`.
const FILTER_IS_FILE: u32 = 1;
const FILTER_APPLIES: u32 = 2;

/// See `include/tacho_embed.h`.
///
/// # Safety
/// `variable` and `text` are terminated strings; `error` is valid for `error_bytes` bytes; `who` as
/// in [`tacho_embed_note_config`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_embed_filter(
    recorder: &Recorder,
    who: *const WhoStrings,
    variable: *const c_char,
    text: *const c_char,
    flags: u32,
    error: *mut c_char,
    error_bytes: usize,
) -> bool {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: promised by the caller.
    let text = unsafe { string(text) }.to_bytes();
    // SAFETY: promised by the caller.
    let who = unsafe { who_of(who) };
    // SAFETY: promised by the caller.
    let variable = unsafe { string(variable) }.to_bytes();
    let applied = flags & FILTER_APPLIES != 0;
    let result = guard(Err("internal error".to_owned()), || {
        let text = if flags & FILTER_IS_FILE != 0 {
            filter::read_file(std::ffi::OsStr::from_bytes(text).as_ref())?
        } else {
            String::from_utf8(text.to_vec()).map_err(|_| "the filter is not UTF-8".to_owned())?
        };
        recorder.filter(who, variable, &text, applied)
    });
    // SAFETY: promised by the caller.
    unsafe { answer(result, error, error_bytes) }
}

/// See `include/tacho_embed.h`.
///
/// # Safety
/// `path` is a terminated string; `error` is valid for `error_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_embed_encryption(
    recorder: &Recorder,
    who: *const WhoStrings,
    path: *const c_char,
    mode: u32,
    error: *mut c_char,
    error_bytes: usize,
) -> bool {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: promised by the caller.
    let (path, who) = unsafe { (string(path).to_bytes(), who_of(who)) };
    let path = std::ffi::OsStr::from_bytes(path);
    let result = guard(Err("internal error".to_owned()), || {
        recorder.encryption(who, path.as_ref(), encryption::Mode::of(mode))
    });
    // SAFETY: promised by the caller.
    unsafe { answer(result, error, error_bytes) }
}

/// See `include/tacho_embed.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tacho_embed_rotate(recorder: &Recorder) {
    guard((), || recorder.rotate());
}

/// See `include/tacho_embed.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tacho_embed_retain(recorder: &Recorder, setting: i32) {
    if let Some(setting) = Setting::from_number(setting) {
        guard((), || recorder.retain(setting));
    }
}

/// See `include/tacho_embed.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tacho_embed_flush(recorder: &Recorder) {
    guard((), || recorder.flush());
}

/// See `include/tacho_embed.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tacho_embed_read_status(recorder: &Recorder, status: &mut EmbedStatus) {
    guard((), || *status = recorder.status());
}

/// See `include/tacho_embed.h`.
///
/// # Safety
/// `text` is valid for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_embed_read_text(
    recorder: &Recorder,
    which: i32,
    text: *mut c_char,
    bytes: usize,
) {
    let value = guard(String::new(), || {
        StatusText::from_number(which).map(|which| recorder.text(which)).unwrap_or_default()
    });
    // SAFETY: promised by the caller.
    unsafe { copy_out(&value, text, bytes) };
}

/// See `include/tacho_embed.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tacho_embed_stop(recorder: Option<Box<Recorder>>, timeout_ms: u64) {
    if let Some(recorder) = recorder {
        guard((), || recorder.stop(timeout_ms));
    }
}

/// See `tacho_severity`.
fn severity_of(number: i32) -> Severity {
    match number {
        0 => Severity::Note,
        1 => Severity::Warning,
        _ => Severity::Error,
    }
}

/// See `include/tacho_embed.h`.
///
/// # Safety
/// `text` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tacho_embed_log(severity: i32, text: *const c_char) {
    // SAFETY: promised by the caller.
    let text = unsafe { string(text) }.to_string_lossy();
    let severity = severity_of(severity);
    guard((), || error_log::write(severity, &text));
}
