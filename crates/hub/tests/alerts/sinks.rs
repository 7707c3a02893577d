//! Servers that take messages: enough of SMTP and syslog for the clients of the hub.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use base64::Engine as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::BufStream;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::HANGS_AFTER;

/// A message that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Of a mail: sender, recipients, and the login.
    pub envelope: Vec<String>,
    /// The message.
    pub text: String,
}

/// A server, until it is dropped.
pub struct Sink {
    pub address: SocketAddr,
    arrived: Receiver<Arrived>,
    _runtime: Runtime,
}

/// What a server does.
#[derive(Clone)]
pub enum Kind {
    /// SMTP, with TLS from the start if there is a certificate.
    Smtp(Option<TlsAcceptor>),
    /// SMTP that offers STARTTLS, and logins after it.
    StartTls(TlsAcceptor),
    /// SMTP that refuses recipients that begin with `no`.
    Choosy,
    /// Syslog over TCP or TLS, with octet counting.
    Syslog(Option<TlsAcceptor>),
}

impl Sink {
    pub fn start(kind: Kind) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), kind)
    }

    pub fn at(address: SocketAddr, kind: Kind) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, arrived) = channel();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (kind, sender) = (kind.clone(), sender.clone());
                tokio::spawn(async move {
                    // A client that breaks the connection is a case of the tests.
                    let _ = serve(stream, kind, sender).await;
                });
            }
        });
        Self { address, arrived, _runtime: runtime }
    }

    pub fn next(&self) -> Arrived {
        self.arrived.recv_timeout(HANGS_AFTER).expect("a message")
    }

    pub fn assert_no_more(&self) {
        let more = self.arrived.recv_timeout(Duration::ZERO);
        assert_eq!(more, Err(RecvTimeoutError::Timeout));
    }
}

/// An address at which no server is.
pub fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// An authority, and a server's certificate for names.
pub struct Certificates {
    directory: tempfile::TempDir,
    pub acceptor: TlsAcceptor,
}

impl Certificates {
    pub fn new(names: &[&str]) -> Self {
        // Authorities of different names, as in the world.
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("authority {number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate =
            CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.pem"), authority.pem()).unwrap();
        Self { directory, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }

    pub fn ca(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }
}

async fn serve(
    stream: tokio::net::TcpStream,
    kind: Kind,
    sender: Sender<Arrived>,
) -> io::Result<()> {
    match kind {
        Kind::Smtp(None) => smtp(stream, sender, Session::default()).await.map(drop),
        Kind::Choosy => {
            let session = Session { is_choosy: true, ..Session::default() };
            smtp(stream, sender, session).await.map(drop)
        }
        Kind::Smtp(Some(tls)) => {
            let session = Session { offers_login: true, ..Session::default() };
            smtp(tls.accept(stream).await?, sender, session).await.map(drop)
        }
        Kind::StartTls(tls) => {
            let session = Session { offers_tls: true, ..Session::default() };
            let Some(stream) = smtp(stream, sender.clone(), session).await? else { return Ok(()) };
            let session = Session { offers_login: true, is_greeted: true, ..Session::default() };
            smtp(tls.accept(stream).await?, sender, session).await.map(drop)
        }
        Kind::Syslog(None) => syslog(stream, sender).await,
        Kind::Syslog(Some(tls)) => syslog(tls.accept(stream).await?, sender).await,
    }
}

#[derive(Default)]
struct Session {
    offers_tls: bool,
    offers_login: bool,
    is_greeted: bool,
    is_choosy: bool,
    envelope: Vec<String>,
}

/// Speaks SMTP; returns the stream after STARTTLS.
async fn smtp<S>(stream: S, sender: Sender<Arrived>, mut session: Session) -> io::Result<Option<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut stream = BufStream::new(stream);
    if !session.is_greeted {
        answer(&mut stream, "220 sink").await?;
    }
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "EHLO" if session.offers_tls => answer(&mut stream, "250-sink\r\n250 STARTTLS").await?,
            "EHLO" if session.offers_login => {
                answer(&mut stream, "250-sink\r\n250 AUTH PLAIN").await?;
            }
            "EHLO" => answer(&mut stream, "250 sink").await?,
            "STARTTLS" if session.offers_tls => {
                answer(&mut stream, "220 go").await?;
                return Ok(Some(stream.into_inner()));
            }
            "AUTH" => {
                let secret = rest.strip_prefix("PLAIN ").unwrap_or_default();
                let secret = base64::engine::general_purpose::STANDARD.decode(secret);
                let secret = String::from_utf8(secret.unwrap_or_default()).unwrap_or_default();
                session.envelope.push(secret.replace('\0', "/"));
                let code = if secret.ends_with("right") { "235 in" } else { "535 wrong" };
                answer(&mut stream, code).await?;
            }
            "RCPT" if session.is_choosy && rest.contains("<no") => {
                answer(&mut stream, "550 no such mailbox").await?;
            }
            "MAIL" | "RCPT" => {
                session.envelope.push(rest.to_owned());
                answer(&mut stream, "250 ok").await?;
            }
            "DATA" => {
                answer(&mut stream, "354 go").await?;
                let text = data(&mut stream).await?;
                let envelope = std::mem::take(&mut session.envelope);
                // Received for the test only when the client can know it.
                answer(&mut stream, "250 taken").await?;
                let _ = sender.send(Arrived { envelope, text });
            }
            "RSET" | "NOOP" => answer(&mut stream, "250 ok").await?,
            "QUIT" => return answer(&mut stream, "221 bye").await.map(|()| None),
            _ => answer(&mut stream, "502 what").await?,
        }
    }
}

async fn answer<S: AsyncWrite + Unpin>(stream: &mut S, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes()).await?;
    stream.write_all(b"\r\n").await?;
    stream.flush().await
}

async fn data<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut BufStream<S>) -> io::Result<String> {
    let mut text = String::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line == ".\r\n" {
            return Ok(text);
        }
        text.push_str(line.strip_prefix('.').unwrap_or(&line));
    }
}

/// Reads frames with their length before them, until the client closes the connection.
async fn syslog<S>(stream: S, sender: Sender<Arrived>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut stream = BufStream::new(stream);
    loop {
        let mut length = Vec::new();
        if stream.read_until(b' ', &mut length).await? == 0 {
            return stream.shutdown().await;
        }
        let length = String::from_utf8_lossy(&length);
        let length: usize = length.trim_end().parse().map_err(io::Error::other)?;
        let mut text = vec![0; length];
        stream.read_exact(&mut text).await?;
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        let _ = sender.send(Arrived { envelope: Vec::new(), text });
    }
}
