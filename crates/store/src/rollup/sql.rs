//! The views of statistics, in SQL for DuckDB: rollups and records in the same columns.

use std::path::PathBuf;

use super::{CONNECTION_DIMENSIONS, CONNS, DIMENSIONS, Part, PartKind, SUMS, TIMES};

/// A view over the parts of a plan. The `ts` of a row from a rollup is the begin of its minute or
/// hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// `ts`, [`DIMENSIONS`], `n` (number of records), [`SUMS`].
    Statistics,
    /// `ts`, [`DIMENSIONS`], and the arguments of `time_histogram`: `times`, `time_us`.
    Times,
    /// `ts`, [`CONNECTION_DIMENSIONS`], `conn`; each connection once or more often.
    Connections,
}

impl View {
    /// The name in a query.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Statistics => "statistics",
            Self::Times => "times",
            Self::Connections => "connections",
        }
    }

    /// The columns that a condition may have for rollups to be read.
    pub const fn dimensions(self) -> &'static [&'static str] {
        match self {
            Self::Statistics | Self::Times => DIMENSIONS,
            Self::Connections => CONNECTION_DIMENSIONS,
        }
    }

    /// The view as a `SELECT`. All its rows meet `filter`, a condition on its
    /// [dimensions](Self::dimensions), or on any column of a record if no part has rollups.
    /// `columns` is what is visible of a record, as behind `SELECT`; by default everything.
    pub fn select(self, parts: &[Part], columns: Option<&str>, filter: &str) -> String {
        let selects: Vec<String> =
            parts.iter().map(|part| self.part(part, columns, filter)).collect();
        selects.join(" UNION ALL ")
    }

    /// The view from records of a time range alone: those of the view `records`, in which a query
    /// may leave out what its condition does not find.
    pub fn select_records(self, range: (i64, i64), filter: &str) -> String {
        self.select_from("records", PartKind::Records, range, filter)
    }

    fn part(self, part: &Part, columns: Option<&str>, filter: &str) -> String {
        let path = |file: &PathBuf| format!("'{}'", file.to_string_lossy().replace('\'', "''"));
        let files: Vec<String> = part.files.iter().map(path).collect();
        let files = format!("read_parquet([{}])", files.join(","));
        let from = match part.kind {
            PartKind::Minutes | PartKind::Hours => files,
            PartKind::Records => format!("(SELECT {} FROM {files})", columns.unwrap_or("*")),
        };
        self.select_from(&from, part.kind, (part.from_us, part.to_us), filter)
    }

    fn select_from(
        self,
        from: &str,
        kind: PartKind,
        (from_us, to_us): (i64, i64),
        filter: &str,
    ) -> String {
        let (values, condition) = self.values(kind);
        format!(
            "SELECT ts, {}, {values} FROM {from} WHERE ts >= make_timestamptz({from_us}) \
             AND ts < make_timestamptz({to_us}) AND {condition} AND ({filter})",
            names(self.dimensions())
        )
    }

    /// The columns behind the dimensions, and which rows have them.
    fn values(self, kind: PartKind) -> (String, &'static str) {
        let is_rollup = kind != PartKind::Records;
        match (self, is_rollup) {
            (Self::Statistics, true) => (format!("n, {}", names(SUMS)), "true"),
            (Self::Statistics, false) => {
                let zeros = SUMS.iter().map(|name| format!(", coalesce({name}, 0) AS {name}"));
                (format!("1::UBIGINT AS n{}", zeros.collect::<String>()), "true")
            }
            (Self::Times, true) => {
                (format!("{TIMES}, NULL::UBIGINT AS time_us"), "times IS NOT NULL")
            }
            (Self::Times, false) => (
                format!("NULL::BLOB AS {TIMES}, query_time_us AS time_us"),
                "query_time_us IS NOT NULL",
            ),
            (Self::Connections, true) => (format!("unnest({CONNS}) AS conn"), "conns IS NOT NULL"),
            (Self::Connections, false) => ("conn".to_owned(), "conn IS NOT NULL"),
        }
    }
}

fn names(columns: &[&str]) -> String {
    let quoted: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
    quoted.join(", ")
}
