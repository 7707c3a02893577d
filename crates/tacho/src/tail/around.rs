//! The newest lines that match, with lines of the same connection before and after: `--context`
//! with `-n`.
//!
//! The log is read backward twice, each time only as far as the answer needs: to find the lines
//! that match, and with them the connections; and to find the lines of these connections.
//!
//! With `--follow`, each connection can be the one of the next match. So this finds only where the
//! lines begin that are to be shown, and from there the log is read forward.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};

use tacho_logdir::read::content::Access;
use tacho_logdir::read::files::Input;
use tacho_logdir::read::reader::Placed;
use tacho_logdir::read::{self, Lines, ReadError, Request, Sink};
use tacho_record::Line;

use super::TailError;
use super::context::{Session, session_of};
use super::row::Role;
use crate::filter::{Fit, Gate};
use crate::scan::Scan;

/// Finds lines.
pub struct Around<'a> {
    gate: &'a mut Gate,
    scan: &'a mut Scan,
    /// How many lines before and after a match.
    count: usize,
    is_second: bool,
    /// The lines that match and were not met in the second reading, in their order.
    matched: HashMap<Vec<u8>, usize>,
    sessions: HashMap<Session, Near>,
    /// How many of them have older lines to be shown.
    unfinished: usize,
    /// Lines to be shown, newest first.
    found: Vec<(usize, Role, Vec<u8>)>,
    /// How many lines the second reading has met.
    met: usize,
    /// The file of the last line that was wanted.
    file: PathBuf,
    /// The file of the oldest line to be shown; the newest file if there is none.
    oldest_file: Option<PathBuf>,
}

/// Where lines begin that are shown forward.
#[derive(Default)]
pub struct Start {
    /// The matches to be shown.
    pub matches: HashSet<Vec<u8>>,
    /// The name of the file of the oldest line to be shown, without an ending.
    pub stem: Option<String>,
}

/// Lines in the order of the log, and how many of them match.
pub type Found = (usize, Vec<(Role, Vec<u8>)>);

/// What is known of a connection of the second reading.
#[derive(Debug, Default)]
struct Near {
    /// Newer lines, which belong to the next match.
    newer: VecDeque<(usize, Vec<u8>)>,
    /// How many older lines are to be shown.
    older: usize,
}

impl<'a> Around<'a> {
    /// This many lines on each side.
    pub fn new(count: usize, gate: &'a mut Gate, scan: &'a mut Scan) -> Self {
        // The second reading repeats what the first one has reported.
        scan.report_once();
        Self {
            gate,
            scan,
            count,
            is_second: false,
            matched: HashMap::new(),
            sessions: HashMap::new(),
            unfinished: 0,
            found: Vec::new(),
            met: 0,
            file: PathBuf::new(),
            oldest_file: None,
        }
    }

    /// The newest lines that match, at most so many, with those around them, in the order of the
    /// log. Also returns how many match.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn find(mut self, place: Input, lines: usize, access: &Access) -> Result<Found, TailError> {
        self.find_matches(place.clone(), lines, access)?;
        let matched = self.matched.len();
        self.find_others(place, access)?;
        // Those that the second reading has not met, because their file was removed, are the
        // oldest.
        let mut rest: Vec<_> = std::mem::take(&mut self.matched).into_iter().collect();
        rest.sort_unstable_by_key(|(_, number)| *number);
        self.found.sort_unstable_by_key(|(met, ..)| std::cmp::Reverse(*met));
        let rest = rest.into_iter().map(|(bytes, _)| (Role::Match, bytes));
        let found = self.found.into_iter().map(|(_, role, bytes)| (role, bytes));
        Ok((matched, rest.chain(found).collect()))
    }

    /// Finds where these lines begin.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn start(
        mut self,
        place: Input,
        lines: usize,
        access: &Access,
    ) -> Result<Start, TailError> {
        match self.find_matches(place.clone(), lines, access) {
            // The follower waits for the first file.
            Err(TailError::Log(ReadError::NoFiles(_))) => return Ok(Start::default()),
            found => found?,
        }
        let mut matches: HashSet<_> = self.matched.keys().cloned().collect();
        self.find_others(place, access)?;
        // Those that the second reading has not met were removed.
        matches.retain(|bytes| !self.matched.contains_key(bytes));
        let name = self.oldest_file.as_deref().and_then(Path::file_name);
        let stem = name.and_then(|name| name.to_str()?.split('.').next().map(str::to_owned));
        Ok(Start { matches, stem })
    }

    fn request(&self, lines: Lines, newest_first: bool) -> Request<'static> {
        let window = self.gate.filter.window();
        Request { from: None, lines, newest_first, window, follow: false }
    }

    /// The first reading.
    fn find_matches(
        &mut self,
        place: Input,
        lines: usize,
        access: &Access,
    ) -> Result<(), TailError> {
        let request = self.request(Lines::Last(lines), false);
        read::read(place, &request, access, self)
    }

    /// The second one.
    fn find_others(&mut self, place: Input, access: &Access) -> Result<(), TailError> {
        self.is_second = true;
        if self.is_done() {
            return Ok(());
        }
        let request = self.request(Lines::All, true);
        read::read(place, &request, access, self)
    }

    /// Whether all lines were found.
    fn is_done(&self) -> bool {
        self.matched.is_empty() && self.unfinished == 0
    }

    fn look_at(&mut self, placed: Placed<'_>) -> Result<bool, String> {
        if !self.is_second {
            return Ok(self.gate.judge(placed)? != Fit::No);
        }
        let sessions = &self.sessions;
        let is_near = self.gate.ask(placed, |filter, line| {
            let is_known = session_of(line).is_some_and(|it| sessions.contains_key(&it));
            Ok(is_known && filter.window().contains(line.ts()))
        })?;
        Ok(is_near || self.matched.contains_key(placed.bytes))
    }

    /// A line of the second reading, which goes backward.
    fn meet(&mut self, bytes: &[u8]) -> Result<(), String> {
        let met = self.met;
        self.met += 1;
        let line = Line::parse(bytes)?;
        let is_match = self.matched.remove(bytes).is_some();
        let near = session_of(&line).and_then(|session| self.sessions.get_mut(&session));
        let Some(near) = near else {
            if is_match {
                self.show_found(met, Role::Match, bytes);
            }
            return Ok(());
        };
        let was_unfinished = near.older > 0;
        let mut role = is_match.then_some(Role::Match);
        if is_match {
            let newer = near.newer.drain(..).map(|(met, bytes)| (met, Role::Context, bytes));
            self.found.extend(newer);
            near.older = self.count;
        } else if near.older > 0 {
            near.older -= 1;
            role = Some(Role::Context);
        } else {
            if near.newer.len() == self.count {
                near.newer.pop_front();
            }
            near.newer.push_back((met, bytes.to_vec()));
        }
        // Nothing of the connection is older than its first event.
        if line.conn_seq == Some(1) {
            near.older = 0;
        }
        self.unfinished += usize::from(near.older > 0);
        self.unfinished -= usize::from(was_unfinished);
        if let Some(role) = role {
            self.show_found(met, role, bytes);
        }
        Ok(())
    }

    fn show_found(&mut self, met: usize, role: Role, bytes: &[u8]) {
        self.found.push((met, role, bytes.to_vec()));
        self.oldest_file = Some(self.file.clone());
    }
}

impl Sink for Around<'_> {
    type Error = TailError;

    fn wants(&mut self, path: &Path, line: Placed<'_>) -> bool {
        self.oldest_file.get_or_insert_with(|| path.to_owned());
        let is_wanted = self.look_at(line).unwrap_or_else(|reason| {
            self.scan.problem_at(path, Some(line.offset), &format!("broken line: {reason}"));
            false
        });
        if is_wanted && self.file != path {
            path.clone_into(&mut self.file);
        }
        is_wanted
    }

    fn show(&mut self, bytes: &[u8]) -> Result<(), TailError> {
        if self.is_second {
            return self.meet(bytes).map_err(TailError::changed);
        }
        let line = Line::parse(bytes).map_err(TailError::changed)?;
        if let Some(session) = session_of(&line) {
            self.sessions.entry(session).or_default();
        }
        self.matched.insert(bytes.to_vec(), self.matched.len());
        Ok(())
    }

    fn problem(&mut self, path: &Path, reason: &str) {
        self.scan.problem_at(path, None, reason);
    }

    fn note(&mut self, text: &str) {
        self.scan.note(text);
    }

    fn out_of_room(&mut self, path: &Path, bytes_max: usize) {
        self.scan.out_of_room(path, bytes_max);
    }

    fn scanned(&mut self, _: u64) -> Result<bool, TailError> {
        Ok(!self.stopped())
    }

    fn stopped(&self) -> bool {
        self.scan.is_stopped() || (self.is_second && self.is_done())
    }

    fn wants_last_run(&self) -> bool {
        !self.is_second && self.gate.filter.wants_last_run()
    }

    fn last_run(&mut self, run: Option<u64>) {
        self.gate.filter.take_last_run(run, self.scan);
    }
}
