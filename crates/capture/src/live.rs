//! An interface to a log: packets are recorded as they pass.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tacho_settings::Setting;

use crate::flows::{Budget, Figures, Flows};
use crate::link::{self, Link};
use crate::probe::Probe;
use crate::recording::Recording;
use crate::source::live::{LiveError, Packet, Ring};

/// Why a capture cannot start, or continue.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The interface.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The recorder.
    #[error("cannot record into {directory}: {why}")]
    Recorder {
        /// The log directory.
        directory: String,
        /// Why it cannot.
        why: String,
    },
}

/// What to capture.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The interface; `any` is all of them.
    pub interface: String,
    /// The servers.
    pub servers: Vec<SocketAddr>,
    /// Size of the ring that the kernel fills, bytes.
    pub ring_bytes: usize,
    /// Memory for connections.
    pub budget: Budget,
}

/// What was captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets.
    pub packets: u64,
    /// Packets that the kernel had no space for.
    pub dropped: u64,
    /// Connections.
    pub figures: Figures,
}

/// How often the kernel's counters are read, µs.
const COUNT_EVERY_US: i64 = 1_000_000;
/// How long to wait for packets at a time: silent connections need a clock.
const WAIT: Duration = Duration::from_millis(100);
/// How long the writer may take at the end.
const STOP_TIMEOUT_MS: u64 = 60_000;

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A capture whose socket is open. It needs no privileges any more.
pub struct Open {
    capture: Capture,
    ring: Ring,
}

impl Capture {
    /// Opens the socket, which needs the capability `CAP_NET_RAW`. Packets wait in the ring from
    /// now on.
    ///
    /// # Errors
    /// See [`LiveError`].
    pub fn open(self) -> Result<Open, LiveError> {
        let ports = self.servers.iter().map(SocketAddr::port).collect::<BTreeSet<_>>();
        let ports = ports.into_iter().collect::<Vec<_>>();
        let ring = Ring::open(&self.interface, &ports, self.ring_bytes)?;
        Ok(Open { capture: self, ring })
    }
}

impl Open {
    /// Records until `stop` becomes readable. `started` is called when everything is ready.
    ///
    /// # Errors
    /// See [`CaptureError`].
    pub fn run(
        mut self,
        recording: &Recording,
        stop: BorrowedFd<'_>,
        started: impl FnOnce(),
    ) -> Result<Summary, CaptureError> {
        let servers = self.capture.servers.iter().map(SocketAddr::to_string).collect::<Vec<_>>();
        let of = format!(" on {}: {}", self.capture.interface, servers.join(", "));
        let recorder = recording.start(&of).map_err(|why| CaptureError::Recorder {
            directory: recording.log_directory.display().to_string(),
            why,
        })?;
        recorder.set(Setting::Logging, 1);
        started();
        let mut flows = Flows::new(self.capture.servers.clone(), self.capture.budget);
        let mut probe = Probe::new(&recorder);
        let mut summary = Summary::default();
        let mut counted_us = now_us();
        let outcome = loop {
            self.take_blocks(&mut flows, &mut probe);
            let now_us = now_us();
            if now_us - counted_us >= COUNT_EVERY_US {
                self.count(&mut summary, &mut probe, counted_us, now_us);
                counted_us = now_us;
            }
            if is_readable(stop) {
                break Ok(());
            }
            // Half a second behind: packets may still be in a block that is not full.
            flows.tick(now_us - 500_000, &mut probe);
            if let Err(error) = self.ring.wait(stop, WAIT) {
                break Err(error);
            }
        };
        self.take_blocks(&mut flows, &mut probe);
        self.count(&mut summary, &mut probe, counted_us, now_us());
        flows.finish(&mut probe);
        drop(probe);
        recorder.stop(STOP_TIMEOUT_MS);
        outcome?;
        summary.figures = flows.figures();
        Ok(summary)
    }

    /// Takes what the kernel has filled, but not for ever: it may be as fast.
    fn take_blocks(&mut self, flows: &mut Flows, probe: &mut Probe<'_>) {
        const BLOCKS_MAX: usize = 64;
        let mut each = |packet: Packet<'_>| {
            let link = Link::Packet(packet.protocol);
            let (bytes, packet_bytes) = (packet.bytes, packet.packet_bytes);
            if let Some(segment) = link::segment(link, bytes, packet_bytes, packet.ts_us) {
                flows.segment(&segment, probe);
            }
        };
        for _ in 0..BLOCKS_MAX {
            if !self.ring.next(&mut each) {
                return;
            }
        }
    }

    /// Declares the packets that the kernel had no space for.
    fn count(&self, summary: &mut Summary, probe: &mut Probe<'_>, since_us: i64, now_us: i64) {
        // A kernel that does not answer has no news.
        let counts = self.ring.counts().unwrap_or_default();
        summary.packets += counts.packets;
        summary.dropped += counts.dropped;
        if counts.dropped > 0 {
            probe.dropped(counts.dropped, since_us, now_us);
        }
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    use std::os::fd::AsRawFd;
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry; it does not wait.
    let ready = unsafe { libc::poll(&mut poll, 1, 0) };
    ready > 0 || (ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted)
}
