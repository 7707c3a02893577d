//! What a crash has left in an arena goes to the log, each record once.
//!
//! The last complete line in the file says which records were written: those whose stored
//! `seq` is not beyond it. All others are read in the order of their connections, joined as
//! ever, and what was still running becomes `interrupted`. Being killed in the middle of
//! this is nothing special: the next recovery starts from the file again.

use std::path::Path;
use std::sync::atomic::Ordering;

use tacho_ring::arena::Arena;
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
    // One that cannot be opened is no reason to leave the others alone.
    let mut result = Ok(());
    let mut arenas = Vec::new();
    for info in infos {
        match ArenaFile::open_dead(&info.path) {
            Ok(dead) => arenas.push((dead, info.owner_pid)),
            Err(ArenaError::InUse { .. }) => {}
            Err(error) => result = Err(error.into()),
        }
    }
    // In all of them, before the first new line: its number may be one that another arena has
    // marked records with whose line never reached the file.
    let last_seq = writer.last_seq();
    for (dead, _) in &arenas {
        take_back(dead.arena(), last_seq);
    }
    for (dead, owner_pid) in arenas {
        let before = writer.last_seq();
        writer = writer.with_arena(dead.arena());
        if !recover_one(&mut writer) {
            let path = dead.path().to_owned();
            return (writer, Err(RecoverError::NotWritten(path)));
        }
        total.arenas += 1;
        total.lines += writer.last_seq() - before;
        let text = format!(
            "recovered {} lines that a server (process {owner_pid}) had not written when it died",
            writer.last_seq() - before,
        );
        writer.say(Severity::Note, &text);
        if let Err(error) = dead.remove() {
            return (writer, Err(RecoverError::Remove(error)));
        }
    }
    (writer, result.map(|()| total))
}

/// Takes back the marks of lines that never reached the file: their numbers will be given to
/// other lines now. What is marked after this is in the file, or will be before its number is.
fn take_back(arena: Arena, last_seq: u64) {
    let mut drain = Drain::new(arena);
    let mut back: Vec<Ref> = Vec::new();
    drain.pass(|head, at| {
        if head.line_seq > last_seq {
            back.push(at);
        }
    });
    for at in back {
        drain.settle_back(at);
    }
    for entry in arena.running() {
        if entry.done_seq.load(Ordering::Relaxed) > last_seq {
            entry.done_seq.store(0, Ordering::Relaxed);
        }
        // SYNC running: Acquire pairs with the Release of the writer that filled it.
        if entry.running_seq.load(Ordering::Acquire) > last_seq {
            entry.running_seq.store(0, Ordering::Relaxed);
        }
    }
}

fn recover_one(writer: &mut Writer) -> bool {
    let (drain, join, ready) = writer.parts();
    let mut found: Vec<(Head, Ref)> = Vec::new();
    drain.pass(|head, at| {
        if head.line_seq == 0 {
            found.push((head, at));
        }
    });
    restore_running(drain, |conn, open| join.restore(conn, open));
    // Records without a number stay in the order in which they were found.
    found.sort_by_key(|(head, _)| (head.conn, head.rec_no, head.fragment_number));
    join.begin_pass();
    for (head, at) in found {
        join.add_sorted(head, at, ready);
    }
    let now_us = sys::now_us();
    join.finish(now_us, Ending::Unknown, ready);
    writer.enqueue();
    writer.tell_losses_now(now_us);
    writer.flush()
}

/// Statements that have a `running` line but no completion in the file.
fn restore_running(drain: &Drain, mut restore: impl FnMut(u64, Open)) {
    for entry in drain.arena().running() {
        // SYNC running: Acquire pairs with the Release of the writer that filled it.
        let seq = entry.running_seq.load(Ordering::Acquire);
        let done_seq = entry.done_seq.load(Ordering::Relaxed);
        if seq == 0 || done_seq != 0 {
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
