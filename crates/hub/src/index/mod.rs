//! The index of records and the queries over it: what `tacho-store` and `tacho-query` do for the
//! requests of the hub.
//!
//! | module | contents |
//! |---|---|
//! | [`view`] | what of the records a caller may see |
//! | [`rebuild`] | how far an index is that is built again |
//! | [`troubles`] | files that cannot be indexed |

pub mod rebuild;
pub mod troubles;
pub mod view;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use axum::http::StatusCode;
use tacho_query::{Answer, Cancel, Pool, QueryError, Request, Settings, find_library};
use tacho_ship::protocol::{Code, FileName};
use tacho_store::{
    Durable, Indexer, IndexerOptions, MergeOptions, MergeReport, Merger, Snapshot, Store,
};
use tokio::sync::watch;

use crate::api::ApiError;
use crate::data::DataDirectory;
use crate::landing::{Landed, Subscription};
use crate::say::say;
use rebuild::Rebuild;
use troubles::Troubles;

/// How long the feeder waits before it looks whether the hub stops.
const FEED_WAIT: Duration = Duration::from_secs(1);

/// The index; a clone is the same one.
#[derive(Clone)]
pub struct Index {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    pool: Pool,
    indexer: Arc<Indexer>,
    troubles: Arc<Mutex<Troubles>>,
    merger: Merger,
    changed: watch::Receiver<u64>,
    is_stopping: Arc<AtomicBool>,
    feeder: Option<JoinHandle<()>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        if let Some(feeder) = self.feeder.take() {
            // A panic has been printed.
            let _ = feeder.join();
        }
    }
}

/// How queries of the hub are executed.
///
/// # Errors
/// The program's own path is unknown.
pub fn query_settings(data: &DataDirectory) -> anyhow::Result<Settings> {
    let program = std::env::current_exe().context("cannot find the program tacho-hub")?;
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(4);
    Ok(Settings {
        command: vec![program.into(), "query-worker".into()],
        // Reported by the first query: without the library the hub still receives logs.
        library: find_library().unwrap_or_else(|| PathBuf::from("libduckdb.so")),
        data_dir: data.store().join("segments"),
        temp_dir: data.path().join("temp"),
        workers: 2,
        waiting: 64,
        memory_bytes: 512 << 20,
        threads: threads as u32,
        temp_bytes: 4 << 30,
    })
}

impl Index {
    /// Opens the store, and begins to index what has landed.
    ///
    /// # Errors
    /// The store cannot be opened.
    pub fn open(
        data: &Arc<DataDirectory>,
        landed: Subscription,
        settings: Settings,
    ) -> anyhow::Result<Self> {
        // Left by queries of a process that was killed.
        if let Err(error) = std::fs::remove_dir_all(&settings.temp_dir)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            say(&format!("cannot empty {}: {error}", settings.temp_dir.display()));
        }
        crate::data::make_directory(&settings.temp_dir)?;
        let store = Store::open(&data.store())?;
        let mut rebuild = store.rebuilt().map(Rebuild::begin);
        let removed = crate::landing::removed::all(&data.replica())?;
        let removed = removed.iter().filter_map(|(origin, generation, stem)| {
            crate::retention::steps::key(origin, *generation, stem)
        });
        store.keep_forgotten(&removed.collect())?;
        let (sender, changed) = watch::channel(0);
        let on_change = move || sender.send_modify(|count| *count += 1);
        let options = IndexerOptions { changed: Box::new(on_change), ..Default::default() };
        let indexer = Arc::new(Indexer::start(store.clone(), options)?);
        let is_stopping = Arc::new(AtomicBool::new(false));
        let troubles = Arc::new(Mutex::new(Troubles::default()));
        let feeder = {
            let (data, indexer) = (Arc::clone(data), Arc::clone(&indexer));
            let troubles = Arc::clone(&troubles);
            let is_stopping = Arc::clone(&is_stopping);
            let feed = move || {
                while !is_stopping.load(Ordering::Relaxed) {
                    for landed in landed.wait(FEED_WAIT) {
                        notify(&data, &indexer, &landed);
                    }
                    let report = indexer.report();
                    rebuild.take_if(|rebuild| !rebuild.is_running(&report));
                    say_troubles(&troubles, &report);
                }
            };
            std::thread::Builder::new().name("tacho-feed".to_owned()).spawn(feed)
        };
        let merger = Merger::start(store.clone(), MergeOptions::default())?;
        let shared = Shared {
            merger,
            store,
            pool: Pool::new(settings),
            indexer,
            troubles,
            changed,
            is_stopping,
            feeder: Some(feeder.context("cannot start a thread")?),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Executes queries, for callers that may block.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.shared.pool
    }

    /// What the indexer has done.
    #[must_use]
    pub fn report(&self) -> tacho_store::Report {
        self.shared.indexer.report()
    }

    /// What the merger has done.
    #[must_use]
    pub fn merges(&self) -> MergeReport {
        self.shared.merger.report()
    }

    /// Says which files cannot be indexed, if it was not said before. Returns how many there are.
    #[must_use]
    pub fn troubles(&self) -> usize {
        say_troubles(&self.shared.troubles, &self.report())
    }

    /// Waits until everything that has landed and can be read is indexed. `quiet`: nothing new
    /// lands for so long.
    ///
    /// # Errors
    /// The indexer's.
    pub fn finish(&self, quiet: Duration) -> anyhow::Result<()> {
        loop {
            let before = self.report();
            std::thread::sleep(quiet);
            self.shared.indexer.flush();
            let report = self.report();
            if let Some(error) = report.error {
                anyhow::bail!("the replica cannot be indexed: {error}");
            }
            // Bytes that are left are no whole line, or cannot be read.
            if report.bytes == before.bytes {
                return Ok(());
            }
        }
    }

    /// Changes whenever new records are visible.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.shared.changed.clone()
    }

    /// Executes a query over a snapshot. If the request goes away, the query is cancelled.
    ///
    /// # Errors
    /// The query's.
    pub async fn fetch(
        &self,
        snapshot: Arc<Snapshot>,
        request: Request,
    ) -> Result<Answer, ApiError> {
        let cancel = Cancel::default();
        let _on_drop = CancelOnDrop(cancel.clone());
        let shared = Arc::clone(&self.shared);
        let run = move || {
            let answer = shared.pool.fetch(&request, &cancel);
            // Its files are not deleted before.
            drop(snapshot);
            answer
        };
        match tokio::task::spawn_blocking(run).await {
            Ok(answer) => answer.map_err(|error| api_error(&error)),
            Err(error) => Err(ApiError::internal(&error)),
        }
    }
}

struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn say_troubles(troubles: &Mutex<Troubles>, report: &tacho_store::Report) -> usize {
    troubles.lock().unwrap_or_else(PoisonError::into_inner).say(report)
}

fn notify(data: &DataDirectory, indexer: &Indexer, landed: &Landed) {
    if !matches!(landed.file, FileName::Lines(_)) || landed.offset == 0 {
        return;
    }
    let file = landed.file.to_string();
    let path = data.generation(&landed.origin, landed.generation).join(&file);
    let Ok(generation) = u32::try_from(landed.generation) else {
        say(&format!("generation {} of {} is not indexed", landed.generation, landed.origin));
        return;
    };
    let origin = landed.origin.as_str().to_owned();
    indexer.notify(Durable { origin, generation, file, path, offset: landed.offset });
}

/// The answer to a query that failed.
#[must_use]
pub fn api_error(error: &QueryError) -> ApiError {
    let message = error.to_string();
    match error {
        QueryError::Sql { is_forbidden: true, .. } => ApiError::forbidden(message),
        QueryError::Sql { is_forbidden: false, .. } => ApiError::bad_request(message),
        QueryError::Cancelled => ApiError::new(Code::Unavailable, message),
        QueryError::Timeout(_) => ApiError::other(StatusCode::GATEWAY_TIMEOUT, "timeout", message),
        QueryError::Memory(_) => {
            ApiError::other(StatusCode::UNPROCESSABLE_ENTITY, "memory", message)
        }
        QueryError::Busy => ApiError::new(Code::Unavailable, message).retry_after(1),
        QueryError::Unavailable(_) | QueryError::Died(_) => {
            say(&message);
            ApiError::new(Code::Unavailable, message).retry_after(1)
        }
    }
}
