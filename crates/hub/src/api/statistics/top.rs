//! `GET /api/v1/top`: rankings.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use tacho_query::literal;

use super::{Buckets, STATEMENTS, fetch, number};
use crate::api::ApiError;
use crate::api::filter::Filter;
use crate::state::AppState;

/// Points of a sparkline.
const SPARK: usize = 24;

/// What can be ranked, in SQL.
pub const BY: &[(&str, &str)] = &[
    ("digest", "digest"),
    ("user", "\"user\""),
    ("db", "db"),
    ("host", "coalesce(host, ip)"),
    ("errno", "errno"),
    ("sql_command", "sql_command"),
    ("server", "\"server\""),
];

/// By what, in SQL over the rows of a value.
pub const MEASURES: &[(&str, &str)] = &[
    ("time", "coalesce(sum(query_time_us), 0)"),
    ("count", "count(*)"),
    ("errors", "count(errno)"),
    ("rows_sent", "coalesce(sum(rows_sent), 0)"),
    ("rows_examined", "coalesce(sum(rows_examined), 0)"),
    ("rows_affected", "coalesce(sum(rows_affected), 0)"),
];

fn choice(
    filter: &Filter,
    name: &str,
    all: &'static [(&str, &str)],
) -> Result<(&'static str, &'static str), ApiError> {
    let text = filter.value(name).unwrap_or(all[0].0);
    all.iter().find(|(word, _)| *word == text).copied().ok_or_else(|| {
        let words: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
        ApiError::bad_request(format!("{name} is one of {}", words.join(", ")))
    })
}

/// The values with the most of a measure.
///
/// # Errors
/// A parameter is wrong, or a query fails.
pub async fn top(State(state): State<AppState>, filter: Filter) -> Result<Json<Value>, ApiError> {
    let (name, by) = choice(&filter, "by", BY)?;
    let (_, measure) = choice(&filter, "measure", MEASURES)?;
    let limit = filter.number("limit", 20, 200)?;
    let condition = format!("{} AND {STATEMENTS}", filter.condition());
    // The window function counts all groups, also those that the limit leaves out.
    let sql = format!(
        "SELECT {by}::VARCHAR AS v, count(*), count(errno), sum(query_time_us)::UBIGINT, \
         approx_quantile(query_time_us, [0.5, 0.95, 0.99]), sum(rows_sent)::UBIGINT, \
         sum(rows_examined)::UBIGINT, sum(rows_affected)::UBIGINT, ({measure})::DOUBLE AS m, \
         sum(m) OVER (), count(*) OVER () \
         FROM records WHERE {condition} AND {by} IS NOT NULL GROUP BY v ORDER BY m DESC, v \
         LIMIT {limit}"
    );
    let answer = fetch(&state, &filter, sql).await?;
    let values: Vec<&str> = answer.rows.iter().filter_map(|row| row[0].as_str()).collect();
    let texts = match name {
        "digest" => {
            let texts = state.index.store().digest_texts(values.iter().copied());
            texts.map_err(|error| ApiError::internal(&error))?
        }
        _ => BTreeMap::new(),
    };
    let sparks = sparks(&state, &filter, by, measure, &values).await?;
    let rows = answer.rows.iter().map(|row| {
        let value = row[0].as_str().unwrap_or_default();
        let quantile = |at: usize| row[4].get(at).and_then(Value::as_f64).map_or(0, |us| us as u64);
        let all = row[9].as_f64().unwrap_or(0.0);
        let own = row[8].as_f64().unwrap_or(0.0);
        json!({
            "value": value,
            "text": texts.get(value),
            "count": number(row, 1),
            "errors": number(row, 2),
            "time_us": number(row, 3),
            "p50_us": quantile(0),
            "p95_us": quantile(1),
            "p99_us": quantile(2),
            "rows_sent": number(row, 5),
            "rows_examined": number(row, 6),
            "rows_affected": number(row, 7),
            "share": if all > 0.0 { own / all } else { 0.0 },
            "spark": sparks.get(value).cloned().unwrap_or_else(|| vec![0; SPARK]),
        })
    });
    let total = answer.rows.first().map_or(0, |row| number(row, 10));
    Ok(Json(json!({"total": total, "rows": rows.collect::<Vec<_>>()})))
}

/// The measure of each value over time.
async fn sparks(
    state: &AppState,
    filter: &Filter,
    by: &str,
    measure: &str,
    values: &[&str],
) -> Result<BTreeMap<String, Vec<u64>>, ApiError> {
    if values.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (from_us, to_us) = filter.range();
    let step_us = ((to_us - from_us) / SPARK as i64).max(1);
    let buckets = Buckets { first_us: from_us, step_us, count: SPARK };
    let list: Vec<String> = values.iter().map(|value| literal(value)).collect();
    let sql = format!(
        "SELECT {by}::VARCHAR AS v, {} AS bucket, ({measure})::DOUBLE FROM records \
         WHERE {} AND {STATEMENTS} AND {by}::VARCHAR IN ({}) GROUP BY v, bucket",
        buckets.sql(),
        filter.condition(),
        list.join(", ")
    );
    let answer = fetch(state, filter, sql).await?;
    let mut sparks: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for row in &answer.rows {
        let value = row[0].as_str().unwrap_or_default().to_owned();
        let spark = sparks.entry(value).or_insert_with(|| vec![0; SPARK]);
        // What is left of the division belongs to the last one.
        let at = (number(row, 1) as usize).min(SPARK - 1);
        spark[at] += number(row, 2);
    }
    Ok(sparks)
}
