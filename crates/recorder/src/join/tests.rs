//! Sequences of records as MariaDB 10.11.19 makes them.

use tacho_ring::codec::{
    PRESENT_FIGURES, PRESENT_INNERMOST, PRESENT_OUTERMOST, PRESENT_QUERY_TIME, PRESENT_REMAINDER,
};
use tacho_ring::layout::{FRAGMENT_FIRST, FRAGMENT_LAST, FRAGMENT_MIDDLE, FRAGMENT_WHOLE};

use super::conn::{ER_QUERY_INTERRUPTED, OPEN_MAX};
use super::*;
use crate::drain::EndParts;

struct Feed {
    join: Join,
    ready: Vec<Ready>,
    rec_no: u64,
}

/// One record: kind, query id, text id, bits, error number.
type Step = (RecordKind, u64, u64, u32, u32);

use RecordKind::{Disconnect, End, Error, Point, Start as Begin};

impl Feed {
    fn new(steps: &[Step]) -> Feed {
        let mut feed = Feed { join: Join::default(), ready: Vec::new(), rec_no: 0 };
        feed.join.resume_after(1, 0, 0, &mut feed.ready);
        for step in steps {
            feed.add(*step);
        }
        feed
    }

    fn add(&mut self, (kind, query_id, text_id, present, errno): Step) {
        let ts_us = self.rec_no as i64 + 1;
        self.add_head(|head| {
            *head = Head { kind, ts_us, query_id, text_id, present, errno, ..*head };
        });
    }

    /// Adds a record that a [`Step`] cannot describe: `change` modifies a usual one.
    fn add_head(&mut self, change: impl FnOnce(&mut Head)) {
        self.rec_no += 1;
        let mut head = Head {
            kind: Begin,
            fragment: FRAGMENT_WHOLE,
            fragment_number: 0,
            line_seq: 0,
            conn: 1,
            rec_no: self.rec_no,
            ts_us: 0,
            query_id: 7,
            text_id: 100,
            conn_seq: self.rec_no,
            text_bytes: 10,
            errno: 0,
            present: 0,
            shown_bytes: 10,
            end: None,
        };
        change(&mut head);
        let at = Ref { chunk: 0, position: self.rec_no as u32 * 64, bytes: 64 };
        self.join.add(&head, at, &mut self.ready);
    }

    /// The lines so far: text id of the start (0: no start), and `Ok` if the end was recorded,
    /// otherwise the inferred error number.
    fn lines(&self) -> Vec<(u64, Result<(), u32>)> {
        let line = |ready: &Ready| match ready {
            Ready::Statement { open, ending: Ending::Record(_), .. } => {
                Some((open.text_id, Ok(())))
            }
            Ready::Statement { open, ending: Ending::Derived(errno), .. } => {
                Some((open.text_id, Err(*errno)))
            }
            Ready::Statement { open, ending, .. } => panic!("{open:?} is {ending:?}"),
            Ready::Single { .. } => Some((0, Ok(()))),
            Ready::Nothing { .. } => None,
        };
        self.ready.iter().filter_map(line).collect()
    }
}

#[test]
fn a_call_outlives_its_statements() {
    let feed = Feed::new(&[
        (Begin, 7, 100, PRESENT_OUTERMOST, 0),
        (Begin, 7, 200, 0, 0),
        (End, 8, 200, 0, 0),
        // The server starts the next one with the id of the last.
        (Begin, 8, 300, 0, 0),
        (Error, 9, 300, 0, 1062),
        (End, 9, 300, 0, 1062),
        (End, 7, 100, 0, 0),
    ]);
    assert_eq!(feed.lines(), [(200, Ok(())), (300, Ok(())), (100, Ok(()))]);
}

#[test]
fn a_statement_ends_when_its_query_time_is_over() {
    let mut feed = Feed::new(&[]);
    let figures = |query_time_us| {
        Some(EndParts { sql_command: 0, sqlstate: [0; 5], figures: [0, 0, 0, query_time_us, 0] })
    };
    let end = |ts_us, query_time_us| {
        move |head: &mut Head| {
            let present = PRESENT_FIGURES | PRESENT_QUERY_TIME;
            *head = Head { kind: End, ts_us, present, end: figures(query_time_us), ..*head };
        }
    };
    feed.add_head(|head| head.ts_us = 5_700_000);
    // The time of the end is not known more exactly.
    feed.add_head(end(5_000_000, 250));
    // Even if the clock is set back, a connection's lines stay in their order.
    feed.add_head(|head| head.ts_us = 4_000_000);
    feed.add_head(end(4_000_000, 3));
    // A query time from a damaged arena does not overflow.
    feed.add_head(|head| head.ts_us = 6_000_000);
    feed.add_head(end(6_000_000, u64::MAX));
    let times: Vec<i64> = feed.ready.iter().map(Ready::ts_us).collect();
    assert_eq!(times, [5_700_250, 5_700_250, 6_000_000]);
}

#[test]
fn what_follows_in_a_packet_may_have_statements_inside() {
    let feed = Feed::new(&[
        (Begin, 0, 100, PRESENT_REMAINDER, 0),
        (Begin, 7, 200, 0, 0),
        (End, 8, 200, 0, 0),
        (End, 7, 100, 0, 0),
    ]);
    assert_eq!(feed.lines(), [(200, Ok(())), (100, Ok(()))]);
}

#[test]
fn statements_that_never_ran_were_interrupted() {
    let mut feed = Feed::new(&[(Begin, 0, 100, PRESENT_REMAINDER, 0)]);
    feed.add((Begin, 9, 500, PRESENT_OUTERMOST, 0));
    assert_eq!(feed.lines(), [(100, Err(ER_QUERY_INTERRUPTED))]);
}

#[test]
fn statements_without_an_end_do_not_accumulate_in_memory() {
    let mut feed = Feed::new(&[(Begin, 7, 100, PRESENT_OUTERMOST, 0)]);
    let count = 3 * OPEN_MAX as u64;
    for number in 0..count {
        feed.add((Begin, 1_000 + number, 1_000 + number, 0, 0));
    }
    assert_eq!(feed.join.open_since(i64::MAX).count(), OPEN_MAX);
    // Each time the innermost one was closed, with an unknown outcome.
    assert_eq!(feed.ready.len() as u64, count + 1 - OPEN_MAX as u64);
    let unknown = |r: &Ready| matches!(r, Ready::Statement { ending: Ending::Unknown, .. });
    assert!(feed.ready.iter().all(unknown));
    // The outermost one still finds its end.
    feed.ready.clear();
    feed.add((End, 7, 100, 0, 0));
    assert_eq!(feed.ready.len(), OPEN_MAX);
    assert_eq!(feed.lines().last(), Some(&(100, Ok(()))));
}

#[test]
fn an_execute_in_a_routine_ends_with_the_text_of_another() {
    let feed = Feed::new(&[
        (Begin, 7, 100, PRESENT_OUTERMOST, 0),
        (Begin, 7, 200, 0, 0),
        (Point, 8, 999, 0, 0),
        (End, 8, 999, PRESENT_INNERMOST, 0),
        (End, 7, 100, 0, 0),
    ]);
    assert_eq!(feed.lines(), [(0, Ok(())), (200, Ok(())), (100, Ok(()))]);
}

#[test]
fn a_failed_execute_is_never_taken_for_a_running_statement() {
    let mut feed = Feed::new(&[
        (Begin, 7, 100, PRESENT_OUTERMOST, 0),
        (Begin, 7, 200, 0, 0),
        (End, 7, 200, 0, 1062),
    ]);
    assert_eq!(feed.lines(), [(200, Ok(()))]);
    assert_eq!(feed.join.open_since(i64::MAX).count(), 0);
    // Its own end may still follow, if it is an EXECUTE IMMEDIATE.
    feed.join.close_over(3, &mut feed.ready);
    assert_eq!(feed.lines().len(), 1);
    feed.join.close_over(4, &mut feed.ready);
    assert_eq!(feed.lines(), [(200, Ok(())), (100, Err(1062))]);
}

#[test]
fn an_end_without_text_is_matched_by_query_id() {
    let feed = Feed::new(&[(Begin, 7, 100, PRESENT_OUTERMOST, 0), (End, 7, 0, 0, 0)]);
    assert_eq!(feed.lines(), [(100, Ok(()))]);
}

/// A notice is a line of its own, ends nothing, and does not take a waiting error.
#[test]
fn a_notice_takes_nothing_from_the_statement_around_it() {
    let feed = Feed::new(&[
        (Begin, 0, 100, PRESENT_OUTERMOST, 0),
        (RecordKind::Notice, 0, 0, 0, 0),
        (End, 0, 100, PRESENT_OUTERMOST, 0),
        (Error, 0, 0, 0, 1064),
        (RecordKind::Notice, 0, 0, 0, 0),
        (Point, 0, 0, PRESENT_OUTERMOST, 1064),
    ]);
    assert_eq!(feed.lines(), [(0, Ok(())), (100, Ok(())), (0, Ok(())), (0, Ok(()))]);
    let errors = feed.ready.iter().map(|ready| match ready {
        Ready::Single { error, .. } => error.is_some(),
        _ => false,
    });
    assert_eq!(errors.collect::<Vec<_>>(), [false, false, false, true]);
}

#[test]
fn an_error_of_its_own_is_not_put_on_the_next_line() {
    let with_error = |feed: &Feed| {
        let has = |ready: &&Ready| matches!(ready, Ready::Single { error: Some(_), .. });
        feed.ready.iter().filter(has).count()
    };
    // COM_STMT_EXECUTE of an unknown statement, then Quit.
    let mut feed = Feed::new(&[(Error, 7, 0, 0, 1243), (Point, 8, 0, PRESENT_OUTERMOST, 0)]);
    assert_eq!((feed.lines().len(), with_error(&feed)), (2, 0));
    // The session ends with an error that has no statement of its own.
    feed.add((Error, 8, 0, 0, 1158));
    feed.add((Disconnect, 0, 0, 0, 0));
    assert_eq!((feed.lines().len(), with_error(&feed)), (3, 1));
    // A failed prepare: the error, then the end.
    let feed = Feed::new(&[(Error, 7, 5, 0, 1064), (Point, 7, 5, 0, 1064)]);
    assert_eq!((feed.lines().len(), with_error(&feed)), (1, 1));
}

/// A connection without numbers for its records, or with changing ones: more connections than
/// slots, or one that resumes after a long time.
struct Orderless {
    join: Join,
    ready: Vec<Ready>,
}

/// A point of a connection without a slot.
fn point(query_id: u64) -> Head {
    Head {
        kind: Point,
        fragment: FRAGMENT_WHOLE,
        fragment_number: 0,
        line_seq: 0,
        conn: 1,
        rec_no: 0,
        ts_us: query_id as i64,
        query_id,
        text_id: query_id,
        conn_seq: 0,
        text_bytes: 10,
        errno: 0,
        present: 0,
        shown_bytes: 10,
        end: None,
    }
}

/// Number of the first record in an epoch, as `rec_no`.
const fn epoch(number: u64) -> u64 {
    (number << 48) + 1
}

impl Orderless {
    fn new() -> Orderless {
        Orderless { join: Join::default(), ready: Vec::new() }
    }

    /// Adds a point with this number and query id, or a fragment of one.
    fn add(&mut self, rec_no: u64, query_id: u64, fragment: u8, fragment_number: u16) {
        let head = Head { fragment, fragment_number, rec_no, ..point(query_id) };
        let at = Ref { chunk: 0, position: query_id as u32 * 64, bytes: 64 };
        self.join.add(&head, at, &mut self.ready);
    }

    fn whole(&mut self, rec_no: u64, query_id: u64) {
        self.add(rec_no, query_id, FRAGMENT_WHOLE, 0);
    }

    /// Ends the pass and some more; returns the query ids of the lines, in order, and how many
    /// records are reported as lost.
    fn end(&mut self) -> (Vec<u32>, u64) {
        for _ in 0..5 {
            self.join.end_pass(&mut self.ready);
            self.join.begin_pass();
        }
        let line = |ready: &Ready| match ready {
            Ready::Single { place: RecordPlace::Arena(at, _), .. } => Some(at.position / 64),
            _ => None,
        };
        (self.ready.iter().filter_map(line).collect(), self.join.take_missing())
    }
}

/// The pass read the chunk of the last fragment before that was there, and found later records: the
/// large record was dropped without being counted.
#[test]
fn records_after_an_untracked_record_in_fragments_wait_for_its_rest() {
    // Another fragmented record, which has an epoch of its own, or a record without any number.
    for next in [epoch(9), epoch(2), 0] {
        let mut all = Orderless::new();
        all.join.begin_pass();
        all.add(epoch(5), 1, FRAGMENT_FIRST, 0);
        all.add(epoch(5), 1, FRAGMENT_MIDDLE, 1);
        match next {
            0 => all.whole(0, 2),
            _ => {
                all.add(next, 2, FRAGMENT_FIRST, 0);
                all.add(next, 2, FRAGMENT_LAST, 1);
            }
        }
        all.join.end_pass(&mut all.ready);
        assert!(all.ready.is_empty(), "{:?}", all.ready);
        all.join.begin_pass();
        all.add(epoch(5), 1, FRAGMENT_LAST, 2);
        assert_eq!(all.end(), (vec![1, 2], 0), "after {next:#x}");
    }
}

/// The producer has given it up and counted it, but has no place to say so.
#[test]
fn an_untracked_record_that_was_given_up_blocks_no_other() {
    let mut all = Orderless::new();
    all.join.begin_pass();
    all.add(epoch(5), 1, FRAGMENT_FIRST, 0);
    all.whole(0, 2);
    all.whole(0, 3);
    assert_eq!(all.end(), (vec![2, 3], 0));
    assert_eq!(all.ready.iter().filter(|r| matches!(r, Ready::Nothing { .. })).count(), 1);
}

/// A thread that inserts delayed rows recorded in the name of the connection, whose own thread was
/// preempted in the middle of a long record: that was given up as if it were followed by another.
#[test]
fn a_record_of_another_thread_ends_no_record_in_fragments() {
    let mut all = Orderless::new();
    all.join.resume_after(1, epoch(5) + 1, 0, &mut all.ready);
    all.join.begin_pass();
    all.add(epoch(5) + 2, 1, FRAGMENT_FIRST, 0);
    all.whole(0, 2);
    assert_eq!(all.end(), (vec![2], 0));
    all.add(epoch(5) + 2, 1, FRAGMENT_MIDDLE, 1);
    all.whole(0, 3);
    all.add(epoch(5) + 2, 1, FRAGMENT_LAST, 2);
    assert_eq!(all.end(), (vec![2, 3, 1], 0));
    assert!(!all.ready.iter().any(|r| matches!(r, Ready::Nothing { .. })), "{:?}", all.ready);
}

#[test]
fn records_without_a_number_do_not_disturb_those_that_have_one() {
    let mut all = Orderless::new();
    all.join.begin_pass();
    all.whole(epoch(7), 1);
    all.whole(epoch(7) + 2, 3);
    all.whole(0, 10);
    all.whole(epoch(7) + 1, 2);
    all.whole(0, 11);
    all.whole(epoch(7) + 3, 4);
    assert_eq!(all.end(), (vec![1, 2, 3, 4, 10, 11], 0));
}

/// The log could not be written for so long that the slot went to another connection, and the
/// writer finds the old records after the first new ones. Epochs have no order, because they wrap.
#[test]
fn late_records_of_an_epoch_before_are_not_taken_for_a_gap() {
    for (old, new) in [(3, 8), (8, 3)] {
        let mut all = Orderless::new();
        all.join.begin_pass();
        for (rec_no, id) in [
            (epoch(old), 1),
            (epoch(new), 4),
            (epoch(old) + 2, 3),
            (epoch(old) + 1, 2),
            (epoch(new) + 2, 6),
            (epoch(new) + 1, 5),
        ] {
            all.whole(rec_no, id);
        }
        assert_eq!(all.end(), (vec![1, 2, 3, 4, 5, 6], 0), "{old} {new}");
    }
}

/// The pass read the chunk of a start before that was there, and found the end in another chunk:
/// the statement got two lines, one of them `running`.
#[test]
fn an_end_that_a_pass_finds_before_its_start_waits_for_it() {
    // Without slots; with a slot that the connection got in between; with one that replaced
    // another.
    for (began, ended) in [(0, 0), (0, epoch(3)), (epoch(3) + 6, epoch(8))] {
        let mut all = Orderless::new();
        let head = |kind, rec_no, ts_us| Head { kind, rec_no, ts_us, ..point(1) };
        let place = |chunk| Ref { chunk, position: 0, bytes: 64 };
        let add = |all: &mut Orderless, head, chunk| {
            all.join.add(&head, place(chunk), &mut all.ready);
        };
        if began != 0 {
            all.join.resume_after(1, began - 1, 0, &mut all.ready);
        }
        all.join.begin_pass();
        add(&mut all, head(Point, ended, 20), 1);
        // Later records wait, too, because they may be starts.
        let next = if ended == 0 { 0 } else { ended + 1 };
        add(&mut all, Head { text_id: 2, query_id: 2, ..head(Begin, next, 30) }, 1);
        all.join.end_pass(&mut all.ready);
        assert!(all.ready.is_empty() && all.join.has_loose(), "{:?}", all.ready);
        assert!(all.join.quiet(|_| true).is_none_or(|quiet| quiet.is_empty()));
        all.join.begin_pass();
        add(&mut all, head(Begin, began, 10), 0);
        all.join.end_pass(&mut all.ready);
        let lines: Vec<_> = all.ready.iter().map(Ready::ts_us).collect();
        assert_eq!(lines, [20], "{:?}", all.ready);
        assert!(matches!(
            &all.ready[..],
            [Ready::Statement { open, ending: Ending::Record(RecordPlace::Arena(at, _)), .. }]
                if open.ts_us == 10 && at.chunk == 1
        ));
        all.join.begin_pass();
        all.join.end_pass(&mut all.ready);
        assert!(!all.join.has_loose());
        assert_eq!(all.join.open_since(i64::MAX).count(), 1, "the next one is running");
    }
}

/// Each pass found some, so that all records of a busy connection waited and were sorted, for ever.
#[test]
fn a_connection_that_is_never_quiet_waits_only_once() {
    let mut all = Orderless::new();
    all.join.begin_pass();
    all.whole(epoch(3), 1);
    all.join.end_pass(&mut all.ready);
    assert!(all.ready.is_empty() && all.join.has_loose(), "{:?}", all.ready);
    all.join.begin_pass();
    // The second one comes from a chunk that is read later.
    for (rec_no, id) in [(epoch(3) + 1, 2), (epoch(3) + 3, 4), (epoch(3) + 2, 3)] {
        all.whole(rec_no, id);
    }
    all.join.end_pass(&mut all.ready);
    let lines = |all: &Orderless| all.ready.iter().map(Ready::ts_us).collect::<Vec<_>>();
    assert_eq!((lines(&all), all.join.has_loose()), (vec![1, 2, 3, 4], false));
    all.join.begin_pass();
    all.whole(epoch(3) + 4, 5);
    assert_eq!(lines(&all), [1, 2, 3, 4, 5], "it does not wait for the end of the pass");
    // Those without a number wait as before.
    all.whole(0, 6);
    all.join.end_pass(&mut all.ready);
    assert!(all.join.has_loose());
}

#[test]
fn a_gap_in_an_epoch_is_counted_once() {
    for (old, new) in [(3, 8), (8, 3)] {
        let mut all = Orderless::new();
        all.join.begin_pass();
        all.whole(epoch(old), 1);
        all.whole(epoch(old) + 3, 4);
        all.whole(epoch(new), 5);
        all.whole(epoch(new) + 1, 6);
        let (lines, missing) = all.end();
        assert_eq!((lines.len(), missing), (4, 2), "{lines:?}");
    }
}
