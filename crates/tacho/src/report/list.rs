//! Reports with a row for each line: the newest ones.

use tacho_record::Field;

use crate::view::View;

/// The fields of a row.
pub const FIELDS: [Field; 8] = [
    Field::user,
    Field::host,
    Field::ip,
    Field::db,
    Field::sql_command,
    Field::outcome,
    Field::errno,
    Field::sql,
];

/// Longest statement of a row, bytes. `tacho tail` has all of it.
const SQL_BYTES_MAX: usize = 4096;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// Its time, µs since 1970-01-01 UTC.
    pub ts_us: i64,
    /// Its number.
    pub seq: u64,
    /// User name.
    pub user: String,
    /// Host name or address.
    pub host: String,
    /// Default database.
    pub db: String,
    /// Class of the statement.
    pub sql_command: String,
    /// Outcome.
    pub outcome: String,
    /// Error number.
    pub errno: u64,
    /// Statement.
    pub sql: String,
}

impl Row {
    fn of(line: &impl View) -> Self {
        let text = |field| line.text(field).into_owned();
        let mut sql = text(Field::sql);
        if sql.len() > SQL_BYTES_MAX {
            let end = (0..=SQL_BYTES_MAX).rev().find(|at| sql.is_char_boundary(*at)).unwrap_or(0);
            sql.truncate(end);
            sql.push('…');
        }
        Self {
            ts_us: line.ts().as_microsecond(),
            seq: line.number(Field::seq).unwrap_or(0),
            user: text(Field::user),
            host: line.client_host().into_owned(),
            db: text(Field::db),
            sql_command: text(Field::sql_command),
            outcome: text(Field::outcome),
            errno: line.number(Field::errno).unwrap_or(0),
            sql,
        }
    }
}

/// The newest rows.
#[derive(Clone, Debug)]
pub struct Newest {
    rows: Vec<Row>,
    limit: usize,
    /// Older rows that are not kept.
    pub dropped: u64,
}

impl Newest {
    /// At most so many.
    pub fn new(limit: usize) -> Self {
        Self { rows: Vec::new(), limit: limit.max(1), dropped: 0 }
    }

    /// Adds a line.
    pub fn add(&mut self, line: &impl View) {
        self.rows.push(Row::of(line));
        if self.rows.len() >= self.limit.saturating_mul(2) {
            self.shrink();
        }
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.dropped += other.dropped;
        self.shrink();
    }

    fn shrink(&mut self) {
        self.rows.sort_unstable();
        let surplus = self.rows.len().saturating_sub(self.limit);
        self.rows.drain(..surplus);
        self.dropped += surplus as u64;
    }

    /// The rows, oldest first, and how many older ones there are.
    pub fn sorted(mut self) -> (Vec<Row>, u64) {
        self.shrink();
        (self.rows, self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_record::Line;

    #[test]
    fn the_newest_rows_are_kept_in_order() {
        let newest = |seconds: &[u64]| {
            let mut newest = Newest::new(3);
            for second in seconds {
                let text = format!(
                    r#"{{"v":1,"seq":{second},"ts":"2026-11-21T10:00:{second:02}Z","event":"statement","ip":"::1"}}"#
                );
                newest.add(&Line::parse(text.as_bytes()).unwrap());
            }
            newest
        };
        let mut all = newest(&[1, 2, 9, 3, 4, 5, 6, 7, 8]);
        all.merge(newest(&[10, 0]));
        let (rows, dropped) = all.sorted();
        assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [8, 9, 10]);
        assert_eq!((dropped, &*rows[0].host), (8, "::1"));
    }
}
