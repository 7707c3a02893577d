//! `GET /api/v1/records`

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tacho_query::{Answer, Request, RowPlace, literal};
use tacho_record::Field;
use tacho_store::{COLUMNS, ColumnKind, line_json, record_json};

use super::ApiError;
use super::filter::{BYTES_MAX, Filter, sql_time, text_time};
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
/// How many more rows than wanted are asked for: so many may have the time of the last one, and its
/// key has to decide.
const TIES: u64 = 16;
/// The key of a row: answers are in this order.
const KEY: [&str; 6] = ["ts", "\"server\"", "coalesce(seq, 0)", "generation", "file", "\"offset\""];

/// The columns of a [`FoundRow`]: those of a [`Cursor`], the number without its replacement, and
/// its place.
const ROW_COLUMNS: &str =
    "ts, \"server\", seq, generation, file, \"offset\", segment_file, segment_row";

/// The key of a record: where an answer ends and the next one begins. Its order is that of `KEY`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cursor(i64, String, u64, u32, String, u64);

/// A row of the index that is in an answer.
struct FoundRow {
    key: Cursor,
    /// Whether it has a number: it is a record.
    is_record: bool,
    place: RowPlace,
}

impl FoundRow {
    /// From rows of [`ROW_COLUMNS`].
    fn of_all(rows: &[Vec<Value>]) -> Result<Vec<Self>, ApiError> {
        rows.iter().map(|row| Self::of(row)).collect()
    }

    fn of(row: &[Value]) -> Result<Self, ApiError> {
        let key = Cursor::of_key(row)?;
        let [_, _, seq, _, _, _, file, number] = row else {
            return Err(ApiError::internal(&"a row without its place"));
        };
        let place = file
            .as_str()
            .zip(number.as_u64())
            .map(|(file, row)| RowPlace { file: file.into(), row });
        let place = place.ok_or_else(|| ApiError::internal(&"a row without its place"))?;
        Ok(Self { key, is_record: !seq.is_null(), place })
    }
}

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
        Self::of_key(&key.map(|kind| value(row, kind).clone()))
    }

    fn of_key(row: &[Value]) -> Result<Self, ApiError> {
        let [ts_us, server, seq, generation, file, offset, ..] = row else {
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
        read().ok_or_else(|| ApiError::internal(&"a row without its key"))
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
    let (mut found, is_cut) = find(&state, &filter, cursor, is_descending, limit + 1).await?;
    let has_more = is_cut || found.len() as u64 > limit;
    found.truncate(limit as usize);
    let last = found.last().filter(|_| has_more);
    let next = last.map(|last| last.key.write()).transpose()?;
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

/// Records in order, and whether there are more than fit into an answer by their bytes. The newest
/// (or oldest) ones are searched first, because the range may be long and the answer short. First
/// their places are found, in the order of time alone; then the records are read.
async fn find(
    state: &AppState,
    filter: &Filter,
    mut cursor: Option<Cursor>,
    is_descending: bool,
    wanted: u64,
) -> Result<(Vec<Hit>, bool), ApiError> {
    let (from_us, to_us) = filter.range();
    let (mut first_us, mut end_us) = (from_us, to_us);
    match &cursor {
        Some(cursor) if is_descending => end_us = end_us.min(cursor.0.saturating_add(1)),
        Some(cursor) => first_us = first_us.max(cursor.0),
        None => {}
    }
    let windows = Windows::new(filter.snapshot.segments(), (first_us, end_us), is_descending);
    let mut found: Vec<Hit> = Vec::new();
    for range_us in windows {
        let mut condition = filter.condition();
        condition +=
            &format!(" AND ts >= {} AND ts < {}", sql_time(range_us.0), sql_time(range_us.1));
        if let Some(cursor) = &cursor {
            condition += &format!(" AND {}", cursor.condition(is_descending));
        }
        let rest = wanted - found.len() as u64;
        let window = Window { state, filter, condition, range_us, is_descending };
        let (records, is_truncated) = window.first(rest).await?;
        let count = records.len() as u64;
        found.extend(records);
        if is_truncated && count < rest {
            // Very long statements: fewer records than asked for, and a cursor.
            return Ok((found, true));
        }
        if found.len() as u64 >= wanted {
            break;
        }
        cursor = None;
    }
    Ok((found, false))
}

/// A part of the time of a search.
struct Window<'a> {
    state: &'a AppState,
    filter: &'a Filter,
    condition: String,
    range_us: (i64, i64),
    is_descending: bool,
}

impl Window<'_> {
    /// The first `rest` records, and whether some were left out because they are very long.
    async fn first(&self, rest: u64) -> Result<(Vec<Hit>, bool), ApiError> {
        // Callers who may not see statements get the columns of their view.
        if self.filter.view.columns.is_some() {
            let times = self.first_by_time("ts", rest).await?;
            let times = times.iter().filter_map(|row| row.first().and_then(Value::as_i64));
            return match (times.clone().min(), times.max()) {
                (Some(first_us), Some(last_us)) => {
                    self.all_columns((first_us, last_us), rest).await
                }
                _ => Ok((Vec::new(), false)),
            };
        }
        let mut rows = FoundRow::of_all(&self.first_by_time(ROW_COLUMNS, rest).await?)?;
        // The earliest and the latest time.
        let span_us = |rows: &[FoundRow]| {
            let times = || rows.iter().map(|row| row.key.0);
            Some((times().min()?, times().max()?))
        };
        let Some((first_us, last_us)) = span_us(&rows) else { return Ok((Vec::new(), false)) };
        // Rows of one time are in any order, and it may have more of them than were asked for.
        let is_cut = rows.len() as u64 >= rest + TIES;
        let cut_us = if self.is_descending { first_us } else { last_us };
        let before = rows.iter().filter(|row| row.key.0 != cut_us).count() as u64;
        if is_cut && before < rest {
            let of_time = self.of_time(ROW_COLUMNS, (first_us, last_us), rest);
            rows =
                FoundRow::of_all(&self.fetch(Request { has_places: true, ..of_time }).await?.rows)?;
        }
        rows.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        if self.is_descending {
            rows.reverse();
        }
        rows.truncate(rest as usize);
        let rows = Arc::new(rows);
        if let Some(found) = read_lines(self.state, Arc::clone(&rows)).await? {
            return Ok((found, false));
        }
        if let Some(found) = self.at_places(&rows).await? {
            return Ok((found, false));
        }
        self.all_columns(span_us(&rows).unwrap_or((first_us, last_us)), rest).await
    }

    /// Columns of the first rows by time.
    async fn first_by_time(&self, columns: &str, rest: u64) -> Result<Vec<Vec<Value>>, ApiError> {
        let (order, max_rows) = (if self.is_descending { "DESC" } else { "ASC" }, rest + TIES);
        let sql = format!(
            "SELECT {columns} FROM records WHERE {} ORDER BY ts {order} LIMIT {max_rows}",
            self.condition
        );
        let request = self.filter.search_of(sql, self.range_us.0, self.range_us.1);
        let has_places = self.filter.view.columns.is_none();
        Ok(self.fetch(Request { max_rows, has_places, ..request }).await?.rows)
    }

    /// The records of these rows, from the index. `None`: they have too many bytes, or a file is
    /// damaged. DuckDB reads as many as it can, or says why it cannot.
    async fn at_places(&self, rows: &[FoundRow]) -> Result<Option<Vec<Hit>>, ApiError> {
        let places = rows.iter().map(|row| row.place.clone()).collect();
        let request = self.filter.search_of(String::new(), 0, 0);
        let request = Request { places, prescan: None, files: Vec::new(), ..request };
        let Ok(answer) = self.fetch(request).await else { return Ok(None) };
        if answer.is_truncated || answer.rows.len() != rows.len() {
            return Ok(None);
        }
        let records = to_json(&self.state.index, self.filter, answer.rows)?.into_iter();
        let keys = rows.iter().map(|row| row.key.clone());
        Ok(Some(keys.zip(records).map(|(key, json)| Hit { key, json }).collect()))
    }

    /// The first rows of this time, from the index.
    ///
    /// # Errors
    /// The first one alone has too many bytes.
    async fn all_columns(
        &self,
        range_us: (i64, i64),
        rest: u64,
    ) -> Result<(Vec<Hit>, bool), ApiError> {
        let answer = self.fetch(self.of_time("*", range_us, rest)).await?;
        if answer.is_truncated && answer.rows.is_empty() {
            let time = text_time(if self.is_descending { range_us.1 } else { range_us.0 });
            let message = format!(
                "the record of {time} has more than {} MiB: it can only be asked for by its number",
                BYTES_MAX >> 20
            );
            return Err(ApiError::bad_request(message));
        }
        let keys = answer.rows.iter().map(|row| Cursor::of(row)).collect::<Result<Vec<_>, _>>()?;
        let records = to_json(&self.state.index, self.filter, answer.rows)?.into_iter();
        let found = keys.into_iter().zip(records).map(|(key, json)| Hit { key, json });
        Ok((found.collect(), answer.is_truncated))
    }

    /// The query for the first rows from the one time to the other, in the order of an answer.
    fn of_time(&self, columns: &str, (first_us, last_us): (i64, i64), rest: u64) -> Request {
        let direction = if self.is_descending { " DESC" } else { "" };
        let order = KEY.map(|key| format!("{key}{direction}")).join(", ");
        let sql = format!(
            "SELECT {columns} FROM records WHERE {} AND ts >= {} AND ts <= {} \
             ORDER BY {order} LIMIT {PAGE_ROWS}",
            self.condition,
            sql_time(first_us),
            sql_time(last_us)
        );
        let request = self.filter.search_of(sql, first_us, last_us.saturating_add(1));
        Request { max_rows: rest, ..request }
    }

    async fn fetch(&self, request: Request) -> Result<Answer, ApiError> {
        self.state.index.fetch(self.filter.snapshot.clone(), request).await
    }
}

/// The records of these rows, from the replica. `None`: some have to be read from the index.
async fn read_lines(
    state: &AppState,
    rows: Arc<Vec<FoundRow>>,
) -> Result<Option<Vec<Hit>>, ApiError> {
    let data = Arc::clone(&state.data);
    let read = move || {
        let keys: Vec<&Cursor> = rows.iter().map(|row| &row.key).collect();
        let lines = lines::read(&data, &keys)?;
        let hit = |(row, line): (&FoundRow, String)| {
            let json = line_json(row.key.server(), &line, row.is_record);
            Hit { key: row.key.clone(), json }
        };
        Ok::<_, std::io::Error>(rows.iter().zip(lines).map(hit).collect::<Vec<_>>())
    };
    let read = tokio::task::spawn_blocking(read).await;
    // Retention removes files; damaged ones are an alert of the verification.
    Ok(read.map_err(|error| ApiError::internal(&error))?.ok())
}
