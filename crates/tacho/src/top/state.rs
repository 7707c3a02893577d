//! What is shown, and what a key changes.

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueEnum as _;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tacho_logdir::read::Window as Range;
use tacho_logdir::read::content::Access;
use tacho_logdir::read::files::Input;

use super::reader::{Question, Reader};
use super::running::{Finder, RunningNow};
use super::window::Window;
use crate::cli::TopArgs;
use crate::filter::Filter;
use crate::parallel::Message;
use crate::report;
use crate::report::key::By;
use crate::report::query::Query;
use crate::report::stats::Measure;
use crate::report::tally::Counted;
use crate::scan::{Scan, problem_text};
use crate::tail::{self, TailError};

/// The first update of a screen waits this long for the reader to reach the end of the log: in a
/// large window of a busy server there is much to read, and a screen that fills is better than
/// none.
pub const FIRST_WAIT: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(10);

/// Messages of the reader that are kept.
const MESSAGES_MAX: usize = 3;

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// It has no meaning.
    Nothing,
    /// What is shown has changed.
    Draw,
    /// The program ends.
    Quit,
}

/// What is shown.
pub struct Top<'a> {
    args: &'a TopArgs,
    log: Input,
    access: Arc<Access>,
    reader: Reader,
    window: Window,
    finder: Finder,
    /// The time zone of the clock.
    pub zone: TimeZone,
    /// The groups and their order.
    pub query: Query,
    /// No update changes what is shown.
    pub is_paused: bool,
    /// The keys are shown.
    pub has_help: bool,
    /// The time of the last update, µs since 1970-01-01 UTC.
    pub now_us: i64,
    /// What was counted in the window.
    pub total: Counted,
    /// Statements that have not ended.
    pub running: RunningNow,
    /// Whether the reader has reached the end of the log.
    pub is_at_end: bool,
    /// The newest messages of the reader.
    pub messages: VecDeque<String>,
}

impl<'a> Top<'a> {
    /// Starts to read the log.
    ///
    /// # Errors
    /// There is no log, or it cannot be read.
    pub fn new(args: &'a TopArgs, zone: TimeZone) -> Result<Self, TailError> {
        let log = args.log.input()?;
        let path = match &log {
            Input::Directory(path) | Input::File(path) => path.canonicalize(),
            Input::Stream(_) => return Err(TailError::FollowStream),
        };
        let cannot = |error| TailError::Input { log: args.log.find(), error };
        let path = path.map_err(cannot)?;
        let owner = path.metadata().map_err(cannot)?.uid();
        let access = Arc::new(tail::access(&args.identity)?);
        let query = Query::by(&args.by, args.sort);
        let window = Window::new(args.window);
        let reader = read(args, &log, &access, &query, &zone, &window)?;
        Ok(Self {
            args,
            log,
            access,
            reader,
            finder: Finder::new(path, owner, &args.arena_directory.path),
            zone,
            total: Counted::new(&query, 1, 1),
            query,
            window,
            is_paused: false,
            has_help: false,
            now_us: 0,
            running: RunningNow::default(),
            is_at_end: false,
            messages: VecDeque::new(),
        })
    }

    /// The log, as it was named.
    pub fn log(&self) -> String {
        self.args.log.find().path.display().to_string()
    }

    /// How far back statements count.
    pub fn window(&self) -> Duration {
        self.args.window
    }

    /// Waits until existing lines were read, at most this long.
    ///
    /// # Errors
    /// The log cannot be read any further.
    pub fn wait_for_first(
        &mut self,
        stop: &AtomicBool,
        at_most: Duration,
    ) -> Result<(), TailError> {
        let mut waited = Duration::ZERO;
        while !self.is_at_end && waited < at_most && !stop.load(Ordering::Relaxed) {
            self.take()?;
            std::thread::sleep(TICK);
            waited += TICK;
        }
        Ok(())
    }

    /// Takes what was read, and counts again.
    ///
    /// # Errors
    /// The log cannot be read any further.
    pub fn update(&mut self) -> Result<(), TailError> {
        self.take()?;
        if !self.is_paused {
            self.now_us = Timestamp::now().as_microsecond();
            self.total = self.window.total(self.now_us, &self.query);
            self.running = self.finder.find();
        }
        Ok(())
    }

    fn take(&mut self) -> Result<(), TailError> {
        for part in self.reader.parts() {
            self.window.add(part.number, part.counted);
            self.is_at_end |= part.is_at_end;
            if let Some(long) = part.running {
                self.finder.set_long(long);
            }
        }
        for message in self.reader.messages() {
            let text = match message {
                Message::Note(text) => text,
                Message::Problem(path, offset, reason) => problem_text(&path, offset, &reason),
            };
            self.messages.push_back(text);
            if self.messages.len() > MESSAGES_MAX {
                self.messages.pop_front();
            }
        }
        self.reader.check()
    }

    /// A key was pressed.
    ///
    /// # Errors
    /// The log cannot be read again.
    pub fn press(&mut self, key: char) -> Result<Reaction, TailError> {
        if self.has_help {
            self.has_help = false;
            return Ok(if key == 'q' { Reaction::Quit } else { Reaction::Draw });
        }
        match key {
            'q' => return Ok(Reaction::Quit),
            '?' => self.has_help = true,
            ' ' => self.is_paused = !self.is_paused,
            '<' => self.query.sort = beside(self.query.sort, -1),
            '>' => self.query.sort = beside(self.query.sort, 1),
            'c' => self.query.sort = Measure::Count,
            'e' => self.query.sort = Measure::Errors,
            'r' => self.query.sort = Measure::Rows,
            'x' => self.query.sort = Measure::Examined,
            't' => self.query.sort = Measure::Time,
            'm' => self.query.sort = Measure::Max,
            'd' => self.group_by(By::Digest)?,
            'u' => self.group_by(By::User)?,
            'h' => self.group_by(By::Host)?,
            'b' => self.group_by(By::Db)?,
            'a' => self.group_by(By::Table)?,
            'o' => self.group_by(By::SqlCommand)?,
            'n' => self.group_by(By::Errno)?,
            _ => return Ok(Reaction::Nothing),
        }
        Ok(Reaction::Draw)
    }

    /// Counts the window again, in other groups.
    fn group_by(&mut self, by: By) -> Result<(), TailError> {
        let query = Query::by(&[by], self.query.sort);
        let window = Window::new(self.args.window);
        self.reader = read(self.args, &self.log, &self.access, &query, &self.zone, &window)?;
        (self.query, self.window) = (query, window);
        self.is_at_end = false;
        self.wait_for_first(&AtomicBool::new(false), FIRST_WAIT)?;
        if self.is_paused {
            self.total = self.window.total(self.now_us, &self.query);
        }
        Ok(())
    }
}

/// Starts a reader.
fn read(
    args: &TopArgs,
    log: &Input,
    access: &Arc<Access>,
    query: &Query,
    zone: &TimeZone,
    window: &Window,
) -> Result<Reader, TailError> {
    // A statement that began before the window may end in it.
    let mut filter = Filter::new(&args.filter, Range::default());
    if filter.wants_last_run() {
        report::read::plan(log, access, &mut filter, &mut Scan::new(Arc::default()))?;
    }
    let question = Question {
        query: query.clone(),
        filter,
        zone: zone.clone(),
        length: args.window,
        part_us: window.part_us(),
    };
    Ok(Reader::start(log.clone(), Arc::clone(access), question))
}

/// The measure before or after one, without an end.
fn beside(measure: Measure, step: isize) -> Measure {
    let all = Measure::value_variants();
    let count = all.len() as isize;
    let at = all.iter().position(|one| *one == measure).unwrap_or(0) as isize;
    all[(at + step).rem_euclid(count) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_measure_is_reached_in_both_directions() {
        let count = Measure::value_variants().len();
        for step in [1, -1] {
            let mut seen = vec![Measure::Count];
            while let Some(next) = seen.last().map(|last| beside(*last, step)) {
                if seen.contains(&next) {
                    assert_eq!(next, Measure::Count);
                    break;
                }
                seen.push(next);
            }
            assert_eq!(seen.len(), count);
        }
    }
}
