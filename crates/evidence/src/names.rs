//! The names of the members of a bundle. They are never used as paths.

use std::fmt;
use std::str::FromStr;

use tacho_ship::protocol::{FileName, Origin, Stem};

const MANIFEST: &str = "manifest.json";
const SIGNATURE: &str = "manifest.sig";
const RECORDS: &str = "records.jsonl";
const SERVERS: &str = "servers/";
const KEYS: &str = "keys.chain";

/// One generation of the log of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogName {
    /// The server.
    pub server: Origin,
    /// The generation.
    pub generation: u64,
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, generation {}", self.server, self.generation)
    }
}

/// The name of a member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// `servers/<server>/<generation>/keys.chain`: the epochs of its files.
    Keys(LogName),
    /// `servers/<server>/<generation>/<stem>.chain`: the extract of a sidecar.
    Sidecar(LogName, Stem),
    /// `servers/<server>/<generation>/<stem>.jsonl`: parts of a log file.
    Lines(LogName, Stem),
    /// `records.jsonl`
    Records,
    /// `manifest.json`
    Manifest,
    /// `manifest.sig`
    Signature,
}

/// A name that no member has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a member")]
pub struct NotAName(String);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = |f: &mut fmt::Formatter<'_>, log: &LogName| {
            write!(f, "{SERVERS}{}/{}/", log.server, log.generation)
        };
        match self {
            Self::Manifest => f.write_str(MANIFEST),
            Self::Signature => f.write_str(SIGNATURE),
            Self::Records => f.write_str(RECORDS),
            Self::Keys(log) => {
                directory(f, log)?;
                f.write_str(KEYS)
            }
            Self::Sidecar(log, stem) => {
                directory(f, log)?;
                write!(f, "{}", FileName::Chain(stem.clone()))
            }
            Self::Lines(log, stem) => {
                directory(f, log)?;
                write!(f, "{}", FileName::Lines(stem.clone()))
            }
        }
    }
}

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let name = match text {
            MANIFEST => Some(Self::Manifest),
            SIGNATURE => Some(Self::Signature),
            RECORDS => Some(Self::Records),
            _ => of_log(text),
        };
        // A second spelling, such as a number with a zero in front, is none.
        name.filter(|name| name.to_string() == text).ok_or_else(|| NotAName(text.to_owned()))
    }
}

fn of_log(text: &str) -> Option<Name> {
    let (server, rest) = text.strip_prefix(SERVERS)?.split_once('/')?;
    let (generation, file) = rest.split_once('/')?;
    let log = LogName { server: server.parse().ok()?, generation: generation.parse().ok()? };
    if file == KEYS {
        return Some(Name::Keys(log));
    }
    match file.parse().ok()? {
        FileName::Lines(stem) => Some(Name::Lines(log, stem)),
        FileName::Chain(stem) => Some(Name::Sidecar(log, stem)),
        FileName::Removed => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_members_are_names() {
        let directory = "servers/db-1.example/2";
        let stem = "audit-20261121T100000Z-000001";
        for good in [
            "manifest.json",
            "manifest.sig",
            "records.jsonl",
            &format!("{directory}/keys.chain"),
            &format!("{directory}/{stem}.chain"),
            &format!("{directory}/{stem}.jsonl"),
        ] {
            assert_eq!(good.parse::<Name>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "/etc/passwd",
            "../manifest.json",
            "./manifest.json",
            "manifest.json/",
            "servers",
            "servers/../1/keys.chain",
            "servers/db1/../keys.chain",
            "servers/db1/01/keys.chain",
            "servers/db1/+1/keys.chain",
            &format!("{directory}/removed.chain"),
            &format!("{directory}/{stem}.jsonl.zst"),
            &format!("{directory}/../{stem}.jsonl"),
            &format!("{directory}//{stem}.jsonl"),
        ] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
    }
}
