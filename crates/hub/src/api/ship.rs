//! Shipping: `docs/specs/ship.md`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{FromRef, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tacho_ship::protocol::answers::NewGeneration;
use tacho_ship::protocol::names::is_instance;
use tacho_ship::protocol::{
    BEFORE_HEADER, BODY_BYTES_MAX, Code, DIGEST_HEADER, ENCODING, FileName, Heartbeat,
    HeartbeatAnswer, INSTANCE_HEADER, Origin, OriginState, PROBLEMS_MAX, REQUEST_JSON_BYTES_MAX,
    Stored,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::{ApiError, Caller};
use crate::landing::{Coding, Landing, Put, Refusal};
use crate::state::AppState;

/// Memory for bodies of all shippers together, KiB.
const MEMORY_KIB: usize = 256 << 10;
/// How long a request waits for that memory.
const MEMORY_WAIT: Duration = Duration::from_secs(5);
/// Longest text of a heartbeat, characters.
const TEXT_MAX: usize = 500;
/// How long a body may take to arrive.
const BODY_WAIT: Duration = Duration::from_secs(60);

/// State of the handlers of shipping.
#[derive(Clone)]
pub struct ShipState {
    landing: Landing,
    memory: Arc<Semaphore>,
}

impl ShipState {
    /// For a landing.
    #[must_use]
    pub fn new(landing: Landing) -> Self {
        Self { landing, memory: Arc::new(Semaphore::new(MEMORY_KIB)) }
    }

    /// The landing.
    #[must_use]
    pub fn landing(&self) -> &Landing {
        &self.landing
    }

    /// Memory for a body and what it is decompressed to.
    async fn reserve(&self, sent: usize, coding: Coding) -> Result<OwnedSemaphorePermit, Refusal> {
        let unpacked = if coding == Coding::Zstd { BODY_BYTES_MAX } else { 0 };
        let kib = u32::try_from((sent + unpacked) >> 10).unwrap_or(u32::MAX).max(1);
        let permit = Arc::clone(&self.memory).acquire_many_owned(kib);
        let permit = timeout(MEMORY_WAIT, permit).await;
        permit.ok().and_then(Result::ok).ok_or(Refusal::Overload)
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

/// `GET /api/v1/origins/{origin}`
///
/// # Errors
/// See the specification.
pub async fn state(
    State(ship): State<ShipState>,
    caller: Caller,
    Path(origin): Path<String>,
) -> Result<Json<OriginState>, ApiError> {
    let origin = origin_of(&caller, &origin)?;
    Ok(Json(ship.landing.state(&origin).await?))
}

/// `PUT /api/v1/origins/{origin}/files/{name}`
///
/// # Errors
/// See the specification.
pub async fn put(
    State(ship): State<ShipState>,
    caller: Caller,
    Path((origin, name)): Path<(String, String)>,
    query: Result<Query<PutQuery>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Stored>, ApiError> {
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
    let _memory = ship.reserve(length, coding).await?;
    let body = received(body, BODY_BYTES_MAX).await?;
    Ok(Json(ship.landing.put(&origin, put, body, coding, digest).await?))
}

/// `POST /api/v1/origins/{origin}/generations`
///
/// # Errors
/// See the specification.
pub async fn begin_generation(
    State(ship): State<ShipState>,
    caller: Caller,
    Path(origin): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<OriginState>), ApiError> {
    let origin = origin_of(&caller, &origin)?;
    let instance = instance_of(&headers)?;
    let request: NewGeneration = received_json(body).await?;
    let state = ship.landing.begin_generation(&origin, request, instance).await?;
    Ok((StatusCode::CREATED, Json(state)))
}

/// `POST /api/v1/origins/{origin}/heartbeat`
///
/// # Errors
/// See the specification.
pub async fn heartbeat(
    State(ship): State<ShipState>,
    caller: Caller,
    Path(origin): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<HeartbeatAnswer>, ApiError> {
    let origin = origin_of(&caller, &origin)?;
    let instance = instance_of(&headers)?;
    let mut heartbeat: Heartbeat = received_json(body).await?;
    limit(&mut heartbeat);
    Ok(Json(ship.landing.heartbeat(&origin, heartbeat, instance).await?))
}

/// Texts of a heartbeat are kept and shown: they must not be arbitrarily long.
fn limit(heartbeat: &mut Heartbeat) {
    let cut = |text: &mut String| *text = text.chars().take(TEXT_MAX).collect();
    cut(&mut heartbeat.version);
    cut(&mut heartbeat.host);
    heartbeat.problems.truncate(PROBLEMS_MAX);
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

/// A body of at most `limit` bytes.
async fn received(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    let Ok(body) = timeout(BODY_WAIT, axum::body::to_bytes(body, limit)).await else {
        let text = "the body took too long to arrive";
        return Err(ApiError::other(StatusCode::REQUEST_TIMEOUT, Code::Unavailable.word(), text));
    };
    body.map_err(|error| {
        let is_limit = |error: &(dyn std::error::Error + 'static)| {
            error.is::<http_body_util::LengthLimitError>()
        };
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(error) = cause {
            if is_limit(error) {
                return Refusal::TooLarge.into();
            }
            cause = error.source();
        }
        bad_request(format!("the body did not arrive: {error}"))
    })
}

async fn received_json<T: DeserializeOwned>(body: Body) -> Result<T, ApiError> {
    let body = received(body, REQUEST_JSON_BYTES_MAX).await?;
    serde_json::from_slice(&body).map_err(bad_request)
}
