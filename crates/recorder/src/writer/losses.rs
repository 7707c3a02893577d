//! Telling of losses.

use std::path::Path;
use std::sync::atomic::Ordering;

use tacho_logdir::Fs;
use tacho_record::json;
use tacho_record::{EventKind, Record};
use tacho_ring::arena::Arena;
use tacho_ring::sys;

use super::Writer;
use crate::arena_file;
use crate::control::Severity;

/// Losses are told of in one line, at most this often, µs.
const LOST_INTERVAL_US: u64 = 1_000_000;

impl<F: Fs> Writer<F> {
    pub(crate) fn count_corrupt(&self, count: u64) {
        let counters = &self.arena().shared().counters.0;
        counters.lost_corrupt.fetch_add(count, Ordering::Relaxed);
    }

    /// A `lost` line for each cause that has new losses.
    pub(super) fn tell_losses(&mut self, now_us: i64) {
        let damaged = self.drain.take_damaged() + self.join.take_missing();
        let buried = u64::from(self.drain.bury_dead(sys::monotonic_us()));
        if damaged + buried > 0 {
            self.count_corrupt(damaged + buried);
        }
        if now_us.abs_diff(self.lost_told_us) < LOST_INTERVAL_US {
            return;
        }
        let arena = *self.arena();
        let counters = &arena.shared().counters.0;
        let state = &arena.shared().writer.0;
        let causes = [
            ("timeout", &counters.lost_timeout, &state.reported_timeout),
            ("dropped", &counters.lost_dropped, &state.reported_dropped),
            ("corrupt", &counters.lost_corrupt, &state.reported_corrupt),
            ("killed", &counters.lost_killed, &state.reported_killed),
        ];
        let [timeout, dropped, corrupt] = &state.telling;
        let telling = [timeout, dropped, corrupt, &state.telling_killed];
        let news = causes.map(|(cause, counter, reported)| {
            let total = counter.load(Ordering::Relaxed);
            (cause, total, total.saturating_sub(reported.load(Ordering::Relaxed)))
        });
        // Read after the counters: what they count has happened before.
        let until_us = sys::now_us().max(self.lost_seen_us);
        for ((cause, total, count), telling) in news.into_iter().zip(telling) {
            // One line at a time for each cause: the arena remembers one that is on its way.
            if count == 0 || telling.seq.load(Ordering::Relaxed) != 0 {
                continue;
            }
            let seq = self.take_seq();
            telling.count.store(total, Ordering::Relaxed);
            // SYNC telling: Release, so that who reads after a crash finds the count.
            telling.seq.store(seq, Ordering::Release);
            let record = Record {
                seq,
                ts_us: until_us,
                start_ts_us: Some(self.lost_seen_us),
                event: Some(EventKind::Lost),
                run: self.run(),
                count: Some(count),
                cause: cause.as_bytes(),
                ..Record::default()
            };
            json::write_line(&mut self.batch, &record, &mut self.clock);
            self.lost_told_us = now_us;
            self.say_lost(count, cause);
        }
        self.lost_seen_us = now_us;
    }

    /// Tells the error log, or keeps the number for the next time when it does.
    fn say_lost(&mut self, count: u64, cause: &str) {
        if !self.lost_seldom.allows(sys::monotonic_us()) {
            self.lost_unsaid += count;
            return;
        }
        let text = match std::mem::take(&mut self.lost_unsaid) {
            0 => format!("{count} records were lost ({cause}); the log has a `lost` line"),
            before => format!(
                "{count} records were lost ({cause}), and {before} since the last message; the \
                 log has `lost` lines"
            ),
        };
        self.say(Severity::Warning, &text);
    }

    /// Tells that the memory of a recorder that did not stop is gone, with what was in it.
    pub(crate) fn tell_gone(&mut self, path: &Path) {
        let now_us = sys::now_us();
        let seq = self.take_seq();
        let record = Record {
            seq,
            ts_us: now_us,
            start_ts_us: Some(arena_file::created_us(path).unwrap_or(now_us).min(now_us)),
            event: Some(EventKind::Lost),
            cause: b"arena_gone",
            ..Record::default()
        };
        json::write_line(&mut self.batch, &record, &mut self.clock);
        self.gone.push(path.to_owned());
        let text = format!(
            "the arena {} is gone: its server did not stop in the orderly way, and the machine \
             was started anew, or somebody removed it. What was not in the log yet is lost; the \
             log has a `lost` line",
            path.display()
        );
        self.say(Severity::Warning, &text);
    }

    /// Used by recovery, after the last round: no loss may stay untold.
    pub(crate) fn tell_last_losses(&mut self, now_us: i64) {
        self.lost_told_us = 0;
        self.tell_losses(now_us);
        let unsaid = std::mem::take(&mut self.lost_unsaid);
        if unsaid > 0 {
            let text = format!("{unsaid} more records were lost; the log has `lost` lines");
            self.say(Severity::Warning, &text);
        }
    }
}

/// Counts losses as told whose line is in the file, which ends with line `written_seq`. Lines
/// that are not, are as if they had never been: with the next one the losses are told again.
pub(crate) fn confirm_losses(arena: &Arena, written_seq: u64) {
    let state = &arena.shared().writer.0;
    let [timeout, dropped, corrupt] = &state.telling;
    for (telling, reported) in [
        (timeout, &state.reported_timeout),
        (dropped, &state.reported_dropped),
        (corrupt, &state.reported_corrupt),
        (&state.telling_killed, &state.reported_killed),
    ] {
        // SYNC telling: Acquire pairs with the Release in `tell_losses`.
        let seq = telling.seq.load(Ordering::Acquire);
        if seq != 0 && seq <= written_seq {
            reported.store(telling.count.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        // In this order: a death in between confirms once more.
        telling.seq.store(0, Ordering::Release);
    }
}
