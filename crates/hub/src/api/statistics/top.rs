//! `GET /api/v1/top`: rankings.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use tacho_query::literal;
use tacho_store::rollup::View;

use super::{Buckets, STATEMENTS, fetch, number, percentile_us, percentiles};
use crate::api::ApiError;
use crate::api::filter::Filter;
use crate::state::AppState;

/// Points of a sparkline at most.
const SPARK: usize = 25;

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

/// The number of errors, in SQL over the rows of a value: an error may have no number.
const ERRORS: &str = "coalesce(sum(n) FILTER \
    (WHERE errno IS NOT NULL OR outcome = 'error' OR event = 'connect_failed'), 0)";

/// By what, in SQL over the rows of a value.
pub const MEASURES: &[(&str, &str)] = &[
    ("time", "coalesce(sum(query_time_us), 0)"),
    ("count", "sum(n)"),
    ("errors", ERRORS),
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
    // The window function counts all groups, also those that the limit leaves out.
    let sql = format!(
        "SELECT {by}::VARCHAR AS v, sum(n), {ERRORS}, \
         sum(query_time_us), sum(rows_sent), sum(rows_examined), sum(rows_affected), \
         ({measure})::DOUBLE AS m, sum(m) OVER (), count(*) OVER () \
         FROM statistics WHERE {STATEMENTS} AND {by} IS NOT NULL GROUP BY v \
         ORDER BY m DESC, v LIMIT {limit}"
    );
    let answer = fetch(&state, &filter, View::Statistics, None, sql).await?;
    let values: Vec<&str> = answer.rows.iter().filter_map(|row| row[0].as_str()).collect();
    let texts = match name {
        "digest" => {
            let texts = state.index.store().digest_texts(values.iter().copied());
            texts.map_err(|error| ApiError::internal(&error))?
        }
        _ => BTreeMap::new(),
    };
    let (times, sparks) = tokio::try_join!(
        times(&state, &filter, by, &values),
        sparks(&state, &filter, by, measure, &values)
    )?;
    let rows = answer.rows.iter().map(|row| {
        let value = row[0].as_str().unwrap_or_default();
        let percentile_us = |at: usize| times.get(value).map_or(0, |row| percentile_us(row, at));
        let all = row[8].as_f64().unwrap_or(0.0);
        let own = row[7].as_f64().unwrap_or(0.0);
        json!({
            "value": value,
            "text": texts.get(value),
            "count": number(row, 1),
            "errors": number(row, 2),
            "time_us": number(row, 3),
            "p50_us": percentile_us(1),
            "p95_us": percentile_us(2),
            "p99_us": percentile_us(3),
            "rows_sent": number(row, 4),
            "rows_examined": number(row, 5),
            "rows_affected": number(row, 6),
            "share": if all > 0.0 { own / all } else { 0.0 },
            "spark": sparks.get(value).cloned().unwrap_or_else(|| vec![0; SPARK]),
        })
    });
    let total = answer.rows.first().map_or(0, |row| number(row, 9));
    Ok(Json(json!({"total": total, "rows": rows.collect::<Vec<_>>()})))
}

/// The condition of statements with one of these values.
fn of_values(by: &str, values: &[&str]) -> String {
    let list: Vec<String> = values.iter().map(|value| literal(value)).collect();
    format!("{STATEMENTS} AND {by}::VARCHAR IN ({})", list.join(", "))
}

/// Percentiles of the statement times of each value: rows of [`percentiles`].
async fn times(
    state: &AppState,
    filter: &Filter,
    by: &str,
    values: &[&str],
) -> Result<BTreeMap<String, Vec<Value>>, ApiError> {
    if values.is_empty() {
        return Ok(BTreeMap::new());
    }
    let sql = percentiles(&format!("{by}::VARCHAR"), &of_values(by, values), &[50, 95, 99]);
    let answer = fetch(state, filter, View::Times, None, sql).await?;
    let by_value = |row: Vec<Value>| Some((row.first()?.as_str()?.to_owned(), row));
    Ok(answer.rows.into_iter().filter_map(by_value).collect())
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
    let buckets = Buckets::whole(filter.range(), SPARK);
    let sql = format!(
        "SELECT {by}::VARCHAR AS v, {} AS piece, ({measure})::DOUBLE FROM statistics \
         WHERE {} GROUP BY v, piece",
        buckets.sql(),
        of_values(by, values)
    );
    let answer = fetch(state, filter, View::Statistics, Some(buckets), sql).await?;
    let mut sparks: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for row in &answer.rows {
        let value = row[0].as_str().unwrap_or_default().to_owned();
        let spark = sparks.entry(value).or_insert_with(|| vec![0; buckets.count]);
        // What is left of the division belongs to the last one.
        let at = (number(row, 1) as usize).min(buckets.count - 1);
        spark[at] += number(row, 2);
    }
    Ok(sparks)
}
