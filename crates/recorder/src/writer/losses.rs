//! Lines that report lost records.

use std::path::Path;
use std::sync::atomic::Ordering;

use tacho_record::{EventKind, Record};
use tacho_ring::arena::Arena;
use tacho_ring::sys;

use super::batch::Batch;
use super::context::Context;
use super::own_lines::run_of;
use super::rate_limit::RateLimit;
use crate::arena_file;
use crate::control::Severity;

/// Shortest interval between lines about losses, µs.
const LOST_INTERVAL_US: u64 = 1_000_000;

/// What was last reported about losses.
pub(super) struct Losses {
    /// When the counters were last read.
    seen_us: i64,
    /// When a line was last written.
    reported_us: i64,
    /// Losses that the error log has not reported.
    unsaid: u64,
    limit: RateLimit,
}

/// Counts records of an arena that cannot be read.
pub(super) fn count_corrupt(arena: &Arena, count: u64) {
    arena.shared().counters.0.lost_corrupt.fetch_add(count, Ordering::Relaxed);
}

impl Losses {
    pub(super) fn new(now_us: i64) -> Losses {
        Losses { seen_us: now_us, reported_us: 0, unsaid: 0, limit: RateLimit::default() }
    }

    /// Sets the time from which unreported losses are counted.
    pub(super) fn set_seen(&mut self, seen_us: i64) {
        self.seen_us = seen_us;
    }

    /// A `lost` line for each cause that has new losses.
    pub(super) fn write(
        &mut self,
        now_us: i64,
        arena: &Arena,
        batch: &mut Batch,
        context: &Context,
    ) {
        if now_us.abs_diff(self.reported_us) < LOST_INTERVAL_US {
            return;
        }
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
        // Read after the counters: the losses that they count happened before.
        let until_us = sys::now_us().max(self.seen_us);
        for ((cause, total, count), telling) in news.into_iter().zip(telling) {
            // One line at a time for each cause: the arena stores the line that is being written.
            if count == 0 || telling.seq.load(Ordering::Relaxed) != 0 {
                continue;
            }
            let seq = batch.take_seq();
            telling.count.store(total, Ordering::Relaxed);
            // SYNC telling: Release, so that a reader after a crash finds the count.
            telling.seq.store(seq, Ordering::Release);
            batch.write(&Record {
                seq,
                ts_us: until_us,
                start_ts_us: Some(self.seen_us),
                event: Some(EventKind::Lost),
                run: run_of(arena),
                count: Some(count),
                cause: cause.as_bytes(),
                ..Record::default()
            });
            self.reported_us = now_us;
            self.say(count, cause, context);
        }
        self.seen_us = now_us;
    }

    /// Writes to the error log, or keeps the number for the next message.
    fn say(&mut self, count: u64, cause: &str, context: &Context) {
        if !self.limit.allows(sys::monotonic_us()) {
            self.unsaid += count;
            return;
        }
        let text = match std::mem::take(&mut self.unsaid) {
            0 => format!("{count} records were lost ({cause}); the log has a `lost` line"),
            before => format!(
                "{count} records were lost ({cause}), and {before} since the last message; the \
                 log has `lost` lines"
            ),
        };
        context.say(Severity::Warning, &text);
    }

    /// After the last round: every loss must have a line.
    pub(super) fn write_last(
        &mut self,
        now_us: i64,
        arena: &Arena,
        batch: &mut Batch,
        context: &Context,
    ) {
        self.reported_us = 0;
        self.write(now_us, arena, batch, context);
        let unsaid = std::mem::take(&mut self.unsaid);
        if unsaid > 0 {
            let text = format!("{unsaid} more records were lost; the log has `lost` lines");
            context.say(Severity::Warning, &text);
        }
    }
}

/// Writes a line that reports a missing arena, whose recorder did not stop, and whose records are
/// gone.
pub(super) fn write_gone(path: &Path, batch: &mut Batch, context: &Context) {
    let now_us = sys::now_us();
    let seq = batch.take_seq();
    batch.write(&Record {
        seq,
        ts_us: now_us,
        start_ts_us: Some(arena_file::created_us(path).unwrap_or(now_us).min(now_us)),
        event: Some(EventKind::Lost),
        cause: b"arena_gone",
        ..Record::default()
    });
    let text = format!(
        "the arena {} is gone: its server did not stop in the orderly way, and the machine \
         was started anew, or another process removed it. What was not in the log yet is lost; the \
         log has a `lost` line",
        path.display()
    );
    context.say(Severity::Warning, &text);
}

/// Counts losses as reported if their line is in the file, which ends with line `written_seq`.
/// Otherwise the losses are reported again with the next line.
pub(crate) fn confirm_losses(arena: &Arena, written_seq: u64) {
    let state = &arena.shared().writer.0;
    let [timeout, dropped, corrupt] = &state.telling;
    for (telling, reported) in [
        (timeout, &state.reported_timeout),
        (dropped, &state.reported_dropped),
        (corrupt, &state.reported_corrupt),
        (&state.telling_killed, &state.reported_killed),
    ] {
        // SYNC telling: Acquire pairs with the Release in `Losses::write`.
        let seq = telling.seq.load(Ordering::Acquire);
        if seq != 0 && seq <= written_seq {
            reported.store(telling.count.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        // In this order: after a death in between, the losses are confirmed once more.
        telling.seq.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::arena_file::ArenaFile;
    use crate::control::{Control, Status};

    #[test]
    fn a_loss_is_confirmed_by_the_line_in_the_file_and_reported_again_without_it() {
        let made = ArenaFile::placeholder().expect("memory");
        let arena = made.arena();
        let status = Arc::new(Status::default());
        let context = Context::new(Arc::new(Control::default()), status, Box::new(|_, _| {}));
        let mut batch = Batch::new(9);
        let mut losses = Losses::new(0);
        count_corrupt(&arena, 3);
        losses.write(2_000_000, &arena, &mut batch, &context);
        assert_eq!(batch.next_seq(), 11);
        count_corrupt(&arena, 1);
        losses.write(2_500_000, &arena, &mut batch, &context);
        assert_eq!(batch.next_seq(), 11, "at most one line in a second");
        losses.write(4_000_000, &arena, &mut batch, &context);
        assert_eq!(batch.next_seq(), 11, "one line is pending");
        // Its line did not reach the file.
        confirm_losses(&arena, 9);
        losses.write(6_000_000, &arena, &mut batch, &context);
        assert_eq!(batch.next_seq(), 12);
        confirm_losses(&arena, 11);
        losses.write(8_000_000, &arena, &mut batch, &context);
        assert_eq!(batch.next_seq(), 12, "all four are reported");
        let reported = &arena.shared().writer.0.reported_corrupt;
        assert_eq!(reported.load(Ordering::Relaxed), 4);
    }
}
