//! Names of origins and of files, and the paths of requests.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use tacho_chain::entry::is_stem;

/// Longest name of an origin, bytes.
pub const ORIGIN_BYTES_MAX: usize = 64;

/// Ending of a log file with plain lines.
pub(crate) const LINES_ENDING: &str = ".jsonl";
const CHAIN_ENDING: &str = ".chain";
const REMOVED: &str = "removed.chain";

/// A name that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Not the name of an origin.
    #[error(
        "not the name of a log: 1 to {ORIGIN_BYTES_MAX} of the characters A-Z a-z 0-9 . _ - are \
         needed, the first one a letter or a digit"
    )]
    Origin,
    /// Not the name of a file.
    #[error(
        "not a file that is shipped: audit-<time>-<number>.jsonl, audit-<time>-<number>.chain or \
         removed.chain"
    )]
    File,
}

/// Name of one log at the hub. It can be a path segment and a file name as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(String);

impl Origin {
    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Origin {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_first = |byte: &u8| byte.is_ascii_alphanumeric();
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_origin = text.len() <= ORIGIN_BYTES_MAX
            && text.as_bytes().first().is_some_and(is_first)
            && text.bytes().all(is_good);
        if is_origin { Ok(Self(text.to_owned())) } else { Err(NameError::Origin) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Name of a file at the hub.
///
/// The order of these names is that in which they are shipped: by age, the lines of a file before
/// its sidecar, and the tombstones last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FileName {
    /// `<stem>.jsonl`: the lines of a log file, whatever its form in the log directory.
    Lines(Stem),
    /// `<stem>.chain`: its sidecar.
    Chain(Stem),
    /// `removed.chain`: the tombstones.
    Removed,
}

/// `audit-<time>-<number>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stem(String);

impl Stem {
    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Stem {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if is_stem(text) { Ok(Self(text.to_owned())) } else { Err(NameError::File) }
    }
}

impl fmt::Display for Stem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FileName {
    /// Name without its ending; `None` for the tombstones.
    #[must_use]
    pub fn stem(&self) -> Option<&Stem> {
        match self {
            Self::Lines(stem) | Self::Chain(stem) => Some(stem),
            Self::Removed => None,
        }
    }
}

impl Ord for FileName {
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |name: &Self| match name {
            Self::Lines(_) => 0,
            Self::Chain(_) => 1,
            Self::Removed => 2,
        };
        match (self.stem(), other.stem()) {
            (Some(one), Some(two)) if one != two => one.cmp(two),
            _ => place(self).cmp(&place(other)),
        }
    }
}

impl PartialOrd for FileName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for FileName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text == REMOVED {
            return Ok(Self::Removed);
        }
        let lines = text.strip_suffix(LINES_ENDING).map(|stem| stem.parse().map(Self::Lines));
        let chain = || text.strip_suffix(CHAIN_ENDING).map(|stem| stem.parse().map(Self::Chain));
        lines.or_else(chain).unwrap_or(Err(NameError::File))
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lines(stem) => write!(f, "{stem}{LINES_ENDING}"),
            Self::Chain(stem) => write!(f, "{stem}{CHAIN_ENDING}"),
            Self::Removed => f.write_str(REMOVED),
        }
    }
}

macro_rules! as_text {
    ($($type:ident),*) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
as_text!(Origin, Stem, FileName);

/// Path of `GET`: the state of an origin.
#[must_use]
pub fn origin_path(origin: &Origin) -> String {
    format!("/api/v1/origins/{origin}")
}

/// Path of `PUT`: bytes of a file.
#[must_use]
pub fn file_path(origin: &Origin, name: &FileName) -> String {
    format!("/api/v1/origins/{origin}/files/{name}")
}

/// Path of `POST`: a new generation.
#[must_use]
pub fn generations_path(origin: &Origin) -> String {
    format!("/api/v1/origins/{origin}/generations")
}

/// Path of `POST`: a heartbeat.
#[must_use]
pub fn heartbeat_path(origin: &Origin) -> String {
    format!("/api/v1/origins/{origin}/heartbeat")
}

/// Whether a text is the name of a shipper's process: 32 lower-case hexadecimal digits.
#[must_use]
pub fn is_instance(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEM: &str = "audit-20261121T100000Z-000001";

    #[test]
    fn origins_are_safe_names() {
        for good in ["a", "db-1.example_x", "10.0.0.1", &"x".repeat(64)] {
            assert_eq!(good.parse::<Origin>().unwrap().as_str(), good);
        }
        for bad in
            ["", ".", "..", ".x", "-x", "a/b", "a b", "a%2f", "zwölf", "a\n", &"x".repeat(65)]
        {
            assert_eq!(bad.parse::<Origin>(), Err(NameError::Origin), "{bad}");
        }
    }

    #[test]
    fn only_lines_and_seals_are_shipped() {
        for good in [&format!("{STEM}.jsonl"), &format!("{STEM}.chain"), "removed.chain"] {
            assert_eq!(good.parse::<FileName>().unwrap().to_string(), *good);
        }
        for bad in [
            "",
            STEM,
            ".jsonl",
            "audit.jsonl",
            "../removed.chain",
            "removed.chain.new",
            &format!("{STEM}.jsonl.zst"),
            &format!("{STEM}.csv"),
            &format!("x/{STEM}.jsonl"),
            &format!("{STEM}.jsonl\0"),
        ] {
            assert_eq!(bad.parse::<FileName>(), Err(NameError::File), "{bad}");
        }
    }

    #[test]
    fn names_sort_as_they_are_shipped() {
        let newer = "audit-20261121T110000Z-000002";
        let names = [
            format!("{STEM}.jsonl"),
            format!("{STEM}.chain"),
            format!("{newer}.jsonl"),
            format!("{newer}.chain"),
            "removed.chain".to_owned(),
        ];
        let sorted: Vec<FileName> = names.iter().map(|name| name.parse().unwrap()).collect();
        assert!(sorted.is_sorted_by(|one, two| one < two), "{sorted:?}");
    }

    #[test]
    fn json_has_names_as_texts_and_checks_them() {
        let name: FileName = serde_json::from_str(&format!("\"{STEM}.chain\"")).unwrap();
        assert_eq!(name, FileName::Chain(STEM.parse().unwrap()));
        assert_eq!(serde_json::to_string(&name).unwrap(), format!("\"{STEM}.chain\""));
        assert!(serde_json::from_str::<FileName>("\"passwd\"").is_err());
        assert!(serde_json::from_str::<Origin>("\"..\"").is_err());
    }

    #[test]
    fn instances_have_one_spelling() {
        assert!(is_instance("0123456789abcdef0123456789abcdef"));
        assert!(!is_instance("0123456789ABCDEF0123456789abcdef"));
        assert!(!is_instance("0123456789abcdef"));
    }
}
