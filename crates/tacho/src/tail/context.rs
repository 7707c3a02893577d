//! Lines before and after a match, of the same connection: `--context`, while the log is read
//! forward.
//!
//! The last lines of each connection are kept until one matches. They are then shown before it, so
//! lines of other connections may be out of order between them.

use std::collections::{HashMap, HashSet, VecDeque};

use tacho_record::Field;

use crate::view::View;

/// Most memory for lines that no match has needed yet, bytes. Beyond it, those of connections that
/// were idle the longest are dropped.
const KEPT_BYTES_MAX: usize = 128 << 20;

/// What a kept line takes in addition to its text, about.
const LINE_BYTES: usize = 64;

/// The fields that [`session_of`] needs.
pub const FIELDS: [Field; 3] = [Field::run, Field::conn, Field::event];

/// A connection: its run, if known, and its id.
pub type Session = (u64, u64);

/// The connection of a line, if it has one.
pub fn session_of(line: &(impl View + ?Sized)) -> Option<Session> {
    Some((line.number(Field::run).unwrap_or(0), line.number(Field::conn)?))
}

/// The lines of connections that may still be needed.
#[derive(Debug)]
pub struct Context {
    count: usize,
    sessions: HashMap<Session, Recent>,
    bytes: usize,
    bytes_max: usize,
    /// The number of calls, as a clock.
    now: u64,
    /// No match before one of these is shown; empty: each is.
    begins_with: HashSet<Vec<u8>>,
    /// Whether lines were dropped.
    pub is_incomplete: bool,
}

#[derive(Debug, Default)]
struct Recent {
    lines: VecDeque<Vec<u8>>,
    /// How many further lines are shown.
    after: usize,
    used: u64,
}

impl Recent {
    fn bytes(&self) -> usize {
        self.lines.iter().map(|line| line.len() + LINE_BYTES).sum()
    }
}

impl Context {
    /// This many lines on each side.
    pub fn new(count: usize) -> Self {
        Self::with_memory(count, KEPT_BYTES_MAX)
    }

    fn with_memory(count: usize, bytes_max: usize) -> Self {
        Self {
            count,
            sessions: HashMap::new(),
            bytes: 0,
            bytes_max,
            now: 0,
            begins_with: HashSet::new(),
            is_incomplete: false,
        }
    }

    /// Begins with the first of these matches. Older ones are lines like others.
    #[must_use]
    pub fn beginning_with(self, matches: HashSet<Vec<u8>>) -> Self {
        Self { begins_with: matches, ..self }
    }

    /// Whether this match is shown.
    pub fn shows(&mut self, bytes: &[u8]) -> bool {
        if self.begins_with.contains(bytes) {
            self.begin();
        }
        self.begins_with.is_empty()
    }

    /// Shows each match from now on.
    pub fn begin(&mut self) {
        self.begins_with = HashSet::new();
    }

    /// A line matches. Returns the lines to be shown before it.
    pub fn matched(&mut self, session: Session) -> Vec<Vec<u8>> {
        self.now += 1;
        let recent = self.sessions.entry(session).or_default();
        self.bytes -= recent.bytes();
        recent.used = self.now;
        recent.after = self.count;
        std::mem::take(&mut recent.lines).into()
    }

    /// Another line. Returns whether it is shown, after a match; otherwise it is kept.
    pub fn other(&mut self, session: Session, bytes: &[u8]) -> bool {
        self.now += 1;
        let recent = self.sessions.entry(session).or_default();
        recent.used = self.now;
        if recent.after > 0 {
            recent.after -= 1;
            return true;
        }
        if recent.lines.len() == self.count
            && let Some(oldest) = recent.lines.pop_front()
        {
            self.bytes -= oldest.len() + LINE_BYTES;
        }
        if self.count > 0 {
            self.bytes += bytes.len() + LINE_BYTES;
            recent.lines.push_back(bytes.to_vec());
        }
        if self.bytes > self.bytes_max {
            self.shrink();
        }
        false
    }

    /// A connection has ended.
    pub fn end(&mut self, session: Session) {
        if let Some(recent) = self.sessions.remove(&session) {
            self.bytes -= recent.bytes();
        }
    }

    /// Drops the kept lines of the connections that were idle the longest, until half is left.
    fn shrink(&mut self) {
        self.is_incomplete = true;
        let mut oldest_first: Vec<(u64, Session)> =
            self.sessions.iter().map(|(session, recent)| (recent.used, *session)).collect();
        oldest_first.sort_unstable();
        for (_, session) in oldest_first {
            if self.bytes <= self.bytes_max / 2 {
                break;
            }
            let Some(recent) = self.sessions.get_mut(&session) else { continue };
            self.bytes -= recent.bytes();
            recent.lines.clear();
            if recent.after == 0 {
                self.sessions.remove(&session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Session = (1, 7);
    const B: Session = (1, 8);

    fn texts(lines: Vec<Vec<u8>>) -> Vec<String> {
        lines.into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
    }

    #[test]
    fn lines_of_the_same_connection_are_shown() {
        let mut context = Context::new(2);
        for text in ["a1", "a2", "a3"] {
            assert!(!context.other(A, text.as_bytes()));
            assert!(!context.other(B, b"b"));
        }
        assert_eq!(texts(context.matched(A)), ["a2", "a3"]);
        assert!(!context.other(B, b"b"));
        assert!(context.other(A, b"a4"));
        // A match among the lines after another one begins again, and shows no line twice.
        assert_eq!(texts(context.matched(A)), [""; 0]);
        assert!(context.other(A, b"a5") && context.other(A, b"a6") && !context.other(A, b"a7"));
        assert_eq!(texts(context.matched(A)), ["a7"]);
        context.end(A);
        assert_eq!(texts(context.matched(A)), [""; 0]);
        assert!(!context.is_incomplete);
    }

    #[test]
    fn it_begins_with_the_first_of_the_matches() {
        let matches = || HashSet::from([b"a3".to_vec(), b"a4".to_vec()]);
        let mut context = Context::new(2).beginning_with(matches());
        assert!(!context.shows(b"a1"));
        assert!(context.shows(b"a4") && context.shows(b"a1"));
        let mut context = Context::new(2).beginning_with(matches());
        context.begin();
        assert!(context.shows(b"a1"));
    }

    #[test]
    fn memory_is_bounded() {
        let mut context = Context::with_memory(100, 10_000);
        assert!(!context.other(A, b"old"));
        for _ in 0..100 {
            assert!(!context.other(B, &[b'x'; 200]));
            assert!(context.bytes <= 10_000);
        }
        assert!(context.is_incomplete);
        assert_eq!(context.matched(A).len(), 0);
        assert_eq!(context.sessions.values().map(Recent::bytes).sum::<usize>(), context.bytes);
    }
}
