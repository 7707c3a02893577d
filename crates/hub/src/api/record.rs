//! `GET /api/v1/records/{server}/{seq}`: one record, its bytes in the replica, and its proof.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path as FilePath;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tacho_chain::entry::{Checkpoint, Frame};
use tacho_chain::note::Note;
use tacho_chain::sidecar::{Entries, Meaning};
use tacho_query::literal;
use tacho_ship::protocol::{Code, Origin};
use tacho_store::ColumnKind;

use super::ApiError;
use super::filter::Filter;
use super::records::{to_json, value};
use crate::state::AppState;

/// A longer line is not shown as bytes.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// The answer.
///
/// # Errors
/// There is no such record, or the replica cannot be read.
pub async fn one(
    State(state): State<AppState>,
    path: Result<Path<(String, u64)>, PathRejection>,
    filter: Filter,
) -> Result<Json<Value>, ApiError> {
    let Path((server, seq)) = path?;
    let server: Origin = server
        .parse()
        .map_err(|_| ApiError::new(Code::NotFound, format!("there is no server {server:?}")))?;
    let name = literal(server.as_str());
    let generation = match filter.value("generation") {
        Some(_) => format!("generation = {}", filter.number("generation", 1, u32::MAX.into())?),
        None => "true".to_owned(),
    };
    let sql = format!(
        "SELECT *, (SELECT max(seq) FROM records WHERE \"server\" = {name} AND seq < {seq}), \
         (SELECT min(seq) FROM records WHERE \"server\" = {name} AND seq > {seq}) FROM records \
         WHERE \"server\" = {name} AND seq = {seq} AND {generation} \
         ORDER BY generation DESC, file DESC, \"offset\" DESC LIMIT 1"
    );
    let request = filter.request(sql);
    let mut answer = state.index.fetch(filter.snapshot.clone(), request).await?;
    let Some(mut row) = answer.rows.pop() else {
        let message = format!("there is no record {seq} of {server}");
        return Err(ApiError::new(Code::NotFound, message));
    };
    filter.note.rows(1);
    let (after, before) = (row.pop(), row.pop());
    let number = |kind| value(&row, kind).as_u64().unwrap_or(0);
    let generation = number(ColumnKind::Generation);
    let offset = number(ColumnKind::Offset);
    let file = value(&row, ColumnKind::File).as_str().unwrap_or_default().to_owned();
    let path = state.data.generation(&server, generation).join(&file);
    let read = move || (read_line(&path, offset), prove(&path, offset));
    let (line, proof) =
        tokio::task::spawn_blocking(read).await.map_err(|error| ApiError::internal(&error))?;
    let may_see_bytes = filter.caller.roles.may_see_statements();
    let bytes = match line.map_err(|error| ApiError::internal(&error))? {
        Some(line) if may_see_bytes => Value::String(line),
        _ => Value::Null,
    };
    let json = to_json(&state.index, &filter, vec![row])?.pop().unwrap_or_default();
    let record: Value = serde_json::from_str(&json).map_err(|error| ApiError::internal(&error))?;
    Ok(Json(json!({
        "record": record,
        "generation": generation,
        "file": file,
        "offset": offset,
        "bytes": bytes,
        "proof": proof.map_err(|error| ApiError::internal(&error))?,
        "neighbours": {"before": before, "after": after},
    })))
}

/// The line as it is in the replica, without its newline. `None`: it is too long.
fn read_line(path: &FilePath, offset: u64) -> io::Result<Option<String>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut line = Vec::new();
    BufReader::new(file).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    let is_whole = line.pop() == Some(b'\n');
    Ok(is_whole.then(|| String::from_utf8_lossy(&line).into_owned()))
}

/// The frame that covers a line, and the checkpoint that covers the frame.
struct Cover {
    frame: Frame,
    checkpoint: Option<(Checkpoint, Note)>,
}

fn cover(path: &FilePath, offset: u64) -> io::Result<Option<Cover>> {
    let sidecar = match File::open(path.with_extension(tacho_chain::SIDECAR_ENDING)) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut entries = Entries::new(sidecar);
    let mut found: Option<Frame> = None;
    while let Some(entry) = entries.next_entry()? {
        match (entry.meaning, &found) {
            (Some(Meaning::Frame(frame)), None) if frame.start <= offset && offset < frame.end => {
                found = Some(frame);
            }
            (Some(Meaning::Checkpoint(checkpoint, note)), Some(frame))
                if checkpoint.offset >= frame.end =>
            {
                let checkpoint = Some((checkpoint, note));
                return Ok(found.map(|frame| Cover { frame, checkpoint }));
            }
            _ => {}
        }
    }
    Ok(found.map(|frame| Cover { frame, checkpoint: None }))
}

fn prove(path: &FilePath, offset: u64) -> io::Result<Value> {
    let Some(Cover { frame, checkpoint }) = cover(path, offset)? else {
        let message = "no frame covers the line yet";
        return Ok(json!({"state": "unsealed", "message": message}));
    };
    let is_intact = digest(path, frame.start, frame.end)? == frame.digest.to_string();
    let (state, message) = match (is_intact, &checkpoint) {
        (false, _) => ("broken", "the frame's hash is not that of its bytes"),
        (true, None) => ("unsealed", "the frame is intact; no checkpoint signs it yet"),
        (true, Some(_)) => ("sealed", "the frame is intact, and under a signed checkpoint"),
    };
    let checkpoint = checkpoint.map(|(checkpoint, note)| {
        json!({
            "origin": checkpoint.origin,
            "seq": checkpoint.seq,
            "time_s": checkpoint.time_s,
            "offset": checkpoint.offset,
            "text": note.text,
        })
    });
    Ok(json!({
        "state": state,
        "message": message,
        "frame": {
            "start": frame.start,
            "end": frame.end,
            "lines": frame.lines,
            "last_seq": frame.last_seq,
            "sha256": frame.digest.to_string(),
            "recovered": frame.recovered,
        },
        "checkpoint": checkpoint,
        "key": checkpoint.as_ref().map(|checkpoint| checkpoint["origin"].clone()),
    }))
}

fn digest(path: &FilePath, start: u64, end: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut rest = file.take(end - start);
    let mut hasher = Sha256::new();
    io::copy(&mut rest, &mut hasher)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
