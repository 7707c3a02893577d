//! What the hub knows of a server.

use std::collections::BTreeSet;
use std::io;

use rusqlite::params;
use tacho_chain::key::VerifierKey;
use tacho_evidence::make::{Log, Server};
use tacho_evidence::manifest::{AlertPart, ForkPart};
use tacho_ship::protocol::Origin;

use super::{ExportError, Question, Records, Sources};
use crate::clock::rfc3339;
use crate::database::DatabaseError;
use crate::landing::{beginnings, generations};
use crate::verification::root_of;

/// Most alerts of a server.
const ALERTS_MAX: u32 = 1000;

/// The servers that are searched.
pub(super) fn servers(
    sources: &Sources<'_>,
    question: &Question,
) -> Result<BTreeSet<Origin>, ExportError> {
    let replica = sources.data.replica();
    let error = |source| ExportError::Replica { path: replica.display().to_string(), source };
    let mut known = BTreeSet::new();
    for entry in std::fs::read_dir(&replica).map_err(error)? {
        let name = entry.map_err(error)?.file_name();
        let origin = name.to_str().and_then(|name| name.parse::<Origin>().ok());
        known.extend(origin.filter(|origin| question.scope.has(origin)));
    }
    if question.servers.is_empty() {
        return Ok(known);
    }
    let named: BTreeSet<Origin> = question.servers.iter().cloned().collect();
    match named.difference(&known).next() {
        Some(unknown) => Err(ExportError::NoServer(unknown.clone())),
        None => Ok(named),
    }
}

/// One server with its records.
pub(super) fn server(
    sources: &Sources<'_>,
    question: &Question,
    name: Origin,
    mut records: Records,
    lost: (u64, u64),
) -> Result<Server, ExportError> {
    let directory = sources.data.replica().join(name.as_str());
    let error =
        |source: io::Error| ExportError::Replica { path: directory.display().to_string(), source };
    let newest = generations(&directory).map_err(error)?.last().copied().unwrap_or(1);
    records.entry(newest).or_default();
    let logs = records.into_iter().map(|(generation, records)| Log {
        generation,
        directory: sources.data.generation(&name, generation),
        records,
    });
    let forks = beginnings(&directory).map_err(error)?;
    let forks = forks.into_iter().map(|(generation, beginning)| ForkPart {
        generation,
        time: rfc3339(beginning.time_us),
        reason: beginning.request.reason.to_string(),
        file: beginning.request.file.to_string(),
        offset: beginning.request.offset,
    });
    let root: Option<VerifierKey> = root_of(sources.database, &name)?;
    Ok(Server {
        root,
        lost,
        forks: forks.collect(),
        alerts: alerts(sources, question, &name)?,
        logs: logs.collect(),
        name,
    })
}

/// Alerts in the time range.
fn alerts(
    sources: &Sources<'_>,
    question: &Question,
    name: &Origin,
) -> Result<Vec<AlertPart>, DatabaseError> {
    let from_us = question.from_us.unwrap_or(i64::MIN);
    let to_us = question.to_us.unwrap_or(i64::MAX);
    sources.database.read(|connection| {
        let select = format!(
            "SELECT rule, severity, title, first_us, last_us, count FROM alert
            WHERE server = ?1 AND last_us >= ?2 AND first_us < ?3
            ORDER BY first_us, id LIMIT {ALERTS_MAX}"
        );
        let mut statement = connection.prepare(&select)?;
        let rows = statement.query_map(params![name.as_str(), from_us, to_us], |row| {
            let count: i64 = row.get(5)?;
            Ok(AlertPart {
                rule: row.get(0)?,
                severity: row.get(1)?,
                title: row.get(2)?,
                first: rfc3339(row.get(3)?),
                last: rfc3339(row.get(4)?),
                count: count.unsigned_abs(),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    })
}
