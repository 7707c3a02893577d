//! The thread that writes the log of the server being served.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tacho_ring::sys;

use crate::arena_list;
use crate::control::{Control, Log, Severity, Status};
use crate::writer::Writer;

/// How long to wait, before the log is released, for a text that is only in memory, µs; only if the
/// server is alive.
const RELEASE_TIMEOUT_US: i64 = 10_000_000;

/// How the writer's thread ends.
pub(super) enum Written {
    Released,
    Stopped { is_drained: bool },
}

/// Writes until the log must be released, or the server stops recording.
pub(super) fn write(
    mut writer: Writer,
    control: &Control,
    status: &Status,
    is_alive: &AtomicBool,
    arena: &Path,
    log_directory: &Path,
    say: &Log,
) -> Written {
    let is_over =
        || control.stop.load(Ordering::Relaxed) || control.release.load(Ordering::Relaxed);
    while !is_over() {
        let started_us = sys::monotonic_us();
        writer.round();
        status.is_failing.store(writer.is_failing(), Ordering::Relaxed);
        writer.sleep(started_us, u64::MAX);
    }
    let since_us = sys::monotonic_us();
    let mut written = Written::Released;
    if control.release.load(Ordering::Relaxed) {
        if !is_alive.load(Ordering::Relaxed) {
            writer.announce_recovery();
        }
        // If the server is dead, its unwritten records are in its arena, and the next server waits
        // for the log.
        while !writer.may_release()
            && is_alive.load(Ordering::Relaxed)
            && sys::monotonic_us() - since_us < RELEASE_TIMEOUT_US
        {
            writer.round();
            // The writer waits for the producer of a text, which is running.
            std::thread::sleep(Duration::from_millis(5));
        }
    } else {
        let is_drained = finish(&mut writer, control, since_us);
        written = Written::Stopped { is_drained };
        // Under the lock of the log, and before the server removes the arena.
        if is_drained && let Err(error) = arena_list::forget(log_directory, arena) {
            let list = log_directory.join(arena_list::NAME);
            say(Severity::Warning, &format!("{}: {error}", list.display()));
        }
    }
    if let Err(error) = writer.hand_over() {
        say(Severity::Error, &format!("closing the audit log: {error}"));
    }
    written
}

/// Writes everything and the `stop` line, until the server's timeout or death.
fn finish(writer: &mut Writer, control: &Control, since_us: i64) -> bool {
    loop {
        if writer.finish() {
            return true;
        }
        let timeout_us = control.stop_timeout_ms.load(Ordering::Relaxed) as i64 * 1_000;
        let is_over = sys::monotonic_us() - since_us > timeout_us;
        if is_over || control.release.load(Ordering::Relaxed) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
