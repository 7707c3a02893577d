//! An open connection to the receiver.
//!
//! Writes to a stream do not block for long, so that Ctrl-C is handled. Reads only find the end of
//! the connection, and in TLS its reason: receivers send no data.

use std::io::{self, Read as _, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustls::ClientConnection;

use super::destination::Destination;
use crate::tls::Tls;

/// How long a receiver may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two checks for Ctrl-C while the receiver reads nothing.
const WRITE_STEP: Duration = Duration::from_millis(100);
/// A receiver that reads nothing for this long counts as dead.
const STALL_MAX: Duration = Duration::from_secs(120);
/// The same after Ctrl-C.
const STALL_MAX_LEAVING: Duration = Duration::from_secs(5);
/// How long a receiver may take to confirm that it has read everything.
const GOODBYE_MAX: Duration = Duration::from_secs(5);
/// How long it may take to close the connection after its TLS close_notify.
const FAREWELL_MAX: Duration = Duration::from_secs(1);
/// An idle connection is probed after this time, and given up after so many probes at the same
/// interval: firewalls drop connections without a message to either side.
const KEEPALIVE_SECONDS: libc::c_int = 60;
const KEEPALIVE_TRIES: libc::c_int = 5;

/// How a connection ended.
#[derive(Debug)]
pub enum End {
    /// The receiver closed it, and had read all that its kernel had taken.
    Closed,
    /// What the receiver has read is unknown.
    Broken(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// An open connection to the receiver.
pub enum Link {
    /// A message is a datagram.
    Udp(UdpSocket),
    /// A message is a datagram.
    Unix(UnixDatagram),
    /// A message is a frame.
    Stream(Box<Stream>),
}

impl Link {
    /// Connects to the receiver.
    ///
    /// # Errors
    /// It is not reachable, or its certificate is not accepted.
    pub fn open(to: &Destination, tls: Option<&Tls>) -> io::Result<Self> {
        match to {
            Destination::Udp(address) => {
                // The family of the receiver's address is not known before it is resolved.
                let bound = UdpSocket::bind("[::]:0").or_else(|_| UdpSocket::bind("0.0.0.0:0"));
                let socket = bound?;
                if socket.connect(address).is_ok() {
                    return Ok(Self::Udp(socket));
                }
                let socket = UdpSocket::bind("0.0.0.0:0")?;
                socket.connect(address)?;
                Ok(Self::Udp(socket))
            }
            Destination::Tcp(address) | Destination::Tls(address) => {
                Stream::open(address, tls).map(|stream| Self::Stream(Box::new(stream)))
            }
            Destination::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                Ok(Self::Unix(socket))
            }
        }
    }

    /// Hands a message to the system.
    ///
    /// # Errors
    /// The connection has ended, or the receiver reads nothing.
    pub fn send(&mut self, message: &[u8], stop: &AtomicBool) -> Result<(), End> {
        match self {
            Self::Udp(socket) => Ok(socket.send(message).map(drop)?),
            Self::Unix(socket) => Ok(socket.send(message).map(drop)?),
            Self::Stream(stream) => stream.send(message, stop),
        }
    }
}

/// A TCP connection, with or without TLS in it.
pub struct Stream {
    socket: Counted,
    tls: Option<ClientConnection>,
}

impl Stream {
    fn open(address: &str, tls: Option<&Tls>) -> io::Result<Self> {
        let socket = connect(address)?;
        keep_alive(&socket)?;
        socket.set_read_timeout(Some(CONNECT_TIMEOUT))?;
        socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
        let mut stream = Self { socket: Counted { socket, written: 0 }, tls: None };
        if let Some(tls) = tls {
            let mut connection = ClientConnection::new(tls.config.clone(), tls.name.clone())
                .map_err(io::Error::other)?;
            // A message is encrypted whole, however large, and then written.
            connection.set_buffer_limit(None);
            while connection.is_handshaking() {
                connection.complete_io(&mut stream.socket).map_err(in_time)?;
            }
            stream.tls = Some(connection);
        }
        stream.socket.socket.set_write_timeout(Some(WRITE_STEP))?;
        Ok(stream)
    }

    fn send(&mut self, message: &[u8], stop: &AtomicBool) -> Result<(), End> {
        let mut frame = Vec::with_capacity(message.len() + 12);
        write!(frame, "{} ", message.len())?;
        frame.extend_from_slice(message);
        let Self { socket, tls } = self;
        let mut patience = Patience::new();
        match tls {
            None => {
                let mut rest = &frame[..];
                while !rest.is_empty() {
                    let count = patience.write(stop, || socket.write(rest))?;
                    rest = rest.get(count..).unwrap_or_default();
                }
            }
            Some(tls) => {
                tls.writer().write_all(&frame)?;
                while tls.wants_write() {
                    patience.write(stop, || tls.write_tls(socket))?;
                }
            }
        }
        Ok(())
    }

    /// Looks whether the receiver is still there.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&mut self) -> Result<(), End> {
        while self.is_readable()? {
            self.read_some()?;
        }
        Ok(())
    }

    /// Reads what has come, or waits for it as long as the socket's timeout says.
    fn read_some(&mut self) -> Result<(), End> {
        let Some(tls) = &mut self.tls else {
            // Syslog has no answers; received data is ignored.
            let count = self.socket.socket.read(&mut [0; 1024])?;
            return if count == 0 { Err(End::Closed) } else { Ok(()) };
        };
        if tls.read_tls(&mut self.socket.socket)? == 0 {
            // Without a close_notify, TLS was cut off, and the data in its buffers is lost.
            return Err(End::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
        let state = tls.process_new_packets().map_err(io::Error::other)?;
        let mut unwanted = [0; 1024];
        let mut left = state.plaintext_bytes_to_read();
        while left > 0 {
            left = left.saturating_sub(tls.reader().read(&mut unwanted)?.max(1));
        }
        if state.peer_has_closed() {
            return Err(self.after_farewell());
        }
        // An answer of the protocol itself, such as a new key. If there is no room, it goes with
        // the next message.
        while tls.wants_write() {
            match tls.write_tls(&mut self.socket) {
                Err(error) if is_timeout(&error) => break,
                written => written?,
            };
        }
        Ok(())
    }

    /// The receiver has taken leave in TLS; only how TCP ends says whether it had read all.
    fn after_farewell(&mut self) -> End {
        let socket = &mut self.socket.socket;
        if let Err(error) = socket.set_read_timeout(Some(FAREWELL_MAX)) {
            return End::Broken(error);
        }
        loop {
            match socket.read(&mut [0; 1024]) {
                Ok(0) => return End::Closed,
                Ok(_) => {}
                Err(error) if is_timeout(&error) => {
                    let text = "the receiver ended TLS without closing the connection";
                    return End::Broken(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                Err(error) => return End::Broken(error),
            }
        }
    }

    fn is_readable(&self) -> io::Result<bool> {
        let mut poll =
            libc::pollfd { fd: self.socket.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd, whose descriptor is open; no waiting.
        match unsafe { libc::poll(&raw mut poll, 1, 0) } {
            -1 => Err(io::Error::last_os_error()),
            count => Ok(count > 0),
        }
    }

    /// How much was written, bytes on the wire.
    pub fn written(&self) -> u64 {
        self.socket.written
    }

    /// How much of it the receiver's kernel has taken.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn taken(&self) -> io::Result<u64> {
        let mut waiting: libc::c_int = 0;
        // SAFETY: the descriptor is open, and TIOCOUTQ (SIOCOUTQ) stores one int.
        let answer = unsafe {
            libc::ioctl(self.socket.socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut waiting)
        };
        if answer == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(self.socket.written.saturating_sub(u64::from(waiting.unsigned_abs())))
    }

    /// Says that nothing more comes, and waits until the receiver has closed its side, too: then
    /// it has read all. A receiver that does not is no failure.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn say_goodbye(&mut self) -> Result<(), End> {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            while tls.wants_write() {
                tls.write_tls(&mut self.socket)?;
            }
        }
        self.socket.socket.shutdown(Shutdown::Write)?;
        self.socket.socket.set_read_timeout(Some(WRITE_STEP))?;
        let begun = Instant::now();
        while begun.elapsed() < GOODBYE_MAX {
            match self.read_some() {
                Ok(()) => {}
                Err(End::Closed) => return Ok(()),
                // Many take no leave of their own behind ours.
                Err(End::Broken(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(());
                }
                Err(End::Broken(error)) if is_timeout(&error) => {}
                Err(end) => return Err(end),
            }
        }
        Ok(())
    }
}

/// Waits for a receiver that does not read for a while.
struct Patience {
    last: Instant,
}

impl Patience {
    fn new() -> Self {
        Self { last: Instant::now() }
    }

    fn write(
        &mut self,
        stop: &AtomicBool,
        mut write: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            match write() {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.last = Instant::now();
                    return Ok(count);
                }
                Err(error) if is_timeout(&error) => {
                    let leaving = stop.load(Ordering::Relaxed);
                    let limit = if leaving { STALL_MAX_LEAVING } else { STALL_MAX };
                    if self.last.elapsed() >= limit {
                        return Err(io::Error::other("the receiver stopped reading"));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A timeout of the socket is EAGAIN, which says nothing to people.
fn in_time(error: io::Error) -> io::Error {
    if is_timeout(&error) { io::Error::other("no TLS answer in time") } else { error }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn keep_alive(socket: &TcpStream) -> io::Result<()> {
    for (level, option, value) in [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, KEEPALIVE_SECONDS),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, KEEPALIVE_SECONDS),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, KEEPALIVE_TRIES),
    ] {
        let value: libc::c_int = value;
        // SAFETY: the descriptor is open, and each of these options takes one int.
        let answer = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                level,
                option,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if answer == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Counts what is written.
struct Counted {
    socket: TcpStream,
    written: u64,
}

impl io::Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.socket.write(bytes)?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
