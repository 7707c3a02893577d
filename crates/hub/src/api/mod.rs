//! The HTTP API.
//!
//! | module | requests |
//! |---|---|
//! | [`error`] | what an answer with an error looks like |
//! | [`caller`] | who a request is from: an argument of handlers |
//! | `held` | answers that hold memory until they are read |
//! | [`health`] | `/healthz` |
//! | [`metrics`] | `/metrics` |
//! | [`servers`] | `/api/v1/servers` |
//! | [`ship`] | shipping: `/api/v1/origins/…` |
//!
//! Every other path is a page of the web UI ([`crate::ui`]).

pub mod caller;
pub mod error;
pub mod health;
mod held;
pub mod metrics;
pub mod servers;
pub mod ship;

use axum::Router;
use axum::routing::{get, post, put};

use crate::state::AppState;
pub use caller::Caller;
pub use error::ApiError;

/// All requests.
pub fn router(state: AppState) -> Router {
    Router::new()
        .route("/healthz", get(health::health))
        .route("/metrics", get(metrics::metrics))
        .route("/api/v1/servers", get(servers::servers))
        .route("/api/v1/origins/{origin}", get(ship::state))
        .route("/api/v1/origins/{origin}/files/{name}", put(ship::put))
        .route("/api/v1/origins/{origin}/generations", post(ship::begin_generation))
        .route("/api/v1/origins/{origin}/heartbeat", post(ship::heartbeat))
        .fallback(crate::ui::answer)
        .method_not_allowed_fallback(error::method_not_allowed)
        .with_state(state)
}

#[cfg(test)]
mod tests;
