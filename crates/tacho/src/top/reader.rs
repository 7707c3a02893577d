//! A thread that follows the log and counts its lines.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tacho_logdir::read::content::Access;
use tacho_logdir::read::files::Input;
use tacho_logdir::read::reader::Placed;
use tacho_logdir::read::{self, Lines, Request, Sink, Window};

use super::running::Long;
use super::window::GROUPS_MAX;
use crate::filter::Filter;
use crate::parallel::Message;
use crate::report::query::Query;
use crate::report::tally::{Counted, Shared, Tally};
use crate::tail::TailError;

/// What is counted.
#[derive(Debug)]
pub struct Question {
    /// Groups.
    pub query: Query,
    /// Statements.
    pub filter: Filter,
    /// The reader's time zone.
    pub zone: TimeZone,
    /// How far back.
    pub length: Duration,
    /// The time of a part of the result, µs.
    pub part_us: i64,
}

/// A part of the result.
#[derive(Debug)]
pub struct Part {
    /// Its number: the time in units of the length of a part.
    pub number: i64,
    /// What was counted.
    pub counted: Counted,
    /// Statements with a `running` line and without an end; `None`: as before.
    pub running: Option<Vec<Long>>,
    /// Whether the reader has reached the end of the log.
    pub is_at_end: bool,
}

/// The thread.
#[derive(Debug)]
pub struct Reader {
    parts: Receiver<Part>,
    messages: Receiver<Message>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), TailError>>>,
}

impl Reader {
    /// Starts to read.
    pub fn start(place: Input, access: Arc<Access>, question: Question) -> Self {
        let (sender, parts) = channel();
        let (message_sender, messages) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let run = move || follow(place, &access, &question, (sender, message_sender), &is_stopped);
        Self { parts, messages, stop, thread: Some(std::thread::spawn(run)) }
    }

    /// What was counted since the last call.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        self.parts.try_iter()
    }

    /// What it had to say since the last call.
    pub fn messages(&self) -> impl Iterator<Item = Message> {
        self.messages.try_iter()
    }

    /// Checks that it still reads.
    ///
    /// # Errors
    /// The log cannot be read any further.
    pub fn check(&mut self) -> Result<(), TailError> {
        match self.thread.take_if(|thread| thread.is_finished()) {
            Some(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            None => Ok(()),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It ends soon. Nothing depends on when: its messages have no receiver any more.
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn follow(
    place: Input,
    access: &Access,
    question: &Question,
    (parts, messages): (Sender<Part>, Sender<Message>),
    stop: &AtomicBool,
) -> Result<(), TailError> {
    let scanned_bytes = AtomicU64::new(0);
    let Question { query, filter, zone, length, part_us } = question;
    let shared = Shared {
        query,
        filter,
        zone,
        top: 1,
        groups_max: GROUPS_MAX,
        scanned_bytes: &scanned_bytes,
    };
    let length = SignedDuration::try_from(*length).unwrap_or(SignedDuration::MAX);
    let window = Window { since: Timestamp::now().checked_sub(length).ok(), until: None };
    let request =
        Request { from: None, lines: Lines::All, newest_first: false, window, follow: true };
    let tally = Tally::new(&shared, messages);
    let mut counter = Counter {
        tally,
        parts,
        stop,
        part_us: *part_us,
        number: None,
        running: Vec::new(),
        was_at_end: false,
    };
    read::read(place, &request, access, &mut counter)
}

/// Counts lines, and sends the counts of each part of the time.
struct Counter<'a> {
    tally: Tally<'a>,
    parts: Sender<Part>,
    stop: &'a AtomicBool,
    part_us: i64,
    /// Of the part that is counted.
    number: Option<i64>,
    /// The `seq` of the `running` lines that were last sent.
    running: Vec<u64>,
    was_at_end: bool,
}

impl Counter<'_> {
    fn send(&mut self, is_at_end: bool) {
        let counted = self.tally.take_counted();
        let seqs: Vec<u64> = self.tally.running().map(|record| record.seq).collect();
        let running = (seqs != self.running).then(|| self.tally.running().map(Long::of).collect());
        self.running = seqs;
        let is_empty = counted.all.count == 0 && counted.gaps.is_none() && running.is_none();
        if is_empty && is_at_end == self.was_at_end {
            return;
        }
        self.was_at_end = is_at_end;
        let now = || Timestamp::now().as_microsecond().div_euclid(self.part_us);
        let part = Part { number: self.number.unwrap_or_else(now), counted, running, is_at_end };
        // Without a receiver, `stop` is set.
        let _ = self.parts.send(part);
    }
}

impl Sink for Counter<'_> {
    type Error = TailError;

    fn wants(&mut self, path: &Path, line: Placed<'_>) -> bool {
        // It counts the line, and wants none to be shown.
        self.tally.wants(path, line);
        // Statements are in the order of their ends: one that began long ago counts now.
        let newest_us = self.tally.so_far().all.last_us;
        if newest_us != i64::MIN {
            let number = newest_us.div_euclid(self.part_us);
            if self.number.is_some_and(|current| number > current) {
                self.send(false);
            }
            self.number = self.number.max(Some(number));
        }
        false
    }

    fn flush(&mut self) -> Result<(), TailError> {
        self.send(true);
        Ok(())
    }

    fn problem(&mut self, path: &Path, reason: &str) {
        self.tally.problem(path, reason);
    }

    fn note(&mut self, text: &str) {
        self.tally.note(text);
    }

    fn scanned(&mut self, _: u64) -> Result<bool, TailError> {
        Ok(!self.stopped())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
