//! The tombstone of a hub: a log file that the hub's retention removed from its copy of a log.

use crate::entry::{Fields, NotAnEntry, file_name};
use crate::hash::Hash;
use crate::key::is_origin;
use crate::verify::LogState;

/// First line of such a tombstone.
pub const HUB_REMOVED_HEAD: &str = "tachograph-hub-removed-v1";
/// The word for a file whose seal the hub had not verified.
const UNVERIFIED: &str = "unverified";

/// A file that was removed: the log file, or its sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedPart {
    /// Its length; 0: it was not there.
    pub bytes: u64,
    /// SHA-256 of it.
    pub digest: Hash,
    /// SHA-256 of its last 4096 bytes, with which a shipper asks for it.
    pub end: Hash,
}

/// The text of the tombstone. It is signed by the key of the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubTombstone {
    /// Name of the log at the hub.
    pub server: String,
    /// Generation of its copy.
    pub generation: u64,
    /// The log file, without its directory.
    pub file: String,
    /// `seq` of its first line.
    pub first_seq: u64,
    /// `seq` of its last line; less than the first if it had none.
    pub last_seq: u64,
    /// How many lines it had.
    pub lines: u64,
    /// Time of its last record, µs since 1970-01-01 UTC.
    pub newest_us: i64,
    /// If it was sealed: the name of the log's keys, and the chain at its end.
    pub seal: Option<(String, Hash)>,
    /// The log file.
    pub log: RemovedPart,
    /// Its sidecar.
    pub sidecar: RemovedPart,
    /// What the hub's verification had found in it; none: it had not verified it.
    pub state: Option<LogState>,
    /// The retention, days.
    pub days: u64,
    /// When it was removed, seconds since 1970-01-01 UTC.
    pub time_s: i64,
    /// SHA-256 of the tombstone before it, as a note.
    pub previous: Hash,
}

impl RemovedPart {
    fn to_text(self) -> String {
        let Self { bytes, digest, end } = self;
        format!("{bytes} {digest} {end}")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        Some(Self {
            bytes: words.next()?.parse().ok()?,
            digest: Hash::from_hex(words.next()?)?,
            end: Hash::from_hex(words.next()?)?,
        })
    }
}

impl HubTombstone {
    /// The text that is signed.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Self { server, generation, file, first_seq, last_seq, lines, newest_us, .. } = self;
        let (log, chain) = match &self.seal {
            Some((log, chain)) => (log.as_str(), chain.to_base64()),
            None => ("-", "-".to_owned()),
        };
        let state = self.state.map_or(UNVERIFIED, LogState::word);
        format!(
            "{HUB_REMOVED_HEAD}\nserver {server}\ngeneration {generation}\nlog {log}\nfile {file}\n\
             first {first_seq}\nlast {last_seq}\nlines {lines}\nnewest {newest_us}\nchain {chain}\n\
             bytes {}\nsidecar {}\nstate {state}\ndays {}\ntime {}\nprevious {}\n",
            self.log.to_text(),
            self.sidecar.to_text(),
            self.days,
            self.time_s,
            self.previous.to_base64()
        )
    }

    /// Reads [`HubTombstone::to_text`].
    ///
    /// # Errors
    /// [`NotAnEntry`]
    pub fn parse(text: &str) -> Result<Self, NotAnEntry> {
        let mut fields = Fields::after(HUB_REMOVED_HEAD, text).ok_or(NotAnEntry)?;
        let mut read = || {
            let server = fields.take("server").filter(|server| is_server(server))?.to_owned();
            let generation = fields.number("generation")?;
            let log = fields.take("log")?;
            let file = file_name(fields.take("file")?)?;
            let (first_seq, last_seq) = (fields.number("first")?, fields.number("last")?);
            let lines = fields.number("lines")?;
            let newest_us = fields.take("newest")?.parse().ok()?;
            let seal = match (log, fields.take("chain")?) {
                ("-", "-") => None,
                (log, chain) if is_origin(log) => Some((log.to_owned(), Hash::from_base64(chain)?)),
                _ => return None,
            };
            Some(Self {
                server,
                generation,
                file,
                first_seq,
                last_seq,
                lines,
                newest_us,
                seal,
                log: RemovedPart::parse(fields.take("bytes")?)?,
                sidecar: RemovedPart::parse(fields.take("sidecar")?)?,
                state: match fields.take("state")? {
                    UNVERIFIED => None,
                    word => Some(LogState::of_word(word)?),
                },
                days: fields.number("days")?,
                time_s: fields.take("time")?.parse().ok()?,
                previous: Hash::from_base64(fields.take("previous")?)?,
            })
        };
        let tombstone = read().ok_or(NotAnEntry)?;
        if tombstone.to_text() == text { Ok(tombstone) } else { Err(NotAnEntry) }
    }
}

/// Whether a text can be the name of a log at a hub.
fn is_server(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tombstone() -> HubTombstone {
        let part = RemovedPart { bytes: 7, digest: Hash::of(b"a"), end: Hash::of(b"b") };
        HubTombstone {
            server: "db1.example".to_owned(),
            generation: 2,
            file: "audit-20261121T015944Z-000042.jsonl".to_owned(),
            first_seq: 4,
            last_seq: 9,
            lines: 6,
            newest_us: -5,
            seal: Some(("tachograph/0123456789abcdef".to_owned(), Hash::of(b"x"))),
            log: part,
            sidecar: part,
            state: Some(LogState::Recovered),
            days: 183,
            time_s: 1_795_230_185,
            previous: Hash::ZERO,
        }
    }

    #[test]
    fn a_tombstone_has_one_spelling() {
        let sealed = tombstone();
        let unsealed = HubTombstone { seal: None, state: None, ..tombstone() };
        for tombstone in [sealed, unsealed] {
            let text = tombstone.to_text();
            assert_eq!(HubTombstone::parse(&text), Ok(tombstone));
            for at in 0..text.len() {
                let mut other = text.clone();
                other.insert(at, ' ');
                assert!(HubTombstone::parse(&other).is_err(), "{other}");
                assert!(HubTombstone::parse(&text[..at]).is_err());
            }
        }
    }

    #[test]
    fn a_log_without_keys_has_no_chain() {
        let text = tombstone().to_text();
        let line = text.lines().find(|line| line.starts_with("chain ")).unwrap();
        assert!(HubTombstone::parse(&text.replace(line, "chain -")).is_err());
        assert!(HubTombstone::parse(&text.replace("recovered", "fine")).is_err());
    }
}
