//! JSON of requests and answers.
//!
//! Readers pass over fields that they do not know; fields with a default may be left out. So both
//! sides can be of different releases.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::activity::Activity;
use super::names::{FileName, Origin, Stem};
use super::{BATCH_BYTES, BATCH_MS, HEARTBEAT_S};

/// Answer to `GET` of an origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginState {
    /// [`super::VERSION`]
    pub protocol: u32,
    /// The origin.
    pub origin: Origin,
    /// The current generation; 1 for an origin without files.
    pub generation: u64,
    /// Its files, in any order. A file that is not in the list has the offset 0.
    pub files: Vec<FileState>,
    /// The newest checkpoint that the hub has, as it is in the sidecar.
    #[serde(default)]
    pub checkpoint: Option<String>,
    /// How to ship.
    #[serde(default)]
    pub hints: Hints,
}

/// How much of a file the hub has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// The file.
    pub name: FileName,
    /// The end of what is on the hub's disk, bytes.
    pub offset: u64,
}

/// Answer to a `PUT`, after fsync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The generation.
    pub generation: u64,
    /// The end of what is on the hub's disk, bytes.
    pub offset: u64,
}

/// How to ship. Every field may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hints {
    /// Send nothing for so long, ms.
    pub pause_ms: u32,
    /// A body is sent when it would have so many bytes before compression.
    pub batch_bytes: u32,
    /// A body is sent when its oldest byte has waited so long, ms.
    pub batch_ms: u32,
    /// Time between two heartbeats, s.
    pub heartbeat_s: u32,
    /// Most bytes per second, as they are sent; 0: unlimited.
    pub bytes_per_second: u64,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            pause_ms: 0,
            batch_bytes: BATCH_BYTES,
            batch_ms: BATCH_MS,
            heartbeat_s: HEARTBEAT_S,
            bytes_per_second: 0,
        }
    }
}

/// How the log directory contradicts what the hub has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contradiction {
    /// A file has other bytes.
    Different,
    /// A file ends before the hub's offset.
    Shorter,
    /// A file of the hub is not in the directory, and no tombstone says that it was removed.
    Missing,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Different => "different",
            Self::Shorter => "shorter",
            Self::Missing => "missing",
        })
    }
}

/// Body of `POST` to an origin's generations. The answer is an [`OriginState`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewGeneration {
    /// The generation that is contradicted.
    pub after: u64,
    /// How.
    pub reason: Contradiction,
    /// The file that contradicts.
    pub file: FileName,
    /// The hub's offset of it.
    pub offset: u64,
}

/// Body of `POST` to an origin's heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The clock of the host, µs since 1970-01-01 UTC.
    pub time_us: i64,
    /// Release of the shipper.
    pub version: String,
    /// Name of the host.
    pub host: String,
    /// Time to the next one, s; 0: the shipper stops in the orderly way.
    pub next_s: u32,
    /// Whether a recorder holds the lock of the log directory; `None`: not known.
    #[serde(default)]
    pub recorder: Option<bool>,
    /// Oldest log file in the directory.
    #[serde(default)]
    pub oldest: Option<Stem>,
    /// Newest log file in the directory.
    #[serde(default)]
    pub newest: Option<Stem>,
    /// Bytes that could be shipped and that the hub has not acknowledged.
    #[serde(default)]
    pub behind_bytes: u64,
    /// Bytes of lines that wait for their frame.
    #[serde(default)]
    pub unsealed_bytes: u64,
    /// Free space of the log directory's file system, bytes.
    #[serde(default)]
    pub free_bytes: Option<u64>,
    /// What is wrong, [`super::PROBLEMS_MAX`] at most.
    #[serde(default)]
    pub problems: Vec<Problem>,
    /// What the database server is doing; `None`: the shipper has no account there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
}

/// Something that is wrong on the host, and lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// `encrypted`, `unreadable`, `contradiction` or a later release's word.
    pub code: String,
    /// The file.
    #[serde(default)]
    pub file: Option<FileName>,
    /// For people.
    pub message: String,
}

/// Answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatAnswer {
    /// The current generation.
    pub generation: u64,
    /// The clock of the hub, µs since 1970-01-01 UTC.
    pub time_us: i64,
    /// How to ship.
    #[serde(default)]
    pub hints: Hints,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_reads_as_the_specification_shows_it() {
        let text = r#"{"protocol":1,"origin":"db1","generation":2,"files":[
            {"name":"audit-20261121T100000Z-000001.jsonl","offset":1000},
            {"name":"removed.chain","offset":0}],"more":"of a later release"}"#;
        let state: OriginState = serde_json::from_str(text).unwrap();
        assert_eq!((state.generation, state.files[0].offset), (2, 1000));
        assert_eq!(state.files[1].name, FileName::Removed);
        assert_eq!((state.checkpoint, state.hints), (None, Hints::default()));
        let hints: Hints = serde_json::from_str(r#"{"pause_ms":5}"#).unwrap();
        assert_eq!(hints, Hints { pause_ms: 5, ..Hints::default() });
    }

    #[test]
    fn a_new_generation_says_why() {
        let request = NewGeneration {
            after: 1,
            reason: Contradiction::Shorter,
            file: "audit-20261121T100000Z-000001.chain".parse().unwrap(),
            offset: 7,
        };
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(
            text,
            r#"{"after":1,"reason":"shorter","file":"audit-20261121T100000Z-000001.chain","offset":7}"#
        );
        assert_eq!(serde_json::from_str::<NewGeneration>(&text).unwrap(), request);
    }

    #[test]
    fn a_heartbeat_needs_little() {
        let text = r#"{"time_us":1,"version":"0.1.0","host":"db1","next_s":10}"#;
        let heartbeat: Heartbeat = serde_json::from_str(text).unwrap();
        assert_eq!((heartbeat.next_s, heartbeat.recorder, heartbeat.behind_bytes), (10, None, 0));
    }
}
