//! A log in another format, as `tacho convert` writes it.

use std::convert::Infallible;
use std::fs;
use std::path::Path;

use anyhow::{Result, anyhow};
use tacho_format::join::Joiner;
use tacho_format::{Format, Formatter};
use tacho_record::Line;
use tacho_record::OwnedRecord;
use tacho_record::time::TimeFormatter;

use crate::client::{self, Conn};
use crate::{log as strict, wait};

/// More than the open statements of any test.
const OPEN_BYTES_MAX: usize = 1 << 20;

/// The log of a directory in `format`, with local times.
///
/// # Errors
/// The log cannot be read, or has a line that is not a record.
pub fn log(directory: &Path, format: Format, server_host: &str) -> Result<String> {
    let mut formatter = Formatter::new(format, server_host);
    let mut clock = TimeFormatter::system()?;
    let mut joiner = Joiner::new(OPEN_BYTES_MAX);
    let mut out = Vec::new();
    let mut emit = |record: &OwnedRecord| {
        record.with(|record| formatter.write(&mut out, record, &mut clock));
        Ok::<_, Infallible>(())
    };
    let mut broken = None;
    strict::read(directory, |_, text| {
        let record = Line::parse(text.as_bytes())
            .and_then(|line| OwnedRecord::of_line(&line).map_err(|error| error.to_string()));
        match record {
            Ok(record) => {
                let Ok(()) = joiner.push(record, &mut emit);
            }
            Err(reason) => broken = Some(anyhow!("{reason}: {text}")),
        }
    })?;
    let Ok(()) = joiner.finish(&mut emit);
    match broken {
        Some(error) => Err(error),
        None => Ok(String::from_utf8(out)?),
    }
}

/// Waits until the other format has all lines: a stop of the server gives it a limited time.
///
/// # Panics
/// It never has them.
pub fn wait_for_format(conn: &mut Conn) {
    const BEHIND: &str = "Tacho_format_behind_bytes";
    wait::until("nothing waits", || client::status(conn, BEHIND).expect("status")[BEHIND] == "0");
}

/// As [`wait_for_format`], after a kill: the number of bytes is not known before the arena of the
/// killed server was read.
pub fn wait_for_all_formats(log: &Path, conn: &mut Conn) {
    wait::until("only the current file is left", || {
        let list = fs::read_to_string(log.join(".renditions")).expect("a list");
        list.lines().count() == 1
    });
    wait_for_format(conn);
}
