//! The writer: drain, join, format, write, recycle.
//!
//! A record counts as written when its line is in the file (the kernel has it): only then
//! is its chunk given back. The `seq` of the line is stored in the record before the write,
//! so that after a crash the last line in the file tells which records are in it.
//!
//! | module | what it owns |
//! |---|---|
//! | `queue` | the order of the lines |
//! | `judging` | by which filters lines are judged |
//! | `durability` | from the file to the device; producers that wait |
//! | `lines` | from the queue to the batch |
//! | `output` | from the batch to the file; errors |
//! | `running` | the table of running statements |
//! | `losses` | telling of losses |
//! | `takeover` | going on where another writer has left a living arena |
//! | `relief` | making room when chunks are short |
//! | `seldom` | what the error log hears of trouble that comes again and again |
//! | `retention` | which closed file goes when |
//! | `brake` | how fast they may go where that can be a mistake or an attack |
//! | `packing` | the thread that makes closed files smaller, and encrypts them |
//! | `renditions` | the thread that writes each file once more in another format |
//! | `space` | room on the disk, and the warning that it ends |
//! | `survey` | what there is of the log, for SHOW STATUS |

mod brake;
mod durability;
mod judging;
mod lines;
mod losses;
mod output;
mod packing;
mod queue;
mod relief;
mod renditions;
mod retention;
mod running;
mod seldom;
mod space;
mod survey;
mod takeover;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tacho_logdir::{FileError, Fs, LogFiles, RealFs};
use tacho_record::EventKind;
use tacho_record::time::TimeFormatter;
use tacho_ring::arena::Arena;
use tacho_ring::gate::Park;
use tacho_ring::producer::Futex;
use tacho_ring::sync::fence;
use tacho_ring::{session, sys};

use crate::annex::Source;
use crate::arena_file::ArenaFile;
use crate::control::{ConfigTold, Control, Log, Severity, Status, Timestamps};
use crate::drain::Drain;
use crate::join::{Ending, Join, Ready, Start};
use crate::line::Scratch;
use crate::pause;
use crate::setting_names::SettingNames;
use durability::Syncing;
use judging::Judging;
pub(crate) use losses::confirm_losses;
use packing::Packing;
use queue::Queue;
use renditions::Renditions;
use retention::Retention;
use seldom::{Outages, Seldom};
use space::SpaceWatch;
use survey::SurveyWatch;

/// A statement that is open for this long gets a `running` line, µs.
const RUNNING_AFTER_US: i64 = 10_000_000;
/// How long the writer sleeps while there is much to write.
const NAP: std::time::Duration = std::time::Duration::from_millis(2);

/// See the module documentation.
pub struct Writer<F: Fs = RealFs> {
    /// Both before `files`, which have the lock of the directory: their threads end before that is
    /// let go.
    packing: Packing,
    renditions: Renditions,
    drain: Drain,
    join: Join,
    files: LogFiles<F>,
    control: Arc<Control>,
    status: Arc<Status>,
    log: Log,
    config_told: Option<ConfigTold>,
    clock: TimeFormatter,
    clock_zone: Timestamps,
    scratch: Scratch,
    judging: Judging,
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
    syncing: Syncing,
    /// Entries of the table of running statements whose completion is in the batch.
    finished: Vec<usize>,
    retry_at_us: i64,
    /// How often somebody had rung before the last look at the arena.
    rings_seen: u32,
    /// `bytes_written` when it last slept.
    slept_at_bytes: u64,
    outages: Outages,
    lost_seen_us: i64,
    lost_told_us: i64,
    /// Records lost that the error log has not heard of.
    lost_unsaid: u64,
    lost_seldom: Seldom,
    memory_seldom: Seldom,
    annex_seldom: Seldom,
    /// The `stop` line is in the batch, or in the file.
    stop_told: bool,
    /// Arenas of dead servers that may go when the batch is written: their records are in it.
    recovered: Vec<ArenaFile>,
    /// Arenas that are gone, and may be forgotten when the batch is written: it says so.
    gone: Vec<PathBuf>,
    /// Files that were set aside and have no line in the log yet: the name before, the name now.
    set_aside: Vec<(String, String)>,
    retention: Retention,
    space: SpaceWatch,
    survey: SurveyWatch,
}

impl<F: Fs> Writer<F> {
    /// Writes what comes through `arena` into `files`; `last_seq` is the `seq` of the last
    /// line there.
    pub fn new(
        source: impl Into<Source>,
        files: LogFiles<F>,
        last_seq: u64,
        control: Arc<Control>,
        status: Arc<Status>,
        log: Log,
    ) -> Writer<F> {
        let now_us = sys::now_us();
        let mut writer = Writer {
            drain: Drain::new(source),
            join: Join::default(),
            files,
            control,
            status,
            log,
            config_told: None,
            clock: TimeFormatter::utc(),
            clock_zone: Timestamps::Utc,
            scratch: Scratch::default(),
            judging: Judging::default(),
            ready: Vec::new(),
            queue: Queue::default(),
            next_seq: last_seq + 1,
            written_seq: last_seq,
            batch: Vec::with_capacity(1 << 20),
            progress: 0,
            awaited: Vec::new(),
            syncing: Syncing::default(),
            finished: Vec::new(),
            retry_at_us: 0,
            rings_seen: 0,
            slept_at_bytes: 0,
            outages: Outages::default(),
            lost_seen_us: now_us,
            lost_told_us: 0,
            lost_unsaid: 0,
            lost_seldom: Seldom::default(),
            memory_seldom: Seldom::default(),
            annex_seldom: Seldom::default(),
            stop_told: false,
            recovered: Vec::new(),
            gone: Vec::new(),
            set_aside: Vec::new(),
            retention: Retention::default(),
            packing: Packing::default(),
            renditions: Renditions::default(),
            space: SpaceWatch::default(),
            survey: SurveyWatch::default(),
        };
        writer.take_names();
        writer.take_settings();
        writer
    }

    /// Takes up another arena: after the records of a dead one, those of ours.
    pub fn with_arena(mut self, source: impl Into<Source>) -> Writer<F> {
        self.take_up(source);
        self
    }

    /// Leaves the arena for another one. What is in the batch still goes to the file; what is
    /// not formatted yet stays unmarked in the arena that it is in.
    pub(crate) fn take_up(&mut self, source: impl Into<Source>) {
        self.drain = Drain::new(source);
        self.join = Join::default();
        // All of these speak of places in the old arena.
        self.queue.clear(&mut self.ready);
        self.awaited.clear();
        self.syncing.begin_arena();
        self.finished.clear();
        self.judging.begin_arena();
        // The losses that no line tells of are from any time of its life: its writer may have
        // looked at them long before it died, and never have been able to write.
        self.lost_seen_us = self.arena().header().created_us;
        self.take_names();
    }

    /// Names settings as the server of the arena does.
    fn take_names(&self) {
        let server = self.arena().header().server;
        // One that is of no server says nothing: who writes knows better, or learns it soon.
        if let Some(length @ 1..) = server.iter().position(|byte| *byte == 0) {
            let server = String::from_utf8_lossy(&server[..length]);
            self.control.set_names(SettingNames::of_server(&server));
        }
    }

    /// Who is to hear of the lines of changes.
    pub fn set_config_told(&mut self, told: ConfigTold) {
        self.config_told = Some(told);
    }

    /// The producers are threads of another process; see [`Drain::set_tasks`].
    pub fn set_tasks(&mut self, tasks: Option<PathBuf>) {
        self.drain.set_tasks(tasks);
    }

    /// Whether nothing is in the memory of this writer that is not in the arena or in the file: it
    /// may let go. Nor may it know of something that is not on the device, and should be: the next one
    /// would believe it is, as the kernel tells of it once.
    pub fn may_let_go(&mut self) -> bool {
        if !self.syncing.may_let_go() {
            return false;
        }
        let is_written = self.batch.is_empty() && self.queue.order.is_empty();
        is_written && self.join.partials().all(|(_, partial)| partial.early.is_none())
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

    /// See [`LogFiles::tell_recovery`].
    pub fn tell_recovery(&mut self) {
        self.files.tell_recovery();
    }

    pub(crate) fn log_directory(&self) -> &Path {
        self.files.directory()
    }

    /// `seq` of the last line in the file.
    pub fn last_seq(&self) -> u64 {
        self.written_seq
    }

    /// `seq` of the line that comes next.
    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Tells the error log.
    pub fn say(&self, severity: Severity, text: &str) {
        (self.log)(severity, text);
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
        self.take_durability();
        self.files.set_rotate_bytes(self.control.rotate_bytes.load(Ordering::Relaxed));
        let interval_s = self.control.checkpoint_interval_s.load(Ordering::Relaxed);
        self.files.set_checkpoint_interval_s(interval_s);
        let flush_bytes = self.control.flush_bytes.load(Ordering::Relaxed);
        let chunk_bytes = u64::from(self.arena().geometry().chunk_bytes);
        let limit = u32::try_from((flush_bytes / chunk_bytes).max(1)).unwrap_or(u32::MAX);
        self.arena().shared().bell.0.closed_limit.store(limit, Ordering::Relaxed);
    }

    /// One round: everything that is in the arena now goes to the file, and to the device if it
    /// is time. `false`: the file cannot be written at the moment.
    pub fn round(&mut self) -> bool {
        pause::here();
        // SYNC bell: Acquire pairs with the Release in `Bell::ring`: what was recorded before
        // these is seen in this round. Who rings later is not slept over.
        self.rings_seen = self.arena().shared().bell.0.rings.load(Ordering::Acquire);
        let is_written = self.write_round();
        self.look_after_renditions();
        self.settle();
        is_written
    }

    fn write_round(&mut self) -> bool {
        let now_us = sys::now_us();
        self.arena().shared().writer.0.heartbeat_us.store(now_us, Ordering::Relaxed);
        self.take_settings();
        self.watch_space();
        if !self.write_out(now_us) {
            self.show_arena_use();
            return false;
        }
        self.control.flush_now.store(false, Ordering::Relaxed);
        self.files.rotate_when_older(self.control.rotate_interval_s.load(Ordering::Relaxed));
        if self.control.rotate_now.swap(false, Ordering::Relaxed)
            && let Err(error) = self.files.rotate_now()
        {
            self.tell_failure(&error);
        }
        pause::here();
        self.take_format();
        pause::here();
        self.tell_config_changes(now_us);
        // What was found waits for its filter: nothing else is looked for before that is written, so that
        // a filter that changes all the time keeps nothing back for long.
        if self.judging.is_waiting() && !(self.may_judge() && self.write_queue(now_us)) {
            return false;
        }
        self.scan();
        if !self.may_judge() {
            // What was judged before goes on.
            self.write_out(now_us);
            self.recycle();
            return false;
        }
        if !self.write_queue(now_us) {
            return false;
        }
        self.tell_losses(now_us);
        self.tell_running(now_us - RUNNING_AFTER_US);
        pause::here();
        let written = self.write_queue(now_us) && self.write_out(now_us);
        pause::here();
        self.files.tick();
        self.recycle();
        self.tell_annex_failure();
        if written {
            self.pack();
            self.retain();
            // A rotation without a line to write has its events, too.
            self.tell_of_files();
        }
        self.survey_files();
        written && self.relieve(now_us)
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
        if join.has_loose() {
            // Another pass right away, so that they do not wait for the next round.
            join.begin_pass();
            drain.pass(|head, at| join.add(head, at, ready));
            join.end_pass(ready);
        }
        if let Some(quiet) = quiet {
            join.forget_quiet(&quiet);
        }
        join.close_over(sys::now_us() - RUNNING_AFTER_US, ready);
        self.note_due_filter();
        self.take_filters();
        self.enqueue();
    }

    /// Sleeps until the interval is over (`at_most_ms` if that is less), enough is waiting, or
    /// somebody rings.
    ///
    /// Under load it only naps, and nobody has to ring: a call into the kernel to wake this
    /// thread is what a query thread would feel most (tens of µs).
    pub fn sleep(&mut self, started_us: i64, at_most_ms: u64) {
        let written = self.status.bytes_written.load(Ordering::Relaxed);
        let new_bytes = written - std::mem::replace(&mut self.slept_at_bytes, written);
        let flush_bytes = self.control.flush_bytes.load(Ordering::Relaxed);
        if new_bytes > flush_bytes / 8
            && !self.outages.is_failing()
            && !self.syncing.is_waited_for()
        {
            std::thread::sleep(NAP);
            return;
        }
        let interval_ms = self.control.flush_interval_ms.load(Ordering::Relaxed);
        let interval_ms = interval_ms.min(at_most_ms).max(1);
        let elapsed_us = sys::monotonic_us() - started_us;
        let left_us = (interval_ms as i64).saturating_mul(1_000) - elapsed_us;
        let left_us = match self.sync_due_us() {
            // One that is overdue is tried with the next round.
            Some(due_us) if due_us > 0 => left_us.min(due_us),
            _ => left_us,
        };
        let shared = self.arena().shared();
        let bell = &shared.bell.0;
        let word = bell.listen();
        let urgent = self.control.stop.load(Ordering::Relaxed)
            || self.control.release.load(Ordering::Relaxed)
            || self.control.rotate_now.load(Ordering::Relaxed)
            || self.control.flush_now.load(Ordering::Relaxed)
            // Whoever rings wants something: a setting that the round had already looked at.
            || word != self.rings_seen
            // What waits for its filter keeps its chunks, however many are closed.
            || (!self.judging.is_waiting()
                && bell.closed.load(Ordering::Relaxed) >= bell.closed_limit.load(Ordering::Relaxed));
        if left_us > 0 && (!urgent || self.outages.is_failing() || self.syncing.is_failing()) {
            Futex.wait(&bell.rings, word, left_us as u64);
        }
        bell.awake();
    }

    /// Lets time pass, for tests that have none: the next round tries to write again.
    #[cfg(test)]
    pub(crate) fn forget_pause(&mut self) {
        self.retry_at_us = 0;
    }

    /// Whether statements wait, or will soon, because writing fails at the moment.
    pub fn is_failing(&self) -> bool {
        self.outages.is_failing() || self.syncing.is_failing()
    }

    /// Writes what is still open as `running` lines when recording stops, and the `stop`
    /// line. `false`: the file cannot be written.
    pub fn finish(&mut self) -> bool {
        let now_us = sys::now_us();
        self.retry_at_us = 0;
        self.packing.cancel();
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
        self.write_out(now_us) && self.sync() && {
            self.recycle();
            true
        }
    }

    /// Ends the files, for another writer of the living arena.
    ///
    /// # Errors
    /// As [`Writer::close`].
    pub fn hand_over(mut self) -> Result<(), FileError> {
        if self.syncing.is_wanted() {
            // If that fails, it has said so.
            self.sync();
            // The next one then has nothing to doubt.
            self.note_synced();
        }
        self.close()
    }

    /// Ends the files, and before that what reads them.
    pub fn close(mut self) -> Result<(), FileError> {
        // Before the lock of the directory is let go: what packs a file is of the one writer.
        self.packing.end();
        self.end_renditions();
        self.files.close()
    }

    /// Says what has happened to the files, with a line of each that was set aside.
    pub(crate) fn tell_of_files(&mut self) {
        self.tell_events();
        self.tell_set_aside();
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
