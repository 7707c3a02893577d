//! `GET /api/v1/servers/{server}/activity`: what a database server is doing, as its shipper said
//! last. It may say so only if it has an account there.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde::Serialize;
use tacho_ship::protocol::activity::{Activity, Process};
use tacho_ship::protocol::{Code, Origin};

use super::{ApiError, Caller};
use crate::clock::rfc3339;
use crate::state::AppState;

/// The answer.
#[derive(Debug, Serialize)]
pub struct Answer {
    server: Origin,
    /// When the server was asked, by the clock of its host.
    ts: String,
    version: String,
    status: std::collections::BTreeMap<String, String>,
    processes: Vec<Process>,
    process_count: u64,
    error: Option<String>,
}

/// The handler.
///
/// # Errors
/// The caller may not see the server, or its shipper has said nothing.
pub async fn activity(
    State(state): State<AppState>,
    caller: Caller,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<Answer>, ApiError> {
    caller.may_see_state()?;
    let Path(name) = path?;
    let unknown = || {
        let text = format!("no shipper with an account there has reported about {name:?}");
        ApiError::new(Code::NotFound, text)
    };
    let server: Origin = name.parse().map_err(|_| unknown())?;
    if !caller.may_see(&server) {
        return Err(unknown());
    }
    let activity = state.ship.landing().activity(&server).ok_or_else(unknown)?;
    Ok(Json(Answer::new(server, Activity::clone(&activity), caller.roles.may_search())))
}

impl Answer {
    /// Statements, even without literals, are not for administrators.
    fn new(server: Origin, activity: Activity, may_search: bool) -> Self {
        let Activity { time_us, version, status, mut processes, process_count, error } = activity;
        if !may_search {
            processes.iter_mut().for_each(|process| process.digest_text = None);
        }
        let ts = rfc3339(time_us);
        Self { server, ts, version, status, processes, process_count, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_administrator_sees_sessions_without_their_statements() {
        let digest_text = Some("SELECT ?".to_owned());
        let activity = Activity {
            processes: vec![Process { id: 5, digest_text, ..Process::default() }],
            ..Activity::default()
        };
        let seen = |may_search| {
            let answer = Answer::new("db1".parse().unwrap(), activity.clone(), may_search);
            (answer.processes[0].id, answer.processes[0].digest_text.is_some())
        };
        assert_eq!((seen(true), seen(false)), ((5, true), (5, false)));
    }
}
