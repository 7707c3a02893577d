//! `tacho-hub serve`

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tacho_ship::protocol::Origin;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::accounts;
use crate::alerts::inbox::Inbox;
use crate::alerts::monitor::{Monitor, Watched};
use crate::alerts::{Channels, Watch, deliveries};
use crate::api::{self, export::ExportState, session::SignIn, ship::ShipState};
use crate::audit::{self, Audit, HUB};
use crate::cli::ServeArgs;
use crate::clock::now_us;
use crate::compression::Compression;
use crate::data::{DataDirectory, make_directory};
use crate::database::Database;
use crate::hub_key;
use crate::index::{Index, query_settings};
use crate::landing::{self, Landing};
use crate::listener::{self, Listener};
use crate::local::{self, LocalShippers};
use crate::retention::{Meter, Recorded, Retention, Steps, settings};
use crate::say::say;
use crate::state::AppState;
use crate::verification::Verification;

/// How long requests may still run after a signal to stop.
const GRACE: Duration = Duration::from_secs(10);
/// Open files and connections.
const FILES_WANTED: u64 = 65_536;

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// The data directory, the database or the address cannot be used.
pub fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let tls = tls_of(args)?;
    raise_file_limit();
    let mut logs = local::named(&args.logs)?;
    let alerts = args.alerts.clone().absolute()?;
    let channels = alerts.channels()?;
    let data = DataDirectory::open(&args.data.directory)?;
    let _lock = data.lock()?;
    let data = Arc::new(data);
    let database = Database::open(&data.database())?;
    let key = hub_key::open(&data)?;
    let (hub, export) = (key.root(), ExportState::new(key));
    settings::save_defaults(&database, args.retention_days, args.audit_days)?;
    let options = landing::Options {
        reserve_bytes: args.reserve_mib.saturating_mul(1 << 20),
        compresses: !args.no_compression,
        ..Default::default()
    };
    make_directory(&data.audit())?;
    logs.push((HUB.parse().context("the name of the hub's own log")?, data.audit()));
    let own_log = audit::Options::of(&data, args.audit_days);
    let (audit, _audit) = Audit::start(own_log, database.clone())
        .context("cannot start the thread of the hub's own log")?;
    let inbox = Inbox::default();
    let landing = Landing::open(Arc::clone(&data), options, inbox.reporter())
        .with_context(|| format!("cannot read the replica {}", data.replica().display()))?;
    let index = Index::open(&data, landing.subscribe(), query_settings(&data)?)
        .with_context(|| format!("cannot open the index {}", data.store().display()))?;
    let verification = Verification::default();
    let verified = verification.clone();
    landing.set_verified(Box::new(move |origin| verified.checkpoint(origin)));
    let _verifier = verification
        .start(Arc::clone(&data), database.clone(), landing.subscribe(), hub)
        .context("cannot start the thread of the verifier")?;
    let local = logs.iter().map(|(origin, _)| origin.clone()).collect();
    let (storage, _retention, _compression) =
        keep(&data, &database, &landing, &index, &verification, local)?;
    let watched = Watched {
        landing: landing.clone(),
        verification: verification.clone(),
        audit: audit.clone(),
        storage: storage.clone(),
    };
    let _monitor = Monitor::start(inbox, database.clone(), watched)
        .context("cannot start the thread of the monitor")?;
    let _watch = Watch::start(Arc::clone(&data), database.clone(), landing.subscribe())
        .context("cannot start the thread of the watch")?;
    deliveries::save_settings(&database, &serde_json::to_string(&alerts)?)?;
    let _channels = Channels::start(channels, alerts.timing(), &database)?;
    let (stop, stopping) = watch::channel(false);
    let state = AppState {
        database,
        data,
        ship: ShipState::new(landing),
        index,
        verification,
        audit,
        export,
        storage,
        sign_in: SignIn::new(tls.is_some()),
        stopping,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the threads of the hub")?;
    let result = runtime.block_on(async {
        stop_on_signals(stop)?;
        let local = local_listener(&state).await?;
        // Ends, with a last heartbeat, while its listener still answers.
        let shippers = LocalShippers::start(logs, &state.data, &state.database, local)?;
        let result = serve(args, state, tls).await;
        let ended = tokio::task::spawn_blocking(move || drop(shippers)).await;
        result.and(ended.context("a local shipper did not end"))
    });
    // Threads with a blocking call that does not end must not keep the process.
    runtime.shutdown_timeout(GRACE);
    result
}

/// The certificate, without which the hub listens only on a loopback address.
fn tls_of(args: &ServeArgs) -> anyhow::Result<Option<TlsAcceptor>> {
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => Some(listener::acceptor(cert, key)?),
        _ => None,
    };
    anyhow::ensure!(
        tls.is_some() || args.listen.ip().is_loopback(),
        "cannot listen on {}: without --tls-cert and --tls-key the hub listens only on a loopback \
         address",
        args.listen
    );
    Ok(tls)
}

/// Starts the retention and the compression, and measures what the logs need of the disk. `local`:
/// the logs of this machine.
fn keep(
    data: &Arc<DataDirectory>,
    database: &Database,
    landing: &Landing,
    index: &Index,
    verification: &Verification,
    local: BTreeSet<Origin>,
) -> anyhow::Result<(Meter, Retention, Option<Compression>)> {
    let steps = Steps {
        data: Arc::clone(data),
        database: database.clone(),
        landing: landing.clone(),
        store: index.store().clone(),
        key: hub_key::open(data)?,
        recorded: Recorded::default(),
        may_go_on: Box::new(|_| true),
    };
    let Steps { data, database, landing, store, .. } = &steps;
    let meter = Meter::new(Arc::clone(data), database.clone(), landing.clone(), store.clone());
    let landing = landing.clone();
    let retention = Retention::start(steps, verification.clone(), meter.obstacles(), local)
        .context("cannot start the thread of the retention")?;
    let compresses = landing.compresses();
    let start = || Compression::start(landing, verification.clone());
    let compression = compresses.then(start).transpose();
    let compression = compression.context("cannot start the thread of the compression")?;
    Ok((meter, retention, compression))
}

async fn serve(args: &ServeArgs, state: AppState, tls: Option<TlsAcceptor>) -> anyhow::Result<()> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listener =
        listener::bind(args.listen).with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr().context("cannot read the address of the listener")?;
    let stopping = state.stopping.clone();
    // Scripts wait for this line. A closed stdout is no reason to stop.
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "tacho-hub: listening on {scheme}://{address}");
    if let Some(link) = accounts::first_link(&state.database, now_us())? {
        let text = "sign in within 15 minutes, as administrator and auditor:";
        let _ = writeln!(stdout, "tacho-hub: {text} {scheme}://{address}/sign-in#{link}");
    }
    let listener = Listener::new(listener, tls, args.connections_per_address);
    tokio::select! {
        () = listener::serve(listener, api::router(state), stopping.clone()) => {}
        () = grace_is_over(stopping) => {}
    }
    Ok(())
}

/// Files and connections need descriptors; the default limit is for programs that use select(2).
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let wanted = now.maximum.map_or(FILES_WANTED, |maximum| maximum.min(FILES_WANTED));
    if now.current.is_some_and(|current| current < wanted) {
        let limit = Rlimit { current: Some(wanted), maximum: now.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            say(&format!("cannot raise the limit of open files: {error}"));
        }
    }
}

/// A listener for the shippers of this process. It ends with the runtime.
async fn local_listener(state: &AppState) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.context("cannot listen on a loopback address")?;
    let address = listener.local_addr().context("cannot read the address of the listener")?;
    let router = api::shipping_router(state.clone());
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            say(&format!("the listener for local logs failed: {error}"));
        }
    });
    Ok(address)
}

fn stop_on_signals(stop: watch::Sender<bool>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot catch SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot catch SIGINT")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.send_replace(true);
    });
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
