//! `GET /api/v1/servers`: the state of every log.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use rusqlite::Connection;
use serde::Serialize;
use tacho_ship::protocol::{Origin, Problem};

use super::{ApiError, Caller};
use crate::clock::{Moment, rfc3339};
use crate::database::DatabaseError;
use crate::landing::shippers::Instance;
use crate::landing::{NewestLine, OriginView};
use crate::roles::Scope;
use crate::state::AppState;
use crate::tokens;
use crate::verification::{Seal, SealState};

/// Bytes that a shipper may be behind without being called that.
const BEHIND_BYTES: u64 = 8 << 20;

/// One server.
#[derive(Debug, Serialize)]
pub struct Server {
    server: Origin,
    name: String,
    state: &'static str,
    generation: u64,
    records: u64,
    landed_seq: Option<u64>,
    /// Last record of the generation that searches find.
    indexed_seq: Option<u64>,
    last_record_ts: Option<String>,
    /// Age of the records that have not arrived, or that searches do not find yet, at most.
    lag_s: Option<f64>,
    verified_to_seq: Option<u64>,
    checkpoint_ts: Option<String>,
    unsealed_bytes: u64,
    lost: u64,
    gaps: u64,
    seal: Option<&'static str>,
    seal_message: String,
    /// What was found, the first ones.
    findings: Vec<String>,
    shipper: Option<ShipperState>,
    /// Its shipper says what the database server is doing.
    has_activity: bool,
    bytes: u64,
}

impl Server {
    /// Its name.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.server
    }

    /// Number of the last record that has landed.
    #[must_use]
    pub fn landed(&self) -> Option<f64> {
        self.landed_seq.map(|seq| seq as f64)
    }

    /// Number of the last record that searches find.
    #[must_use]
    pub fn indexed(&self) -> Option<f64> {
        self.indexed_seq.map(|seq| seq as f64)
    }

    /// Age of the records that searches do not find yet, s.
    #[must_use]
    pub fn lag_s(&self) -> Option<f64> {
        self.lag_s
    }
}

/// What a shipper says of itself.
#[derive(Debug, Serialize)]
struct ShipperState {
    host: String,
    version: String,
    last_seen: String,
    behind_bytes: u64,
    recorder: Option<bool>,
    free_bytes: Option<u64>,
    clock_skew_s: f64,
    problems: Vec<Problem>,
}

/// `GET /api/v1/servers`
///
/// # Errors
/// The caller may not see the state of servers.
pub async fn servers(
    State(state): State<AppState>,
    caller: Caller,
) -> Result<Json<Vec<Server>>, ApiError> {
    caller.may_see_state()?;
    let mut servers = list(&state, &caller.scope)?;
    servers.retain(|server| caller.may_see(&server.server));
    Ok(Json(servers))
}

/// All servers of a scope: those that have sent something, and those that have a token for it.
///
/// # Errors
/// The database fails.
pub fn list(state: &AppState, scope: &Scope) -> Result<Vec<Server>, DatabaseError> {
    let now = Moment::now();
    let mut servers = BTreeMap::new();
    for origin in state.database.read(|connection| expected(connection, now.wall_us))? {
        let view = OriginView { generation: 1, ..OriginView::default() };
        servers.insert(origin.clone(), server(origin, &view, None, None, now));
    }
    let indexed = state.index.store().origins();
    for (origin, view, shippers) in state.ship.landing().origins() {
        let seal = state.verification.seal(&origin);
        let mut known = server(origin.clone(), &view, seal, shippers.newest(), now);
        known.has_activity = state.ship.landing().activity(&origin).is_some();
        let totals = indexed.get(origin.as_str());
        let current = totals.filter(|totals| u64::from(totals.generation) == view.generation);
        known.indexed_seq = current.map(|totals| totals.seq);
        let newest = view.newest_line.as_ref();
        known.lag_s = lag_us(newest, known.indexed_seq, shippers.newest(), now).map(seconds);
        servers.insert(origin, known);
    }
    Ok(servers.into_iter().filter(|(origin, _)| scope.has(origin)).map(|(_, it)| it).collect())
}

/// Servers that have a valid token for shipping.
fn expected(connection: &Connection, now_us: i64) -> Result<Vec<Origin>, DatabaseError> {
    let select = "SELECT servers FROM token WHERE roles = 'agent' AND revoked_us IS NULL
        AND (expires_us IS NULL OR expires_us > ?1)";
    let mut statement = connection.prepare_cached(select)?;
    let rows = statement.query_map([now_us], |row| row.get::<_, Option<String>>(0))?;
    let mut origins = Vec::new();
    for row in rows {
        if let Scope::Servers(servers) = tokens::servers_from_json(row?.as_deref())? {
            origins.extend(servers);
        }
    }
    Ok(origins)
}

fn server(
    origin: Origin,
    view: &OriginView,
    seal: Option<Seal>,
    shipper: Option<&Instance>,
    now: Moment,
) -> Server {
    let state = state_word(view, seal.as_ref(), shipper, now);
    let newest = view.newest_line.as_ref();
    let newest_us = newest.and_then(NewestLine::ts_us);
    let checkpoint = seal.as_ref().and_then(|seal| seal.checkpoint);
    Server {
        name: origin.to_string(),
        server: origin,
        state,
        generation: view.generation,
        records: seal.as_ref().map_or(0, |seal| seal.lines),
        landed_seq: newest.map(|line| line.seq),
        indexed_seq: None,
        last_record_ts: newest_us.map(rfc3339),
        lag_s: None,
        verified_to_seq: checkpoint.map(|(seq, _)| seq),
        checkpoint_ts: checkpoint.map(|(_, time_s)| rfc3339(time_s.saturating_mul(1_000_000))),
        unsealed_bytes: seal.as_ref().map_or(0, |seal| seal.unsealed_bytes),
        lost: seal.as_ref().map_or(0, |seal| seal.lost_lines),
        gaps: seal.as_ref().map_or(0, |seal| seal.gaps),
        seal: seal.as_ref().map(|seal| seal.state.word()),
        seal_message: seal.as_ref().map(|seal| seal.message.clone()).unwrap_or_default(),
        findings: seal.map(|seal| seal.findings).unwrap_or_default(),
        shipper: shipper.and_then(shipper_state),
        has_activity: false,
        bytes: view.bytes,
    }
}

fn state_word(
    view: &OriginView,
    seal: Option<&Seal>,
    shipper: Option<&Instance>,
    now: Moment,
) -> &'static str {
    let heartbeat = shipper.and_then(|shipper| shipper.heartbeat.as_ref());
    if seal.is_some_and(|seal| seal.state == SealState::Broken) {
        "broken"
    } else if view.files == 0 && shipper.is_none() {
        "new"
    } else if heartbeat.is_some_and(|(heartbeat, _)| heartbeat.recorder == Some(false)) {
        "stopped"
    } else if shipper.is_none_or(|shipper| shipper.is_gone(now)) {
        "silent"
    } else if heartbeat.is_some_and(|(heartbeat, _)| heartbeat.behind_bytes > BEHIND_BYTES) {
        "behind"
    } else {
        "ok"
    }
}

fn shipper_state(shipper: &Instance) -> Option<ShipperState> {
    let (heartbeat, _) = shipper.heartbeat.as_ref()?;
    Some(ShipperState {
        host: heartbeat.host.clone(),
        version: heartbeat.version.clone(),
        last_seen: rfc3339(shipper.last.wall_us),
        behind_bytes: heartbeat.behind_bytes,
        recorder: heartbeat.recorder,
        free_bytes: heartbeat.free_bytes,
        clock_skew_s: seconds(shipper.skew_us().unwrap_or_default()),
        problems: heartbeat.problems.clone(),
    })
}

/// The greatest age of records that are missing here, µs. The hub has everything up to its newest
/// record; a shipper that is not behind had sent everything at its heartbeat. `None`: unknown.
fn lag_us(
    newest: Option<&NewestLine>,
    indexed_seq: Option<u64>,
    shipper: Option<&Instance>,
    now: Moment,
) -> Option<i64> {
    let newest_us = newest.and_then(NewestLine::ts_us);
    let since_newest_us = newest_us.map(|us| now.wall_us.saturating_sub(us).max(0));
    let heard = shipper.and_then(|shipper| Some((shipper, shipper.heartbeat.as_ref()?)));
    if indexed_seq < newest.map(|line| line.seq) {
        return since_newest_us;
    }
    match heard {
        Some((shipper, (heartbeat, at_us)))
            if heartbeat.behind_bytes == 0 && heartbeat.unsealed_bytes == 0 =>
        {
            let since_us = now.wall_us.saturating_sub(*at_us).max(0);
            Some(if shipper.is_gone(now) { since_us } else { 0 })
        }
        _ => since_newest_us,
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn seconds(us: i64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::landing::shippers::Shippers;

    const SECOND_US: i64 = 1_000_000;

    /// Lag at a time, of a server whose newest record is of second 100.
    fn lag(landed: u64, indexed: u64, shippers: &Shippers, at_s: i64) -> Option<i64> {
        let now = Moment::at(at_s * SECOND_US);
        let newest = NewestLine { seq: landed, ts: rfc3339(100 * SECOND_US) };
        let lag_us = lag_us(Some(&newest), Some(indexed), shippers.newest(), now);
        lag_us.map(|us| us / SECOND_US)
    }

    #[test]
    fn an_idle_server_has_no_lag_and_one_that_is_behind_or_gone_has() {
        let mut shippers = Shippers::default();
        assert_eq!(lag(5, 5, &shippers, 130), Some(30));
        let mut heard = |at_s: i64, behind_bytes: u64| {
            let text = format!(
                r#"{{"time_us":5,"version":"1","host":"h","next_s":10,"behind_bytes":{behind_bytes}}}"#
            );
            let heartbeat = serde_json::from_str(&text).unwrap();
            shippers.heard(None, heartbeat, Moment::at(at_s * SECOND_US));
            shippers.clone()
        };
        let idle = heard(130, 0);
        assert_eq!(lag(5, 5, &idle, 159), Some(0));
        assert_eq!(lag(6, 5, &idle, 159), Some(59), "not indexed");
        assert_eq!(lag(5, 5, &idle, 190), Some(60), "gone since its heartbeat");
        assert_eq!(lag(5, 5, &heard(200, 7), 201), Some(101), "behind");
    }
}
