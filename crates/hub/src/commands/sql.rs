//! `tacho-hub sql`

use std::io::Write;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use tacho_query::{Cancel, Pool, Request, Settings, Times};
use tacho_store::Reader;

use crate::api::sql::csv_row;
use crate::audit::Entry;
use crate::cli::{RowFormat, SqlArgs};
use crate::data::{DataDirectory, make_directory};
use crate::database::Database;
use crate::index::query_settings;

/// Executes a query over the store as it is now, and prints its rows as they come.
///
/// # Errors
/// There is no store, or the query fails.
pub fn run(args: &SqlArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let data = DataDirectory::existing(&args.data.directory)?;
    Database::open(&data.database())
        .and_then(|database| Entry::asked_by_command("sql", "SQL", &args.sql).store(&database))
        .context("cannot record the query, so it is not executed")?;
    let snapshot = Reader::snapshot(&data.store())?;
    let settings = Settings { workers: 1, waiting: 1, ..query_settings(&data)? };
    make_directory(&settings.temp_dir)?;
    let pool = Pool::new(settings);
    let request = Request {
        sql: args.sql.clone(),
        files: snapshot.files(i64::MIN, i64::MAX).into_iter().map(Into::into).collect(),
        is_users: true,
        times: Times::Text,
        max_rows: u64::MAX,
        max_bytes: u64::MAX,
        timeout: Duration::from_secs(args.timeout),
        ..Request::default()
    };
    let mut failed = None;
    let mut names: Vec<String> = Vec::new();
    pool.stream(&request, &Cancel::default(), &mut |columns, rows| {
        let written = print(columns, rows, args.format, &mut names, out);
        failed = written.err();
        failed.is_none()
    })?;
    match failed {
        // As of a pager that was closed.
        Some(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Some(error) => Err(error).context("cannot print the rows"),
        None => Ok(()),
    }
}

fn print(
    columns: &[tacho_query::ColumnInfo],
    rows: &[u8],
    format: RowFormat,
    names: &mut Vec<String>,
    out: &mut impl Write,
) -> std::io::Result<()> {
    if names.is_empty() {
        names.extend(columns.iter().map(|column| column.name.clone()));
        if format == RowFormat::Csv {
            let head: Vec<Value> = names.iter().cloned().map(Value::String).collect();
            out.write_all(csv_row(&head).as_bytes())?;
        }
    }
    for line in rows.split_inclusive(|&byte| byte == b'\n') {
        let row: Vec<Value> = serde_json::from_slice(line)?;
        let text = match format {
            RowFormat::Csv => csv_row(&row),
            RowFormat::Json => crate::api::sql::json_row(names, &row),
        };
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}
