//! Accepts connections. A client that is silent, or that does not read its answer, does not keep
//! one for ever, and there are only so many.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Sleep, sleep};
use tower::ServiceExt as _;

use crate::say::say;

/// Most connections, if the process may have twice as many files.
const CONNECTIONS_MAX: usize = 10_000;
/// Pause after an error of accept: usually there are no more files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a connection may do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. Others wait.
    pub connections: usize,
    /// How long a connection may be without the whole head of its next request.
    pub head: Duration,
    /// How long a client may read nothing of what is sent to it.
    pub write: Duration,
}

impl Limits {
    /// Those of a hub; raises the number of files that the process may open as far as permitted.
    #[must_use]
    pub fn of_process() -> Self {
        let connections = CONNECTIONS_MAX.min(files_max() / 2).max(1);
        Self { connections, head: Duration::from_secs(60), write: Duration::from_secs(30) }
    }
}

fn files_max() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    let files = if setrlimit(Resource::Nofile, raised).is_ok() { maximum } else { current };
    files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

/// Serves until `stopping` becomes true and all requests have ended.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) {
    let connections = Arc::new(Semaphore::new(limits.connections));
    loop {
        let accepted = async {
            let permit = Arc::clone(&connections).acquire_owned().await;
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            accepted = accepted => accepted,
            () = until_true(&mut stopping) => break,
        };
        match (accepted, permit) {
            (Ok((stream, address)), Ok(permit)) => {
                let (router, stopping) = (router.clone(), stopping.clone());
                tokio::spawn(connection(stream, address, router, limits, stopping, permit));
            }
            (Err(error), _) => {
                say(&format!("cannot accept a connection: {error}"));
                sleep(ACCEPT_PAUSE).await;
            }
            // The semaphore is never closed.
            (Ok(_), Err(_)) => break,
        }
    }
    drop(listener);
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    if connections.acquire_many(all).await.is_err() {
        say("the connections are not counted any more");
    }
}

async fn until_true(stopping: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, which also ends the hub.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

async fn connection(
    stream: TcpStream,
    address: SocketAddr,
    router: Router,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(address));
        router.clone().oneshot(request)
    });
    let io = TokioIo::new(Patient { stream, patience: limits.write, sleep: None });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.head);
    let mut connection = pin!(builder.serve_connection(io, service));
    // Errors are those of the client: it went away, or was too slow.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = until_true(&mut stopping) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A connection that fails if nothing of what is written is read for too long.
struct Patient {
    stream: TcpStream,
    patience: Duration,
    /// Runs while a write waits.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn limit<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.sleep = None;
            return result;
        }
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        match sleep.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limit(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.limit(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.limit(context, result)
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    /// A server whose answers have so many bytes, and what stops it.
    async fn started(
        limits: Limits,
        bytes: usize,
    ) -> (SocketAddr, watch::Sender<bool>, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let text = "x".repeat(bytes);
        let router = Router::new().route("/", get(|| async move { text }));
        let (stop, stopping) = watch::channel(false);
        (address, stop, tokio::spawn(serve(listener, router, limits, stopping)))
    }

    fn limits(connections: usize, head_ms: u64, write_ms: u64) -> Limits {
        let ms = Duration::from_millis;
        Limits { connections, head: ms(head_ms), write: ms(write_ms) }
    }

    #[tokio::test]
    async fn a_silent_client_loses_its_connection_to_another_one() {
        let (address, _stop, _server) = started(limits(1, 50, 60_000), 3).await;
        let mut silent = TcpStream::connect(address).await.unwrap();
        silent.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        let mut other = TcpStream::connect(address).await.unwrap();
        other.write_all(REQUEST).await.unwrap();
        let mut answer = String::new();
        other.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("xxx"), "{answer}");
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_loses_its_connection_to_another_one() {
        let (address, _stop, _server) = started(limits(1, 60_000, 50), 32 << 20).await;
        let mut deaf = TcpStream::connect(address).await.unwrap();
        deaf.write_all(REQUEST).await.unwrap();
        let mut other = TcpStream::connect(address).await.unwrap();
        other.write_all(REQUEST).await.unwrap();
        let mut head = [0; 12];
        other.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
    }

    #[tokio::test]
    async fn it_stops_when_the_requests_have_ended() {
        let (address, stop, server) = started(limits(2, 60_000, 60_000), 3).await;
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(REQUEST).await.unwrap();
        let mut answer = [0; 15];
        idle.read_exact(&mut answer).await.unwrap();
        stop.send_replace(true);
        server.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }
}
