//! The fields by which lines are grouped.

use clap::ValueEnum;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tacho_record::Field;

use crate::view::{NotTables, View};

/// Between two values of a key: no byte of UTF-8.
const SEPARATOR: u8 = 0xFF;

/// Values of `--by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// User name that the client gave
    User,
    /// Client host name, or its address if the server resolved none
    Host,
    /// Default database
    Db,
    /// Table, as `db.table`; a statement counts for each table that it uses
    Table,
    /// Class of the statement, by the server's name, or the client command if it has none
    #[value(name = "sql_command", alias = "sql-command")]
    SqlCommand,
    /// Digest of the statement
    Digest,
    /// Server error number; 0 is success
    Errno,
    /// Hour in which it began
    Hour,
    /// Run of the server and connection: `tacho report sessions`.
    #[value(skip)]
    Session,
}

impl By {
    /// Its name in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Host => "host",
            Self::Db => "db",
            Self::Table => "table",
            Self::SqlCommand => "sql_command",
            Self::Digest => "digest",
            Self::Errno => "errno",
            Self::Hour => "hour",
            Self::Session => "session",
        }
    }

    /// The fields that [`Keys::each`] reads.
    pub fn fields(self) -> &'static [Field] {
        match self {
            Self::User => &[Field::user],
            Self::Host => &[Field::host, Field::ip],
            Self::Db => &[Field::db],
            Self::Table => &[Field::tables],
            Self::SqlCommand => &[Field::sql_command, Field::command],
            Self::Digest => &[Field::digest],
            Self::Errno => &[Field::errno],
            Self::Hour => &[],
            Self::Session => &[Field::run, Field::conn],
        }
    }
}

/// Makes the keys of lines.
#[derive(Clone, Debug)]
pub struct Keys {
    by: Vec<By>,
    hours: Hours,
    key: Vec<u8>,
    tables: Vec<String>,
}

impl Keys {
    /// In a time zone.
    pub fn new(by: &[By], zone: TimeZone) -> Self {
        Self { by: by.to_vec(), hours: Hours::new(zone), key: Vec::new(), tables: Vec::new() }
    }

    /// Calls `take` with each key of a line: one, unless it uses several tables.
    ///
    /// # Errors
    /// The line is broken; `take` was not called.
    pub fn each(&mut self, line: &impl View, mut take: impl FnMut(&[u8])) -> Result<(), NotTables> {
        if !self.by.contains(&By::Table) {
            self.make(line, "");
            take(&self.key);
            return Ok(());
        }
        let mut tables = std::mem::take(&mut self.tables);
        tables.clear();
        line.tables(&mut |used| {
            tables.extend(used.iter().map(|table| format!("{}.{}", table.db, table.table)));
        })?;
        tables.sort_unstable();
        tables.dedup();
        if tables.is_empty() {
            tables.push(String::new());
        }
        for table in &tables {
            self.make(line, table);
            take(&self.key);
        }
        self.tables = tables;
        Ok(())
    }

    fn make(&mut self, line: &impl View, table: &str) {
        let key = &mut self.key;
        key.clear();
        for (index, by) in self.by.iter().enumerate() {
            if index > 0 {
                key.push(SEPARATOR);
            }
            let mut add = |text: &str| key.extend_from_slice(text.as_bytes());
            match by {
                By::User => add(&line.text(Field::user)),
                By::Host => add(&line.client_host()),
                By::Db => add(&line.text(Field::db)),
                By::Table => add(table),
                By::SqlCommand => add(&line.command_name()),
                By::Digest => add(&line.text(Field::digest)),
                By::Errno => number(key, line.number(Field::errno).unwrap_or(0)),
                By::Hour => key.extend_from_slice(self.hours.name(line.ts()).as_bytes()),
                By::Session => {
                    number(key, line.number(Field::run).unwrap_or(0));
                    key.push(b'/');
                    number(key, line.number(Field::conn).unwrap_or(0));
                }
            }
        }
    }

    /// The values of a key.
    pub fn values(key: &[u8]) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
        key.split(|byte| *byte == SEPARATOR).map(String::from_utf8_lossy)
    }
}

fn number(key: &mut Vec<u8>, number: u64) {
    if number < 10 {
        return key.push(b'0' + number as u8);
    }
    key.extend_from_slice(number.to_string().as_bytes());
}

/// Names of hours.
#[derive(Clone, Debug)]
struct Hours {
    zone: TimeZone,
    /// The quarter of an hour since 1970 whose name is known. All offsets of today are a multiple
    /// of it.
    quarter: i64,
    name: String,
}

impl Hours {
    fn new(zone: TimeZone) -> Self {
        Self { zone, quarter: i64::MIN, name: String::new() }
    }

    /// Such as `2026-11-27T07:00+01:00`.
    fn name(&mut self, ts: Timestamp) -> &str {
        const QUARTER_SECONDS: i64 = 900;
        let quarter = ts.as_second().div_euclid(QUARTER_SECONDS);
        if quarter != self.quarter {
            self.quarter = quarter;
            let time = ts.to_zoned(self.zone.clone());
            self.name = time.strftime("%Y-%m-%dT%H:00%:z").to_string();
        }
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_record::Line;

    fn keys(by: &[By], fields: &str) -> Vec<Vec<String>> {
        let text = format!(
            r#"{{"v":1,"seq":1,"ts":"2026-11-21T10:59:59Z","event":"statement",{fields}}}"#
        );
        let line = Line::parse(text.as_bytes()).unwrap();
        let mut all = Vec::new();
        Keys::new(by, TimeZone::fixed(jiff::tz::offset(1)))
            .each(&line, |key| {
                all.push(Keys::values(key).map(|value| value.into_owned()).collect());
            })
            .unwrap();
        all
    }

    #[test]
    fn keys_have_the_values_in_the_requested_order() {
        let fields = r#""run":3,"conn":12,"user":"app","ip":"10.0.0.1","db":"shop","command":"Ping","errno":1062"#;
        assert_eq!(keys(&[By::User, By::Host], fields), [["app", "10.0.0.1"]]);
        assert_eq!(
            keys(&[By::Hour, By::Errno, By::SqlCommand, By::Digest], fields),
            [["2026-11-21T11:00+01:00", "1062", "Ping", ""]]
        );
        assert_eq!(keys(&[By::Session, By::Db], fields), [["3/12", "shop"]]);
    }

    #[test]
    fn a_statement_counts_once_for_each_table() {
        let fields = r#""user":"a","tables":[{"access":"write","db":"d","table":"u"},
            {"access":"read","db":"d","table":"t"},{"access":"read","db":"d","table":"u"}]"#;
        assert_eq!(keys(&[By::Table, By::User], fields), [["d.t", "a"], ["d.u", "a"]]);
        assert_eq!(keys(&[By::Table], r#""user":"a""#), [[""]]);
    }
}
