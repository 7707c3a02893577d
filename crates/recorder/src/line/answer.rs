//! What the answer to a statement says, in the lines of a capture.

use tacho_record::Record;
use tacho_ring::codec::View;

use crate::join::NoText;

/// The words of servers about a statement, each with a number behind it.
const COUNTS: [&str; 8] = [
    "Records",
    "Duplicates",
    "Warnings",
    "Rows matched",
    "Changed",
    "Inserted",
    "Deleted",
    "Skipped",
];
/// The only text of a server without numbers.
const PREPARED: &[u8] = b"Statement prepared";

/// A record of the kind `Answer`.
#[derive(Clone, Copy)]
pub(super) struct AnswerRecord<'v> {
    last_insert_id: u64,
    warnings: u64,
    info: &'v [u8],
}

impl<'v> AnswerRecord<'v> {
    pub(super) fn read(view: &View<'v>, text: Result<&'v [u8], NoText>) -> AnswerRecord<'v> {
        let [last_insert_id, warnings, ..] = view.figures;
        AnswerRecord { last_insert_id, warnings, info: text.unwrap_or_default() }
    }

    /// Puts it into the line of the statement. `no_literals`: all of them are removed from its
    /// text; `is_redacted`: at least secrets are.
    pub(super) fn put(&self, no_literals: bool, is_redacted: bool, record: &mut Record<'v>) {
        let number = |number: u64| (number != 0).then_some(number);
        record.warnings = number(self.warnings);
        // `INSERT INTO t (id) VALUES (7)` gives 7.
        record.last_insert_id = number(self.last_insert_id).filter(|_| !no_literals);
        // No server quotes the statement there, but what is between may.
        if !(no_literals || is_redacted) || is_of_server(self.info) {
            record.info = self.info;
        }
    }
}

/// Whether these are words of a server, in English, and nothing else.
fn is_of_server(info: &[u8]) -> bool {
    info == PREPARED || std::str::from_utf8(info).is_ok_and(has_only_counts)
}

fn has_only_counts(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let Some((label, value)) = rest.split_once(": ") else { return false };
        let next = value.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let is_separated = next.is_empty() || next.starts_with(' ');
        if !COUNTS.contains(&label) || next.len() == value.len() || !is_separated {
            return false;
        }
        rest = next.trim_start_matches(' ');
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPDATED: &str = "Rows matched: 3  Changed: 2  Warnings: 1";

    fn put(info: &str, no_literals: bool, is_redacted: bool) -> (u64, u64, String) {
        let answer = AnswerRecord { last_insert_id: 7, warnings: 1, info: info.as_bytes() };
        let mut record = Record::default();
        answer.put(no_literals, is_redacted, &mut record);
        let info = String::from_utf8(record.info.to_vec()).expect("UTF-8");
        (record.last_insert_id.unwrap_or(0), record.warnings.unwrap_or(0), info)
    }

    #[test]
    fn a_literal_is_not_shown_as_an_id() {
        assert_eq!(put(UPDATED, false, false), (7, 1, UPDATED.to_owned()));
        assert_eq!(put(UPDATED, false, true), (7, 1, UPDATED.to_owned()));
        assert_eq!(put(UPDATED, true, false), (0, 1, UPDATED.to_owned()));
    }

    #[test]
    fn other_texts_are_shown_if_nothing_was_removed_from_the_statement() {
        let other = "password hunter2";
        assert_eq!(put(other, false, false).2, other);
        assert_eq!(put(other, false, true).2, "");
        assert_eq!(put(other, true, true).2, "");
    }

    #[test]
    fn words_of_servers_are_recognised() {
        for of_server in [
            "",
            "Statement prepared",
            UPDATED,
            "Records: 18446744073709551615  Duplicates: 0  Warnings: 0",
            "Records: 3  Deleted: 0  Skipped: 1  Warnings: 0",
            "Rows matched: 1  Changed: 1  Inserted: 1  Warnings: 0",
        ] {
            assert!(is_of_server(of_server.as_bytes()), "{of_server}");
        }
        for other in [
            "hunter2",
            "Records",
            "Records: ",
            "Records: x",
            "Records: 1x",
            "Records: 1 hunter2",
            "Rows: 1",
            "records: 1",
            "Statement prepared: 1",
            "Datens\u{e4}tze: 1",
        ] {
            assert!(!is_of_server(other.as_bytes()), "{other}");
        }
        assert!(!is_of_server(b"Records: 1 \xff"));
    }

    #[test]
    fn zeros_are_left_out() {
        let mut record = Record::default();
        AnswerRecord { last_insert_id: 0, warnings: 0, info: b"" }.put(false, false, &mut record);
        assert_eq!((record.last_insert_id, record.warnings), (None, None));
    }
}
