//! Writes the records that a crash left in an arena to the log, each once.
//!
//! The last complete line in the file determines which records were written: those whose stored
//! `seq` is not beyond it. All others are read in the order of their connections and joined as
//! usual, and statements that were still running become `interrupted`. Recovery may be killed at
//! any point: the next recovery starts from the file again.
//!
//! Marks of lines that never reached the file must be removed before the first line is written, and
//! in every arena: their numbers are given to other lines now, and a later reader would take such a
//! mark for that of a written line. There may be several arenas: while the disk is full, the lines
//! of a dead server wait in the memory of the next one, before its own, with the arena as their
//! copy; and that server may die, too.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use tacho_logdir::Fs;
use tacho_ring::arena::Arena;
use tacho_ring::codec::RecordKind;
use tacho_ring::layout::{FRAGMENT_FIRST, FRAGMENT_LAST, FRAGMENT_WHOLE};
use tacho_ring::session::epoch_of;
use tacho_ring::sys;

use crate::arena_file::{self, ArenaError, ArenaFile};
use crate::arena_list;
use crate::control::Severity;
use crate::drain::{Drain, Head, Ref};
use crate::join::{Ending, Open};
use crate::spill::ArenaSource;
use crate::writer::{self, Writer};

/// Result of a recovery.
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
    /// The log cannot be written. The returned writer writes these lines first; until then the
    /// arena stays, and if the writer fails, the next recovery finds it.
    #[error("the log cannot be written at the moment; the arena {0} is kept")]
    NotWritten(std::path::PathBuf),
}

/// Recovers every dead arena of a log directory (canonical path), whose lock the writer's files
/// hold. Skips living ones.
///
/// An arena that cannot be read is reported, and the others are recovered nevertheless.
pub fn recover_all<F: Fs>(
    mut writer: Writer<F>,
    arena_directory: &Path,
    log_directory: &Path,
) -> (Writer<F>, Result<Recovered, RecoverError>) {
    let result = recover_dead(&mut writer, arena_directory, log_directory);
    (writer, result)
}

/// Starts a writer after another one that ended or died, while its server is alive: first recovers
/// what dead servers left, as at the start of a server, then takes over the living arena. The
/// writer's files hold the lock of the log, and it has no arena of its own yet. `living` is the
/// result of [`take_up_living`].
pub fn succeed<F: Fs>(
    writer: Writer<F>,
    living: ArenaSource,
    arena_directory: &Path,
    log_directory: &Path,
) -> (Writer<F>, Result<Recovered, RecoverError>) {
    let (writer, result) = recover_all(writer, arena_directory, log_directory);
    (writer.take_over(living), result)
}

/// Prepares the arena of a living server, at `path`, for the next writer of its log, which holds
/// the lock and has written nothing yet; `last_seq` is the last line.
///
/// # Errors
/// A part of the arena cannot be read or marked: the log must not be taken over.
pub fn take_up_living(arena: Arena, path: &Path, last_seq: u64) -> Result<ArenaSource, ArenaError> {
    let living = ArenaSource::open(arena, path)?;
    take_back_marks(living.clone(), last_seq)?;
    Ok(living)
}

fn recover_dead<F: Fs>(
    writer: &mut Writer<F>,
    arena_directory: &Path,
    log_directory: &Path,
) -> Result<Recovered, RecoverError> {
    if let Err(error) = arena_file::remove_unfinished(arena_directory, log_directory) {
        // Unfinished arenas have no records: they only occupy memory.
        writer.say(Severity::Warning, &error.to_string());
    }
    let known = arena_list::read(log_directory).unwrap_or_else(|error| {
        let text = format!("{}: {error}", log_directory.join(arena_list::NAME).display());
        writer.say(Severity::Warning, &text);
        Vec::new()
    });
    let paths = arena_file::files(arena_directory, Some(log_directory));
    let mut paths = paths.map_err(|source| not_listed(arena_directory, source))?;
    // Arenas in other directories: the setting had another value when they were created.
    let listed = paths.iter().filter_map(|path| path.canonicalize().ok()).collect::<Vec<_>>();
    paths.extend(known.iter().map(|known| known.path.clone()).filter(|p| !listed.contains(p)));
    let (mut found, mut planted) = (Vec::new(), Vec::new());
    for path in paths {
        match ArenaFile::open_released(&path) {
            Ok(dead) if dead.info().log_directory == log_directory => found.push(dead),
            Ok(_) => {}
            Err(ArenaError::InUse { .. }) => {
                take_back_living(log_directory, &path, writer.last_seq())
                    .unwrap_or_else(|error| report_unread(writer, &error));
            }
            Err(ArenaError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                if arena_list::has(&known, &path) {
                    writer.report_gone(&path);
                }
            }
            // All users may create files in a shared directory, and many of them.
            Err(ArenaError::Foreign { .. }) if !arena_list::has(&known, &path) => {}
            Err(error @ ArenaError::Planted { .. }) => planted.push(error),
            Err(error) => {
                report_unread(writer, &error);
                if error.may_have_records() {
                    keep(writer, log_directory, &path);
                }
            }
        }
    }
    if let [first, ..] = &planted[..] {
        // There may be thousands.
        let others = match planted.len() - 1 {
            0 => String::new(),
            others => format!(" (and {others} more)"),
        };
        let text = format!("{first}{others}; {}", first.advice());
        writer.say(Severity::Warning, &text);
    }
    // By name, and therefore by age, across directories.
    found.sort_by(|a, b| a.path().file_name().cmp(&b.path().file_name()));
    recover_arenas(writer, found, false)
}

/// A server of this log is alive although this process holds the lock: the server waits for the
/// lock, to continue. Its arena still has marks of lines that the previous writer did not write,
/// and their numbers are given to other lines now.
///
/// # Errors
/// Some of these marks remain: lines with their numbers would be taken for theirs.
pub fn take_back_living(
    log_directory: &Path,
    path: &Path,
    last_seq: u64,
) -> Result<(), ArenaError> {
    match ArenaFile::open_living(path) {
        Ok(living) if living.info().log_directory == log_directory => {
            take_back_marks(living.source()?, last_seq)
        }
        Ok(_) => Ok(()),
        // Its server has meanwhile ended in the orderly way.
        Err(ArenaError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Records an arena that cannot be read now, before its numbers are given to other lines.
fn keep<F: Fs>(writer: &Writer<F>, log_directory: &Path, path: &Path) {
    if let Err(error) = arena_list::keep(log_directory, path, writer.last_seq()) {
        let text = format!(
            "{} cannot be written: {error}. Let the user of the server write to that directory",
            log_directory.join(arena_list::NAME).display()
        );
        writer.say(Severity::Warning, &text);
    }
}

fn not_listed(directory: &Path, source: io::Error) -> ArenaError {
    ArenaError::Io { action: "listing", path: directory.to_owned(), source }
}

/// Its records may be missing in the log for ever, unless an operator acts.
fn report_unread<F: Fs>(writer: &Writer<F>, error: &ArenaError) {
    let text = format!(
        "{error}. If records of this log are in it, they are not in the log: {}. Then run \
         `tacho recover`, or start the server again",
        error.advice()
    );
    writer.say(Severity::Error, &text);
}

/// Recovers these dead arenas of the writer's log, which must be all of its dead arenas, and
/// removes each as soon as its lines are in the file. The writer must be given another arena before
/// it does anything except close.
///
/// The marks in an arena are numbers of lines in the log that its server wrote: in another log they
/// mean nothing, and unwritten records would be taken for written ones.
pub fn recover_files<F: Fs>(
    writer: &mut Writer<F>,
    found: Vec<ArenaFile>,
) -> Result<Recovered, RecoverError> {
    recover_arenas(writer, found, true)
}

fn recover_arenas<F: Fs>(
    writer: &mut Writer<F>,
    found: Vec<ArenaFile>,
    reports_files: bool,
) -> Result<Recovered, RecoverError> {
    // A list that cannot be read was reported when the arenas were searched.
    let known = arena_list::read(writer.log_directory()).unwrap_or_default();
    let mut readable = Vec::new();
    let mut unread = None;
    for dead in found {
        let limit = arena_list::limit(&known, dead.path(), writer.last_seq());
        let source = dead.source();
        match source.and_then(|source| take_back_marks(source.clone(), limit).map(|()| source)) {
            Ok(source) => {
                // Its marks now refer to existing lines: the marks of this recovery count from now
                // on.
                if arena_list::is_kept(&known, dead.path())
                    && let Err(error) = arena_list::add(writer.log_directory(), dead.path())
                {
                    let list = writer.log_directory().join(arena_list::NAME);
                    writer.say(Severity::Warning, &format!("{}: {error}", list.display()));
                }
                readable.push((dead, source));
            }
            Err(error) => {
                report_unread(writer, &error);
                keep(writer, writer.log_directory(), dead.path());
                unread.get_or_insert(error);
            }
        }
    }
    // No mark remains of a line that was not written: new lines may get any number.
    if reports_files {
        writer.report_file_events();
    }
    let mut total = Recovered::default();
    let mut unwritten = None;
    for (dead, source) in readable {
        let owner_pid = dead.info().owner_pid;
        let first_seq = writer.next_seq();
        writer.take_up(source);
        writer.take_filters_of_dead(dead.path());
        let is_written = recover_one(writer);
        let lines = writer.next_seq() - first_seq;
        total.arenas += 1;
        total.lines += lines;
        let text = if is_written {
            format!(
                "recovered {lines} lines that a server (process {owner_pid}) had not written \
                 when it died"
            )
        } else {
            unwritten.get_or_insert_with(|| dead.path().to_owned());
            format!(
                "{lines} lines that a server (process {owner_pid}) had not written when it died \
                 wait until the log can be written"
            )
        };
        writer.say(Severity::Note, &text);
        writer.remove_when_written(dead);
    }
    if let Some(path) = unwritten {
        return Err(RecoverError::NotWritten(path));
    }
    if let Some(error) = unread {
        return Err(error.into());
    }
    Ok(total)
}

/// Removes the marks of lines that never reached the file, whose last line is `last_seq`.
///
/// # Errors
/// One of them remains: a new line with its number would make the record count as written.
pub(crate) fn take_back_marks(
    source: impl Into<ArenaSource>,
    last_seq: u64,
) -> Result<(), ArenaError> {
    let mut drain = Drain::new(source);
    let arena = *drain.arena();
    let mut stale: Vec<Ref> = Vec::new();
    drain.pass(|head, at| {
        if head.line_seq > last_seq {
            stale.push(at);
        }
    });
    for at in stale {
        drain.settle_back(at)?;
    }
    writer::confirm_losses(&arena, last_seq);
    let shared = arena.shared();
    for mark in [&shared.writer.0.start_seq, &shared.successor.0.stop_seq] {
        if mark.load(Ordering::Relaxed) > last_seq {
            mark.store(0, Ordering::Relaxed);
        }
    }
    for entry in arena.running() {
        // The completion first: an entry without its `running` line is ignored.
        for mark in [&entry.done_seq, &entry.running_seq] {
            if mark.load(Ordering::Relaxed) > last_seq {
                mark.store(0, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

/// Writes everything in the writer's arena that is not marked as written. `false`: the file cannot
/// be written now, and the lines wait in the writer.
pub(crate) fn recover_one<F: Fs>(writer: &mut Writer<F>) -> bool {
    writer.note_missing_start();
    let written_seq = writer.last_seq();
    let (drain, join, ready) = writer.parts();
    let mut found: Vec<(Head, Ref)> = Vec::new();
    drain.pass(|head, at| {
        if head.line_seq == 0 {
            found.push((*head, at));
        }
    });
    drop_doubles(drain, &mut found, written_seq);
    restore_running(drain, |conn, open| join.restore(conn, open));
    sort(&mut found, |(head, at)| (head, at));
    let broken_count = count_broken(&found);
    join.begin_pass();
    for (head, at) in found {
        join.add_sorted(&head, at, ready);
    }
    let abandoned = join.abandoned(drain.arena().sessions());
    join.give_up(&abandoned, ready);
    let now_us = sys::now_us();
    join.finish(now_us, Ending::Unknown, ready);
    writer.enqueue();
    writer.count_corrupt(broken_count);
    writer.report_last_losses(now_us);
    writer.flush()
}

/// Counts records whose end arrived and whose beginning is gone: it was in the memory of the
/// writer, or in a spill that is missing.
fn count_broken(found: &[(Head, Ref)]) -> u64 {
    let of = |fragment: u8| {
        let such = found.iter().filter(move |(head, _)| head.fragment == fragment);
        such.map(|(head, _)| (head.conn, head.rec_no)).collect::<HashSet<_>>()
    };
    of(FRAGMENT_LAST).difference(&of(FRAGMENT_FIRST)).count() as u64
}

/// A writer that dies while it moves a fragment to the spill leaves a copy in the arena, which
/// counts as written.
pub(crate) fn drop_doubles(drain: &mut Drain, found: &mut Vec<(Head, Ref)>, written_seq: u64) {
    let name = |head: &Head| (head.conn, head.rec_no, head.fragment_number);
    let moved = found.iter().filter(|(_, at)| at.is_spilled()).map(|(head, _)| name(head));
    let moved: HashSet<_> = moved.collect();
    if moved.is_empty() {
        return;
    }
    found.retain(|(head, at)| {
        let is_double = !at.is_spilled() && moved.contains(&name(head));
        if is_double {
            drain.settle(*at, written_seq);
        }
        !is_double
    });
}

/// Sorts records into the order in which they happened, connection by connection.
///
/// The numbers of a series, which come from one session slot, give its order. A connection without
/// a slot has records without numbers, and each of its fragmented records has a series of its own.
/// Only time orders these, and the series. A thread's records are in its chunk in the order in
/// which they happened, although the clock of an error or a table may lag by some milliseconds.
pub(crate) fn sort<T>(found: &mut Vec<T>, record: impl Fn(&T) -> (&Head, &Ref)) {
    let series = |head: &Head| (head.conn, epoch_of(head.rec_no));
    let mut last: HashMap<(u64, u32), i64> = HashMap::new();
    let mut began: HashMap<(u64, u64), (i64, usize)> = HashMap::new();
    // By time, and for equal times by the place where the pass found them.
    let mut times: Vec<(i64, usize)> = Vec::with_capacity(found.len());
    for (place, (head, at)) in found.iter().map(&record).enumerate() {
        let last = last.entry((head.conn, at.chunk)).or_insert(head.ts_us);
        *last = head.ts_us.max(*last);
        times.push((*last, place));
        if head.rec_no != 0 {
            let began = began.entry(series(head)).or_insert((*last, place));
            *began = (began.0.min(*last), began.1.min(place));
        }
    }
    let mut keyed: Vec<_> = std::mem::take(found)
        .into_iter()
        .zip(times)
        .map(|(found, own)| {
            let (head, _) = record(&found);
            let time = began.get(&series(head)).copied().filter(|_| head.rec_no != 0);
            ((head.conn, time.unwrap_or(own), head.rec_no, head.fragment_number), found)
        })
        .collect();
    keyed.sort_by_key(|(key, _)| *key);
    found.extend(keyed.into_iter().map(|(_, record)| record));
}

/// Restores statements that have a `running` line but no completion in the file.
pub(crate) fn restore_running(drain: &Drain, mut restore: impl FnMut(u64, Open)) {
    let mut heads: Vec<Head> = Vec::new();
    for entry in drain.arena().running() {
        // SYNC running: Acquire pairs with the Release of the writer that filled it.
        let seq = entry.running_seq.load(Ordering::Acquire);
        if seq == 0 || entry.done_seq.load(Ordering::Relaxed) != 0 {
            continue;
        }
        heads.push(Head {
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
            end: None,
        });
    }
    // Entries are reused in any order; the innermost statement is the one that began last.
    heads.sort_by_key(|head| (head.conn, head.conn_seq));
    for head in heads {
        restore(head.conn, Open::from_running(&head, head.line_seq));
    }
}
