//! Messages to the server's error log.
//!
//! The server's standard error is its error log. Each message is one write(2) of one whole line in
//! the server's format, so that lines of several threads do not mix. Times come from the server's
//! own zone handling in glibc: this is the cold zone, and rare.

use std::io::Write;
use tacho_recorder::control::Severity;

/// Writes one message, as `2026-11-21 12:34:56 0 [Note] tacho: …`.
pub fn write(severity: Severity, text: &str) {
    let mut now: libc::time_t = 0;
    // SAFETY: all-zero bytes are a valid tm.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the calls.
    unsafe {
        libc::time(&mut now);
        libc::localtime_r(&now, &mut local);
    }
    let name = match severity {
        Severity::Note => "Note",
        Severity::Warning => "Warning",
        Severity::Error => "ERROR",
    };
    let line = format!(
        "{:04}-{:02}-{:02} {:2}:{:02}:{:02} 0 [{name}] tacho: {}\n",
        local.tm_year + 1900,
        local.tm_mon + 1,
        local.tm_mday,
        local.tm_hour,
        local.tm_min,
        local.tm_sec,
        // One line per message, whatever a path or an error text contains.
        text.replace(['\n', '\r'], " ")
    );
    // There is no other place to report a failure of the error log.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}
