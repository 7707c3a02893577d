//! An interface to a log: packets are recorded as they pass.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tacho_settings::Setting;

use tacho_uprobes::UprobeError;

use crate::decryption::Decryption;
use crate::enrich::{self, Enricher};
use crate::flows::{Budget, Figures, Flows};
use crate::link::{self, Link, Segment};
use crate::metrics::Metrics;
use crate::probe::{Probe, is_readable};
use crate::recording::Recording;
use crate::source::live::{BLOCK_WAIT, Change, LiveError, Packet, Ring};

/// Why a capture cannot start, or continue.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The interface.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The uprobes.
    #[error(transparent)]
    Uprobes(#[from] UprobeError),
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
    /// The server's process, if its encrypted sessions are to be read.
    pub tls_process: Option<NonZeroU32>,
    /// Memory for connections.
    pub budget: Budget,
    /// Says something to the person who runs it.
    pub say: fn(&str),
}

/// What was captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets.
    pub packets: u64,
    /// Packets that the kernel had no space for.
    pub dropped: u64,
    /// Packets with a wrong checksum: their receiver discards them.
    pub damaged: u64,
    /// Connections.
    pub figures: Figures,
}

/// How often the kernel's counters are read, µs.
const COUNT_EVERY_US: i64 = 1_000_000;
/// Blocks of the ring that are taken at a time.
const BLOCKS_MAX: usize = 64;
/// How long to wait for packets at a time: silent connections need a clock.
const WAIT: Duration = Duration::from_millis(100);
/// How long the writer may take at the end.
const STOP_TIMEOUT_MS: u64 = 60_000;

/// The time, µs since 1970-01-01 UTC.
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A capture whose socket is open. It needs no privileges any more.
pub struct Open {
    capture: Capture,
    ring: Ring,
    decryption: Option<Decryption>,
    /// Packets since then are in the ring, µs since 1970-01-01 UTC.
    opened_us: i64,
}

impl Capture {
    /// Opens the socket, which needs the capability `CAP_NET_RAW`, and attaches to the server's
    /// process, which needs more. Packets wait in the ring from now on.
    ///
    /// # Errors
    /// See [`CaptureError`].
    pub fn open(mut self) -> Result<Open, CaptureError> {
        let ports = self.servers.iter().map(SocketAddr::port).collect::<BTreeSet<_>>();
        let ports = ports.into_iter().collect::<Vec<_>>();
        // First: a session whose request for TLS is captured is decrypted from its beginning.
        let attach = |pid| Decryption::open(pid, &ports, self.ring_bytes);
        let decryption = self.tls_process.map(attach).transpose()?;
        self.budget.each.reads_tls = decryption.is_some();
        let ring = Ring::open(&self.interface, &ports, self.ring_bytes)?;
        Ok(Open { capture: self, ring, decryption, opened_us: now_us() })
    }
}

impl Open {
    /// Records until `stop` becomes readable. `started` is called when everything is ready, and
    /// `report` every second and at the end. With an `enricher`, the server is asked what packets
    /// have not shown.
    ///
    /// # Errors
    /// See [`CaptureError`].
    pub fn run(
        mut self,
        recording: &Recording,
        stop: BorrowedFd<'_>,
        mut enricher: Option<Enricher>,
        started: impl FnOnce(),
        report: &mut dyn FnMut(&Metrics),
    ) -> Result<Summary, CaptureError> {
        let servers = self.capture.servers.iter().map(SocketAddr::to_string).collect::<Vec<_>>();
        let of = format!(" on {}: {}", self.capture.interface, servers.join(", "));
        let alive_us = recording.last_alive_us();
        let recorder = recording.start(&of).map_err(|why| CaptureError::Recorder {
            directory: recording.log_directory.display().to_string(),
            why,
        })?;
        recorder.set(Setting::Logging, 1);
        let mut flows = Flows::new(self.capture.servers.clone(), self.capture.budget);
        let mut probe = Probe::new(&recorder).stopped_by(stop);
        if let Some(alive_us) = alive_us {
            let opened_us = self.opened_us;
            probe.unseen("not_running", 0, alive_us.min(opened_us), opened_us);
        }
        started();
        let mut watch = Watch::new(now_us());
        let outcome = loop {
            let now = Instant::now();
            let is_empty = self.take_blocks(BLOCKS_MAX, &mut watch, &mut flows, &mut probe);
            if let Some(enricher) = &mut enricher {
                if is_empty {
                    watch.read_up_to = now.checked_sub(BLOCK_WAIT).unwrap_or(watch.read_up_to);
                }
                enricher.turn(now, watch.read_up_to, &mut flows, &mut probe, self.capture.say);
                watch.enrich = Some(enricher.figures());
            }
            let now_us = now_us();
            if now_us - watch.counted_us >= COUNT_EVERY_US {
                self.look(&mut watch, &mut flows, &mut probe, now_us);
                report(&watch.metrics(&flows, &probe));
            }
            if is_readable(stop) {
                break Ok(());
            }
            if is_empty {
                // Half a second behind: packets may still be in a block that is not full.
                self.take_decrypted(now_us - 500_000, &mut flows, &mut probe);
                flows.tick(now_us - 500_000, &mut probe);
            }
            if let Err(error) = self.ring.wait(stop, WAIT) {
                break Err(error);
            }
        };
        // Everything that has arrived up to now, but not for ever: more arrives meanwhile.
        self.take_blocks(self.ring.block_count(), &mut watch, &mut flows, &mut probe);
        self.take_decrypted(now_us(), &mut flows, &mut probe);
        self.look(&mut watch, &mut flows, &mut probe, now_us());
        watch.finish(&mut probe);
        flows.finish(&mut probe);
        report(&watch.metrics(&flows, &probe));
        drop(probe);
        recorder.stop(STOP_TIMEOUT_MS);
        outcome?;
        Ok(Summary { figures: flows.figures(), ..watch.summary })
    }

    /// Takes what the kernel has filled, but at most so many blocks. `true`: there is no more.
    fn take_blocks(
        &mut self,
        blocks_max: usize,
        watch: &mut Watch,
        flows: &mut Flows,
        probe: &mut Probe<'_>,
    ) -> bool {
        let Open { ring, decryption, .. } = self;
        let mut each = |packet: Packet<'_>| {
            if let Some(decryption) = decryption {
                decryption.before(packet.ts_us, &mut |ts_us, piece| {
                    flows.decrypted(ts_us, piece, probe);
                });
            }
            match segment_of(&packet) {
                Ok(Some(segment)) => flows.segment(&segment, probe),
                Ok(None) => {}
                Err(Damaged) => watch.summary.damaged += 1,
            }
        };
        (0..blocks_max).any(|_| !ring.next(&mut each))
    }

    /// Takes what was decrypted before a time, if packets do not come: those before it have come.
    fn take_decrypted(&mut self, ts_us: i64, flows: &mut Flows, probe: &mut Probe<'_>) {
        if let Some(decryption) = &mut self.decryption {
            decryption.before(ts_us, &mut |ts_us, piece| flows.decrypted(ts_us, piece, probe));
        }
    }

    /// Declares what was decrypted and found no space.
    fn look_at_decryption(
        &mut self,
        watch: &Watch,
        flows: &mut Flows,
        probe: &mut Probe<'_>,
        now_us: i64,
    ) {
        let Some(decryption) = &mut self.decryption else { return };
        let lost = decryption.lost_pieces();
        if lost > 0 {
            probe.unseen("uprobes", lost, watch.counted_us, now_us);
        }
        if decryption.ends() {
            decryption.before(now_us, &mut |ts_us, piece| flows.decrypted(ts_us, piece, probe));
            flows.end_decryption(now_us, probe);
            let say = self.capture.say;
            say("the server's process has ended: encrypted sessions of a new one are not read");
        }
    }

    /// Declares the packets that the kernel had no space for, and those of an interface that was
    /// not there.
    fn look(&mut self, watch: &mut Watch, flows: &mut Flows, probe: &mut Probe<'_>, now_us: i64) {
        self.look_at_decryption(watch, flows, probe, now_us);
        // A kernel that does not answer has no news.
        let counts = self.ring.counts().unwrap_or_default();
        watch.summary.packets += counts.packets;
        watch.summary.dropped += counts.dropped;
        if counts.dropped > 0 {
            probe.unseen("kernel", counts.dropped, watch.counted_us, now_us);
        }
        let interface = &self.capture.interface;
        match self.ring.follow() {
            Change::Same => {}
            Change::Gone if watch.gone_us.is_some() => {}
            Change::Gone => {
                watch.gone_us = Some(watch.counted_us);
                let text = format!("there is no interface {interface} any more; waiting for it");
                (self.capture.say)(&text);
            }
            Change::New => {
                let since_us = watch.gone_us.take().unwrap_or(watch.counted_us);
                probe.unseen("interface", 0, since_us, now_us);
                (self.capture.say)(&format!("capturing on the new interface {interface}"));
            }
        }
        watch.counted_us = now_us;
    }
}

/// A packet with a wrong checksum: its receiver discards it.
pub(crate) struct Damaged;

/// The TCP segment of a packet, if it has one.
pub(crate) fn segment_of<'p>(packet: &Packet<'p>) -> Result<Option<Segment<'p>>, Damaged> {
    let link = Link::Packet(packet.protocol);
    if packet.is_unverified && link::has_wrong_checksum(link, packet.bytes) {
        return Err(Damaged);
    }
    Ok(link::segment(link, packet.bytes, packet.packet_bytes, packet.ts_us))
}

/// What is looked at every second.
struct Watch {
    summary: Summary,
    /// The last look, µs.
    counted_us: i64,
    /// When the interface was last seen, if it is not there, µs.
    gone_us: Option<i64>,
    /// All packets were read that were captured before.
    read_up_to: Instant,
    /// What the server was asked, if it is asked at all.
    enrich: Option<enrich::Figures>,
}

impl Watch {
    fn new(now_us: i64) -> Watch {
        let read_up_to = Instant::now();
        let summary = Summary::default();
        Watch { summary, counted_us: now_us, gone_us: None, read_up_to, enrich: None }
    }

    fn metrics(&self, flows: &Flows, probe: &Probe<'_>) -> Metrics {
        let Summary { packets, dropped, damaged, .. } = self.summary;
        Metrics {
            packets,
            dropped,
            damaged,
            connections: flows.figures().connections,
            followed: flows.followed() as u64,
            held_bytes: flows.held_bytes() as u64,
            decrypted_bytes: flows.figures().decrypted_bytes,
            is_there: self.gone_us.is_none(),
            enrich: self.enrich,
            recorded: probe.recorded().clone(),
        }
    }

    fn finish(&self, probe: &mut Probe<'_>) {
        if let Some(since_us) = self.gone_us {
            probe.unseen("interface", 0, since_us, self.counted_us);
        }
    }
}
