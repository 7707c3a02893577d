//! Where recorders knock: the socket, and the one that waits to be given the log.

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

/// How long one that knocks may take to say who it is, µs. Others wait behind it.
const HELLO_US: i64 = 5_000_000;

/// A recorder that may have the log.
pub struct Candidate {
    pub channel: Channel,
    pub peer: Peer,
}

/// See the module documentation.
pub struct Door {
    arena_directory: PathBuf,
    log_directory: PathBuf,
    /// While it is open; and where that is.
    listener: Option<(UnixListener, PathBuf)>,
    /// Has not said who it is yet, and since when.
    knocking: Option<(Candidate, i64)>,
    /// What was said last to the error log.
    said: String,
}

impl Door {
    /// Of a log directory; closed.
    pub fn new(arena_directory: &Path, log_directory: &Path) -> Door {
        Door {
            arena_directory: arena_directory.to_owned(),
            log_directory: log_directory.to_owned(),
            listener: None,
            knocking: None,
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
                    "no recorder outside the server can write: making a socket in {}: {error}. \
                     The server writes itself",
                    self.arena_directory.display()
                );
                self.say_once(Severity::Error, &text);
            }
        }
    }

    fn close(&mut self) {
        self.knocking = None;
        if let Some((_, path)) = self.listener.take()
            && let Err(error) = std::fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            let text = format!("removing {}: {error}", path.display());
            self.say_once(Severity::Warning, &text);
        }
    }

    /// Whether there may be somebody soon: then it is worth a look more often.
    pub fn is_open(&self) -> bool {
        self.listener.is_some()
    }

    /// The recorder that waits for the log, if there is one. Does not wait.
    pub fn next(&mut self) -> Option<Candidate> {
        self.next_at(sys::monotonic_us())
    }

    fn next_at(&mut self, now_us: i64) -> Option<Candidate> {
        if self.knocking.is_none() {
            self.knocking = self.accept().map(|candidate| (candidate, now_us));
        }
        let (mut candidate, since_us) = self.knocking.take()?;
        match candidate.channel.receive::<ToServer>() {
            Ok(Received::Message(ToServer::Hello { protocol, zone })) => {
                self.judge(candidate, &protocol, zone)
            }
            Ok(Received::Nothing) if now_us - since_us <= HELLO_US => {
                self.knocking = Some((candidate, since_us));
                None
            }
            // It is silent, gone again, or not understood: it will hear the end of the connection.
            _ => None,
        }
    }

    fn accept(&mut self) -> Option<Candidate> {
        let (stream, _) = self.listener.as_ref()?.0.accept().ok()?;
        let peer = Peer::of(&stream).ok()?;
        if !peer.is_trusted() {
            let text = format!(
                "process {} of user id {} wanted to write the audit log, and was refused",
                peer.pid, peer.uid
            );
            self.say_once(Severity::Warning, &text);
            return None;
        }
        Some(Candidate { channel: Channel::new(stream).ok()?, peer })
    }

    fn judge(
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
        // A line: the socket takes it at once. If it is gone, it does not matter.
        let _: io::Result<()> = candidate.channel.send(&answer);
        None
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_does_not_keep_others_out() {
        let dir = tempfile::tempdir().unwrap();
        let log = Path::new("/var/lib/x/tacho");
        let mut door = Door::new(dir.path(), log);
        door.set_open(true);
        let _silent = socket::connect(dir.path(), log).unwrap();
        assert!(door.next_at(0).is_none());
        let mut other = Channel::new(socket::connect(dir.path(), log).unwrap()).unwrap();
        let zone = std::env::var_os("TZ").map(|zone| Bytes(zone.as_bytes().to_vec()));
        other.send(&ToServer::Hello { protocol: PROTOCOL.to_owned(), zone }).unwrap();
        assert!(door.next_at(HELLO_US).is_none(), "it may still speak");
        assert!(door.next_at(HELLO_US + 1).is_none(), "it is let go");
        assert!(door.next_at(HELLO_US + 1).is_some(), "the other one is heard");
    }
}
