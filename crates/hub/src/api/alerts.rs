//! `/api/v1/alerts`

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use tacho_ship::protocol::Code;

use super::{ApiError, Caller};
use crate::alerts::{self, Alert};
use crate::audit::Entry;
use crate::state::AppState;

/// Longest note, characters.
const NOTE_MAX: usize = 2000;

/// Query of `GET /api/v1/alerts`.
#[derive(Debug, Deserialize)]
pub struct AlertQuery {
    state: Option<String>,
}

/// Body of an acknowledgement.
#[derive(Debug, Deserialize)]
pub struct Acknowledgement {
    note: String,
}

/// `GET /api/v1/alerts?state`
///
/// # Errors
/// The caller may not see the state of servers.
pub async fn list(
    State(state): State<AppState>,
    caller: Caller,
    query: Result<Query<AlertQuery>, QueryRejection>,
) -> Result<Json<Vec<Alert>>, ApiError> {
    caller.may_see_state()?;
    let Query(query) = query?;
    let known = ["open", "acknowledged", "closed"];
    if query.state.as_deref().is_some_and(|wanted| !known.contains(&wanted)) {
        return Err(ApiError::bad_request("state is open, acknowledged or closed"));
    }
    let call = move |database: &_| alerts::list(database, query.state.as_deref());
    Ok(Json(visible(&caller, state.database.call(call).await?)))
}

/// Those that a caller may see.
pub(super) fn visible(caller: &Caller, mut alerts: Vec<Alert>) -> Vec<Alert> {
    alerts.retain(|alert| is_visible(caller, alert));
    alerts
}

/// `POST /api/v1/alerts/{id}/acknowledge`
///
/// # Errors
/// There is no such alert, or the caller is neither auditor nor administrator.
pub async fn acknowledge(
    State(state): State<AppState>,
    caller: Caller,
    path: Result<Path<i64>, PathRejection>,
    body: Result<Json<Acknowledgement>, JsonRejection>,
) -> Result<Json<Alert>, ApiError> {
    if !caller.roles.may_administer() {
        caller.may_see_statements()?;
    }
    state.audit.ready()?;
    let (Path(id), Json(body)) = (path?, body?);
    let not_found = || ApiError::new(Code::NotFound, "there is no such alert");
    let found = state.database.call(move |database| alerts::find(database, id)).await?;
    let found = found.filter(|alert| is_visible(&caller, alert)).ok_or_else(not_found)?;
    if found.state == "closed" {
        return Err(ApiError::bad_request("the alert is closed"));
    }
    let note: String = body.note.chars().take(NOTE_MAX).collect();
    let user = caller.user;
    let change = Entry::change(&user, caller.source, "hub.alert", &found.state, "acknowledged")
        .with("role", &caller.roles.to_string())
        .with("alert", &id.to_string())
        .with("rule", &found.rule)
        .with("server", found.server.as_deref().unwrap_or_default())
        .with("note", &note);
    let done = state.database.call(move |database| {
        alerts::acknowledge(database, id, &user, &note, &change)?;
        alerts::find(database, id)
    });
    let alert = done.await?.ok_or_else(not_found)?;
    // The record is in the database; if the log cannot have it now, it gets it later.
    let _ = state.audit.drain().await;
    Ok(Json(alert))
}

/// An alert of the hub itself is visible to all.
fn is_visible(caller: &Caller, alert: &Alert) -> bool {
    let server = alert.server.as_ref().and_then(|server| server.parse().ok());
    server.is_none_or(|server| caller.may_see(&server))
}
