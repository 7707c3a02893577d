//! The checks and the metrics of `tacho status`. Help, guide, thresholds and all formats follow
//! from these two tables.

use std::fmt;

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// 0 or 1.
    Flag,
    /// A number of things, which can fall.
    Count,
    /// A number of things, which grows until the server starts again.
    Counter,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Per cent.
    Percent,
}

/// Describes a metric.
#[derive(Clone, Copy, Debug)]
pub struct MetricSpec {
    /// Its name in every format.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// What it is.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($id:ident = $name:literal, $unit:ident, $help:literal;)*) => {
        /// A number that describes a log.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric {
            $(#[doc = $help] $id,)*
        }

        impl Metric {
            /// All of them.
            pub const ALL: &[Metric] = &[$(Metric::$id,)*];

            /// Its description.
            pub fn spec(self) -> MetricSpec {
                match self {
                    $(Metric::$id => MetricSpec { name: $name, unit: Unit::$unit, help: $help },)*
                }
            }
        }
    };
}

metrics! {
    Files = "files", Count, "Log files";
    SizeBytes = "size_bytes", Bytes, "Log files with their sidecars and renditions";
    OldestAge = "oldest_age_seconds", Seconds, "How far the log reaches back";
    RecorderUp = "recorder_up", Flag, "1: a recorder holds the lock of the log directory";
    WriterAge = "writer_age_seconds", Seconds, "Time since the writer last looked at the arena";
    WaitingRecords = "waiting_records", Count, "Records in arenas that are not in the log yet";
    Lag = "lag_seconds", Seconds, "Age of the oldest of these records; 0: none waits";
    ArenaUsed = "arena_used_percent", Percent, "Chunks of the arena that are in use";
    WaitingSessions = "waiting_sessions", Count, "Sessions that wait for space in the arena";
    LostRecords = "lost_records_total", Counter, "Records lost since the server started";
    LostLines = "lost_lines", Count, "`lost` lines in the end of the log that was searched";
    EncryptedConnections = "encrypted_connections", Count, "Connections in these lines that a capture could not read";
    LostAge = "lost_age_seconds", Seconds, "Time since the newest loss, at least";
    NewestSeq = "newest_seq", Count, "Number of the newest line";
    NewestAge = "newest_line_age_seconds", Seconds, "Age of the newest line";
    CheckpointAge = "checkpoint_age_seconds", Seconds, "Age of the newest signed checkpoint";
    UnsignedLines = "unsigned_lines", Count, "Lines that no checkpoint covers";
    UnsignedBytes = "unsigned_bytes", Bytes, "Bytes of these lines";
    UnsignedAge = "unsigned_age_seconds", Seconds, "How long the first of them is unsigned";
    DiskFree = "disk_free_bytes", Bytes, "Free on the file system of the log";
    DiskSize = "disk_size_bytes", Bytes, "Size of the file system of the log";
    DiskFreePercent = "disk_free_percent", Percent, "Share of the file system that is free";
    Growth = "growth_bytes_per_day", Bytes, "New log files in a day, by the last seven days";
    DiskFullIn = "disk_full_in_seconds", Seconds, "Time until the log fills the disk; absent: never";
    LimitIn = "size_limit_in_seconds", Seconds, "Time until the log reaches tacho_retention_bytes";
    Reach = "reach_seconds", Seconds, "How far the log will reach back at this growth";
}

/// Which values of a metric are bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// Those above the threshold.
    Above,
    /// Those below it.
    Below,
}

/// What a check compares with its thresholds.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Which metric.
    pub metric: Metric,
    /// Which values are bad.
    pub bad: Bad,
    /// Default of the threshold for a warning.
    pub warn: Option<f64>,
    /// Default of the critical threshold.
    pub crit: Option<f64>,
}

/// Describes a check.
#[derive(Clone, Copy, Debug)]
pub struct CheckSpec {
    /// Its name in every format.
    pub name: &'static str,
    /// What it finds out.
    pub help: &'static str,
    /// `None`: it has no thresholds.
    pub measure: Option<Measure>,
}

macro_rules! checks {
    ($($id:ident = $name:literal, $help:literal
        $(, $metric:ident $bad:ident $warn:expr, $crit:expr)?;)*) => {
        /// A question about a log.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Check {
            $(#[doc = $help] $id,)*
        }

        impl Check {
            /// All of them.
            pub const ALL: &[Check] = &[$(Check::$id,)*];

            /// Its description.
            pub fn spec(self) -> CheckSpec {
                match self {
                    $(Check::$id => CheckSpec {
                        name: $name,
                        help: $help,
                        measure: measure!($($metric $bad $warn, $crit)?),
                    },)*
                }
            }
        }
    };
}

macro_rules! measure {
    () => {
        None
    };
    ($metric:ident $bad:ident $warn:expr, $crit:expr) => {
        Some(Measure { metric: Metric::$metric, bad: Bad::$bad, warn: $warn, crit: $crit })
    };
}

const MINUTE_S: f64 = 60.0;
const HOUR_S: f64 = 3_600.0;
const DAY_S: f64 = 86_400.0;

checks! {
    Log = "log", "the directory can be read and has log files";
    Recorder = "recorder", "a recorder runs, and records";
    Writer = "writer", "time since the writer last looked at the arena",
        WriterAge Above Some(10.0), Some(MINUTE_S);
    Lag = "lag", "age of the oldest record that is not in the log yet",
        Lag Above Some(30.0), Some(2.0 * MINUTE_S);
    Arena = "arena", "share of the arena that is in use",
        ArenaUsed Above Some(90.0), Some(98.0);
    Lost = "lost", "time since records were lost",
        LostAge Below Some(DAY_S), Some(HOUR_S);
    Newest = "newest-line", "age of the newest line",
        NewestAge Above None, None;
    Unsigned = "unsigned", "how long lines wait for a signed checkpoint",
        UnsignedAge Above Some(10.0 * MINUTE_S), Some(HOUR_S);
    Disk = "disk", "free share of the file system",
        DiskFreePercent Below Some(10.0), Some(5.0);
    DiskFull = "disk-full", "time until the log fills the file system",
        DiskFullIn Below Some(7.0 * DAY_S), Some(DAY_S);
    Reach = "reach", "how far the log will reach back at its growth",
        Reach Below None, None;
}

impl Check {
    /// The check of this name.
    pub fn named(name: &str) -> Option<Check> {
        Check::ALL.iter().copied().find(|check| check.spec().name == name)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(self.spec().name)
    }
}

/// A threshold as on the command line; `off` if there is none.
pub fn threshold(unit: Unit, value: Option<f64>) -> String {
    let Some(value) = value else { return "off".to_owned() };
    match unit {
        Unit::Seconds if value >= HOUR_S && value % HOUR_S == 0.0 => {
            format!("{}h", value / HOUR_S)
        }
        Unit::Seconds if value >= MINUTE_S && value % MINUTE_S == 0.0 => {
            format!("{}m", value / MINUTE_S)
        }
        Unit::Seconds => format!("{value}s"),
        Unit::Percent => format!("{value}%"),
        _ => value.to_string(),
    }
}

/// The default thresholds of a check, for help and guide; empty: it has none.
fn defaults(check: Check) -> [String; 2] {
    let Some(measure) = check.spec().measure else { return Default::default() };
    let unit = measure.metric.spec().unit;
    let sign = if measure.bad == Bad::Above { ">" } else { "<" };
    [measure.warn, measure.crit].map(|value| match value {
        Some(_) => format!("{sign} {}", threshold(unit, value)),
        None => "off".to_owned(),
    })
}

/// The checks as lines of a help text.
pub fn help_lines() -> String {
    let mut lines = Vec::new();
    for check in Check::ALL {
        let spec = check.spec();
        let [warn, crit] = defaults(*check);
        let line = format!("  {:11}  {:51}  {warn:7}  {crit}", spec.name, spec.help);
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;
