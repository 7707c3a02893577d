//! The table of patterns, and when a stack matches one.

use serde::Deserialize;

use crate::modules::Frame;
use crate::profile::{Entry, Profile};
use crate::state::ThreadState;

/// The built-in table.
pub const BUILT_IN: &str = include_str!("patterns.toml");

/// All patterns.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patterns {
    /// The patterns to report.
    #[serde(default)]
    pub pattern: Vec<Pattern>,
    /// The stacks of threads that wait for work.
    #[serde(default)]
    pub idle: Vec<Pattern>,
}

/// One pattern.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Its name.
    pub name: String,
    /// States in which it counts; if none are given, all.
    #[serde(default)]
    pub states: Vec<ThreadState>,
    /// Name of the thread; may contain `*`.
    #[serde(default)]
    pub thread: Option<String>,
    /// Functions that are on the stack in this order, innermost first, with others between.
    #[serde(default)]
    pub frames: Vec<Alternatives>,
    /// Functions that must not be on the stack.
    #[serde(default)]
    pub without: Vec<Alternatives>,
    /// What it means.
    #[serde(default)]
    pub meaning: String,
    /// What to do.
    #[serde(default)]
    pub advice: String,
}

/// `name`, `first | second`, `mod*.so!name*`.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "String")]
pub struct Alternatives(Vec<FramePattern>);

#[derive(Clone, Debug)]
struct FramePattern {
    module: Option<String>,
    function: String,
}

/// A table of patterns with an error.
#[derive(Debug, thiserror::Error)]
pub enum PatternsError {
    /// It cannot be parsed.
    #[error("{0}")]
    Form(#[from] toml::de::Error),
    /// It matches everything.
    #[error("the pattern {0:?} needs frames, states or a thread")]
    Empty(String),
}

impl From<String> for Alternatives {
    fn from(text: String) -> Self {
        let alternatives = text.split('|').map(|alternative| {
            let alternative = alternative.trim();
            match alternative.split_once('!') {
                Some((module, function)) => FramePattern {
                    module: Some(module.trim().to_owned()),
                    function: function.trim().to_owned(),
                },
                None => FramePattern { module: None, function: alternative.to_owned() },
            }
        });
        Self(alternatives.collect())
    }
}

impl Alternatives {
    fn is(&self, frame: &Frame) -> bool {
        self.0.iter().any(|pattern| {
            let module = pattern.module.as_deref();
            module.is_none_or(|module| is_like(&frame.module, module))
                && is_like(&frame.function, &pattern.function)
        })
    }
}

impl Patterns {
    /// The built-in table.
    ///
    /// # Errors
    /// None: a test parses the table.
    pub fn built_in() -> Result<Self, PatternsError> {
        Self::parse(BUILT_IN)
    }

    /// Reads a table.
    ///
    /// # Errors
    /// It cannot be parsed, or a pattern has no conditions.
    pub fn parse(text: &str) -> Result<Self, PatternsError> {
        let patterns: Self = toml::from_str(text)?;
        for pattern in patterns.pattern.iter().chain(&patterns.idle) {
            if pattern.frames.is_empty() && pattern.states.is_empty() && pattern.thread.is_none() {
                return Err(PatternsError::Empty(pattern.name.clone()));
            }
        }
        Ok(patterns)
    }

    /// Adds the patterns of another table before the existing ones: they are reported first.
    pub fn add(&mut self, other: Self) {
        self.pattern.splice(0..0, other.pattern);
        self.idle.splice(0..0, other.idle);
    }

    /// Whether this is a thread that waits for work.
    pub fn is_idle(&self, profile: &Profile, entry: &Entry) -> bool {
        self.idle
            .iter()
            .any(|pattern| pattern.has_state(entry.state) && pattern.is_place_of(profile, entry))
    }
}

impl Pattern {
    /// Whether it counts in this state.
    pub fn has_state(&self, state: ThreadState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }

    /// Whether a stack matches, in any state.
    pub fn is_place_of(&self, profile: &Profile, entry: &Entry) -> bool {
        if self.thread.as_ref().is_some_and(|thread| !is_like(&entry.thread, thread)) {
            return false;
        }
        let mut wanted = self.frames.iter().peekable();
        for frame in profile.stack(entry) {
            if self.without.iter().any(|without| without.is(frame)) {
                return false;
            }
            if wanted.peek().is_some_and(|alternatives| alternatives.is(frame)) {
                wanted.next();
            }
        }
        wanted.next().is_none()
    }
}

/// Whether `text` matches `pattern`, where `*` stands for any characters.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('*') else { return text == pattern };
    let Some(text) = text.strip_prefix(before) else { return false };
    let Some((middles, last)) = rest.rsplit_once('*') else { return text.ends_with(rest) };
    let mut text = text;
    for middle in middles.split('*') {
        let Some(at) = text.find(middle) else { return false };
        text = &text[at + middle.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        assert!(is_like("server_audit.so", "server_audit*.so"));
        assert!(is_like("server_audit2.so", "server_audit*.so"));
        assert!(!is_like("server.so", "server_audit*.so"));
        assert!(is_like("a::b::c", "a*b*c") && is_like("abc", "*") && is_like("abc", "a**c"));
        assert!(!is_like("aXc", "aXXc") && !is_like("ab", "a*b*b"));
    }

    #[test]
    fn a_table_with_a_mistake_is_refused() {
        assert!(Patterns::parse("[[pattern]]\nname = 'x'\nfarmes = ['a']").is_err());
        assert!(Patterns::parse("[[pattern]]\nname = 'x'\nstates = ['asleep']").is_err());
        let empty = Patterns::parse("[[pattern]]\nname = 'x'");
        assert!(matches!(empty, Err(PatternsError::Empty(name)) if name == "x"));
    }

    #[test]
    fn the_built_in_table_says_what_it_means_and_what_to_do() {
        let patterns = Patterns::built_in().expect("the table");
        assert!(!patterns.pattern.is_empty() && !patterns.idle.is_empty());
        for (index, pattern) in patterns.pattern.iter().enumerate() {
            // Further rows of a name only add variants.
            if patterns.pattern[..index].iter().any(|earlier| earlier.name == pattern.name) {
                assert_eq!(patterns.pattern[index - 1].name, pattern.name);
                continue;
            }
            assert!(!pattern.meaning.is_empty() && !pattern.advice.is_empty(), "{}", pattern.name);
        }
    }
}
