//! `tacho ship`: the log to a hub. `tacho_ship::hub` ships; this module has the command line, the
//! signals and the messages.

mod activity;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tacho_format::host_name;
use tacho_logdir::read::content::Access;
use tacho_logdir::read::line_limit::LINE_BYTES_MAX;
use tacho_ship::hub::{
    Check, Client, ClientError, ClientOptions, LatestActivity, Options, Shipper, Verdict,
};
use tacho_ship::protocol::Origin;

use crate::cli::ShipArgs;
use crate::{say, signals};

/// Why `tacho ship` failed.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// The name of this machine cannot be that of a log.
    #[error("the name of this machine, `{0}`, cannot be the name of a log; name it with --name")]
    Name(String),
    /// There is no client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// `--identity` is no file with a secret key.
    #[error("{0:#}")]
    Identity(anyhow::Error),
    /// The login at the database server.
    #[error("{0:#}")]
    Login(anyhow::Error),
    /// The directory or the hub.
    #[error("{0}")]
    Other(String),
    /// Signal handlers could not be set.
    #[error("cannot handle signals")]
    Signal(#[source] io::Error),
    /// Stdout cannot be written to.
    #[error("cannot write the output")]
    Output(#[source] io::Error),
}

impl ShipError {
    /// Whether the command line, not the data, is at fault.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Client(_) | Self::Identity(_) | Self::Login(_))
    }
}

/// Runs `tacho ship`.
///
/// # Errors
/// See [`ShipError`]. A hub that is not reachable is retried, except with `--check`.
pub fn run(args: &ShipArgs) -> Result<Verdict, ShipError> {
    let host = host_name();
    let origin = match &args.name {
        Some(name) => name.clone(),
        None => host.parse::<Origin>().map_err(|_| ShipError::Name(host.clone()))?,
    };
    let client = Client::new(&ClientOptions {
        address: args.hub.clone(),
        origin: origin.clone(),
        token_file: args.token_file.clone(),
        ca: args.tls_ca.clone(),
    })?;
    let identities = args.identity.read().map_err(ShipError::Identity)?;
    let log = args.log.find();
    let stop = Arc::new(AtomicBool::new(false));
    let options = Options {
        directory: log.path.clone(),
        access: Access { identities, line_bytes_max: LINE_BYTES_MAX },
        once: args.once,
        bytes_per_second: args.max_rate.unwrap_or(0),
        give_up_after: args.give_up_after,
        state: args.state.clone(),
        retain: !args.no_retain,
        host,
        activity: watch(args)?,
        stop: Arc::clone(&stop),
        report: say::reporter(),
    };
    let mut shipper = Shipper::new(client, options);
    if args.check {
        let check = shipper.check().map_err(ShipError::Other)?;
        show(&args.hub.to_string(), &origin, &check).map_err(ShipError::Output)?;
        return Ok(Verdict { problem_count: u64::from(check.found.is_some()) });
    }
    signals::catch(&stop).map_err(ShipError::Signal)?;
    shipper.run().map_err(ShipError::Other)
}

/// Asks the server that is named what it is doing. A run with an end has no use for it.
fn watch(args: &ShipArgs) -> Result<Option<LatestActivity>, ShipError> {
    let login = args.server.login().map_err(ShipError::Login)?;
    if args.once || args.check {
        return Ok(None);
    }
    login.map(activity::watch).transpose().map_err(|error| ShipError::Other(error.to_string()))
}

fn show(hub: &str, origin: &Origin, check: &Check) -> io::Result<()> {
    let files = say::counted(check.files as u64, "log file");
    let new_files = say::grouped(check.new_files as u64);
    say::result(&format!("{hub} accepts the token for {origin}, generation {}", check.generation))?;
    say::result(&format!("{files} here, {new_files} of them not at the hub yet"))?;
    match &check.found {
        None => say::result("the log continues what the hub has"),
        Some(found) => say::result(&format!(
            "{} contradicts the hub's copy ({}): shipping would begin generation {}",
            found.file,
            found.reason,
            check.generation + 1
        )),
    }
}
