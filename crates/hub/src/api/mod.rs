//! The HTTP API.
//!
//! | module | requests |
//! |---|---|
//! | [`error`] | what an answer with an error looks like |
//! | [`activity`] | `/api/v1/servers/{server}/activity` |
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
//! | [`storage`] | `/api/v1/storage`, retention of servers |
//! | [`sql`] | `/api/v1/sql` |
//! | [`openapi`] | `/api/v1/openapi.json`: the description of all requests |
//! | [`routes`] | the router and its list |
//! | `simultaneous` | how many requests of one token are under way |
//! | [`metrics`] | `/metrics` |
//! | [`servers`] | `/api/v1/servers` |
//! | [`session`] | `/api/v1/session`, `/api/v1/me` |
//! | [`ship`] | shipping: `/api/v1/origins/…` |
//!
//! Every other path is a page of the web UI ([`crate::ui`]).

pub mod activity;
pub mod alerts;
pub mod audited;
pub mod caller;
pub mod error;
pub mod export;
pub mod filter;
pub mod headers;
pub mod health;
mod held;
mod lines;
pub mod metrics;
pub mod openapi;
pub mod record;
pub mod records;
pub mod routes;
pub mod servers;
pub mod session;
pub mod ship;
mod simultaneous;
pub mod sql;
pub mod statistics;
pub mod storage;
pub mod tail;
mod windows;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state, map_response};

use crate::state::AppState;
pub use caller::Caller;
pub use error::ApiError;
use routes::Routes;
use simultaneous::Simultaneous;

/// All requests.
pub fn router(state: AppState) -> Router {
    routes(&state)
        .into_router()
        .fallback(crate::ui::answer)
        .method_not_allowed_fallback(error::method_not_allowed)
        .layer(from_fn_with_state(Simultaneous::default(), simultaneous::limit))
        .layer(map_response(headers::secure))
        .with_state(state)
}

fn routes(state: &AppState) -> Routes {
    let recorded = from_fn_with_state(state.clone(), audited::record);
    Routes::default()
        .get("/metrics", metrics::metrics)
        .get("/api/v1/servers", servers::servers)
        .get("/api/v1/servers/{server}/activity", activity::activity)
        .put("/api/v1/servers/{server}/retention", storage::set)
        .delete("/api/v1/servers/{server}/retention", storage::reset)
        .get("/api/v1/storage", storage::storage)
        .get("/api/v1/alerts", alerts::list)
        .post("/api/v1/alerts/{id}/acknowledge", alerts::acknowledge)
        .post("/api/v1/session", session::begin)
        .delete("/api/v1/session", session::end)
        .get("/api/v1/me", session::me)
        .merge(searching())
        .map(|router| router.route_layer(recorded))
        .merge(shipping().map(|router| router.route_layer(from_fn(ship::refuse_hub))))
        .get("/healthz", health::health)
        .get("/api/v1/openapi.json", openapi::openapi)
}

fn searching() -> Routes {
    Routes::default()
        .get("/api/v1/records", records::list)
        .get("/api/v1/records/{server}/{seq}", record::one)
        .get("/api/v1/tail", tail::tail)
        .get("/api/v1/histogram", statistics::histogram)
        .get("/api/v1/facets", statistics::facets)
        .get("/api/v1/top", statistics::top)
        .get("/api/v1/overview", statistics::overview)
        .post("/api/v1/sql", sql::sql)
        .post("/api/v1/export", export::bundle)
}

/// Only what shippers need: for the listener of local logs.
pub fn shipping_router(state: AppState) -> Router {
    shipping().into_router().fallback(error::not_found).with_state(state)
}

fn shipping() -> Routes {
    Routes::default()
        .get("/api/v1/origins/{origin}", ship::state)
        .put("/api/v1/origins/{origin}/files/{name}", ship::put)
        .post("/api/v1/origins/{origin}/generations", ship::begin_generation)
        .post("/api/v1/origins/{origin}/heartbeat", ship::heartbeat)
}

#[cfg(test)]
mod tests;
