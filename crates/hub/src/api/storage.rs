//! `GET /api/v1/storage`, and the retention of servers.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use tacho_ship::protocol::{Code, Origin};

use super::{ApiError, Caller, servers};
use crate::audit::{Entry, Kind};
use crate::retention::settings::{self, Settings};
use crate::retention::storage::Storage;
use crate::retention::{DAYS_MAX, settings::VARIABLE};
use crate::roles::Scope;
use crate::state::AppState;

/// How old an answer may be.
const AGE_MAX: Duration = Duration::from_secs(5);

/// `GET /api/v1/storage`: the disk, and each log on it.
///
/// # Errors
/// The caller may not see the state of servers, or the disk cannot be read.
pub async fn storage(
    State(state): State<AppState>,
    caller: Caller,
) -> Result<Json<Storage>, ApiError> {
    caller.may_see_state()?;
    let mut storage = Storage::clone(&*state.storage.ask(AGE_MAX).await?);
    storage.servers.retain(|server| caller.may_see(&server.server));
    // A setting that was changed a moment ago.
    let settings = state.database.call(settings::load).await?;
    for server in &mut storage.servers {
        server.retention_days = settings.days(&server.server);
        server.retention_is_default = !settings.servers.contains_key(&server.server);
    }
    Ok(Json(storage))
}

/// The retention of a server.
#[derive(Debug, Serialize)]
pub struct Retention {
    server: Origin,
    retention_days: u64,
    retention_is_default: bool,
}

/// Body of `PUT /api/v1/servers/{server}/retention`.
#[derive(Debug, Deserialize)]
pub struct NewRetention {
    days: u64,
}

/// `PUT /api/v1/servers/{server}/retention`
///
/// # Errors
/// The caller is not an administrator, or there is no such server.
pub async fn set(
    State(state): State<AppState>,
    caller: Caller,
    path: Result<Path<Origin>, PathRejection>,
    body: Result<Json<NewRetention>, JsonRejection>,
) -> Result<Json<Retention>, ApiError> {
    caller.may_administer()?;
    let (Path(server), Json(body)) = (path?, body?);
    if body.days > DAYS_MAX {
        return Err(ApiError::bad_request(format!("days is a number from 0 to {DAYS_MAX}")));
    }
    change(state, caller, server, Some(body.days)).await
}

/// `DELETE /api/v1/servers/{server}/retention`: back to the default.
///
/// # Errors
/// The caller is not an administrator, or there is no such server.
pub async fn reset(
    State(state): State<AppState>,
    caller: Caller,
    path: Result<Path<Origin>, PathRejection>,
) -> Result<Json<Retention>, ApiError> {
    caller.may_administer()?;
    let Path(server) = path?;
    change(state, caller, server, None).await
}

async fn change(
    state: AppState,
    caller: Caller,
    server: Origin,
    days: Option<u64>,
) -> Result<Json<Retention>, ApiError> {
    state.audit.ready()?;
    let is_known = servers::list(&state, &Scope::Servers(vec![server.clone()]))?.len() == 1;
    if !is_known || !caller.may_see(&server) {
        return Err(ApiError::new(Code::NotFound, "there is no such server"));
    }
    let mut record = Entry::new(Kind::Config, &caller.user, caller.source.clone());
    record.variable = VARIABLE.to_owned();
    let record = record.with("role", &caller.roles.to_string());
    let name = server.clone();
    let done = state.database.call(move |database| {
        settings::set(database, &name, days, record)?;
        settings::load(database)
    });
    let settings: Settings = done.await?;
    // The record is in the database; if the log cannot have it now, it gets it later.
    let _ = state.audit.drain().await;
    Ok(Json(Retention {
        retention_days: settings.days(&server),
        retention_is_default: !settings.servers.contains_key(&server),
        server,
    }))
}
