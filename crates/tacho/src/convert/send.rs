//! Syslog messages to a receiver: UDP (RFC 5426), TCP with octet counting (RFC 6587, 3.4.1), or a
//! datagram socket such as /dev/log.
//!
//! A receiver that is away is waited for: the message at hand is sent again to the next
//! connection, and the log is read no further meanwhile. What a connection had taken when it broke
//! may be lost with it, or come twice; these protocols have no answer that would tell.

use std::fmt;
use std::io::{self, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::say;

/// First and longest wait between two attempts to reach the receiver.
const WAIT_FIRST: Duration = Duration::from_millis(200);
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How long Ctrl-C is not looked for while waiting.
const WAIT_STEP: Duration = Duration::from_millis(50);
/// A receiver that takes nothing for this long is taken for dead.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// `udp://host:port`
    Udp(String),
    /// `tcp://host:port`
    Tcp(String),
    /// The path of a datagram socket.
    Unix(PathBuf),
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, address) = match text.split_once("://") {
            None if text.starts_with('/') => return Ok(Self::Unix(PathBuf::from(text))),
            None => ("", text),
            Some(parts) => parts,
        };
        let has_port = address
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        match scheme {
            "udp" if has_port => Ok(Self::Udp(address.to_owned())),
            "tcp" if has_port => Ok(Self::Tcp(address.to_owned())),
            _ => {
                Err("expected udp://HOST:PORT, tcp://HOST:PORT or the path of a socket".to_owned())
            }
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Udp(address) => write!(formatter, "udp://{address}"),
            Self::Tcp(address) => write!(formatter, "tcp://{address}"),
            Self::Unix(path) => write!(formatter, "{}", path.display()),
        }
    }
}

/// An open way to the receiver.
enum Link {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Unix(UnixDatagram),
}

impl Link {
    fn open(to: &Destination) -> io::Result<Self> {
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
            Destination::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
                Ok(Self::Tcp(stream))
            }
            Destination::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                Ok(Self::Unix(socket))
            }
        }
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Udp(socket) => socket.send(message).map(drop),
            Self::Unix(socket) => socket.send(message).map(drop),
            Self::Tcp(stream) => {
                let mut frame = format!("{} ", message.len()).into_bytes();
                frame.extend_from_slice(message);
                stream.write_all(&frame)
            }
        }
    }
}

/// Takes lines and sends each as a message.
pub struct Sender {
    to: Destination,
    link: Option<Link>,
    line: Vec<u8>,
    /// Set when the user wants to leave.
    stop: Arc<AtomicBool>,
    /// Messages that no datagram can hold.
    too_large: Arc<AtomicU64>,
}

impl Sender {
    /// Connects with the first message. `too_large` counts messages that could not be sent.
    pub fn new(to: Destination, stop: Arc<AtomicBool>, too_large: Arc<AtomicU64>) -> Self {
        Self { to, link: None, line: Vec::new(), stop, too_large }
    }

    fn send(&mut self) -> io::Result<()> {
        let mut wait = WAIT_FIRST;
        let mut is_told = false;
        loop {
            let Err(error) = self.try_send() else {
                if is_told {
                    say::problem(format!("{}: reached again", self.to));
                }
                return Ok(());
            };
            if error.raw_os_error() == Some(libc::EMSGSIZE) {
                self.too_large.fetch_add(1, Ordering::Relaxed);
                let bytes = self.line.len();
                say::problem(format!("{}: a message of {bytes} bytes is too large", self.to));
                return Ok(());
            }
            self.link = None;
            if !std::mem::replace(&mut is_told, true) {
                say::problem(format!("{}: {error}; trying again", self.to));
            }
            self.sleep(wait)?;
            wait = (wait * 2).min(WAIT_MAX);
        }
    }

    fn try_send(&mut self) -> io::Result<()> {
        if self.link.is_none() {
            self.link = Some(Link::open(&self.to)?);
        }
        self.link.as_mut().map_or(Ok(()), |link| link.send(&self.line))
    }

    fn sleep(&self, time: Duration) -> io::Result<()> {
        let mut left = time;
        while !left.is_zero() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other(format!("{}: ended before it was reached", self.to)));
            }
            let step = left.min(WAIT_STEP);
            std::thread::sleep(step);
            left -= step;
        }
        Ok(())
    }
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // One message at a time: after an error nobody can tell how many of more were sent.
        match bytes.iter().position(|byte| *byte == b'\n') {
            None => {
                self.line.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            Some(newline) => {
                self.line.extend_from_slice(&bytes[..newline]);
                self.send()?;
                self.line.clear();
                Ok(newline + 1)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::TcpListener;

    fn sender(to: &str) -> Sender {
        Sender::new(to.parse().unwrap(), Arc::default(), Arc::default())
    }

    #[test]
    fn destinations() {
        for good in ["udp://log.example:514", "tcp://[::1]:601", "/dev/log"] {
            assert_eq!(good.parse::<Destination>().unwrap().to_string(), good);
        }
        for bad in ["", "log:514", "tls://log:6514", "udp://log", "tcp://:601", "udp://log:99999"] {
            assert!(bad.parse::<Destination>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_datagram_is_a_message() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Only a failed test waits.
        receiver.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let to = format!("udp://{}", receiver.local_addr().unwrap());
        let mut sender = sender(&to);
        sender.write_all(b"one\ntw").unwrap();
        sender.write_all(b"o\n").unwrap();
        let mut buffer = [0; 100];
        for expected in ["one", "two"] {
            let length = receiver.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], expected.as_bytes());
        }
        // More than a datagram can hold: told and counted, and the next one goes.
        sender.write_all(&[&[b'x'; 70_000][..], b"\nthree\n"].concat()).unwrap();
        assert_eq!(sender.too_large.load(Ordering::Relaxed), 1);
        let length = receiver.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"three");
    }

    #[test]
    fn a_socket_of_the_machine() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let receiver = UnixDatagram::bind(&path).unwrap();
        sender(path.to_str().unwrap()).write_all(b"message\n").unwrap();
        let mut buffer = [0; 100];
        let length = receiver.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"message");
    }

    #[test]
    fn a_stream_is_counted_and_connected_again() {
        let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = receiver.local_addr().unwrap();
        let mut sender = sender(&format!("tcp://{address}"));
        sender.write_all(b"first\n").unwrap();
        let (mut stream, _) = receiver.accept().unwrap();
        let mut frame = [0; 7];
        stream.read_exact(&mut frame).unwrap();
        assert_eq!(&frame, b"5 first");
        drop(stream);
        // The receiver accepts anew while messages go on; those that the broken connection took
        // are lost, the next ones come.
        let reader = std::thread::spawn(move || {
            let (mut stream, _) = receiver.accept().unwrap();
            let mut frame = [0; 6];
            stream.read_exact(&mut frame).unwrap();
            frame
        });
        while !reader.is_finished() {
            sender.write_all(b"next\n").unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(&reader.join().unwrap(), b"4 next");
    }

    #[test]
    fn ctrl_c_ends_the_wait() {
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut sender = sender(&format!("tcp://{unused}"));
        sender.stop.store(true, Ordering::Relaxed);
        assert!(sender.write_all(b"lost\n").is_err());
    }
}
