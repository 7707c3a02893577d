//! Makes a bundle from the hub's copies of the logs.
//!
//! | module | contents |
//! |---|---|
//! | `copy` | the files of one generation |
//! | `file` | one log file, for the proof of a single record |
//! | `keys` | the epochs of a log |
//! | `log` | the log files of a time range: their state, and the parts that have records |
//! | `extract` | the entries of a sidecar that prove the parts |

mod copy;
mod extract;
mod file;
mod keys;
mod log;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use tacho_chain::key::{SecretKey, VerifierKey};
use tacho_ship::protocol::{FileName, Origin, Stem};

use crate::container::{WriteError, Writer, Written};
use crate::manifest::{
    self, AlertPart, ByPart, FORMAT, FilePart, ForkPart, GenerationPart, HubPart, Manifest,
    QueryPart, ServerPart, VERSION,
};
use crate::names::{LogName, Name};
use crate::record::Position;
use copy::Copy;
pub use file::LogFile;

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A file of the replica cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A record is longer than a bundle may have.
    #[error("{path}: the record at byte {offset} has no end or is too long", path = path.display())]
    Line {
        /// The log file.
        path: PathBuf,
        /// Where it begins.
        offset: u64,
    },
}

/// What the hub knows about the export itself.
#[derive(Clone, Debug)]
pub struct Request {
    /// Name and version of the hub; the key is added.
    pub hub_name: String,
    /// Version of `tacho-hub`.
    pub hub_version: String,
    /// Now, RFC 3339.
    pub created: String,
    /// The account that asked.
    pub by: ByPart,
    /// What was asked.
    pub query: QueryPart,
    /// The time range as in names of log files, `20261121T100000Z`; none: no limit.
    pub file_times: (Option<String>, Option<String>),
    /// Most bytes of the bundle.
    pub bytes_max: u64,
}

/// A server that was searched.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its name.
    pub name: Origin,
    /// The root key with which its log began; none: that of its oldest file.
    pub root: Option<VerifierKey>,
    /// `lost` lines in the range, and the records that they declare.
    pub lost: (u64, u64),
    /// Later generations.
    pub forks: Vec<ForkPart>,
    /// Alerts in the range.
    pub alerts: Vec<AlertPart>,
    /// Generations: those with records, and the newest one.
    pub logs: Vec<Log>,
}

/// A generation.
#[derive(Clone, Debug)]
pub struct Log {
    /// Its number.
    pub generation: u64,
    /// Its directory.
    pub directory: PathBuf,
    /// The records: of each log file where they begin, bytes, in ascending order.
    pub records: BTreeMap<Stem, Vec<u64>>,
}

/// A bundle that was made.
#[derive(Debug)]
pub struct Made {
    /// Its manifest.
    pub manifest: Manifest,
    /// Its size, bytes.
    pub bytes: u64,
}

/// Writes a bundle into an empty file. `progress` gets the bytes so far; `false` cancels.
///
/// # Errors
/// The file cannot be written, the replica cannot be read, or the bundle would be too large.
pub fn make(
    file: &File,
    key: &SecretKey,
    request: Request,
    servers: Vec<Server>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Made, MakeError> {
    let mut writer = Writer::new(file, request.bytes_max, progress);
    let mut files = Vec::new();
    let mut parts = Vec::new();
    for server in &servers {
        let mut root = server.root.clone();
        let mut generations = Vec::new();
        for log in &server.logs {
            let name = LogName { server: server.name.clone(), generation: log.generation };
            let copy = Copy::read(&log.directory)?;
            let task = log::Task { log, name, copy: &copy, times: &request.file_times };
            generations.push(task.run(&mut root, &mut writer, &mut files)?);
        }
        parts.push(server_part(server, root.as_ref(), generations));
    }
    let records = write_records(&servers, &mut writer, &mut files)?;
    let manifest = Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        hub: HubPart {
            name: request.hub_name,
            version: request.hub_version,
            key: key.root().to_string(),
        },
        created: request.created,
        by: request.by,
        query: request.query,
        records,
        servers: parts,
        files,
    };
    let mut text = serde_json::to_vec_pretty(&manifest).map_err(io::Error::from);
    if let Ok(text) = &mut text {
        text.push(b'\n');
    }
    let text = text.map_err(WriteError::Io)?;
    writer.member(&Name::Manifest, &text)?;
    writer.member(&Name::Signature, manifest::sign(&text, key).as_bytes())?;
    Ok(Made { manifest, bytes: writer.close()? })
}

fn server_part(
    server: &Server,
    root: Option<&VerifierKey>,
    generations: Vec<GenerationPart>,
) -> ServerPart {
    ServerPart {
        server: server.name.clone(),
        root: root.map(ToString::to_string),
        generations,
        lost_lines: server.lost.0,
        lost_records: server.lost.1,
        forks: server.forks.clone(),
        alerts: server.alerts.clone(),
    }
}

fn part(written: Written, ranges: Vec<(u64, u64)>) -> FilePart {
    let Written { name, bytes, sha256 } = written;
    FilePart { name, bytes, sha256: sha256.to_string(), ranges }
}

/// Writes `records.jsonl`. Returns how many they are.
fn write_records(
    servers: &[Server],
    writer: &mut Writer<'_>,
    files: &mut Vec<FilePart>,
) -> Result<u64, MakeError> {
    writer.begin(&Name::Records)?;
    let mut count = 0;
    for server in servers {
        for log in &server.logs {
            for (stem, offsets) in &log.records {
                let file = FileName::Lines(stem.clone());
                let mut lines = copy::Lines::open(&log.directory, &file)?;
                for &offset in offsets {
                    let line = lines.line(offset)?;
                    let position = Position {
                        server: server.name.clone(),
                        generation: log.generation,
                        file: file.clone(),
                        offset,
                        bytes: line.len() as u64,
                    };
                    writer.write(&position.to_line(line))?;
                    count += 1;
                }
            }
        }
    }
    files.push(part(writer.finish()?, Vec::new()));
    Ok(count)
}
