//! A TCP proxy whose network is bad in a way that a test chooses.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes that are forwarded at a time.
const PART_BYTES: usize = 16 << 10;

/// What is wrong with the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// A connection is cut after this many bytes of the client.
    CutAfter(u64),
    /// Only so many bytes of the client at a time, with a pause after each.
    Slow {
        /// Bytes at a time.
        bytes: usize,
        /// The pause.
        pause: Duration,
    },
    /// Requests arrive, and the connection is cut instead of the answer.
    LoseAnswers,
}

#[derive(Debug)]
struct ProxyState {
    hub: SocketAddr,
    fault: Mutex<Fault>,
    faults: AtomicU64,
}

impl ProxyState {
    fn fault(&self) -> Fault {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) {
        self.faults.fetch_add(1, Ordering::Relaxed);
    }
}

/// A proxy in front of a hub. Its threads end with the process.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<ProxyState>,
}

impl Proxy {
    /// Starts it on a free port of loopback, without a fault.
    ///
    /// # Errors
    /// There is no port.
    pub fn start(hub: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let fault = Mutex::new(Fault::None);
        let state = Arc::new(ProxyState { hub, fault, faults: AtomicU64::new(0) });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(&client, &state));
            }
        });
        Ok(Self { address, state })
    }

    /// Where the client connects to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the fault, also of connections that are open.
    pub fn set(&self, fault: Fault) {
        *self.state.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// How often a fault has happened.
    pub fn faults(&self) -> u64 {
        self.state.faults.load(Ordering::Relaxed)
    }
}

/// Forwards both directions until one ends.
fn serve(client: &TcpStream, state: &ProxyState) {
    // A hub that is down is a connection that is cut.
    let Ok(hub) = TcpStream::connect(state.hub) else { return };
    thread::scope(|scope| {
        scope.spawn(|| {
            // That a peer has gone is what this is for.
            let _ = answers(&hub, client, state);
            cut(client, &hub);
        });
        let _ = requests(client, &hub, state);
        cut(client, &hub);
    });
}

fn cut(client: &TcpStream, hub: &TcpStream) {
    for stream in [client, hub] {
        // It fails only if the peer has cut it first.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn requests(mut client: &TcpStream, mut hub: &TcpStream, state: &ProxyState) -> io::Result<()> {
    let mut part = vec![0; PART_BYTES];
    let mut sent: u64 = 0;
    loop {
        let count = client.read(&mut part)?;
        if count == 0 {
            return Ok(());
        }
        match state.fault() {
            Fault::CutAfter(limit) if sent + count as u64 > limit => {
                let rest = usize::try_from(limit.saturating_sub(sent)).unwrap_or(count).min(count);
                hub.write_all(&part[..rest])?;
                state.count();
                return Ok(());
            }
            Fault::Slow { bytes, pause } => {
                for piece in part[..count].chunks(bytes) {
                    hub.write_all(piece)?;
                    thread::sleep(pause);
                }
                state.count();
            }
            _ => hub.write_all(&part[..count])?,
        }
        sent += count as u64;
    }
}

fn answers(mut hub: &TcpStream, mut client: &TcpStream, state: &ProxyState) -> io::Result<()> {
    let mut part = vec![0; PART_BYTES];
    loop {
        let count = hub.read(&mut part)?;
        if count == 0 {
            return Ok(());
        }
        if state.fault() == Fault::LoseAnswers {
            state.count();
            return Ok(());
        }
        client.write_all(&part[..count])?;
    }
}
