//! Which requests were recorded lately. A page asks the same questions every few seconds: one
//! record for each quarter of an hour says as much as hundreds.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

/// How long a request is not recorded again.
pub const WINDOW: Duration = Duration::from_secs(15 * 60);
/// Requests that are remembered. If there are more within a window, some are recorded again.
const REQUESTS_MAX: usize = 100_000;

/// Identifies a request of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// Made of what identifies it.
    #[must_use]
    pub fn of(parts: &[&str]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Self(hasher.finalize().into())
    }
}

/// Requests and when they were recorded.
#[derive(Debug, Default)]
pub struct Repeats {
    recorded: Mutex<HashMap<Key, Instant>>,
}

impl Repeats {
    /// Whether the request was recorded within the last [`WINDOW`].
    #[must_use]
    pub fn has(&self, key: &Key, now: Instant) -> bool {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.get(key).is_some_and(|then| now.duration_since(*then) < WINDOW)
    }

    /// The request was recorded.
    pub fn note(&self, key: Key, now: Instant) {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.len() >= REQUESTS_MAX {
            recorded.retain(|_, then| now.duration_since(*then) < WINDOW);
        }
        if recorded.len() >= REQUESTS_MAX {
            recorded.clear();
        }
        recorded.insert(key, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_repetition_for_a_quarter_of_an_hour() {
        let repeats = Repeats::default();
        let (key, now) = (Key::of(&["a", "b"]), Instant::now());
        assert!(!repeats.has(&key, now));
        repeats.note(key, now);
        assert!(repeats.has(&key, now + WINDOW - Duration::from_secs(1)));
        assert!(!repeats.has(&key, now + WINDOW));
        assert!(!repeats.has(&Key::of(&["ab", ""]), now));
    }
}
