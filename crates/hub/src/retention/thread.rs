//! The thread that removes what is due.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::OptionalExtension as _;
use tacho_ship::protocol::{Origin, Stem};

use super::clock::Clock;
use super::plan::{Log, Plan, Wait, has_line};
use super::settings::{self, Settings};
use super::steps::{Failures, RetentionError, Steps, key};
use super::storage::Obstacles;
use crate::alerts::conditions::of_generation;
use crate::database::{Database, DatabaseError};
use crate::landing::OriginView;
use crate::say::say;
use crate::verification::Verification;
use crate::worker::{Stop, Worker};

/// Time between two looks at the settings.
const TICK: Duration = Duration::from_secs(1);
/// Time between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(60);
/// The same while something is due that has to wait.
const WAITING: Duration = Duration::from_secs(5);
/// Files of one log that are removed together: what the index needs of the disk meanwhile is
/// limited by it.
const TOGETHER_MAX: usize = 24;

/// The thread, until it is dropped.
pub struct Retention {
    _worker: Worker,
}

impl Retention {
    /// Starts the thread, which first completes what a crash has interrupted. `local`: the logs of
    /// the hub's machine.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(
        steps: Steps,
        verification: Verification,
        obstacles: Obstacles,
        local: BTreeSet<Origin>,
    ) -> io::Result<Self> {
        let mut work = Work {
            steps,
            verification,
            settings: None,
            obstacles,
            local,
            is_complete: false,
            said: String::new(),
        };
        Ok(Self { _worker: Worker::start("retention", move |stop| work.run(stop))? })
    }
}

struct Work {
    steps: Steps,
    verification: Verification,
    settings: Option<Settings>,
    /// What the next files wait for, and why they cannot be removed.
    obstacles: Obstacles,
    /// The logs of the hub's machine.
    local: BTreeSet<Origin>,
    /// Nothing is left of an earlier removal.
    is_complete: bool,
    /// The last error.
    said: String,
}

impl Work {
    fn run(&mut self, stop: &Stop) {
        let mut next_look = Instant::now();
        loop {
            match settings::load(&self.steps.database) {
                Ok(settings) => {
                    if self.settings.as_ref() != Some(&settings) {
                        next_look = Instant::now();
                        self.settings = Some(settings);
                    }
                }
                Err(error) => self.say(&error),
            }
            if next_look <= Instant::now() {
                let result = self.look(stop);
                let is_waiting =
                    hold(&self.obstacles.waits).values().any(|wait| !matches!(wait, Wait::Clock));
                let has_failed = result.as_ref().map_or(true, |failures| !failures.is_empty());
                let pause = if is_waiting || has_failed { WAITING } else { INTERVAL };
                next_look = Instant::now() + pause;
                let failures = match result {
                    Ok(failures) => failures.into_iter().map(|(at, it)| (Some(at), it)).collect(),
                    Err(error) => BTreeMap::from([(None, error)]),
                };
                self.report(&failures);
            }
            if stop.wait(TICK) {
                return;
            }
        }
    }

    /// Says why something could not be removed; the monitor raises alerts.
    fn report(&mut self, failures: &BTreeMap<Option<Origin>, RetentionError>) {
        if failures.is_empty() {
            self.said.clear();
        } else {
            let texts = failures.values().map(ToString::to_string);
            self.say(&texts.collect::<Vec<_>>().join("; "));
        }
        let texts = failures.iter().map(|(origin, error)| (origin.clone(), error.to_string()));
        *hold(&self.obstacles.failures) = texts.collect();
    }

    /// An error that lasts is said once.
    fn say(&mut self, error: &dyn std::fmt::Display) {
        let text = format!("retention: {error}");
        if self.said != text {
            say(&text);
            self.said = text;
        }
    }

    /// Removes what is due. Returns the logs that have to be looked at again soon.
    fn look(&mut self, stop: &Stop) -> Result<Failures, RetentionError> {
        let mut failures = Failures::new();
        if !self.is_complete {
            failures = self.steps.complete()?;
            self.is_complete = failures.is_empty();
        }
        let Some(settings) = self.settings.clone() else { return Ok(failures) };
        loop {
            let mut due = Vec::new();
            let mut waits = BTreeMap::new();
            let clock = Clock::read(&self.steps.landing, &self.local);
            for (origin, view, _) in self.steps.landing.origins() {
                if failures.contains_key(&origin) {
                    continue;
                }
                match self.plan(&origin, &view, &settings, clock) {
                    Ok(plan) => {
                        due.extend(plan.due);
                        waits.extend(plan.wait.map(|wait| (origin, wait)));
                    }
                    Err(error @ RetentionError::Replica { .. }) => {
                        failures.insert(origin, error);
                    }
                    Err(error) => return Err(error),
                }
            }
            *hold(&self.obstacles.waits) = waits;
            if due.is_empty() || stop.is_asked() {
                return Ok(failures);
            }
            // If it fails in the middle, the rest is done at the next look.
            self.is_complete = false;
            failures.extend(self.steps.remove(&due)?);
            self.is_complete = failures.is_empty();
        }
    }

    fn plan(
        &self,
        origin: &Origin,
        view: &OriginView,
        settings: &Settings,
        clock: Clock,
    ) -> Result<Plan, RetentionError> {
        let error = |source| RetentionError::Replica { origin: origin.clone(), source };
        let Steps { landing, store, data, database, .. } = &self.steps;
        let held = landing.held(origin).map_err(error)?;
        let seal = self.verification.seal(origin);
        let indexed = |generation: u64, stem: &Stem| store.indexed(&key(origin, generation, stem)?);
        let log = Log {
            origin,
            generation: view.generation,
            held: &held,
            seal: seal.as_ref(),
            indexed: &indexed,
            has_line: &|generation, stem, offset| {
                has_line(&data.generation(origin, generation), stem, offset)
            },
            is_held: is_held(database, origin)?,
            acknowledged: acknowledged(database, origin, view.generation)?,
            clock,
            days: settings.days(origin),
        };
        log.plan(TOGETHER_MAX).map_err(error)
    }
}

fn hold<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an alert says that the log, or its copy, was changed, and is not acknowledged. Evidence
/// of a change is not removed before a person has seen it.
fn is_held(database: &Database, origin: &Origin) -> Result<bool, DatabaseError> {
    database.read(|connection| {
        let select = "SELECT EXISTS (SELECT 1 FROM alert WHERE server = ?1 AND state = 'open'
            AND rule IN ('tampered', 'seal_broken', 'replica_cut'))";
        Ok(connection.query_row(select, [origin.as_str()], |row| row.get(0))?)
    })
}

/// How many bad findings of the seal of a generation a person has acknowledged.
fn acknowledged(
    database: &Database,
    origin: &Origin,
    generation: u64,
) -> Result<Option<u64>, DatabaseError> {
    database.read(|connection| {
        let select = "SELECT count FROM alert WHERE rule = 'seal_broken' AND server = ?1
            AND subject = ?2 AND state = 'acknowledged'";
        let key = (origin.as_str(), of_generation(generation));
        let count: Option<i64> = connection.query_row(select, key, |row| row.get(0)).optional()?;
        Ok(count.map(i64::unsigned_abs))
    })
}
