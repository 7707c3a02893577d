//! Reads logs on several threads.

use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use tacho_logdir::read::content::Access;
use tacho_logdir::read::files::Input;
use tacho_logdir::read::pieces::Pieces;
use tacho_logdir::read::reader::Placed;
use tacho_logdir::read::{self, Lines, Request, Sink};
use tacho_record::OwnedRecord;

use super::gaps::Sequence;
use super::tally::{Counted, Message, Shared, Tally};
use crate::filter::Filter;
use crate::scan::Scan;
use crate::tail::{self, TailError};

/// How often the progress is looked at.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Most `running` lines and ends of long statements that a thread keeps because they wait for lines
/// of other pieces. Beyond that, some are counted without the other one.
const UNJOINED_MAX: usize = 100_000;

/// Lists the pieces of a log, and finds its newest run if the filter needs it.
///
/// # Errors
/// There is no log, or it cannot be read.
pub fn plan(
    place: &Input,
    access: &Access,
    filter: &mut Filter,
    scan: &mut Scan,
) -> Result<Option<Pieces>, TailError> {
    tail::check(place, filter, false)?;
    if let Input::Stream(_) = place {
        return Ok(None);
    }
    let window = filter.window();
    let pieces = Pieces::list(place, window, access, &mut Planner { filter, scan })?;
    scan.expect(pieces.bytes());
    Ok(Some(pieces))
}

/// Counts the lines of all pieces.
///
/// # Errors
/// Another thread failed. Files and lines that cannot be read are reported to `scan`.
pub fn pieces(
    pieces: &Pieces,
    access: &Access,
    shared: &Shared<'_>,
    scan: &mut Scan,
) -> Result<Counted, TailError> {
    let next = AtomicUsize::new(0);
    let work = Work { pieces, access, next: &next };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(pieces.count());
    let (sender, messages) = channel();
    let done = std::thread::scope(|scope| {
        let start = |_| {
            let tally = Tally::new(shared, sender.clone());
            scope.spawn(|| work.run(tally))
        };
        let threads: Vec<_> = (0..threads).map(start).collect();
        // The channel ends when the last reader does.
        drop(sender);
        watch(&messages, shared, scan);
        let join = |thread: ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect::<Result<Vec<Done>, TailError>>()
    })?;
    let (sender, messages) = channel();
    let mut rest = Tally::new(shared, sender);
    let mut sequences = vec![Sequence::default(); pieces.count()];
    let (mut unjoined, mut parts) = (Vec::new(), Vec::new());
    for one in done {
        one.sequences.into_iter().for_each(|(piece, sequence)| sequences[piece] = sequence);
        unjoined.extend(one.unjoined);
        parts.push(one.counted);
    }
    rest.join(unjoined);
    let mut counted = rest.finish();
    watch(&messages, shared, scan);
    parts.into_iter().for_each(|part| counted.merge(part));
    let mut sequence = Sequence::default();
    sequences.into_iter().for_each(|next| sequence.join(next));
    counted.gaps.missing_lines = sequence.missing(counted.gaps.damaged_lines);
    if let (Some(since), true) = (shared.filter.window().since, pieces.is_from_beginning()) {
        let begins_us = sequence.begins_us();
        counted.gaps.begins_us = begins_us.filter(|us| *us > since.as_microsecond());
    }
    Ok(counted)
}

/// Counts the lines of a pipe on this thread, from its beginning to its end.
///
/// # Errors
/// It cannot be read. Lines that cannot be read are reported to `scan`.
pub fn stream(
    place: Input,
    access: &Access,
    shared: &Shared<'_>,
    scan: &mut Scan,
) -> Result<Counted, TailError> {
    let (sender, messages) = channel();
    let mut tally = Tally::new(shared, sender);
    let window = shared.filter.window();
    let lines = Lines::All;
    let request = Request { from: None, lines, newest_first: false, window, follow: false };
    let done = read::read(place, &request, access, &mut tally);
    let (sequence, unjoined) = tally.end_piece();
    tally.join(unjoined);
    let mut counted = tally.finish();
    watch(&messages, shared, scan);
    done?;
    counted.gaps.missing_lines = sequence.missing(counted.gaps.damaged_lines);
    Ok(counted)
}

/// Shows messages and progress until all readers have ended.
fn watch(messages: &Receiver<Message>, shared: &Shared<'_>, scan: &mut Scan) {
    loop {
        match messages.recv_timeout(PROGRESS_INTERVAL) {
            Ok(Message::Problem(path, offset, reason)) => scan.problem_at(&path, offset, &reason),
            Ok(Message::Note(text)) => scan.note(&text),
            Err(RecvTimeoutError::Timeout) => {
                scan.scanned_to(shared.scanned_bytes.load(Ordering::Relaxed));
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The work of all threads.
#[derive(Clone, Copy)]
struct Work<'a> {
    pieces: &'a Pieces,
    access: &'a Access,
    /// The next piece to read.
    next: &'a AtomicUsize,
}

/// What a thread has done.
struct Done {
    counted: Counted,
    /// By number of the piece.
    sequences: Vec<(usize, Sequence)>,
    unjoined: Vec<OwnedRecord>,
}

impl Work<'_> {
    /// Reads pieces until there is none left.
    fn run(&self, mut tally: Tally<'_>) -> Result<Done, TailError> {
        let (mut sequences, mut unjoined) = (Vec::new(), Vec::new());
        loop {
            let piece = self.next.fetch_add(1, Ordering::Relaxed);
            if piece >= self.pieces.count() {
                return Ok(Done { counted: tally.finish(), sequences, unjoined });
            }
            self.pieces.read(piece, self.access, &mut tally)?;
            let (sequence, rest) = tally.end_piece();
            sequences.push((piece, sequence));
            unjoined.extend(rest);
            if unjoined.len() > UNJOINED_MAX {
                tally.join(std::mem::take(&mut unjoined));
            }
        }
    }
}

/// Hears of the listing of a log.
struct Planner<'a> {
    filter: &'a mut Filter,
    scan: &'a mut Scan,
}

impl Sink for Planner<'_> {
    type Error = TailError;

    fn wants(&mut self, _: &Path, _: Placed<'_>) -> bool {
        false
    }

    fn problem(&mut self, path: &Path, reason: &str) {
        self.scan.problem_at(path, None, reason);
    }

    fn note(&mut self, text: &str) {
        self.scan.note(text);
    }

    fn stopped(&self) -> bool {
        self.scan.is_stopped()
    }

    fn wants_last_run(&self) -> bool {
        self.filter.wants_last_run()
    }

    fn last_run(&mut self, run: Option<u64>) {
        self.filter.take_last_run(run, self.scan);
    }
}
