//! `tacho-hub retention …`

use std::collections::BTreeSet;
use std::io::Write;

use tacho_ship::protocol::Origin;

use crate::audit::{Entry, HUB, Kind, RequestSource};
use crate::cli::{DataArgs, RetentionSetArgs};
use crate::data::DataDirectory;
use crate::database::Database;
use crate::retention::settings;

/// Prints the retention of each server.
///
/// # Errors
/// The database fails.
pub fn show(args: &DataArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let data = DataDirectory::existing(&args.directory)?;
    let settings = settings::load(&Database::open(&data.database())?)?;
    let mut servers: BTreeSet<Origin> = settings.servers.keys().cloned().collect();
    if let Ok(entries) = std::fs::read_dir(data.replica()) {
        for entry in entries {
            servers.extend(entry?.file_name().to_str().and_then(|name| name.parse().ok()));
        }
    }
    servers.extend(HUB.parse::<Origin>());
    writeln!(out, "default: {}", days(settings.default_days))?;
    for server in servers {
        let source = if settings.servers.contains_key(&server) { "" } else { " (default)" };
        writeln!(out, "{server}: {}{source}", days(settings.days(&server)))?;
    }
    Ok(())
}

fn days(days: u64) -> String {
    match days {
        0 => "for ever".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

/// Sets the retention of a server.
///
/// # Errors
/// The database fails.
pub fn set(args: &RetentionSetArgs) -> anyhow::Result<()> {
    let data = DataDirectory::existing(&args.data.directory)?;
    let database = Database::open(&data.database())?;
    let mut record = Entry::new(Kind::Config, "", RequestSource::command("retention set"));
    record.variable = settings::VARIABLE.to_owned();
    settings::set(&database, &args.server, args.days, record)?;
    Ok(())
}
