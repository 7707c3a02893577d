//! Displays one arena, as text or JSON.

use std::io;

use serde::Serialize;
use tacho_recorder::arena_file::ArenaFile;
use tacho_ring::layout::{OVERFLOW_BLOCK, OVERFLOW_DROP, OVERFLOW_LET_GO, OVERFLOW_TIMEOUT};
use tacho_ring::sync::Ordering;
use tacho_ring::sys;

use crate::say::{self, age, counted, grouped};

/// The properties of an arena.
#[derive(Serialize)]
pub struct Picture {
    file: String,
    log_directory: String,
    server: String,
    owner_pid: u32,
    alive: bool,
    created_ts: String,
    /// Size of the file.
    pub arena_bytes: u64,
    chunk_bytes: u32,
    chunk_count: u32,
    chunks_free: u32,
    /// Chunks that are in use.
    pub used_percent: u32,
    /// Whether `tacho_logging` is on.
    pub logging: bool,
    /// Name of the overflow policy.
    pub overflow: String,
    overflow_timeout_ms: u64,
    /// Time since the writer last looked; `None`: it has not run yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_age_ms: Option<i64>,
    /// Number of the last line that is in the file.
    pub written_seq: u64,
    /// Sessions that wait for space.
    pub waiters: u32,
    blocked_count: u64,
    blocked_time_us: u64,
    lost_timeout: u64,
    lost_dropped: u64,
    lost_corrupt: u64,
    lost_killed: u64,
    sessions_untracked: u64,
}

impl Picture {
    /// Records lost since the arena was created.
    pub fn lost(&self) -> u64 {
        [self.lost_timeout, self.lost_dropped, self.lost_corrupt, self.lost_killed]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

/// The name of an overflow policy.
pub fn policy_name(policy: u32) -> String {
    match policy {
        OVERFLOW_BLOCK => "BLOCK".to_owned(),
        OVERFLOW_TIMEOUT => "TIMEOUT".to_owned(),
        OVERFLOW_DROP => "DROP".to_owned(),
        OVERFLOW_LET_GO => "DROP (the writer has ended, or could not write at shutdown)".to_owned(),
        other => format!("unknown ({other})"),
    }
}

/// Prints an arena to stdout.
///
/// # Errors
/// Stdout cannot be written.
pub fn show(file: &ArenaFile, json: bool) -> io::Result<()> {
    let picture = look(file);
    if json {
        return say::json(&picture);
    }
    for line in describe(&picture) {
        say::result(&line)?;
    }
    Ok(())
}

/// Reads the properties of an arena.
pub fn look(file: &ArenaFile) -> Picture {
    let info = file.info();
    let arena = file.arena();
    let geometry = arena.geometry();
    let shared = arena.shared();
    let (settings, counters, writer) = (&shared.settings.0, &shared.counters.0, &shared.writer.0);
    let (count, free) = (geometry.chunk_count, arena.free_count());
    let heartbeat_us = writer.heartbeat_us.load(Ordering::Relaxed);
    Picture {
        file: info.path.display().to_string(),
        log_directory: info.log_directory.display().to_string(),
        server: info.server,
        owner_pid: info.owner_pid,
        alive: info.owned,
        created_ts: say::time(&mut say::clock(), arena.header().created_us),
        arena_bytes: geometry.arena_bytes,
        chunk_bytes: geometry.chunk_bytes,
        chunk_count: count,
        chunks_free: free,
        // Rounded up: 0 is empty.
        used_percent: ((count - free) * 100).div_ceil(count.max(1)),
        logging: settings.logging.load(Ordering::Relaxed) != 0,
        overflow: policy_name(settings.overflow.load(Ordering::Relaxed)),
        overflow_timeout_ms: settings.overflow_timeout_us.load(Ordering::Relaxed) / 1_000,
        heartbeat_age_ms: (heartbeat_us != 0)
            .then(|| sys::now_us().saturating_sub(heartbeat_us) / 1_000),
        written_seq: writer.written_seq.load(Ordering::Relaxed),
        waiters: shared.backpressure.0.waiters.load(Ordering::Relaxed),
        blocked_count: counters.blocked_count.load(Ordering::Relaxed),
        blocked_time_us: counters.blocked_time_us.load(Ordering::Relaxed),
        lost_timeout: counters.lost_timeout.load(Ordering::Relaxed),
        lost_dropped: counters.lost_dropped.load(Ordering::Relaxed),
        lost_corrupt: counters.lost_corrupt.load(Ordering::Relaxed),
        lost_killed: counters.lost_killed.load(Ordering::Relaxed),
        sessions_untracked: counters.sessions_untracked.load(Ordering::Relaxed),
    }
}

fn describe(picture: &Picture) -> Vec<String> {
    let p = picture;
    let life = if p.alive { "running" } else { "ended" };
    let mut lines = vec![
        p.file.clone(),
        format!("  server    {}, process {}, {life}", p.server, p.owner_pid),
        format!("  log       {}", p.log_directory),
        format!("  made      {}", p.created_ts),
        format!(
            "  size      {} bytes in {} of {} bytes; {} free, {} % used",
            grouped(p.arena_bytes),
            counted(p.chunk_count.into(), "chunk"),
            grouped(p.chunk_bytes.into()),
            grouped(p.chunks_free.into()),
            p.used_percent
        ),
        format!(
            "  settings  logging {}, overflow {}{}",
            if p.logging { "ON" } else { "OFF" },
            p.overflow,
            match p.overflow.as_str() {
                "TIMEOUT" => format!(" after {} ms", grouped(p.overflow_timeout_ms)),
                _ => String::new(),
            }
        ),
        format!(
            "  writer    {}; lines up to seq {} are in the log",
            match p.heartbeat_age_ms {
                None => "has not run yet".to_owned(),
                Some(age_ms) => format!("active {} ago", age(age_ms)),
            },
            p.written_seq
        ),
        format!(
            "  waiting   {} now; {} so far, finished ones took {}",
            counted(p.waiters.into(), "session"),
            counted(p.blocked_count, "wait"),
            age(i64::try_from(p.blocked_time_us / 1_000).unwrap_or(i64::MAX))
        ),
        format!(
            "  lost      {} by timeout, {} dropped, {} corrupt, {} killed",
            counted(p.lost_timeout, "record"),
            grouped(p.lost_dropped),
            grouped(p.lost_corrupt),
            grouped(p.lost_killed)
        ),
    ];
    if p.sessions_untracked > 0 {
        let events = counted(p.sessions_untracked, "event");
        lines.push(format!("  untracked {events} of connections without a session slot"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_policies_have_a_name_too() {
        assert_eq!(policy_name(OVERFLOW_BLOCK), "BLOCK");
        assert_eq!(policy_name(77), "unknown (77)");
    }
}
