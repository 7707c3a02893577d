//! From records to lines: which end belongs to which start.
//!
//! Pure logic over heads and places; nothing here reads the arena or writes a file. This file has
//! what concerns all connections. `order` puts the records of one connection into the order in
//! which they happened, because a connection may move between threads, and so between chunks;
//! `loose` does so for records whose numbers do not give the order. `conn` has the statements of a
//! connection, `conns` all connections, `partial` records in several pieces, and `waiting` records
//! that wait for others.
//!
//! This code infers what the server does not report (all verified on MariaDB 10.11.19):
//! * SQL `EXECUTE` announces the inner statement; the end that is reported is the inner one's. The
//!   outer one has an end only sometimes.
//! * Several statements in one packet start as one text and end one by one. If a statement is
//!   killed, the rest of its packet never runs.
//! * An error may be reported alone: `COM_STMT_EXECUTE` of an unknown statement has no other event.

mod conn;
mod conns;
mod loose;
mod order;
mod partial;
mod waiting;

use tacho_ring::codec::RecordKind;
use tacho_ring::layout::{FRAGMENT_FIRST, Session};
use tacho_ring::session;

use crate::drain::{Head, Ref};
use conn::Conn;
use conns::Conns;
use waiting::{Counts, Stashed};

pub use conn::{CarryOver, Ending, Open, Ready, Start, StatementEnd};
pub use partial::{EarlyRecord, NoText, Partial, RecordPlace};

/// Joins records to lines, see the module documentation.
#[derive(Default)]
pub struct Join {
    conns: Conns,
    pass: u64,
    counts: Counts,
    /// Records that never arrived, found by gaps in the numbers of connections.
    missing: u64,
    /// Number of connections at which the search for ended ones begins.
    prune_at: usize,
}

/// With fewer connections, a search for ended ones is not worth its cost.
const PRUNE_MIN: usize = 1024;

/// A gap is given up after this many passes: a record that precedes another was committed before
/// it, so the next whole pass must have found it.
const GAP_PASSES: u64 = 3;

impl Join {
    /// A new pass over the arena begins.
    pub fn begin_pass(&mut self) {
        self.pass += 1;
    }

    /// A pass has ended: gives up gaps that will never be filled.
    pub fn end_pass(&mut self, ready: &mut Vec<Ready>) {
        self.settle_loose(ready);
        if self.counts.stashed == 0 {
            return;
        }
        let pass = self.pass;
        let is_late = |conn: &Conn| conn.stash.iter().any(|s| s.pass + GAP_PASSES <= pass);
        let mut missing = 0_u64;
        self.settle(is_late, |conn, counts| {
            missing = missing.saturating_add(conn.give_up_gap(counts, ready));
        });
        self.missing = self.missing.saturating_add(missing);
    }

    /// Settles a part of the connections where that is due, and forgets those that are then gone.
    fn settle(
        &mut self,
        is_due: impl Fn(&Conn) -> bool,
        mut settle: impl FnMut(&mut Conn, &mut Counts),
    ) {
        let due: Vec<u64> =
            self.conns.iter().filter(|(_, conn)| is_due(conn)).map(|(id, _)| id).collect();
        for id in due {
            let Some(conn) = self.conns.get_mut(id) else { continue };
            settle(conn, &mut self.counts);
            if conn.is_gone {
                self.conns.remove(id);
            }
        }
    }

    /// Records that never arrived, since the last call.
    pub fn take_missing(&mut self) -> u64 {
        std::mem::take(&mut self.missing)
    }

    /// A statement with a `running` line was still open when recording stopped.
    pub fn restore(&mut self, conn: u64, open: Open) {
        self.conns.entry(conn).open.push(open);
    }

    /// A connection continues after record `rec_no`: all records up to it were added, or written by
    /// another writer, whose last statement had this query id (0: not known).
    pub fn resume_after(
        &mut self,
        conn: u64,
        rec_no: u64,
        last_query_id: u64,
        ready: &mut Vec<Ready>,
    ) {
        let conn = self.conns.entry(conn);
        // The producer has recorded later records: it gave this one up, and counted it.
        if let Some(partial) = conn.partial.take() {
            self.counts.partials -= 1;
            ready.push(Ready::Nothing { at: partial.refs() });
        }
        if conn.last_query_id == 0 {
            conn.last_query_id = last_query_id;
        }
        conn.expect_after(rec_no);
    }

    /// The beginning of a record is gone and counted as lost: ignores the rest of it.
    pub fn is_broken(&mut self, conn: u64, rec_no: u64) {
        self.conns.entry(conn).broken = rec_no;
    }

    /// Adds a record, in any order.
    pub fn add(&mut self, head: &Head, at: Ref, ready: &mut Vec<Ready>) {
        let conn = self.conns.entry(head.conn);
        if conn.broken != 0 && head.rec_no == conn.broken && head.fragment > FRAGMENT_FIRST {
            return ready.push(Ready::Nothing { at: vec![at] });
        }
        if !conn.loose.is_empty() || conn.is_loose(head) {
            conn.loose.push(Stashed { head: *head, at, pass: self.pass });
            self.counts.loose += 1;
            return;
        }
        if !conn.is_next(head) {
            conn.stash.push(Stashed { head: *head, at, pass: self.pass });
            self.counts.stashed += 1;
            return;
        }
        conn.take(head, at, &mut self.counts, ready);
        if self.counts.stashed > 0 {
            conn.unstash(&mut self.counts, ready);
        }
        if conn.is_gone {
            self.conns.remove(head.conn);
        }
    }

    /// Adds a record, sorted by number, ignoring gaps: for records that a crash left.
    pub fn add_sorted(&mut self, head: &Head, at: Ref, ready: &mut Vec<Ready>) {
        let conn = self.conns.entry(head.conn);
        conn.take(head, at, &mut self.counts, ready);
        if conn.is_gone {
            self.conns.remove(head.conn);
        }
    }

    /// Statements that started before `before_us` and are still open, with their connection.
    pub fn open_since(&mut self, before_us: i64) -> impl Iterator<Item = (u64, &mut Open)> {
        self.conns.iter_mut().flat_map(move |(id, conn)| {
            let is_old = move |open: &&mut Open| open.ts_us < before_us && !open.has_ended();
            conn.open.iter_mut().filter(is_old).map(move |open| (id, open))
        })
    }

    /// Closes statements that must have ended before `before_us` although no record says so and
    /// their connection has no later record.
    pub fn close_over(&mut self, before_us: i64, ready: &mut Vec<Ready>) {
        for (id, conn) in self.conns.iter_mut() {
            while let Some(open) =
                conn.open.pop_if(|open| open.has_ended() && open.inner_end_us < before_us)
            {
                let ending = Ending::Derived(open.inner_errno.unwrap_or(0));
                let end_ts_us = open.inner_end_us;
                ready.push(Ready::Statement { conn: id, open, ending, end_ts_us });
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

    /// Stops waiting for the statements of errors that arrived while nothing was open: chunks are
    /// short, and these errors occupy some.
    pub fn release_errors(&mut self, ready: &mut Vec<Ready>) {
        for (_, conn) in self.conns.iter_mut() {
            if let Some(error) = conn.pending_error.take() {
                ready.push(conn.lone_error(error));
            }
        }
    }

    /// Connections that have nothing open, and that cannot continue to number their records
    /// according to `is_gone`: not every connection announces its end. `None` while there are few
    /// connections, because this visits all of them.
    pub fn quiet(&self, is_gone: impl Fn(u64) -> bool) -> Option<Vec<u64>> {
        if self.conns.len() < self.prune_at.max(PRUNE_MIN) {
            return None;
        }
        let quiet = self.conns.iter().filter(|(id, conn)| conn.is_quiet() && is_gone(*id));
        Some(quiet.map(|(id, _)| id).collect())
    }

    /// Forgets those of the connections that are still quiet after another whole pass: by then it
    /// has found their last records.
    pub fn forget_quiet(&mut self, quiet: &[u64]) {
        for id in quiet {
            if self.conns.get(*id).is_some_and(Conn::is_quiet) {
                self.conns.remove(*id);
            }
        }
        self.prune_at = self.conns.len() * 2;
    }

    /// Records that are arriving in pieces.
    pub fn partials(&mut self) -> impl Iterator<Item = (u64, &mut Partial)> {
        let none = self.counts.partials == 0;
        self.conns
            .iter_mut()
            .take_while(move |_| !none)
            .filter_map(|(id, conn)| conn.partial.as_mut().map(|p| (id, p)))
    }

    /// Incomplete records that their producers have given up, as connection and `rec_no`. Called
    /// before a pass, so that the pass finds every existing fragment of them.
    pub fn abandoned(&mut self, sessions: &[Session]) -> Vec<(u64, u64)> {
        self.partials()
            .map(|(conn, partial)| (conn, partial.head.rec_no))
            .filter(|(conn, rec_no)| {
                session::find(sessions, *conn).is_some_and(|slot| session::abandoned(slot, *rec_no))
            })
            .collect()
    }

    /// Stops waiting for records that their producers have given up and counted.
    pub fn give_up(&mut self, abandoned: &[(u64, u64)], ready: &mut Vec<Ready>) {
        for (id, rec_no) in abandoned {
            let Some(conn) = self.conns.get_mut(*id) else { continue };
            let Some(partial) = conn.partial.take_if(|p| p.head.rec_no == *rec_no) else {
                continue;
            };
            conn.expect_after(*rec_no);
            self.counts.partials -= 1;
            ready.push(Ready::Nothing { at: partial.refs() });
            conn.unstash(&mut self.counts, ready);
            if conn.is_gone {
                self.conns.remove(*id);
            }
        }
    }

    /// Everything that is still open, when no more records will arrive.
    pub fn finish(&mut self, now_us: i64, ending: Ending, ready: &mut Vec<Ready>) {
        let mut conns = self.conns.take();
        conns.sort_by_key(|(id, _)| *id);
        for (id, mut conn) in conns {
            let mut stash = std::mem::take(&mut conn.stash);
            stash.sort_by_key(|s| (s.head.rec_no, s.head.fragment_number));
            conn.sort_loose();
            stash.append(&mut conn.loose);
            if !stash.is_empty() {
                for s in stash {
                    conn.take(&s.head, s.at, &mut self.counts, ready);
                    if conn.is_gone {
                        // Later records are kept nevertheless.
                        conn = Conn::default();
                    }
                }
            }
            for open in conn.open.drain(..) {
                let ending = ending.clone();
                ready.push(Ready::Statement { conn: id, open, ending, end_ts_us: now_us });
            }
            if let Some(partial) = conn.partial.take() {
                // The client had sent it, but the server had not begun to execute it.
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
        self.counts = Counts::default();
    }

    /// Number of connections that have state.
    pub fn connection_count(&self) -> usize {
        self.conns.len()
    }
}

#[cfg(test)]
mod tests;
