//! Which tables a statement has used, and whether these are all of them.
//!
//! A server does not report all tables of every statement. MariaDB reports a table when it locks
//! it, so it reports none of those that `LOCK TABLES` has locked before, only those that it reads
//! itself for the statement: `mysql.proc` or statistics. If it is not certain that all of a
//! statement's tables are known, no rule leaves the statement out.

/// The tables of a statement that the server has reported.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'f> {
    /// Database and name of each.
    pub reported: &'f [(&'f [u8], &'f [u8])],
    /// Whether there may be others.
    pub coverage: Coverage,
}

/// Whether the reported tables of a statement are all that it has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// They are.
    Complete,
    /// Probably. A rule that removes text or literals treats them as all; others do not.
    Doubtful,
    /// Nothing is known about the others.
    Unknown,
}

/// How the server has reported the tables of a statement.
#[derive(Clone, Copy, Debug)]
pub struct Report<'f> {
    /// Database and name of each reported table.
    pub reported: &'f [(&'f [u8], &'f [u8])],
    /// The server's name of the statement's SQL command; empty: unknown, or none.
    pub sql_command: &'f [u8],
    /// Error number, 0 = none.
    pub errno: u32,
    /// The text of the statement; empty: unknown.
    pub text: &'f [u8],
    /// The default database.
    pub db: &'f [u8],
    /// The session had locked its tables before, or a part of the report is missing.
    pub is_partial: bool,
    /// For this kind of statement the server may not report all tables.
    pub may_hide: bool,
}

impl<'f> Report<'f> {
    /// The tables, and whether there may be others.
    pub fn tables(&self) -> Tables<'f> {
        Tables { reported: self.reported, coverage: self.coverage() }
    }

    fn coverage(&self) -> Coverage {
        if self.reported.is_empty() || self.is_partial {
            Coverage::Unknown
        } else if !is_fully_reported(self.sql_command) {
            Coverage::Doubtful
        } else if self.reported.iter().all(|(db, _)| is_of_the_server(db)) {
            Coverage::Unknown
        } else if self.may_hide
            || self.errno != 0
            // It may have failed between two of its tables.
            || self.text.is_empty()
            || UNREPORTED.iter().any(|db| self.db.eq_ignore_ascii_case(db) || names(self.text, db))
        {
            Coverage::Doubtful
        } else {
            Coverage::Complete
        }
    }
}

/// The commands for which each server reports all tables, if it reports any that is not its own.
fn is_fully_reported(sql_command: &[u8]) -> bool {
    matches!(
        sql_command,
        b"select"
            | b"insert"
            | b"insert_select"
            | b"replace"
            | b"replace_select"
            | b"update"
            | b"update_multi"
            | b"delete"
            | b"delete_multi"
            | b"load"
            | b"truncate"
            | b"ha_read"
    )
}

/// A database with tables that the server reads for itself: routines, statistics, time zones.
fn is_of_the_server(db: &[u8]) -> bool {
    db == b"mysql" || UNREPORTED.iter().any(|unreported| db.eq_ignore_ascii_case(unreported))
}

/// Databases with tables that a server does not report, or not always.
const UNREPORTED: [&[u8]; 2] = [b"information_schema", b"performance_schema"];

/// Whether a text has a name in it, whatever the letter case.
fn names(text: &[u8], name: &[u8]) -> bool {
    text.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRATCH: (&[u8], &[u8]) = (b"scratch", b"t");
    const PROC: (&[u8], &[u8]) = (b"mysql", b"proc");

    fn report<'f>(reported: &'f [(&'f [u8], &'f [u8])]) -> Report<'f> {
        let text = b"SELECT * FROM t";
        Report {
            reported,
            sql_command: b"select",
            errno: 0,
            text,
            db: b"d",
            is_partial: false,
            may_hide: false,
        }
    }

    #[test]
    fn only_certain_reports_are_complete() {
        let both = [SCRATCH, PROC];
        let one = report(&both);
        let of = |report: Report<'_>| report.coverage();
        assert_eq!(of(one), Coverage::Complete);
        assert_eq!(of(report(&[])), Coverage::Unknown);
        assert_eq!(of(report(&[PROC])), Coverage::Unknown);
        assert_eq!(of(Report { is_partial: true, ..one }), Coverage::Unknown);
        assert_eq!(of(Report { errno: 1146, ..one }), Coverage::Doubtful);
        assert_eq!(of(Report { may_hide: true, ..one }), Coverage::Doubtful);
        assert_eq!(of(Report { text: b"", ..one }), Coverage::Doubtful);
        assert_eq!(of(Report { db: b"Information_Schema", ..one }), Coverage::Doubtful);
        let text = b"SELECT * FROM t, INFORMATION_SCHEMA.PROCESSLIST";
        assert_eq!(of(Report { text, ..one }), Coverage::Doubtful);
        for sql_command in
            ["", "create_table", "alter_table", "grant", "call_procedure", "set_option"]
        {
            let sql_command = sql_command.as_bytes();
            assert_eq!(of(Report { sql_command, ..one }), Coverage::Doubtful);
            let reported = &[PROC];
            assert_eq!(of(Report { sql_command, reported, ..one }), Coverage::Doubtful);
        }
    }
}
