//! The HTTP API.
//!
//! | module | requests |
//! |---|---|
//! | [`error`] | what an answer with an error looks like |
//! | [`alerts`] | `/api/v1/alerts` |
//! | [`audited`] | records what is asked |
//! | [`export`] | `/api/v1/export`: evidence bundles |
//! | [`caller`] | who a request is from: an argument of handlers |
//! | [`headers`] | security headers of all answers |
//! | `held` | answers that hold memory until they are read |
//! | [`health`] | `/healthz` |
//! | [`filter`] | parameters that requests about records share |
//! | [`records`] | `/api/v1/records` |
//! | [`record`] | one record and its proof |
//! | [`tail`] | `/api/v1/tail`: new records as they come |
//! | [`statistics`] | `/api/v1/histogram`, `facets`, `top`, `overview` |
//! | [`sql`] | `/api/v1/sql` |
//! | [`metrics`] | `/metrics` |
//! | [`servers`] | `/api/v1/servers` |
//! | [`session`] | `/api/v1/session`, `/api/v1/me` |
//! | [`ship`] | shipping: `/api/v1/origins/…` |
//!
//! Every other path is a page of the web UI ([`crate::ui`]).

pub mod alerts;
pub mod audited;
pub mod caller;
pub mod error;
pub mod export;
pub mod filter;
pub mod headers;
pub mod health;
mod held;
pub mod metrics;
pub mod record;
pub mod records;
pub mod servers;
pub mod session;
pub mod ship;
pub mod sql;
pub mod statistics;
pub mod tail;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::routing::{get, post, put};

use crate::state::AppState;
pub use caller::Caller;
pub use error::ApiError;

/// All requests.
pub fn router(state: AppState) -> Router {
    let recorded = from_fn_with_state(state.clone(), audited::record);
    Router::new()
        .route("/metrics", get(metrics::metrics))
        .route("/api/v1/servers", get(servers::servers))
        .route("/api/v1/alerts", get(alerts::list))
        .route("/api/v1/alerts/{id}/acknowledge", post(alerts::acknowledge))
        .route("/api/v1/session", post(session::begin).delete(session::end))
        .route("/api/v1/me", get(session::me))
        .merge(searching())
        .route_layer(recorded)
        .merge(shipping().route_layer(from_fn(ship::refuse_hub)))
        .route("/healthz", get(health::health))
        .fallback(crate::ui::answer)
        .method_not_allowed_fallback(error::method_not_allowed)
        .layer(map_response(headers::secure))
        .with_state(state)
}

fn searching() -> Router<AppState> {
    Router::new()
        .route("/api/v1/records", get(records::list))
        .route("/api/v1/records/{server}/{seq}", get(record::one))
        .route("/api/v1/tail", get(tail::tail))
        .route("/api/v1/histogram", get(statistics::histogram))
        .route("/api/v1/facets", get(statistics::facets))
        .route("/api/v1/top", get(statistics::top))
        .route("/api/v1/overview", get(statistics::overview))
        .route("/api/v1/sql", post(sql::sql))
        .route("/api/v1/export", post(export::bundle))
}

/// Only what shippers need: for the listener of local logs.
pub fn shipping_router(state: AppState) -> Router {
    shipping().fallback(error::not_found).with_state(state)
}

fn shipping() -> Router<AppState> {
    Router::new()
        .route("/api/v1/origins/{origin}", get(ship::state))
        .route("/api/v1/origins/{origin}/files/{name}", put(ship::put))
        .route("/api/v1/origins/{origin}/generations", post(ship::begin_generation))
        .route("/api/v1/origins/{origin}/heartbeat", post(ship::heartbeat))
}

#[cfg(test)]
mod tests;
