//! Reads logs on several threads.

use std::path::Path;
use std::sync::mpsc::channel;

use tacho_logdir::read::content::Access;
use tacho_logdir::read::files::Input;
use tacho_logdir::read::pieces::Pieces;
use tacho_logdir::read::reader::Placed;
use tacho_logdir::read::{self, Lines, Request, Sink};

use super::gaps::Sequence;
use super::tally::{Counted, Shared, Tally};
use crate::filter::Filter;
use crate::parallel;
use crate::scan::Scan;
use crate::tail::{self, TailError};

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
    let start = |messages| Tally::new(shared, messages);
    let found = parallel::read(pieces, access, shared.scanned_bytes, scan, start)?;
    let (sender, messages) = channel();
    let mut rest = Tally::new(shared, sender);
    let mut sequences = vec![Sequence::default(); pieces.count()];
    let (mut unjoined, mut parts) = (Vec::new(), Vec::new());
    for one in found {
        one.sequences.into_iter().for_each(|(piece, sequence)| sequences[piece] = sequence);
        unjoined.extend(one.unjoined);
        parts.push(one.counted);
    }
    rest.join(unjoined);
    let mut counted = rest.counted();
    parallel::watch(&messages, shared.scanned_bytes, scan);
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
    let (sequence, unjoined) = tally.take_piece();
    tally.join(unjoined);
    let mut counted = tally.counted();
    parallel::watch(&messages, shared.scanned_bytes, scan);
    done?;
    counted.gaps.missing_lines = sequence.missing(counted.gaps.damaged_lines);
    Ok(counted)
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
