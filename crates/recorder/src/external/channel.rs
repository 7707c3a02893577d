//! The connection between server and recorder: sends and receives messages without blocking.

use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Read at once, bytes.
const PIECE_BYTES: usize = 64 * 1024;
/// Longest message that is accepted, bytes: 64 filters of 1 MiB, each byte as two digits, fit.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// What was received.
#[derive(Debug)]
pub enum Received<T> {
    /// A message.
    Message(T),
    /// Nothing more at the moment.
    Nothing,
    /// The other side is gone.
    End,
}

/// One end of the connection.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
    /// Bytes that could not be sent yet.
    out: Vec<u8>,
    /// An incomplete message, and how much of it is known to have no newline.
    input: Vec<u8>,
    searched: usize,
}

impl Channel {
    /// Wraps a connection.
    ///
    /// # Errors
    /// It cannot be made non-blocking.
    pub fn new(stream: UnixStream) -> io::Result<Channel> {
        stream.set_nonblocking(true)?;
        Ok(Channel { stream, out: Vec::new(), input: Vec::new(), searched: 0 })
    }

    /// For [`wait`].
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Whether bytes wait to be sent.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        !self.out.is_empty()
    }

    /// Sends a message, or as much of it as the peer accepts now; the next [`Channel::flush`] sends
    /// the rest.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, message)?;
        self.out.push(b'\n');
        self.flush()
    }

    /// Sends waiting bytes, as far as possible now.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let result = loop {
            let rest = &self.out[sent..];
            if rest.is_empty() {
                break Ok(());
            }
            // SAFETY: the descriptor is open, and `rest` is valid for its length. No SIGPIPE if the
            // peer is gone: this process may be the database server.
            let count = unsafe {
                libc::send(self.descriptor(), rest.as_ptr().cast(), rest.len(), libc::MSG_NOSIGNAL)
            };
            match usize::try_from(count) {
                Ok(count) => sent += count,
                Err(_) => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => break Err(error),
                },
            }
        };
        self.out.drain(..sent);
        result
    }

    /// Waits until the peer's kernel has everything that was sent.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn flush_all(&mut self) -> io::Result<()> {
        self.flush()?;
        while self.has_unsent() {
            wait(&[(self.descriptor(), true)], -1)?;
            self.flush()?;
        }
        Ok(())
    }

    /// The next message.
    ///
    /// # Errors
    /// The received bytes are not a message.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Received<T>> {
        loop {
            if let Some(at) = self.input[self.searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.input.split_off(self.searched + at + 1);
                let line = std::mem::replace(&mut self.input, rest);
                self.searched = 0;
                return Ok(Received::Message(serde_json::from_slice(&line)?));
            }
            self.searched = self.input.len();
            if self.input.len() > MESSAGE_BYTES_MAX {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            let mut piece = vec![0; PIECE_BYTES];
            match self.stream.read(&mut piece) {
                Ok(0) => return Ok(Received::End),
                Ok(count) => self.input.extend_from_slice(&piece[..count]),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(Received::Nothing),
                    io::ErrorKind::Interrupted => {}
                    // The peer died with unread data.
                    io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                        return Ok(Received::End);
                    }
                    _ => return Err(error),
                },
            }
        }
    }
}

/// Waits until one of the descriptors is readable (with `true`: or writable), or until the time in
/// ms has passed (-1: no limit). It may also return early.
///
/// # Errors
/// The system call failed.
pub fn wait(descriptors: &[(RawFd, bool)], timeout_ms: i32) -> io::Result<()> {
    let mut polled: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|(fd, writes)| libc::pollfd {
            fd: *fd,
            events: libc::POLLIN | if *writes { libc::POLLOUT } else { 0 },
            revents: 0,
        })
        .collect();
    // SAFETY: the vector is valid for its length.
    let count =
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout_ms) };
    match (count, io::Error::last_os_error()) {
        (0.., _) => Ok(()),
        (_, error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        (_, error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_and_in_order() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut here, mut there) = (Channel::new(here).unwrap(), Channel::new(there).unwrap());
        assert!(matches!(there.receive::<String>().unwrap(), Received::Nothing));
        // More than a socket holds.
        let long = "x".repeat(3 << 20);
        here.send(&"first").unwrap();
        here.send(&long).unwrap();
        here.send(&"a\nb").unwrap();
        assert!(here.has_unsent());
        let mut texts = Vec::new();
        while texts.len() < 3 {
            here.flush().unwrap();
            if let Received::Message(text) = there.receive::<String>().unwrap() {
                texts.push(text);
            }
        }
        assert_eq!(texts, ["first", &long, "a\nb"]);
        drop(here);
        assert!(matches!(there.receive::<String>().unwrap(), Received::End));
        assert!(there.send(&"no peer").is_err(), "and no signal");
    }

    #[test]
    fn messages_sent_before_a_death_arrive() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut here, mut there) = (Channel::new(here).unwrap(), Channel::new(there).unwrap());
        there.send(&"unread").unwrap();
        here.send(&"last words").unwrap();
        drop(here);
        let Received::Message(text) = there.receive::<String>().unwrap() else { panic!() };
        assert_eq!(text, "last words");
        assert!(matches!(there.receive::<String>().unwrap(), Received::End));
    }

    #[test]
    fn malformed_input_is_an_error() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut here, mut there) = (Channel::new(here).unwrap(), Channel::new(there).unwrap());
        here.send(&7).unwrap();
        assert!(there.receive::<String>().is_err());
    }
}
