//! An interface to a log: packets are recorded as they pass.
//!
//! ```text
//!  interface ─┬─ ring 1 ── thread 1: flows, probe ─┬─ arena ── the recorder's thread ── log
//!             └─ ring 2 ── thread 2: flows, probe ─┘
//! ```
//!
//! Each thread has all packets of its connections ([`crate::source::share`]), and is a producer of
//! its own, like a query thread of a server.

mod together;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::os::fd::BorrowedFd;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use tacho_embed::Recorder;
use tacho_settings::Setting;
use tacho_uprobes::UprobeError;

use crate::decryption::Decryption;
use crate::enrich::Enricher;
use crate::flows::{Budget, Figures, Flows};
use crate::metrics::Metrics;
use crate::packets::now_us;
use crate::recording::Recording;
use crate::source::live::{Binding, LiveError, LiveSource, Ring, ports_of};
use crate::source::share::Share;
use crate::spool::Spool;
use together::Together;
use worker::{Beside, Job, Lead, Worker};

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
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// What to capture.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The interface; `any` is all of them.
    pub interface: String,
    /// The servers.
    pub servers: Vec<SocketAddr>,
    /// Size of the rings that the kernel fills, all together, bytes.
    pub ring_bytes: usize,
    /// Threads that take packets, each with a ring of its own.
    pub threads: u32,
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

/// How long the writer may take at the end.
const STOP_TIMEOUT_MS: u64 = 60_000;

impl std::ops::AddAssign for Summary {
    fn add_assign(&mut self, other: Summary) {
        let Summary { packets, dropped, damaged, figures } = other;
        self.packets += packets;
        self.dropped += dropped;
        self.damaged += damaged;
        self.figures += figures;
    }
}

/// A capture whose sockets are open. It needs no privileges any more.
pub struct Open {
    capture: Capture,
    rings: Vec<Ring>,
    binding: Binding,
    /// One for each ring, or none.
    decryptions: Vec<Decryption>,
    /// Packets since then are in the rings, µs since 1970-01-01 UTC.
    opened_us: i64,
}

impl Capture {
    /// Opens the sockets, which needs the capability `CAP_NET_RAW`, and attaches to the server's
    /// process, which needs more. Packets wait in the rings from now on.
    ///
    /// # Errors
    /// See [`CaptureError`].
    pub fn open(mut self) -> Result<Open, CaptureError> {
        let shares = Share::all(self.threads);
        // First: a session whose request for TLS is captured is decrypted from its beginning.
        let ports = ports_of(&self.servers);
        let attach = |pid| Decryption::open(pid, &ports, self.ring_bytes, &shares);
        let decryptions = self.tls_process.map(attach).transpose()?.unwrap_or_default();
        self.budget.each.reads_tls = !decryptions.is_empty();
        let Capture { interface, servers, ring_bytes, .. } = &self;
        let source = LiveSource { interface, servers, ring_bytes: *ring_bytes };
        let (rings, binding) = source.open(&shares)?;
        Ok(Open { capture: self, rings, binding, decryptions, opened_us: now_us() })
    }
}

impl Open {
    /// How many threads take packets.
    pub fn threads(&self) -> usize {
        self.rings.len()
    }

    /// Records until `stop` becomes readable. `started` is called when everything is ready, and
    /// `report` every second and at the end. With `enrichers`, one for each thread, the server is
    /// asked what packets have not shown.
    ///
    /// # Errors
    /// See [`CaptureError`].
    pub fn run(
        self,
        recording: &Recording,
        stop: BorrowedFd<'_>,
        enrichers: Vec<Enricher>,
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
        let unseen = alive_us.map(|alive_us| (alive_us.min(self.opened_us), self.opened_us));
        let to = (&recorder, &*recording.log_directory);
        let recorded = self.record(to, stop, enrichers, unseen, started, report);
        recorder.stop(STOP_TIMEOUT_MS);
        recorded
    }

    /// The same with a recorder of this log. `unseen` is when no capture was running.
    fn record(
        self,
        (recorder, log_directory): (&Recorder, &Path),
        stop: BorrowedFd<'_>,
        enrichers: Vec<Enricher>,
        unseen: Option<(i64, i64)>,
        started: impl FnOnce(),
        report: &mut dyn FnMut(&Metrics),
    ) -> Result<Summary, CaptureError> {
        let Open { mut capture, rings, binding, decryptions, .. } = self;
        let spool = Spool::new(log_directory);
        capture.budget.each.spool = Some(Arc::clone(&spool));
        let together = &Together::new(rings.len());
        let (mut enrichers, mut decryptions) = (enrichers.into_iter(), decryptions.into_iter());
        let flows = Flows::of_threads(&capture.servers, capture.budget, capture.threads.max(1));
        let jobs = rings.into_iter().zip(flows).zip(0..).map(|((ring, flows), index)| {
            let beside = Beside { enricher: enrichers.next(), decryption: decryptions.next() };
            Job { index, ring, flows, beside, say: capture.say }
        });
        let mut jobs = jobs.collect::<Vec<_>>().into_iter();
        let Some(first) = jobs.next() else { return Ok(Summary::default()) };
        thread::scope(|scope| {
            // The others end, too, if this thread ends by an error.
            let ends = together.ends_with_this();
            let (ring, mut first) = Worker::new(first, together, recorder, stop);
            if let Some((since_us, until_us)) = unseen {
                first.declare_unseen(since_us, until_us);
            }
            let mut others = Vec::new();
            for job in jobs {
                let thread = thread::Builder::new().name(format!("tacho-packet-{}", job.index));
                let work = move || {
                    let _ends = together.ends_with_this();
                    let (ring, worker) = Worker::new(job, together, recorder, stop);
                    worker.run(ring, stop)
                };
                others.push(thread.spawn_scoped(scope, work).map_err(CaptureError::Thread)?);
            }
            started();
            let lead = Lead::new(binding, &capture.interface, spool, &mut *report);
            let mut outcomes = vec![first.leading(lead).run(ring, stop)];
            drop(ends);
            for other in others {
                outcomes.push(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            report(&together.metrics());
            let mut sum = Summary::default();
            for outcome in outcomes {
                sum += outcome?;
            }
            Ok(sum)
        })
    }
}
