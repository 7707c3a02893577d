//! `GET /api/v1/records`

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tacho_query::literal;
use tacho_record::Field;
use tacho_store::{COLUMNS, ColumnKind, record_json};

use super::ApiError;
use super::filter::{Filter, sql_time};
use crate::index::Index;
use crate::state::AppState;

/// Records of an answer, if `limit` does not say so.
const LIMIT: u64 = 100;
const LIMIT_MAX: u64 = 1_000;
/// A search begins with the newest (or oldest) segments that have about so many records, and
/// continues with more of them until it has found enough.
const WINDOW_ROWS: u64 = 200_000;

/// The key of a row: answers are in this order.
const KEY: [&str; 6] = ["ts", "\"server\"", "coalesce(seq, 0)", "generation", "file", "\"offset\""];

/// Where an answer ends and the next one begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Cursor(i64, String, u64, u32, String, u64);

impl Cursor {
    fn read(text: &str) -> Result<Self, ApiError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        bytes
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .ok_or_else(|| ApiError::bad_request("cursor is not one that this API has given"))
    }

    fn of(row: &[Value]) -> Result<Self, ApiError> {
        let at = |kind| value(row, kind);
        let read = || {
            Some(Self(
                at(ColumnKind::Field(Field::ts)).as_i64()?,
                at(ColumnKind::Server).as_str()?.to_owned(),
                at(ColumnKind::Field(Field::seq)).as_u64().unwrap_or(0),
                u32::try_from(at(ColumnKind::Generation).as_u64()?).ok()?,
                at(ColumnKind::File).as_str()?.to_owned(),
                at(ColumnKind::Offset).as_u64()?,
            ))
        };
        read().ok_or_else(|| ApiError::internal(&"a row without its key"))
    }

    fn write(&self) -> Result<String, ApiError> {
        let bytes = serde_json::to_vec(self).map_err(|error| ApiError::internal(&error))?;
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    fn condition(&self, is_descending: bool) -> String {
        let Self(ts_us, server, seq, generation, file, offset) = self;
        let (server, file, ts) = (literal(server), literal(file), sql_time(*ts_us));
        let than = if is_descending { '<' } else { '>' };
        let key = KEY.join(", ");
        // The first comparison skips segments.
        format!(
            "ts {than}= {ts} AND ({key}) {than} ({ts}, {server}, {seq}::UBIGINT, \
             {generation}::UINTEGER, {file}, {offset}::UBIGINT)"
        )
    }
}

/// The value of a column in a row of `SELECT *`.
#[must_use]
pub fn value(row: &[Value], kind: ColumnKind) -> &Value {
    static NULL: Value = Value::Null;
    let at = COLUMNS.iter().position(|column| column.kind == kind);
    at.and_then(|at| row.get(at)).unwrap_or(&NULL)
}

/// The answer.
///
/// # Errors
/// A parameter is wrong, or the query fails.
pub async fn list(State(state): State<AppState>, filter: Filter) -> Result<Response, ApiError> {
    let started = std::time::Instant::now();
    let is_descending = match filter.value("order").unwrap_or("asc") {
        "asc" => false,
        "desc" => true,
        _ => return Err(ApiError::bad_request("order is asc or desc")),
    };
    let limit = filter.number("limit", LIMIT, LIMIT_MAX)?;
    let cursor = filter.value("cursor").map(Cursor::read).transpose()?;
    let mut rows = find(&state.index, &filter, cursor, is_descending, limit + 1).await?;
    let next = if rows.len() as u64 > limit {
        rows.truncate(limit as usize);
        rows.last().map(|row| Cursor::of(row)?.write()).transpose()?
    } else {
        None
    };
    let records = to_json(&state.index, &filter, rows)?;
    filter.note.rows(records.len());
    let next = next.map_or_else(|| "null".to_owned(), |cursor| format!("\"{cursor}\""));
    // Each record is the text of its line: parsing it would only change it.
    let body = format!(
        "{{\"records\":[{}],\"next\":{next},\"scanned_ms\":{}}}",
        records.join(","),
        started.elapsed().as_millis()
    );
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// The JSON of records. To callers who may not see literals a statement is its digest's text.
///
/// # Errors
/// The rows are not of the view, or the dictionary cannot be read.
pub fn to_json(
    index: &Index,
    filter: &Filter,
    mut rows: Vec<Vec<Value>>,
) -> Result<Vec<String>, ApiError> {
    if filter.view.columns.is_some() {
        let digests =
            rows.iter().filter_map(|row| value(row, ColumnKind::Field(Field::digest)).as_str());
        let texts = index.store().digest_texts(digests.collect::<Vec<_>>());
        let texts = texts.map_err(|error| ApiError::internal(&error))?;
        let sql = COLUMNS.iter().position(|column| column.kind == ColumnKind::Field(Field::sql));
        for row in &mut rows {
            let digest = value(row, ColumnKind::Field(Field::digest)).as_str();
            let text = digest.and_then(|digest| texts.get(digest)).cloned();
            if let (Some(text), Some(cell)) = (text, sql.and_then(|at| row.get_mut(at))) {
                *cell = Value::String(text);
            }
        }
    }
    let json = |row: &Vec<Value>| record_json(row).map_err(|error| ApiError::internal(&error));
    rows.iter().map(json).collect()
}

/// Rows in order. The newest (or oldest) segments are searched first, because the range may be
/// long and the answer short.
async fn find(
    index: &Index,
    filter: &Filter,
    mut cursor: Option<Cursor>,
    is_descending: bool,
    wanted: u64,
) -> Result<Vec<Vec<Value>>, ApiError> {
    let order = KEY.map(|key| if is_descending { format!("{key} DESC") } else { key.to_owned() });
    let order = order.join(", ");
    let (from_us, to_us) = filter.range();
    let mut window = Window::new(filter, from_us, to_us, cursor.as_ref(), is_descending);
    let mut found: Vec<Vec<Value>> = Vec::new();
    while let Some((from_us, to_us)) = window.next_range() {
        let mut condition = filter.condition();
        condition += &format!(" AND ts >= {} AND ts < {}", sql_time(from_us), sql_time(to_us));
        if let Some(cursor) = &cursor {
            condition += &format!(" AND {}", cursor.condition(is_descending));
        }
        let rest = wanted - found.len() as u64;
        let sql = format!("SELECT * FROM records WHERE {condition} ORDER BY {order} LIMIT {rest}");
        let request = filter.request_of(sql, from_us, to_us);
        let answer = index.fetch(filter.snapshot.clone(), request).await?;
        if answer.is_truncated {
            // Very long statements: fewer records than asked for, and a cursor.
            found.extend(answer.rows);
            break;
        }
        found.extend(answer.rows);
        if found.len() as u64 >= wanted {
            break;
        }
        cursor = None;
    }
    Ok(found)
}

/// Time ranges, one after the other, each with more records than the one before.
struct Window {
    /// Earliest and latest time of segments, and their records; the next ones last.
    segments: Vec<(i64, i64, u64)>,
    from_us: i64,
    to_us: i64,
    rows: u64,
    is_descending: bool,
}

impl Window {
    fn new(
        filter: &Filter,
        mut from_us: i64,
        mut to_us: i64,
        cursor: Option<&Cursor>,
        is_descending: bool,
    ) -> Self {
        match cursor {
            Some(cursor) if is_descending => to_us = to_us.min(cursor.0.saturating_add(1)),
            Some(cursor) => from_us = from_us.max(cursor.0),
            None => {}
        }
        let mut segments: Vec<_> = filter
            .snapshot
            .segments()
            .filter(|it| it.max_ts_us >= from_us && it.min_ts_us < to_us)
            .map(|it| (it.min_ts_us, it.max_ts_us, it.rows))
            .collect();
        if is_descending {
            segments.sort_unstable_by_key(|&(_, max, _)| max);
        } else {
            segments.sort_unstable_by_key(|&(min, ..)| std::cmp::Reverse(min));
        }
        Self { segments, from_us, to_us, rows: WINDOW_ROWS, is_descending }
    }

    fn next_range(&mut self) -> Option<(i64, i64)> {
        if self.from_us >= self.to_us || self.segments.is_empty() {
            return None;
        }
        let mut rows = 0;
        let mut edge_us = if self.is_descending { self.to_us } else { self.from_us };
        while let Some(&(min, max, count)) = self.segments.last() {
            // Those that begin behind the edge do not widen the window.
            let is_inside = if self.is_descending { min >= edge_us } else { max < edge_us };
            if rows >= self.rows && !is_inside {
                break;
            }
            rows += count;
            edge_us = if self.is_descending { edge_us.min(min) } else { edge_us.max(max + 1) };
            self.segments.pop();
        }
        self.rows = self.rows.saturating_mul(8);
        let is_last = self.segments.is_empty();
        let range = if self.is_descending {
            let from_us = if is_last { self.from_us } else { edge_us.max(self.from_us) };
            let range = (from_us, self.to_us);
            self.to_us = from_us;
            range
        } else {
            let to_us = if is_last { self.to_us } else { edge_us.min(self.to_us) };
            let range = (self.from_us, to_us);
            self.from_us = to_us;
            range
        };
        Some(range)
    }
}
