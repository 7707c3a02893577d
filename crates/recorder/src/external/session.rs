//! A server that is being served: exchanges messages with it while a thread writes its log.

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

/// Interval between figures for the server while it is attached, ms.
const FIGURES_EVERY_MS: i32 = 100;
/// The same when a thread is about to end, ms.
const END_EVERY_MS: i32 = 5;
/// Longest time without a message to the server, µs.
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
    /// Whether the server's process still has its arena: then a thread that has copied half a text
    /// into it may append the rest.
    is_alive: &'a AtomicBool,
    /// The figures that the server has, and since when.
    sent: Figures,
    sent_us: i64,
    /// Why the log is being released; empty: it is not being released.
    why: String,
    is_gone: bool,
}

impl<'a> Session<'a> {
    /// Reports to the server that its log is written from now on, by `thread`.
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
            sent: Figures::default(),
            sent_us: 0,
            why: String::new(),
            is_gone,
        }
    }

    /// Whether the thread has ended.
    pub(super) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// The result of the thread, why the log was released, and whether the server is gone.
    pub(super) fn end(self) -> (std::thread::Result<Written>, String, bool) {
        (self.thread.join(), self.why, self.is_gone)
    }

    fn wake(&self) {
        self.arena_file.arena().shared().wakeup.0.call(&Futex);
    }

    /// Requests the release of the log.
    pub(super) fn release(&mut self, why: &str) {
        if self.why.is_empty() {
            why.clone_into(&mut self.why);
        }
        self.control.release.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Waits briefly, receives messages, and sends the figures.
    pub(super) fn turn(&mut self, stop: RawFd) -> io::Result<()> {
        let is_ending = !self.why.is_empty() || self.control.stop.load(Ordering::Relaxed);
        if is_ending || self.is_gone {
            // The wait would return at once, because its condition stays true.
            std::thread::sleep(Duration::from_millis(END_EVERY_MS as u64));
        } else {
            let (fd, has_unsent) = {
                let channel = lock(self.channel);
                (channel.descriptor(), channel.has_unsent())
            };
            wait(&[(fd, has_unsent), (stop, false)], FIGURES_EVERY_MS)?;
        }
        while !self.is_gone {
            let received = lock(self.channel).receive::<ToRecorder>();
            match received {
                Ok(Received::Message(message)) => self.receive_message(message),
                Ok(Received::Nothing) => break,
                Ok(Received::End) => self.is_gone = true,
                Err(error) => {
                    self.release(&format!("invalid message from the server: {error}"));
                    break;
                }
            }
        }
        let figures = Figures::of(self.status);
        let now_us = sys::monotonic_us();
        let mut channel = lock(self.channel);
        if !self.is_gone && (figures != self.sent || now_us - self.sent_us > SAY_EVERY_US) {
            // A server that does not read gets its figures later; they are not worth buffering.
            if !channel.has_unsent() {
                self.is_gone = channel.send(&ToServer::Figures(Box::new(figures.clone()))).is_err();
                (self.sent, self.sent_us) = (figures, now_us);
            }
        }
        self.is_gone |= !self.is_gone && channel.flush().is_err();
        drop(channel);
        if self.is_gone {
            // Checked in each turn: a dying process closes its descriptors one by one.
            self.is_alive.store(self.arena_file.is_owned(), Ordering::Relaxed);
            self.release("the server is gone");
        }
        Ok(())
    }

    fn receive_message(&mut self, message: ToRecorder) {
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
            // SYNC retain: as in `Recorder::retain` on the server's side.
            ToRecorder::Request(Request::Retain) => {
                control.retain_now.store(true, Ordering::Release);
            }
            // SYNC retain: as above.
            ToRecorder::Request(Request::RetainFiles) => {
                control.retain_files_now.store(true, Ordering::Release);
            }
            ToRecorder::Release => self.release("the server requested it"),
            ToRecorder::Stop { timeout_ms } => {
                control.stop_timeout_ms.store(timeout_ms, Ordering::Relaxed);
                control.stop.store(true, Ordering::Relaxed);
            }
            // Only valid before the log was released to the recorder.
            ToRecorder::Attach(_) | ToRecorder::Zone(_) | ToRecorder::Refuse(_) => {}
        }
        self.wake();
    }
}
