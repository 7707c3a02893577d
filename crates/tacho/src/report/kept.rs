//! Texts that are kept of one line of each group: an example of its statements, its last error, who
//! began a session.

use tacho_record::Field;

use crate::view::View;

/// Longest text that is kept, bytes: enough to recognise a statement in a million of them.
const TEXT_BYTES_MAX: usize = 400;

/// Which line's texts a group keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Of the first line that has the first of them.
    First,
    /// Of the last.
    Last,
}

/// The texts of a group.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Smaller is preferred.
    rank: u64,
    texts: Box<[Box<str>]>,
}

impl Kept {
    /// Keeps the texts of a line if it is the preferred one. Lines without the first text are
    /// ignored.
    pub fn offer(&mut self, which: Which, fields: &[Field], line: &impl View) {
        let seq = line.number(Field::seq).unwrap_or(0);
        let rank = match which {
            Which::First => seq,
            Which::Last => u64::MAX - seq,
        };
        if !self.texts.is_empty() && rank >= self.rank {
            return;
        }
        let Some(first) = fields.first() else { return };
        if line.text(*first).is_empty() {
            return;
        }
        self.rank = rank;
        self.texts = fields.iter().map(|field| cut(&line.text(*field)).into()).collect();
    }

    /// Keeps the preferred texts of both.
    pub fn merge(&mut self, other: Self) {
        if self.texts.is_empty() || (!other.texts.is_empty() && other.rank < self.rank) {
            *self = other;
        }
    }

    /// One of the texts; empty if there is none.
    pub fn text(&self, index: usize) -> &str {
        self.texts.get(index).map_or("", |text| text)
    }
}

/// The beginning of a text, as it is kept.
pub fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_record::Line;

    fn kept(which: Which, lines: &[(u64, &str)]) -> Kept {
        let mut kept = Kept::default();
        for (seq, sql) in lines {
            let text = format!(
                r#"{{"v":1,"seq":{seq},"ts":"2026-11-21T10:00:00Z","event":"statement","user":"u{seq}","sql":"{sql}"}}"#
            );
            let line = Line::parse(text.as_bytes()).unwrap();
            kept.offer(which, &[Field::sql, Field::user], &line);
        }
        kept
    }

    #[test]
    fn the_order_of_reading_does_not_matter() {
        let (one, two) = ([(5, "five"), (9, "")], [(7, "seven"), (3, "three"), (1, "")]);
        for (which, sql, user) in [(Which::First, "three", "u3"), (Which::Last, "seven", "u7")] {
            let all = kept(which, &[&one[..], &two].concat());
            assert_eq!((all.text(0), all.text(1)), (sql, user));
            let mut left = kept(which, &one);
            left.merge(kept(which, &two));
            left.merge(kept(which, &[]));
            assert_eq!((left.text(0), left.text(1), left.text(2)), (sql, user, ""));
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = "ä".repeat(TEXT_BYTES_MAX);
        assert_eq!(
            kept(Which::First, &[(1, &format!("x{long}"))]).text(0).len(),
            TEXT_BYTES_MAX - 1
        );
    }
}
