//! `tacho-hub backup`

use std::io::Write;

use anyhow::{Context as _, ensure};
use tacho_progress::Progress;
use tacho_ship::words::megabytes;

use crate::audit::Entry;
use crate::backup::backup;
use crate::cli::BackupArgs;
use crate::data::DataDirectory;
use crate::database::Database;

/// Copies everything except the index to a new directory.
///
/// # Errors
/// The directory exists, or something cannot be read or written.
pub fn run(args: &BackupArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let data = DataDirectory::existing(&args.data.directory)?;
    ensure!(
        data.database().exists(),
        "{} has no hub.sqlite: it is not the data directory of a hub",
        args.data.directory.display()
    );
    let database = Database::open(&data.database())?;
    let shown = args.output.display().to_string();
    Entry::asked_by_command("backup", "Backup", &shown)
        .store(&database)
        .context("cannot record the backup, so it is not made")?;
    let mut progress = Progress::new(true);
    let copied = backup(&data, &database, &args.output, &mut |bytes, total| {
        progress.show(|| format!("{} copied", megabytes(bytes, Some(total.max(bytes)))));
    });
    progress.end();
    let copied = copied?;
    writeln!(
        out,
        "{shown}: {} files, {} bytes; to restore it, copy it to the data directory of a hub",
        copied.files, copied.bytes
    )?;
    Ok(())
}
