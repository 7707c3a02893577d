//! The choice of the format, and what all its lines share.

use std::collections::TryReserveError;

use tacho_record::time::{TIME_BYTES, TimeFormatter};
use tacho_record::{Field, Record};

use crate::place::Place;
use crate::syslog::Body;
use crate::{cef, csv, csv_full, ecs, json_array, leef, ocsf, percona, size_bound, slow, syslog};

/// A format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// MariaDB's server_audit, to a file.
    Csv,
    /// All fields of the record as columns.
    CsvFull,
    /// One JSON array of all records.
    Json,
    /// Percona's audit_log, `audit_log_format = JSON`.
    PerconaJson,
    /// Percona's audit_log, `audit_log_format = NEW`: XML elements.
    PerconaNew,
    /// Percona's audit_log, `audit_log_format = OLD`: XML attributes.
    PerconaOld,
    /// Open Cybersecurity Schema Framework.
    Ocsf,
    /// Elastic Common Schema.
    Ecs,
    /// ArcSight's Common Event Format.
    Cef,
    /// QRadar's Log Event Extended Format 2.0.
    Leef,
    /// RFC 5424, around a [`Body`].
    Syslog,
    /// MariaDB's slow query log.
    Slow,
}

impl Format {
    /// Whether it can express that a statement is still running. The others need one record per
    /// statement: see [`crate::join::Joiner`].
    pub const fn knows_running(self) -> bool {
        matches!(self, Self::Syslog)
    }

    /// The position of a field of the record. For syslog messages, this is in their body.
    pub const fn place(self, field: Field) -> Place {
        match self {
            Self::Csv => csv::place(field),
            Self::CsvFull => csv_full::place(field),
            Self::Json => json_array::place(field),
            Self::PerconaJson => percona::place(field),
            Self::PerconaNew | Self::PerconaOld => percona::place_in_xml(field),
            Self::Ocsf => ocsf::place(field),
            Self::Ecs => ecs::place(field),
            Self::Cef => cef::place(field),
            Self::Leef => leef::place(field),
            Self::Syslog => Place::In("MSG"),
            Self::Slow => slow::place(field),
        }
    }
}

/// Writes records in one format.
#[derive(Clone, Debug)]
pub struct Formatter {
    format: Format,
    /// The body of syslog messages.
    pub(crate) body: Body,
    pub(crate) server_host: Vec<u8>,
    /// When the current file was begun, RFC 3339; part of Percona's record numbers.
    pub(crate) file_begun: [u8; TIME_BYTES],
    /// Whether texts that a spreadsheet would take for formulas get a mark.
    pub(crate) guards_formulas: bool,
    /// Whether a JSON array has an element.
    pub(crate) has_elements: bool,
    /// Default database of the last record of a slow log.
    pub(crate) slow_db: Vec<u8>,
    /// Memory for one line of our own format.
    pub(crate) scratch: Vec<u8>,
}

impl Formatter {
    /// `server_host` is the name of the server's machine, which a log line does not have.
    pub fn new(format: Format, server_host: &str) -> Self {
        Self {
            format,
            body: Body::Json,
            server_host: server_host.as_bytes().to_vec(),
            file_begun: *TimeFormatter::utc().format(0),
            guards_formulas: false,
            has_elements: false,
            slow_db: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Sets the body of syslog messages; no effect on other formats.
    #[must_use]
    pub fn with_body(self, body: Body) -> Self {
        Self { body, ..self }
    }

    /// Sets whether [`Format::CsvFull`] puts `'` before a text that a spreadsheet would take for a
    /// formula; no effect on other formats.
    #[must_use]
    pub fn guarding_formulas(self, guards_formulas: bool) -> Self {
        Self { guards_formulas, ..self }
    }

    /// Appends the beginning of a file. `begun_us`: when it was begun, µs since 1970-01-01 UTC.
    pub fn begin(&mut self, out: &mut Vec<u8>, begun_us: i64, clock: &mut TimeFormatter) {
        self.file_begun = *clock.format(begun_us);
        self.slow_db.clear();
        match self.format {
            Format::PerconaNew | Format::PerconaOld => percona::begin(out),
            Format::CsvFull => csv_full::begin(out),
            Format::Json => json_array::begin(self, out),
            _ => {}
        }
    }

    /// Appends the lines of `record`: usually one; none if another record has the same content;
    /// more if the format has a line for each table.
    pub fn write(&mut self, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
        match self.format {
            Format::Csv => csv::write(self, out, record, clock),
            Format::CsvFull => csv_full::write(self, out, record, clock),
            Format::Json => json_array::write(self, out, record, clock),
            Format::PerconaJson => percona::json::write(self, out, record, clock),
            Format::PerconaNew => percona::xml::write_new(self, out, record, clock),
            Format::PerconaOld => percona::xml::write_old(self, out, record, clock),
            Format::Ocsf => ocsf::write(self, out, record, clock),
            Format::Ecs => ecs::write(self, out, record, clock),
            Format::Cef => cef::write(self, out, record, clock),
            Format::Leef => leef::write(self, out, record, clock),
            Format::Syslog => syslog::write(self, out, record, clock),
            Format::Slow => slow::write(self, out, record, clock),
        }
    }

    /// As [`Formatter::write`], for records whose texts may have any length.
    ///
    /// # Errors
    /// If there is not enough memory for the lines; then nothing was appended.
    pub fn try_write(
        &mut self,
        out: &mut Vec<u8>,
        record: &Record,
        clock: &mut TimeFormatter,
    ) -> Result<(), TryReserveError> {
        match self.format {
            // They are the line of the log, which has its own bound.
            Format::Json => json_array::try_write(self, out, record, clock),
            Format::Syslog => syslog::try_write(self, out, record, clock),
            _ => {
                out.try_reserve(size_bound::size_bound(record, &self.server_host))?;
                self.write(out, record, clock);
                Ok(())
            }
        }
    }

    /// Appends the end of a file.
    pub fn end(&self, out: &mut Vec<u8>) {
        match self.format {
            Format::PerconaNew | Format::PerconaOld => percona::end(out),
            Format::Json => json_array::end(out),
            _ => {}
        }
    }
}

/// The name of this machine, for records without the server's name; `-` if it has none.
#[must_use]
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "-".to_owned() } else { name.to_owned() }
}
