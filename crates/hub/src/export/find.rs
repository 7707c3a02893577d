//! Which records a search finds, and where they are.

use std::collections::BTreeMap;

use serde_json::Value;
use tacho_query::{Cancel, Request, Times, literal};
use tacho_search::Search;
use tacho_ship::protocol::{FileName, Origin};

use super::{ExportError, Question, Records, Sources};
use crate::api::filter::condition;

/// The positions of all records that the search finds.
pub(super) fn records(
    sources: &Sources<'_>,
    question: &Question,
    cancel: &Cancel,
) -> Result<BTreeMap<Origin, Records>, ExportError> {
    let servers: Vec<String> = question.servers.iter().map(ToString::to_string).collect();
    let condition = condition(question.from_us, question.to_us, &servers, &question.search);
    let sql = format!(
        "SELECT \"server\", generation, file, \"offset\" FROM records WHERE {condition} \
         ORDER BY \"server\", generation, file, \"offset\""
    );
    let mut found: BTreeMap<Origin, Records> = BTreeMap::new();
    let mut count = 0;
    rows(sources, question, sql, cancel, &mut |row| {
        count += 1;
        let (server, generation, file, offset) = (&row[0], &row[1], &row[2], &row[3]);
        let place = || {
            let server = server.as_str()?.parse::<Origin>().ok()?;
            let FileName::Lines(stem) = file.as_str()?.parse().ok()? else { return None };
            Some((server, generation.as_u64()?, stem, offset.as_u64()?))
        };
        let (server, generation, stem, offset) = place().ok_or(ExportError::Row)?;
        if count > question.records_max {
            return Err(ExportError::TooMany(question.records_max));
        }
        let generations = found.entry(server).or_default();
        generations.entry(generation).or_default().entry(stem).or_default().push(offset);
        Ok(())
    })?;
    Ok(found)
}

/// `lost` lines of each server in the range, and the records that they declare.
pub(super) fn lost(
    sources: &Sources<'_>,
    question: &Question,
    cancel: &Cancel,
) -> Result<BTreeMap<Origin, (u64, u64)>, ExportError> {
    let servers: Vec<String> = question.servers.iter().map(ToString::to_string).collect();
    let all = Search { expr: None };
    let condition = condition(question.from_us, question.to_us, &servers, &all);
    let sql = format!(
        "SELECT \"server\", count(*), coalesce(sum(\"count\"), 0)::UBIGINT FROM records \
         WHERE event = {} AND {condition} GROUP BY \"server\"",
        literal("lost")
    );
    let mut lost = BTreeMap::new();
    rows(sources, question, sql, cancel, &mut |row| {
        let server = row[0].as_str().and_then(|server| server.parse::<Origin>().ok());
        let numbers = (row[1].as_u64().unwrap_or(0), row[2].as_u64().unwrap_or(0));
        lost.insert(server.ok_or(ExportError::Row)?, numbers);
        Ok(())
    })?;
    Ok(lost)
}

fn rows(
    sources: &Sources<'_>,
    question: &Question,
    sql: String,
    cancel: &Cancel,
    take: &mut dyn FnMut(&[Value]) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let (from_us, to_us) =
        (question.from_us.unwrap_or(i64::MIN), question.to_us.unwrap_or(i64::MAX));
    let request = Request {
        sql,
        files: sources.snapshot.files(from_us, to_us).into_iter().map(Into::into).collect(),
        columns: question.view.columns.clone(),
        filter: question.view.filter.clone(),
        times: Times::Micros,
        // One more says that there are too many.
        max_rows: question.records_max.saturating_add(1),
        max_bytes: u64::MAX,
        timeout: question.timeout,
        ..Request::default()
    };
    let mut failed = None;
    let streamed = sources.pool.stream(&request, cancel, &mut |columns, text| {
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            let row: Result<Vec<Value>, _> = serde_json::from_slice(line);
            let taken = match row {
                Ok(row) if row.len() == columns.len() => take(&row),
                _ => Err(ExportError::Row),
            };
            if let Err(error) = taken {
                failed = Some(error);
                return false;
            }
        }
        true
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(streamed.map(drop)?),
    }
}
