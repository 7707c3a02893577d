//! Shipping: `docs/specs/ship.md`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::{PathRejection, QueryRejection, RawPathParamsRejection};
use axum::extract::{FromRef, Path, Query, RawPathParams, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tacho_ship::protocol::answers::NewGeneration;
use tacho_ship::protocol::names::is_instance;
use tacho_ship::protocol::{
    Activity, BEFORE_HEADER, BODY_BYTES_MAX, Code, DIGEST_HEADER, ENCODING, FileName, Heartbeat,
    HeartbeatAnswer, INSTANCE_HEADER, Origin, PROBLEMS_MAX, REQUEST_JSON_BYTES_MAX, Stored,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::{ApiError, Caller, held};
use crate::audit::{HUB, is_hub};
use crate::landing::{Admission, Coding, Landing, Put, Refusal, unpacked_bytes};
use crate::state::AppState;

/// Memory for all shippers together, KiB: for bodies that arrive, for what they are decompressed
/// to, and for answers that are being read. A request takes them in this order, so none waits for
/// one that waits for it.
const BODIES_KIB: usize = 128 << 10;
const UNPACKED_KIB: usize = 128 << 10;
const ANSWERS_KIB: usize = 128 << 10;
/// What a file needs in the list of an answer, bytes: the list, and its JSON.
const ANSWER_FILE_BYTES: usize = 256;
/// How long a request waits for that memory.
const MEMORY_WAIT: Duration = Duration::from_secs(5);
/// Longest text of a heartbeat, characters.
const TEXT_MAX: usize = 500;
/// How long a body may take to arrive, and how long nothing of it may arrive.
const BODY_WAIT: Duration = Duration::from_secs(60);
const BODY_PAUSE: Duration = Duration::from_secs(10);

/// State of the handlers of shipping.
#[derive(Clone)]
pub struct ShipState {
    landing: Landing,
    bodies: Memory,
    unpacked: Memory,
    answers: Memory,
}

/// Memory that requests share.
#[derive(Clone)]
struct Memory {
    kib: usize,
    free: Arc<Semaphore>,
}

impl Memory {
    fn new(kib: usize) -> Self {
        Self { kib, free: Arc::new(Semaphore::new(kib)) }
    }

    /// Waits for some of it.
    async fn reserve(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refusal> {
        let kib = bytes.div_ceil(1 << 10).min(self.kib);
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        let permit = timeout(MEMORY_WAIT, Arc::clone(&self.free).acquire_many_owned(kib)).await;
        permit.ok().and_then(Result::ok).ok_or(Refusal::Overload)
    }
}

impl ShipState {
    /// For a landing.
    #[must_use]
    pub fn new(landing: Landing) -> Self {
        let (bodies, unpacked) = (Memory::new(BODIES_KIB), Memory::new(UNPACKED_KIB));
        Self { landing, bodies, unpacked, answers: Memory::new(ANSWERS_KIB) }
    }

    /// The landing.
    #[must_use]
    pub fn landing(&self) -> &Landing {
        &self.landing
    }

    /// Memory for the state of an origin.
    async fn reserve_answer(&self, admission: &Admission) -> Result<OwnedSemaphorePermit, Refusal> {
        self.answers.reserve(admission.files().saturating_mul(ANSWER_FILE_BYTES)).await
    }
}

impl FromRef<AppState> for ShipState {
    fn from_ref(state: &AppState) -> Self {
        state.ship.clone()
    }
}

/// Query of a `PUT`.
#[derive(Debug, Deserialize)]
pub struct PutQuery {
    offset: u64,
    generation: Option<u64>,
}

/// The layer of requests from the network: the hub itself ships its own log, by another listener.
///
/// # Errors
/// The request is about the hub's own log.
pub async fn refuse_hub(
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let path = path.map_err(bad_request)?;
    let origin = path.iter().find(|(name, _)| *name == "origin");
    if origin.and_then(|(_, origin)| origin.parse().ok()).is_some_and(|origin| is_hub(&origin)) {
        return Err(ApiError::forbidden(format!("only the hub itself ships to {HUB}")));
    }
    Ok(next.run(request).await)
}

/// `GET /api/v1/origins/{origin}`
///
/// # Errors
/// See the specification.
pub async fn state(
    State(ship): State<ShipState>,
    caller: Caller,
    path: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let origin = origin_of(&caller, &path.map_err(bad_request)?)?;
    let admission = ship.landing.admit(&origin)?;
    let memory = ship.reserve_answer(&admission).await?;
    let state = ship.landing.state(&admission).await?;
    held::json(StatusCode::OK, &state, (admission, memory))
}

/// `PUT /api/v1/origins/{origin}/files/{name}`
///
/// # Errors
/// See the specification.
pub async fn put(
    State(ship): State<ShipState>,
    caller: Caller,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<PutQuery>, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Stored>, ApiError> {
    let Path((origin, name)) = path.map_err(bad_request)?;
    let origin = origin_of(&caller, &origin)?;
    let file: FileName = name.parse().map_err(bad_request)?;
    let Query(query) = query.map_err(bad_request)?;
    let coding = coding_of(&headers)?;
    let digest = parsed(&headers, DIGEST_HEADER)?;
    let put = Put {
        file,
        offset: query.offset,
        generation: query.generation,
        before: parsed(&headers, BEFORE_HEADER)?,
        instance: instance_of(&headers)?,
    };
    let length = content_length(&headers).unwrap_or(BODY_BYTES_MAX);
    if length > BODY_BYTES_MAX {
        return Err(Refusal::TooLarge.into());
    }
    let admission = ship.landing.admit(&origin)?;
    let _memory = ship.bodies.reserve(length).await?;
    let body = received(body, length, BODY_BYTES_MAX).await?;
    let _unpacked = ship.unpacked.reserve(unpacked_bytes(&body, coding)?).await?;
    Ok(Json(ship.landing.put(&admission, put, body, coding, digest).await?))
}

/// `POST /api/v1/origins/{origin}/generations`
///
/// # Errors
/// See the specification.
pub async fn begin_generation(
    State(ship): State<ShipState>,
    caller: Caller,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let origin = origin_of(&caller, &path.map_err(bad_request)?)?;
    let instance = instance_of(&headers)?;
    let admission = ship.landing.admit(&origin)?;
    let request: NewGeneration = received_json(body).await?;
    let memory = ship.reserve_answer(&admission).await?;
    let state = ship.landing.begin_generation(&admission, request, instance).await?;
    held::json(StatusCode::CREATED, &state, (admission, memory))
}

/// `POST /api/v1/origins/{origin}/heartbeat`
///
/// # Errors
/// See the specification.
pub async fn heartbeat(
    State(ship): State<ShipState>,
    caller: Caller,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<HeartbeatAnswer>, ApiError> {
    let origin = origin_of(&caller, &path.map_err(bad_request)?)?;
    let instance = instance_of(&headers)?;
    let admission = ship.landing.admit(&origin)?;
    let mut heartbeat: Heartbeat = received_json(body).await?;
    limit(&mut heartbeat);
    Ok(Json(ship.landing.heartbeat(&admission, heartbeat, instance).await?))
}

/// Texts of a heartbeat are kept and shown: they must not be arbitrarily long.
fn limit(heartbeat: &mut Heartbeat) {
    let cut = |text: &mut String| *text = text.chars().take(TEXT_MAX).collect();
    cut(&mut heartbeat.version);
    cut(&mut heartbeat.host);
    heartbeat.problems.truncate(PROBLEMS_MAX);
    heartbeat.activity = heartbeat.activity.take().map(Activity::limited);
    for problem in &mut heartbeat.problems {
        cut(&mut problem.code);
        cut(&mut problem.message);
    }
}

/// The origin of the path, if the caller may ship to it.
fn origin_of(caller: &Caller, text: &str) -> Result<Origin, ApiError> {
    let origin = text.parse().map_err(bad_request)?;
    caller.may_ship(&origin)?;
    Ok(origin)
}

fn bad_request(error: impl std::fmt::Display) -> ApiError {
    ApiError::bad_request(error.to_string())
}

fn coding_of(headers: &HeaderMap) -> Result<Coding, ApiError> {
    match headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes()) {
        None | Some(b"identity") => Ok(Coding::Plain),
        Some(value) if value.eq_ignore_ascii_case(ENCODING.as_bytes()) => Ok(Coding::Zstd),
        Some(_) => {
            Err(ApiError::new(Code::Encoding, "Content-Encoding is neither absent nor zstd"))
        }
    }
}

/// A header field that may be absent, but not wrong.
fn parsed<T>(headers: &HeaderMap, name: &str) -> Result<Option<T>, ApiError>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.to_str().map_err(bad_request)?;
    let value = text.parse().map_err(|error| bad_request(format!("{name}: {error}")));
    value.map(Some)
}

fn instance_of(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(INSTANCE_HEADER) else { return Ok(None) };
    match value.to_str() {
        Ok(text) if is_instance(text) => Ok(Some(text.to_owned())),
        _ => Err(ApiError::bad_request("Tacho-Instance does not have 32 hexadecimal digits")),
    }
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A body of at most `limit` bytes, of which `expected` are expected, in one buffer: many small
/// chunks need no more memory than one large one.
async fn received(mut body: Body, expected: usize, limit: usize) -> Result<Bytes, ApiError> {
    let mut bytes = Vec::with_capacity(expected);
    let all = async {
        while let Some(frame) = timeout(BODY_PAUSE, body.frame()).await.map_err(too_slow)? {
            let frame = frame.map_err(|error| {
                let text = format!("the body did not arrive: {error}");
                bad_request(text)
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if data.len() > limit - bytes.len() {
                return Err(ApiError::from(Refusal::TooLarge));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(())
    };
    timeout(BODY_WAIT, all).await.map_err(too_slow)??;
    Ok(bytes.into())
}

fn too_slow(_: Elapsed) -> ApiError {
    ApiError::new(Code::Unavailable, "the body took too long to arrive").retry_after(1)
}

async fn received_json<T: DeserializeOwned>(body: Body) -> Result<T, ApiError> {
    let body = received(body, 0, REQUEST_JSON_BYTES_MAX).await?;
    serde_json::from_slice(&body).map_err(bad_request)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    use axum::body::HttpBody;
    use axum::response::IntoResponse as _;
    use http_body::Frame;

    use super::*;

    /// A chunk that counts how many of its kind are in memory.
    struct Chunk(&'static AtomicUsize);

    impl AsRef<[u8]> for Chunk {
        fn as_ref(&self) -> &[u8] {
            b"x"
        }
    }

    impl Drop for Chunk {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// So many chunks of a byte.
    struct Chunks(usize, &'static AtomicUsize);

    impl HttpBody for Chunks {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            if self.0 == 0 {
                return Poll::Ready(None);
            }
            self.0 -= 1;
            assert!(self.1.fetch_add(1, Ordering::Relaxed) < 3, "chunks are kept");
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(Chunk(self.1))))))
        }
    }

    #[tokio::test]
    async fn small_chunks_are_not_kept() {
        static ALIVE: AtomicUsize = AtomicUsize::new(0);
        let body = Body::new(Chunks(10_000, &ALIVE));
        assert_eq!(received(body, 0, 10_000).await.unwrap().len(), 10_000);
        let body = Body::new(Chunks(10_001, &ALIVE));
        assert_eq!(received(body, 0, 10_000).await.unwrap_err().code(), "too_large");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_ends() {
        let body =
            Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        let error = received(body, 0, 10).await.unwrap_err();
        assert_eq!(error.into_response().status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
