//! `GET /api/v1/records/{server}/{seq}`: one record, its bytes in the replica, and its proof.

use std::io::{self, Read as _};
use std::path::Path as FilePath;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tacho_chain::entry::{Checkpoint, Frame};
use tacho_chain::proof::{SidecarWalk, Step};
use tacho_chain::verify::{Finding, LogState};
use tacho_evidence::make::{LogFile, MakeError};
use tacho_query::literal;
use tacho_replica::ReplicaFile;
use tacho_ship::protocol::{Code, FileName, Origin};
use tacho_store::ColumnKind;

use super::ApiError;
use super::filter::Filter;
use super::lines;
use super::records::{to_json, value};
use crate::state::AppState;
use crate::verification::root_of;

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
    let name: FileName = file.parse().map_err(|error| ApiError::internal(&error))?;
    let root = root_of(&state.database, &server)?;
    let directory = state.data.generation(&server, generation);
    let read = move || {
        let log = LogFile { directory, name, root };
        (read_line(&log.path(), offset), prove(&log, offset))
    };
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

/// A compressed file is not as the hub has written it.
fn is_damaged(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

/// The line as it is in the replica, without its newline. `None`: it is too long, or damaged.
fn read_line(path: &FilePath, offset: u64) -> io::Result<Option<String>> {
    let read = ReplicaFile::open(path).and_then(|file| lines::line(&file, offset, LINE_BYTES_MAX));
    match read {
        Err(error) if is_damaged(&error) => Ok(None),
        read => Ok(read?.map(|line| String::from_utf8_lossy(&line).into_owned())),
    }
}

/// The frame that covers a line, and the checkpoint that covers the frame.
#[derive(Default)]
struct Cover {
    frame: Option<Frame>,
    /// The checkpoint, its text, and whether the root key of the log leads to its signature.
    checkpoint: Option<(Box<Checkpoint>, String, bool)>,
    /// Faults of the seal up to there.
    faults: Vec<Finding>,
}

/// Looks for the proof of a line, from the root key on.
fn cover(log: &LogFile, offset: u64) -> Result<Cover, MakeError> {
    let keys = log.keys()?;
    let name = log.name.to_string();
    let mut walk = SidecarWalk::new(&keys, &name, false);
    let Some(mut entries) = log.sidecar()? else { return Ok(Cover::default()) };
    let (mut found, mut checkpoint) = (None, None);
    while let Some(entry) = entries.next_entry().map_err(|error| log.error(error))? {
        match walk.next(&entry) {
            Some(Step::Frame { frame, .. }) if frame.start <= offset && offset < frame.end => {
                found = Some(frame);
            }
            Some(Step::Signed { checkpoint: signed, is_believed }) if found.is_some() => {
                let text = String::from_utf8_lossy(&entry.bytes).into_owned();
                checkpoint = Some((signed, text, is_believed));
                break;
            }
            Some(_) => {}
            None => break,
        }
    }
    let faults = walk.findings().iter().chain(keys.findings()).cloned();
    // Declared breaks and missing files are not: the root key may lead here nevertheless.
    let faults = faults.filter(|finding| finding.state >= LogState::Modified).collect();
    Ok(Cover { frame: found, checkpoint, faults })
}

fn prove(log: &LogFile, offset: u64) -> Result<Value, MakeError> {
    let Cover { frame, checkpoint, faults } = cover(log, offset)?;
    let Some(frame) = frame else {
        return Ok(match faults.first() {
            Some(fault) => json!({"state": "broken", "message": fault.to_string()}),
            None => json!({"state": "unsealed", "message": "no frame covers the line yet"}),
        });
    };
    let digest = match digest(&log.path(), frame.start, frame.end) {
        Err(error) if is_damaged(&error) => {
            return Ok(json!({"state": "broken", "message": log.error(error).to_string()}));
        }
        digest => digest.map_err(|error| log.error(error))?,
    };
    let (state, message) = match (digest == frame.digest.to_string(), &checkpoint) {
        (false, _) => ("broken", "the frame's hash is not that of its bytes".to_owned()),
        (true, _) if !faults.is_empty() => ("broken", faults[0].to_string()),
        (true, None) => ("unsealed", "the frame is intact; no checkpoint signs it yet".to_owned()),
        (true, Some((.., false))) => {
            let text = "the frame is intact; the root key of the log does not lead to the key that \
                        signed its checkpoint: files before it are missing";
            ("unsealed", text.to_owned())
        }
        (true, Some((.., true))) => {
            let text = "the frame is intact, and signed: the root key of the log leads to the key";
            ("sealed", text.to_owned())
        }
    };
    let checkpoint = checkpoint.map(|(checkpoint, text, _)| {
        json!({
            "origin": checkpoint.origin,
            "seq": checkpoint.seq,
            "time_s": checkpoint.time_s,
            "offset": checkpoint.offset,
            "text": text,
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
    let mut rest = ReplicaFile::open(path)?.into_reader(start).take(end - start);
    let mut hasher = Sha256::new();
    io::copy(&mut rest, &mut hasher)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
