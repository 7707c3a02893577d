//! Sequences of records as MariaDB 10.11.19 makes them.

use super::*;

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
        for step in steps {
            feed.add(*step);
        }
        feed
    }

    fn add(&mut self, (kind, query_id, text_id, present, errno): Step) {
        self.rec_no += 1;
        let head = Head {
            kind,
            fragment: FRAGMENT_WHOLE,
            fragment_number: 0,
            line_seq: 0,
            conn: 1,
            rec_no: self.rec_no,
            ts_us: self.rec_no as i64,
            query_id,
            text_id,
            conn_seq: self.rec_no,
            text_bytes: 10,
            errno,
            present,
            shown_bytes: 10,
        };
        let at = Ref { chunk: 0, position: self.rec_no as u32 * 64, bytes: 64 };
        self.join.add(head, at, &mut self.ready);
    }

    /// What has become a line: text id of the start (0: a line without a start), and whether its
    /// end was told or else its error number.
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
        // The server calls the next one by the id of the last.
        (Begin, 8, 300, 0, 0),
        (Error, 9, 300, 0, 1062),
        (End, 9, 300, 0, 1062),
        (End, 7, 100, 0, 0),
    ]);
    assert_eq!(feed.lines(), [(200, Ok(())), (300, Ok(())), (100, Ok(()))]);
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
fn what_never_ran_was_interrupted() {
    let mut feed = Feed::new(&[(Begin, 0, 100, PRESENT_REMAINDER, 0)]);
    feed.add((Begin, 9, 500, PRESENT_OUTERMOST, 0));
    assert_eq!(feed.lines(), [(100, Err(ER_QUERY_INTERRUPTED))]);
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
    // Its own end may still be on its way, if it is an EXECUTE IMMEDIATE.
    feed.join.close_over(3, &mut feed.ready);
    assert_eq!(feed.lines().len(), 1);
    feed.join.close_over(4, &mut feed.ready);
    assert_eq!(feed.lines(), [(200, Ok(())), (100, Err(1062))]);
}

#[test]
fn an_end_without_text_goes_by_the_query_id() {
    let feed = Feed::new(&[(Begin, 7, 100, PRESENT_OUTERMOST, 0), (End, 7, 0, 0, 0)]);
    assert_eq!(feed.lines(), [(100, Ok(()))]);
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
