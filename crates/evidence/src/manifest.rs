//! `manifest.json`: what the hub states about a bundle; and `manifest.sig`, its signature.
//!
//! The manifest is a statement. The seals of the recorders are checked without it.

use serde::{Deserialize, Serialize};
use tacho_chain::hash::Hash;
use tacho_chain::key::{SecretKey, VerifierKey};
use tacho_chain::note::{self, Note};
use tacho_ship::protocol::Origin;

/// The only value of `format`.
pub const FORMAT: &str = "tachograph-evidence";
/// The version of this format.
pub const VERSION: u32 = 1;
/// Largest manifest that is read, bytes.
pub const MANIFEST_BYTES_MAX: u64 = 256 << 20;
/// Largest signature that is read, bytes.
pub const SIGNATURE_BYTES_MAX: u64 = 4096;
/// First line of the note in `manifest.sig`.
const HEAD: &str = "tachograph-evidence-v1";

/// All of it. A reader skips members that it does not know. Times are RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`]
    pub format: String,
    /// [`VERSION`]
    pub version: u32,
    /// The hub.
    pub hub: HubPart,
    /// When the bundle was made.
    pub created: String,
    /// The account that asked for it.
    pub by: ByPart,
    /// What was asked.
    pub query: QueryPart,
    /// How many records match.
    pub records: u64,
    /// The servers that were searched.
    pub servers: Vec<ServerPart>,
    /// All members but the manifest and its signature.
    pub files: Vec<FilePart>,
}

/// The hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubPart {
    /// Name of its machine.
    pub name: String,
    /// Version of `tacho-hub`.
    pub version: String,
    /// Its public key.
    pub key: String,
}

/// The account that asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByPart {
    /// An account, the name of a token, or a user of the hub's machine.
    pub name: String,
    /// `api` or `command`.
    pub via: String,
}

/// What was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryPart {
    /// The search; empty: all records.
    pub q: String,
    /// First instant; none: from the first record on.
    pub from: Option<String>,
    /// End, not included; none: up to the last record.
    pub to: Option<String>,
    /// Servers that were named; empty: all that the caller may see.
    pub servers: Vec<Origin>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerPart {
    /// Its name.
    pub server: Origin,
    /// The root key with which its log began at the hub.
    pub root: Option<String>,
    /// Its generations that have matching records, and the newest one.
    pub generations: Vec<GenerationPart>,
    /// `lost` lines in the time range.
    pub lost_lines: u64,
    /// Records that they declare as lost.
    pub lost_records: u64,
    /// When and why later generations began.
    pub forks: Vec<ForkPart>,
    /// Alerts of the hub in the time range.
    pub alerts: Vec<AlertPart>,
}

/// A generation of a log, in the log files of the time range.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationPart {
    /// Its number.
    pub generation: u64,
    /// Matching records in it.
    pub records: u64,
    /// How many log files are in the time range.
    pub log_files: u64,
    /// The first of them.
    pub first_file: Option<String>,
    /// The last of them.
    pub last_file: Option<String>,
    /// The newest checkpoint in them that has a good signature.
    pub checkpoint: Option<CheckpointPart>,
    /// `seq` of the last line that a frame covers.
    pub sealed_seq: Option<u64>,
    /// Bytes of lines that no checkpoint covers.
    pub unsigned_bytes: u64,
    /// What the hub found in them, in the words of `tacho verify`.
    pub findings: Vec<FindingPart>,
    /// Findings beyond those.
    pub more_findings: u64,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointPart {
    /// `seq` of the last line under it.
    pub seq: u64,
    /// When it was made, s since 1970-01-01 UTC.
    pub time_s: i64,
    /// The log file.
    pub file: String,
    /// How much of the file is under it, bytes.
    pub offset: u64,
}

/// A finding of the hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingPart {
    /// A state of `tacho verify`: `gap`, `modified` …
    pub state: String,
    /// The log file.
    pub file: String,
    /// `seq` of the first record concerned.
    pub first_seq: Option<u64>,
    /// `seq` of the last record concerned.
    pub last_seq: Option<u64>,
    /// Its description.
    pub text: String,
}

/// Why a generation began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPart {
    /// The generation that began.
    pub generation: u64,
    /// When.
    pub time: String,
    /// `different`, `shorter` or `missing`.
    pub reason: String,
    /// The first file that contradicted.
    pub file: String,
    /// The hub's offset of it, bytes.
    pub offset: u64,
}

/// An alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertPart {
    /// Its rule.
    pub rule: String,
    /// Its severity.
    pub severity: String,
    /// Its title.
    pub title: String,
    /// When it happened first.
    pub first: String,
    /// When it happened last.
    pub last: String,
    /// How often.
    pub count: u64,
}

/// A member of the bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePart {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// SHA-256 of them, hexadecimal.
    pub sha256: String,
    /// Of a log file: where its parts are in the log file: begin and end, bytes. They follow each
    /// other in the member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<(u64, u64)>,
}

/// The text that is signed.
fn signed_text(manifest: &[u8]) -> String {
    format!("{HEAD}\nmanifest {}\n", Hash::of(manifest))
}

/// The content of `manifest.sig`.
#[must_use]
pub fn sign(manifest: &[u8], key: &SecretKey) -> String {
    note::sign(&signed_text(manifest), key.root().origin(), key)
}

/// Whether a key of a hub has signed a manifest.
#[must_use]
pub fn is_signed(manifest: &[u8], signature: &[u8], key: &VerifierKey) -> bool {
    let note = std::str::from_utf8(signature).ok().and_then(Note::parse);
    note.is_some_and(|note| note.text == signed_text(manifest) && note.is_by(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_belongs_to_one_manifest_and_one_key() {
        let (key, other) = (SecretKey::from_bytes(&[1; 32]), SecretKey::from_bytes(&[2; 32]));
        let signature = sign(b"{}", &key);
        assert!(is_signed(b"{}", signature.as_bytes(), &key.root()));
        assert!(!is_signed(b"{} ", signature.as_bytes(), &key.root()));
        assert!(!is_signed(b"{}", signature.as_bytes(), &other.root()));
        // A note of another kind by the same key.
        let note = note::sign("tachograph-epoch-v1\n", key.root().origin(), &key);
        assert!(!is_signed(b"{}", note.as_bytes(), &key.root()));
    }
}
