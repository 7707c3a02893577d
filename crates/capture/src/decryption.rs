//! What the server's TLS library decrypts and encrypts, in the order of the packets.
//!
//! The greeting and the request for TLS are in packets, so that a piece must not overtake those
//! before it: it waits in the kernel's ring until the packets of its time have been read.

use std::num::NonZeroU32;

use tacho_uprobes::{Kind, Losses, Piece, UprobeError, Uprobes};

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

/// Uprobes of the server's process, see the module documentation.
pub(crate) struct Decryption {
    uprobes: Uprobes,
    waiting: Option<Waiting>,
    /// The buffer of the last one.
    buffer: Vec<u8>,
    /// From the monotonic clock to the one of packets, µs.
    clock_us: i64,
    /// What was declared.
    declared: Losses,
    has_ended: bool,
}

impl Decryption {
    /// Attaches to the server's process. Needs privileges; the rest needs none.
    pub(crate) fn open(
        pid: NonZeroU32,
        ports: &[u16],
        ring_bytes: usize,
    ) -> Result<Decryption, UprobeError> {
        let uprobes = Uprobes::attach(pid, ports, ring_bytes)?;
        Ok(Decryption {
            uprobes,
            waiting: None,
            buffer: Vec::new(),
            clock_us: clock_us(),
            declared: Losses::default(),
            has_ended: false,
        })
    }

    /// Passes all pieces before a time, µs since 1970-01-01 UTC, with their times.
    pub(crate) fn before(&mut self, ts_us: i64, each: &mut dyn FnMut(i64, &Piece<'_>)) {
        while self.fill() {
            let Some(next) = &self.waiting else { return };
            let at_us = i64::try_from(next.at_ns / 1_000).unwrap_or(i64::MAX);
            let at_us = at_us.saturating_add(self.clock_us);
            if at_us >= ts_us {
                return;
            }
            let Waiting { at_ns, stream, offset, kind, client, server, .. } = *next;
            let piece = Piece { at_ns, stream, offset, kind, client, server, bytes: &next.bytes };
            each(at_us, &piece);
            if let Some(done) = self.waiting.take() {
                self.buffer = done.bytes;
            }
        }
    }

    /// Takes the next piece out of the ring, unless one waits. `false`: there is none.
    fn fill(&mut self) -> bool {
        let Decryption { uprobes, waiting, buffer, .. } = self;
        while waiting.is_none() {
            let has_next = uprobes.next(&mut |piece| {
                let Piece { at_ns, stream, offset, kind, client, server, bytes } = piece;
                let mut kept = std::mem::take(buffer);
                kept.clear();
                kept.extend_from_slice(bytes);
                let bytes = kept;
                *waiting = Some(Waiting { at_ns, stream, offset, kind, client, server, bytes });
            });
            if !has_next {
                return false;
            }
        }
        true
    }

    /// Pieces that the ring had no space for since the last question.
    pub(crate) fn lost_pieces(&mut self) -> u64 {
        self.clock_us = clock_us();
        let losses = self.uprobes.losses();
        let before = std::mem::replace(&mut self.declared, losses);
        losses.pieces.saturating_sub(before.pieces)
    }

    /// Whether the process has ended since the last question.
    pub(crate) fn ends(&mut self) -> bool {
        let ended = !self.has_ended && self.uprobes.has_ended();
        self.has_ended |= ended;
        ended
    }
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
