//! From the file to the device, and who waits for that.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use tacho_logdir::{FileName, Fs, SyncMark};
use tacho_ring::layout::{DURABILITY_ASYNC, DURABILITY_SYNC};
use tacho_ring::producer::Futex;
use tacho_ring::{session, sys};
use tacho_settings::Setting;

use super::Writer;
use super::seldom::Outages;
use crate::control::{Severity, Status};

/// How long a device that has failed is left alone, µs.
const RETRY_US: i64 = 500_000;

/// What is not on the device yet.
#[derive(Default)]
pub(super) struct Syncing {
    /// The setting of this round.
    durability: u32,
    /// Producers whose lines are in the file: connection, and its last `rec_no`.
    pub(super) waiting: HashMap<u64, u64>,
    /// When everything was on the device, µs of a clock that is never set.
    synced_us: i64,
    /// Not before, µs of the same clock.
    retry_at_us: i64,
    outages: Outages,
    /// What the arena says of how far the log is on the device; `None`: this writer has not looked.
    noted: Option<Option<SyncMark>>,
}

impl Syncing {
    /// What was said was said in another arena.
    pub(super) fn begin_arena(&mut self) {
        self.waiting.clear();
        self.noted = None;
    }

    /// Whether statements wait for the device before they begin.
    pub(super) fn is_waited_for(&self) -> bool {
        self.durability == DURABILITY_SYNC
    }

    /// Whether lines shall survive the machine.
    pub(super) fn is_wanted(&self) -> bool {
        self.durability != DURABILITY_ASYNC
    }

    /// Whether nobody waits for the device, and it does not fail.
    pub(super) fn may_let_go(&self) -> bool {
        self.waiting.is_empty() && !(self.is_wanted() && self.outages.is_failing())
    }

    /// Whether statements wait for a device that fails.
    pub(super) fn is_failing(&self) -> bool {
        self.is_waited_for() && self.outages.is_failing()
    }
}

impl<F: Fs> Writer<F> {
    fn durability(&self) -> u32 {
        self.arena().shared().settings.0.durability.load(Ordering::Relaxed)
    }

    pub(super) fn take_durability(&mut self) {
        self.syncing.durability = self.durability();
        self.files.set_durable(self.syncing.durability != DURABILITY_ASYNC);
    }

    /// What the writer before this one has written may not be on the device.
    pub(super) fn doubt_device(&mut self) {
        self.take_durability();
        if !self.syncing.is_wanted() {
            return;
        }
        let text = match self.files.doubt_predecessor(self.synced()) {
            Ok(0) => return,
            Ok(bytes) => format!(
                "{bytes} bytes that another writer has written may not be on the device: there are too \
                 many of them to be written again"
            ),
            Err(error) => {
                format!("what another writer has written may not be on the device: {error}")
            }
        };
        self.say(Severity::Warning, &text);
    }

    /// How far the log is on the device, as the last writer of this arena has left it here.
    fn synced(&self) -> Option<SyncMark> {
        let successor = &self.arena().shared().successor.0;
        // SYNC synced: pairs with the Release in `note_synced`: not more of this file than of it was said.
        let file = FileName::from_code(successor.synced_file.load(Ordering::Acquire))?;
        Some(SyncMark { file, bytes: successor.synced_bytes.load(Ordering::Relaxed) })
    }

    /// Leaves there how far it is.
    pub(super) fn note_synced(&mut self) {
        let mark = self.files.sync_mark();
        if self.syncing.noted.replace(mark) == Some(mark) {
            return;
        }
        let successor = &self.arena().shared().successor.0;
        let (file, bytes) = mark.map_or((0, 0), |mark| (mark.file.code(), mark.bytes));
        if successor.synced_file.load(Ordering::Relaxed) != file {
            // A death between any two of these makes it less than it was, never more.
            successor.synced_bytes.store(0, Ordering::Relaxed);
            // SYNC synced: pairs with the Acquire in `synced`.
            successor.synced_file.store(file, Ordering::Release);
        }
        // SYNC synced: not before the file; the writer that reads both comes after this one's death.
        successor.synced_bytes.store(bytes, Ordering::Release);
    }

    /// When it is time to sync again, µs from now; `None`: never.
    pub(super) fn sync_due_us(&self) -> Option<i64> {
        let interval_us = self.control.setting(Setting::SyncIntervalMs) as i64 * 1_000;
        let due_us = (self.syncing.synced_us + interval_us).max(self.syncing.retry_at_us);
        (self.syncing.durability != DURABILITY_ASYNC).then(|| due_us - sys::monotonic_us())
    }

    /// Brings what is in the file to the device, if it is time or somebody waits for it, and
    /// lets those go.
    pub(super) fn settle(&mut self) {
        self.settle_round();
        self.note_synced();
    }

    fn settle_round(&mut self) {
        // Who asks for it since this round began waits for the next one.
        if self.syncing.durability != self.durability() {
            return;
        }
        let Some(due_us) = self.sync_due_us() else { return self.release_waiting() };
        let is_waited_for = self.syncing.is_waited_for() && !self.syncing.waiting.is_empty();
        // While the file cannot be written, there is nothing to vouch for.
        if (is_waited_for || due_us <= 0) && self.batch.is_empty() {
            self.sync();
        }
        if !self.syncing.is_waited_for() {
            self.release_waiting();
        }
    }

    /// `false`: what is in the file is not on the device, though it should be.
    pub(super) fn sync(&mut self) -> bool {
        let began_us = sys::monotonic_us();
        if began_us < self.syncing.retry_at_us {
            return false;
        }
        let result = self.files.sync();
        let now_us = sys::monotonic_us();
        match result {
            Ok(has_synced) => {
                (self.syncing.synced_us, self.syncing.retry_at_us) = (began_us, 0);
                if has_synced {
                    self.status.sync_count.fetch_add(1, Ordering::Relaxed);
                    let time_us = (now_us - began_us).max(0) as u64;
                    self.status.sync_time_us.fetch_add(time_us, Ordering::Relaxed);
                }
                if self.syncing.outages.succeeded() {
                    self.say(Severity::Note, "the audit log is on the device again");
                }
                self.release_waiting();
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

    fn release_waiting(&mut self) {
        if self.syncing.waiting.is_empty() {
            return;
        }
        let arena = *self.arena();
        for (conn, rec_no) in self.syncing.waiting.drain() {
            if let Some(slot) = session::find(arena.sessions(), conn) {
                session::announce_settled(slot, rec_no);
            }
        }
        session::wake_settled(&arena.shared().writer.0, &Futex);
    }
}
