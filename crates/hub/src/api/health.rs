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
        Ok(()) => {
            let text = match state.index.report().failed.len() {
                0 => "ok\n".to_owned(),
                // Names of servers need a token: the hub's messages and `/metrics` have them.
                count => format!("ok\nfiles of the replica that cannot be indexed: {count}\n"),
            };
            (StatusCode::OK, text)
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}
