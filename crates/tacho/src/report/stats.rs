//! What is counted of a group.

use clap::ValueEnum;
use tacho_record::Field;

use super::times::Times;
use crate::view::View;

/// The fields that [`Stats::add`] reads.
pub const FIELDS: [Field; 6] = [
    Field::event,
    Field::outcome,
    Field::rows_sent,
    Field::rows_affected,
    Field::rows_examined,
    Field::query_time_us,
];

/// Values of `--sort`: what groups are ordered by, largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Measure {
    /// Number of statements
    #[default]
    Count,
    /// Statements that failed
    Errors,
    /// Rows sent and rows affected
    Rows,
    /// Rows examined
    Examined,
    /// Sum of the times
    Time,
    /// Time that half of the statements do not exceed
    P50,
    /// Time that 95 % of the statements do not exceed
    P95,
    /// Time that 99 % of the statements do not exceed
    P99,
    /// Longest time
    Max,
}

/// The figures of a group. They are sums, so those of two parts of a log can be added.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Statements, or events.
    pub count: u64,
    /// Those with the outcome `error`, and logins that failed.
    pub errors: u64,
    /// Rows sent to clients.
    pub rows_sent: u64,
    /// Rows changed, inserted or deleted.
    pub rows_affected: u64,
    /// Rows read by the server.
    pub rows_examined: u64,
    /// Sum of the times, µs.
    pub time_us: u64,
    /// Longest time, µs.
    pub max_us: u64,
    /// All times.
    pub times: Times,
    /// First and last moment, µs since 1970-01-01 UTC.
    pub first_us: i64,
    /// The latter.
    pub last_us: i64,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            count: 0,
            errors: 0,
            rows_sent: 0,
            rows_affected: 0,
            rows_examined: 0,
            time_us: 0,
            max_us: 0,
            times: Times::default(),
            first_us: i64::MAX,
            last_us: i64::MIN,
        }
    }
}

/// The figures of one line.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    is_error: bool,
    rows_sent: u64,
    rows_affected: u64,
    rows_examined: u64,
    time_us: Option<u64>,
    ts_us: i64,
}

impl Figures {
    /// Those of a line.
    pub fn of(line: &impl View) -> Self {
        let number = |field| line.number(field).unwrap_or(0);
        Self {
            is_error: line.text(Field::outcome) == "error"
                || line.text(Field::event) == "connect_failed",
            rows_sent: number(Field::rows_sent),
            rows_affected: number(Field::rows_affected),
            rows_examined: number(Field::rows_examined),
            time_us: line.number(Field::query_time_us),
            ts_us: line.ts().as_microsecond(),
        }
    }
}

impl Stats {
    /// Counts a line.
    pub fn add(&mut self, line: &Figures) {
        self.count += 1;
        self.errors += u64::from(line.is_error);
        for (sum, rows) in [
            (&mut self.rows_sent, line.rows_sent),
            (&mut self.rows_affected, line.rows_affected),
            (&mut self.rows_examined, line.rows_examined),
        ] {
            *sum = sum.saturating_add(rows);
        }
        if let Some(us) = line.time_us {
            self.time_us = self.time_us.saturating_add(us);
            self.max_us = self.max_us.max(us);
            self.times.add(us);
        }
        self.saw(line.ts_us);
    }

    /// Extends the range of times.
    pub fn saw(&mut self, ts_us: i64) {
        self.first_us = self.first_us.min(ts_us);
        self.last_us = self.last_us.max(ts_us);
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.count, other.count),
            (&mut self.errors, other.errors),
            (&mut self.rows_sent, other.rows_sent),
            (&mut self.rows_affected, other.rows_affected),
            (&mut self.rows_examined, other.rows_examined),
            (&mut self.time_us, other.time_us),
        ] {
            *mine = mine.saturating_add(theirs);
        }
        self.max_us = self.max_us.max(other.max_us);
        self.times.merge(&other.times);
        self.first_us = self.first_us.min(other.first_us);
        self.last_us = self.last_us.max(other.last_us);
    }

    /// Rows that the client got or changed.
    pub fn rows(&self) -> u64 {
        self.rows_sent.saturating_add(self.rows_affected)
    }

    /// A percentile, µs. Buckets are 1.6 % wide, but nothing is longer than the longest time.
    pub fn quantile_us(&self, q: f64) -> Option<u64> {
        self.times.quantile(q).map(|us| us.min(self.max_us))
    }

    /// The value of a measure.
    pub fn measure(&self, measure: Measure) -> u64 {
        match measure {
            Measure::Count => self.count,
            Measure::Errors => self.errors,
            Measure::Rows => self.rows(),
            Measure::Examined => self.rows_examined,
            Measure::Time => self.time_us,
            Measure::P50 => self.quantile_us(0.5).unwrap_or(0),
            Measure::P95 => self.quantile_us(0.95).unwrap_or(0),
            Measure::P99 => self.quantile_us(0.99).unwrap_or(0),
            Measure::Max => self.max_us,
        }
    }
}
