//! The HTTP API.
//!
//! | module | requests |
//! |---|---|
//! | [`error`] | what an answer with an error looks like |
//! | [`caller`] | who a request is from: an argument of handlers |
//! | [`health`] | `/healthz` |
//! | [`ship`] | shipping: `/api/v1/origins/…` |

pub mod caller;
pub mod error;
pub mod health;
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
        .route("/api/v1/origins/{origin}", get(ship::state))
        .route("/api/v1/origins/{origin}/files/{name}", put(ship::put))
        .route("/api/v1/origins/{origin}/generations", post(ship::begin_generation))
        .route("/api/v1/origins/{origin}/heartbeat", post(ship::heartbeat))
        .fallback(error::not_found)
        .method_not_allowed_fallback(error::method_not_allowed)
        .with_state(state)
}

#[cfg(test)]
mod tests;
