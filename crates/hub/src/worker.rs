//! A thread that works until it is dropped.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::say::say;

/// The thread. Dropping it waits for its end.
pub struct Worker {
    name: &'static str,
    stop: Sender<()>,
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the work asks whether it has to end.
pub struct Stop {
    stopped: Receiver<()>,
    is_stopping: Arc<AtomicBool>,
}

impl Stop {
    /// Waits so long, or until the thread has to end. Returns whether it has to.
    pub fn wait(&self, time: Duration) -> bool {
        if self.is_asked() {
            return true;
        }
        // The message is there once, and wakes it; the flag stays.
        self.stopped.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
    }

    /// Whether the thread has to end.
    pub fn is_asked(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }
}

impl Worker {
    /// Starts a thread of this name.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(
        name: &'static str,
        work: impl FnOnce(&Stop) + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let is_stopping: Arc<AtomicBool> = Arc::default();
        let asked = Stop { stopped, is_stopping: Arc::clone(&is_stopping) };
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || work(&asked))?;
        Ok(Self { name, stop, is_stopping, thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        // A receiver that is gone has ended already.
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            say(&format!("the thread of the {} ended by a panic", self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_worker_ends_however_often_it_asks() {
        let (begun, has_begun) = channel();
        let worker = Worker::start("test", move |stop| {
            begun.send(stop.is_asked()).unwrap();
            while !stop.is_asked() {
                std::thread::yield_now();
            }
            // Asked again, it is the same.
            assert!(stop.wait(LONG) && stop.wait(LONG) && stop.is_asked());
            begun.send(true).unwrap();
        });
        assert!(!has_begun.recv().unwrap());
        drop(worker.unwrap());
        assert!(has_begun.recv().unwrap());
    }

    #[test]
    fn a_worker_that_waits_is_woken() {
        let worker = Worker::start("test", |stop| assert!(stop.wait(LONG)));
        drop(worker.unwrap());
    }
}
