//! The values of filters by a field.

use regex::Regex;
use tacho_filter::glob;

/// A value that a line may have.
#[derive(Clone, Debug)]
pub enum Value {
    /// A name.
    Name(Pattern),
    /// A number.
    Number(u64),
    /// A run of the server.
    Run(Run),
    /// One of our words.
    Word(String),
    /// A digest, or its first digits.
    Digest(String),
    /// A part of a text.
    Regex(Regex),
}

/// Runs of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// The run whose `start` line has this number.
    Number(u64),
    /// The newest run of the log; with --follow also later ones.
    Last,
}

impl Value {
    /// Whether it is this text.
    pub fn is_text(&self, text: &str) -> bool {
        match self {
            Self::Name(pattern) => pattern.matches(text),
            Self::Word(word) => word == text,
            Self::Digest(digest) => has_digest(text, digest),
            Self::Regex(regex) => regex.is_match(text),
            Self::Number(_) | Self::Run(_) => false,
        }
    }

    /// A text that is in every name that it matches; for a table, in one of its two names.
    pub fn part(&self) -> &str {
        match self {
            Self::Name(pattern) => pattern.part(),
            _ => "",
        }
    }

    /// Whether it is this number.
    pub fn is_number(&self, number: Option<u64>) -> bool {
        matches!(self, Self::Number(own) if Some(*own) == number)
    }

    /// Whether it is this run. `last` is the number of [`Run::Last`].
    pub fn is_run(&self, run: Option<u64>, last: u64) -> bool {
        match self {
            Self::Run(Run::Number(own)) => Some(*own) == run,
            // A run that begins later has a higher number.
            Self::Run(Run::Last) => run.unwrap_or(0) >= last,
            _ => false,
        }
    }
}

/// Whether the digest of a line begins with `digest`, with or without the version prefix.
fn has_digest(of_line: &str, digest: &str) -> bool {
    let hash = of_line.split_once(':').map_or("", |(_, hash)| hash);
    !hash.is_empty() && (of_line.starts_with(digest) || hash.starts_with(digest))
}

/// A name in which `*` stands for any characters. It never matches a missing name, except as
/// the empty pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    glob: Vec<u8>,
    /// Ignore the case of ASCII letters.
    fold: bool,
    /// The text, if it has no character with a meaning and case matters: then it is compared.
    exact: Option<String>,
}

impl Pattern {
    /// Case matters.
    pub fn new(text: &str) -> Self {
        let exact = (!text.contains(['*', '?', '\\'])).then(|| text.to_owned());
        Self { glob: glob_of(text), fold: false, exact }
    }

    /// Case does not matter.
    pub fn folded(text: &str) -> Self {
        Self { glob: glob_of(text), fold: true, exact: None }
    }

    /// A text that is in every such name, also if the name is written in two parts with a dot
    /// between them; empty if there is none.
    fn part(&self) -> &str {
        if self.fold {
            return "";
        }
        let parts = self.glob.split(|byte| b"*?\\.".contains(byte));
        let longest = parts.max_by_key(|part| part.len()).unwrap_or_default();
        // It was cut at ASCII characters, so it is UTF-8.
        std::str::from_utf8(longest).unwrap_or_default()
    }

    /// Whether a name is one of those.
    pub fn matches(&self, name: &str) -> bool {
        if let Some(exact) = &self.exact {
            return exact == name;
        }
        if name.is_empty() {
            return self.glob.is_empty();
        }
        glob::matches(&self.glob, name.as_bytes(), self.fold)
    }
}

fn glob_of(text: &str) -> Vec<u8> {
    let mut glob = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        // Only the star has a meaning here.
        if matches!(byte, b'?' | b'\\') {
            glob.push(b'\\');
        }
        glob.push(byte);
    }
    glob
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_in_every_name_that_matches() {
        for (pattern, part) in [
            ("shop.orders", "orders"),
            ("h*.salary_?x", "salary_"),
            ("*", ""),
            ("größe.*", "größe"),
        ] {
            assert_eq!(Pattern::new(pattern).part(), part);
        }
        assert_eq!(Pattern::folded("shop").part(), "");
    }

    #[test]
    fn stars() {
        let matches = |pattern: &str, name: &str| Pattern::new(pattern).matches(name);
        assert!(matches("app", "app") && !matches("app", "apps") && !matches("app", "App"));
        assert!(matches("app*", "app") && matches("app*", "app_rw") && !matches("app*", "xapp"));
        assert!(matches("*.10", "192.168.0.10") && !matches("*.10", "192.168.0.100"));
        assert!(matches("a*b*c", "aXbYc") && matches("a*b*c", "abc") && matches("a*a", "aa"));
        assert!(!matches("a*a", "a") && !matches("a*b*c", "acb"));
        assert!(matches("*", "x") && !matches("*", "") && matches("", ""));
        assert!(Pattern::folded("DB*.Example").matches("db1.EXAMPLE"));
        assert!(Pattern::folded("").matches("") && !Pattern::folded("").matches("x"));
        assert!(matches("ü*", "über"));
        assert!(matches("a?", "a?") && !matches("a?", "ab") && matches("a\\*", "a\\b"));
        assert!(!matches("a\\*", "a*"));
    }
}
