//! `GET /api/v1/overview`: the series of the first page.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::{Buckets, IS_ERROR, STATEMENTS, fetch, number};
use crate::api::ApiError;
use crate::api::filter::Filter;
use crate::state::AppState;

/// Points of a series.
const POINTS: u64 = 120;

/// The kind of a statement, from the server's class of it.
const KIND: &str = "CASE \
    WHEN sql_command IN ('select') THEN 'select' \
    WHEN sql_command LIKE 'insert%' OR sql_command LIKE 'replace%' OR sql_command = 'load' \
        THEN 'insert' \
    WHEN sql_command LIKE 'update%' THEN 'update' \
    WHEN sql_command LIKE 'delete%' THEN 'delete' \
    WHEN sql_command IN ('begin', 'commit', 'rollback', 'savepoint', 'release_savepoint') \
        OR sql_command LIKE 'xa_%' THEN 'transaction' \
    WHEN sql_command LIKE '%user%' OR sql_command LIKE 'grant%' OR sql_command LIKE 'revoke%' \
        OR sql_command LIKE '%role%' THEN 'account' \
    WHEN sql_command LIKE 'create%' OR sql_command LIKE 'drop%' OR sql_command LIKE 'alter%' \
        OR sql_command LIKE 'rename%' OR sql_command = 'truncate' THEN 'ddl' \
    WHEN sql_command LIKE 'set_%' OR sql_command = 'change_db' THEN 'set' \
    WHEN sql_command LIKE 'show%' THEN 'show' \
    ELSE 'other' END";

/// Series over time.
///
/// # Errors
/// A parameter is wrong, or a query fails.
pub async fn overview(
    State(state): State<AppState>,
    filter: Filter,
) -> Result<Json<Value>, ApiError> {
    let buckets = Buckets::of(filter.range(), filter.number("buckets", POINTS, 400)?);
    let condition = filter.condition();
    let totals = format!(
        "SELECT {} AS bucket, count(*) FILTER (WHERE {STATEMENTS}), \
         count(*) FILTER (WHERE {IS_ERROR}), approx_quantile(query_time_us, [0.5, 0.99]), \
         approx_count_distinct(hash(\"server\", run, conn)) FILTER (WHERE conn IS NOT NULL) \
         FROM records WHERE {condition} GROUP BY bucket",
        buckets.sql()
    );
    let split = format!(
        "SELECT {} AS bucket, \"server\" AS s, {KIND} AS k, count(*) FROM records \
         WHERE {condition} AND {STATEMENTS} GROUP BY bucket, s, k",
        buckets.sql()
    );
    let (totals, split) =
        tokio::try_join!(fetch(&state, &filter, totals), fetch(&state, &filter, split))?;

    let zeros = vec![0_u64; buckets.count];
    let mut series = vec![zeros.clone(); 5];
    for row in &totals.rows {
        let at = number(row, 0) as usize;
        let quantile = |index: usize| row[3].get(index).and_then(Value::as_f64).unwrap_or(0.0);
        let values = [
            number(row, 1),
            number(row, 2),
            quantile(0) as u64,
            quantile(1) as u64,
            number(row, 4),
        ];
        for (list, value) in series.iter_mut().zip(values) {
            if let Some(point) = list.get_mut(at) {
                *point = value;
            }
        }
    }
    let mut by_server: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut by_kind: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for row in &split.rows {
        let (at, count) = (number(row, 0) as usize, number(row, 3));
        for (map, name) in [(&mut by_server, &row[1]), (&mut by_kind, &row[2])] {
            let name = name.as_str().unwrap_or_default().to_owned();
            let list = map.entry(name).or_insert_with(|| zeros.clone());
            if let Some(point) = list.get_mut(at) {
                *point += count;
            }
        }
    }
    Ok(Json(json!({
        "step_us": buckets.step_us,
        "ts": buckets.begins(),
        "statements": series[0],
        "errors": series[1],
        "p50_us": series[2],
        "p99_us": series[3],
        "connections": series[4],
        "by_server": by_server,
        "by_kind": by_kind,
    })))
}
