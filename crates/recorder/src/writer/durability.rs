//! Syncs the file to the device, and releases the producers that wait for that.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use tacho_logdir::{FileName, Fs, LogFiles, SyncMark};
use tacho_ring::arena::Arena;
use tacho_ring::layout::{DURABILITY_ASYNC, DURABILITY_SYNC};
use tacho_ring::producer::Futex;
use tacho_ring::{session, sys};
use tacho_settings::Setting;

use super::context::Context;
use super::rate_limit::Outages;
use crate::control::Severity;

/// Wait before the next attempt after the device has failed, µs.
const RETRY_US: i64 = 500_000;

/// State of what is not on the device yet.
#[derive(Default)]
pub(super) struct Durability {
    /// The setting of this round.
    setting: u32,
    /// Producers whose lines are in the file: connection, and its last `rec_no`.
    waiting: HashMap<u64, u64>,
    /// When everything was last on the device, µs of a monotonic clock.
    synced_us: i64,
    /// Earliest time of the next attempt, µs of the same clock.
    retry_at_us: i64,
    outages: Outages,
    /// How much of the log is on the device, as last stored in the arena; `None`: this writer has
    /// not stored it.
    noted: Option<Option<SyncMark>>,
}

fn setting_of(arena: &Arena) -> u32 {
    arena.shared().settings.0.durability.load(Ordering::Relaxed)
}

impl Durability {
    /// The stored value was in another arena.
    pub(super) fn begin_arena(&mut self) {
        self.waiting.clear();
        self.noted = None;
    }

    /// Whether statements wait for the device before they begin.
    pub(super) fn is_waited_for(&self) -> bool {
        self.setting == DURABILITY_SYNC
    }

    /// Whether lines must survive a failure of the machine.
    pub(super) fn is_wanted(&self) -> bool {
        self.setting != DURABILITY_ASYNC
    }

    /// Whether no producer waits for the device, and the device does not fail.
    pub(super) fn may_release(&self) -> bool {
        self.waiting.is_empty() && !(self.is_wanted() && self.outages.is_failing())
    }

    /// Whether statements wait for a device that fails.
    pub(super) fn is_failing(&self) -> bool {
        self.is_waited_for() && self.outages.is_failing()
    }

    /// The lines of these producers are in the file: connection, `rec_no`.
    pub(super) fn wait_for(&mut self, producers: impl IntoIterator<Item = (u64, u64)>) {
        self.waiting.extend(producers);
    }

    /// As [`wait_for`](Self::wait_for), unless the connection waits for a later record already.
    pub(super) fn wait_for_latest(&mut self, conn: u64, rec_no: u64) {
        let waiting = self.waiting.entry(conn).or_default();
        *waiting = rec_no.max(*waiting);
    }

    /// Applies the setting.
    pub(super) fn take_setting<F: Fs>(&mut self, arena: &Arena, files: &mut LogFiles<F>) {
        self.setting = setting_of(arena);
        files.set_durable(self.is_wanted());
    }

    /// Accounts for lines of the previous writer that may not be on the device.
    pub(super) fn doubt_predecessor<F: Fs>(
        &mut self,
        arena: &Arena,
        files: &mut LogFiles<F>,
        context: &Context,
    ) {
        if !self.is_wanted() {
            return;
        }
        let text = match files.doubt_predecessor(synced(arena)) {
            Ok(0) => return,
            Ok(bytes) => format!(
                "{bytes} bytes that another writer has written may not be on the device: there are too \
                 many of them to be written again"
            ),
            Err(error) => {
                format!("what another writer has written may not be on the device: {error}")
            }
        };
        context.say(Severity::Warning, &text);
    }

    /// Stores in the arena how much of the log is on the device.
    pub(super) fn note_synced<F: Fs>(&mut self, arena: &Arena, files: &LogFiles<F>) {
        let mark = files.sync_mark();
        if self.noted.replace(mark) == Some(mark) {
            return;
        }
        let successor = &arena.shared().successor.0;
        let (file, bytes) = mark.map_or((0, 0), |mark| (mark.file.code(), mark.bytes));
        if successor.synced_file.load(Ordering::Relaxed) != file {
            // If the writer dies between any two of these stores, the value is too small, never too
            // large.
            successor.synced_bytes.store(0, Ordering::Relaxed);
            // SYNC synced: pairs with the Acquire in `synced`.
            successor.synced_file.store(file, Ordering::Release);
        }
        // SYNC synced: not before the file; the writer that reads both runs after this one's death.
        successor.synced_bytes.store(bytes, Ordering::Release);
    }

    /// Time until the next sync, µs; `None`: never.
    pub(super) fn due_us(&self, context: &Context) -> Option<i64> {
        let interval_ms = context.control.setting(Setting::SyncIntervalMs);
        let due_us = (self.synced_us + interval_ms as i64 * 1_000).max(self.retry_at_us);
        self.is_wanted().then(|| due_us - sys::monotonic_us())
    }

    /// Syncs if it is due or a producer waits for it, and releases the producers.
    pub(super) fn settle<F: Fs>(
        &mut self,
        arena: &Arena,
        files: &mut LogFiles<F>,
        may_sync: bool,
        context: &Context,
    ) {
        // A producer that began to wait during this round is served in the next one.
        if self.setting != setting_of(arena) {
            return;
        }
        let Some(due_us) = self.due_us(context) else { return self.release_waiting(arena) };
        let is_waited_for = self.is_waited_for() && !self.waiting.is_empty();
        if (is_waited_for || due_us <= 0) && may_sync {
            self.sync(arena, files, context);
        }
        if !self.is_waited_for() {
            self.release_waiting(arena);
        }
    }

    /// `false`: the file's content should be on the device but is not.
    pub(super) fn sync<F: Fs>(
        &mut self,
        arena: &Arena,
        files: &mut LogFiles<F>,
        context: &Context,
    ) -> bool {
        let began_us = sys::monotonic_us();
        if began_us < self.retry_at_us {
            return false;
        }
        let result = files.sync();
        let now_us = sys::monotonic_us();
        let status = &context.status;
        match result {
            Ok(has_synced) => {
                (self.synced_us, self.retry_at_us) = (began_us, 0);
                if has_synced {
                    status.sync_count.fetch_add(1, Ordering::Relaxed);
                    let time_us = (now_us - began_us).max(0) as u64;
                    status.sync_time_us.fetch_add(time_us, Ordering::Relaxed);
                }
                if self.outages.succeeded() {
                    context.say(Severity::Note, "the audit log is on the device again");
                }
                self.release_waiting(arena);
                true
            }
            Err(error) => {
                self.retry_at_us = now_us + RETRY_US;
                status.write_errors.fetch_add(1, Ordering::Relaxed);
                let text = format!(
                    "{error} What is not on the device does not survive a power cut; it is tried \
                     again"
                );
                let is_news = self.outages.failed(now_us).is_some();
                context.report(Severity::Error, &text, is_news);
                false
            }
        }
    }

    fn release_waiting(&mut self, arena: &Arena) {
        if self.waiting.is_empty() {
            return;
        }
        for (conn, rec_no) in self.waiting.drain() {
            if let Some(slot) = session::find(arena.sessions(), conn) {
                session::announce_settled(slot, rec_no);
            }
        }
        session::wake_settled(&arena.shared().writer.0, &Futex);
    }
}

/// How much of the log is on the device, as stored by the last writer of this arena.
fn synced(arena: &Arena) -> Option<SyncMark> {
    let successor = &arena.shared().successor.0;
    // SYNC synced: pairs with the Release in `note_synced`: never more of this file than was stored
    // for it.
    let file = FileName::from_code(successor.synced_file.load(Ordering::Acquire))?;
    Some(SyncMark { file, bytes: successor.synced_bytes.load(Ordering::Relaxed) })
}
