//! Numbers of sessions in the log: `conn` and `conn_seq` of their records.

use std::collections::HashMap;

/// Sessions that are remembered. If there are more, their numbers begin again with new ones.
const SESSIONS_MAX: usize = 100_000;

/// Place of a record: the number of its session in this run, and its number within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordNumber {
    pub(super) conn: u64,
    pub(super) conn_seq: u64,
}

/// Sessions and tokens that have a number in this run.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    last: u64,
    known: HashMap<String, RecordNumber>,
}

impl Sessions {
    /// The place of the next record of a session; an empty name has none.
    pub(super) fn next(&mut self, session: &str) -> Option<RecordNumber> {
        if session.is_empty() {
            return None;
        }
        if !self.known.contains_key(session) {
            if self.known.len() >= SESSIONS_MAX {
                self.known.clear();
            }
            self.last += 1;
            self.known.insert(session.to_owned(), RecordNumber { conn: self.last, conn_seq: 0 });
        }
        let place = self.known.get_mut(session)?;
        place.conn_seq += 1;
        Some(*place)
    }

    /// A session has ended: its number is not used again.
    pub(super) fn end(&mut self, session: &str) {
        self.known.remove(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_a_session_are_numbered() {
        let mut sessions = Sessions::default();
        let mut next = |name: &str| sessions.next(name).map(|place| (place.conn, place.conn_seq));
        assert_eq!(next(""), None);
        assert_eq!([next("a"), next("b"), next("a")], [Some((1, 1)), Some((2, 1)), Some((1, 2))]);
        sessions.end("a");
        assert_eq!(sessions.next("a"), Some(RecordNumber { conn: 3, conn_seq: 1 }));
    }
}
