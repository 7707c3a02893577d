//! Evidence bundles of what a search finds: `docs/specs/evidence.md`. Everything here blocks.
//!
//! | module | contents |
//! |---|---|
//! | `find` | which records, and of which servers |
//! | `state` | what the hub knows of a server: root key, generations, forks, alerts |

mod find;
mod state;

use std::collections::BTreeMap;
use std::fs::File;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tacho_chain::key::SecretKey;
use tacho_evidence::make::{self, Made, MakeError, Request};
use tacho_evidence::manifest::{ByPart, QueryPart};
use tacho_query::{Cancel, Pool, QueryError};
use tacho_search::Search;
use tacho_ship::protocol::{Origin, Stem};
use tacho_store::Snapshot;

use crate::clock::{now_us, rfc3339};
use crate::data::DataDirectory;
use crate::database::{Database, DatabaseError};
use crate::index::view::View;
use crate::local;
use crate::roles::Scope;

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The search failed.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// It finds more than a bundle may have.
    #[error("the search finds more than {0} records: narrow the time range or the search")]
    TooMany(u64),
    /// A server that was named is not there.
    #[error("there is no server {0}")]
    NoServer(Origin),
    /// The bundle cannot be made.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The index has a row that is not one.
    #[error("the index has a record without its place")]
    Row,
    /// A directory of the replica cannot be read.
    #[error("cannot read {path}: {source}")]
    Replica {
        /// The directory or file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

/// An export that is asked for.
pub struct Question {
    /// The text of the search.
    pub q: String,
    /// The search.
    pub search: Search,
    /// The first instant, µs since 1970.
    pub from_us: Option<i64>,
    /// The end, µs since 1970, not included.
    pub to_us: Option<i64>,
    /// Servers that were named; empty: all.
    pub servers: Vec<Origin>,
    /// Servers that the caller may see.
    pub scope: Scope,
    /// The records that the caller may see.
    pub view: View,
    /// The account that asks.
    pub by: ByPart,
    /// Most records.
    pub records_max: u64,
    /// Most bytes of the bundle.
    pub bytes_max: u64,
    /// How long each query may take.
    pub timeout: std::time::Duration,
}

/// The sources of an export.
pub struct Sources<'a> {
    /// The replica.
    pub data: &'a DataDirectory,
    /// Root keys, alerts.
    pub database: &'a Database,
    /// Executes searches.
    pub pool: &'a Pool,
    /// The index at one moment.
    pub snapshot: &'a Snapshot,
    /// The hub's key.
    pub key: &'a SecretKey,
}

/// Writes a bundle into an empty file. `progress` gets the bytes so far; `false` cancels.
///
/// # Errors
/// The search fails or finds too much, or something cannot be read or written.
pub fn export(
    sources: &Sources<'_>,
    question: &Question,
    file: &File,
    cancel: &Cancel,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Made, ExportError> {
    let servers = state::servers(sources, question)?;
    let mut found = find::records(sources, question, cancel)?;
    let mut lost = find::lost(sources, question, cancel)?;
    let mut parts = Vec::new();
    for name in servers {
        let records = found.remove(&name).unwrap_or_default();
        let lost = lost.remove(&name).unwrap_or_default();
        parts.push(state::server(sources, question, name, records, lost)?);
    }
    let made = make::make(file, sources.key, request(question), parts, progress)?;
    Ok(made)
}

fn request(question: &Question) -> Request {
    Request {
        hub_name: local::host_name(),
        hub_version: env!("CARGO_PKG_VERSION").to_owned(),
        created: rfc3339(now_us()),
        by: question.by.clone(),
        query: QueryPart {
            q: question.q.clone(),
            from: question.from_us.map(rfc3339),
            to: question.to_us.map(rfc3339),
            servers: question.servers.clone(),
        },
        file_times: (question.from_us.map(file_time), question.to_us.map(file_time)),
        bytes_max: question.bytes_max,
    }
}

/// A time as in the name of a log file.
fn file_time(us: i64) -> String {
    let end = if us < 0 { Timestamp::MIN } else { Timestamp::MAX };
    let time = Timestamp::from_microsecond(us).unwrap_or(end);
    time.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// Records of a server: generation, log file, and where they begin.
type Records = BTreeMap<u64, BTreeMap<Stem, Vec<u64>>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_file_names() {
        assert_eq!(file_time(1_795_222_923_123_456), "20261121T010203Z");
        assert_eq!(file_time(i64::MAX).len(), 16);
    }
}
