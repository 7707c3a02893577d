//! Counts the lines of one thread.

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;

use jiff::tz::TimeZone;
use tacho_format::join::{self, HELD_BYTES_MAX, Joiner};
use tacho_logdir::read::Sink;
use tacho_logdir::read::reader::Placed;
use tacho_record::line::members::MemberReader;
use tacho_record::{Field, Line, Outcome, OwnedRecord};

use super::gaps::{Gaps, Sequence};
use super::groups::Groups;
use super::key::Keys;
use super::list::Newest;
use super::query::{Choice, Query, Subject};
use super::stats::{Figures, Stats};
use crate::filter::{Filter, Fit};
use crate::line_limit;
use crate::parallel::{Message, Reader, Scanned};
use crate::tail::TailError;
use crate::view::{NotTables, Partial, View};

/// Most groups of a report.
pub const GROUPS_MAX: usize = 100_000;

/// Most rows of a list.
const ROWS_MAX: usize = 100_000;

/// Most `running` lines and ends of long statements that a reader keeps because they wait for lines
/// of other pieces. Beyond that, some are counted without the other one.
const UNJOINED_MAX: usize = 100_000;

/// What the readers of a report share.
#[derive(Debug)]
pub struct Shared<'a> {
    /// The question.
    pub query: &'a Query,
    /// The filter.
    pub filter: &'a Filter,
    /// The reader's time zone.
    pub zone: &'a TimeZone,
    /// Rows of a list; 0: as many as possible.
    pub top: usize,
    /// Most groups. A reader holds up to twice as many, each with about 600 bytes.
    pub groups_max: usize,
    /// Bytes read so far.
    pub scanned_bytes: &'a AtomicU64,
}

/// The result of one reader.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The groups.
    pub groups: Groups,
    /// The rows of a list.
    pub rows: Newest,
    /// All lines that were counted.
    pub all: Stats,
    /// What is missing.
    pub gaps: Gaps,
    /// Statements without an end.
    pub open_count: u64,
}

impl Counted {
    /// Nothing.
    pub fn new(query: &Query, top: usize, groups_max: usize) -> Self {
        let limit = if top == 0 { ROWS_MAX } else { top.min(ROWS_MAX) };
        Self {
            groups: Groups::new(groups_max, query.sort),
            rows: Newest::new(limit),
            all: Stats::default(),
            gaps: Gaps::default(),
            open_count: 0,
        }
    }

    /// Adds that of another reader.
    pub fn merge(&mut self, other: Self) {
        self.groups.merge(other.groups);
        self.rows.merge(other.rows);
        self.all.merge(&other.all);
        self.gaps.merge(&other.gaps);
        self.open_count += other.open_count;
    }
}

/// The result of one of several readers.
#[derive(Debug)]
pub struct PieceTally {
    /// What was counted.
    pub counted: Counted,
    /// The numbers of the lines of each piece, by the number of the piece.
    pub sequences: Vec<(usize, Sequence)>,
    /// `running` lines and their ends that are in different pieces.
    pub unjoined: Vec<OwnedRecord>,
}

/// Counts lines.
pub struct Tally<'a> {
    shared: &'a Shared<'a>,
    messages: Sender<Message>,
    reader: Option<MemberReader>,
    choice: Choice,
    keys: Keys,
    joiner: Joiner,
    /// `running` lines and their ends that are in different pieces.
    unjoined: Vec<OwnedRecord>,
    sequence: Sequence,
    /// Of the pieces that were read.
    sequences: Vec<(usize, Sequence)>,
    /// The same of them.
    unjoined_pieces: Vec<OwnedRecord>,
    counted: Counted,
    scanned: Scanned<'a>,
}

impl<'a> Tally<'a> {
    /// Nothing is counted yet.
    pub fn new(shared: &'a Shared<'a>, messages: Sender<Message>) -> Self {
        let query = shared.query;
        Self {
            shared,
            messages,
            reader: Some(MemberReader::new(query.fields(shared.filter))),
            choice: Choice::new(query, shared.filter),
            keys: Keys::new(&query.by, shared.zone.clone()),
            joiner: Joiner::new(HELD_BYTES_MAX),
            unjoined: Vec::new(),
            sequence: Sequence::default(),
            sequences: Vec::new(),
            unjoined_pieces: Vec::new(),
            counted: Counted::new(query, shared.top, shared.groups_max),
            scanned: Scanned::new(shared.scanned_bytes),
        }
    }

    /// Ends a piece of the log. Returns the numbers of its lines, and those of its lines that may
    /// belong to lines of other pieces.
    pub fn take_piece(&mut self) -> (Sequence, Vec<OwnedRecord>) {
        let unjoined = &mut self.unjoined;
        let Ok(()) = self.joiner.finish(|record| {
            unjoined.push(record.clone());
            Ok::<(), Infallible>(())
        });
        (std::mem::take(&mut self.sequence), std::mem::take(unjoined))
    }

    /// The result.
    pub fn counted(self) -> Counted {
        self.counted
    }

    /// Of a log that is followed: what was counted since the last call. Ends of statements whose
    /// `running` lines were not read count without them.
    pub fn take_counted(&mut self) -> Counted {
        let unjoined = std::mem::take(&mut self.unjoined);
        self.join(unjoined);
        let Shared { query, top, groups_max, .. } = *self.shared;
        std::mem::replace(&mut self.counted, Counted::new(query, top, groups_max))
    }

    /// What was counted so far.
    pub fn so_far(&self) -> &Counted {
        &self.counted
    }

    /// Statements with a `running` line and without an end, oldest first.
    pub fn running(&self) -> impl Iterator<Item = &OwnedRecord> {
        self.joiner.held()
    }

    /// Counts the records of all pieces of a log that are left after [`Self::take_piece`].
    pub fn join(&mut self, mut unjoined: Vec<OwnedRecord>) {
        unjoined.sort_by_key(|record| record.seq);
        let mut joiner = Joiner::new(HELD_BYTES_MAX);
        let mut whole = Vec::new();
        for record in unjoined {
            let Ok(()) = joiner.push(record, |record| {
                whole.push(record.clone());
                Ok::<(), Infallible>(())
            });
        }
        let Ok(()) = joiner.finish(|record| {
            whole.push(record.clone());
            Ok::<(), Infallible>(())
        });
        whole.iter().for_each(|record| self.count_record(record));
    }

    fn say(&self, message: Message) {
        // The receiver outlives all readers.
        let _ = self.messages.send(message);
    }

    fn damaged(&mut self, path: &Path, offset: u64, reason: &str) {
        self.counted.gaps.damaged_lines += 1;
        let reason = format!("broken line: {reason}");
        self.say(Message::Problem(path.to_owned(), Some(offset), reason));
    }

    fn take(&mut self, placed: Placed<'_>) -> Result<(), String> {
        if placed.is_too_long {
            return Err(line_limit::too_long());
        }
        // Taken out, because what it reads is borrowed from it.
        let mut reader = self.reader.take().expect("it is put back below");
        let line = reader.read(placed.bytes).and_then(Partial::of);
        let done = line.map(|line| self.count_or_hold(&line, placed.bytes));
        self.reader = Some(reader);
        if let Some(Ok(())) = done {
            return Ok(());
        }
        // Of a broken line, the parser knows the reason and the place.
        self.count_or_hold(&Line::parse(placed.bytes)?, placed.bytes)
    }

    /// Changes nothing if it fails.
    fn count_or_hold(&mut self, line: &impl View, bytes: &[u8]) -> Result<(), String> {
        let event = line.text(Field::event);
        if event == "statement" {
            let outcome = line.text(Field::outcome);
            let is_one_of_two = join::is_part(&event, &outcome, line.number(Field::running_seq));
            if is_one_of_two {
                self.hold(bytes)?;
            } else {
                self.count(line).map_err(|error| error.to_string())?;
            }
        } else if event == "lost" {
            self.counted.gaps.lost(&Line::parse(bytes)?, self.shared.filter.window());
        } else {
            self.count(line).map_err(|error| error.to_string())?;
        }
        if let Some(seq) = line.number(Field::seq).filter(|seq| *seq > 0) {
            self.sequence.next(seq, line.ts().as_microsecond());
        }
        Ok(())
    }

    /// Holds a `running` line until its end, or joins an end with it.
    fn hold(&mut self, bytes: &[u8]) -> Result<(), String> {
        let record = OwnedRecord::of_line(&Line::parse(bytes)?).map_err(|e| e.to_string())?;
        let mut emitted = Vec::new();
        let Ok(()) = self.joiner.push(record, |record| {
            emitted.push(record.clone());
            Ok::<(), Infallible>(())
        });
        for record in emitted {
            if record.outcome == Some(Outcome::Running) || record.running_seq.is_some() {
                self.unjoined.push(record);
            } else {
                self.count_record(&record);
            }
        }
        Ok(())
    }

    fn count_record(&mut self, record: &OwnedRecord) {
        let is_open = record.outcome == Some(Outcome::Running);
        if is_open && record.running_seq.is_some() {
            // A further line of a statement that is counted elsewhere.
            return;
        }
        // A line that was parsed completely is not broken.
        if record.with_line(|line| self.count(line)).unwrap_or(false) && is_open {
            self.counted.open_count += 1;
        }
    }

    /// Counts a line if it is one of the report's.
    fn count(&mut self, line: &impl View) -> Result<bool, NotTables> {
        let Query { subject, keep, which, .. } = *self.shared.query;
        if !self.choice.has(line) || self.shared.filter.judge(line)? == Fit::No {
            return Ok(false);
        }
        let figures = Figures::of(line);
        let is_counted = subject != Subject::Sessions || line.text(Field::event) == "statement";
        if self.shared.query.is_list() {
            self.counted.all.add(&figures);
            self.counted.rows.add(line);
            return Ok(true);
        }
        let groups = &mut self.counted.groups;
        self.keys.each(line, |key| {
            groups.update(key, |group| {
                if is_counted {
                    group.stats.add(&figures);
                }
                if !keep.is_empty() {
                    group.kept.offer(which, keep, line);
                }
                if subject == Subject::Sessions {
                    group.saw_session(line);
                }
            });
        })?;
        if is_counted {
            self.counted.all.add(&figures);
        }
        Ok(true)
    }
}

impl Reader for Tally<'_> {
    type Found = PieceTally;

    fn end_piece(&mut self, piece: usize) {
        let (sequence, rest) = self.take_piece();
        self.sequences.push((piece, sequence));
        self.unjoined_pieces.extend(rest);
        if self.unjoined_pieces.len() > UNJOINED_MAX {
            let rest = std::mem::take(&mut self.unjoined_pieces);
            self.join(rest);
        }
    }

    fn finish(self) -> PieceTally {
        let Self { counted, sequences, unjoined_pieces: unjoined, .. } = self;
        PieceTally { counted, sequences, unjoined }
    }
}

impl Sink for Tally<'_> {
    type Error = TailError;

    /// Counts the line at once; none is wanted afterwards.
    fn wants(&mut self, path: &Path, line: Placed<'_>) -> bool {
        if let Err(reason) = self.take(line) {
            self.damaged(path, line.offset, &reason);
        }
        false
    }

    fn problem(&mut self, path: &Path, reason: &str) {
        self.say(Message::Problem(path.to_owned(), None, reason.to_owned()));
    }

    fn note(&mut self, text: &str) {
        self.say(Message::Note(text.to_owned()));
    }

    fn scanned(&mut self, bytes: u64) -> Result<bool, TailError> {
        self.scanned.add(bytes);
        Ok(true)
    }
}
