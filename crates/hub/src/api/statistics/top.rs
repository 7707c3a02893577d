//! `GET /api/v1/top`: rankings.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use tacho_histogram::Histogram;
use tacho_query::literal;
use tacho_store::rollup::View;

use super::{Buckets, STATEMENTS, fetch, histogram_of, histograms, number};
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

/// The number of a choice in its list.
fn choice(filter: &Filter, name: &str, all: &[(&str, &str)]) -> Result<usize, ApiError> {
    let text = filter.value(name).unwrap_or(all[0].0);
    all.iter().position(|(word, _)| *word == text).ok_or_else(|| {
        let words: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
        ApiError::bad_request(format!("{name} is one of {}", words.join(", ")))
    })
}

/// The values with the most of a measure.
///
/// # Errors
/// A parameter is wrong, or a query fails.
pub async fn top(State(state): State<AppState>, filter: Filter) -> Result<Json<Value>, ApiError> {
    let (name, by) = BY[choice(&filter, "by", BY)?];
    let measure = choice(&filter, "measure", MEASURES)?;
    let limit = filter.number("limit", 20, 200)?;
    // Only what ranks, because there may be many values. The window functions are over all groups,
    // also those that the limit leaves out.
    let sql = format!(
        "SELECT {by}::VARCHAR AS v, ({})::DOUBLE AS m, sum(m) OVER (), count(*) OVER () \
         FROM statistics WHERE {STATEMENTS} AND {by} IS NOT NULL GROUP BY v \
         ORDER BY m DESC, v LIMIT {limit}",
        MEASURES[measure].1
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
    let (times, courses) = tokio::try_join!(
        times(&state, &filter, by, &values),
        courses(&state, &filter, by, measure, &values)
    )?;
    let rows = answer.rows.iter().map(|row| {
        let value = row[0].as_str().unwrap_or_default();
        let percentile_us = |percent: u32| times.get(value)?.percentile_us(percent);
        let course = courses.get(value).cloned().unwrap_or_default();
        let [time_us, count, errors, rows_sent, rows_examined, rows_affected] = course.sums;
        let all = row[2].as_f64().unwrap_or(0.0);
        let own = row[1].as_f64().unwrap_or(0.0);
        json!({
            "value": value,
            "text": texts.get(value),
            "count": count,
            "errors": errors,
            "time_us": time_us,
            "p50_us": percentile_us(50).unwrap_or(0),
            "p95_us": percentile_us(95).unwrap_or(0),
            "p99_us": percentile_us(99).unwrap_or(0),
            "rows_sent": rows_sent,
            "rows_examined": rows_examined,
            "rows_affected": rows_affected,
            "share": if all > 0.0 { own / all } else { 0.0 },
            "spark": course.spark,
        })
    });
    let total = answer.rows.first().map_or(0, |row| number(row, 3));
    Ok(Json(json!({"total": total, "rows": rows.collect::<Vec<_>>()})))
}

/// The condition of statements with one of these values.
fn of_values(by: &str, values: &[&str]) -> String {
    let list: Vec<String> = values.iter().map(|value| literal(value)).collect();
    format!("{STATEMENTS} AND {by}::VARCHAR IN ({})", list.join(", "))
}

/// The statement times of each value.
async fn times(
    state: &AppState,
    filter: &Filter,
    by: &str,
    values: &[&str],
) -> Result<BTreeMap<String, Histogram>, ApiError> {
    if values.is_empty() {
        return Ok(BTreeMap::new());
    }
    let sql = histograms(&format!("{by}::VARCHAR"), &of_values(by, values));
    let answer = fetch(state, filter, View::Times, None, sql).await?;
    let by_value = |row: &Vec<Value>| {
        let value = row[0].as_str().unwrap_or_default();
        Ok((value.to_owned(), histogram_of(row)?))
    };
    answer.rows.iter().map(by_value).collect()
}

/// What a value has besides its rank.
#[derive(Clone, Default)]
struct Course {
    /// All of [`MEASURES`].
    sums: [u64; MEASURES.len()],
    /// The measure over time.
    spark: Vec<u64>,
}

/// All measures of each value, and the one that was asked for over time.
async fn courses(
    state: &AppState,
    filter: &Filter,
    by: &str,
    measure: usize,
    values: &[&str],
) -> Result<BTreeMap<String, Course>, ApiError> {
    if values.is_empty() {
        return Ok(BTreeMap::new());
    }
    let buckets = Buckets::whole(filter.range(), SPARK);
    let measures: Vec<&str> = MEASURES.iter().map(|(_, sql)| *sql).collect();
    let sql = format!(
        "SELECT {by}::VARCHAR AS v, {} AS piece, {} FROM statistics WHERE {} GROUP BY v, piece",
        buckets.sql(),
        measures.join(", "),
        of_values(by, values)
    );
    let answer = fetch(state, filter, View::Statistics, Some(buckets), sql).await?;
    let mut courses: BTreeMap<String, Course> = BTreeMap::new();
    for row in &answer.rows {
        let value = row[0].as_str().unwrap_or_default().to_owned();
        let course = courses.entry(value).or_default();
        course.spark.resize(buckets.count, 0);
        // What is left of the division belongs to the last one.
        let point = &mut course.spark[(number(row, 1) as usize).min(buckets.count - 1)];
        *point = point.saturating_add(number(row, 2 + measure));
        for (at, sum) in course.sums.iter_mut().enumerate() {
            *sum = sum.saturating_add(number(row, 2 + at));
        }
    }
    Ok(courses)
}
