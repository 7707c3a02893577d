//! The protocol between hub and worker: frames over pipes.
//!
//! A frame is four bytes of length (little-endian), one byte of kind, and the content.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A longer frame is an error of the other side.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// Kinds of frames to the worker.
pub mod to_worker {
    /// [`Setup`](super::Setup), once, first.
    pub const SETUP: u8 = b'S';
    /// [`Query`](super::Query).
    pub const QUERY: u8 = b'Q';
    /// Stops the query that runs.
    pub const CANCEL: u8 = b'X';
}

/// Kinds of frames from the worker.
pub mod from_worker {
    /// The worker takes queries; the content is DuckDB's version.
    pub const READY: u8 = b'V';
    /// The columns of the result: a list of [`ColumnInfo`](super::ColumnInfo).
    pub const COLUMNS: u8 = b'C';
    /// Rows: JSON arrays, each with a newline.
    pub const ROWS: u8 = b'R';
    /// [`End`](super::End).
    pub const END: u8 = b'E';
    /// [`Failure`](super::Failure).
    pub const FAILURE: u8 = b'F';
}

/// How a worker works.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// DuckDB's library.
    pub library: PathBuf,
    /// Memory that DuckDB uses, in bytes.
    pub memory_bytes: u64,
    /// Threads that DuckDB uses.
    pub threads: u32,
    /// The only directory with files that a query may read.
    pub data_dir: PathBuf,
    /// For intermediate results that do not fit in memory.
    pub temp_dir: PathBuf,
    /// Their size, in bytes.
    pub temp_bytes: u64,
}

/// How times are written in rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Times {
    /// RFC 3339 in UTC, with microseconds.
    #[default]
    Text,
    /// Numbers: µs since 1970-01-01 UTC.
    Micros,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// `boolean`, `integer`, `number`, `time`, `date`, `text`, `list` or `object`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// The end of a result.
#[derive(Debug, Serialize, Deserialize)]
pub struct End {
    /// Rows were left out.
    pub is_truncated: bool,
}

/// Why a query failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The worker cannot be set up.
    Setup,
    /// The SQL is not valid, or a value is not.
    Sql,
    /// The SQL refers to something that users may not use.
    Forbidden,
    /// It was cancelled.
    Cancelled,
    /// It needs more memory or temporary space than it may use.
    Memory,
}

/// The error of a query.
#[derive(Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// A message.
    pub message: String,
}

/// Writes a frame.
///
/// # Errors
/// If the other side has closed the pipe.
pub fn write(out: &mut impl Write, kind: u8, content: &[u8]) -> io::Result<()> {
    let length = u32::try_from(content.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the frame is too long"))?;
    let mut head = [0; 5];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4] = kind;
    out.write_all(&head)?;
    out.write_all(content)?;
    out.flush()
}

/// Writes a frame with a value as JSON.
///
/// # Errors
/// If the other side has closed the pipe.
pub fn write_json(out: &mut impl Write, kind: u8, value: &impl Serialize) -> io::Result<()> {
    write(out, kind, &serde_json::to_vec(value)?)
}

/// Reads a frame. `None`: the other side has closed the pipe between two frames.
///
/// # Errors
/// If it has closed it within a frame, or sends a frame that is too long.
pub fn read(input: &mut impl Read) -> io::Result<Option<(u8, Vec<u8>)>> {
    let mut head = [0; 5];
    if input.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    input.read_exact(&mut head[1..])?;
    let [a, b, c, d, kind] = head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the frame is too long"));
    }
    let mut content = vec![0; length];
    input.read_exact(&mut content)?;
    Ok(Some((kind, content)))
}
