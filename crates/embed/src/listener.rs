//! The socket at which recorders connect, and the recorder that waits for the log.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use tacho_recorder::control::Severity;
use tacho_recorder::external::channel::{Channel, Received};
use tacho_recorder::external::message::{Bytes, PROTOCOL, ToRecorder, ToServer};
use tacho_recorder::external::socket::{self, Peer};

use tacho_ring::sys;

use crate::error_log;

/// How long a new connection may take to identify itself, µs. Others wait behind it.
const HELLO_US: i64 = 5_000_000;

/// A recorder that may get the log.
pub struct Candidate {
    pub channel: Channel,
    pub peer: Peer,
}

/// Accepts recorders, see the module documentation.
pub struct Listener {
    arena_directory: PathBuf,
    log_directory: PathBuf,
    /// The socket and its path, while it is open.
    listener: Option<(UnixListener, PathBuf)>,
    /// A connection that has not identified itself yet, and since when.
    pending: Option<(Candidate, i64)>,
    /// The last message to the error log.
    said: String,
}

impl Listener {
    /// For a log directory; closed.
    pub fn new(arena_directory: &Path, log_directory: &Path) -> Listener {
        Listener {
            arena_directory: arena_directory.to_owned(),
            log_directory: log_directory.to_owned(),
            listener: None,
            pending: None,
            said: String::new(),
        }
    }

    fn say_once(&mut self, severity: Severity, text: &str) {
        if self.said != text {
            error_log::write(severity, text);
            text.clone_into(&mut self.said);
        }
    }

    /// Opens or closes it. Only while this process holds the lock of the log.
    pub fn set_open(&mut self, open: bool) {
        if open == self.listener.is_some() {
            return;
        }
        if !open {
            self.close();
            return;
        }
        match socket::listen(&self.arena_directory, &self.log_directory) {
            Ok(listener) => self.listener = Some(listener),
            Err(error) => {
                let text = format!(
                    "no recorder outside the server can write: cannot create a socket in {}: \
                     {error}. The server writes the log itself",
                    self.arena_directory.display()
                );
                self.say_once(Severity::Error, &text);
            }
        }
    }

    fn close(&mut self) {
        self.pending = None;
        if let Some((_, path)) = self.listener.take()
            && let Err(error) = std::fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            let text = format!("cannot remove {}: {error}", path.display());
            self.say_once(Severity::Warning, &text);
        }
    }

    /// Whether a recorder may connect: then it is worth looking more often.
    pub fn is_open(&self) -> bool {
        self.listener.is_some()
    }

    /// The recorder that waits for the log, if any. Does not wait.
    pub fn next(&mut self) -> Option<Candidate> {
        self.next_at(sys::monotonic_us())
    }

    fn next_at(&mut self, now_us: i64) -> Option<Candidate> {
        if self.pending.is_none() {
            self.pending = self.accept().map(|candidate| (candidate, now_us));
        }
        let (mut candidate, since_us) = self.pending.take()?;
        match candidate.channel.receive::<ToServer>() {
            Ok(Received::Message(ToServer::Hello { protocol, zone })) => {
                self.check(candidate, &protocol, zone)
            }
            Ok(Received::Nothing) if now_us - since_us <= HELLO_US => {
                self.pending = Some((candidate, since_us));
                None
            }
            // Silent, gone, or invalid: the recorder sees the end of the connection.
            _ => None,
        }
    }

    fn accept(&mut self) -> Option<Candidate> {
        let (stream, _) = self.listener.as_ref()?.0.accept().ok()?;
        let peer = Peer::of(&stream).ok()?;
        if !peer.is_trusted() {
            let text = format!(
                "process {} of user id {} tried to take over the audit log and was refused",
                peer.pid, peer.uid
            );
            self.say_once(Severity::Warning, &text);
            return None;
        }
        Some(Candidate { channel: Channel::new(stream).ok()?, peer })
    }

    fn check(
        &mut self,
        mut candidate: Candidate,
        protocol: &str,
        zone: Option<Bytes>,
    ) -> Option<Candidate> {
        let ours = std::env::var_os("TZ").map(|zone| Bytes(zone.as_bytes().to_vec()));
        let answer = if protocol != PROTOCOL {
            let text = format!(
                "the recorder (process {}) is of version {protocol}, and the plugin of {PROTOCOL}: \
                 install both from one build",
                candidate.peer.pid
            );
            self.say_once(Severity::Error, &text);
            ToRecorder::Refuse(text)
        } else if zone != ours {
            ToRecorder::Zone(ours)
        } else {
            return Some(candidate);
        };
        // A short line, which the socket accepts at once. A recorder that is gone does not need it.
        let _: io::Result<()> = candidate.channel.send(&answer);
        None
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_connection_does_not_block_others() {
        let dir = tempfile::tempdir().unwrap();
        let log = Path::new("/var/lib/x/tacho");
        let mut listener = Listener::new(dir.path(), log);
        listener.set_open(true);
        let _silent = socket::connect(dir.path(), log).unwrap();
        assert!(listener.next_at(0).is_none());
        let mut other = Channel::new(socket::connect(dir.path(), log).unwrap()).unwrap();
        let zone = std::env::var_os("TZ").map(|zone| Bytes(zone.as_bytes().to_vec()));
        other.send(&ToServer::Hello { protocol: PROTOCOL.to_owned(), zone }).unwrap();
        assert!(listener.next_at(HELLO_US).is_none(), "it may still identify itself");
        assert!(listener.next_at(HELLO_US + 1).is_none(), "it is closed");
        assert!(listener.next_at(HELLO_US + 1).is_some(), "the other one is accepted");
    }
}
