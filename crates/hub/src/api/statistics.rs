//! Counts over time and by value: `/api/v1/histogram`, `facets`, `top`, `overview`.

mod overview;
mod top;

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};
use tacho_query::Answer;

use super::ApiError;
use super::filter::{Filter, text_time};
use crate::state::AppState;

pub use overview::overview;
pub use top::{BY, MEASURES, top};

/// Statements that have ended: a `running` line is completed by a later one.
const STATEMENTS: &str = "event = 'statement' AND outcome IS DISTINCT FROM 'running'";
/// Whether a record is an error.
const IS_ERROR: &str = "(errno IS NOT NULL OR outcome = 'error' OR event = 'connect_failed')";

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

async fn fetch(state: &AppState, filter: &Filter, sql: String) -> Result<Answer, ApiError> {
    state.index.fetch(filter.snapshot.clone(), filter.request(sql)).await
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
        "SELECT {} AS bucket, count(*), count(*) FILTER (WHERE {IS_ERROR}) FROM records \
         WHERE {} GROUP BY bucket",
        buckets.sql(),
        filter.condition()
    );
    let answer = fetch(&state, &filter, sql).await?;
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

/// Fields that facets can count, and their values in SQL.
pub(super) const FACETS: &[(&str, &str)] = &[
    ("server", "\"server\""),
    ("event", "event"),
    ("outcome", "outcome"),
    ("user", "\"user\""),
    ("host", "coalesce(host, ip)"),
    ("ip", "ip"),
    ("db", "db"),
    ("program", "program"),
    ("command", "command"),
    ("sql_command", "sql_command"),
    ("errno", "errno"),
    ("digest", "digest"),
    ("class", "class"),
    ("action", "action"),
    ("variable", "variable"),
    ("tls", "tls"),
    ("blocked_by", "blocked_by"),
    ("table", "tables"),
];

/// The most frequent values of fields.
///
/// # Errors
/// A parameter is wrong, or the query fails.
pub async fn facets(
    State(state): State<AppState>,
    filter: Filter,
) -> Result<Json<Value>, ApiError> {
    let limit = filter.number("limit", 10, 100)?;
    let names: Vec<&str> =
        filter.value("fields").unwrap_or("user,db,host,sql_command").split(',').collect();
    let mut expressions = Vec::new();
    for name in &names {
        let found = FACETS.iter().find(|(facet, _)| facet == name);
        let (_, expression) = found.ok_or_else(|| {
            let all: Vec<&str> = FACETS.iter().map(|(facet, _)| *facet).collect();
            ApiError::bad_request(format!("fields: {name:?} is not one of {}", all.join(", ")))
        })?;
        expressions.push(*expression);
    }
    let columns: Vec<String> =
        expressions.iter().enumerate().map(|(at, it)| format!("{it} AS f{at}")).collect();
    let parts = names.iter().enumerate().map(|(at, name)| {
        let source = match *name {
            "table" => format!(
                "(SELECT t.db || '.' || t.\"table\" AS f{at} \
                 FROM (SELECT unnest(f{at}) AS t FROM found))"
            ),
            _ => "found".to_owned(),
        };
        format!(
            "(SELECT {at}, f{at}::VARCHAR, count(*) AS c FROM {source} WHERE f{at} IS NOT NULL \
             GROUP BY f{at} ORDER BY c DESC, f{at} LIMIT {limit})"
        )
    });
    let parts: Vec<String> = parts.collect();
    let sql = format!(
        "WITH found AS MATERIALIZED (SELECT {} FROM records WHERE {}) \
         SELECT -1, NULL, count(*) FROM found UNION ALL {}",
        columns.join(", "),
        filter.condition(),
        parts.join(" UNION ALL ")
    );
    let answer = fetch(&state, &filter, sql).await?;
    let mut total = 0;
    let mut lists: Vec<Vec<(u64, Value)>> = vec![Vec::new(); names.len()];
    for row in answer.rows {
        let at = row.first().and_then(Value::as_i64).unwrap_or(-1);
        match usize::try_from(at).ok().and_then(|at| lists.get_mut(at)) {
            Some(list) => {
                let count = number(&row, 2);
                list.push((count, json!({"value": row[1], "count": count})));
            }
            None => total = number(&row, 2),
        }
    }
    let fields = names.iter().zip(lists).map(|(name, mut list)| {
        list.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let values = list.into_iter().map(|(_, value)| value).collect();
        ((*name).to_owned(), Value::Array(values))
    });
    let fields: Map<String, Value> = fields.collect();
    Ok(Json(json!({"total": total, "fields": fields})))
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
    }
}
