//! Applies a filter to a log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::channel;

use jiff::Zoned;
use tacho_filter::Program;
use tacho_filter::compile::{Checked, Server};
use tacho_logdir::read::content::Access;
use tacho_logdir::read::files::Input;
use tacho_logdir::read::pieces::Pieces;
use tacho_logdir::read::{self, Lines, Request, Window};

use super::args::CheckArgs;
use super::facts::Judge;
use super::tally::{Counts, Tally};
use crate::cli::log::LogSources;
use crate::parallel::{self, Reader as _};
use crate::scan::Scan;
use crate::tail::{self, TailError, since};

/// What a filter would do with a log.
pub struct DryRun {
    /// The lines.
    pub counts: Counts,
    /// Broken lines and unreadable files, each already reported on stderr.
    pub problem_count: u64,
}

/// Applies a valid filter to the log at `path`.
///
/// # Errors
/// There is no log, or it cannot be read. Broken lines are reported.
pub fn run(
    args: &CheckArgs,
    path: &Path,
    checked: &Checked,
    server: &Server,
) -> Result<DryRun, TailError> {
    let window = since::window(&args.range, &Zoned::now())?;
    let access = tail::access(&args.identity)?;
    let judge = Judge::new(Program::new(&checked.program), server);
    let mut scan = Scan::new(Arc::new(AtomicBool::new(false)));
    let mut counts = Counts::new(checked.rules.len());
    for place in (LogSources { paths: vec![path.to_owned()] }).find()? {
        let trial = Trial { judge: &judge, rule_count: checked.rules.len(), window };
        counts.merge(trial.read(place, &access, &mut scan)?);
    }
    scan.clear_progress();
    Ok(DryRun { counts, problem_count: scan.problem_count })
}

/// A filter, and the lines that it is applied to.
struct Trial<'a> {
    judge: &'a Judge<'a>,
    rule_count: usize,
    window: Window,
}

impl Trial<'_> {
    fn read(&self, place: Input, access: &Access, scan: &mut Scan) -> Result<Counts, TailError> {
        let Self { judge, rule_count, window } = *self;
        let scanned_bytes = AtomicU64::new(0);
        let start = |messages| Tally::new(judge, rule_count, window, &scanned_bytes, messages);
        let (sender, messages) = channel();
        let mut first = start(sender);
        if let Input::Stream(_) = place {
            let request = Request {
                from: None,
                lines: Lines::All,
                window,
                follow: false,
                newest_first: false,
            };
            let done = read::read(place, &request, access, &mut first);
            let counts = first.finish();
            parallel::watch(&messages, &scanned_bytes, scan);
            return done.map(|()| counts);
        }
        let pieces = Pieces::list(&place, window, access, &mut first);
        let mut counts = first.finish();
        parallel::watch(&messages, &scanned_bytes, scan);
        let pieces = pieces?;
        scan.expect(pieces.bytes());
        let found = parallel::read(&pieces, access, &scanned_bytes, scan, start)?;
        found.into_iter().for_each(|one| counts.merge(one));
        Ok(counts)
    }
}
