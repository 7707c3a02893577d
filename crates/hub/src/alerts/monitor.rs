//! The thread that looks for alerts.

use std::collections::BTreeMap;
use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tacho_ship::protocol::Origin;

use super::conditions::{
    Moment, of_channel, of_disk, of_forecast, of_incident, of_own_log, of_retention,
};
use super::inbox::{Inbox, News};
use super::{Raise, close_others, deliveries, raise};
use crate::audit::Audit;
use crate::clock::{self, now_us};
use crate::database::{Database, DatabaseError};
use crate::landing::{Landing, free_bytes};
use crate::retention::Meter;
use crate::say::say;
use crate::verification::Verification;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// How old the forecast of the disk may be.
const FORECAST_AGE: Duration = Duration::from_secs(60);
/// How long a message may wait for its receiver, µs.
const DELIVERY_US: i64 = 600_000_000;

/// What the thread looks at.
pub struct Watched {
    /// Receives logs.
    pub landing: Landing,
    /// States of the seals.
    pub verification: Verification,
    /// The hub's own log.
    pub audit: Audit,
    /// What the logs need of the disk.
    pub storage: Meter,
}

/// The thread, until it is dropped.
pub struct Monitor {
    thread: Option<JoinHandle<()>>,
    inbox: Inbox,
}

impl Monitor {
    /// Starts the thread.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(inbox: Inbox, database: Database, watched: Watched) -> io::Result<Self> {
        let incidents = inbox.clone();
        let mut work = Work {
            database,
            watched,
            started_us: now_us(),
            unsealed: BTreeMap::new(),
            raised: None,
        };
        let thread = std::thread::Builder::new().name("monitor".to_owned());
        let thread = thread.spawn(move || work.run(&incidents))?;
        Ok(Self { thread: Some(thread), inbox })
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.inbox.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            say("the monitor ended by a panic");
        }
    }
}

struct Work {
    database: Database,
    watched: Watched,
    started_us: i64,
    /// Since when there are lines without a frame or a file is awaited, and up to which frame.
    unsealed: BTreeMap<Origin, (u64, i64)>,
    /// What is in the database.
    raised: Option<Vec<Raise>>,
}

impl Work {
    fn run(&mut self, incidents: &Inbox) {
        let mut next_look = Instant::now() + INTERVAL;
        loop {
            let pause = next_look.saturating_duration_since(Instant::now());
            match incidents.next(pause) {
                News::Incident(incident) => say_if_failed(self.store(&of_incident(&incident))),
                News::Timeout => {}
                News::Stop => return,
            }
            // Incidents without end do not hide what else is wrong.
            if next_look <= Instant::now() {
                say_if_failed(self.look());
                next_look = Instant::now() + INTERVAL;
            }
        }
    }

    fn store(&self, new: &Raise) -> Result<(), DatabaseError> {
        self.database.write(|transaction| raise(transaction, new, now_us()))
    }

    fn look(&mut self) -> Result<(), DatabaseError> {
        let found = self.conditions()?;
        if self.raised.as_ref() == Some(&found) {
            return Ok(());
        }
        let now_us = now_us();
        let known = self.raised.take().unwrap_or_default();
        self.database.write(|transaction| {
            for new in found.iter().filter(|new| !known.contains(new)) {
                raise(transaction, new, now_us)?;
            }
            close_others(transaction, &found, now_us)
        })?;
        self.raised = Some(found);
        Ok(())
    }

    fn conditions(&mut self) -> Result<Vec<Raise>, DatabaseError> {
        let now = clock::Moment::now();
        let mut found = Vec::new();
        for (origin, view, shippers) in self.watched.landing.origins() {
            let seal = self.watched.verification.seal(&origin);
            let unsealed_since_us = seal.as_ref().and_then(|seal| {
                if seal.unsealed_bytes == 0 && !seal.awaits_file {
                    self.unsealed.remove(&origin);
                    return None;
                }
                let new = (seal.sealed_seq, now.wall_us);
                let known = self.unsealed.entry(origin.clone()).or_insert(new);
                if known.0 != seal.sealed_seq {
                    *known = new;
                }
                Some(known.1)
            });
            let moment = Moment {
                origin: &origin,
                view: &view,
                shippers: &shippers,
                seal: seal.as_ref(),
                unsealed_since_us,
                started_us: self.started_us,
                now,
            };
            found.extend(moment.conditions());
        }
        let landing = &self.watched.landing;
        match free_bytes(landing.data().path()) {
            Ok(free) => found.extend(of_disk(free, landing.reserve_bytes())),
            Err(error) => say(&format!("cannot read the free space: {error}")),
        }
        match self.watched.storage.measured(FORECAST_AGE) {
            Ok(storage) => found.extend(of_forecast(&storage)),
            Err(error) => say(&format!("no forecast of the disk: {error}")),
        }
        let failures = self.watched.storage.failures();
        found.extend(failures.into_iter().map(|(origin, error)| of_retention(origin, error)));
        found.extend(self.watched.audit.trouble().map(|reason| of_own_log(&reason)));
        let waiting = deliveries::undelivered(&self.database, now.wall_us - DELIVERY_US)?;
        found.extend(waiting.into_iter().map(|(channel, error)| of_channel(channel, &error)));
        Ok(found)
    }
}

fn say_if_failed(stored: Result<(), DatabaseError>) {
    if let Err(error) = stored {
        say(&format!("cannot store an alert: {error}"));
    }
}
