//! `tacho-hub serve`

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::api::{self, ship::ShipState};
use crate::cli::ServeArgs;
use crate::connections;
use crate::data::DataDirectory;
use crate::database::Database;
use crate::landing::{self, Incident, Landing};
use crate::say::say;
use crate::state::AppState;
use crate::verification::Verification;

/// How long requests may still run after a signal to stop.
const GRACE: Duration = Duration::from_secs(10);

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// The data directory, the database or the address cannot be used.
pub fn run(args: &ServeArgs) -> anyhow::Result<()> {
    anyhow::ensure!(
        args.listen.ip().is_loopback(),
        "cannot listen on {}: without TLS the hub listens only on a loopback address",
        args.listen
    );
    let data = DataDirectory::open(&args.data.directory)?;
    let _lock = data.lock()?;
    let data = Arc::new(data);
    let database = Database::open(&data.database())?;
    let options = landing::Options {
        reserve_bytes: args.reserve_mib.saturating_mul(1 << 20),
        ..Default::default()
    };
    let on_incident = Arc::new(|incident: Incident| say(&incident.to_string()));
    let landing = Landing::open(Arc::clone(&data), options, on_incident)
        .with_context(|| format!("cannot read the replica {}", data.replica().display()))?;
    let verification = Verification::default();
    let verified = verification.clone();
    landing.set_verified(Box::new(move |origin| verified.checkpoint(origin)));
    let _verifier = verification
        .start(Arc::clone(&data), database.clone(), landing.subscribe())
        .context("cannot start the thread of the verifier")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the threads of the hub")?;
    let result = runtime.block_on(serve(args, data, database, landing, verification));
    // Threads with a blocking call that does not end must not keep the process.
    runtime.shutdown_timeout(GRACE);
    result
}

async fn serve(
    args: &ServeArgs,
    data: Arc<DataDirectory>,
    database: Database,
    landing: Landing,
    verification: Verification,
) -> anyhow::Result<()> {
    let (stop, stopping) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate()).context("cannot catch SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot catch SIGINT")?;
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr().context("cannot read the address of the listener")?;
    let ship = ShipState::new(landing);
    let state = AppState { database, data, ship, verification, stopping: stopping.clone() };
    // Scripts wait for this line. A closed stdout is no reason to stop.
    let _ = writeln!(std::io::stdout(), "tacho-hub: listening on http://{address}");
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.send_replace(true);
    });
    let limits = connections::Limits::of_process();
    tokio::select! {
        () = connections::serve(listener, api::router(state), limits, stopping.clone()) => {}
        () = grace_is_over(stopping) => {}
    }
    Ok(())
}

async fn until_stopped(mut stopping: watch::Receiver<bool>) {
    // An error means that the sender is gone, which also ends the hub.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

async fn grace_is_over(stopping: watch::Receiver<bool>) {
    until_stopped(stopping).await;
    tokio::time::sleep(GRACE).await;
}
