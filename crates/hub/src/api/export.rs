//! `POST /api/v1/export`: an evidence bundle of what a search finds.

use std::fs::File;
use std::io::Read as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use http_body::{Frame, SizeHint};
use tacho_chain::key::SecretKey;
use tacho_evidence::container::WriteError;
use tacho_evidence::make::{Made, MakeError};
use tacho_evidence::manifest::ByPart;
use tacho_query::Cancel;
use tacho_ship::protocol::{Code, Origin};
use tokio::sync::{Semaphore, mpsc};

use super::ApiError;
use super::filter::Filter;
use super::held::Held;
use crate::data::make_directory;
use crate::export::{ExportError, Question, Sources, export};
use crate::index::api_error;
use crate::landing::free_bytes;
use crate::state::AppState;

/// Limits of a bundle. `tacho-hub export` has others.
const RECORDS_MAX: u64 = 100_000;
const BYTES_MAX: u64 = 1 << 30;
/// How long its queries may take, and all of it.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(600);
/// Exports at a time, until their clients have read them.
const EXPORTS_MAX: usize = 4;
/// How much is read of the disk at a time, and how much of it waits for the client.
const PART_BYTES: usize = 256 << 10;
const PARTS_MAX: usize = 4;

/// Shared by all exports; a clone is cheap.
#[derive(Clone)]
pub struct ExportState {
    key: Arc<SecretKey>,
    running: Arc<Semaphore>,
}

impl ExportState {
    /// With the key of the hub.
    #[must_use]
    pub fn new(key: SecretKey) -> Self {
        Self { key: Arc::new(key), running: Arc::new(Semaphore::new(EXPORTS_MAX)) }
    }
}

/// The bundle. It is complete before the answer begins, so an error is an answer of its own.
///
/// # Errors
/// The caller is not an auditor, the search is wrong or finds too much, or a file cannot be read.
pub async fn bundle(State(state): State<AppState>, filter: Filter) -> Result<Response, ApiError> {
    filter.caller.may_see_statements()?;
    let permit = Arc::clone(&state.export.running).try_acquire_owned().map_err(|_| {
        ApiError::new(Code::Unavailable, "too many exports are running").retry_after(10)
    })?;
    let question = question(&state, &filter)?;
    let cancel = Cancel::default();
    let _on_drop = CancelOnDrop(cancel.clone());
    let snapshot = Arc::clone(&filter.snapshot);
    let run = move || make(&state, &question, &snapshot, &cancel);
    let made = tokio::task::spawn_blocking(run).await;
    let (file, made) = made.map_err(|error| ApiError::internal(&error))??;
    filter.note.rows(usize::try_from(made.manifest.records).unwrap_or(usize::MAX));
    let name = file_name(&made.manifest.created);
    let headers = [
        (header::CONTENT_TYPE, "application/x-tar".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, Body::new(Held::new(FileBody::start(file, made.bytes), permit))).into_response())
}

/// `evidence-20261126T070000Z.tar`
fn file_name(created: &str) -> String {
    let time: String = created.chars().take(19).filter(|it| !matches!(it, '-' | ':')).collect();
    format!("evidence-{time}Z.tar")
}

fn question(state: &AppState, filter: &Filter) -> Result<Question, ApiError> {
    let servers = filter.servers.iter().map(|name| {
        let unknown = |_| ApiError::new(Code::NotFound, format!("there is no server {name:?}"));
        name.parse::<Origin>().map_err(unknown)
    });
    // Logs that arrive meanwhile need the space more.
    let free = free_bytes(state.data.path()).map_err(|error| ApiError::internal(&error))?;
    let space = free.saturating_sub(state.ship.landing().reserve_bytes());
    if space == 0 {
        let message = "the disk of the hub has too little space for an export";
        return Err(ApiError::new(Code::DiskFull, message).retry_after(60));
    }
    Ok(Question {
        q: filter.value("q").unwrap_or_default().to_owned(),
        search: filter.search.clone(),
        from_us: filter.from_us,
        to_us: filter.to_us,
        servers: servers.collect::<Result<_, _>>()?,
        scope: filter.caller.scope.clone(),
        view: filter.view.clone(),
        by: ByPart { name: filter.caller.user.clone(), via: "api".to_owned() },
        records_max: RECORDS_MAX,
        bytes_max: BYTES_MAX.min(space),
        timeout: QUERY_TIMEOUT,
    })
}

/// Makes the bundle in a file without a name. Blocks.
fn make(
    state: &AppState,
    question: &Question,
    snapshot: &tacho_store::Snapshot,
    cancel: &Cancel,
) -> Result<(File, Made), ApiError> {
    let directory = state.data.path().join("temp");
    make_directory(&directory).map_err(|error| ApiError::internal(&error))?;
    let file = tempfile::tempfile_in(&directory).map_err(|error| ApiError::internal(&error))?;
    let sources = Sources {
        data: &state.data,
        database: &state.database,
        pool: state.index.pool(),
        snapshot,
        key: &state.export.key,
    };
    let deadline = Instant::now() + TIMEOUT;
    let mut progress = |_| !cancel.is_cancelled() && Instant::now() < deadline;
    let made = export(&sources, question, &file, cancel, &mut progress);
    Ok((file, made.map_err(answer)?))
}

fn answer(error: ExportError) -> ApiError {
    let too_large =
        |message: String| ApiError::other(StatusCode::UNPROCESSABLE_ENTITY, "too_large", message);
    match error {
        ExportError::Query(error) => api_error(&error),
        ExportError::NoServer(_) => ApiError::new(Code::NotFound, error.to_string()),
        ExportError::TooMany(_) => too_large(error.to_string()),
        ExportError::Make(MakeError::Write(WriteError::TooLarge(_))) => {
            too_large(format!("{error}: narrow the time range or the search"))
        }
        ExportError::Make(MakeError::Write(WriteError::Cancelled)) => {
            let message = format!("the export was stopped after {} s", TIMEOUT.as_secs());
            ApiError::other(StatusCode::GATEWAY_TIMEOUT, "timeout", message)
        }
        error => ApiError::internal(&error),
    }
}

/// The client has gone.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The bytes of a file, read by a thread as the client takes them.
struct FileBody {
    parts: mpsc::Receiver<std::io::Result<Bytes>>,
    left: u64,
}

impl FileBody {
    fn start(file: File, bytes: u64) -> Self {
        let (sender, parts) = mpsc::channel(PARTS_MAX);
        tokio::task::spawn_blocking(move || {
            let mut file = tacho_evidence::container::Section::new(&file, 0, bytes);
            loop {
                let mut part = vec![0; PART_BYTES];
                let read = file.read(&mut part);
                let is_end = matches!(read, Ok(0) | Err(_));
                let part = read.map(|count| {
                    part.truncate(count);
                    Bytes::from(part)
                });
                // The receiver is gone when the client is.
                if matches!(part, Ok(ref part) if part.is_empty())
                    || sender.blocking_send(part).is_err()
                    || is_end
                {
                    break;
                }
            }
        });
        Self { parts, left: bytes }
    }
}

impl HttpBody for FileBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.parts.poll_recv(context).map(|part| match part {
            Some(Ok(part)) => {
                self.left = self.left.saturating_sub(part.len() as u64);
                Some(Ok(Frame::data(part)))
            }
            Some(Err(error)) => Some(Err(error)),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_file_is_sent_as_it_is() {
        let bytes: Vec<u8> = (0..3 * PART_BYTES + 7).map(|at| at as u8).collect();
        let file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut &file, &bytes).unwrap();
        let running = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&running).try_acquire_owned().unwrap();
        let body = Held::new(FileBody::start(file, bytes.len() as u64), permit);
        assert_eq!(body.size_hint().exact(), Some(bytes.len() as u64));
        assert_eq!(running.available_permits(), 0);
        assert!(body.collect().await.unwrap().to_bytes() == bytes);
        assert_eq!(running.available_permits(), 1);
        assert_eq!(file_name("2026-11-26T07:01:02.000000Z"), "evidence-20261126T070102Z.tar");
    }
}
