//! The writer: drain, join, format, write, recycle.
//!
//! A record counts as written when its line is in the file (the kernel has it): only then
//! is its chunk given back. The `seq` of the line is stored in the record before the write,
//! so that after a crash the last line in the file tells which records are in it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tacho_event::json;
use tacho_event::record::{EventKind, Record};
use tacho_event::time::TimeFormatter;
use tacho_ring::arena::Arena;
use tacho_ring::gate::Park;
use tacho_ring::layout::RunningEntry;
use tacho_ring::producer::Futex;
use tacho_ring::sync::fence;
use tacho_ring::{session, sys};

use crate::arena_file::ArenaFile;
use crate::control::{Control, Log, Severity, Status, Timestamps};
use crate::drain::{Drain, Ref};
use crate::files::{Event, FileError, Fs, LogFiles, RealFs};
use crate::join::{EarlyRecord, Ending, Join, Place, Ready, Start};
use crate::line::{self, Scratch, Style};

/// A statement that is open for this long gets a `running` line, µs.
const RUNNING_AFTER_US: i64 = 10_000_000;
/// How long a failed write is left alone, µs.
const RETRY_US: i64 = 250_000;
/// How long the writer sleeps while there is much to write.
const NAP: std::time::Duration = std::time::Duration::from_millis(2);
/// A statement that has gathered this many errors and tables gets a `running` line.
const EXTRAS_MAX: usize = 1024;
/// Buffers that one huge statement has made larger than this are made smaller again, bytes.
const BUFFER_BYTES_MAX: usize = 4 << 20;
/// Losses are told of in one line, at most this often, µs.
const LOST_INTERVAL_US: u64 = 1_000_000;

/// The order in which what is ready becomes lines. The items themselves are large, and stay
/// where the join has put them.
#[derive(Default)]
struct Queue {
    /// When each was complete, and its place in `Writer::ready`, in the order of the lines.
    order: Vec<(i64, u32)>,
    /// How many of `order` are in lines.
    done: usize,
}

impl Queue {
    /// Puts the items that are new into order, behind the others.
    fn sort_new(&mut self, ready: &[Ready]) {
        let sorted = self.order.len();
        let new = ready.iter().enumerate().skip(sorted);
        self.order.extend(new.map(|(place, item)| (item.ts_us(), place as u32)));
        // By time, and then by place: within a connection the order is that of its records.
        self.order[sorted..].sort_unstable();
    }

    /// Forgets the items when all are in lines.
    fn clear_if_done(&mut self, ready: &mut Vec<Ready>) {
        if self.done == self.order.len() {
            self.clear(ready);
        }
    }

    fn clear(&mut self, ready: &mut Vec<Ready>) {
        ready.clear();
        self.order.clear();
        self.done = 0;
    }
}

/// See the module documentation.
pub struct Writer<F: Fs = RealFs> {
    drain: Drain,
    join: Join,
    files: LogFiles<F>,
    control: Arc<Control>,
    status: Arc<Status>,
    log: Log,
    clock: TimeFormatter,
    clock_zone: Timestamps,
    scratch: Scratch,
    /// What can become lines; emptied when all of it has.
    ready: Vec<Ready>,
    queue: Queue,
    /// `seq` of the next line.
    next_seq: u64,
    /// `seq` of the last line in the file.
    written_seq: u64,
    batch: Vec<u8>,
    progress: usize,
    /// Producers that wait for lines of the batch: connection, `rec_no`.
    awaited: Vec<(u64, u64)>,
    /// Entries of the table of running statements whose completion is in the batch.
    finished: Vec<usize>,
    retry_at_us: i64,
    /// `bytes_written` when it last slept.
    slept_at_bytes: u64,
    failing: bool,
    lost_seen_us: i64,
    lost_told_us: i64,
    /// The `stop` line is in the batch, or in the file.
    stop_told: bool,
    /// Arenas of dead servers that may go when the batch is written: their records are in it.
    recovered: Vec<ArenaFile>,
}

impl<F: Fs> Writer<F> {
    /// Writes what comes through `arena` into `files`; `last_seq` is the `seq` of the last
    /// line there.
    pub fn new(
        arena: Arena,
        files: LogFiles<F>,
        last_seq: u64,
        control: Arc<Control>,
        status: Arc<Status>,
        log: Log,
    ) -> Writer<F> {
        let now_us = sys::now_us();
        let mut writer = Writer {
            drain: Drain::new(arena),
            join: Join::default(),
            files,
            control,
            status,
            log,
            clock: TimeFormatter::utc(),
            clock_zone: Timestamps::Utc,
            scratch: Scratch::default(),
            ready: Vec::new(),
            queue: Queue::default(),
            next_seq: last_seq + 1,
            written_seq: last_seq,
            batch: Vec::with_capacity(1 << 20),
            progress: 0,
            awaited: Vec::new(),
            finished: Vec::new(),
            retry_at_us: 0,
            slept_at_bytes: 0,
            failing: false,
            lost_seen_us: now_us,
            lost_told_us: 0,
            stop_told: false,
            recovered: Vec::new(),
        };
        writer.take_settings();
        writer
    }

    /// Takes up another arena: after the records of a dead one, those of ours.
    pub fn with_arena(mut self, arena: Arena) -> Writer<F> {
        self.take_up(arena);
        self
    }

    /// Leaves the arena for another one. What is in the batch still goes to the file; what is
    /// not formatted yet stays unmarked in the arena that it is in.
    pub(crate) fn take_up(&mut self, arena: Arena) {
        self.drain = Drain::new(arena);
        self.join = Join::default();
        // All of these speak of places in the old arena.
        self.queue.clear(&mut self.ready);
        self.awaited.clear();
        self.finished.clear();
        // The losses that no line tells of are from any time of its life: its writer may have
        // looked at them long before it died, and never have been able to write.
        self.lost_seen_us = arena.header().created_us;
    }

    /// The arena.
    pub fn arena(&self) -> &Arena {
        self.drain.arena()
    }

    /// Connections that something is kept for.
    pub fn connection_count(&self) -> usize {
        self.join.connection_count()
    }

    pub(crate) fn parts(&mut self) -> (&mut Drain, &mut Join, &mut Vec<Ready>) {
        (&mut self.drain, &mut self.join, &mut self.ready)
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.written_seq
    }

    /// `seq` of the line that comes next.
    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Removes the arena as soon as everything that was formatted so far is in the file.
    pub(crate) fn remove_when_written(&mut self, dead: ArenaFile) {
        self.recovered.push(dead);
        if self.batch.is_empty() {
            self.remove_recovered();
        }
    }

    fn remove_recovered(&mut self) {
        for dead in std::mem::take(&mut self.recovered) {
            let path = dead.path().to_owned();
            // Harmless but for the memory: all its records are marked as written.
            if let Err(error) = dead.remove() {
                let text = format!("removing the arena {}: {error}", path.display());
                self.say(Severity::Warning, &text);
            }
        }
    }

    pub(crate) fn say(&self, severity: Severity, text: &str) {
        (self.log)(severity, text);
    }

    /// A line of the recorder itself: `start`, `stop`.
    pub fn note(&mut self, event: EventKind, server: &str) {
        self.note_at(event, server.as_bytes(), sys::now_us());
    }

    pub(crate) fn note_at(&mut self, event: EventKind, server: &[u8], ts_us: i64) {
        let seq = self.take_seq();
        if event == EventKind::Start {
            self.arena().shared().writer.0.start_seq.store(seq, Ordering::Relaxed);
        }
        let record = Record { seq, ts_us, event: Some(event), server, ..Record::default() };
        json::write_line(&mut self.batch, &record, &mut self.clock);
    }

    fn take_seq(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    fn take_settings(&mut self) {
        let zone = self.control.timestamps();
        if zone != self.clock_zone {
            self.clock_zone = zone;
            self.clock = match zone {
                Timestamps::Utc => TimeFormatter::utc(),
                Timestamps::System => TimeFormatter::system().unwrap_or_else(|error| {
                    (self.log)(
                        Severity::Warning,
                        &format!("{error}; time stamps are in UTC. Set TZ or /etc/localtime."),
                    );
                    TimeFormatter::utc()
                }),
            };
        }
        self.files.set_rotate_bytes(self.control.rotate_bytes.load(Ordering::Relaxed));
        let flush_bytes = self.control.flush_bytes.load(Ordering::Relaxed);
        let chunk_bytes = u64::from(self.arena().geometry().chunk_bytes);
        let limit = u32::try_from((flush_bytes / chunk_bytes).max(1)).unwrap_or(u32::MAX);
        self.arena().shared().bell.0.closed_limit.store(limit, Ordering::Relaxed);
    }

    /// One round: everything that is in the arena now goes to the file. `false`: the file
    /// cannot be written at the moment.
    pub fn round(&mut self) -> bool {
        let now_us = sys::now_us();
        self.arena().shared().writer.0.heartbeat_us.store(now_us, Ordering::Relaxed);
        self.take_settings();
        if !self.write_out(now_us) {
            self.show_arena_use();
            return false;
        }
        if self.control.rotate_now.swap(false, Ordering::Relaxed)
            && let Err(error) = self.files.rotate_now()
        {
            self.tell_failure(&error);
        }
        self.tell_config_changes(now_us);
        self.scan();
        if !self.write_queue(now_us) {
            return false;
        }
        self.tell_losses(now_us);
        self.tell_running(now_us - RUNNING_AFTER_US);
        let written = self.write_queue(now_us) && self.write_out(now_us);
        self.recycle();
        written && self.relieve(now_us)
    }

    fn tell_config_changes(&mut self, now_us: i64) {
        let changes = {
            let waiting = &self.control.config_changes;
            let mut waiting = waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            std::mem::take(&mut *waiting)
        };
        for change in changes {
            let seq = self.take_seq();
            let record = Record {
                seq,
                ts_us: now_us,
                event: Some(EventKind::Config),
                variable: &change.variable,
                old_value: &change.old_value,
                new_value: &change.new_value,
                ..Record::default()
            };
            json::write_line(&mut self.batch, &record, &mut self.clock);
        }
    }

    /// One pass over the arena: what is complete goes to the queue, in the order of time.
    fn scan(&mut self) {
        let Writer { drain, join, ready, .. } = self;
        let arena = *drain.arena();
        let quiet = join.quiet(|conn| session::find(arena.sessions(), conn).is_none());
        // SYNC claim: pairs with the Releases in `session::forget` and `claim`: the pass sees
        // every record of a connection whose slot was gone before it.
        fence(Ordering::Acquire);
        join.begin_pass();
        let abandoned = join.abandoned(drain.arena().sessions());
        drain.pass(|head, at| join.add(head, at, ready));
        join.give_up(&abandoned, ready);
        join.end_pass(ready);
        if let Some(quiet) = quiet {
            join.forget_quiet(&quiet);
        }
        join.close_over(sys::now_us() - RUNNING_AFTER_US, ready);
        self.enqueue();
    }

    pub(crate) fn enqueue(&mut self) {
        self.queue.sort_new(&self.ready);
    }

    /// Formats the queue, and writes whenever a batch is full.
    pub(crate) fn write_queue(&mut self, now_us: i64) -> bool {
        let flush_bytes = self.control.flush_bytes.load(Ordering::Relaxed).clamp(1, 16 << 20);
        // Taken out for the loop, which writes files by the way.
        let mut ready = std::mem::take(&mut self.ready);
        let mut written = true;
        while written && let Some((_, place)) = self.queue.order.get(self.queue.done) {
            self.format(&ready[*place as usize]);
            self.queue.done += 1;
            written = (self.batch.len() as u64) < flush_bytes || self.write_out(now_us);
        }
        self.queue.clear_if_done(&mut ready);
        self.ready = ready;
        written
    }

    fn format(&mut self, item: &Ready) {
        match item {
            Ready::Statement { conn, open, ending, .. } => {
                let seq = self.write_statement(*conn, open, ending);
                self.settle_statement(*conn, open, ending, seq);
                if let Start::Running { seq: running_seq, .. } = &open.start {
                    self.finish_running(*running_seq, seq);
                } else if matches!(ending, Ending::Running) {
                    // The last lines of an orderly stop. Should it not come to its end, the
                    // next server completes them.
                    self.remember_running(*conn, open, seq);
                }
            }
            Ready::Single { place, awaited, error, .. } => {
                let seq = self.next_seq;
                let mut style = Style {
                    clock: &mut self.clock,
                    max_statement_bytes: self.control.max_statement_bytes.load(Ordering::Relaxed),
                };
                let written = line::write_single(
                    &mut self.batch,
                    &self.drain,
                    &mut self.scratch,
                    &mut style,
                    seq,
                    place,
                    error.as_ref(),
                );
                if written {
                    self.next_seq += 1;
                } else {
                    self.count_corrupt(1);
                }
                self.settle_place(place, seq);
                if let Some(error) = error {
                    self.settle_place(error, seq);
                }
                self.awaited.extend(*awaited);
            }
            Ready::Nothing { at } => {
                for at in at {
                    // Settled with the line before: nothing of it is in a line of its own.
                    self.drain.settle(*at, self.next_seq.saturating_sub(1));
                }
            }
        }
    }

    fn write_statement(&mut self, conn: u64, open: &crate::join::Open, ending: &Ending) -> u64 {
        let seq = self.take_seq();
        let mut style = Style {
            clock: &mut self.clock,
            max_statement_bytes: self.control.max_statement_bytes.load(Ordering::Relaxed),
        };
        line::write_statement(
            &mut self.batch,
            &self.drain,
            &mut self.scratch,
            &mut style,
            seq,
            line::Statement { conn, open, ending },
        );
        seq
    }

    fn settle_statement(&mut self, conn: u64, open: &crate::join::Open, ending: &Ending, seq: u64) {
        if let Start::Record(place) = &open.start {
            self.settle_place(place, seq);
        }
        for place in &open.extras {
            self.settle_place(place, seq);
        }
        if let Ending::Record(place) = ending {
            self.settle_place(place, seq);
        }
        if open.awaited {
            self.awaited.push((conn, open.rec_no));
        }
    }

    fn settle_place(&mut self, place: &Place, seq: u64) {
        match place {
            Place::Arena(first, more) => {
                self.drain.settle(*first, seq);
                more.iter().for_each(|at| self.drain.settle(*at, seq));
            }
            Place::Memory(_, more) => more.iter().for_each(|at| self.drain.settle(*at, seq)),
        }
    }

    /// Writes the batch. `false`: it could not all be written, and is tried again later.
    fn write_out(&mut self, now_us: i64) -> bool {
        if self.batch.is_empty() {
            return true;
        }
        if self.failing && now_us < self.retry_at_us && now_us > self.retry_at_us - RETRY_US {
            return false;
        }
        let result = self.files.write(&self.batch, &mut self.progress);
        self.tell_events();
        if let Err(error) = result {
            self.tell_failure(&error);
            self.retry_at_us = now_us + RETRY_US;
            return false;
        }
        if std::mem::take(&mut self.failing) {
            self.say(Severity::Note, "the audit log can be written again and goes on");
        }
        let lines = self.next_seq - 1 - self.written_seq;
        self.status.records_written.fetch_add(lines, Ordering::Relaxed);
        self.status.bytes_written.fetch_add(self.batch.len() as u64, Ordering::Relaxed);
        self.written_seq = self.next_seq - 1;
        self.batch.clear();
        self.batch.shrink_to(BUFFER_BYTES_MAX);
        self.scratch.shrink(BUFFER_BYTES_MAX);
        self.progress = 0;
        self.publish_written();
        self.remove_recovered();
        true
    }

    /// Tells the arena what is in the file: for recovery, and for producers that wait.
    fn publish_written(&mut self) {
        let Writer { drain, awaited, finished, written_seq, .. } = self;
        let arena = drain.arena();
        let state = &arena.shared().writer.0;
        state.written_seq.store(*written_seq, Ordering::Relaxed);
        confirm_losses(arena, *written_seq);
        for index in finished.drain(..) {
            if let Some(entry) = arena.running().get(index) {
                entry.running_seq.store(0, Ordering::Relaxed);
            }
        }
        if awaited.is_empty() {
            return;
        }
        for (conn, rec_no) in awaited.drain(..) {
            if let Some(slot) = session::find(arena.sessions(), conn) {
                // SYNC settled: Release pairs with the Acquire in `wait_until_settled`.
                slot.settled_rec_no.store(rec_no, Ordering::Release);
            }
        }
        // SYNC settled: as above; the sleeper looks at this word first.
        state.written_epoch.fetch_add(1, Ordering::Release);
        Futex.wake(&state.written_epoch, u32::MAX >> 1);
    }

    fn recycle(&mut self) {
        if self.drain.recycle(self.written_seq) > 0 {
            self.arena().shared().gate.0.open(&Futex);
        }
        self.show_arena_use();
    }

    fn show_arena_use(&self) {
        self.status.arena_bytes_used.store(self.drain.used_bytes(), Ordering::Relaxed);
    }

    fn count_corrupt(&self, count: u64) {
        let counters = &self.arena().shared().counters.0;
        counters.lost_corrupt.fetch_add(count, Ordering::Relaxed);
    }

    /// A `lost` line for each cause that has new losses.
    fn tell_losses(&mut self, now_us: i64) {
        let damaged = self.drain.take_damaged() + self.join.take_missing();
        let buried = u64::from(self.drain.bury_dead(now_us));
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
        ];
        let news = causes.map(|(cause, counter, reported)| {
            let total = counter.load(Ordering::Relaxed);
            (cause, total, total.saturating_sub(reported.load(Ordering::Relaxed)))
        });
        // Read after the counters: what they count has happened before.
        let until_us = sys::now_us().max(self.lost_seen_us);
        for (index, (cause, total, count)) in news.into_iter().enumerate() {
            let telling = &state.telling[index];
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
                count: Some(count),
                cause: cause.as_bytes(),
                ..Record::default()
            };
            json::write_line(&mut self.batch, &record, &mut self.clock);
            self.lost_told_us = now_us;
            let text = format!("{count} records were lost ({cause}); the log has a `lost` line");
            self.say(Severity::Warning, &text);
        }
        self.lost_seen_us = now_us;
    }

    /// Writes a `running` line for every statement that started before `before_us` and has
    /// none yet, or that has gathered much since its last one; what it holds may leave the
    /// arena then.
    fn tell_running(&mut self, before_us: i64) {
        self.enqueue();
        // Taken out for the loop, which writes lines by the way.
        let mut join = std::mem::take(&mut self.join);
        for (conn, open) in join.open_since(i64::MAX) {
            let is_told = matches!(open.start, Start::Running { .. });
            // Told again when it has gathered something: errors that a stored routine handles
            // and tables it uses are without number, and would fill the arena in the end.
            let is_due = open.awaited
                || open.extras.len() >= EXTRAS_MAX
                || (open.ts_us < before_us && !is_told)
                || (before_us == i64::MAX && !open.extras.is_empty());
            if !is_due {
                continue;
            }
            let told_first = match &open.start {
                Start::Record(place) => {
                    Some(Box::new(line::identity(&self.drain, &mut self.scratch, place)))
                }
                Start::Running { .. } => None,
            };
            let seq = self.write_statement(conn, open, &Ending::Running);
            self.settle_statement(conn, open, &Ending::Running, seq);
            if let Some(identity) = told_first {
                self.remember_running(conn, open, seq);
                open.start = Start::Running { seq, identity };
            }
            open.extras.clear();
            open.awaited = false;
        }
        self.join = join;
    }

    fn remember_running(&self, conn: u64, open: &crate::join::Open, seq: u64) {
        let free = |e: &&RunningEntry| e.running_seq.load(Ordering::Relaxed) == 0;
        // A full table costs the `interrupted` line after a crash: the `running` line
        // without a completion then says the same.
        if let Some(entry) = self.arena().running().iter().find(free) {
            entry.done_seq.store(0, Ordering::Relaxed);
            entry.conn.store(conn, Ordering::Relaxed);
            entry.conn_seq.store(open.conn_seq, Ordering::Relaxed);
            entry.query_id.store(open.query_id, Ordering::Relaxed);
            entry.text_id.store(open.text_id, Ordering::Relaxed);
            entry.ts_us.store(open.ts_us, Ordering::Relaxed);
            entry.text_bytes.store(u64::from(open.text_bytes), Ordering::Relaxed);
            // SYNC running: Release, so that a reader after a crash never sees half an entry.
            entry.running_seq.store(seq, Ordering::Release);
        }
    }

    fn finish_running(&mut self, running_seq: u64, done_seq: u64) {
        let arena = *self.arena();
        let found = arena
            .running()
            .iter()
            .position(|e| e.running_seq.load(Ordering::Relaxed) == running_seq);
        if let Some(index) = found {
            arena.running()[index].done_seq.store(done_seq, Ordering::Relaxed);
            self.finished.push(index);
        }
    }

    /// Makes room when chunks are short. `false`: the file cannot be written.
    fn relieve(&mut self, now_us: i64) -> bool {
        let arena = *self.arena();
        let gate = &arena.shared().gate.0;
        let waiting = || gate.waiters.load(Ordering::Relaxed) > 0;
        let total = arena.geometry().chunk_count;
        if !waiting() && (total - self.drain.used_count().min(total)) * 8 > total {
            return true;
        }
        // Idle owners first: their chunks are mostly read to the end.
        if self.drain.steal_idle() > 0 {
            self.scan();
            if !self.write_queue(now_us) || !self.write_out(now_us) {
                return false;
            }
            self.recycle();
        }
        if !waiting() && arena.free_count() * 32 > total {
            return true;
        }
        // Then statements that are still open, and errors that wait for theirs: what they hold
        // goes to the file now.
        self.join.release_errors(&mut self.ready);
        self.tell_running(i64::MAX);
        if !self.write_queue(now_us) || !self.write_out(now_us) {
            return false;
        }
        self.recycle();
        if arena.free_count() > 0 || !waiting() {
            return true;
        }
        self.take_out_partials(now_us)
    }

    /// Takes the pieces of incomplete records out of the arena, so that the rest can come.
    fn take_out_partials(&mut self, now_us: i64) -> bool {
        let arena = *self.arena();
        let mut any = false;
        for (conn, partial) in self.join.partials() {
            if let Some(slot) = session::find(arena.sessions(), conn) {
                slot.early_rec_no.store(partial.head.rec_no, Ordering::Relaxed);
            }
            partial.awaited = true;
            any = true;
        }
        if !any {
            return true;
        }
        // SYNC early: pairs with the fence of the producer after its last fragment. Either
        // this pass sees that fragment, or the producer sees that it must wait.
        fence(Ordering::SeqCst);
        self.scan();
        let mut taken: Vec<Ref> = Vec::new();
        let mut piece = Vec::new();
        for (_, partial) in self.join.partials().filter(|(_, p)| p.awaited) {
            let early = partial.early.get_or_insert_with(Box::<EarlyRecord>::default);
            if let Some(first) = partial.first.take() {
                if let Some(bytes) = self.drain.fetch(first, &mut piece) {
                    early.first = bytes.to_vec();
                }
                taken.push(first);
            }
            for at in partial.more.drain(..) {
                let bytes = self.drain.fetch(at, &mut piece);
                early
                    .more_text
                    .extend_from_slice(bytes.and_then(line::fragment_text).unwrap_or(&[]));
                taken.push(at);
            }
        }
        for at in taken {
            self.drain.settle(at, self.written_seq);
        }
        self.recycle();
        self.write_queue(now_us)
    }

    fn tell_failure(&mut self, error: &FileError) {
        self.status.write_errors.fetch_add(1, Ordering::Relaxed);
        let text = error.to_string();
        if !std::mem::replace(&mut self.failing, true) {
            self.say(Severity::Error, &text);
        }
        Status::set(&self.status.last_error, &text);
    }

    fn tell_events(&mut self) {
        for event in self.files.take_events() {
            let severity = match event {
                Event::Rotated { .. } => Severity::Note,
                _ => Severity::Warning,
            };
            let text = describe(&event);
            self.say(severity, &text);
            if severity == Severity::Warning {
                Status::set(&self.status.last_error, &text);
            }
        }
        let path = self.files.current_file().to_string_lossy();
        let mut current =
            self.status.current_file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if *current != path {
            current.clear();
            current.push_str(&path);
        }
    }

    /// Sleeps until the interval is over, enough is waiting, or somebody rings.
    ///
    /// Under load it only naps, and nobody has to ring: a call into the kernel to wake this
    /// thread is what a query thread would feel most (tens of µs).
    pub fn sleep(&mut self, started_us: i64) {
        let written = self.status.bytes_written.load(Ordering::Relaxed);
        let new_bytes = written - std::mem::replace(&mut self.slept_at_bytes, written);
        let flush_bytes = self.control.flush_bytes.load(Ordering::Relaxed);
        if new_bytes > flush_bytes / 8 && !self.failing {
            std::thread::sleep(NAP);
            return;
        }
        let interval_ms = self.control.flush_interval_ms.load(Ordering::Relaxed).max(1);
        let elapsed_us = sys::monotonic_us() - started_us;
        let left_us = (interval_ms as i64).saturating_mul(1_000) - elapsed_us;
        let shared = self.arena().shared();
        let bell = &shared.bell.0;
        let word = bell.listen();
        let urgent = self.control.stop.load(Ordering::Relaxed)
            || self.control.rotate_now.load(Ordering::Relaxed)
            || bell.closed.load(Ordering::Relaxed) >= bell.closed_limit.load(Ordering::Relaxed);
        if left_us > 0 && (!urgent || self.failing) {
            Futex.wait(&bell.rings, word, left_us as u64);
        }
        bell.awake();
    }

    /// Lets time pass, for tests that have none: the next round tries to write again.
    #[cfg(test)]
    pub(crate) fn forget_pause(&mut self) {
        self.retry_at_us = 0;
    }

    /// Whether writing fails at the moment.
    pub fn is_failing(&self) -> bool {
        self.failing
    }

    /// Writes what is still open as `running` lines when recording stops, and the `stop`
    /// line. `false`: the file cannot be written.
    pub fn finish(&mut self) -> bool {
        let now_us = sys::now_us();
        self.retry_at_us = 0;
        if !self.round() {
            return false;
        }
        self.tell_last_losses(now_us);
        self.join.finish(now_us, Ending::Running, &mut self.ready);
        // What already has a `running` line needs no second one, unless something was seen of
        // the statement since. The round has emptied the queue, so nothing else is in it.
        self.ready.retain(|item| match item {
            Ready::Statement { open, .. } => {
                matches!(open.start, Start::Record(_)) || !open.extras.is_empty()
            }
            _ => true,
        });
        self.enqueue();
        if !self.write_queue(now_us) {
            return false;
        }
        // A call after one that failed must not say it again.
        if !std::mem::replace(&mut self.stop_told, true) {
            self.note(EventKind::Stop, "");
        }
        self.write_out(now_us) && {
            self.recycle();
            true
        }
    }

    /// Ends the files.
    pub fn close(self) -> Result<(), FileError> {
        self.files.close()
    }

    /// Used by recovery, after the last round: no loss may stay untold.
    pub(crate) fn tell_last_losses(&mut self, now_us: i64) {
        self.lost_told_us = 0;
        self.tell_losses(now_us);
    }

    /// Used by recovery: formats the whole queue and writes it. `false`: it waits in the batch,
    /// before everything that comes later, until the file can be written.
    pub(crate) fn flush(&mut self) -> bool {
        self.retry_at_us = 0;
        let now_us = sys::now_us();
        while !self.write_queue(now_us) {}
        self.write_out(now_us)
    }
}

/// Counts losses as told whose line is in the file, which ends with line `written_seq`. Lines
/// that are not, are as if they had never been: with the next one the losses are told again.
pub(crate) fn confirm_losses(arena: &Arena, written_seq: u64) {
    let state = &arena.shared().writer.0;
    let reported = [&state.reported_timeout, &state.reported_dropped, &state.reported_corrupt];
    for (telling, reported) in state.telling.iter().zip(reported) {
        // SYNC telling: Acquire pairs with the Release in `tell_losses`.
        let seq = telling.seq.load(Ordering::Acquire);
        if seq != 0 && seq <= written_seq {
            reported.store(telling.count.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        // In this order: a death in between confirms once more.
        telling.seq.store(0, Ordering::Release);
    }
}

/// What happened to the files, in a sentence for the error log.
fn describe(event: &Event) -> String {
    match event {
        Event::Rotated { closed, closed_bytes, opened } => format!(
            "{} is complete ({closed_bytes} bytes), going on in {}",
            closed.display(),
            opened.display()
        ),
        Event::RotateFailed { error } => {
            format!("no new log file could be begun, going on in the old one: {error}")
        }
        Event::Recreated { path, bytes } => format!(
            "the log file was deleted; its {bytes} bytes were written again to {}. \
             Do not delete files that are still being written",
            path.display()
        ),
        Event::Moved { from, opened } => {
            format!("{} was renamed by somebody, going on in {}", from.display(), opened.display())
        }
        Event::Truncated { path, gone_bytes, .. } => format!(
            "{} was cut short by somebody: {gone_bytes} bytes of the audit log are gone. \
             Use SET GLOBAL tacho_rotate_now=1 instead of copytruncate",
            path.display()
        ),
        Event::Foreign { path, kept_bytes, removed_bytes } => format!(
            "somebody else writes into {}: {kept_bytes} bytes were left, {removed_bytes} removed",
            path.display()
        ),
    }
}
