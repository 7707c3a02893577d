//! From records to lines: which end belongs to which start.
//!
//! Pure logic over heads and places; nothing here reads the arena or writes a file. For
//! each connection it keeps the statements that are open, innermost last, and puts the
//! connection's records into the order in which they happened: a connection may move
//! between threads, and so between chunks.
//!
//! What the server does not say is settled here (all seen on MariaDB 10.11.19):
//! * SQL `EXECUTE` announces the inner statement; the end that comes is the inner one's.
//!   The outer one has an end only sometimes.
//! * Several statements in one packet start as one text and end one by one. When a statement
//!   is killed, what follows it in its packet never runs.
//! * An error may come alone: `COM_STMT_EXECUTE` of an unknown statement has no other event.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use tacho_ring::codec::{PRESENT_INNERMOST, PRESENT_OUTERMOST, PRESENT_REMAINDER, RecordKind};
use tacho_ring::layout::{FRAGMENT_FIRST, FRAGMENT_LAST, FRAGMENT_WHOLE, Session};
use tacho_ring::session;

use crate::drain::{Head, Ref};

/// Where a record is.
#[derive(Clone, Debug)]
pub enum Place {
    /// In the arena: the record, and the further fragments of its text.
    Arena(Ref, Vec<Ref>),
    /// Its beginning was taken out of the arena before it was complete; the last fragments
    /// are still there.
    Memory(Box<EarlyRecord>, Vec<Ref>),
}

/// What the start of a statement left behind for its line.
#[derive(Clone, Debug)]
pub enum Start {
    /// Its record.
    Record(Place),
    /// It is in the file already, as a `running` line.
    Running {
        /// `seq` of that line.
        seq: u64,
        /// Everything of it but the text.
        identity: Box<Identity>,
    },
}

/// A record in fragments that had to leave the arena.
#[derive(Clone, Debug, Default)]
pub struct EarlyRecord {
    /// The first fragment.
    pub first: Vec<u8>,
    /// The text of the others.
    pub more_text: Vec<u8>,
}

/// Strings of a start, owned, in the order of `STRING_*`. Empty after a restart.
#[derive(Clone, Debug, Default)]
pub struct Identity(pub Vec<Vec<u8>>);

/// A statement that started.
#[derive(Clone, Debug)]
pub struct Open {
    /// Its start.
    pub start: Start,
    /// Errors and tables on the way.
    pub extras: Vec<Place>,
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
    /// It is what follows another statement in its packet, and may never run.
    remainder: bool,
    /// An error with its own query id was announced.
    failed: bool,
    /// An inner statement with its query id ended, with this error number.
    inner_errno: Option<u32>,
    /// When that was, µs.
    inner_end_us: i64,
}

impl Open {
    /// A statement that is known only as a `running` line, from before a restart.
    pub fn from_running(head: &Head, seq: u64) -> Open {
        Open::new(head, Start::Running { seq, identity: Box::default() }, false)
    }

    fn new(head: &Head, start: Start, awaited: bool) -> Open {
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

    /// Whether an end (or a point that turns out to be one) belongs to this start.
    fn matches(&self, head: &Head, end_bytes: u32) -> bool {
        if head.text_id == 0 {
            return self.query_id != 0 && self.query_id == head.query_id;
        }
        self.text_id != 0
            && self.text_id == head.text_id
            && (self.query_id == head.query_id
                || end_bytes <= self.text_bytes
                // Of what follows in a packet, only the beginning was kept.
                || self.remainder)
    }

    /// Whether it has ended with the statement in it, unless an end of its own follows at once.
    fn has_ended(&self) -> bool {
        self.inner_errno.is_some() && !self.awaited
    }

    /// Whether it must have ended, though nothing said so, when another statement starts.
    fn is_over(&self, next: &Head) -> bool {
        if next.present & PRESENT_OUTERMOST != 0 {
            // A restored statement may be one that began inside of this one.
            return self.rec_no != 0 || self.conn_seq < next.conn_seq;
        }
        self.inner_errno.is_some()
    }
}

/// How a statement ended.
#[derive(Clone, Debug)]
pub enum Ending {
    /// This record says it.
    Record(Place),
    /// Together with the statement around it or in it, with this error number.
    Derived(u32),
    /// Nobody will ever say.
    Unknown,
    /// It has not.
    Running,
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
    /// A record that is a line by itself, with the error message that came before it.
    Single {
        /// The record.
        place: Place,
        /// Connection and `rec_no`, when its producer waits until its line is in the file.
        awaited: Option<(u64, u64)>,
        /// Error message.
        error: Option<Place>,
        /// When it happened, µs.
        ts_us: i64,
    },
    /// Records that are not worth a line of their own.
    Nothing {
        /// The records.
        at: Vec<Ref>,
    },
}

impl Ready {
    /// When it was complete, µs: the order of lines in the file.
    pub fn ts_us(&self) -> i64 {
        match self {
            Ready::Statement { end_ts_us, .. } => *end_ts_us,
            Ready::Single { ts_us, .. } => *ts_us,
            Ready::Nothing { .. } => i64::MIN,
        }
    }
}

#[derive(Debug)]
struct Stashed {
    head: Head,
    at: Ref,
    pass: u64,
}

/// A record in fragments whose end has not come yet.
#[derive(Debug)]
pub struct Partial {
    /// Head of its first fragment.
    pub head: Head,
    /// The first fragment, until it is taken out of the arena.
    pub first: Option<Ref>,
    /// The other fragments in the arena.
    pub more: Vec<Ref>,
    /// What was taken out.
    pub early: Option<Box<EarlyRecord>>,
    /// Its producer was told that it must wait for the line.
    pub awaited: bool,
    next: u16,
}

#[derive(Debug)]
struct PendingError {
    place: Place,
    query_id: u64,
    ts_us: i64,
}

#[derive(Debug, Default)]
struct Conn {
    /// `rec_no` of the record that comes next; 0 = not known.
    expected: u64,
    open: Vec<Open>,
    stash: Vec<Stashed>,
    partial: Option<Partial>,
    /// An error that came while no statement was open.
    pending_error: Option<PendingError>,
    /// Query id of the statement that ended last.
    last_query_id: u64,
    /// When its last line was complete: a clock that lags must not reorder a connection.
    last_ts_us: i64,
}

/// Connection ids are the server's own: they need spreading, not protection.
#[derive(Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

/// See the module documentation.
#[derive(Default)]
pub struct Join {
    conns: HashMap<u64, Conn, BuildHasherDefault<IdHasher>>,
    pass: u64,
    stashed: usize,
    partials: usize,
    /// Records that never came, found by a gap in a connection's numbers.
    missing: u64,
    /// Number of connections from which on ended ones are looked for.
    prune_at: usize,
}

/// Fewer connections than this are not worth a search for ended ones.
const PRUNE_MIN: usize = 1024;
/// The server's error number for a statement that was killed.
const ER_QUERY_INTERRUPTED: u32 = 1317;

/// A gap is given up when this many passes have not filled it: what precedes a record was
/// committed before it, so the next whole pass must have seen it.
const GAP_PASSES: u64 = 3;

impl Join {
    /// A new pass over the arena begins.
    pub fn begin_pass(&mut self) {
        self.pass += 1;
    }

    /// A pass has ended: gaps that will never be filled are given up.
    pub fn end_pass(&mut self, ready: &mut Vec<Ready>) {
        if self.stashed == 0 {
            return;
        }
        let pass = self.pass;
        let late: Vec<u64> = self
            .conns
            .iter()
            .filter(|(_, c)| c.stash.iter().any(|s| s.pass + GAP_PASSES <= pass))
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            self.give_up_gap(id, ready);
        }
    }

    fn give_up_gap(&mut self, id: u64, ready: &mut Vec<Ready>) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let Some(lowest) =
            conn.stash.iter().min_by_key(|s| (s.head.rec_no, s.head.fragment_number))
        else {
            return;
        };
        let rec_no = lowest.head.rec_no;
        let beginning_is_gone = lowest.head.fragment > FRAGMENT_FIRST;
        let mut gap = 1;
        if session::epoch_of(rec_no) == session::epoch_of(conn.expected) {
            gap = rec_no.saturating_sub(conn.expected);
        }
        if let Some(partial) = conn.partial.take() {
            self.partials -= 1;
            ready.push(Ready::Nothing { at: partial.refs() });
            // Its producer gave it up and counted it, or the pass met the damage and did.
            gap = gap.saturating_sub(1);
        }
        self.missing = self.missing.saturating_add(gap);
        conn.expected = rec_no;
        if beginning_is_gone {
            // No record begins here: without this the rest would wait, and hold its chunks,
            // for ever.
            let (rest, stash) =
                std::mem::take(&mut conn.stash).into_iter().partition(|s| s.head.rec_no == rec_no);
            let rest: Vec<Stashed> = rest;
            conn.stash = stash;
            conn.expected = rec_no.saturating_add(1);
            self.stashed -= rest.len();
            self.missing = self.missing.saturating_add(1);
            ready.push(Ready::Nothing { at: rest.iter().map(|s| s.at).collect() });
        }
        self.unstash(id, ready);
    }

    /// Records that never came, since the last call.
    pub fn take_missing(&mut self) -> u64 {
        std::mem::take(&mut self.missing)
    }

    /// A statement that a `running` line tells of was still open when recording stopped.
    pub fn restore(&mut self, conn: u64, open: Open) {
        self.conns.entry(conn).or_default().open.push(open);
    }

    /// One record, in any order.
    pub fn add(&mut self, head: Head, at: Ref, ready: &mut Vec<Ready>) {
        let conn = self.conns.entry(head.conn).or_default();
        if head.rec_no != 0 {
            let epoch = session::epoch_of(head.rec_no);
            if conn.expected == 0 || epoch != session::epoch_of(conn.expected) {
                // A slot of the session table begins to count at 1.
                conn.expected = (epoch << session::REC_NO_BITS) + 1;
            }
            let in_order = if conn.partial.is_some() && head.rec_no == conn.expected {
                head.fragment == FRAGMENT_WHOLE
                    || head.fragment == FRAGMENT_FIRST
                    || conn.partial.as_ref().is_some_and(|p| p.next == head.fragment_number)
            } else {
                head.rec_no <= conn.expected && head.fragment <= FRAGMENT_FIRST
            };
            if !in_order {
                conn.stash.push(Stashed { head, at, pass: self.pass });
                self.stashed += 1;
                return;
            }
        }
        let id = head.conn;
        self.take(head, at, ready);
        if self.stashed > 0 {
            self.unstash(id, ready);
        }
    }

    /// Records in the order of their numbers, gaps ignored: what a crash has left.
    pub fn add_sorted(&mut self, head: Head, at: Ref, ready: &mut Vec<Ready>) {
        self.conns.entry(head.conn).or_default();
        self.take(head, at, ready);
    }

    fn unstash(&mut self, id: u64, ready: &mut Vec<Ready>) {
        while let Some(conn) = self.conns.get_mut(&id) {
            let want_fragment = conn.partial.as_ref().map(|p| p.next);
            let expected = conn.expected;
            let found = conn.stash.iter().position(|s| {
                s.head.rec_no <= expected
                    && match want_fragment {
                        Some(next) => {
                            s.head.fragment_number == next || s.head.fragment <= FRAGMENT_FIRST
                        }
                        None => s.head.fragment <= FRAGMENT_FIRST,
                    }
            });
            let Some(found) = found else { return };
            let Stashed { head, at, .. } = conn.stash.swap_remove(found);
            self.stashed -= 1;
            self.take(head, at, ready);
        }
    }

    /// The next record of its connection.
    fn take(&mut self, head: Head, at: Ref, ready: &mut Vec<Ready>) {
        let Some(conn) = self.conns.get_mut(&head.conn) else { return };
        if head.fragment <= FRAGMENT_FIRST {
            // A record that comes in the place of one that is incomplete: the producer gave
            // that one up (and counted it).
            if let Some(given_up) = conn.partial.take() {
                self.partials -= 1;
                ready.push(Ready::Nothing { at: given_up.refs() });
            }
        }
        match head.fragment {
            FRAGMENT_WHOLE => {
                conn.expected = head.rec_no + 1;
                self.apply(head, Place::Arena(at, Vec::new()), false, ready);
            }
            FRAGMENT_FIRST => {
                conn.expected = head.rec_no.max(1);
                conn.partial = Some(Partial {
                    head,
                    first: Some(at),
                    more: Vec::new(),
                    early: None,
                    awaited: false,
                    next: 1,
                });
                self.partials += 1;
            }
            fragment => {
                let Some(partial) = &mut conn.partial else {
                    // The rest of a record whose beginning is gone.
                    ready.push(Ready::Nothing { at: vec![at] });
                    return;
                };
                partial.more.push(at);
                partial.next = if partial.next == u16::MAX { 1 } else { partial.next + 1 };
                if fragment == FRAGMENT_LAST
                    && let Some(done) = conn.partial.take()
                {
                    self.partials -= 1;
                    conn.expected = done.head.rec_no + 1;
                    let awaited = done.awaited;
                    let head = done.head;
                    self.apply(head, done.into_place(), awaited, ready);
                }
            }
        }
    }

    fn apply(&mut self, head: Head, place: Place, awaited: bool, ready: &mut Vec<Ready>) {
        let id = head.conn;
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let mut head = head;
        if head.kind != RecordKind::Start {
            conn.last_ts_us = conn.last_ts_us.max(head.ts_us);
            head.ts_us = conn.last_ts_us;
        }
        conn.settle_error(&head, ready);
        if matches!(head.kind, RecordKind::End | RecordKind::Point) {
            conn.last_query_id = head.query_id;
        }
        match head.kind {
            RecordKind::Start => {
                conn.close_while(id, &head, ready, |open| open.is_over(&head));
                // A restored statement may be one that began inside this one.
                let inner = |open: &Open| open.rec_no == 0 && open.conn_seq > head.conn_seq;
                let at = conn.open.iter().position(inner).unwrap_or(conn.open.len());
                conn.open.insert(at, Open::new(&head, Start::Record(place), awaited));
            }
            RecordKind::End => {
                let found = if head.present & PRESENT_OUTERMOST != 0 {
                    (!conn.open.is_empty()).then_some(0)
                } else if head.present & PRESENT_INNERMOST != 0 {
                    conn.open.len().checked_sub(1)
                } else {
                    conn.open.iter().rposition(|o| o.matches(&head, head.shown_bytes))
                };
                match found {
                    Some(found) => conn.end(id, found, &head, place, awaited, ready),
                    None => ready.push(conn.single(place, awaited, &head)),
                }
            }
            RecordKind::Point => {
                let found = conn.open.iter().rposition(|o| o.matches(&head, head.text_bytes));
                match found {
                    Some(found) => conn.end(id, found, &head, place, awaited, ready),
                    None => {
                        conn.close_while(id, &head, ready, |open| open.is_over(&head));
                        ready.push(conn.single(place, awaited, &head));
                    }
                }
            }
            RecordKind::Error => {
                if let Some(open) = conn.open.iter_mut().rfind(|o| o.query_id == head.query_id) {
                    open.failed = true;
                    open.extras.push(place);
                } else if let Some(open) = conn.open.last_mut() {
                    open.extras.push(place);
                } else {
                    let new = PendingError { place, query_id: head.query_id, ts_us: head.ts_us };
                    if let Some(old) = conn.pending_error.replace(new) {
                        ready.push(Ready::Nothing { at: old.place.refs() });
                    }
                }
            }
            RecordKind::Table => {
                let exact = conn.open.iter().rposition(|o| o.query_id == head.query_id);
                let index = exact.or_else(|| conn.open.len().checked_sub(1));
                match index.and_then(|i| conn.open.get_mut(i)) {
                    Some(open) => open.extras.push(place),
                    None => ready.push(conn.single(place, awaited, &head)),
                }
            }
            RecordKind::Disconnect => {
                conn.close_while(id, &head, ready, |_| true);
                ready.push(conn.single(place, awaited, &head));
                if conn.stash.is_empty() {
                    self.conns.remove(&id);
                }
            }
            RecordKind::Connect | RecordKind::ChangeUser | RecordKind::Config => {
                ready.push(conn.single(place, awaited, &head));
            }
        }
    }

    /// Statements that started before `before_us` and are still open, with their connection.
    pub fn open_since(&mut self, before_us: i64) -> impl Iterator<Item = (u64, &mut Open)> {
        self.conns.iter_mut().flat_map(move |(id, conn)| {
            let is_old = move |open: &&mut Open| open.ts_us < before_us && !open.has_ended();
            conn.open.iter_mut().filter(is_old).map(|open| (*id, open))
        })
    }

    /// Closes what must have ended before `before_us`, though nothing said so and nothing else
    /// has come from its connection.
    pub fn close_over(&mut self, before_us: i64, ready: &mut Vec<Ready>) {
        for (id, conn) in &mut self.conns {
            while let Some(open) =
                conn.open.pop_if(|open| open.has_ended() && open.inner_end_us < before_us)
            {
                let ending = Ending::Derived(open.inner_errno.unwrap_or(0));
                let end_ts_us = open.inner_end_us;
                ready.push(Ready::Statement { conn: *id, open, ending, end_ts_us });
            }
            let lone = conn.pending_error.take_if(|error| {
                error.ts_us < before_us
                    && (error.query_id == 0 || error.query_id != conn.last_query_id)
            });
            if let Some(error) = lone {
                ready.push(conn.lone_error(error));
            }
        }
    }

    /// Gives up waiting for what the errors belong to that came while nothing was open: chunks
    /// are short, and they hold some.
    pub fn release_errors(&mut self, ready: &mut Vec<Ready>) {
        for conn in self.conns.values_mut() {
            if let Some(error) = conn.pending_error.take() {
                ready.push(conn.lone_error(error));
            }
        }
    }

    /// Connections that nothing is known to be open on, and that `is_gone` says cannot go on
    /// counting their records: not every connection announces its end. `None` while there are
    /// few, because it looks at all.
    pub fn quiet(&self, is_gone: impl Fn(u64) -> bool) -> Option<Vec<u64>> {
        if self.conns.len() < self.prune_at.max(PRUNE_MIN) {
            return None;
        }
        let quiet = self.conns.iter().filter(|(id, conn)| conn.is_quiet() && is_gone(**id));
        Some(quiet.map(|(id, _)| *id).collect())
    }

    /// Forgets those of the connections that are quiet after another whole pass as well: their
    /// last records were seen by then.
    pub fn forget_quiet(&mut self, quiet: &[u64]) {
        for id in quiet {
            if self.conns.get(id).is_some_and(Conn::is_quiet) {
                self.conns.remove(id);
            }
        }
        self.prune_at = self.conns.len() * 2;
    }

    /// Records that are coming in piece by piece.
    pub fn partials(&mut self) -> impl Iterator<Item = (u64, &mut Partial)> {
        let none = self.partials == 0;
        self.conns
            .iter_mut()
            .take_while(move |_| !none)
            .filter_map(|(id, conn)| conn.partial.as_mut().map(|p| (*id, p)))
    }

    /// Incomplete records whose producers have given them up, as connection and `rec_no`. Asked
    /// before a pass: the pass then sees every fragment of them that there is.
    pub fn abandoned(&mut self, sessions: &[Session]) -> Vec<(u64, u64)> {
        self.partials()
            .map(|(conn, partial)| (conn, partial.head.rec_no))
            .filter(|(conn, rec_no)| {
                session::find(sessions, *conn).is_some_and(|slot| session::abandoned(slot, *rec_no))
            })
            .collect()
    }

    /// Records that their producers have given up, and counted, are not waited for any more.
    pub fn give_up(&mut self, abandoned: &[(u64, u64)], ready: &mut Vec<Ready>) {
        for (id, rec_no) in abandoned {
            let Some(conn) = self.conns.get_mut(id) else { continue };
            let Some(partial) = conn.partial.take_if(|p| p.head.rec_no == *rec_no) else {
                continue;
            };
            conn.expected = rec_no + 1;
            self.partials -= 1;
            ready.push(Ready::Nothing { at: partial.refs() });
            self.unstash(*id, ready);
        }
    }

    /// Everything that is still open, when nothing more will come.
    pub fn finish(&mut self, now_us: i64, ending: Ending, ready: &mut Vec<Ready>) {
        let mut conns: Vec<(u64, Conn)> = self.conns.drain().collect();
        conns.sort_by_key(|(id, _)| *id);
        for (id, mut conn) in conns {
            let mut stash = std::mem::take(&mut conn.stash);
            if !stash.is_empty() {
                stash.sort_by_key(|s| (s.head.rec_no, s.head.fragment_number));
                self.conns.insert(id, conn);
                for s in stash {
                    // The end of a connection removes it; what follows is kept all the same.
                    self.conns.entry(id).or_default();
                    self.take(s.head, s.at, ready);
                }
                conn = self.conns.remove(&id).unwrap_or_default();
            }
            for open in conn.open.drain(..) {
                let ending = ending.clone();
                ready.push(Ready::Statement { conn: id, open, ending, end_ts_us: now_us });
            }
            if let Some(partial) = conn.partial.take() {
                // The client had sent it, the server had not begun with it.
                let head = partial.head;
                if matches!(head.kind, RecordKind::Start | RecordKind::Point) {
                    let open = Open::new(&head, Start::Record(partial.into_place()), false);
                    let ending = ending.clone();
                    ready.push(Ready::Statement { conn: id, open, ending, end_ts_us: now_us });
                } else {
                    ready.push(Ready::Nothing { at: partial.refs() });
                }
            }
            if let Some(error) = conn.pending_error.take() {
                ready.push(conn.lone_error(error));
            }
        }
        self.stashed = 0;
        self.partials = 0;
    }

    /// Connections that something is kept for.
    pub fn connection_count(&self) -> usize {
        self.conns.len()
    }
}

impl Place {
    /// Its records that are in the arena.
    pub fn refs(&self) -> Vec<Ref> {
        match self {
            Place::Arena(first, more) => std::iter::once(first).chain(more).copied().collect(),
            Place::Memory(_, more) => more.clone(),
        }
    }
}

impl Partial {
    fn refs(&self) -> Vec<Ref> {
        self.first.iter().chain(&self.more).copied().collect()
    }

    fn into_place(self) -> Place {
        match (self.first, self.early) {
            (Some(first), _) => Place::Arena(first, self.more),
            (None, early) => Place::Memory(early.unwrap_or_default(), self.more),
        }
    }
}

impl Conn {
    /// Ends the statement at `found`, and everything that was nested in it.
    fn end(
        &mut self,
        id: u64,
        found: usize,
        head: &Head,
        place: Place,
        awaited: bool,
        ready: &mut Vec<Ready>,
    ) {
        let end_ts_us = head.ts_us;
        for open in self.open.drain(found + 1..).rev() {
            let ending = Ending::Derived(open.inner_errno.unwrap_or(head.errno));
            ready.push(Ready::Statement { conn: id, open, ending, end_ts_us });
        }
        let Some(mut open) = self.open.pop() else { return };
        // What a stored program executes has got a query id of its own by its end.
        if let Some(outer) = self.open.last_mut()
            && outer.query_id == open.query_id
            && head.query_id == open.query_id
        {
            outer.inner_errno = Some(head.errno);
            outer.inner_end_us = end_ts_us;
        }
        if awaited {
            // The producer of the end waits for the line; that of the start does not any more,
            // or waits for an earlier number.
            open.awaited = true;
            open.rec_no = head.rec_no;
        }
        let ending = Ending::Record(place);
        ready.push(Ready::Statement { conn: id, open, ending, end_ts_us });
    }

    /// Closes open statements from the innermost outwards, as long as `over` says so.
    fn close_while(
        &mut self,
        id: u64,
        head: &Head,
        ready: &mut Vec<Ready>,
        over: impl Fn(&Open) -> bool,
    ) {
        while let Some(open) = self.open.pop_if(|open| over(open)) {
            let ending = match open.inner_errno {
                Some(errno) => Ending::Derived(errno),
                // The error's number is with its message, in `extras`.
                None if open.failed => Ending::Derived(0),
                None if open.remainder && open.extras.is_empty() => {
                    Ending::Derived(ER_QUERY_INTERRUPTED)
                }
                None => Ending::Unknown,
            };
            ready.push(Ready::Statement { conn: id, open, ending, end_ts_us: head.ts_us });
        }
    }

    fn single(&mut self, place: Place, awaited: bool, head: &Head) -> Ready {
        let awaited = awaited.then_some((head.conn, head.rec_no));
        let error = self.pending_error.take().map(|error| error.place);
        Ready::Single { place, awaited, error, ts_us: head.ts_us }
    }

    fn is_quiet(&self) -> bool {
        self.open.is_empty()
            && self.stash.is_empty()
            && self.partial.is_none()
            && self.pending_error.is_none()
    }

    /// An error with which no other event came: it is a line of its own, unless it is a second
    /// message of the statement that has just ended.
    fn lone_error(&self, error: PendingError) -> Ready {
        if error.query_id != 0 && error.query_id == self.last_query_id {
            return Ready::Nothing { at: error.place.refs() };
        }
        Ready::Single { place: error.place, awaited: None, error: None, ts_us: error.ts_us }
    }

    /// Decides whether an error that waits belongs to this record; if not, it is done with.
    fn settle_error(&mut self, next: &Head, ready: &mut Vec<Ready>) {
        let Some(error) = &self.pending_error else { return };
        let belongs = match next.kind {
            // A failed login, or a client that was refused as another user.
            RecordKind::Connect | RecordKind::ChangeUser => true,
            // The session ends because of it: the server has no new statement at that time.
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

#[cfg(test)]
mod tests;
