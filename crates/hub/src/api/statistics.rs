//! Counts over time and by value: `/api/v1/histogram`, `facets`, `top`, `overview`.
//!
//! The queries read views that have records and rollups in the same columns, so a statistic is the
//! same whichever of them it was made from: see `docs/decisions/2026-11-26-rollups.md`.

mod facets;
mod overview;
mod top;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use tacho_histogram::Histogram;
use tacho_query::{Answer, Request};
use tacho_store::rollup::{PartKind, View};

use super::ApiError;
use super::filter::{Filter, text_time};
use crate::state::AppState;

pub(super) use facets::FACETS;
pub use facets::facets;
pub use overview::overview;
pub use top::{BY, MEASURES, top};

/// Statements that have ended: a `running` line is completed by a later one.
const STATEMENTS: &str = "event = 'statement' AND outcome IS DISTINCT FROM 'running'";
/// Whether a record is an error.
const IS_ERROR: &str = "(errno IS NOT NULL OR outcome = 'error' OR event = 'connect_failed')";

/// The pieces of rollups, µs.
const MINUTE_US: i64 = PartKind::Minutes.step_us();
const HOUR_US: i64 = PartKind::Hours.step_us();

/// Lengths of buckets that people read easily, in seconds.
const STEPS_S: &[i64] = &[
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    86_400, 172_800, 604_800, 2_592_000, 31_536_000,
];

/// Equal pieces of a time range, whose ends are multiples of their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Buckets {
    /// Begin of the first one, µs since 1970.
    first_us: i64,
    /// Their length.
    step_us: i64,
    /// How many they are.
    count: usize,
}

impl Buckets {
    /// At most `max` pieces.
    fn of((from_us, to_us): (i64, i64), max: u64) -> Self {
        let length = to_us.saturating_sub(from_us);
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        // One more is needed where the range begins within one.
        let fits = |step: &i64| length / step < (max - 1).max(1);
        let millis = [1_000, 10_000, 100_000, 500_000].into_iter();
        let all = millis.chain(STEPS_S.iter().map(|seconds| seconds * 1_000_000));
        let step_us = all.into_iter().find(fits).unwrap_or(i64::MAX / 4);
        let first_us = from_us.div_euclid(step_us) * step_us;
        let count = (to_us - 1 - first_us).div_euclid(step_us) + 1;
        Self { first_us, step_us, count: count.clamp(1, max.max(2)) as usize }
    }

    /// At most `max` pieces. They have whole hours or minutes if the range has so many, so that
    /// rollups are read, and the first one may begin before the range.
    fn whole((from_us, to_us): (i64, i64), max: usize) -> Self {
        let length = to_us.saturating_sub(from_us);
        let most = max as i64;
        let is_enough = |unit: &i64| length / (most - 1) >= *unit;
        let Some(unit_us) = [HOUR_US, MINUTE_US].into_iter().find(is_enough) else {
            return Self { first_us: from_us, step_us: (length / most).max(1), count: max };
        };
        let first_us = from_us.div_euclid(unit_us) * unit_us;
        let last_us = (to_us - 1).saturating_sub(first_us);
        let step_us = (last_us / (most * unit_us) + 1) * unit_us;
        Self { first_us, step_us, count: (last_us / step_us + 1) as usize }
    }

    /// The coarsest rollup of which each row is in one piece.
    fn coarsest(self) -> PartKind {
        PartKind::fitting(self.first_us).min(PartKind::fitting(self.step_us))
    }

    /// The number of the bucket of a row, from 0, in SQL.
    fn sql(self) -> String {
        format!("(epoch_us(ts) - {}) // {}", self.first_us, self.step_us)
    }

    fn begin(self, index: usize) -> String {
        text_time(self.first_us + self.step_us * index as i64)
    }

    fn begins(self) -> Vec<String> {
        (0..self.count).map(|index| self.begin(index)).collect()
    }
}

/// Executes a query over a view of what the filter finds. Rollups are read if the filter has only
/// their dimensions, and `buckets`, by which the query groups, have whole minutes.
async fn fetch(
    state: &AppState,
    filter: &Filter,
    view: View,
    buckets: Option<Buckets>,
    sql: String,
) -> Result<Answer, ApiError> {
    let columns = filter.search.columns();
    let coarsest = match columns.iter().all(|column| view.dimensions().contains(column)) {
        true => buckets.map_or(PartKind::Hours, Buckets::coarsest),
        false => PartKind::Records,
    };
    // An end that was not given is moved to where no row of a rollup has to be divided.
    let (mut from_us, mut to_us) = filter.range();
    let step_us = coarsest.step_us();
    if filter.from_us.is_none() {
        from_us = from_us.div_euclid(step_us) * step_us;
    }
    if filter.to_us.is_none() {
        to_us = (to_us.div_euclid(step_us) + 1).saturating_mul(step_us);
    }
    let visible = filter.view.filter.as_deref().unwrap_or("true");
    let condition = format!("({visible}) AND ({})", filter.condition_without_time());
    let name = view.name().to_owned();
    let search = filter.search_of(sql, from_us, to_us);
    let request = if search.prescan.is_some() {
        // Texts are not in rollups. Their records are those of the view `records`.
        let select = view.select_records((from_us, to_us), &condition);
        Request { views: vec![(name, select)], ..search }
    } else {
        let parts = filter.snapshot.parts(from_us, to_us, coarsest);
        let select = view.select(&parts, filter.view.columns.as_deref(), &condition);
        Request { files: Vec::new(), views: vec![(name, select)], ..search }
    };
    state.index.fetch(filter.snapshot.clone(), request).await
}

/// SQL: the statement times of each `key`, an expression over the view of times, of the rows that
/// meet `condition`. A row has the key and a [histogram](histogram_of).
fn histograms(key: &str, condition: &str) -> String {
    format!(
        "SELECT {key} AS k, time_histogram(times, time_us) FROM times WHERE {condition} GROUP BY k"
    )
}

/// The histogram of a row of [`histograms`].
fn histogram_of(row: &[Value]) -> Result<Histogram, ApiError> {
    let text = row.get(1).and_then(Value::as_str).unwrap_or_default();
    text.parse().map_err(|error: tacho_histogram::Malformed| ApiError::internal(&error))
}

/// A number of a row; 0 if there is none.
fn number(row: &[Value], at: usize) -> u64 {
    let value = row.get(at).unwrap_or(&Value::Null);
    value.as_u64().unwrap_or_else(|| value.as_f64().map_or(0, |number| number.max(0.0) as u64))
}

/// Counts over time.
///
/// # Errors
/// A parameter is wrong, or the query fails.
pub async fn histogram(
    State(state): State<AppState>,
    filter: Filter,
) -> Result<Json<Value>, ApiError> {
    let range = filter.range();
    let buckets = Buckets::of(range, filter.number("buckets", 60, 400)?);
    let sql = format!(
        "SELECT {} AS piece, sum(n), sum(n) FILTER (WHERE {IS_ERROR}) FROM statistics \
         GROUP BY piece",
        buckets.sql()
    );
    let answer = fetch(&state, &filter, View::Statistics, Some(buckets), sql).await?;
    let mut counts = vec![(0, 0); buckets.count];
    let mut total = 0;
    for row in &answer.rows {
        total += number(row, 1);
        if let Some(bucket) = counts.get_mut(number(row, 0) as usize) {
            *bucket = (number(row, 1), number(row, 2));
        }
    }
    let list = counts.iter().enumerate().map(|(index, (count, errors))| {
        json!({"ts": buckets.begin(index), "count": count, "errors": errors})
    });
    Ok(Json(json!({
        "step_us": buckets.step_us,
        "from": text_time(range.0),
        "to": text_time(range.1),
        "buckets": list.collect::<Vec<_>>(),
        "total": total,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_the_range_and_are_few() {
        let second = 1_000_000;
        for (from, length, max) in [
            (0, 60 * second, 60),
            (7, 3_600 * second, 60),
            (1_795_222_923_123_456, 86_400 * second, 400),
            (-5, 11, 1),
            (0, i64::MAX / 8, 24),
            (3, 1, 60),
        ] {
            let buckets = Buckets::of((from, from + length), max);
            let end = buckets.first_us + buckets.step_us * buckets.count as i64;
            assert!(buckets.first_us <= from && end >= from + length, "{buckets:?}");
            assert!(buckets.count as u64 <= max.max(2), "{buckets:?}");
        }
        assert_eq!(Buckets::of((0, 3_600 * second), 61).step_us, 120 * second);
        assert!(Buckets::of((7, 3_600 * second), 120).coarsest() >= PartKind::Minutes);
    }

    #[test]
    fn pieces_are_those_of_rollups_if_the_range_has_so_many() {
        let second = 1_000_000;
        for (from, to) in [
            (7, 9),
            (7, 1_440 + 6),
            (7, 1_440 + 7),
            (59, 86_400),
            (59, 86_459),
            (3_599, 86_400 + 3_599),
            (3_600, 26 * 3_600),
            (3_600, 27 * 3_600),
            (3_600, 10_000_000),
            (-86_401, 7),
        ] {
            let (from, to) = (from * second, to * second);
            let buckets = Buckets::whole((from, to), 25);
            let last = (to - 1 - buckets.first_us) / buckets.step_us;
            assert!(buckets.first_us <= from && (13..=25).contains(&buckets.count), "{buckets:?}");
            // What is left of a division belongs to the last one.
            assert!(last < buckets.count as i64 || buckets.step_us < MINUTE_US, "{buckets:?}");
            let finest = match to - from {
                length if length >= 24 * HOUR_US => PartKind::Hours,
                length if length >= 24 * MINUTE_US => PartKind::Minutes,
                _ => PartKind::Records,
            };
            assert!(buckets.coarsest() >= finest, "{buckets:?}");
        }
        let day = 86_400 * second;
        for (from, count) in [(0, 24), (5 * HOUR_US, 24), (1, 25), (5 * HOUR_US - 1, 25)] {
            let buckets = Buckets::whole((from, from + day), 25);
            assert_eq!((buckets.step_us, buckets.count), (HOUR_US, count));
            assert_eq!(buckets.coarsest(), PartKind::Hours);
        }
    }
}
