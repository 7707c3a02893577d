//! What the server's TLS library decrypts and encrypts, in the order of the packets.
//!
//! The greeting and the request for TLS are in packets, so that a piece must not overtake those
//! before it: it waits until the packets of its time have been read.
//!
//! The kernel has one ring for the pieces of all connections. Several threads take them in turns:
//! whoever finds a piece of another thread's connection puts it into the queue of that thread.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tacho_uprobes::{Kind, Losses, Piece, UprobeError, Uprobes};

use crate::source::share::Share;

/// A piece that waits for the packets before it.
struct Waiting {
    at_ns: u64,
    stream: u64,
    offset: u64,
    kind: Kind,
    client: std::net::SocketAddr,
    server: std::net::SocketAddr,
    bytes: Vec<u8>,
}

impl Waiting {
    fn new(piece: &Piece<'_>, mut buffer: Vec<u8>) -> Waiting {
        let Piece { at_ns, stream, offset, kind, client, server, bytes } = *piece;
        buffer.clear();
        buffer.extend_from_slice(bytes);
        Waiting { at_ns, stream, offset, kind, client, server, bytes: buffer }
    }

    fn piece(&self) -> Piece<'_> {
        let Waiting { at_ns, stream, offset, kind, client, server, ref bytes } = *self;
        Piece { at_ns, stream, offset, kind, client, server, bytes }
    }
}

/// Pieces of a thread's connections.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

/// Shared by all threads.
struct Shared {
    uprobes: Uprobes,
    share: Share,
    queues: Vec<Queue>,
    /// Largest size of a queue; beyond it pieces are dropped, and counted.
    queue_bytes_max: usize,
    dropped: u64,
    /// From the monotonic clock to the one of packets, µs.
    clock_us: i64,
    /// What was declared.
    declared: Losses,
}

impl Shared {
    /// The next piece of a thread before a time, if there is one. `buffer` is one to reuse.
    fn next(&mut self, index: usize, ts_us: i64, buffer: &mut Vec<u8>) -> Option<(i64, Waiting)> {
        let Shared { uprobes, share, queues, queue_bytes_max, dropped, clock_us, .. } = self;
        while queues[index].waiting.is_empty() {
            let has_next = uprobes.next(&mut |piece| {
                let queue = &mut queues[share.place(piece.client, piece.server)];
                if queue.bytes + piece.bytes.len() > *queue_bytes_max {
                    *dropped += 1;
                    return;
                }
                queue.bytes += piece.bytes.len();
                queue.waiting.push_back(Waiting::new(&piece, std::mem::take(buffer)));
            });
            if !has_next {
                return None;
            }
        }
        let queue = &mut queues[index];
        let at_us = i64::try_from(queue.waiting.front()?.at_ns / 1_000).unwrap_or(i64::MAX);
        let at_us = at_us.saturating_add(*clock_us);
        let next = if at_us < ts_us { queue.waiting.pop_front() } else { None }?;
        queue.bytes -= next.bytes.len();
        Some((at_us, next))
    }
}

/// The pieces of a thread's connections, see the module documentation.
pub(crate) struct Decryption {
    shared: Arc<Mutex<Shared>>,
    index: usize,
    /// The buffer of the last one.
    buffer: Vec<u8>,
    has_ended: bool,
}

impl Decryption {
    /// Attaches to the server's process, for a thread for each share. Needs privileges; the rest
    /// needs none.
    pub(crate) fn open(
        pid: NonZeroU32,
        ports: &[u16],
        ring_bytes: usize,
        shares: &[Share],
    ) -> Result<Vec<Decryption>, UprobeError> {
        let shared = Shared {
            uprobes: Uprobes::attach(pid, ports, ring_bytes)?,
            share: shares.first().copied().unwrap_or(Share::WHOLE),
            queues: shares.iter().map(|_| Queue::default()).collect(),
            queue_bytes_max: ring_bytes / shares.len().max(1),
            dropped: 0,
            clock_us: clock_us(),
            declared: Losses::default(),
        };
        let shared = Arc::new(Mutex::new(shared));
        let part = |index| {
            let shared = Arc::clone(&shared);
            Decryption { shared, index, buffer: Vec::new(), has_ended: false }
        };
        Ok((0..shares.len()).map(part).collect())
    }

    /// Passes all pieces before a time, µs since 1970-01-01 UTC, with their times.
    pub(crate) fn before(&mut self, ts_us: i64, each: &mut dyn FnMut(i64, &Piece<'_>)) {
        let Decryption { shared, index, buffer, .. } = self;
        loop {
            // Other threads wait for the lock only while a piece is taken, not while it is decoded.
            let next = lock(shared).next(*index, ts_us, buffer);
            let Some((at_us, next)) = next else { return };
            each(at_us, &next.piece());
            *buffer = next.bytes;
        }
    }

    /// Pieces that found no space since the last question, of all threads.
    pub(crate) fn lost_pieces(&mut self) -> u64 {
        let mut shared = lock(&self.shared);
        shared.clock_us = clock_us();
        let losses = shared.uprobes.losses();
        let before = std::mem::replace(&mut shared.declared, losses);
        let dropped = std::mem::take(&mut shared.dropped);
        losses.pieces.saturating_sub(before.pieces) + dropped
    }

    /// Whether the process has ended since the last question of this thread.
    pub(crate) fn ends(&mut self) -> bool {
        let ended = !self.has_ended && lock(&self.shared).uprobes.has_ended();
        self.has_ended |= ended;
        ended
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From the monotonic clock to the time of day, µs.
fn clock_us() -> i64 {
    let micros = |clock| {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a valid pointer; both clocks exist on every Linux.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
    };
    micros(libc::CLOCK_REALTIME) - micros(libc::CLOCK_MONOTONIC)
}
