//! What a crash has left in an arena goes to the log, each record once.
//!
//! The last complete line in the file says which records were written: those whose stored
//! `seq` is not beyond it. All others are read in the order of their connections, joined as
//! ever, and what was still running becomes `interrupted`. Being killed in the middle of
//! this is nothing special: the next recovery starts from the file again.

use std::path::Path;
use std::sync::atomic::Ordering;

use tacho_ring::codec::RecordKind;
use tacho_ring::layout::FRAGMENT_WHOLE;
use tacho_ring::sys;

use crate::arena_file::{self, ArenaError, ArenaFile};
use crate::control::Severity;
use crate::drain::{Drain, Head, Ref};
use crate::join::{Ending, Open};
use crate::writer::Writer;

/// What was recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Arenas that were read and removed.
    pub arenas: u64,
    /// Lines written.
    pub lines: u64,
}

/// Why recovery stopped.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// An arena cannot be read.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The log cannot be written; the arena stays.
    #[error("the log cannot be written at the moment; the arena {0} is kept")]
    NotWritten(std::path::PathBuf),
    /// The arena is empty now but cannot be removed.
    #[error("removing the arena: {0}")]
    Remove(std::io::Error),
}

/// Recovers every dead arena of a log directory (canonical path). Living ones are left
/// alone.
pub fn recover_all(
    mut writer: Writer,
    arena_directory: &Path,
    log_directory: &Path,
) -> (Writer, Result<Recovered, RecoverError>) {
    let mut total = Recovered::default();
    let infos = match arena_file::list(arena_directory, Some(log_directory)) {
        Ok(infos) => infos,
        Err(error) => return (writer, Err(error.into())),
    };
    for info in infos {
        let dead = match ArenaFile::open_dead(&info.path) {
            Ok(dead) => dead,
            Err(ArenaError::InUse { .. } | ArenaError::Foreign { .. }) => continue,
            Err(error) => return (writer, Err(error.into())),
        };
        let (same, lines) = recover_arena(writer, dead);
        writer = same;
        let lines = match lines {
            Ok(lines) => lines,
            Err(error) => return (writer, Err(error)),
        };
        total.arenas += 1;
        total.lines += lines;
        let text = format!(
            "recovered {lines} lines that a server (process {}) had not written when it died",
            info.owner_pid
        );
        writer.say(Severity::Note, &text);
    }
    (writer, Ok(total))
}

/// Recovers one dead arena of the writer's log directory and removes it. Returns the number of
/// lines written. The writer must be given another arena before it does anything else but
/// close: this one is gone.
///
/// The marks in the arena are numbers of lines in the log that its server wrote. In another log
/// they mean nothing, and records would be taken for written.
pub fn recover_arena(writer: Writer, dead: ArenaFile) -> (Writer, Result<u64, RecoverError>) {
    let before = writer.last_seq();
    let mut writer = writer.with_arena(dead.arena());
    if !recover_one(&mut writer) {
        let path = dead.path().to_owned();
        return (writer, Err(RecoverError::NotWritten(path)));
    }
    let lines = writer.last_seq() - before;
    let removed = dead.remove().map_err(RecoverError::Remove);
    (writer, removed.map(|()| lines))
}

fn recover_one(writer: &mut Writer) -> bool {
    let last_seq = writer.last_seq();
    let (drain, join, ready) = writer.parts();
    let mut found: Vec<(Head, Ref)> = Vec::new();
    drain.pass(|head, at| found.push((head, at)));
    // First of all, marks of lines that never reached the file are taken back: the numbers
    // will be given to other lines now.
    for (head, at) in &mut found {
        if head.line_seq > last_seq {
            head.line_seq = 0;
            drain.settle_back(*at);
        }
    }
    restore_running(drain, last_seq, |conn, open| join.restore(conn, open));
    found.retain(|(head, _)| head.line_seq == 0);
    // Records without a number stay in the order in which they were found.
    found.sort_by_key(|(head, _)| (head.conn, head.rec_no, head.fragment_number));
    join.begin_pass();
    for (head, at) in found {
        join.add_sorted(head, at, ready);
    }
    let now_us = sys::now_us();
    join.finish(now_us, Ending::Unknown, ready);
    writer.enqueue();
    writer.tell_losses(now_us);
    writer.flush()
}

/// Statements that have a `running` line but no completion in the file.
fn restore_running(drain: &Drain, last_seq: u64, mut restore: impl FnMut(u64, Open)) {
    for entry in drain.arena().running() {
        // SYNC running: Acquire pairs with the Release of the writer that filled it.
        let seq = entry.running_seq.load(Ordering::Acquire);
        let done_seq = entry.done_seq.load(Ordering::Relaxed);
        if seq == 0 || seq > last_seq || (done_seq != 0 && done_seq <= last_seq) {
            continue;
        }
        let head = Head {
            kind: RecordKind::Start,
            fragment: FRAGMENT_WHOLE,
            fragment_number: 0,
            line_seq: seq,
            conn: entry.conn.load(Ordering::Relaxed),
            rec_no: 0,
            ts_us: entry.ts_us.load(Ordering::Relaxed),
            query_id: entry.query_id.load(Ordering::Relaxed),
            text_id: entry.text_id.load(Ordering::Relaxed),
            conn_seq: entry.conn_seq.load(Ordering::Relaxed),
            text_bytes: entry.text_bytes.load(Ordering::Relaxed) as u32,
            errno: 0,
            present: 0,
            shown_bytes: 0,
        };
        restore(head.conn, Open::from_running(&head, seq));
    }
}
