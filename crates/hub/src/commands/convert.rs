//! `tacho-hub convert`

use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, bail};
use tacho_logdir::read::content::Access;
use tacho_logdir::read::files::{Input, STDIN};
use tacho_logdir::read::identities::Identities;
use tacho_logdir::read::{Lines, Request, Window, read};
use tacho_store::TableWriter;

use crate::cli::{ConvertArgs, FileFormat};
use crate::convert::sqlite::Database;
use crate::convert::{Converter, Target};
use crate::local::host_name;
use crate::new_file::NewFile;

/// Writes the records of logs into a new file.
///
/// # Errors
/// A log cannot be read, or the file not be written. Lines that cannot be read are an error, too,
/// but the file has all others.
pub fn run(args: &ConvertArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let file = NewFile::create(&args.output)?;
    let server = args.server.clone().unwrap_or_else(host_name);
    let counts = match args.format {
        FileFormat::Parquet => {
            let mut table = TableWriter::new(file.file(), &server)?;
            let counts = convert(args, &mut table)?;
            table.finish().with_context(|| file.not_written())?;
            counts
        }
        FileFormat::Sqlite => {
            let mut database = Database::create(file.path(), &server)?;
            let counts = convert(args, &mut database)?;
            database.finish().with_context(|| file.not_written())?;
            counts
        }
    };
    let bytes = file.finish()?;
    writeln!(out, "{}: {} records, {bytes} bytes", args.output.display(), counts.records)?;
    if counts.problems > 0 {
        bail!("{} lines or files, named above, are not in it", counts.problems);
    }
    Ok(())
}

struct Counts {
    records: u64,
    problems: u64,
}

fn convert<T: Target>(args: &ConvertArgs, target: &mut T) -> anyhow::Result<Counts> {
    let identities = Identities::read(&args.identity).context("cannot read --identity")?;
    let access = Access { identities, ..Access::default() };
    let request = Request {
        from: None,
        lines: Lines::All,
        newest_first: false,
        window: Window::default(),
        follow: false,
    };
    let mut converter = Converter::new(target);
    for path in &args.logs {
        let place = if path == Path::new(STDIN) {
            Input::Stream(path.clone())
        } else {
            Input::of(path).with_context(|| format!("cannot read {}", path.display()))?
        };
        read(place, &request, &access, &mut converter)?;
        converter.end_log()?;
    }
    Ok(Counts { records: converter.records, problems: converter.problems })
}
