//! Rules that block, on the query threads.
//!
//! A thread keeps which SQL commands a rule may block for its session, until the filter or the
//! session's identity changes: a statement with another command costs a few comparisons. For the
//! rest, the rules are asked each time, as the answer may depend on the database, the client
//! command and tables.

use tacho_filter::{Begun, CommandSet, Program, Session};
use tacho_ring::arena::slice;
use tacho_ring::codec::Bytes;
use tacho_ring::sync::Ordering;

use crate::filter::{Facts, Filter};

/// What a thread has cached. All zero: nothing. See `tacho_blocking`.
#[repr(C)]
#[derive(Default)]
pub struct Blocking {
    /// [`Filter::epoch`] at the time.
    pub epoch: u64,
    /// Its connection; 0 = none.
    pub conn: u64,
    commands: CommandSet,
    reserved: [u8; 7],
}

/// Facts about a statement before it runs. See `tacho_block_facts`.
#[repr(C)]
pub struct BlockFacts {
    /// The connected user and host, also inside a stored program.
    pub session: Facts,
    /// Database of a table that the statement is about to access.
    pub table_db: Bytes,
    /// That table; empty: its tables are not open yet.
    pub table: Bytes,
    /// The server's number of its SQL command; negative: none.
    pub sql_command: i32,
    /// 0.
    pub reserved: u32,
}

/// Size of the name of a rule, with its NUL.
pub const NAME_ROOM: usize = 132;
/// Size of the message of a rule, with its NUL.
pub const MESSAGE_ROOM: usize = 484;

/// The answer to a blocked statement. See `tacho_blocked`.
#[repr(C)]
pub struct Blocked {
    /// Error number.
    pub errno: u32,
    /// Bytes of the name.
    pub name_bytes: u32,
    /// Name of the rule.
    pub name: [u8; NAME_ROOM],
    /// Message for the client, NUL-terminated.
    pub message: [u8; MESSAGE_ROOM],
}

/// Copies a text and appends a NUL. Returns its length.
fn copy(text: &[u8], room: &mut [u8]) -> u32 {
    let Some((last, rest)) = room.split_last_mut() else { return 0 };
    *last = 0;
    let mut bytes = 0u32;
    for (to, byte) in rest.iter_mut().zip(text) {
        *to = *byte;
        bytes = bytes.wrapping_add(1);
    }
    if let Some(behind) = rest.get_mut(bytes as usize) {
        *behind = 0;
    }
    bytes
}

impl Blocking {
    /// Whether the rules must be asked about a statement.
    #[inline]
    pub fn may_block(&self, epoch: u64, conn: u64, sql_command: i32) -> bool {
        self.epoch != epoch || self.conn != conn || self.commands.has(sql_command)
    }
}

impl Filter {
    /// Asks the rules about a statement, and caches for which other commands they must be asked.
    ///
    /// # Safety
    /// The bytes of `facts` are valid.
    pub unsafe fn block(
        &self,
        kept: &mut Blocking,
        conn: u64,
        facts: &BlockFacts,
        out: &mut Blocked,
    ) -> bool {
        let Facts { user, host, ip, db, command } = &facts.session;
        // SAFETY: as promised by the caller.
        let [user, host, ip, db, command, table_db, table] = unsafe {
            [user, host, ip, db, command, &facts.table_db, &facts.table].map(|it| slice(it))
        };
        let session = Session { user, host, ip, db, command };
        let table = (!table.is_empty()).then_some((table_db, table));
        let begun = Begun { session, sql_command: facts.sql_command, table };
        // As in `decide`: if the filter changes meanwhile, the cached answer is recognised as
        // outdated.
        // SYNC epoch: Acquire pairs with the Release in `tacho_embed`: the filter is not older.
        let epoch = self.epoch.load(Ordering::Acquire);
        let is_known = kept.epoch == epoch && kept.conn == conn;
        self.compiled.read(|compiled| {
            let program = match compiled {
                // SAFETY: valid for as long as it can be read.
                Some(compiled) => Program::new(unsafe { slice(&compiled.bytes) }),
                None => Program::new(&[]),
            };
            if !is_known {
                let commands = program.may_block(&session);
                *kept = Blocking { epoch, conn, commands, ..Blocking::default() };
            }
            let Some(block) = program.blocks(&begun) else { return false };
            out.errno = block.errno;
            out.name_bytes = copy(block.name, &mut out.name);
            copy(block.message, &mut out.message);
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_do_not_fit_are_cut() {
        let mut room = [7; 4];
        assert_eq!((copy(b"ab", &mut room), &room[..3]), (2, &b"ab\0"[..]));
        assert_eq!((copy(b"abcdef", &mut room), &room[..]), (3, &b"abc\0"[..]));
        assert_eq!((copy(b"", &mut room), room[0]), (0, 0));
    }

    /// Nothing cached: the rules are asked about everything.
    #[test]
    fn a_thread_without_a_cached_answer_asks() {
        let kept = Blocking::default();
        assert!(kept.may_block(1, 7, 0));
        let of_session = Blocking { epoch: 1, conn: 7, ..Blocking::default() };
        assert!(!of_session.may_block(1, 7, 0));
        assert!(of_session.may_block(2, 7, 0) && of_session.may_block(1, 8, 0));
    }
}
