//! `tacho report`: statements by user, digest and so on, logins, errors, changes, sessions.
//!
//! Threads read pieces of the log (`read.rs`) and count its lines (`tally.rs`) into groups of
//! bounded number (`groups.rs`), reading only the members of a line that the report needs
//! (`tacho_record::line::members`). Lines of long statements are joined first. The result is a
//! table of values (`answer.rs`), which is shown in one of three formats, and a list of what is
//! known to be missing (`gaps.rs`, `summary.rs`).

pub mod answer;
mod args;
mod data;
pub mod gaps;
pub mod groups;
mod kept;
pub mod key;
mod list;
pub mod query;
pub mod read;
pub mod stats;
mod summary;
pub mod table;
pub mod tally;
mod times;

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use jiff::Zoned;
use jiff::tz::TimeZone;

use crate::filter::Filter;
use crate::scan::Scan;
use crate::tail::{self, TailError, Verdict, since};
use answer::Answer;
pub use args::ReportArgs;
use args::{Format, Options};
pub use data::time;
pub use kept::cut;
use query::Query;
use summary::Summary;
pub use summary::second;
use tally::{Counted, GROUPS_MAX, Shared};

/// Runs `tacho report`.
///
/// # Errors
/// See [`TailError`]. Broken lines do not stop it; the verdict has their number.
pub fn run(args: &ReportArgs) -> Result<Verdict, TailError> {
    let (query, options) = args.query();
    options.read.limit.apply();
    let now = Zoned::now();
    let window = since::window(&options.read.range, &now)?;
    let mut filter = Filter::new(&options.read.filter, window);
    let zone = options.zone.zone(&now);
    let mut scan = Scan::new(Arc::new(AtomicBool::new(false)));
    let counted = count(&query, options, &mut filter, &zone, &mut scan)?;
    let facts = (counted.all.clone(), counted.gaps.clone(), counted.open_count);
    let answer = Answer::of(&query, counted, options.top);
    let problem_count = scan.problem_count;
    let summary = Summary::new(&query, &answer, facts, problem_count);
    scan.clear_progress();
    show(&answer, &summary, options, &zone, &mut scan).map_err(TailError::Output)?;
    Ok(Verdict { problem_count })
}

/// Counts the lines of all inputs.
fn count(
    query: &Query,
    options: &Options,
    filter: &mut Filter,
    zone: &TimeZone,
    scan: &mut Scan,
) -> Result<Counted, TailError> {
    let access = tail::access(&options.read.identity)?;
    let scanned_bytes = AtomicU64::new(0);
    let mut all: Option<Counted> = None;
    for place in options.source.find()? {
        let pieces = read::plan(&place, &access, filter, scan)?;
        let top = options.top;
        let filter = &*filter;
        let groups_max = GROUPS_MAX;
        let shared = Shared { query, filter, zone, top, groups_max, scanned_bytes: &scanned_bytes };
        let counted = match pieces {
            Some(pieces) => read::pieces(&pieces, &access, &shared, scan)?,
            None => read::stream(place, &access, &shared, scan)?,
        };
        match &mut all {
            Some(all) => all.merge(counted),
            None => all = Some(counted),
        }
    }
    Ok(all.unwrap_or_else(|| Counted::new(query, options.top, GROUPS_MAX)))
}

fn show(
    answer: &Answer,
    summary: &Summary,
    options: &Options,
    zone: &TimeZone,
    scan: &mut Scan,
) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match options.format {
        Format::Table => {
            out.write_all(table::format(answer, width(options), zone).as_bytes())?;
            writeln!(out)?;
            for line in summary.lines(zone) {
                writeln!(out, "{line}")?;
            }
        }
        Format::Json => {
            out.write_all(data::json(answer, zone).as_bytes())?;
            writeln!(out, "{}", summary.json(zone))?;
        }
        Format::Csv => {
            out.write_all(data::csv(answer, zone).as_bytes())?;
            summary.lines(zone).iter().for_each(|line| scan.note(line));
        }
    }
    out.flush()
}

fn width(options: &Options) -> Option<usize> {
    let of_terminal = || {
        let is_terminal = io::stdout().is_terminal();
        is_terminal.then(|| terminal_size::terminal_size_of(io::stdout())).flatten()
    };
    let width = options.width.or_else(|| of_terminal().map(|(width, _)| usize::from(width.0)));
    width.filter(|width| *width > 0)
}
