//! Where recorders knock: the socket, and the one that waits to be given the log.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use tacho_recorder::control::Severity;
use tacho_recorder::external::channel::{Channel, Received};
use tacho_recorder::external::message::{Bytes, PROTOCOL, ToRecorder, ToServer};
use tacho_recorder::external::socket::{self, Peer};

use crate::error_log;

/// A recorder that may have the log.
pub struct Candidate {
    pub channel: Channel,
    pub peer: Peer,
}

/// See the module documentation.
pub struct Door {
    path: PathBuf,
    listener: Option<UnixListener>,
    /// Has not said who it is yet.
    knocking: Option<Candidate>,
    /// What was said last to the error log.
    said: String,
}

impl Door {
    /// Of a log directory; closed.
    pub fn new(arena_directory: &Path, log_directory: &Path) -> Door {
        let path = socket::path(arena_directory, log_directory);
        Door { path, listener: None, knocking: None, said: String::new() }
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
        match socket::listen(&self.path) {
            Ok(listener) => self.listener = Some(listener),
            Err(error) => {
                let text = format!(
                    "no recorder outside the server can write: {}: {error}. The server writes \
                     itself",
                    self.path.display()
                );
                self.say_once(Severity::Error, &text);
            }
        }
    }

    fn close(&mut self) {
        self.knocking = None;
        if self.listener.take().is_some()
            && let Err(error) = std::fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            let text = format!("removing {}: {error}", self.path.display());
            self.say_once(Severity::Warning, &text);
        }
    }

    /// Whether there may be somebody soon: then it is worth a look more often.
    pub fn is_open(&self) -> bool {
        self.listener.is_some()
    }

    /// The recorder that waits for the log, if there is one. Does not wait.
    pub fn next(&mut self) -> Option<Candidate> {
        if self.knocking.is_none() {
            self.knocking = self.accept();
        }
        let mut candidate = self.knocking.take()?;
        match candidate.channel.receive::<ToServer>() {
            Ok(Received::Message(ToServer::Hello { protocol, zone })) => {
                self.judge(candidate, &protocol, zone)
            }
            Ok(Received::Nothing) => {
                self.knocking = Some(candidate);
                None
            }
            // It is gone again, or not understood: it will hear the end of the connection.
            _ => None,
        }
    }

    fn accept(&mut self) -> Option<Candidate> {
        let (stream, _) = self.listener.as_ref()?.accept().ok()?;
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
