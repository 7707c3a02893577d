//! Receives logs: `docs/specs/ship.md`. The copy of a log that this module keeps, the *replica*, is
//! the truth; everything else can be made again from it.
//!
//! | module | what it owns |
//! |---|---|
//! | `replica` | the files of one origin, and the order in which a `PUT` is checked |
//! | `generation` | another generation after a contradiction |
//! | `ends` | the ends of files after a power failure |
//! | `body` | digest and compression of a body |
//! | [`compress`] | compresses log files that are complete |
//! | [`removed`] | files that retention has removed |
//! | `removal` | the steps of a removal |
//! | `shippers` | which shippers are alive, and their heartbeats |
//! | `space` | free space of the disk |
//! | `names` | names of generations and files |
//! | `newest` | the newest checkpoint of a replica |
//! | `newest_line` | number and time of the last line |
//! | [`feed`] | tells other parts of the hub what has landed |
//! | [`incident`] | what an operator has to know |
//! | [`refusal`] | why a request was refused |
//!
//! One request at a time changes an origin. It runs on a thread for blocking calls to its end, also
//! if the client goes away. Each `PUT` syncs its own file: concurrent calls of fdatasync share one
//! commit of the file system's journal, which is faster than one thread that collects them.

mod body;
pub mod compress;
mod empty;
mod ends;
pub mod feed;
mod generation;
pub mod incident;
mod names;
mod newest;
mod newest_line;
pub mod refusal;
mod removal;
pub mod removed;
mod replica;
pub mod shippers;
mod space;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use tacho_ship::protocol::answers::NewGeneration;
use tacho_ship::protocol::{
    Activity, ContentDigest, FileName, Heartbeat, HeartbeatAnswer, Hints, Origin, OriginState,
    Stored,
};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::clock::Moment;
use crate::data::DataDirectory;
use crate::say::say;
pub use body::{Coding, unpacked_bytes};
pub use feed::{Feed, Landed, Subscription};
pub use generation::{Beginning, beginnings};
pub use incident::{Incident, OnIncident};
pub use names::generations;
pub use newest_line::NewestLine;
pub use refusal::Refusal;
pub use replica::Put;
use replica::Replica;
use shippers::Shippers;
pub use space::free_bytes;

/// Requests of one origin at a time, from the arrival of their bodies to their answers. A shipper
/// has one.
const REQUESTS_MAX: usize = 4;

/// Settings of the landing.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Free bytes of the disk below which bodies are refused.
    pub reserve_bytes: u64,
    /// How shippers should ship.
    pub hints: Hints,
    /// How long after the start no generation begins in an origin that was there before: every
    /// shipper that is alive has sent something by then.
    pub fork_pause: Duration,
    /// Log files that are complete are compressed.
    pub compresses: bool,
}

impl Default for Options {
    fn default() -> Self {
        let fork_pause = Duration::from_secs(60);
        Self { reserve_bytes: 1 << 30, hints: Hints::default(), fork_pause, compresses: true }
    }
}

/// What was received since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Bodies that were stored.
    pub bodies: AtomicU64,
    /// Bytes that were stored, decompressed.
    pub bytes: AtomicU64,
    /// Requests that were refused, except for a wrong offset.
    pub refused: AtomicU64,
}

/// The landing; a clone is cheap.
#[derive(Clone)]
pub struct Landing {
    shared: Arc<Shared>,
}

struct Shared {
    data: Arc<DataDirectory>,
    options: Options,
    origins: RwLock<BTreeMap<Origin, Arc<Entry>>>,
    feed: Feed,
    on_incident: OnIncident,
    counters: Counters,
    verified: OnceLock<Verified>,
}

impl Shared {
    fn report_incidents(&self, replica: &mut Replica) {
        for incident in replica.take_incidents() {
            if let Incident::ReplicaCut { file, .. } = &incident {
                self.feed.publish(&Landed { was_cut: true, ..replica.landed(file) });
            }
            (self.on_incident)(incident);
        }
    }
}

/// Returns the newest checkpoint of an origin whose signature is good.
pub type Verified = Box<dyn Fn(&Origin) -> Option<String> + Send + Sync>;

/// One origin.
struct Entry {
    origin: Origin,
    replica: Arc<tokio::sync::Mutex<Replica>>,
    requests: Arc<Semaphore>,
    shippers: Mutex<Shippers>,
    /// The newest activity of its database server that a shipper sent. Not on the disk.
    activity: Mutex<Option<Arc<Activity>>>,
    /// When generations may begin.
    forks_from: Instant,
    /// Readable without waiting for a request.
    view: RwLock<OriginView>,
}

/// The right to one request of an origin, until it is dropped.
pub struct Admission {
    entry: Arc<Entry>,
    _permit: OwnedSemaphorePermit,
}

impl Admission {
    /// Files in the list for shippers.
    #[must_use]
    pub fn files(&self) -> usize {
        let view = self.entry.view();
        view.files + view.removed
    }
}

/// What is there of an origin.
#[derive(Clone, Debug, Default)]
pub struct OriginView {
    /// The current generation.
    pub generation: u64,
    /// Files of the current generation.
    pub files: usize,
    /// Removed files in the list for shippers.
    pub removed: usize,
    /// Bytes of those that are there.
    pub bytes: u64,
    /// The last line that is whole.
    pub newest_line: Option<NewestLine>,
}

impl Landing {
    /// Reads the names and lengths of all files of the replica, after syncing them: a hub that was
    /// killed may have left bytes that are in memory only. Blocks.
    ///
    /// # Errors
    /// The replica cannot be read.
    pub fn open(
        data: Arc<DataDirectory>,
        options: Options,
        on_incident: OnIncident,
    ) -> io::Result<Self> {
        let directory = data.replica();
        replica::make(&directory)?;
        space::sync_all(&directory)?;
        let forks_from = Instant::now() + options.fork_pause;
        let feed = Feed::default();
        let mut origins = BTreeMap::new();
        for entry in std::fs::read_dir(&directory)? {
            let Some(origin) = entry?.file_name().to_str().and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let origin: Origin = origin;
            // Before the lengths are read: it may cut files.
            let mut replica = Replica::open(&data, &origin)?;
            let history = generation::history(&directory.join(origin.as_str()))?;
            for (generation, file, offset) in history.files {
                let origin = origin.clone();
                feed.publish(&Landed { origin, generation, file, offset, was_cut: false });
            }
            replica.set_history(history.former_files, history.inherited);
            let shippers = Shippers::load(&directory.join(origin.as_str()))?;
            let shippers = Mutex::new(shippers);
            let entry = Entry { shippers, ..Entry::new(origin, replica, forks_from) };
            origins.insert(entry.origin.clone(), Arc::new(entry));
        }
        let origins = RwLock::new(origins);
        let counters = Counters::default();
        let verified = OnceLock::new();
        let shared = Shared { data, options, origins, feed, on_incident, counters, verified };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Lets reports of forks compare with what is verified. The first call counts.
    pub fn set_verified(&self, verified: Verified) {
        // Another one has the same source.
        let _ = self.shared.verified.set(verified);
    }

    /// Admits a request of an origin, before anything of it is in memory.
    ///
    /// # Errors
    /// The origin has too many requests, or cannot be read.
    pub fn admit(&self, origin: &Origin) -> Result<Admission, Refusal> {
        let entry = self.entry(origin)?;
        let permit = Arc::clone(&entry.requests).try_acquire_owned();
        let Ok(permit) = permit else { return Err(Refusal::TooMany) };
        Ok(Admission { entry, _permit: permit })
    }

    /// The state of an origin, as a shipper asks for it.
    ///
    /// # Errors
    /// The replica cannot be read.
    pub async fn state(&self, admission: &Admission) -> Result<OriginState, Refusal> {
        let hints = self.shared.options.hints;
        self.with_replica(admission, move |_, replica| replica.state(hints)).await
    }

    /// Stores a body.
    ///
    /// # Errors
    /// Nothing of it is acknowledged.
    pub async fn put(
        &self,
        admission: &Admission,
        put: Put,
        body: Bytes,
        coding: Coding,
        digest: Option<ContentDigest>,
    ) -> Result<Stored, Refusal> {
        if let Some(instance) = &put.instance {
            admission.entry.shippers().heard_put(instance, Moment::now());
        }
        let reserve_bytes = self.shared.options.reserve_bytes;
        self.with_replica(admission, move |shared, replica| {
            let body = body::decode(&body, coding, digest.as_ref())?;
            let before = replica.offset(&put.file);
            let stored = replica.put(&put, &body, reserve_bytes);
            let end = replica.offset(&put.file);
            shared.report_incidents(replica);
            if let Err(Refusal::Contradiction { offset, generation }) = &stored {
                (shared.on_incident)(Incident::Contradiction {
                    origin: replica.origin().clone(),
                    generation: *generation,
                    file: put.file.clone(),
                    offset: *offset,
                });
            }
            if end > before {
                shared.counters.bodies.fetch_add(1, Ordering::Relaxed);
                shared.counters.bytes.fetch_add(end - before, Ordering::Relaxed);
                shared.feed.publish(&replica.landed(&put.file));
            }
            stored
        })
        .await
    }

    /// Begins a generation.
    ///
    /// # Errors
    /// It is not permitted now, or cannot be made.
    pub async fn begin_generation(
        &self,
        admission: &Admission,
        request: NewGeneration,
        instance: Option<String>,
    ) -> Result<OriginState, Refusal> {
        let Options { hints, reserve_bytes, .. } = self.shared.options;
        let entry = Arc::clone(&admission.entry);
        self.with_replica(admission, move |shared, replica| {
            if request.after != replica.generation() {
                return Err(Refusal::Generation { generation: replica.generation() });
            }
            let now = Moment::now();
            if let Some(other) = entry.shippers().other_alive(instance.as_deref(), now) {
                let origin = entry.origin.clone();
                (shared.on_incident)(Incident::TwoShippers { origin, other: other.clone() });
                return Err(Refusal::Busy { generation: replica.generation(), other });
            }
            // The others, too, may be alive, and have had no time yet to say so.
            let wait = entry.forks_from.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                let wait_s = u32::try_from(wait.as_secs() + 1).unwrap_or(u32::MAX);
                return Err(Refusal::Started { wait_s });
            }
            entry.shippers().may_begin_generation(now)?;
            let checkpoint = shared.verified.get().and_then(|verified| verified(&entry.origin));
            let inherited = replica.inherited().clone();
            let begun = replica.begin_generation(&request, now.wall_us, reserve_bytes);
            // It has begun even if an error follows.
            if replica.generation() != request.after {
                let is_inherited = |name: &FileName| inherited.contains(name);
                shared.feed.end(&entry.origin, request.after, &is_inherited);
                for file in replica.names() {
                    shared.feed.publish(&replica.landed(&file));
                }
                (shared.on_incident)(Incident::Fork {
                    origin: replica.origin().clone(),
                    request,
                    generation: replica.generation(),
                    checkpoint,
                });
            }
            begun?;
            replica.state(hints)
        })
        .await
    }

    /// A shipper is alive.
    ///
    /// # Errors
    /// The thread for it ends by a panic.
    pub async fn heartbeat(
        &self,
        admission: &Admission,
        mut heartbeat: Heartbeat,
        instance: Option<String>,
    ) -> Result<HeartbeatAnswer, Refusal> {
        let entry = Arc::clone(&admission.entry);
        let hints = self.shared.options.hints;
        self.with_replica(admission, move |_, replica| {
            let now = Moment::now();
            entry.note_activity(heartbeat.activity.take());
            let mut shippers = entry.shippers();
            shippers.heard(instance.as_deref(), heartbeat, now);
            // Without files there is nothing that a second shipper could contradict.
            if replica.view().files > 0 {
                let saved = shippers.save(replica.root());
                if let Err(error) = saved {
                    say(&format!("{}: cannot store a heartbeat: {error}", entry.origin));
                }
            }
            let generation = replica.generation();
            Ok(HeartbeatAnswer { generation, time_us: now.wall_us, hints })
        })
        .await
    }

    /// All that has landed, and what lands from now on. Several parts can subscribe.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        self.shared.feed.subscribe()
    }

    /// All origins that have a replica or a shipper that was heard of.
    #[must_use]
    pub fn origins(&self) -> Vec<(Origin, OriginView, Shippers)> {
        let origins = self.shared.origins.read().unwrap_or_else(PoisonError::into_inner);
        let item =
            |entry: &Arc<Entry>| (entry.origin.clone(), entry.view(), entry.shippers().clone());
        origins.values().map(item).collect()
    }

    /// What the database server of an origin was doing when its shipper last said so.
    #[must_use]
    pub fn activity(&self, origin: &Origin) -> Option<Arc<Activity>> {
        let origins = self.shared.origins.read().unwrap_or_else(PoisonError::into_inner);
        origins.get(origin)?.activity.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Numbers since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Free bytes of the disk below which bodies are refused.
    #[must_use]
    pub fn reserve_bytes(&self) -> u64 {
        self.shared.options.reserve_bytes
    }

    /// Whether log files that are complete are compressed.
    #[must_use]
    pub fn compresses(&self) -> bool {
        self.shared.options.compresses
    }

    /// The data directory.
    #[must_use]
    pub fn data(&self) -> &DataDirectory {
        &self.shared.data
    }

    /// Runs `call` on a thread for blocking calls, alone with the replica. It runs to its end even
    /// if the caller is dropped.
    async fn with_replica<T: Send + 'static>(
        &self,
        admission: &Admission,
        call: impl FnOnce(&Shared, &mut Replica) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let entry = &admission.entry;
        let mut replica: OwnedMutexGuard<Replica> = Arc::clone(&entry.replica).lock_owned().await;
        let shared = Arc::clone(&self.shared);
        let seen = Arc::clone(entry);
        let task = tokio::task::spawn_blocking(move || {
            let result = call(&shared, &mut replica);
            seen.see(&replica);
            result
        });
        let result = task.await.unwrap_or(Err(Refusal::Aborted));
        if result.as_ref().is_err_and(Refusal::is_failure) {
            self.shared.counters.refused.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    fn entry(&self, origin: &Origin) -> Result<Arc<Entry>, Refusal> {
        let origins = &self.shared.origins;
        let known = origins.read().unwrap_or_else(PoisonError::into_inner).get(origin).cloned();
        if let Some(entry) = known {
            return Ok(entry);
        }
        let mut origins = origins.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = origins.get(origin) {
            return Ok(Arc::clone(entry));
        }
        let replica = Replica::open(&self.shared.data, origin)?;
        let entry = Arc::new(Entry::new(origin.clone(), replica, Instant::now()));
        origins.insert(origin.clone(), Arc::clone(&entry));
        Ok(entry)
    }
}

impl Entry {
    fn new(origin: Origin, replica: Replica, forks_from: Instant) -> Self {
        let view = RwLock::new(replica.view());
        let replica = Arc::new(tokio::sync::Mutex::new(replica));
        let requests = Arc::new(Semaphore::new(REQUESTS_MAX));
        let (shippers, activity) = Default::default();
        Self { origin, replica, requests, shippers, activity, forks_from, view }
    }

    /// A shipper without an account says nothing about the one that another one knows.
    fn note_activity(&self, activity: Option<Activity>) {
        if let Some(activity) = activity {
            let mut newest = self.activity.lock().unwrap_or_else(PoisonError::into_inner);
            *newest = Some(Arc::new(activity));
        }
    }

    fn shippers(&self) -> std::sync::MutexGuard<'_, Shippers> {
        self.shippers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> OriginView {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn see(&self, replica: &Replica) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = replica.view();
    }
}
