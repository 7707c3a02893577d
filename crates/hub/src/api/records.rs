//! `GET /api/v1/records`

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tacho_query::{Request, literal};
use tacho_record::Field;
use tacho_store::{COLUMNS, ColumnKind, line_json, record_json};

use super::ApiError;
use super::filter::{Filter, sql_time};
use super::lines;
use super::windows::Windows;
use crate::index::Index;
use crate::state::AppState;

/// Records of an answer, if `limit` does not say so.
const LIMIT: u64 = 100;
const LIMIT_MAX: u64 = 1_000;
/// More than an answer has, and than DuckDB would look up one by one (`worker.rs` of
/// `tacho-query`), which would read all columns of whole files.
const PAGE_ROWS: u64 = 4_096;
/// The key of a row: answers are in this order.
const KEY: [&str; 6] = ["ts", "\"server\"", "coalesce(seq, 0)", "generation", "file", "\"offset\""];

/// The columns of a [`Cursor`], the number without its replacement.
const KEY_COLUMNS: &str = "ts, \"server\", seq, generation, file, \"offset\"";

/// The key of a record: where an answer ends and the next one begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor(i64, String, u64, u32, String, u64);

/// A record of an answer.
struct Hit {
    key: Cursor,
    json: String,
}

impl Cursor {
    fn read(text: &str) -> Result<Self, ApiError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        bytes
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .ok_or_else(|| ApiError::bad_request("cursor is not one that this API has given"))
    }

    fn of(row: &[Value]) -> Result<Self, ApiError> {
        let key = [
            ColumnKind::Field(Field::ts),
            ColumnKind::Server,
            ColumnKind::Field(Field::seq),
            ColumnKind::Generation,
            ColumnKind::File,
            ColumnKind::Offset,
        ];
        Ok(Self::of_key(&key.map(|kind| value(row, kind).clone()))?.0)
    }

    /// From a row of [`KEY_COLUMNS`], and whether it has a number.
    fn of_key(row: &[Value]) -> Result<(Self, bool), ApiError> {
        let [ts_us, server, seq, generation, file, offset] = row else {
            return Err(ApiError::internal(&"a row without its key"));
        };
        let read = || {
            Some(Self(
                ts_us.as_i64()?,
                server.as_str()?.to_owned(),
                seq.as_u64().unwrap_or(0),
                u32::try_from(generation.as_u64()?).ok()?,
                file.as_str()?.to_owned(),
                offset.as_u64()?,
            ))
        };
        let key = read().ok_or_else(|| ApiError::internal(&"a row without its key"))?;
        Ok((key, !seq.is_null()))
    }

    /// The name of the origin.
    pub fn server(&self) -> &str {
        &self.1
    }

    /// The generation of the log.
    pub fn generation(&self) -> u32 {
        self.3
    }

    /// The name of the log file.
    pub fn file(&self) -> &str {
        &self.4
    }

    /// The position of the line in it, bytes.
    pub fn offset(&self) -> u64 {
        self.5
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
    let mut found = find(&state, &filter, cursor, is_descending, limit + 1).await?;
    let next = if found.len() as u64 > limit {
        found.truncate(limit as usize);
        found.last().map(|last| last.key.write()).transpose()?
    } else {
        None
    };
    let records: Vec<String> = found.into_iter().map(|it| it.json).collect();
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

/// Records in order. The newest (or oldest) ones are searched first, because the range may be long
/// and the answer short. First their time is found, by the columns of the search alone; then the
/// records of that time are read.
async fn find(
    state: &AppState,
    filter: &Filter,
    mut cursor: Option<Cursor>,
    is_descending: bool,
    wanted: u64,
) -> Result<Vec<Hit>, ApiError> {
    let index = &state.index;
    let order = KEY.map(|key| if is_descending { format!("{key} DESC") } else { key.to_owned() });
    let (by_time, order) = (&order[0], order.join(", "));
    let (from_us, to_us) = filter.range();
    let (mut first_us, mut end_us) = (from_us, to_us);
    match &cursor {
        Some(cursor) if is_descending => end_us = end_us.min(cursor.0.saturating_add(1)),
        Some(cursor) => first_us = first_us.max(cursor.0),
        None => {}
    }
    let windows = Windows::new(filter.snapshot.segments(), (first_us, end_us), is_descending);
    let mut found: Vec<Hit> = Vec::new();
    for (from_us, to_us) in windows {
        let mut condition = filter.condition();
        condition += &format!(" AND ts >= {} AND ts < {}", sql_time(from_us), sql_time(to_us));
        if let Some(cursor) = &cursor {
            condition += &format!(" AND {}", cursor.condition(is_descending));
        }
        let rest = wanted - found.len() as u64;
        // The times of the first rows by the whole key: rows of one time are equal here.
        let sql = format!(
            "SELECT min(ts), max(ts) FROM \
             (SELECT ts FROM records WHERE {condition} ORDER BY {by_time} LIMIT {rest})"
        );
        let request = filter.search_of(sql, from_us, to_us);
        let times = index.fetch(filter.snapshot.clone(), request).await?.rows;
        let time = |at| times.first().and_then(|row| row.get(at)).and_then(Value::as_i64);
        let (Some(first_us), Some(last_us)) = (time(0), time(1)) else {
            cursor = None;
            continue;
        };
        let rows = format!(
            "FROM records WHERE {condition} AND ts >= {} AND ts <= {} \
             ORDER BY {order} LIMIT {PAGE_ROWS}",
            sql_time(first_us),
            sql_time(last_us)
        );
        let request = |columns: &str| {
            let sql = format!("SELECT {columns} {rows}");
            let request = filter.search_of(sql, first_us, last_us.saturating_add(1));
            Request { max_rows: rest, ..request }
        };
        let (records, is_truncated) = read(state, filter, request).await?;
        let count = records.len() as u64;
        found.extend(records);
        if is_truncated && count < rest {
            // Very long statements: fewer records than asked for, and a cursor.
            break;
        }
        if found.len() as u64 >= wanted {
            break;
        }
        cursor = None;
    }
    Ok(found)
}

/// The records that `request` finds with some columns, and whether some were left out.
async fn read(
    state: &AppState,
    filter: &Filter,
    request: impl Fn(&str) -> Request,
) -> Result<(Vec<Hit>, bool), ApiError> {
    let index = &state.index;
    let (of_keys, of_all) = (request(KEY_COLUMNS), request("*"));
    // Callers who may not see statements get the columns of their view.
    if filter.view.columns.is_none() {
        let keys = index.fetch(filter.snapshot.clone(), of_keys).await?;
        if let Some(found) = read_lines(state, keys.rows).await? {
            return Ok((found, keys.is_truncated));
        }
    }
    let answer = index.fetch(filter.snapshot.clone(), of_all).await?;
    let keys = answer.rows.iter().map(|row| Cursor::of(row)).collect::<Result<Vec<_>, _>>()?;
    let records = to_json(index, filter, answer.rows)?.into_iter();
    let found = keys.into_iter().zip(records).map(|(key, json)| Hit { key, json });
    Ok((found.collect(), answer.is_truncated))
}

/// The records of rows of [`KEY_COLUMNS`], from the replica. `None`: some have to be read from the
/// index.
async fn read_lines(state: &AppState, rows: Vec<Vec<Value>>) -> Result<Option<Vec<Hit>>, ApiError> {
    let keys = rows.iter().map(|row| Cursor::of_key(row)).collect::<Result<Vec<_>, _>>()?;
    let (keys, are_records): (Vec<Cursor>, Vec<bool>) = keys.into_iter().unzip();
    let data = Arc::clone(&state.data);
    let read = move || lines::read(&data, &keys).map(|lines| (keys, lines));
    let read = tokio::task::spawn_blocking(read).await;
    // Retention removes files; damaged ones are an alert of the verification.
    let Ok((keys, lines)) = read.map_err(|error| ApiError::internal(&error))? else {
        return Ok(None);
    };
    let found = keys.into_iter().zip(are_records).zip(lines).map(|((key, is_record), line)| {
        let json = line_json(key.server(), &line, is_record);
        Hit { key, json }
    });
    Ok(Some(found.collect()))
}
