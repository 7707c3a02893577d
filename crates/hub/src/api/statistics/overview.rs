//! `GET /api/v1/overview`: the series of the first page.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use tacho_store::rollup::View;

use super::{Buckets, IS_ERROR, STATEMENTS, fetch, histogram_of, histograms, number};
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

fn add(series: &mut [u64], at: usize, count: u64) {
    if let Some(point) = series.get_mut(at) {
        *point += count;
    }
}

/// Series over time.
///
/// # Errors
/// A parameter is wrong, or a query fails.
pub async fn overview(
    State(state): State<AppState>,
    filter: Filter,
) -> Result<Json<Value>, ApiError> {
    let buckets = Buckets::of(filter.range(), filter.number("buckets", POINTS, 400)?);
    let counts = format!(
        "SELECT {} AS piece, \"server\" AS s, {KIND} AS k, sum(n) FILTER (WHERE {STATEMENTS}), \
         sum(n) FILTER (WHERE {IS_ERROR}) FROM statistics GROUP BY piece, s, k",
        buckets.sql()
    );
    let times = histograms(&buckets.sql(), STATEMENTS);
    let connections = format!(
        "SELECT {} AS piece, approx_count_distinct(hash(\"server\", run, conn)) \
         FROM connections GROUP BY piece",
        buckets.sql()
    );
    let of = |view, sql| fetch(&state, &filter, view, Some(buckets), sql);
    let (counts, times, connections) = tokio::try_join!(
        of(View::Statistics, counts),
        of(View::Times, times),
        of(View::Connections, connections)
    )?;

    let zeros = vec![0_u64; buckets.count];
    let [mut statements, mut errors] = [zeros.clone(), zeros.clone()];
    let mut by_server: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut by_kind: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for row in &counts.rows {
        let (at, count) = (number(row, 0) as usize, number(row, 3));
        add(&mut statements, at, count);
        add(&mut errors, at, number(row, 4));
        if count == 0 {
            continue;
        }
        for (map, name) in [(&mut by_server, &row[1]), (&mut by_kind, &row[2])] {
            let name = name.as_str().unwrap_or_default().to_owned();
            add(map.entry(name).or_insert_with(|| zeros.clone()), at, count);
        }
    }
    let [mut p50_us, mut p99_us, mut active] = [zeros.clone(), zeros.clone(), zeros.clone()];
    for row in &times.rows {
        let (at, histogram) = (number(row, 0) as usize, histogram_of(row)?);
        add(&mut p50_us, at, histogram.percentile_us(50).unwrap_or(0));
        add(&mut p99_us, at, histogram.percentile_us(99).unwrap_or(0));
    }
    for row in &connections.rows {
        add(&mut active, number(row, 0) as usize, number(row, 1));
    }
    Ok(Json(json!({
        "step_us": buckets.step_us,
        "ts": buckets.begins(),
        "statements": statements,
        "errors": errors,
        "p50_us": p50_us,
        "p99_us": p99_us,
        "connections": active,
        "by_server": by_server,
        "by_kind": by_kind,
    })))
}
