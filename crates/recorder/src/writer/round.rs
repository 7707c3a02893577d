//! The round: from the arena to the file, and freeing chunks when they are short.

use std::sync::atomic::Ordering;
use tacho_settings::Setting;

use tacho_logdir::Fs;
use tacho_ring::producer::Futex;
use tacho_ring::{free, sys};

use super::lines::Channels;
use super::output::Output;
use super::{Writer, relief, running};
use crate::drain::Ref;
use crate::pause;

impl<F: Fs> Writer<F> {
    /// One round: writes everything that is in the arena now to the file, and syncs it to the
    /// device if that is due. `false`: the file cannot be written now.
    pub fn round(&mut self) -> bool {
        pause::here();
        self.pace.begin_round(self.intake.arena());
        let is_written = self.write_round();
        self.upkeep.look_after_format(&mut self.output.files, &self.context);
        self.output.settle(self.intake.arena(), &self.context);
        is_written
    }

    fn write_round(&mut self) -> bool {
        let now_us = sys::now_us();
        self.arena().shared().writer.0.heartbeat_us.store(now_us, Ordering::Relaxed);
        self.take_settings();
        self.upkeep.watch_space(&self.output.files, &self.context);
        if !self.write_out(now_us) {
            self.show_arena_use();
            return false;
        }
        self.context.control.flush_now.store(false, Ordering::Relaxed);
        self.output.rotate(&self.context);
        pause::here();
        self.upkeep.follow_format(&mut self.output.files, &self.context);
        pause::here();
        let Writer { own_lines, output, intake, context, .. } = self;
        own_lines.config_changes(now_us, intake.arena(), &mut output.batch, context);
        if !self.write_records(now_us) {
            return false;
        }
        pause::here();
        let is_written = self.write_queue(now_us) && self.write_out(now_us);
        pause::here();
        self.output.files.tick();
        self.recycle();
        relief::report_spill_failure(&mut self.intake.drain, &mut self.spill_limit, &self.context);
        if is_written {
            self.look_after_closed();
        }
        let Writer { upkeep, output: Output { files, batch, .. }, context, .. } = self;
        upkeep.update_inventory(files, batch.clock(), context);
        is_written && self.relieve(now_us)
    }

    /// Writes lines for the records in the arena. `false`: they cannot be written now, or wait for
    /// a filter.
    fn write_records(&mut self, now_us: i64) -> bool {
        // Records that were found wait for their filter: no further pass before they are written,
        // so that a filter that changes all the time does not delay records for long.
        if self.lines.filter_sync.is_waiting() && !(self.may_format() && self.write_queue(now_us)) {
            return false;
        }
        self.scan();
        if !self.may_format() {
            // Lines of earlier records are written.
            self.write_out(now_us);
            self.recycle();
            return false;
        }
        if !self.write_queue(now_us) {
            return false;
        }
        self.count_corrupt_records();
        let Writer { losses, output, intake, context, .. } = self;
        losses.write(now_us, intake.arena(), &mut output.batch, context);
        self.write_running(self.intake.long_ago_us(now_us));
        true
    }

    /// One pass over the arena: complete items go to the queue, in the order of time.
    fn scan(&mut self) {
        self.intake.scan();
        self.lines.filter_sync.note_due(self.intake.arena());
        self.lines.filter_sync.take(&self.context.control);
        self.enqueue();
    }

    /// Puts ready items into the queue.
    pub(crate) fn enqueue(&mut self) {
        self.intake.enqueue();
    }

    /// Whether the records that were found can become lines.
    fn may_format(&mut self) -> bool {
        self.lines.filter_sync.is_ready(sys::monotonic_us(), &self.context)
    }

    /// Formats the queue, and writes whenever a batch is full.
    pub(super) fn write_queue(&mut self, now_us: i64) -> bool {
        let flush_bytes = self.context.control.setting(Setting::FlushBytes);
        let flush_bytes = flush_bytes.clamp(1, 16 << 20);
        let mut is_written = true;
        while is_written && let Some((item, drain)) = self.intake.next_item() {
            let batch = &mut self.output.batch;
            self.lines.format(item, &mut Channels { drain, batch, context: &self.context });
            is_written = self.output.batch.len() < flush_bytes || self.write_out(now_us);
        }
        self.intake.clear_if_done();
        is_written
    }

    /// Writes the batch. `false`: not all of it was written; the rest is retried later.
    pub(super) fn write_out(&mut self, now_us: i64) -> bool {
        let is_written = self.output.write(now_us, self.intake.arena(), &self.context);
        if is_written {
            self.lines.shrink();
        }
        is_written
    }

    /// Writes lines for statements that began before this time and have not ended.
    fn write_running(&mut self, before_us: i64) {
        let Writer { intake, lines, output, context, .. } = self;
        running::write_lines(before_us, intake, lines, &mut output.batch, context);
    }

    /// Recycles the chunks whose records are all in the file. Returns how many.
    pub(super) fn recycle(&mut self) -> u32 {
        let count = self.intake.drain.recycle(self.output.batch.written_seq());
        if count > 0 {
            self.arena().shared().backpressure.0.open(&Futex);
        }
        self.show_arena_use();
        count
    }

    fn show_arena_use(&self) {
        let used_bytes = self.intake.drain.used_bytes();
        self.context.status.arena_bytes_used.store(used_bytes, Ordering::Relaxed);
    }

    /// Packs and removes closed files, and writes the lines about files. Only with an empty batch.
    fn look_after_closed(&mut self) {
        debug_assert!(self.output.batch.is_empty());
        let removal = self.upkeep.look_after_closed(&mut self.output.files, &self.context);
        if let Some(removal) = removal {
            self.note_change("file_removed", &removal.due.name.log_file(), &removal.reason());
        }
        // A rotation without a line to write has events, too.
        self.report_file_events();
    }

    /// Reports events of the files, with a line for each file that was set aside.
    pub(crate) fn report_file_events(&mut self) {
        self.output.report_events(&self.context);
        if self.own_lines.has_stop() {
            // No line follows the `stop` line; the error log has the events.
            return;
        }
        for (from, to) in self.output.take_set_aside() {
            self.note_change("file_set_aside", &from, &to);
        }
    }
}

/// Relief.
impl<F: Fs> Writer<F> {
    /// Makes room when chunks are short. `false`: the file cannot be written.
    fn relieve(&mut self, now_us: i64) -> bool {
        let arena = *self.arena();
        let backpressure = &arena.shared().backpressure.0;
        let waiting = || backpressure.waiters.load(Ordering::Relaxed) > 0;
        let total = arena.geometry().chunk_count;
        if !waiting() && (total - self.intake.drain.used_count().min(total)) * 8 > total {
            return true;
        }
        // Idle owners first: their chunks are mostly read to the end.
        if self.intake.drain.steal_idle() > 0 {
            self.scan();
            if !self.may_format() || !self.write_queue(now_us) || !self.write_out(now_us) {
                return false;
            }
            self.recycle();
        }
        if !waiting() && arena.free_count() * 32 > total {
            return true;
        }
        // Then statements that are still open, and errors that wait for theirs: writes what they
        // hold to the file now.
        let (_, join, ready) = self.intake.parts();
        join.release_errors(ready);
        self.write_running(i64::MAX);
        if !self.write_queue(now_us) || !self.write_out(now_us) {
            return false;
        }
        self.recycle();
        // From the free list, not from the states: a writer that was killed while it recycled a
        // chunk may have left one that is neither in use nor on the list.
        if !free::is_empty(&arena.shared().free_head.0) || !waiting() {
            return true;
        }
        self.take_out_partials(now_us)
    }

    /// Moves fragments of incomplete records out of the arena, so that the rest can arrive.
    fn take_out_partials(&mut self, now_us: i64) -> bool {
        if !relief::announce_partials(&mut self.intake) {
            return true;
        }
        // After the announcements: either this pass finds the last fragment, or its producer sees
        // that it must wait.
        self.scan();
        let taken = relief::take_out_announced(&mut self.intake);
        if self.give_back(taken) == 0 {
            // So many large records arrive at once that their beginnings fill the arena.
            let in_memory = self.intake.join.partials().filter(|(_, p)| p.early.is_some());
            let in_arena = |at: &mut Ref| !at.is_spilled();
            let firsts = in_memory.filter_map(|(_, p)| p.first.take_if(in_arena)).collect();
            self.give_back(firsts);
        }
        self.may_format() && self.write_queue(now_us)
    }

    /// Recycles the chunks of records that were moved. Returns how many.
    fn give_back(&mut self, taken: Vec<Ref>) -> u32 {
        let written_seq = self.last_seq();
        for at in taken {
            self.intake.drain.settle(at, written_seq);
        }
        self.recycle()
    }
}
