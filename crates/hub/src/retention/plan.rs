//! Which files of a log are due.
//!
//! Files are removed from the oldest to newer ones, by the time of their last record. The first one
//! that is not due, or cannot be removed yet, ends the search: so a clock that was set back for a
//! while removes nothing early.

use std::io::{self, Read as _};
use std::path::Path;

use tacho_chain::verify::LogState;
use tacho_replica::ReplicaFile;
use tacho_ship::protocol::{FileName, Origin, Stem};
use tacho_store::Position;

use super::burial::Due;
use super::clock::Clock;
use super::forecast::DAY_US;
use crate::landing::removed::{Held, HeldFiles};
use crate::verification::{Seal, SealState};

/// The time in the name of a log file: `audit-20261121T100000Z-000001`.
const TIME: std::ops::Range<usize> = 6..22;

/// Why a file that is due is not removed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Its records are not all in the index.
    Index,
    /// Its seal is not verified.
    Verification,
    /// An alert says that the log was changed, and is not acknowledged.
    Alert,
    /// No server confirms the hub's clock.
    Clock,
}

impl Wait {
    /// Its word in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Verification => "verification",
            Self::Alert => "alert",
            Self::Clock => "clock",
        }
    }
}

/// What the search needs to know of a log.
pub struct Log<'a> {
    /// Its name.
    pub origin: &'a Origin,
    /// Its current generation.
    pub generation: u64,
    /// Its files.
    pub held: &'a HeldFiles,
    /// Its seal; none: not all of it was read yet.
    pub seal: Option<&'a Seal>,
    /// How far a file is indexed.
    pub indexed: &'a dyn Fn(u64, &Stem) -> Option<Position>,
    /// Whether there is a whole line in a file behind an offset.
    pub has_line: &'a dyn Fn(u64, &Stem, u64) -> io::Result<bool>,
    /// An alert forbids to remove anything.
    pub is_held: bool,
    /// How many bad findings of the seal a person has acknowledged.
    pub acknowledged: Option<u64>,
    /// The hub's clock.
    pub clock: Clock,
    /// The retention; 0: for ever.
    pub days: u64,
}

/// Files to remove, and why there are not more.
#[derive(Debug, Default)]
pub struct Plan {
    /// The files, the oldest first.
    pub due: Vec<Due>,
    /// What the next one waits for.
    pub wait: Option<Wait>,
}

impl Log<'_> {
    /// The files that are due, `most` at most.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn plan(&self, most: usize) -> io::Result<Plan> {
        let mut plan = Plan::default();
        if self.days == 0 {
            return Ok(plan);
        }
        let days_us = DAY_US.saturating_mul(i64::try_from(self.days).unwrap_or(i64::MAX));
        let limit_us = self.clock.now_us.saturating_sub(days_us);
        // It grows, and the next start of the recorder continues it.
        let is_current = |(_, copies): &(&Stem, &_)| has(copies, self.generation);
        let newest = self.held.iter().rfind(is_current).map(|(stem, _)| stem);
        for (stem, copies) in self.held {
            if plan.due.len() >= most || newest.is_none_or(|newest| stem >= newest) {
                break;
            }
            let newest_us = match self.newest_us(stem, copies)? {
                Some(newest_us) => newest_us,
                // Due or not, it is the oldest one, and those behind it wait.
                None => {
                    plan.wait = Some(Wait::Index);
                    break;
                }
            };
            if newest_us > limit_us {
                break;
            }
            if !self.clock.is_confirmed {
                plan.wait = Some(Wait::Clock);
                break;
            }
            if self.is_held {
                plan.wait = Some(Wait::Alert);
                break;
            }
            let Some(generations) = self.generations(stem, copies) else {
                plan.wait = Some(Wait::Verification);
                break;
            };
            // The alert of what was found is written later.
            if !self.may_remove(&generations) {
                plan.wait = Some(Wait::Alert);
                break;
            }
            let (origin, stem, days) = (self.origin.clone(), stem.clone(), self.days);
            plan.due.push(Due { origin, stem, generations, newest_us, days });
        }
        Ok(plan)
    }

    /// Time of the last record; `None`: not all of the file is indexed.
    pub fn newest_us(&self, stem: &Stem, copies: &Copies) -> io::Result<Option<i64>> {
        let mut newest_us = 0;
        let mut known = Vec::new();
        for (&generation, held) in copies {
            let length = held.lines.unwrap_or(0);
            let Some(position) = (self.indexed)(generation, stem) else { continue };
            let is_behind = position.offset < length;
            if is_behind && (self.has_line)(generation, stem, position.offset)? {
                return Ok(None);
            }
            newest_us = newest_us.max(position.last_ts_us);
            known.push(length);
        }
        // A copy that a later generation shares is indexed once.
        let is_known = |held: &Held| held.lines.is_none_or(|it| it == 0 || known.contains(&it));
        if !copies.values().all(is_known) {
            return Ok(None);
        }
        Ok(Some(if newest_us == 0 { begin_us(stem) } else { newest_us }))
    }

    /// The generations that have a file, with what was found in each; `None`: it is not known yet.
    fn generations(&self, stem: &Stem, copies: &Copies) -> Option<Vec<(u64, Option<LogState>)>> {
        let seal = self.seal.filter(|seal| seal.generation == self.generation)?;
        let state = |(&generation, held): (&u64, &Held)| {
            if generation != self.generation {
                // Former generations are not verified any more.
                return Some((generation, None));
            }
            seal.state_of(stem, *held).map(|state| (generation, Some(state)))
        };
        copies.iter().map(state).collect()
    }

    /// Whether nothing was changed in a file, or a person has seen all that was changed in the log.
    fn may_remove(&self, generations: &[(u64, Option<LogState>)]) -> bool {
        let is_broken = |state: LogState| SealState::of(state) == SealState::Broken;
        let found = self.seal.map_or(0, |seal| seal.broken);
        !generations.iter().filter_map(|(_, state)| *state).any(is_broken)
            || self.acknowledged.is_some_and(|acknowledged| acknowledged >= found)
    }
}

type Copies = std::collections::BTreeMap<u64, Held>;

fn has(copies: &Copies, generation: u64) -> bool {
    copies.contains_key(&generation)
}

/// When a file began, as its name says, µs since 1970-01-01 UTC.
#[must_use]
pub fn begin_us(stem: &Stem) -> i64 {
    let time = stem.as_str().get(TIME).and_then(|time| time.parse::<jiff::Timestamp>().ok());
    // A name with a time that no calendar has: it is kept.
    time.map_or(i64::MAX, jiff::Timestamp::as_microsecond)
}

/// Whether there is a newline behind an offset of a file of the replica.
///
/// # Errors
/// The file cannot be read.
pub fn has_line(directory: &Path, stem: &Stem, offset: u64) -> io::Result<bool> {
    let path = directory.join(FileName::Lines(stem.clone()).to_string());
    let mut file = ReplicaFile::open(&path)?.into_reader(offset);
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = match file.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        if count == 0 || buffer[..count].contains(&b'\n') {
            return Ok(count > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tacho_chain::verify::{Finding, Report};

    use super::*;

    const NOW_US: i64 = 1_000 * DAY_US;
    const STEMS: [&str; 4] = [
        "audit-20261121T100000Z-000001",
        "audit-20261121T110000Z-000002",
        "audit-20261121T120000Z-000003",
        "audit-20261121T130000Z-000004",
    ];

    /// Four sealed files of 10 bytes: ages of their last records in days.
    struct Case {
        held: HeldFiles,
        positions: BTreeMap<(u64, String), Position>,
        sealed: &'static str,
        is_held: bool,
        acknowledged: Option<u64>,
        /// Of the first file.
        found: Vec<LogState>,
        is_clock_confirmed: bool,
        days: u64,
    }

    fn case(ages: [i64; 4]) -> Case {
        let mut case = Case {
            held: HeldFiles::new(),
            positions: BTreeMap::new(),
            sealed: STEMS[3],
            is_held: false,
            acknowledged: None,
            found: Vec::new(),
            is_clock_confirmed: true,
            days: 30,
        };
        for (stem, age) in STEMS.into_iter().zip(ages) {
            let held = Held { lines: Some(10), chain: Some(5) };
            case.held.insert(stem.parse().unwrap(), BTreeMap::from([(1, held)]));
            let position = Position { offset: 10, last_ts_us: NOW_US - age * DAY_US };
            case.positions.insert((1, stem.to_owned()), position);
        }
        case
    }

    impl Case {
        fn plan(&self, generation: u64) -> (usize, Option<Wait>) {
            let origin = "db1".parse().unwrap();
            let sealed = Some(self.sealed.to_owned());
            let lengths = self.lengths(generation).into();
            let finding = |state: &LogState| Finding {
                state: *state,
                file: format!("{}.chain", STEMS[0]),
                line: None,
                seqs: None,
                text: String::new(),
            };
            let mut report = Report::default();
            report.findings.extend(self.found.iter().map(finding));
            let mut seal = Seal::of(generation, &report, sealed, lengths, 0, 0);
            seal.broken = self.found.len() as u64;
            let plan = Log {
                origin: &origin,
                generation,
                held: &self.held,
                seal: Some(&seal),
                indexed: &|generation, stem| {
                    self.positions.get(&(generation, stem.to_string())).copied()
                },
                has_line: &|_, _, offset| Ok(offset < 9),
                is_held: self.is_held,
                acknowledged: self.acknowledged,
                clock: Clock { now_us: NOW_US, is_confirmed: self.is_clock_confirmed },
                days: self.days,
            };
            let plan = plan.plan(3).unwrap();
            (plan.due.len(), plan.wait)
        }

        /// Everything was verified.
        fn lengths(&self, generation: u64) -> BTreeMap<FileName, u64> {
            let held = |(stem, copies): (&Stem, &Copies)| {
                let held = copies.get(&generation).copied().unwrap_or_default();
                [
                    (FileName::Lines(stem.clone()), held.lines.unwrap_or(0)),
                    (FileName::Chain(stem.clone()), held.chain.unwrap_or(0)),
                ]
            };
            self.held.iter().flat_map(held).collect()
        }

        fn copies(&mut self, at: usize) -> &mut Copies {
            self.held.get_mut(&STEMS[at].parse().unwrap()).unwrap()
        }
    }

    #[test]
    fn the_oldest_files_are_due_and_never_the_newest() {
        assert_eq!(case([50, 40, 31, 31]).plan(1), (3, None));
        assert_eq!(case([50, 40, 29, 0]).plan(1), (2, None));
        assert_eq!(case([9, 9, 9, 9]).plan(1), (0, None));
        assert_eq!(Case { days: 0, ..case([50, 40, 31, 31]) }.plan(1), (0, None));
        // A clock that was set back for a while.
        assert_eq!(case([9, 500, 500, 0]).plan(1), (0, None));
    }

    #[test]
    fn a_file_waits_for_index_verification_and_people() {
        let mut behind = case([50, 40, 31, 0]);
        behind.positions.get_mut(&(1, STEMS[1].to_owned())).unwrap().offset = 8;
        assert_eq!(behind.plan(1), (1, Some(Wait::Index)));
        // What is left is not a line.
        behind.positions.get_mut(&(1, STEMS[1].to_owned())).unwrap().offset = 9;
        assert_eq!(behind.plan(1), (3, None));
        behind.positions.remove(&(1, STEMS[1].to_owned()));
        assert_eq!(behind.plan(1), (1, Some(Wait::Index)));
        let unverified = Case { sealed: STEMS[1], ..case([50, 40, 31, 0]) };
        assert_eq!(unverified.plan(1), (1, Some(Wait::Verification)));
        let held = Case { is_held: true, ..case([50, 40, 31, 0]) };
        assert_eq!(held.plan(1), (0, Some(Wait::Alert)));
        assert_eq!(Case { is_held: true, ..case([9, 9, 9, 9]) }.plan(1), (0, None));
        let unconfirmed = |ages| Case { is_clock_confirmed: false, ..case(ages) }.plan(1);
        assert_eq!(unconfirmed([50, 40, 31, 0]), (0, Some(Wait::Clock)));
        assert_eq!(unconfirmed([9, 9, 9, 9]), (0, None));
    }

    /// The monitor writes alerts later than a file has its state.
    #[test]
    fn a_file_that_was_changed_waits_for_people_before_there_is_an_alert() {
        for state in LogState::ALL {
            let found = |acknowledged| {
                let found = vec![state, state];
                Case { found, acknowledged, ..case([50, 40, 31, 0]) }.plan(1)
            };
            let is_broken = SealState::of(state) == SealState::Broken;
            let held = if is_broken { (0, Some(Wait::Alert)) } else { (3, None) };
            assert_eq!([None, Some(1), Some(2)].map(found), [held, held, (3, None)], "{state:?}");
        }
    }

    #[test]
    fn generations_that_share_a_file_are_indexed_once() {
        let mut case = case([50, 40, 31, 0]);
        for (at, stem) in STEMS.into_iter().enumerate().take(3) {
            let held = Held { lines: Some(10), chain: Some(5) };
            case.copies(at).extend([(2, held), (3, held)]);
            let same = Position { offset: 10, last_ts_us: 0 };
            case.positions.insert((3, stem.to_owned()), same);
        }
        // The newest file of generation 3 is the third one.
        assert_eq!(case.plan(3), (2, None));
        case.copies(1).insert(2, Held { lines: Some(11), chain: None });
        assert_eq!(case.plan(3), (1, Some(Wait::Index)));
    }

    #[test]
    fn a_file_without_records_has_the_time_in_its_name() {
        assert_eq!(begin_us(&STEMS[0].parse().unwrap()), 1_795_255_200_000_000);
        assert_eq!(begin_us(&"audit-20269999T100000Z-000001".parse().unwrap()), i64::MAX);
        let mut case = case([50, 40, 31, 0]);
        case.copies(0).insert(1, Held { lines: Some(0), chain: Some(5) });
        case.positions.remove(&(1, STEMS[0].to_owned()));
        // 2026 is in the future of this test.
        assert_eq!(case.plan(1), (0, None));
    }

    #[test]
    fn a_newline_behind_an_offset_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let stem: Stem = STEMS[0].parse().unwrap();
        let text = format!("one\n{}", "x".repeat(100_000));
        std::fs::write(directory.path().join(format!("{stem}.jsonl")), &text).unwrap();
        assert!(has_line(directory.path(), &stem, 0).unwrap());
        assert!(!has_line(directory.path(), &stem, 4).unwrap());
        std::fs::write(directory.path().join(format!("{stem}.jsonl")), text + "\n").unwrap();
        assert!(has_line(directory.path(), &stem, 4).unwrap());
    }
}
