//! The statements of one connection: which are open, which end belongs to which, whose an error is.

use tacho_ring::codec::{
    PRESENT_INNERMOST, PRESENT_OUTERMOST, PRESENT_QUERY_TIME, PRESENT_REMAINDER, RecordKind,
};

use super::partial::{Partial, RecordPlace};
use super::waiting::Stashed;
use crate::drain::{EndParts, Head, Ref};

/// How many statements of a connection can be open: the server allows 255 nested calls, and each
/// executes a statement. More means that ends are missing; this limit bounds the memory.
pub(super) const OPEN_MAX: usize = 1024;

/// The server's error number for a statement that was killed.
pub(super) const ER_QUERY_INTERRUPTED: u32 = 1317;

/// The start of a statement, as far as its line needs it.
#[derive(Clone, Debug)]
pub enum Start {
    /// Its record.
    Record(RecordPlace),
    /// Already in the file, as a `running` line.
    Running {
        /// `seq` of that line.
        seq: u64,
        /// State for the statement's other lines.
        carry_over: Box<CarryOver>,
    },
}

/// State of a statement whose start is in the file.
#[derive(Clone, Debug)]
pub struct CarryOver {
    /// The strings of its start, in the order of `STRING_*`. Empty after a restart.
    pub strings: Vec<Vec<u8>>,
    /// Its text had a secret.
    pub has_secret: bool,
    /// If it prepares another text, that text is a literal in its own.
    pub shows_prepared: bool,
    /// A filter rule keeps its literals, or its whole text, out of the log.
    pub no_literals: bool,
    /// Number and message of its last error before its last `running` line.
    pub error: Option<(u32, Vec<u8>)>,
}

impl Default for CarryOver {
    /// For a statement from before a restart: assumes that its text had secrets.
    fn default() -> CarryOver {
        CarryOver {
            strings: Vec::new(),
            has_secret: true,
            shows_prepared: false,
            no_literals: false,
            error: None,
        }
    }
}

/// A statement that started.
#[derive(Clone, Debug)]
pub struct Open {
    /// Its start.
    pub start: Start,
    /// Its errors and tables, its rewritten text, its parameters, its answer.
    pub extras: Vec<RecordPlace>,
    /// Number within its connection.
    pub rec_no: u64,
    /// Number of its line within its connection.
    pub conn_seq: u64,
    /// When it started, µs since 1970-01-01 UTC.
    pub ts_us: i64,
    /// Query id at its start.
    pub query_id: u64,
    /// Joins it with its end.
    pub text_id: u64,
    /// Length of its text.
    pub text_bytes: u32,
    /// Its producer waits until its line is in the file.
    pub awaited: bool,
    /// It is the rest of a packet after another statement, and may never run.
    pub remainder: bool,
    /// An error with its own query id was announced.
    pub failed: bool,
    /// An inner statement with its query id ended, with this error number.
    pub(super) inner_errno: Option<u32>,
    /// Time of that end, µs.
    pub(super) inner_end_us: i64,
}

impl Open {
    /// A statement that is known only as a `running` line, from before a restart.
    pub fn from_running(head: &Head, seq: u64) -> Open {
        Open::new(head, Start::Running { seq, carry_over: Box::default() }, false)
    }

    pub(super) fn new(head: &Head, start: Start, awaited: bool) -> Open {
        Open {
            start,
            extras: Vec::new(),
            rec_no: head.rec_no,
            conn_seq: head.conn_seq,
            ts_us: head.ts_us,
            query_id: head.query_id,
            text_id: head.text_id,
            text_bytes: head.text_bytes,
            awaited,
            remainder: head.present & PRESENT_REMAINDER != 0,
            failed: false,
            inner_errno: None,
            inner_end_us: 0,
        }
    }

    /// Whether an end (or a point that proves to be one) belongs to this start.
    pub(super) fn matches(&self, head: &Head, end_bytes: u32) -> bool {
        if head.text_id == 0 {
            return self.query_id != 0 && self.query_id == head.query_id;
        }
        self.text_id != 0
            && self.text_id == head.text_id
            && (self.query_id == head.query_id
                || end_bytes <= self.text_bytes
                // Of the rest of a packet, only the beginning was kept.
                || self.remainder)
    }

    /// Whether it ended with the statement inside it, unless its own end follows at once.
    pub(super) fn has_ended(&self) -> bool {
        self.inner_errno.is_some() && !self.awaited
    }

    /// Whether it must have ended, although no record says so, when another statement starts.
    pub(super) fn is_over(&self, next: &Head) -> bool {
        if next.present & PRESENT_OUTERMOST != 0 {
            // A restored statement may be one that began inside of this one.
            return self.rec_no != 0 || self.conn_seq < next.conn_seq;
        }
        self.inner_errno.is_some()
    }

    /// Closes it although no record says that it ended.
    fn closed(self, conn: u64, end_ts_us: i64) -> Ready {
        let ending = match self.inner_errno {
            Some(errno) => Ending::Derived(errno),
            // The error's number is with its message, in `extras`.
            None if self.failed => Ending::Derived(0),
            None if self.remainder && self.extras.is_empty() => {
                Ending::Derived(ER_QUERY_INTERRUPTED)
            }
            None => Ending::Unknown,
        };
        Ready::Statement { conn, open: self, ending, end_ts_us }
    }
}

/// How a statement ended.
#[derive(Clone, Debug)]
pub enum Ending {
    /// According to this record.
    Record(RecordPlace),
    /// According to this record, which has been read.
    Read {
        /// The record.
        at: Ref,
        /// Content of the record.
        end: StatementEnd,
    },
    /// Together with the statement around it or inside it, with this error number.
    Derived(u32),
    /// Unknown for ever.
    Unknown,
    /// Not yet.
    Running,
}

/// The record of an end.
#[derive(Clone, Copy, Debug)]
pub struct StatementEnd {
    /// When it was, µs.
    pub ts_us: i64,
    /// Query id at the end.
    pub query_id: u64,
    /// Error number, 0 = none.
    pub errno: u32,
    /// Bits `PRESENT_*`.
    pub present: u32,
    /// Length of the statement at its end.
    pub shown_bytes: u32,
    /// The rest.
    pub parts: EndParts,
}

/// Something that can become a line now.
#[derive(Debug)]
pub enum Ready {
    /// A statement with a start.
    Statement {
        /// Connection id.
        conn: u64,
        /// Its start.
        open: Open,
        /// Its end.
        ending: Ending,
        /// When it ended, µs.
        end_ts_us: i64,
    },
    /// A record that has a line of its own, with the error message that preceded it.
    Single {
        /// The record.
        place: RecordPlace,
        /// Connection and `rec_no`, if its producer waits until its line is in the file.
        awaited: Option<(u64, u64)>,
        /// Error message.
        error: Option<RecordPlace>,
        /// When it happened, µs.
        ts_us: i64,
    },
    /// Records that do not deserve a line of their own.
    Nothing {
        /// The records.
        at: Vec<Ref>,
    },
}

impl Ready {
    /// When it was complete, µs: lines in the file have this order.
    pub fn ts_us(&self) -> i64 {
        match self {
            Ready::Statement { end_ts_us, .. } => *end_ts_us,
            Ready::Single { ts_us, .. } => *ts_us,
            Ready::Nothing { .. } => i64::MIN,
        }
    }
}

/// When a statement ended, µs; more exact than the record of its end, which may have whole seconds.
/// `None`: the record does not say how long it took.
fn end_of(start_us: i64, head: &Head) -> Option<i64> {
    let parts = head.end.filter(|_| head.present & PRESENT_QUERY_TIME != 0)?;
    start_us.checked_add_unsigned(parts.figures[3])
}

#[derive(Debug)]
pub(super) struct PendingError {
    pub(super) place: RecordPlace,
    pub(super) query_id: u64,
    pub(super) ts_us: i64,
}

#[derive(Debug, Default)]
pub(super) struct Conn {
    /// `rec_no` of the record that comes next; 0 = not known.
    pub(super) expected: u64,
    /// The same in the previous epoch.
    pub(super) expected_before: u64,
    pub(super) open: Vec<Open>,
    pub(super) stash: Vec<Stashed>,
    /// Records that wait until their order can be determined by time.
    pub(super) loose: Vec<Stashed>,
    pub(super) partial: Option<Partial>,
    /// An error that arrived while no statement was open.
    pub(super) pending_error: Option<PendingError>,
    /// Query id of the statement that ended last.
    pub(super) last_query_id: u64,
    /// The latest time of its records: a clock that lags must not reorder a connection.
    pub(super) last_ts_us: i64,
    /// `rec_no` of a record whose beginning is gone with the writer that had it, and that is
    /// counted as lost: its other fragments are ignored. 0 = none.
    pub(super) broken: u64,
    /// It has ended, and none of its records waits: forget it.
    pub(super) is_gone: bool,
}

impl Conn {
    /// Applies the next record, whole; its place becomes part of a line.
    pub(super) fn apply(
        &mut self,
        head: &Head,
        place: RecordPlace,
        awaited: bool,
        ready: &mut Vec<Ready>,
    ) {
        // Starts as well: a start may close what was open before.
        self.last_ts_us = self.last_ts_us.max(head.ts_us);
        let ts_us = self.last_ts_us;
        // Notices and changes of settings have no errors.
        let is_beside =
            matches!(head.kind, RecordKind::Notice | RecordKind::Config | RecordKind::Lost);
        if self.pending_error.is_some() && !is_beside {
            self.settle_error(head, ready);
        }
        match head.kind {
            RecordKind::Start => {
                self.close_while(head.conn, ts_us, ready, |open| open.is_over(head));
                if self.open.len() >= OPEN_MAX
                    && let Some(innermost) = self.open.pop()
                {
                    ready.push(innermost.closed(head.conn, ts_us));
                }
                // A restored statement may be one that began inside this one.
                let inner = |open: &Open| open.rec_no == 0 && open.conn_seq > head.conn_seq;
                let at = self.open.iter().position(inner).unwrap_or(self.open.len());
                self.open.insert(at, Open::new(head, Start::Record(place), awaited));
            }
            RecordKind::End | RecordKind::Point => {
                self.last_query_id = head.query_id;
                if let Some(found) = self.ended_by(head) {
                    self.end(found, head, place, awaited, ready);
                } else {
                    if head.kind == RecordKind::Point {
                        self.close_while(head.conn, ts_us, ready, |open| open.is_over(head));
                    }
                    ready.push(self.single(place, awaited, head, ts_us));
                }
            }
            RecordKind::Error => {
                if let Some(open) = self.open.iter_mut().rfind(|o| o.query_id == head.query_id) {
                    open.failed = true;
                    open.extras.push(place);
                } else if let Some(open) = self.open.last_mut() {
                    open.extras.push(place);
                } else {
                    let new = PendingError { place, query_id: head.query_id, ts_us };
                    if let Some(old) = self.pending_error.replace(new) {
                        ready.push(Ready::Nothing { at: old.place.refs() });
                    }
                }
            }
            RecordKind::Params | RecordKind::Answer => self.captured(place, head, ready),
            RecordKind::Table | RecordKind::Rewrite => {
                let exact = self.open.iter().rposition(|o| o.query_id == head.query_id);
                let index = exact.or_else(|| self.open.len().checked_sub(1));
                match index.and_then(|i| self.open.get_mut(i)) {
                    Some(open) => open.extras.push(place),
                    // Its start is lost, and counted.
                    None if head.kind == RecordKind::Rewrite => {
                        ready.push(Ready::Nothing { at: place.refs() });
                    }
                    None => ready.push(self.single(place, awaited, head, ts_us)),
                }
            }
            RecordKind::Disconnect => {
                self.close_while(head.conn, ts_us, ready, |_| true);
                ready.push(self.single(place, awaited, head, ts_us));
                self.is_gone = self.stash.is_empty() && self.loose.is_empty();
            }
            RecordKind::Connect | RecordKind::ChangeUser | RecordKind::Lost => {
                ready.push(self.single(place, awaited, head, ts_us));
            }
            RecordKind::Notice | RecordKind::Config => {
                let awaited = awaited.then_some((head.conn, head.rec_no));
                ready.push(Ready::Single { place, awaited, error: None, ts_us });
            }
        }
    }

    /// Parameters of the open statement, or its answer, in a capture. Apart from the others, so
    /// that those cost what they did.
    #[cold]
    fn captured(&mut self, place: RecordPlace, head: &Head, ready: &mut Vec<Ready>) {
        match self.open.iter_mut().rfind(|open| open.query_id == head.query_id) {
            Some(open) => open.extras.push(place),
            // Its start is lost, and counted.
            None => ready.push(Ready::Nothing { at: place.refs() }),
        }
    }

    /// The open statement that an end, or a point that proves to be one, belongs to.
    fn ended_by(&self, head: &Head) -> Option<usize> {
        if head.kind == RecordKind::Point {
            return self.open.iter().rposition(|open| open.matches(head, head.text_bytes));
        }
        if head.present & PRESENT_OUTERMOST != 0 {
            (!self.open.is_empty()).then_some(0)
        } else if head.present & PRESENT_INNERMOST != 0 {
            self.open.len().checked_sub(1)
        } else {
            self.open.iter().rposition(|open| open.matches(head, head.shown_bytes))
        }
    }

    /// Ends the statement at `found`, and everything that is nested in it.
    fn end(
        &mut self,
        found: usize,
        head: &Head,
        place: RecordPlace,
        awaited: bool,
        ready: &mut Vec<Ready>,
    ) {
        let conn = head.conn;
        let reported_us = self.open.get(found).and_then(|open| end_of(open.ts_us, head));
        self.last_ts_us = self.last_ts_us.max(reported_us.unwrap_or(i64::MIN));
        let end_ts_us = self.last_ts_us;
        if found + 1 < self.open.len() {
            for open in self.open.drain(found + 1..).rev() {
                let ending = Ending::Derived(open.inner_errno.unwrap_or(head.errno));
                ready.push(Ready::Statement { conn, open, ending, end_ts_us });
            }
        }
        // A statement of a stored program has a query id of its own at its end. If the server
        // reports no query ids, nothing can be inferred.
        if let [.., outer, open] = &mut self.open[..]
            && open.query_id != 0
            && outer.query_id == open.query_id
            && head.query_id == open.query_id
        {
            outer.inner_errno = Some(head.errno);
            outer.inner_end_us = end_ts_us;
        }
        if let Some(open) = self.open.last_mut().filter(|_| awaited) {
            // The producer of the end waits for the line; that of the start no longer waits, or
            // waits for an earlier number.
            open.awaited = true;
            open.rec_no = head.rec_no;
        }
        let ending = match (place, head.end) {
            (RecordPlace::Arena(at, _), Some(parts)) => {
                let Head { ts_us, query_id, errno, present, shown_bytes, .. } = *head;
                let end = StatementEnd { ts_us, query_id, errno, present, shown_bytes, parts };
                Ending::Read { at, end }
            }
            (place, _) => Ending::Record(place),
        };
        let Some(open) = self.open.pop() else { return };
        ready.push(Ready::Statement { conn, open, ending, end_ts_us });
    }

    /// Closes open statements from the innermost outwards, as long as `over` returns true.
    fn close_while(
        &mut self,
        conn: u64,
        end_ts_us: i64,
        ready: &mut Vec<Ready>,
        over: impl Fn(&Open) -> bool,
    ) {
        while let Some(open) = self.open.pop_if(|open| over(open)) {
            ready.push(open.closed(conn, end_ts_us));
        }
    }

    fn single(&mut self, place: RecordPlace, awaited: bool, head: &Head, ts_us: i64) -> Ready {
        let awaited = awaited.then_some((head.conn, head.rec_no));
        let error = self.pending_error.take().map(|error| error.place);
        Ready::Single { place, awaited, error, ts_us }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.open.is_empty()
            && self.stash.is_empty()
            && self.loose.is_empty()
            && self.partial.is_none()
            && self.pending_error.is_none()
    }

    /// An error without any other event: it gets a line of its own, unless it is a second message
    /// of the statement that has just ended.
    pub(super) fn lone_error(&self, error: PendingError) -> Ready {
        if error.query_id != 0 && error.query_id == self.last_query_id {
            return Ready::Nothing { at: error.place.refs() };
        }
        Ready::Single { place: error.place, awaited: None, error: None, ts_us: error.ts_us }
    }

    /// Decides whether a waiting error belongs to this record; otherwise writes it alone.
    fn settle_error(&mut self, next: &Head, ready: &mut Vec<Ready>) {
        let Some(error) = &self.pending_error else { return };
        let belongs = match next.kind {
            // A failed login, or a client that was refused as another user.
            RecordKind::Connect | RecordKind::ChangeUser => true,
            // The error ends the session: the server has no new statement at that time.
            RecordKind::Disconnect => {
                error.query_id == self.last_query_id || self.last_query_id == 0
            }
            RecordKind::Error => true,
            _ => error.query_id == next.query_id,
        };
        if !belongs && let Some(error) = self.pending_error.take() {
            ready.push(self.lone_error(error));
        }
    }
}
