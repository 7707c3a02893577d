//! `POST /api/v1/sql`: one `SELECT` over the view `records`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Json, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tacho_query::{Answer, Request, Times};

use super::audited::Note;
use super::{ApiError, Caller};
use crate::index::view::View;
use crate::state::AppState;

/// Limits of an answer.
const ROWS_MAX: u64 = 100_000;
const BYTES_MAX: u64 = 32 << 20;
/// How long a query may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The body of the request.
#[derive(Deserialize)]
pub struct Body {
    sql: String,
}

/// The answer: JSON; CSV and NDJSON if `Accept` asks for them.
///
/// # Errors
/// The SQL is not valid or not allowed, or exceeds a limit.
pub async fn sql(
    State(state): State<AppState>,
    caller: Caller,
    note: Note,
    headers: HeaderMap,
    body: Result<Json<Body>, JsonRejection>,
) -> Result<Response, ApiError> {
    if let Ok(Json(body)) = &body {
        note.text(&body.sql);
    }
    caller.may_search()?;
    let Json(body) = body?;
    let view = View::of(&caller);
    let snapshot = Arc::new(state.index.store().snapshot());
    let files = snapshot.files(i64::MIN, i64::MAX).into_iter().map(Into::into).collect();
    let request = Request {
        sql: body.sql,
        files,
        columns: view.columns,
        filter: view.filter,
        is_users: true,
        times: Times::Text,
        max_rows: ROWS_MAX,
        max_bytes: BYTES_MAX,
        timeout: TIMEOUT,
        ..Request::default()
    };
    let answer = state.index.fetch(snapshot, request).await?;
    note.rows(answer.rows.len());
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let accept = accept.unwrap_or_default();
    if matches!(accept, "text/csv" | "application/x-ndjson") {
        note.export();
    }
    Ok(match accept {
        "text/csv" => {
            ([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], csv(&answer)).into_response()
        }
        "application/x-ndjson" => {
            ([(header::CONTENT_TYPE, "application/x-ndjson")], ndjson(&answer)).into_response()
        }
        _ => {
            let columns: Vec<&str> = answer.columns.iter().map(|it| &*it.name).collect();
            let types: Vec<&str> = answer.columns.iter().map(|it| &*it.kind).collect();
            Json(json!({
                "columns": columns,
                "types": types,
                "rows": answer.rows,
                "truncated": answer.is_truncated,
            }))
            .into_response()
        }
    })
}

/// All rows as CSV, with a head line.
fn csv(answer: &Answer) -> String {
    let names = answer.columns.iter().map(|column| Value::String(column.name.clone()));
    let head: Vec<Value> = names.collect();
    std::iter::once(&head).chain(&answer.rows).map(|row| csv_row(row)).collect()
}

/// A row as RFC 4180 has it. A text that a spreadsheet would execute gets an apostrophe in front.
#[must_use]
pub fn csv_row(row: &[Value]) -> String {
    let cells: Vec<String> = row.iter().map(csv_cell).collect();
    cells.join(",") + "\r\n"
}

fn csv_cell(value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) if text.starts_with(['=', '+', '-', '@', '\t', '\r']) => {
            format!("'{text}")
        }
        Value::String(text) => text.clone(),
        Value::Number(number) => return number.to_string(),
        other => other.to_string(),
    };
    format!("\"{}\"", text.replace('"', "\"\""))
}

fn ndjson(answer: &Answer) -> String {
    let names: Vec<String> = answer.columns.iter().map(|column| column.name.clone()).collect();
    answer.rows.iter().map(|row| json_row(&names, row)).collect()
}

/// A row as a line with a JSON object, whose keys are in the order of the columns.
#[must_use]
pub fn json_row(names: &[String], row: &[Value]) -> String {
    let members = names.iter().zip(row);
    let members: Vec<String> =
        members.map(|(name, value)| format!("{}:{value}", Value::from(&**name))).collect();
    format!("{{{}}}\n", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_csv_that_no_spreadsheet_executes() {
        let row = [json!("a\"b"), json!(null), json!(-1), json!("=1+1"), json!([1]), json!(true)];
        assert_eq!(csv_row(&row), "\"a\"\"b\",,-1,\"'=1+1\",\"[1]\",\"true\"\r\n");
        let names = ["b".to_owned(), "a".to_owned()];
        assert_eq!(json_row(&names, &row[1..3]), "{\"b\":null,\"a\":-1}\n");
    }
}
