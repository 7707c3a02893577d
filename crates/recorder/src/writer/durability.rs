//! From the file to the device, and who waits for that.

use std::sync::atomic::Ordering;

use tacho_ring::layout::{DURABILITY_ASYNC, DURABILITY_SYNC};
use tacho_ring::producer::Futex;
use tacho_ring::{session, sys};

use super::Writer;
use super::seldom::Outages;
use crate::control::{Severity, Status};
use crate::files::Fs;

/// How long a device that has failed is left alone, µs.
const RETRY_US: i64 = 250_000;

/// What is not on the device yet.
#[derive(Default)]
pub(super) struct Syncing {
    /// Producers whose lines are in the file: connection, `rec_no`.
    pub(super) waiting: Vec<(u64, u64)>,
    /// When everything was on the device, µs of a clock that is never set.
    synced_us: i64,
    /// Not before, µs of the same clock.
    retry_at_us: i64,
    outages: Outages,
}

impl<F: Fs> Writer<F> {
    fn durability(&self) -> u32 {
        self.arena().shared().settings.0.durability.load(Ordering::Relaxed)
    }

    /// Whether statements wait for the device before they begin.
    pub(super) fn is_waited_for(&self) -> bool {
        self.durability() == DURABILITY_SYNC
    }

    pub(super) fn take_durability(&mut self) {
        self.files.set_durable(self.durability() != DURABILITY_ASYNC);
    }

    /// Brings what is in the file to the device, if it is time or somebody waits for it, and
    /// lets those go.
    pub(super) fn settle(&mut self) {
        let durability = self.durability();
        if durability == DURABILITY_ASYNC {
            return self.let_go();
        }
        let now_us = sys::monotonic_us();
        let interval_us = self.control.sync_interval_ms.load(Ordering::Relaxed) as i64 * 1_000;
        let is_sync = durability == DURABILITY_SYNC;
        let is_waited_for = is_sync && !self.syncing.waiting.is_empty();
        if (is_waited_for || now_us - self.syncing.synced_us >= interval_us)
            && now_us >= self.syncing.retry_at_us
            // While the file cannot be written, there is nothing to vouch for.
            && self.batch.is_empty()
        {
            self.sync();
        }
        if !is_sync {
            self.let_go();
        }
    }

    /// `false`: what is in the file is not on the device, though it should be.
    pub(super) fn sync(&mut self) -> bool {
        let began_us = sys::monotonic_us();
        let result = self.files.sync();
        let now_us = sys::monotonic_us();
        match result {
            Ok(has_synced) => {
                self.syncing.synced_us = began_us;
                if has_synced {
                    self.status.sync_count.fetch_add(1, Ordering::Relaxed);
                    let time_us = (now_us - began_us).max(0) as u64;
                    self.status.sync_time_us.fetch_add(time_us, Ordering::Relaxed);
                }
                if self.syncing.outages.succeeded() {
                    self.say(Severity::Note, "the audit log is on the device again");
                }
                self.let_go();
                true
            }
            Err(error) => {
                self.syncing.retry_at_us = now_us + RETRY_US;
                self.status.write_errors.fetch_add(1, Ordering::Relaxed);
                let text = format!(
                    "{error} What is not on the device does not survive a power cut; it is tried \
                     again"
                );
                if self.syncing.outages.failed(now_us).is_some() {
                    self.say(Severity::Error, &text);
                }
                Status::set(&self.status.last_error, &text);
                false
            }
        }
    }

    fn let_go(&mut self) {
        if self.syncing.waiting.is_empty() {
            return;
        }
        let arena = *self.arena();
        for (conn, rec_no) in self.syncing.waiting.drain(..) {
            if let Some(slot) = session::find(arena.sessions(), conn) {
                session::announce_settled(slot, rec_no);
            }
        }
        session::wake_settled(&arena.shared().writer.0, &Futex);
    }
}
