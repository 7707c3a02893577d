//! The thread that compresses log files of the replica that are complete, one at a time.
//!
//! A file is complete when the verification has read all of it, and a later file of the log. The
//! thread takes at most half of a core, and less if others need it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use tacho_ship::protocol::{FileName, Origin, Stem};

use crate::landing::compress::{Outcome, Step};
use crate::landing::removed::HeldFiles;
use crate::landing::{Landing, OriginView};
use crate::say::say;
use crate::verification::{Seal, SealState, Verification};
use crate::worker::{Stop, Worker};

/// Time between two looks for files that have been completed.
const TICK: Duration = Duration::from_secs(1);
/// Time before a file is tried again that could not be compressed.
const RETRY: Duration = Duration::from_secs(60);
/// The thread never pauses longer between two parts of a file.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// The thread yields to all others.
const NICE: i32 = 19;

/// The thread, until it is dropped.
pub struct Compression {
    _worker: Worker,
}

impl Compression {
    /// Starts the thread.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(landing: Landing, verification: Verification) -> io::Result<Self> {
        let mut work = Work {
            landing,
            verification,
            seen: BTreeMap::new(),
            plain: BTreeSet::new(),
            retry_at: None,
            said: String::new(),
        };
        Ok(Self { _worker: Worker::start("compression", move |stop| work.run(stop))? })
    }
}

/// A change of these can complete files: the generation, its number of files, and the generation
/// and the newest file that were verified.
type Progress = (u64, usize, u64, Option<String>);

struct Work {
    landing: Landing,
    verification: Verification,
    /// The progress of each log at the last look.
    seen: BTreeMap<Origin, Progress>,
    /// Files that stay plain.
    plain: BTreeSet<(Origin, u64, Stem)>,
    /// Something could not be compressed.
    retry_at: Option<Instant>,
    /// The last error.
    said: String,
}

impl Work {
    fn run(&mut self, stop: &Stop) {
        // Of this thread alone. A container may forbid it; the pauses remain.
        let _ = rustix::process::nice(NICE);
        loop {
            self.look(stop);
            if stop.wait(TICK) {
                return;
            }
        }
    }

    fn look(&mut self, stop: &Stop) {
        let is_retry = self.retry_at.is_some_and(|at| at <= Instant::now());
        if is_retry {
            self.retry_at = None;
            self.seen.clear();
        }
        for (origin, view, _) in self.landing.origins() {
            let Some(seal) = self.verification.seal(&origin) else { continue };
            let newest = seal.newest_sealed().map(str::to_owned);
            let progress = (view.generation, view.files, seal.generation, newest);
            if stop.is_asked() || self.seen.get(&origin) == Some(&progress) {
                continue;
            }
            if let Err(error) = self.compress_log(&origin, &view, &seal, stop) {
                self.fail(&format!("{origin}: {error}"));
            }
            self.seen.insert(origin, progress);
        }
        if is_retry && self.retry_at.is_none() {
            // An error after that is new.
            self.said.clear();
        }
    }

    fn compress_log(
        &mut self,
        origin: &Origin,
        view: &OriginView,
        seal: &Seal,
        stop: &Stop,
    ) -> io::Result<()> {
        let landing = self.landing.clone();
        let held = landing.held(origin)?;
        let path = |number: u64, name: &str| landing.data().generation(origin, number).join(name);
        let complete = complete(&held, view.generation, seal).map(|stem| (view.generation, stem));
        for (generation, stem) in complete.chain(former(&held, view.generation)) {
            let name = FileName::Lines(stem.clone()).to_string();
            let key = (origin.clone(), generation, stem.clone());
            let is_shared = || {
                generation != view.generation
                    && is_same_file(&path(generation, &name), &path(view.generation, &name))
            };
            if self.plain.contains(&key) || !path(generation, &name).exists() || is_shared() {
                continue;
            }
            let mut pace = Pace::new(stop);
            let go_on = &mut |step| pace.go_on(step);
            match landing.compress(origin, generation, stem, go_on) {
                Ok(Outcome::Compressed(..)) => {}
                // It may be complete again without a new file.
                Ok(Outcome::Changed) => self.retry_at = Some(Instant::now() + RETRY),
                Ok(Outcome::StaysPlain) => drop(self.plain.insert(key)),
                Ok(Outcome::Stopped) => return Ok(()),
                Ok(Outcome::NoSpace) => {
                    let text = "the disk has no space for its compressed form";
                    self.fail(&format!("{origin}: {name}: {text}; it is tried again"));
                }
                Err(error) => self.fail(&format!("{origin}: {name}: {error}")),
            }
        }
        Ok(())
    }

    /// An error that lasts is said once.
    fn fail(&mut self, text: &str) {
        self.retry_at = Some(Instant::now() + RETRY);
        let text = format!("cannot compress the log of {text}");
        if self.said != text {
            say(&text);
            self.said = text;
        }
    }
}

/// The log files that are complete: the verification has read all of them, and found no change.
/// What was changed stays as it is.
fn complete<'a>(
    held: &'a HeldFiles,
    generation: u64,
    seal: &'a Seal,
) -> impl Iterator<Item = &'a Stem> {
    let newest = held.iter().rfind(|(_, copies)| copies.contains_key(&generation));
    let older = held.iter().take_while(move |(stem, _)| newest.is_some_and(|it| *stem < it.0));
    older.filter_map(move |(stem, copies)| {
        let parts = copies.get(&generation).filter(|_| seal.generation == generation)?;
        let state = seal.state_of(stem, *parts)?;
        (SealState::of(state) != SealState::Broken).then_some(stem)
    })
}

/// The log files of former generations: nothing lands there any more.
fn former(held: &HeldFiles, generation: u64) -> impl Iterator<Item = (u64, &Stem)> {
    held.iter().flat_map(move |(stem, copies)| {
        copies.range(..generation).map(move |(number, _)| (*number, stem))
    })
}

/// Whether both are the same file on the disk.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| path.symlink_metadata().ok().map(|file| (file.dev(), file.ino()));
    id(one).is_some_and(|it| id(other) == Some(it))
}

/// Leaves the processor to others for as long as a part has taken.
struct Pace<'a> {
    stop: &'a Stop,
    since: Instant,
}

impl<'a> Pace<'a> {
    fn new(stop: &'a Stop) -> Self {
        Self { stop, since: Instant::now() }
    }

    fn go_on(&mut self, step: Step) -> bool {
        // Shippers wait while names change.
        if matches!(step, Step::Write | Step::Check) {
            std::thread::sleep(self.since.elapsed().min(PAUSE_MAX));
        }
        self.since = Instant::now();
        !self.stop.is_asked()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use tacho_chain::verify::{Finding, LogState, Report};

    use super::*;
    use crate::landing::removed::Held;

    const STEMS: [&str; 4] = [
        "audit-20261121T100000Z-000001",
        "audit-20261121T110000Z-000002",
        "audit-20261121T120000Z-000003",
        "audit-20261121T130000Z-000004",
    ];

    /// How many of four sealed files of 10 bytes are complete.
    fn complete_files(
        sealed: &str,
        read: u64,
        found: Option<LogState>,
        generation: u64,
    ) -> Vec<usize> {
        let parts = Held { lines: Some(10), chain: Some(5) };
        let held: HeldFiles = STEMS
            .iter()
            .map(|stem| (stem.parse().unwrap(), BTreeMap::from([(1, parts)])))
            .collect();
        let lengths = STEMS.iter().flat_map(|stem| {
            let stem: Stem = stem.parse().unwrap();
            [(FileName::Lines(stem.clone()), read), (FileName::Chain(stem), 5)]
        });
        let mut report = Report::default();
        let file = format!("{}.chain", STEMS[1]);
        let finding = |state| Finding { state, file, line: None, seqs: None, text: String::new() };
        report.findings.extend(found.map(finding));
        let lengths = Arc::new(lengths.collect());
        let seal = Seal::of(generation, &report, Some(sealed.to_owned()), lengths, 0, 0);
        let numbers = complete(&held, generation, &seal)
            .map(|stem| STEMS.iter().position(|it| *it == stem.as_str()).unwrap());
        numbers.collect()
    }

    #[test]
    fn files_are_complete_when_a_later_one_is_verified() {
        assert_eq!(complete_files(STEMS[3], 10, None, 1), [0, 1, 2]);
        assert_eq!(complete_files(STEMS[1], 10, None, 1), [0]);
        assert_eq!(complete_files(STEMS[3], 9, None, 1), [0; 0], "not all of it was read");
        assert_eq!(complete_files(STEMS[3], 10, None, 2), [0; 0], "another generation");
        assert_eq!(complete_files(STEMS[3], 10, Some(LogState::Modified), 1), [0, 2]);
        assert_eq!(complete_files(STEMS[3], 10, Some(LogState::Recovered), 1), [0, 1, 2]);
    }
}
