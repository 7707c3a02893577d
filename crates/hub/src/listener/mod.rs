//! The public listener: plain or TLS, with limits, so that one client cannot take all connections.
//!
//! | limit | |
//! |---|---|
//! | connections | [`CONNECTIONS_MAX`], and `--connections-per-address` from one address |
//! | handshake | [`HANDSHAKE`] |
//! | head of a request | [`HEAD`] |
//! | silence | [`SILENCE`] without a byte in either direction |
//!
//! Handshakes run in tasks of their own: a slow one delays no other connection.

mod server;
mod stream;
mod tls;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::say::say;
pub use server::{HEAD, serve};
pub use stream::Guarded;
use stream::Stream;
pub use tls::{TlsError, acceptor};

/// Connections of all clients.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Time for a TLS handshake.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// A connection on which no byte moves for so long is closed. Shippers send heartbeats, and live
/// views get a comment, more often.
pub const SILENCE: Duration = Duration::from_secs(120);
/// Connections that wait in the kernel until they are accepted, at most `net.core.somaxconn`. With
/// a full queue a client waits a second: after a restart of the hub all shippers connect at once.
const BACKLOG: u32 = 4_096;
/// Connections that are ready and wait for the server.
const READY_MAX: usize = 64;
/// Pause after the system refuses a connection, as without free file descriptors.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);

/// Listens on an address, for [`Listener::new`].
///
/// # Errors
/// It is in use, or not an address of this machine.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Connections of a hub that has ended do not keep the next one from the address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A listener with limits, for [`serve`].
pub struct Listener {
    ready: mpsc::Receiver<(Guarded, SocketAddr)>,
}

impl Listener {
    /// Accepts connections in a task of the runtime, until it is dropped.
    #[must_use]
    pub fn new(listener: TcpListener, tls: Option<TlsAcceptor>, per_address: usize) -> Self {
        let (sender, ready) = mpsc::channel(READY_MAX);
        let limits = Arc::new(Limits { per_address, counts: Mutex::default() });
        tokio::spawn(accept(listener, tls, limits, sender));
        Self { ready }
    }

    /// The next connection, and the address of its client.
    async fn accept(&mut self) -> (Guarded, SocketAddr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The task has ended with the runtime: there are no more connections.
            None => std::future::pending().await,
        }
    }
}

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    limits: Arc<Limits>,
    ready: mpsc::Sender<(Guarded, SocketAddr)>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ready.closed() => return,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                say(&format!("cannot accept a connection: {error}"));
                sleep(REFUSED_PAUSE).await;
                continue;
            }
        };
        // Over a limit the connection is closed at once.
        let Some(slot) = Limits::take(&limits, address.ip()) else { continue };
        let (tls, ready) = (tls.clone(), ready.clone());
        tokio::spawn(async move {
            if let Some(stream) = handshake(stream, tls).await {
                // The server is gone: the connection is closed.
                let _ = ready.send((Guarded::new(stream, slot, SILENCE), address)).await;
            }
        });
    }
}

async fn handshake(stream: TcpStream, tls: Option<TlsAcceptor>) -> Option<Stream> {
    // Small answers go out at once. Without it they are only slower.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return Some(Stream::Plain(stream)) };
    // A client that does not speak TLS is its own problem, and there are many of them.
    let stream = timeout(HANDSHAKE, tls.accept(stream)).await.ok()?.ok()?;
    Some(Stream::Tls(Box::new(stream)))
}

/// Counts of connections.
pub struct Limits {
    per_address: usize,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    all: usize,
    by_address: BTreeMap<IpAddr, usize>,
}

/// The right to one connection, until it is dropped.
pub struct Slot {
    limits: Arc<Limits>,
    address: IpAddr,
}

impl Limits {
    fn take(limits: &Arc<Self>, address: IpAddr) -> Option<Slot> {
        let address = address.to_canonical();
        let mut counts = limits.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = counts.by_address.get(&address).copied().unwrap_or(0);
        if counts.all >= CONNECTIONS_MAX || known >= limits.per_address {
            return None;
        }
        counts.all += 1;
        counts.by_address.insert(address, known + 1);
        Some(Slot { limits: Arc::clone(limits), address })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.limits.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all -= 1;
        if let Some(count) = counts.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_share_and_gets_it_back() {
        let limits = Arc::new(Limits { per_address: 2, counts: Mutex::default() });
        let (one, two) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let first = Limits::take(&limits, one).unwrap();
        let _second = Limits::take(&limits, "::ffff:10.0.0.1".parse().unwrap()).unwrap();
        assert!(Limits::take(&limits, one).is_none());
        let _other = Limits::take(&limits, two).unwrap();
        drop(first);
        assert!(Limits::take(&limits, one).is_some());
    }
}
