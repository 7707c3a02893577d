//! Sends alerts: one thread for each channel, so that a receiver that is down delays no other.
//!
//! A message is tried until its receiver accepts it. Its outcome is in the database before the next
//! one is sent, so a restart neither repeats nor misses one, except that a message is sent again if
//! the hub is killed between the receiver's answer and the commit. It has the same number then.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::deliveries::{self, Due};
use super::grouping::{Timing, plan};
use super::notification::Notification;
use crate::clock::now_us;
use crate::database::{Database, DatabaseError};
use crate::say::say;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(500);

/// A way to send messages.
pub trait Channel: Send + 'static {
    /// Its name in the database and in answers.
    fn name(&self) -> &str;

    /// Sends a message. Blocks, for a minute at most.
    ///
    /// # Errors
    /// The receiver did not accept it. The text is for people and has no secrets in it.
    fn send(&mut self, message: &Notification) -> Result<(), String>;
}

/// The threads cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database fails.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// There can be no more threads.
    #[error("cannot start a thread for alerts: {0}")]
    Thread(#[from] io::Error),
}

/// The threads, until it is dropped.
pub struct Channels {
    threads: Vec<(SyncSender<()>, JoinHandle<()>)>,
}

impl Channels {
    /// Starts a thread for each channel. Messages to channels that are not among them are given up.
    ///
    /// # Errors
    /// The database fails, or there can be no more threads.
    pub fn start(
        channels: Vec<Box<dyn Channel>>,
        timing: Timing,
        database: &Database,
    ) -> Result<Self, StartError> {
        let names: Vec<&str> = channels.iter().map(|channel| channel.name()).collect();
        deliveries::configure(database, &names, now_us())?;
        let mut started = Self { threads: Vec::new() };
        for channel in channels {
            let (stop, stopped) = sync_channel(1);
            let database = database.clone();
            let mut work = Work { channel, timing, database, stopped, accepted: None };
            let thread = std::thread::Builder::new().name("alerts".to_owned());
            started.threads.push((stop, thread.spawn(move || work.run())?));
        }
        Ok(started)
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        // Closing the channels ends the threads. All are asked to end before the first is joined.
        let threads: Vec<_> = self.threads.drain(..).map(|(_stop, thread)| thread).collect();
        for thread in threads {
            if thread.join().is_err() {
                say("a thread for alerts ended by a panic");
            }
        }
    }
}

struct Work {
    channel: Box<dyn Channel>,
    timing: Timing,
    database: Database,
    stopped: Receiver<()>,
    /// A message that was accepted, and could not be stored as that.
    accepted: Option<i64>,
}

impl Work {
    fn run(&mut self) {
        while self.stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            if let Err(error) = self.turn() {
                say(&format!("cannot store messages to {}: {error}", self.channel.name()));
            }
        }
    }

    fn turn(&mut self) -> Result<(), DatabaseError> {
        self.store_accepted()?;
        plan(&self.database, self.channel.name(), self.timing, now_us())?;
        for due in deliveries::due(&self.database, self.channel.name(), now_us())? {
            if self.stopped.try_recv() != Err(TryRecvError::Empty) {
                break;
            }
            self.send(&due)?;
        }
        Ok(())
    }

    fn send(&mut self, due: &Due) -> Result<(), DatabaseError> {
        let message = deliveries::load(&self.database, due.id)?;
        match self.channel.send(&message) {
            Ok(()) => {
                self.accepted = Some(due.id);
                self.store_accepted()
            }
            Err(error) => {
                let name = self.channel.name();
                say(&format!("cannot send an alert to {name}: {error}; retrying"));
                deliveries::failed(&self.database, due, &error, now_us())
            }
        }
    }

    fn store_accepted(&mut self) -> Result<(), DatabaseError> {
        if let Some(id) = self.accepted {
            deliveries::sent(&self.database, id, now_us())?;
            self.accepted = None;
        }
        Ok(())
    }
}
