//! A server that is being served: what it says, and what it is told, while a thread writes its log.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use tacho_ring::producer::Futex;
use tacho_ring::sys;

use super::channel::{Channel, Received, wait};
use super::message::{Figures, Request, ToRecorder, ToServer};
use super::writing::Written;
use crate::arena_file::ArenaFile;
use crate::control::{Control, Status};

/// How often the figures go to the server while it is attached, ms.
const TELL_EVERY_MS: i32 = 100;
/// The same when a thread is about to end, ms.
const END_EVERY_MS: i32 = 5;
/// At least so often something is said, µs.
const SAY_EVERY_US: i64 = 1_000_000;

pub(super) fn lock(channel: &Mutex<Channel>) -> MutexGuard<'_, Channel> {
    channel.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A server that is being served.
pub(super) struct Session<'a> {
    channel: &'a Arc<Mutex<Channel>>,
    control: &'a Arc<Control>,
    status: &'a Arc<Status>,
    arena_file: &'a ArenaFile,
    thread: JoinHandle<Written>,
    /// The server's process has its arena: who has copied half a text into it may bring the rest.
    is_alive: &'a AtomicBool,
    /// The figures that the server knows, and since when.
    told: Figures,
    told_us: i64,
    /// Why the log is being let go; empty: it is not.
    why: String,
    is_gone: bool,
}

impl<'a> Session<'a> {
    /// Tells the server that its log is written from now on, by `thread`.
    pub(super) fn begin(
        channel: &'a Arc<Mutex<Channel>>,
        control: &'a Arc<Control>,
        status: &'a Arc<Status>,
        arena_file: &'a ArenaFile,
        thread: JoinHandle<Written>,
        is_alive: &'a AtomicBool,
    ) -> Session<'a> {
        let is_gone = lock(channel).send(&ToServer::Attached).is_err();
        Session {
            channel,
            control,
            status,
            arena_file,
            thread,
            is_alive,
            told: Figures::default(),
            told_us: 0,
            why: String::new(),
            is_gone,
        }
    }

    /// Whether its thread has ended.
    pub(super) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// How its thread has ended, why the log was let go, and whether the server is gone.
    pub(super) fn end(self) -> (std::thread::Result<Written>, String, bool) {
        (self.thread.join(), self.why, self.is_gone)
    }

    fn wake(&self) {
        self.arena_file.arena().shared().wakeup.0.call(&Futex);
    }

    /// Has the log let go.
    pub(super) fn release(&mut self, why: &str) {
        if self.why.is_empty() {
            why.clone_into(&mut self.why);
        }
        self.control.release.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Waits a little, hears the server, and tells it how things are.
    pub(super) fn turn(&mut self, stop: RawFd) -> io::Result<()> {
        let is_ending = !self.why.is_empty() || self.control.stop.load(Ordering::Relaxed);
        if is_ending || self.is_gone {
            // What could wake it is known already, and would do so again and again.
            std::thread::sleep(Duration::from_millis(END_EVERY_MS as u64));
        } else {
            let (fd, has_unsent) = {
                let channel = lock(self.channel);
                (channel.descriptor(), channel.has_unsent())
            };
            wait(&[(fd, has_unsent), (stop, false)], TELL_EVERY_MS)?;
        }
        while !self.is_gone {
            let received = lock(self.channel).receive::<ToRecorder>();
            match received {
                Ok(Received::Message(message)) => self.hear(message),
                Ok(Received::Nothing) => break,
                Ok(Received::End) => self.is_gone = true,
                Err(error) => {
                    self.release(&format!("the server is not understood: {error}"));
                    break;
                }
            }
        }
        let figures = Figures::of(self.status);
        let now_us = sys::monotonic_us();
        let mut channel = lock(self.channel);
        if !self.is_gone && (figures != self.told || now_us - self.told_us > SAY_EVERY_US) {
            // One that does not read has its figures later: they are not worth memory.
            if !channel.has_unsent() {
                self.is_gone = channel.send(&ToServer::Figures(Box::new(figures.clone()))).is_err();
                (self.told, self.told_us) = (figures, now_us);
            }
        }
        self.is_gone |= !self.is_gone && channel.flush().is_err();
        drop(channel);
        if self.is_gone {
            // Later, too: a dying process loses one descriptor after the other.
            self.is_alive.store(self.arena_file.is_owned(), Ordering::Relaxed);
            self.release("the server is gone");
        }
        Ok(())
    }

    fn hear(&mut self, message: ToRecorder) {
        let control = self.control;
        match message {
            ToRecorder::Settings(settings) => settings.apply(control),
            ToRecorder::Filters(filters) => filters.apply(control),
            ToRecorder::Config(change) => {
                let changes = &control.config_changes;
                let mut changes = changes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                changes.push(change.into());
            }
            ToRecorder::Request(Request::Rotate) => {
                control.rotate_now.store(true, Ordering::Relaxed);
            }
            ToRecorder::Request(Request::Flush) => control.flush_now.store(true, Ordering::Relaxed),
            // SYNC retain: as in `Recorder::retain` of the server's side.
            ToRecorder::Request(Request::Retain) => {
                control.retain_now.store(true, Ordering::Release);
            }
            // SYNC retain: as above.
            ToRecorder::Request(Request::RetainFiles) => {
                control.retain_files_now.store(true, Ordering::Release);
            }
            ToRecorder::Release => self.release("the server wanted it"),
            ToRecorder::Stop { patience_ms } => {
                control.patience_ms.store(patience_ms, Ordering::Relaxed);
                control.stop.store(true, Ordering::Relaxed);
            }
            // Before the log was given away.
            ToRecorder::Attach(_) | ToRecorder::Zone(_) | ToRecorder::Refuse(_) => {}
        }
        self.wake();
    }
}
