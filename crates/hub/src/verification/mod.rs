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

use std::collections::BTreeMap;
use std::io;
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
pub use seal::{Newest, Seal, SealState};
use view::View;

/// Most bytes of one origin that are read before the others' turn.
const STEP_BYTES: u64 = 256 << 20;
/// Pause between two looks at what has landed.
const PAUSE: Duration = Duration::from_millis(200);
/// Time between two reports on an origin.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// A state that a file in transit explains, too, has to last so long.
const DOUBT: Duration = Duration::from_secs(10);
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
    stop: Arc<std::sync::atomic::AtomicBool>,
}

impl Verification {
    /// The state of an origin.
    #[must_use]
    pub fn seal(&self, origin: &Origin) -> Option<Seal> {
        self.seals.read().unwrap_or_else(PoisonError::into_inner).get(origin).cloned()
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
    ) -> io::Result<Verifier> {
        let stop: Arc<std::sync::atomic::AtomicBool> = Arc::default();
        let interrupter = landed.interrupter();
        let mut work = Work { results: self.clone(), data, database, origins: BTreeMap::new() };
        let stopping = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("verifier".to_owned()).spawn(move || {
            while !stopping.load(std::sync::atomic::Ordering::Relaxed) {
                let pause = if work.is_busy() { Duration::ZERO } else { PAUSE };
                for news in landed.wait(pause) {
                    work.note(news);
                }
                work.turn();
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
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
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
    origins: BTreeMap<Origin, Followed>,
}

/// One origin: its newest generation.
struct Followed {
    generation: u64,
    follower: Follower,
    has_keys: bool,
    landed: BTreeMap<FileName, u64>,
    /// How much of that was given to the follower.
    given: BTreeMap<FileName, u64>,
    has_news: bool,
    next_report: Instant,
    needs_report: bool,
    /// A worse state that may be only a file in transit, and since when.
    doubt: Option<(SealState, Instant)>,
    shown: Option<SealState>,
}

impl Followed {
    fn new(generation: u64) -> Self {
        Self {
            generation,
            follower: Follower::new(Options::default()),
            has_keys: false,
            landed: BTreeMap::new(),
            given: BTreeMap::new(),
            has_news: false,
            next_report: Instant::now(),
            needs_report: false,
            doubt: None,
            shown: None,
        }
    }

    /// More of what has landed, in the order in which it is shipped.
    fn give(&mut self) {
        let mut left = STEP_BYTES;
        for (name, landed) in &self.landed {
            let given = self.given.get(name).copied().unwrap_or(0);
            let more = landed.saturating_sub(given).min(left);
            left -= more;
            if more > 0 {
                self.given.insert(name.clone(), given + more);
            }
            if left == 0 {
                return;
            }
        }
        self.has_news = false;
    }
}

impl Work {
    fn is_busy(&self) -> bool {
        self.origins.values().any(|followed| followed.has_news)
    }

    fn note(&mut self, news: Landed) {
        let new = || Followed::new(news.generation);
        let followed = self.origins.entry(news.origin.clone()).or_insert_with(new);
        if news.generation < followed.generation || news.offset == 0 {
            return;
        }
        if news.generation > followed.generation {
            *followed = Followed::new(news.generation);
        }
        followed.landed.insert(news.file, news.offset);
        followed.has_news = true;
    }

    /// A step for every origin that has something to do.
    fn turn(&mut self) {
        let now = Instant::now();
        for (origin, followed) in &mut self.origins {
            let is_due = followed.needs_report || followed.doubt.is_some();
            if !(followed.has_news || is_due && followed.next_report <= now) {
                continue;
            }
            let result = step(&self.data, &self.database, origin, followed);
            match result {
                Ok(Some(seal)) => self.results.set(origin, seal),
                Ok(None) => {}
                Err(error) => {
                    say(&format!("{origin}: cannot verify the replica: {error}"));
                    followed.next_report = now + ERROR_PAUSE;
                    followed.needs_report = true;
                }
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
    if followed.has_news {
        followed.give();
        followed.needs_report = true;
    }
    let view = View::new(data.generation(origin, followed.generation), &followed.given);
    if !followed.has_keys
        && let Some(root) = view.first_root()?
    {
        let root = pinned(database, origin, &root).map_err(io::Error::other)?;
        let options = Options { keys: vec![root], expect: None };
        followed.follower = Follower::new(options);
        followed.has_keys = true;
    }
    followed.follower.advance(&view)?;
    if followed.has_news || followed.next_report > Instant::now() {
        return Ok(None);
    }
    let started = Instant::now();
    let report = followed.follower.report(&view)?;
    // A log with very many files takes longer: it must not take the time of the others.
    followed.next_report = Instant::now() + REPORT_INTERVAL.max(started.elapsed() * 10);
    followed.needs_report = false;
    let sealed = followed.follower.sealed();
    let newest = view.newest_line()?;
    let unsealed_bytes = view.unsealed_bytes(sealed.as_ref());
    let mut seal = Seal::of(followed.generation, &report, newest, unsealed_bytes, now_us());
    settle(followed, &mut seal);
    Ok(Some(seal))
}

/// Keeps the former state while a worse one may be only a file in transit.
fn settle(followed: &mut Followed, seal: &mut Seal) {
    let is_doubtful = matches!(seal.state, SealState::Gap | SealState::Unsealed)
        || seal.state == SealState::Broken && seal.may_be_transit;
    if !is_doubtful || followed.shown == Some(seal.state) {
        followed.doubt = None;
        followed.shown = Some(seal.state);
        return;
    }
    let since = match followed.doubt {
        Some((state, since)) if state == seal.state => since,
        _ => Instant::now(),
    };
    if since.elapsed() >= DOUBT {
        followed.doubt = None;
        followed.shown = Some(seal.state);
        return;
    }
    followed.doubt = Some((seal.state, since));
    if let Some(shown) = followed.shown {
        seal.state = shown;
        seal.message = "waiting for the rest of a file".to_owned();
    }
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
