//! `tacho-hub reindex`

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::Context as _;
use tacho_progress::Progress;

use crate::cli::DataArgs;
use crate::data::DataDirectory;
use crate::database::Database;
use crate::index::rebuild::so_far;
use crate::index::{Index, query_settings};
use crate::landing::{self, Incident, Landing};
use crate::say::say;

/// Nothing new lands for so long: everything has.
const QUIET: Duration = Duration::from_secs(2);
/// How often the progress is looked at.
const SHOW_EVERY: Duration = Duration::from_millis(500);

/// Deletes the index, and builds it again from the replica. A damaged file is indexed up to the
/// damage, and does not stop the others.
///
/// # Errors
/// A hub runs, something cannot be written, or a file cannot be read to its end.
pub fn run(args: &DataArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let data = Arc::new(DataDirectory::existing(&args.directory)?);
    let _lock = data.lock()?;
    // A later release may keep the replica in a form that this one does not read.
    drop(Database::open(&data.database())?);
    let store = data.store();
    if let Err(error) = std::fs::remove_dir_all(&store)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(error).with_context(|| format!("cannot delete {}", store.display()));
    }
    let on_incident = Arc::new(|incident: Incident| say(&incident.to_string()));
    let landing = Landing::open(Arc::clone(&data), landing::Options::default(), on_incident)
        .with_context(|| format!("cannot read the replica {}", data.replica().display()))?;
    let index = Index::open(&data, landing.subscribe(), query_settings(&data)?)?;
    finish(&index)?;
    let report = index.report();
    writeln!(
        out,
        "{} records of {} servers; {} lines of {} bytes are in two generations, {} are no records",
        report.records,
        index.store().origins().len(),
        report.known,
        report.bytes,
        report.unreadable
    )?;
    let files = match index.troubles() {
        0 => return Ok(()),
        1 => "1 file of the replica is".to_owned(),
        count => format!("{count} files of the replica are"),
    };
    anyhow::bail!("{files} not indexed to the end, see above")
}

/// Waits until everything is indexed, and shows how much is.
fn finish(index: &Index) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        scope.spawn(move || {
            let mut progress = Progress::new(true);
            while is_done.recv_timeout(SHOW_EVERY) == Err(RecvTimeoutError::Timeout) {
                progress.show(|| format!("{} indexed", so_far(&index.report())));
            }
            progress.end();
        });
        let finished = index.finish(QUIET);
        drop(done);
        finished
    })
}
