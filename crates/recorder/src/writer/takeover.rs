//! Continues a living arena after another writer released it or died.
//!
//! The other writer's state is gone. It is reconstructed from the arena and the file while
//! producers continue to record:
//!
//! * Whether a record is written follows from its mark and the last line of the file, as after a
//!   crash ([`crate::recover`]). A record that is no longer in the arena was written.
//! * Which record of a connection comes next follows from the number in its session slot. A
//!   producer stores it after its record is committed and before it leaves the chunk, and no chunk
//!   is recycled before its producer has left it. So of the records up to the number that was read
//!   *before* a pass, this pass finds all that are not written: they are sorted and joined without
//!   waiting for any. Later records are joined as usual.
//! * A connection without a slot has ended, and all its records were there before the pass; or it
//!   has begun since, and none of its records can be missing.
//! * A connection that found no slot has records without numbers, in the chunks of any threads. The
//!   second pass finds all records that precede one found by the first pass: those of both are
//!   sorted by time ([`recover::sort`]).
//! * Statements with a `running` line are in the arena's table of them.
//! * Producers that wait for a line wait for the last number of their session. If no unwritten
//!   record has it, its line is in the file, and they are released when the file is where it must
//!   be.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use tacho_logdir::Fs;
use tacho_record::EventKind;
use tacho_ring::arena::Arena;
use tacho_ring::codec::{PRESENT_AWAITED, RecordKind};
use tacho_ring::layout::{FRAGMENT_FIRST, FRAGMENT_LAST, FRAGMENT_WHOLE};
use tacho_ring::session::{self, epoch_of};
use tacho_ring::sys;

use super::Writer;
use super::intake::Intake;
use super::losses::count_corrupt;
use crate::control::Severity;
use crate::drain::{Drain, Head, Ref};
use crate::join::{Join, Ready};
use crate::recover;
use crate::spill::ArenaSource;

/// How long a session slot may be in transfer from one connection to another before it counts as
/// one without a connection, µs: the transfer takes a running thread a few instructions.
const CLAIM_US: i64 = 1_000_000;

/// Content of a session slot.
#[derive(Clone, Copy)]
struct Slot {
    rec_no: u64,
    /// A record that left the arena before it was complete, and for which its producer waits.
    early: Option<u64>,
}

/// The numbers of one connection in one epoch.
type Series = (u64, u64);

fn series(head: &Head) -> Series {
    (head.conn, epoch_of(head.rec_no))
}

/// All sessions that have a slot.
fn slots(arena: &Arena) -> HashMap<u64, Slot> {
    let deadline_us = sys::monotonic_us() + CLAIM_US;
    let mut found = HashMap::new();
    for session in arena.sessions() {
        while session::changes_hands(session) && sys::monotonic_us() < deadline_us {
            std::thread::yield_now();
        }
        let Some((conn, rec_no)) = session::last_number(session) else { continue };
        let early = session.early_rec_no.load(Ordering::Relaxed);
        let settled = session.settled_rec_no.load(Ordering::Relaxed);
        let is_waited_for = early > settled && epoch_of(early) == epoch_of(rec_no);
        found.insert(conn, Slot { rec_no, early: is_waited_for.then_some(early) });
    }
    found
}

/// Content of the arena that this writer does not know yet.
#[derive(Default)]
struct Legacy {
    /// The number up to which all records of a series are found or written.
    until: HashMap<Series, u64>,
    /// Query id of the last statement of a connection whose end was found, with the number of that
    /// record.
    last_query_ids: HashMap<u64, (u64, u64)>,
    /// Fragmented records whose last fragment is written.
    written_lasts: HashSet<(u64, u64)>,
    /// Unwritten records of complete series, to be sorted.
    old: Vec<(Head, Ref)>,
    /// The other unwritten records, which are joined in any order.
    new: Vec<(Head, Ref)>,
}

impl Legacy {
    /// Notes a record that is in the file.
    fn see_written(&mut self, head: &Head, held: &HashMap<u64, Slot>) {
        let is_held = held.get(&head.conn).is_some_and(|s| epoch_of(s.rec_no) == series(head).1);
        // A fragment that was moved out early says nothing about the others.
        let is_whole = matches!(head.fragment, FRAGMENT_WHOLE | FRAGMENT_LAST);
        if is_held
            && is_whole
            && let Some(until) = self.until.get_mut(&series(head))
        {
            *until = head.rec_no.max(*until);
        }
        if matches!(head.kind, RecordKind::End | RecordKind::Point) {
            let last = self.last_query_ids.entry(head.conn).or_default();
            *last = (head.rec_no, head.query_id).max(*last);
        }
        if head.fragment == FRAGMENT_LAST {
            self.written_lasts.insert((head.conn, head.rec_no));
        }
    }

    /// Sorts unwritten records into `old` and `new`. `held`: the slots before the passes, `later`:
    /// those after the first pass.
    fn sort(
        &mut self,
        first: Vec<(Head, Ref)>,
        second: Vec<(Head, Ref)>,
        held: &HashMap<u64, Slot>,
        later: &HashMap<u64, Slot>,
    ) {
        let has = |slots: &HashMap<u64, Slot>, series: Series| {
            slots.get(&series.0).is_some_and(|slot| epoch_of(slot.rec_no) == series.1)
        };
        // Connections without a slot, even after the pass: the highest number of each.
        let mut ended: HashMap<Series, u64> = HashMap::new();
        for (head, _) in &first {
            if head.rec_no != 0 && !has(held, series(head)) && !has(later, series(head)) {
                let highest = ended.entry(series(head)).or_default();
                *highest = head.rec_no.max(*highest);
            }
        }
        // A fragmented record of a connection without a slot has an epoch of its own, and may still
        // be arriving.
        let (ended, single): (HashMap<Series, u64>, HashMap<Series, u64>) =
            ended.into_iter().partition(|(_, highest)| session::number_in_epoch(*highest) > 1);
        // Only records of the first pass prove that the earlier ones are found: the second pass has
        // them.
        let lasts = first.iter().map(|(head, _)| head);
        let complete: HashSet<Series> = lasts
            .filter(|head| head.fragment == FRAGMENT_LAST && single.contains_key(&series(head)))
            .map(series)
            .collect();
        let incomplete: HashSet<u64> = single
            .keys()
            .filter(|series| !complete.contains(series))
            .map(|(conn, _)| *conn)
            .collect();
        let is_all_there = |head: &Head| {
            head.rec_no == 0
                || ended.contains_key(&series(head))
                || complete.contains(&series(head))
        };
        for (head, at) in first {
            let is_old = match self.until.get(&series(&head)) {
                Some(until) => head.rec_no <= *until,
                None => is_all_there(&head),
            };
            if is_old { &mut self.old } else { &mut self.new }.push((head, at));
        }
        // The second pass has the records that the first one missed, of sessions that began after
        // the slots were read and ended before they were read again, and of connections without a
        // slot.
        for (head, at) in second {
            // A record without a number may follow a record that is still arriving.
            let is_behind = head.rec_no == 0 && incomplete.contains(&head.conn);
            let is_old =
                !self.until.contains_key(&series(&head)) && is_all_there(&head) && !is_behind;
            if is_old { &mut self.old } else { &mut self.new }.push((head, at));
        }
        recover::sort(&mut self.old, |(head, at)| (head, at));
        // If a connection got another slot, the previous epoch comes first.
        self.old.sort_by_key(|(head, _)| (head.conn, has(held, series(head))));
    }

    /// Unwritten records whose beginning is gone: connection and `rec_no`.
    fn broken(&self, held: &HashMap<u64, Slot>, found: &NotInFile) -> Vec<(u64, u64)> {
        let mut broken = Vec::new();
        for (conn, slot) in held {
            let Some(early) = slot.early else { continue };
            let record = (*conn, early);
            let is_complete = slot.rec_no >= early;
            let is_written = self.written_lasts.contains(&record)
                || (is_complete && !found.unwritten.contains(&record));
            if !found.beginnings.contains(&record) && !is_written {
                broken.push(record);
            }
        }
        broken
    }
}

/// The unwritten records of one pass.
type Unwritten = Vec<(Head, Ref)>;

impl<F: Fs> Writer<F> {
    /// Takes over an arena whose server is alive and whose writer is gone: these files hold the
    /// lock of the log, so there is no other writer.
    #[must_use]
    pub fn take_over(mut self, source: impl Into<ArenaSource>) -> Writer<F> {
        let source = source.into();
        self.take_up(source.clone());
        let arena = *self.arena();
        self.output.doubt_device(&arena, &self.context);
        let shared = arena.shared();
        // The other writer may have died while it slept.
        shared.wakeup.0.awake();
        let heartbeat_us = shared.writer.0.heartbeat_us.load(Ordering::Relaxed);
        self.losses.set_seen(heartbeat_us.min(sys::now_us()));
        // Before the passes.
        let held = slots(&arena);
        let written_seq = self.last_seq();
        if let Err(error) = recover::take_back_marks(source, written_seq) {
            self.say(Severity::Error, &error.to_string());
        }
        for entry in arena.running() {
            if entry.done_seq.load(Ordering::Relaxed) != 0 {
                entry.running_seq.store(0, Ordering::Relaxed);
            }
        }
        self.note_missing_start();
        let has_stop = shared.successor.0.stop_seq.load(Ordering::Relaxed) != 0;
        self.own_lines.set_has_stop(has_stop);
        let (legacy, found) = look(&mut self.intake, &held, written_seq);
        self.feed(legacy, &held, &found);
        self
    }

    /// Joins the existing records, and continues after them.
    fn feed(&mut self, mut legacy: Legacy, held: &HashMap<u64, Slot>, found: &NotInFile) {
        let broken = legacy.broken(held, found);
        let (drain, join, ready) = self.intake.parts();
        recover::restore_running(drain, |conn, open| join.restore(conn, open));
        let (old, new) = (std::mem::take(&mut legacy.old), std::mem::take(&mut legacy.new));
        join_legacy(&legacy, (old, new), held, &broken, join, ready);
        // Records that were lost with the other writer, whose statements had not begun.
        count_corrupt(self.intake.arena(), broken.len() as u64);
        self.output.durability.wait_for(broken);
        self.enqueue();
        for ((conn, _), rec_no) in legacy.until {
            if !found.unwritten.contains(&(conn, rec_no)) {
                self.output.durability.wait_for_latest(conn, rec_no);
            }
        }
    }

    /// Writes the `start` line of a server that was gone before that line was in the file.
    /// Connection ids begin anew with it.
    pub(crate) fn note_missing_start(&mut self) {
        let arena = *self.arena();
        if arena.shared().writer.0.start_seq.load(Ordering::Relaxed) == 0 {
            let header = arena.header();
            let server = header.server.split(|byte| *byte == 0).next().unwrap_or(&[]);
            self.note_at(EventKind::Start, server, header.created_us);
        }
    }
}

/// Records that are not in the file, as connection and `rec_no`.
struct NotInFile {
    /// All whose last fragment is there.
    unwritten: HashSet<(u64, u64)>,
    /// Fragmented ones whose first fragment is there.
    beginnings: HashSet<(u64, u64)>,
}

/// Two passes over the arena, sorted.
fn look(intake: &mut Intake, held: &HashMap<u64, Slot>, written_seq: u64) -> (Legacy, NotInFile) {
    let mut legacy = Legacy::default();
    for (conn, slot) in held {
        legacy.until.insert((*conn, epoch_of(slot.rec_no)), slot.rec_no);
    }
    let (drain, ..) = intake.parts();
    let arena = *drain.arena();
    let first = unwritten(drain, &mut legacy, held, written_seq);
    let later = slots(&arena);
    let second = unwritten(drain, &mut legacy, held, written_seq);
    let record = |(head, _): &(Head, Ref)| (head.conn, head.rec_no);
    let is_last =
        |(head, _): &&(Head, Ref)| matches!(head.fragment, FRAGMENT_WHOLE | FRAGMENT_LAST);
    let is_first = |(head, _): &&(Head, Ref)| head.fragment == FRAGMENT_FIRST;
    let found = NotInFile {
        unwritten: first.iter().chain(&second).filter(is_last).map(record).collect(),
        beginnings: first.iter().filter(is_first).map(record).collect(),
    };
    legacy.sort(first, second, held, &later);
    (legacy, found)
}

/// One pass: returns the records that are not in the file, and settles the others.
fn unwritten(
    drain: &mut Drain,
    legacy: &mut Legacy,
    held: &HashMap<u64, Slot>,
    written_seq: u64,
) -> Unwritten {
    let mut found = Unwritten::new();
    drain.pass(|head, at| found.push((*head, at)));
    found.retain(|(head, at)| {
        if head.line_seq != 0 {
            drain.settle(*at, head.line_seq);
            legacy.see_written(head, held);
        }
        head.line_seq == 0
    });
    recover::drop_doubles(drain, &mut found, written_seq);
    found
}

/// Joins the `old` records in their order, then the `new` ones.
fn join_legacy(
    legacy: &Legacy,
    (old, new): (Unwritten, Unwritten),
    held: &HashMap<u64, Slot>,
    broken: &[(u64, u64)],
    join: &mut Join,
    ready: &mut Vec<Ready>,
) {
    // The other writer had announced that it would move this record out, and got no further.
    let await_early = |head: &mut Head| {
        if held.get(&head.conn).and_then(|slot| slot.early) == Some(head.rec_no) {
            head.present |= PRESENT_AWAITED;
        }
    };
    join.begin_pass();
    for (conn, rec_no) in broken {
        join.is_broken(*conn, *rec_no);
    }
    for (mut head, at) in old {
        if broken.contains(&(head.conn, head.rec_no)) {
            join.add(&head, at, ready);
            continue;
        }
        await_early(&mut head);
        join.add_sorted(&head, at, ready);
    }
    for ((conn, _), rec_no) in &legacy.until {
        let query_id = legacy.last_query_ids.get(conn).map_or(0, |(_, query_id)| *query_id);
        let rec_no = match broken.iter().find(|(broken, _)| broken == conn) {
            Some((_, broken)) => *broken.max(rec_no),
            None => *rec_no,
        };
        join.resume_after(*conn, rec_no, query_id, ready);
    }
    for (mut head, at) in new {
        await_early(&mut head);
        join.add(&head, at, ready);
    }
}
