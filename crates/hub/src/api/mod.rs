//! The HTTP API.
//!
//! | module | requests |
//! |---|---|
//! | [`error`] | what an answer with an error looks like |
//! | [`caller`] | who a request is from: an argument of handlers |
//! | [`health`] | `/healthz` |

pub mod caller;
pub mod error;
pub mod health;

use axum::Router;
use axum::routing::get;

use crate::state::AppState;
pub use caller::Caller;
pub use error::ApiError;

/// All requests.
pub fn router(state: AppState) -> Router {
    Router::new()
        .route("/healthz", get(health::health))
        .fallback(error::not_found)
        .method_not_allowed_fallback(error::method_not_allowed)
        .with_state(state)
}

#[cfg(test)]
mod tests;
