//! `tacho-hub alert …`

use std::io::Write;

use anyhow::Context as _;

use crate::alerts::notification::Notification;
use crate::alerts::{AlertArgs, deliveries};
use crate::cli::DataArgs;
use crate::clock::now_us;
use crate::data::DataDirectory;
use crate::database::Database;

/// Sends a test to each channel, and prints a line for each.
///
/// # Errors
/// There is no channel, or one of them does not accept it.
pub fn test(args: &DataArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let data = DataDirectory::existing(&args.directory)?;
    let database = Database::open(&data.database())?;
    let json = deliveries::settings(&database)?.unwrap_or_else(|| "{}".to_owned());
    let settings: AlertArgs = serde_json::from_str(&json)
        .context("another release has stored the channels; start this one's hub first")?;
    let message = Notification::test(now_us());
    let (mut tried, mut failed) = (0, 0);
    for mut channel in settings.channels()? {
        tried += 1;
        match channel.send(&message) {
            Ok(()) => writeln!(out, "{}: sent", channel.name())?,
            Err(error) => {
                failed += 1;
                writeln!(out, "{}: failed: {error}", channel.name())?;
            }
        }
    }
    anyhow::ensure!(
        tried > 0,
        "there is no channel: start the hub with one, such as --mail-server"
    );
    anyhow::ensure!(failed == 0, "{failed} of {tried} channels failed");
    Ok(())
}
