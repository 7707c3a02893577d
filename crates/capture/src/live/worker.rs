//! One thread of a capture: the packets of its ring.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tacho_embed::Recorder;

use super::Summary;
use super::together::Together;
use crate::decryption::Decryption;
use crate::enrich::Enricher;
use crate::flows::Flows;
use crate::link::Segment;
use crate::metrics::Metrics;
use crate::packets::{self, Taker, WAIT, now_us};
use crate::probe::Probe;
use crate::source::live::{BLOCK_WAIT, Binding, Change, LiveError, Ring};
use crate::spool::Spool;

/// How often the kernel's counters are read, µs.
const COUNT_EVERY_US: i64 = 1_000_000;
/// How far behind the clock of silent connections is, µs: packets may still be in a block that is
/// not full.
const BEHIND_US: i64 = 500_000;

/// What a thread reads beside the packets.
pub(super) struct Beside {
    pub enricher: Option<Enricher>,
    pub decryption: Option<Decryption>,
}

/// What a thread takes over.
pub(super) struct Job {
    pub index: u32,
    pub ring: Ring,
    pub flows: Flows,
    pub beside: Beside,
    pub say: fn(&str),
}

/// What the first thread does for all of them.
pub(super) struct Lead<'l> {
    binding: Binding,
    interface: &'l str,
    spool: Arc<Spool>,
    report: &'l mut dyn FnMut(&Metrics),
    /// When the interface was last seen, if it is not there, µs.
    gone_us: Option<i64>,
}

impl<'l> Lead<'l> {
    pub(super) fn new(
        binding: Binding,
        interface: &'l str,
        spool: Arc<Spool>,
        report: &'l mut dyn FnMut(&Metrics),
    ) -> Lead<'l> {
        Lead { binding, interface, spool, report, gone_us: None }
    }

    /// Declares the packets of an interface that was not there. `since_us` is the last look.
    fn follow(&mut self, since_us: i64, now_us: i64, probe: &mut Probe<'_>, say: fn(&str)) {
        let interface = self.interface;
        match self.binding.follow() {
            Change::Same => {}
            Change::Gone if self.gone_us.is_some() => {}
            Change::Gone => {
                self.gone_us = Some(since_us);
                say(&format!("there is no interface {interface} any more; waiting for it"));
            }
            Change::New => {
                let since_us = self.gone_us.take().unwrap_or(since_us);
                probe.unseen("interface", 0, since_us, now_us);
                say(&format!("capturing on the new interface {interface}"));
            }
        }
    }
}

/// A thread at work.
pub(super) struct Worker<'w> {
    index: u32,
    flows: Flows,
    beside: Beside,
    say: fn(&str),
    probe: Probe<'w>,
    together: &'w Together,
    lead: Option<Lead<'w>>,
    summary: Summary,
    /// The last look, µs.
    counted_us: i64,
    /// All packets were read that were captured before.
    read_up_to: Instant,
}

impl<'w> Worker<'w> {
    /// In the thread that does it: only that may use the probe.
    pub(super) fn new(
        job: Job,
        together: &'w Together,
        recorder: &'w Recorder,
        stop: BorrowedFd<'w>,
    ) -> (Ring, Worker<'w>) {
        let Job { index, ring, flows, beside, say } = job;
        let worker = Worker {
            index,
            flows,
            beside,
            say,
            probe: Probe::new(recorder).of_thread(index).stopped_by(stop),
            together,
            lead: None,
            summary: Summary::default(),
            counted_us: now_us(),
            read_up_to: Instant::now(),
        };
        (ring, worker)
    }

    /// It is the first one.
    pub(super) fn leading(self, lead: Lead<'w>) -> Worker<'w> {
        Worker { lead: Some(lead), ..self }
    }

    /// No capture was running between these times.
    pub(super) fn declare_unseen(&mut self, since_us: i64, until_us: i64) {
        self.probe.unseen("not_running", 0, since_us, until_us);
    }

    /// Records until `stop` becomes readable, or another thread has ended.
    pub(super) fn run(
        mut self,
        mut ring: Ring,
        stop: BorrowedFd<'_>,
    ) -> Result<Summary, LiveError> {
        let outcome = packets::take(&mut ring, stop, &mut self);
        packets::take_rest(&mut ring, &mut self);
        let now_us = now_us();
        self.take_decrypted(now_us);
        self.look(&ring, now_us);
        if let Some(since_us) = self.lead.as_ref().and_then(|lead| lead.gone_us) {
            self.probe.unseen("interface", 0, since_us, now_us);
        }
        self.flows.finish(&mut self.probe);
        self.together.note(self.index as usize, self.metrics());
        outcome?;
        Ok(Summary { figures: self.flows.figures(), ..self.summary })
    }

    /// Takes what was decrypted before a time: the packets of that time have come.
    fn take_decrypted(&mut self, ts_us: i64) {
        let Worker { beside, flows, probe, .. } = self;
        if let Some(decryption) = &mut beside.decryption {
            decryption.before(ts_us, &mut |ts_us, piece| flows.decrypted(ts_us, piece, probe));
        }
    }

    fn ask(&mut self, since: Instant, is_empty: bool) {
        let Some(enricher) = &mut self.beside.enricher else { return };
        if is_empty {
            self.read_up_to = since.checked_sub(BLOCK_WAIT).unwrap_or(self.read_up_to);
        }
        enricher.turn(since, self.read_up_to, &mut self.flows, &mut self.probe, self.say);
    }

    /// Declares what was decrypted and found no space.
    fn look_at_decryption(&mut self, now_us: i64) {
        let Some(decryption) = &mut self.beside.decryption else { return };
        // The first thread counts those of all.
        let lost = if self.lead.is_some() { decryption.lost_pieces() } else { 0 };
        if lost > 0 {
            self.probe.unseen("uprobes", lost, self.counted_us, now_us);
        }
        if decryption.ends() {
            self.take_decrypted(now_us);
            self.flows.end_decryption(now_us, &mut self.probe);
            if self.lead.is_some() {
                let say = self.say;
                say("the server's process has ended: encrypted sessions of a new one are not read");
            }
        }
    }

    /// Declares the packets that the kernel had no space for.
    fn look(&mut self, ring: &Ring, now_us: i64) {
        self.look_at_decryption(now_us);
        // A kernel that does not answer has no news.
        let counts = ring.counts().unwrap_or_default();
        self.summary.packets += counts.packets;
        self.summary.dropped += counts.dropped;
        if counts.dropped > 0 {
            self.probe.unseen("kernel", counts.dropped, self.counted_us, now_us);
        }
        if let Some(lead) = &mut self.lead {
            lead.follow(self.counted_us, now_us, &mut self.probe, self.say);
            if let Some(problem) = lead.spool.take_problem() {
                (self.say)(&problem);
            }
        }
        self.counted_us = now_us;
    }

    fn metrics(&self) -> Metrics {
        let Summary { packets, dropped, damaged, .. } = self.summary;
        let Worker { flows, probe, .. } = self;
        Metrics {
            packets,
            dropped,
            damaged,
            connections: flows.figures().connections,
            followed: flows.followed() as u64,
            held_bytes: flows.held_bytes() as u64,
            decrypted_bytes: flows.figures().decrypted_bytes,
            is_there: self.lead.as_ref().is_none_or(|lead| lead.gone_us.is_none()),
            enrich: self.beside.enricher.as_ref().map(Enricher::figures),
            recorded: probe.recorded().clone(),
            threads: Vec::new(),
        }
    }
}

impl Taker for Worker<'_> {
    fn at(&mut self, ts_us: i64) {
        self.take_decrypted(ts_us);
    }

    fn segment(&mut self, segment: &Segment<'_>) {
        self.flows.segment(segment, &mut self.probe);
    }

    fn damaged(&mut self) {
        self.summary.damaged += 1;
    }

    fn turn(&mut self, ring: &Ring, since: Instant, is_empty: bool) -> Option<Duration> {
        self.ask(since, is_empty);
        let now_us = now_us();
        if now_us - self.counted_us >= COUNT_EVERY_US {
            self.look(ring, now_us);
            self.together.note(self.index as usize, self.metrics());
            if let Some(lead) = &mut self.lead {
                (lead.report)(&self.together.metrics());
            }
        }
        if is_empty {
            self.take_decrypted(now_us - BEHIND_US);
            self.flows.tick(now_us - BEHIND_US, &mut self.probe);
        }
        (!self.together.has_ended()).then_some(WAIT)
    }
}
