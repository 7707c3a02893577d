//! Reads the pieces of a log on several threads, and shows their messages and the progress.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use tacho_logdir::read::Sink;
use tacho_logdir::read::content::Access;
use tacho_logdir::read::pieces::Pieces;

use crate::scan::Scan;
use crate::tail::TailError;

/// How often the progress is looked at.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Bytes that a reader reads between two updates of the progress.
const TICK_BYTES: u64 = 1 << 20;

/// What a reader has to say.
#[derive(Debug)]
pub enum Message {
    /// A file, or the line at an offset, cannot be read.
    Problem(PathBuf, Option<u64>, String),
    /// Anything else.
    Note(String),
}

/// The bytes that a reader has read, which are added to those of all readers now and then.
#[derive(Debug)]
pub struct Scanned<'a> {
    all: &'a AtomicU64,
    unreported: u64,
}

impl<'a> Scanned<'a> {
    /// Nothing yet; `all`: those of all readers.
    pub fn new(all: &'a AtomicU64) -> Self {
        Self { all, unreported: 0 }
    }

    /// So many more.
    pub fn add(&mut self, bytes: u64) {
        self.unreported += bytes;
        if self.unreported >= TICK_BYTES {
            self.all.fetch_add(std::mem::take(&mut self.unreported), Ordering::Relaxed);
        }
    }
}

/// A receiver of lines on one of several threads.
pub trait Reader: Sink<Error = TailError> + Send {
    /// What a thread has found. It must not have the sender of messages, whose end is the end of
    /// all readers.
    type Found: Send;

    /// The piece of this number was read.
    fn end_piece(&mut self, _piece: usize) {}

    /// All pieces of this thread were read.
    fn finish(self) -> Self::Found;
}

/// Reads all pieces of a log. Each thread reads into a reader of its own, which `start` makes.
///
/// # Errors
/// A reader failed.
pub fn read<R: Reader>(
    pieces: &Pieces,
    access: &Access,
    scanned_bytes: &AtomicU64,
    scan: &mut Scan,
    start: impl Fn(Sender<Message>) -> R,
) -> Result<Vec<R::Found>, TailError> {
    let next = AtomicUsize::new(0);
    let run = |mut reader: R| {
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces.count() {
                return Ok(reader.finish());
            }
            pieces.read(piece, access, &mut reader)?;
            reader.end_piece(piece);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(pieces.count());
    let (sender, messages) = channel();
    std::thread::scope(|scope| {
        let run = &run;
        let spawn = |_| {
            let reader = start(sender.clone());
            scope.spawn(move || run(reader))
        };
        let threads: Vec<_> = (0..threads).map(spawn).collect();
        // The channel ends when the last reader does.
        drop(sender);
        watch(&messages, scanned_bytes, scan);
        let join = |thread: ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// Shows messages and progress until all readers have ended.
pub fn watch(messages: &Receiver<Message>, scanned_bytes: &AtomicU64, scan: &mut Scan) {
    loop {
        match messages.recv_timeout(PROGRESS_INTERVAL) {
            Ok(Message::Problem(path, offset, reason)) => scan.problem_at(&path, offset, &reason),
            Ok(Message::Note(text)) => scan.note(&text),
            Err(RecvTimeoutError::Timeout) => {
                scan.scanned_to(scanned_bytes.load(Ordering::Relaxed));
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
