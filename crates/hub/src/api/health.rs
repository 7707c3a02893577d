//! `GET /healthz`.

use axum::extract::State;
use axum::http::StatusCode;

use crate::landing::free_bytes;
use crate::state::AppState;

/// Answers `ok` as long as the hub serves requests and receives logs. Without its own log it serves
/// none of people; without space it receives none.
pub async fn health(State(state): State<AppState>) -> (StatusCode, String) {
    let landing = state.ship.landing();
    let free = free_bytes(landing.data().path());
    let is_full = free.is_ok_and(|free| free < landing.reserve_bytes());
    match state.audit.ready() {
        Ok(()) if is_full => {
            let text = "the disk has less free space than --reserve-mib: no logs are accepted\n";
            (StatusCode::SERVICE_UNAVAILABLE, text.to_owned())
        }
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}
