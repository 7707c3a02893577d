//! `GET /healthz`.

use axum::extract::State;
use axum::http::StatusCode;

use crate::state::AppState;

/// Answers `ok` as long as the hub serves requests. Without its own log it serves none of people,
/// and only receives logs.
pub async fn health(State(state): State<AppState>) -> (StatusCode, String) {
    match state.audit.ready() {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}
