//! `GET /api/v1/facets`: the most frequent values of fields.

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};
use tacho_query::Answer;
use tacho_store::rollup::View;

use super::{fetch, number};
use crate::api::ApiError;
use crate::api::filter::Filter;
use crate::state::AppState;

/// A field that can be counted.
pub(crate) struct Facet {
    pub(crate) name: &'static str,
    /// Its value in SQL.
    value: &'static str,
    /// Whether rollups have it.
    is_dimension: bool,
}

const fn dimension(name: &'static str, value: &'static str) -> Facet {
    Facet { name, value, is_dimension: true }
}

const fn column(name: &'static str, value: &'static str) -> Facet {
    Facet { name, value, is_dimension: false }
}

pub(crate) const FACETS: &[Facet] = &[
    dimension("server", "\"server\""),
    dimension("event", "event"),
    dimension("outcome", "outcome"),
    dimension("user", "\"user\""),
    dimension("host", "coalesce(host, ip)"),
    dimension("ip", "ip"),
    dimension("db", "db"),
    column("program", "program"),
    column("command", "command"),
    dimension("sql_command", "sql_command"),
    dimension("errno", "errno"),
    dimension("digest", "digest"),
    column("class", "class"),
    column("action", "action"),
    column("variable", "variable"),
    column("tls", "tls"),
    column("blocked_by", "blocked_by"),
    column("table", "tables"),
];

/// A facet that was asked for, and its number in the question.
type Asked = (usize, &'static Facet);

/// The most frequent values of fields.
///
/// # Errors
/// A parameter is wrong, or a query fails.
pub async fn facets(
    State(state): State<AppState>,
    filter: Filter,
) -> Result<Json<Value>, ApiError> {
    let limit = filter.number("limit", 10, 100)?;
    let names = filter.value("fields").unwrap_or("user,db,host,sql_command").split(',');
    let mut asked: Vec<Asked> = Vec::new();
    for (at, name) in names.enumerate() {
        let found = FACETS.iter().find(|facet| facet.name == name);
        let facet = found.ok_or_else(|| {
            let all: Vec<&str> = FACETS.iter().map(|facet| facet.name).collect();
            ApiError::bad_request(format!("fields: {name:?} is not one of {}", all.join(", ")))
        })?;
        asked.push((at, facet));
    }
    let (dimensions, columns): (Vec<Asked>, Vec<Asked>) =
        asked.iter().partition(|(_, facet)| facet.is_dimension);
    // The total comes with the dimensions, also without any.
    let (counted, scanned) = tokio::try_join!(
        fetch(&state, &filter, View::Statistics, None, sql(&dimensions, "statistics", "n", limit)),
        scan(&state, &filter, &columns, limit)
    )?;
    let mut total = 0;
    let mut lists: Vec<Vec<(u64, Value)>> = vec![Vec::new(); asked.len()];
    for row in counted.rows.into_iter().chain(scanned.rows) {
        let at = row.first().and_then(Value::as_i64).unwrap_or(-1);
        let count = number(&row, 2);
        match usize::try_from(at).ok().and_then(|at| lists.get_mut(at)) {
            Some(list) => list.push((count, json!({"value": row[1], "count": count}))),
            None => total = count,
        }
    }
    let fields = asked.iter().zip(lists).map(|((_, facet), mut list)| {
        list.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let values = list.into_iter().map(|(_, value)| value).collect();
        (facet.name.to_owned(), Value::Array(values))
    });
    let fields: Map<String, Value> = fields.collect();
    Ok(Json(json!({"total": total, "fields": fields})))
}

/// Counts the fields that only records have.
async fn scan(
    state: &AppState,
    filter: &Filter,
    asked: &[Asked],
    limit: u64,
) -> Result<Answer, ApiError> {
    if asked.is_empty() {
        return Ok(Answer::default());
    }
    let source = format!("(SELECT * FROM records WHERE {})", filter.condition());
    let (from_us, to_us) = (filter.from_us.unwrap_or(i64::MIN), filter.to_us.unwrap_or(i64::MAX));
    let request = filter.search_of(sql(asked, &source, "1", limit), from_us, to_us);
    state.index.fetch(filter.snapshot.clone(), request).await
}

/// Rows with the number of a facet, a value, and its number of records; and -1 with the total.
fn sql(asked: &[Asked], source: &str, count: &str, limit: u64) -> String {
    let mut columns = vec![format!("{count} AS n")];
    columns.extend(asked.iter().map(|(at, facet)| format!("{} AS f{at}", facet.value)));
    let mut parts = vec!["SELECT -1, NULL, coalesce(sum(n), 0) FROM found".to_owned()];
    parts.extend(asked.iter().map(|(at, facet)| {
        let source = match facet.name {
            "table" => format!(
                "(SELECT n, t.db || '.' || t.\"table\" AS f{at} \
                 FROM (SELECT n, unnest(f{at}) AS t FROM found))"
            ),
            _ => "found".to_owned(),
        };
        format!(
            "(SELECT {at}, f{at}::VARCHAR, sum(n) AS c FROM {source} WHERE f{at} IS NOT NULL \
             GROUP BY f{at} ORDER BY c DESC, f{at} LIMIT {limit})"
        )
    }));
    format!(
        "WITH found AS MATERIALIZED (SELECT {} FROM {source}) {}",
        columns.join(", "),
        parts.join(" UNION ALL ")
    )
}
