//! Serves connections. `axum::serve` has no limit for the time in which the head of a request
//! arrives; this is the same with one.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceExt as _;

use super::Listener;

/// Time from the end of an answer, or from the begin of the connection, to the end of the next
/// request's head. A connection on which nothing is asked for is closed then, too. Shippers send a
/// heartbeat more often.
pub const HEAD: Duration = Duration::from_secs(30);

/// Serves until `stopping` becomes true and all requests are answered.
pub async fn serve(mut listener: Listener, router: Router, mut stopping: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let stopped = stopping.clone();
    loop {
        tokio::select! {
            (stream, address) = listener.accept() => {
                connections.spawn(connection(stream, address, router.clone(), stopped.clone()));
            }
            Some(_) = connections.join_next() => {}
            // An error means that the sender is gone, which also ends the hub.
            _ = stopping.wait_for(|stopping| *stopping) => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    address: SocketAddr,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(address));
        let router = router.clone();
        async move {
            Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|it| match it {}))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // A client that breaks off is no error of the hub.
        _ = connection.as_mut() => return,
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;

    /// A client's end of a connection to a server with two paths.
    fn connect() -> (DuplexStream, watch::Sender<bool>) {
        let (client, server) = duplex(1 << 16);
        let (stop, stopping) = watch::channel(false);
        let router = Router::new()
            .route("/", get(|| async { "hello" }))
            .route("/body", post(|body: String| async move { body.len().to_string() }));
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        tokio::spawn(connection(server, address, router, stopping));
        (client, stop)
    }

    async fn rest(client: &mut DuplexStream) -> String {
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_arrives_byte_by_byte_is_not_waited_for() {
        let (mut client, _stop) = connect();
        let begun = Instant::now();
        for byte in b"GET / HTTP/1.1\r\nHost: a-name-that-takes-long\r\n\r\n" {
            if client.write_all(&[*byte]).await.is_err() {
                break;
            }
            sleep(Duration::from_secs(1)).await;
        }
        assert!(!rest(&mut client).await.contains("hello"));
        assert!(begun.elapsed() >= HEAD);
        // It was closed, and not only at the end of the request.
        assert!(client.write_all(b"x").await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_its_own_time_and_an_idle_connection_ends() {
        let (mut client, _stop) = connect();
        let head = b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n";
        client.write_all(head).await.unwrap();
        for _ in 0..50 {
            client.write_all(b"x").await.unwrap();
            sleep(Duration::from_secs(1)).await;
        }
        let asked = Instant::now();
        let answer = rest(&mut client).await;
        assert!(answer.ends_with("\r\n\r\n50"), "{answer}");
        assert!(asked.elapsed() <= HEAD + Duration::from_secs(1), "{:?}", asked.elapsed());
    }

    #[tokio::test]
    async fn a_connection_ends_when_the_hub_stops() {
        let (mut client, stop) = connect();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = vec![0; 1024];
        let count = client.read(&mut answer).await.unwrap();
        assert!(String::from_utf8_lossy(&answer[..count]).contains("200 OK"));
        stop.send_replace(true);
        assert_eq!(rest(&mut client).await, "");
    }
}
