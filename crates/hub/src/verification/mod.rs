//! Verifies the replicas while they arrive. One thread reads what has landed, origin by origin, at
//! most [`STEP_BYTES`] of each at a time, so that a large log does not delay the others.
//!
//! Nothing is saved: after a start everything is read again. Until that is done an
//! origin has no [`Seal`].
//!
//! | module | what it owns |
//! |---|---|
//! | `view` | a generation of a replica, as the verifier sees it |
//! | [`seal`] | the result for one origin |

pub mod seal;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::OptionalExtension as _;
use tacho_chain::key::VerifierKey;
use tacho_chain::verify::{Follower, Options};
use tacho_ship::protocol::{FileName, Origin};

use crate::clock::now_us;
use crate::data::DataDirectory;
use crate::database::{Database, DatabaseError};
use crate::landing::feed::Interrupter;
use crate::landing::{Landed, Subscription};
use crate::say::say;
pub use seal::{Seal, SealState};
use view::View;

/// Most bytes of one origin that are read before the others' turn.
const STEP_BYTES: u64 = 256 << 20;
/// Pause between two looks at what has landed.
const PAUSE: Duration = Duration::from_millis(200);
/// Time between two reports on an origin.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// A state that a file in transit explains, too, has to last so long.
const DOUBT: Duration = Duration::from_secs(10);
/// Time between two readings of a whole log because an older file has changed. The newest files are
/// verified meanwhile.
const RESTART_INTERVAL: Duration = Duration::from_secs(300);
/// A reading that takes long takes at most one part in so many of the time.
const RESTART_SHARE: u32 = 4;
/// The verifier yields to threads that receive and index records.
const NICE: i32 = 5;
/// Pause after an error of the disk.
const ERROR_PAUSE: Duration = Duration::from_secs(5);

/// The results, shared with the API; a clone is cheap.
#[derive(Clone, Default)]
pub struct Verification {
    seals: Arc<RwLock<BTreeMap<Origin, Seal>>>,
}

/// The thread.
pub struct Verifier {
    thread: Option<JoinHandle<()>>,
    interrupter: Interrupter,
    stop: Arc<AtomicBool>,
}

impl Verification {
    /// The state of an origin.
    #[must_use]
    pub fn seal(&self, origin: &Origin) -> Option<Seal> {
        self.seals.read().unwrap_or_else(PoisonError::into_inner).get(origin).cloned()
    }

    /// The newest checkpoint of an origin whose signature is good.
    #[must_use]
    pub fn checkpoint(&self, origin: &Origin) -> Option<String> {
        self.seal(origin)?.checkpoint_note
    }

    /// Nothing is final until everything was read again.
    fn reopen(&self, origin: &Origin) {
        let mut seals = self.seals.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(seal) = seals.get_mut(origin) {
            seal.sealed_stem = None;
        }
    }

    fn set(&self, origin: &Origin, seal: Seal) {
        self.seals.write().unwrap_or_else(PoisonError::into_inner).insert(origin.clone(), seal);
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(
        &self,
        data: Arc<DataDirectory>,
        database: Database,
        landed: Subscription,
        hub_key: VerifierKey,
    ) -> io::Result<Verifier> {
        let stop: Arc<AtomicBool> = Arc::default();
        let interrupter = landed.interrupter();
        let (results, origins) = (self.clone(), BTreeMap::new());
        let mut work = Work { results, data, database, hub_key, origins };
        let stopping = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("verifier".to_owned()).spawn(move || {
            // Of this thread alone. If it fails, the verifier competes with other threads.
            let _ = rustix::process::nice(NICE);
            while !stopping.load(Ordering::Relaxed) {
                let pause = if work.is_busy() { Duration::ZERO } else { PAUSE };
                for news in landed.wait(pause) {
                    work.note(news);
                }
                work.turn(&stopping);
                // Many small appends are read together.
                if !work.is_busy() {
                    std::thread::sleep(PAUSE / 4);
                }
            }
        })?;
        Ok(Verifier { thread: Some(thread), interrupter, stop })
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.interrupter.interrupt();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            say("the verifier ended by a panic");
        }
    }
}

struct Work {
    results: Verification,
    data: Arc<DataDirectory>,
    database: Database,
    /// Signs what the hub's retention removes.
    hub_key: VerifierKey,
    origins: BTreeMap<Origin, Followed>,
}

/// One origin: its newest generation.
struct Followed {
    generation: u64,
    follower: Follower,
    hub_key: VerifierKey,
    has_keys: bool,
    landed: BTreeMap<FileName, u64>,
    /// Files of which the follower does not have everything.
    pending: BTreeSet<FileName>,
    /// How much of each it has.
    given: BTreeMap<FileName, u64>,
    next_report: Instant,
    needs_report: bool,
    /// The disk failed: nothing is read before.
    paused_to: Instant,
    /// An older file has changed.
    is_stale: bool,
    next_restart: Instant,
    /// Everything is read again since then.
    restarted: Option<Instant>,
    /// A worse state that may be only a file in transit, and since when.
    doubt: Option<(SealState, Instant)>,
    shown: Option<SealState>,
}

impl Followed {
    fn new(generation: u64, hub_key: VerifierKey) -> Self {
        let options = Options { hub_keys: vec![hub_key.clone()], ..Options::default() };
        Self {
            generation,
            follower: Follower::new(options),
            hub_key,
            has_keys: false,
            landed: BTreeMap::new(),
            pending: BTreeSet::new(),
            given: BTreeMap::new(),
            next_report: Instant::now(),
            needs_report: false,
            paused_to: Instant::now(),
            is_stale: false,
            next_restart: Instant::now(),
            restarted: None,
            doubt: None,
            shown: None,
        }
    }

    fn note(&mut self, file: FileName, offset: u64, was_cut: bool) {
        if offset == 0 {
            self.landed.remove(&file);
            self.pending.remove(&file);
            self.given.remove(&file);
            // Its tombstone is to be read.
            self.needs_report = true;
        } else {
            self.landed.insert(file.clone(), offset);
            self.pending.insert(file);
        }
        if was_cut {
            self.restart();
        }
    }

    /// What was said about older files does not hold until everything was read again.
    fn is_reopened(&self) -> bool {
        self.is_stale || self.restarted.is_some()
    }

    fn has_news(&self) -> bool {
        !self.pending.is_empty()
    }

    fn is_busy(&self, now: Instant) -> bool {
        self.has_news() && self.paused_to <= now
    }

    /// Whether there is something to do.
    fn is_due(&self, now: Instant) -> bool {
        let needs_report = self.needs_report || self.doubt.is_some();
        let is_due = self.has_news()
            || needs_report && self.next_report <= now
            || self.is_stale && self.next_restart <= now;
        is_due && self.paused_to <= now
    }

    /// More of what has landed: the tombstones, because they say which files never arrive, and the
    /// others in the order in which they are shipped. Returns their names.
    fn give(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        let mut left = STEP_BYTES;
        while left > 0 {
            let removed = self.pending.take(&FileName::Removed);
            let Some(name) = removed.or_else(|| self.pending.pop_first()) else { break };
            let landed = self.landed.get(&name).copied().unwrap_or(0);
            let given = self.given.entry(name.clone()).or_default();
            let more = landed.saturating_sub(*given).min(left);
            left -= more;
            *given += more;
            names.push(name.to_string());
            if *given < landed {
                self.pending.insert(name);
            }
        }
        names
    }

    /// Reads everything again, in steps as the first time. The state is shown meanwhile.
    fn restart(&mut self) {
        let now = Instant::now();
        self.follower.restart();
        self.given.clear();
        self.pending = self.landed.keys().cloned().collect();
        self.is_stale = false;
        self.next_restart = now + RESTART_INTERVAL;
        self.restarted = Some(now);
        self.needs_report = true;
    }
}

impl Work {
    fn is_busy(&self) -> bool {
        let now = Instant::now();
        self.origins.values().any(|followed| followed.is_busy(now))
    }

    fn note(&mut self, news: Landed) {
        let hub_key = &self.hub_key;
        let new = || Followed::new(news.generation, hub_key.clone());
        let followed = self.origins.entry(news.origin.clone()).or_insert_with(new);
        if news.generation < followed.generation {
            return;
        }
        if news.generation > followed.generation {
            *followed = Followed::new(news.generation, hub_key.clone());
        }
        followed.note(news.file, news.offset, news.was_cut);
        if followed.is_reopened() {
            self.results.reopen(&news.origin);
        }
    }

    /// A step for every origin that has something to do.
    fn turn(&mut self, stopping: &AtomicBool) {
        let now = Instant::now();
        for (origin, followed) in &mut self.origins {
            if stopping.load(Ordering::Relaxed) {
                return;
            }
            if !followed.is_due(now) {
                continue;
            }
            let result = step(&self.data, &self.database, origin, followed);
            match result {
                Ok(Some(seal)) => self.results.set(origin, seal),
                Ok(None) => {}
                Err(error) => {
                    say(&format!("{origin}: cannot verify the replica: {error}"));
                    followed.restart();
                    followed.paused_to = now + ERROR_PAUSE;
                }
            }
            if followed.is_reopened() {
                self.results.reopen(origin);
            }
        }
    }
}

fn step(
    data: &DataDirectory,
    database: &Database,
    origin: &Origin,
    followed: &mut Followed,
) -> io::Result<Option<Seal>> {
    if followed.is_stale && followed.next_restart <= Instant::now() {
        followed.restart();
    }
    let mut names = followed.give();
    followed.needs_report |= !names.is_empty();
    let directory = data.generation(origin, followed.generation);
    if !followed.has_keys
        && let Some(root) = View::new(directory.clone(), &followed.given, &[]).first_root()?
    {
        let root = pinned(database, origin, &root).map_err(io::Error::other)?;
        let options =
            Options { keys: vec![root], hub_keys: vec![followed.hub_key.clone()], expect: None };
        followed.follower = Follower::new(options);
        followed.has_keys = true;
        names = followed.given.keys().map(ToString::to_string).collect();
    }
    let view = View::new(directory, &followed.given, &names);
    followed.is_stale = followed.follower.advance(&view)?;
    if followed.has_news() || followed.next_report > Instant::now() {
        return Ok(None);
    }
    if !followed.follower.prepare(&view, STEP_BYTES)? {
        return Ok(None);
    }
    let started = Instant::now();
    let report = followed.follower.report(&view)?;
    // A log with very many files takes longer: it must not take the time of the others.
    let now = Instant::now();
    followed.next_report = now + REPORT_INTERVAL.max((now - started) * 10);
    followed.needs_report = false;
    if let Some(restarted) = followed.restarted.take() {
        let pause = (now - restarted) * RESTART_SHARE;
        followed.next_restart = followed.next_restart.max(now + pause);
    }
    let sealed = followed.follower.sealed();
    let unsealed_bytes = view.unsealed_bytes(sealed.as_ref());
    let sealed = sealed.map(|sealed| sealed.stem);
    let lengths = Arc::new(followed.given.clone());
    let mut seal =
        Seal::of(followed.generation, &report, sealed, lengths, unsealed_bytes, now_us());
    if followed.is_stale {
        seal.sealed_stem = None;
    }
    Ok(settle(followed, seal))
}

/// Keeps the former state while a worse one may be only a file in transit. The first one is not
/// shown before it is certain.
fn settle(followed: &mut Followed, mut seal: Seal) -> Option<Seal> {
    let is_doubtful = matches!(seal.state, SealState::Gap | SealState::Unsealed)
        || seal.state == SealState::Broken && seal.may_be_transit;
    if !is_doubtful || followed.shown == Some(seal.state) {
        followed.doubt = None;
        followed.shown = Some(seal.state);
        return Some(seal);
    }
    let since = match followed.doubt {
        Some((state, since)) if state == seal.state => since,
        _ => Instant::now(),
    };
    if since.elapsed() >= DOUBT {
        followed.doubt = None;
        followed.shown = Some(seal.state);
        return Some(seal);
    }
    followed.doubt = Some((seal.state, since));
    seal.state = followed.shown?;
    seal.message = "waiting for the rest of a file".to_owned();
    Some(seal)
}

/// The root key that an origin began with; `None`: nothing of it was verified yet.
///
/// # Errors
/// The database fails.
pub fn root_of(database: &Database, origin: &Origin) -> Result<Option<VerifierKey>, DatabaseError> {
    database.read(|connection| {
        let select = "SELECT root FROM origin_root WHERE origin = ?1";
        let root: Option<String> =
            connection.query_row(select, [origin.as_str()], |row| row.get(0)).optional()?;
        let invalid = DatabaseError::Value { what: "origin_root.root" };
        root.map(|root| root.parse().map_err(|_| invalid)).transpose()
    })
}

/// The root key that the origin began with. The first one counts from then on.
fn pinned(
    database: &Database,
    origin: &Origin,
    found: &VerifierKey,
) -> Result<VerifierKey, DatabaseError> {
    database.write(|transaction| {
        let insert = "INSERT INTO origin_root (origin, root, seen_us) VALUES (?1, ?2, ?3)
            ON CONFLICT (origin) DO NOTHING";
        let values = (origin.as_str(), found.to_string(), now_us());
        transaction.execute(insert, values)?;
        let select = "SELECT root FROM origin_root WHERE origin = ?1";
        let root: Option<String> =
            transaction.query_row(select, [origin.as_str()], |row| row.get(0)).optional()?;
        let root = root.and_then(|root| root.parse().ok());
        root.ok_or(DatabaseError::Value { what: "origin_root.root" })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> FileName {
        text.parse().unwrap()
    }

    #[test]
    fn a_log_is_read_again_in_steps_the_tombstones_first() {
        let (lines, chain) =
            ("audit-20261121T100000Z-000001.jsonl", "audit-20261121T100000Z-000001.chain");
        let key = tacho_chain::key::SecretKey::from_bytes(&[1; 32]).root();
        let mut followed = Followed::new(1, key);
        for (file, bytes) in [(lines, STEP_BYTES + 1), (chain, 7), ("removed.chain", 2)] {
            followed.note(name(file), bytes, false);
        }
        for _ in 0..2 {
            assert_eq!(followed.give(), ["removed.chain", lines]);
            assert!(followed.has_news());
            assert_eq!(followed.give(), [lines, chain]);
            assert!(!followed.has_news() && followed.give().is_empty());
            assert_eq!(followed.given, followed.landed);
            followed.restart();
        }
        // News are given alone.
        while !followed.give().is_empty() {}
        followed.note(name(chain), 8, false);
        assert_eq!(followed.give(), [chain]);
        followed.note(name(chain), 5, true);
        assert_eq!(followed.give().len(), 2, "everything again");
        assert!(followed.next_restart > Instant::now());
    }
}
