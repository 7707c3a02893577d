//! The filter on the query threads.
//!
//! A thread keeps the decision for a session until the filter, the session's identity or (if the
//! rules use them) its database or command changes. So a statement that the filter excludes costs a
//! few comparisons.

use tacho_filter::program::{USES_COMMAND, USES_DB};
use tacho_filter::{self as rules, Action, Decision, Event, Program};
use tacho_ring::arena::slice;
use tacho_ring::codec::Bytes;
use tacho_ring::swap::Swap;
use tacho_ring::sync::{AtomicU32, AtomicU64, Ordering};

/// A compiled filter in its own memory.
#[repr(C)]
pub struct Compiled {
    /// See `tacho_filter::program`.
    pub bytes: Bytes,
}

// SAFETY: the bytes are not changed for as long as a thread may read them: see `Swap::replace`.
unsafe impl Sync for Compiled {}

/// The filter, shared by all threads.
#[derive(Default)]
pub struct Filter {
    /// 0: no filter. Changes with every filter, and when any session's identity changes: cached
    /// decisions are then made anew.
    pub epoch: AtomicU64,
    /// Asked when a thread has no cached decision.
    pub compiled: Swap<Compiled>,
    /// Statements that were not recorded, as far as threads have reported them.
    pub filtered: AtomicU64,
    /// Not 0: some rule blocks.
    pub has_block: AtomicU32,
    /// Statements that were not executed.
    pub blocked: AtomicU64,
}

/// Longest database and command together for which a decision is cached, bytes; for longer ones it
/// is made for each statement.
const KEY_BYTES: usize = 44;

/// What a thread has cached. All zero: nothing.
#[repr(C)]
pub struct Kept {
    /// [`Filter::epoch`] at the time.
    pub epoch: u64,
    /// Its connection; 0 = none.
    pub conn: u64,
    /// Statements that were not recorded and that the thread has not reported yet.
    pub filtered: u32,
    /// See `Action::to_byte`.
    pub action: u8,
    db_bytes: u8,
    command_bytes: u8,
    /// `USES_*` bits: what the decision depends on.
    uses: u8,
    /// Database, then command, as far as the decision depends on them.
    pub key: [u8; KEY_BYTES],
    reserved_too: u32,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept {
            epoch: 0,
            conn: 0,
            filtered: 0,
            action: 0,
            db_bytes: 0,
            command_bytes: 0,
            uses: 0,
            key: [0; KEY_BYTES],
            reserved_too: 0,
        }
    }
}

/// The answer of the filter for a statement that starts. See `tacho_wanted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Wanted {
    /// Recording is off.
    Off = 0,
    /// The filter excludes it.
    Skip = 1,
    /// It is recorded.
    Record = 2,
    /// There is a filter: look up its decision with `tacho_probe_look`.
    Look = 3,
    /// It has no decision yet: ask `tacho_probe_decide`.
    Ask = 4,
}

/// A thread reports the statements it skipped when they are this many.
const TELL_AFTER: u32 = 64;

/// See `tacho_facts`.
#[repr(C)]
pub struct Facts {
    /// User name the client gave.
    pub user: Bytes,
    /// Client host name.
    pub host: Bytes,
    /// Client address.
    pub ip: Bytes,
    /// Default database.
    pub db: Bytes,
    /// Client command.
    pub command: Bytes,
}

impl Kept {
    /// The decision for the session, if it depends on nothing else.
    #[inline]
    pub fn of_session(&self, epoch: u64, conn: u64) -> Option<Action> {
        let same = self.epoch == epoch && self.conn == conn;
        (same && self.uses & (USES_DB | USES_COMMAND) == 0)
            .then_some(Action::from_byte(self.action))
    }

    /// The cached decision for statements like this one, if there is one.
    ///
    /// # Safety
    /// `db` and `command` are valid.
    #[inline]
    pub unsafe fn find(
        &self,
        epoch: u64,
        conn: u64,
        db: &Bytes,
        command: &Bytes,
    ) -> Option<Action> {
        if self.epoch != epoch || self.conn != conn {
            return None;
        }
        let (kept_db, rest) = self.key.split_at_checked(usize::from(self.db_bytes))?;
        let kept_command = rest.get(..usize::from(self.command_bytes))?;
        // SAFETY: as promised by the caller.
        let (db, command) = unsafe { (slice(db), slice(command)) };
        let same = (self.uses & USES_DB == 0 || kept_db == db)
            && (self.uses & USES_COMMAND == 0 || kept_command == command);
        same.then_some(Action::from_byte(self.action))
    }

    fn keep(&mut self, epoch: u64, conn: u64, session: &rules::Session<'_>, decided: (Action, u8)) {
        let (action, uses) = decided;
        let db = if uses & USES_DB != 0 { session.db } else { &[] };
        let command = if uses & USES_COMMAND != 0 { session.command } else { &[] };
        let fits = db.len().wrapping_add(command.len()) <= KEY_BYTES;
        *self = Kept {
            epoch: if fits { epoch } else { 0 },
            conn,
            action: action.to_byte(),
            db_bytes: db.len() as u8,
            command_bytes: command.len() as u8,
            uses,
            filtered: self.filtered,
            ..Kept::default()
        };
        for (to, byte) in self.key.iter_mut().zip(db.iter().chain(command)) {
            *to = *byte;
        }
    }

    /// Counts one more statement that is not recorded.
    #[inline]
    pub fn count(&mut self, filter: &Filter) {
        self.filtered = self.filtered.wrapping_add(1);
        if self.filtered >= TELL_AFTER {
            self.tell(filter);
        }
    }

    /// Reports to the other threads how many statements were not recorded.
    pub fn tell(&mut self, filter: &Filter) {
        if self.filtered == 0 {
            return;
        }
        filter.filtered.fetch_add(u64::from(self.filtered), Ordering::Relaxed);
        self.filtered = 0;
    }
}

impl Filter {
    /// Decides, and caches the decision.
    ///
    /// # Safety
    /// The bytes of `facts` are valid.
    pub unsafe fn decide(&self, kept: &mut Kept, conn: u64, facts: &Facts) -> Action {
        // SAFETY: as promised by the caller.
        let [user, host, ip, db, command] = unsafe {
            [&facts.user, &facts.host, &facts.ip, &facts.db, &facts.command].map(|it| slice(it))
        };
        let session = rules::Session { user, host, ip, db, command };
        let facts = rules::Facts { session: Some(session), event: Event::Statement, ended: None };
        // Before reading the filter: if it changes meanwhile, so does the epoch, and the decision
        // cached here is recognised as outdated.
        // SYNC epoch: Acquire pairs with the Release in `tacho_embed`: the filter is not older.
        let epoch = self.epoch.load(Ordering::Acquire);
        let decided = self.compiled.read(|compiled| {
            let program = match compiled {
                // SAFETY: valid for as long as it can be read.
                Some(compiled) => Program::new(unsafe { slice(&compiled.bytes) }),
                None => Program::new(&[]),
            };
            let action = match program.decide(&facts) {
                Decision::Known(action) => action,
                Decision::Open(_) => Action::default(),
            };
            (action, program.uses())
        });
        kept.keep(epoch, conn, &session, decided);
        decided.0
    }
}
