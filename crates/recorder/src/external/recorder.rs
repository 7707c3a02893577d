//! The recorder outside the server: waits for the server, writes its log, recovers the arenas of
//! dead servers. While it serves a server, `session` receives messages, and `writing` is the thread
//! that writes.

use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tacho_ring::sys;
use tacho_settings::SettingNames;

use super::channel::{Channel, Received, wait};
use super::message::{Attach, Bytes, FilterList, PROTOCOL, ToRecorder, ToServer};
use super::session::{Session, lock};
use super::socket::{self, Peer};
use super::watched::WatchedArenas;
use super::writing::{self, Written};
use crate::arena_file::{self, ArenaFile};
use crate::arena_list;
use crate::control::{Control, Log, Severity, Status};
use crate::opening;
use crate::recover::{self, RecoverError};
use crate::writer::Writer;

/// Interval between searches for a server, ms.
const LOOK_EVERY_MS: i32 = 200;
/// Wait before another attempt to serve a server, ms.
const REFUSED_MS: i32 = 5_000;
/// How long another process may hold the lock of the log after the server has released it, µs.
const LOCKED_US: i64 = 5_000_000;
/// Destination of this process's messages.
pub type Say = Arc<dyn Fn(Severity, &str) + Send + Sync>;

/// Where the recorder works.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The log directory (canonical path).
    pub log_directory: PathBuf,
    /// The server's arena directory.
    pub arena_directory: PathBuf,
    /// The signing key, for arenas of servers that this recorder never served. Empty: the next
    /// server seals the recovered lines.
    pub signing_key_file: PathBuf,
}

/// Why it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A caller asked for it.
    Stopped,
    /// The server's `TZ` is this one, and the process must restart with it.
    Zone(Option<OsString>),
}

/// How a connection ended.
enum Left {
    /// The server is gone, or has taken the log back: search again.
    Gone,
    /// It could not be served: wait before the next attempt.
    Refused,
    Ended(Ended),
}

/// Serves the servers of one log, see the module documentation.
pub struct ExternalRecorder {
    paths: Paths,
    /// Readable when the recorder must end.
    stop: RawFd,
    say: Say,
    /// The last server's settings and its arena.
    known: Option<(Arc<Control>, PathBuf)>,
    /// The last message, so that it is not repeated every 200 ms.
    said: String,
    watched: WatchedArenas,
}

fn zone() -> Option<Bytes> {
    std::env::var_os("TZ").map(|zone| Bytes(zone.as_bytes().to_vec()))
}

impl ExternalRecorder {
    /// `stop`: a descriptor that is readable when the recorder must end.
    #[must_use]
    pub fn new(paths: Paths, stop: RawFd, say: Say) -> ExternalRecorder {
        ExternalRecorder {
            paths,
            stop,
            say,
            known: None,
            said: String::new(),
            watched: WatchedArenas::default(),
        }
    }

    /// Logs the message, unless it was the last one.
    fn say_once(&mut self, severity: Severity, text: &str) {
        if self.said != text {
            (self.say)(severity, text);
            text.clone_into(&mut self.said);
        }
    }

    /// Whether the recorder must end.
    fn is_stopped(&self) -> io::Result<bool> {
        let mut polled = libc::pollfd { fd: self.stop, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        match unsafe { libc::poll(&raw mut polled, 1, 0) } {
            0.. => Ok(polled.revents != 0),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                error => Err(error),
            },
        }
    }

    /// Serves the servers of this log, one after the other, until it must end.
    ///
    /// # Errors
    /// The system call to wait failed.
    pub fn run(&mut self) -> io::Result<Ended> {
        let mut pause_ms = 0;
        loop {
            if pause_ms > 0 {
                wait(&[(self.stop, false)], pause_ms)?;
            }
            if self.is_stopped()? {
                return Ok(Ended::Stopped);
            }
            pause_ms = LOOK_EVERY_MS;
            match socket::connect(&self.paths.arena_directory, &self.paths.log_directory) {
                Ok(stream) => match self.attend(stream)? {
                    Left::Gone => {}
                    Left::Refused => pause_ms = REFUSED_MS,
                    Left::Ended(ended) => return Ok(ended),
                },
                Err(error) => match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {}
                    _ => {
                        let directory = self.paths.arena_directory.display();
                        let text = format!("connecting to the server by {directory}: {error}");
                        self.say_once(Severity::Error, &text);
                    }
                },
            }
            self.adopt();
        }
    }

    /// Waits until the server releases the log, then writes it.
    fn attend(&mut self, stream: UnixStream) -> io::Result<Left> {
        let peer = Peer::of(&stream)?;
        if !peer.is_trusted() {
            let text = format!(
                "process {} at the socket of the server belongs to user id {}: it is not the server, \
                 and is left alone",
                peer.pid, peer.uid
            );
            self.say_once(Severity::Error, &text);
            return Ok(Left::Refused);
        }
        let mut channel = Channel::new(stream)?;
        let hello = ToServer::Hello { protocol: PROTOCOL.to_owned(), zone: zone() };
        if channel.send(&hello).is_err() {
            return Ok(Left::Gone);
        }
        loop {
            let message = match channel.receive::<ToRecorder>() {
                Ok(Received::Message(message)) => message,
                Ok(Received::Nothing) => {
                    // No timeout: another recorder may be writing.
                    let fd = (channel.descriptor(), channel.has_unsent());
                    wait(&[fd, (self.stop, false)], -1)?;
                    if self.is_stopped()? {
                        return Ok(Left::Ended(Ended::Stopped));
                    }
                    if channel.flush().is_err() {
                        return Ok(Left::Gone);
                    }
                    continue;
                }
                Ok(Received::End) => return Ok(Left::Gone),
                Err(error) => {
                    self.say_once(
                        Severity::Error,
                        &format!("invalid message from the server: {error}"),
                    );
                    return Ok(Left::Refused);
                }
            };
            match message {
                ToRecorder::Attach(attach) => return self.serve(channel, &attach, peer),
                ToRecorder::Zone(zone) => {
                    let zone = zone.map(|zone| OsString::from_vec(zone.0));
                    return Ok(Left::Ended(Ended::Zone(zone)));
                }
                ToRecorder::Refuse(why) => {
                    let text = format!("the server does without this recorder: {why}");
                    self.say_once(Severity::Error, &text);
                    return Ok(Left::Refused);
                }
                // For a recorder that writes; this one does not yet.
                _ => {}
            }
        }
    }

    /// Writes the log until the server takes it back or is gone.
    fn serve(&mut self, channel: Channel, attach: &Attach, peer: Peer) -> io::Result<Left> {
        let channel = Arc::new(Mutex::new(channel));
        let control = Arc::new(Control::default());
        attach.settings.apply(&control);
        attach.filters.clone().apply(&control);
        // By its own name: the server's path may contain a symbolic link.
        let arena = attach.arena.path();
        self.known = Some((control.clone(), arena.canonicalize().unwrap_or(arena)));
        self.paths.signing_key_file = attach.signing_key_file.path();
        let status = Arc::new(Status::default());
        let taken = self.take_over(&channel, attach, peer, &control, &status);
        let (writer, arena_file) = match taken {
            Ok(taken) => taken,
            Err(why) => {
                self.say_once(Severity::Error, &format!("the log cannot be taken over: {why}"));
                // A server that is gone does not need the answer.
                let mut channel = lock(&channel);
                let _: io::Result<()> =
                    channel.send(&ToServer::Refused(why)).and_then(|()| channel.flush_all());
                return Ok(Left::Refused);
            }
        };
        self.said.clear();
        let text = format!(
            "writing {} for the server, process {}",
            self.paths.log_directory.display(),
            peer.pid
        );
        (self.say)(Severity::Note, &text);
        let is_alive = Arc::new(AtomicBool::new(true));
        let thread = {
            let (control, status) = (control.clone(), status.clone());
            let (arena, log) = (arena_file.path().to_owned(), self.paths.log_directory.clone());
            let say = self.log(&channel);
            let is_alive = is_alive.clone();
            std::thread::Builder::new().name("tacho-writer".to_owned()).spawn(move || {
                writing::write(writer, &control, &status, &is_alive, &arena, &log, &say)
            })?
        };
        let mut session =
            Session::begin(&channel, &control, &status, &arena_file, thread, &is_alive);
        while !session.is_over() {
            // In every case, the thread ends before the arena is unmapped.
            let turned = session.turn(self.stop).and_then(|()| self.is_stopped());
            match turned {
                Ok(false) => {}
                Ok(true) => session.release("the recorder was stopped"),
                Err(error) => session.release(&format!("waiting: {error}")),
            }
        }
        let (written, why, is_gone) = session.end();
        // Not again at once: the cause of the panic is still there.
        let left = if written.is_err() { Left::Refused } else { Left::Gone };
        let answer = match written {
            Ok(Written::Stopped { is_drained }) => ToServer::Stopped { is_drained },
            Ok(Written::Released) => ToServer::Released(why),
            Err(_) => ToServer::Released("internal error (panic) of its writer".to_owned()),
        };
        if !is_gone {
            let mut channel = lock(&channel);
            // A server that is gone sees the end of the connection instead.
            let _: io::Result<()> = channel.send(&answer).and_then(|()| channel.flush_all());
        }
        let text = format!("no longer writing for the server, process {}", peer.pid);
        (self.say)(Severity::Note, &text);
        Ok(left)
    }

    /// Sends messages to this process's log and to the server's.
    fn log(&self, channel: &Arc<Mutex<Channel>>) -> Log {
        let (say, channel) = (self.say.clone(), channel.clone());
        Box::new(move |severity, text: &str| {
            say(severity, text);
            // The end of the connection is detected elsewhere.
            let message = ToServer::Say { severity, text: text.to_owned() };
            let _: io::Result<()> = lock(&channel).send(&message);
        })
    }

    fn take_over(
        &self,
        channel: &Arc<Mutex<Channel>>,
        attach: &Attach,
        peer: Peer,
        control: &Arc<Control>,
        status: &Arc<Status>,
    ) -> Result<(Writer, ArenaFile), String> {
        let theirs = attach.log_directory.path();
        let ours = &self.paths.log_directory;
        if theirs != *ours {
            return Err(format!(
                "the server writes to {}, and this recorder was started for {}",
                theirs.display(),
                ours.display()
            ));
        }
        let arena_file =
            ArenaFile::open_living(&attach.arena.path()).map_err(|error| error.to_string())?;
        let names = SettingNames::of_server(&arena_file.info().server);
        let log = self.log(channel);
        let since_us = sys::monotonic_us();
        let (files, last_seq) = loop {
            match opening::open(ours, &self.paths.signing_key_file, names, &log) {
                Ok(opened) => break opened,
                // `tacho recover` may be reading.
                Err(error)
                    if error.locked_by().is_some()
                        && sys::monotonic_us() - since_us < LOCKED_US =>
                {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(error.to_string()),
            }
        };
        let living = recover::take_up_living(arena_file.arena(), arena_file.path(), last_seq);
        let living = living.map_err(|error| error.to_string())?;
        // The server gave up a recorder that slept for long, which missed all later messages.
        let sent = lock(channel).send(&ToServer::Opened);
        sent.map_err(|_| "the server has taken it back".to_owned())?;
        let nothing = ArenaFile::placeholder().map_err(|error| error.to_string())?;
        let (control, status) = (control.clone(), status.clone());
        let mut writer = Writer::new(nothing.arena(), files, last_seq, control, status, log);
        writer.wait_for_filters();
        let sender = channel.clone();
        writer.set_config_logged(Box::new(move |number, seq| {
            let mut channel = lock(&sender);
            // Sent before the line is written, because it cannot be sent again later.
            let _: io::Result<()> = channel
                .send(&ToServer::ConfigLogged { number, seq })
                .and_then(|()| channel.flush_all());
        }));
        let (mut writer, recovered) =
            recover::succeed(writer, living, &self.paths.arena_directory, ours);
        drop(nothing);
        if let Err(error) = recovered {
            writer.say(Severity::Warning, &error.to_string());
        }
        // From another namespace, the server's threads have different ids.
        let is_visible = peer.pid == attach.pid;
        writer.set_tasks(is_visible.then(|| PathBuf::from(format!("/proc/{}/task", peer.pid))));
        Ok((writer, arena_file))
    }

    /// Recovers what dead servers left, if anything.
    fn adopt(&mut self) {
        if !self.has_dead() {
            return;
        }
        let say = self.say.clone();
        let names = self.known.as_ref().map_or_else(SettingNames::default, |it| it.0.names());
        let Paths { log_directory, signing_key_file, .. } = &self.paths;
        let opened = opening::open_to_recover(log_directory, signing_key_file, names, &*say);
        let (files, last_seq) = match opened {
            Ok(opened) => opened,
            // A server that is starting: it does the recovery.
            Err(error) if error.locked_by().is_some() => return,
            Err(error) => return self.say_once(Severity::Error, &error.to_string()),
        };
        let nothing = match ArenaFile::placeholder() {
            Ok(nothing) => nothing,
            Err(error) => return self.say_once(Severity::Error, &error.to_string()),
        };
        let control = Arc::new(Control::default());
        if let Some((known, _)) = &self.known {
            super::message::Settings::of(known).apply(&control);
            if let Some(filters) = FilterList::newer_than(known, 0) {
                filters.apply(&control);
            }
        }
        let log = Box::new(move |severity, text: &str| say(severity, text));
        let status = Arc::new(Status::default());
        let mut writer = Writer::new(nothing.arena(), files, last_seq, control, status, log);
        if let Some((_, arena)) = &self.known {
            writer.know_filters_of(arena);
        }
        let Paths { arena_directory, log_directory, .. } = &self.paths;
        let (writer, result) = recover::recover_all(writer, arena_directory, log_directory);
        let closed = writer.close();
        match result {
            Ok(_) => self.said.clear(),
            Err(error @ RecoverError::NotWritten(_)) => {
                self.say_once(Severity::Error, &format!("{error}; will retry"));
            }
            Err(error) => self.say_once(Severity::Error, &error.to_string()),
        }
        if let Err(error) = closed {
            self.say_once(Severity::Error, &format!("closing the audit log: {error}"));
        }
    }

    /// Whether there is an arena of this log that no process owns.
    fn has_dead(&mut self) -> bool {
        let Paths { arena_directory, log_directory, .. } = &self.paths;
        let mut paths = match arena_file::files(arena_directory, Some(log_directory)) {
            Ok(paths) => paths,
            Err(error) => {
                let text = format!("{}: {error}", arena_directory.display());
                self.say_once(Severity::Error, &text);
                return false;
            }
        };
        // The recovery reports a list that cannot be read.
        paths.extend(arena_list::read(log_directory).into_iter().flatten().map(|it| it.path));
        self.watched.keep_only(&paths);
        paths.iter().any(|path| self.watched.is_dead(path, log_directory))
    }
}
