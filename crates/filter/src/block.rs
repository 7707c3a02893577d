//! Which statements are not executed.
//!
//! The server asks when a statement is about to run: by then it knows the SQL command, and when it
//! has opened the tables, those too, one at a time. The compiler makes sure that no rule before one
//! that blocks needs facts that become known later. Statements that match a rule that blocks are
//! recorded.
//!
//! For most statements of a session the SQL command alone decides. The commands that no rule blocks
//! are computed once for a session ([`Program::may_block`]).

use crate::decide::{Ended, Event, Facts, Session, Truth};
use crate::program::{
    Block, COMMAND_SET_BYTES, Condition, FIELD_COMMAND, FIELD_DB, FIELD_ERRNO, FIELD_HOST,
    FIELD_PROGRAM, FIELD_SQL_COMMAND, FIELD_TABLE, FIELD_USER, Program, Rule,
};
use crate::tables::{Coverage, Tables};

/// A set of SQL commands, by the server's number, with a flag for those without a number.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandSet([u8; COMMAND_SET_BYTES]);

impl Default for CommandSet {
    /// The empty set.
    fn default() -> CommandSet {
        CommandSet([0; COMMAND_SET_BYTES])
    }
}

impl CommandSet {
    /// From a set of the compiler.
    #[cfg(feature = "compile")]
    pub(crate) fn of(numbers: [u8; 32]) -> CommandSet {
        let mut set = CommandSet::default();
        set.merge(&numbers, |_, number| number);
        set
    }

    const ALL: CommandSet = CommandSet([0xff; COMMAND_SET_BYTES]);

    /// Whether it contains a command; negative: one without a number.
    #[inline]
    pub fn has(&self, sql_command: i32) -> bool {
        match usize::try_from(sql_command) {
            Ok(number @ 0..256) => {
                self.0.get(number >> 3).is_some_and(|bits| bits & (1 << (number & 7)) != 0)
            }
            _ => self.0.last().is_some_and(|bits| bits & 1 != 0),
        }
    }

    /// Replaces each byte with the result of `combine` for the bytes of both sets.
    fn merge(&mut self, other: &[u8], combine: impl Fn(u8, u8) -> u8) {
        for (to, from) in self.0.iter_mut().zip(other) {
            *to = combine(*to, *from);
        }
    }
}

/// Facts about a statement that is about to run.
#[derive(Clone, Copy, Debug)]
pub struct Begun<'f> {
    /// Its session. Inside a stored program: the session that has called it.
    pub session: Session<'f>,
    /// The server's number of its SQL command; negative: none.
    pub sql_command: i32,
    /// Database and name of a table that it is about to access; `None`: none is open yet.
    pub table: Option<(&'f [u8], &'f [u8])>,
}

impl<'p> Program<'p> {
    /// The rule that blocks a statement; `None`: none, or none yet.
    pub fn blocks(&self, begun: &Begun<'_>) -> Option<Block<'p>> {
        // Each table has its own request.
        let tables = begun.table.as_ref().map(core::slice::from_ref);
        let tables = tables.map(|reported| Tables { reported, coverage: Coverage::Complete });
        let ended = Ended { sql_command: Some(begun.sql_command), errno: 0, tables };
        let facts =
            Facts { session: Some(begun.session), event: Event::Statement, ended: Some(ended) };
        for rule in self.rules() {
            // Unknown: the rule blocks, and needs a table. That request follows.
            if rule.holds(&facts) == Truth::Yes {
                return rule.block;
            }
        }
        self.default_action().block.then_some(Block::DEFAULT)
    }

    /// The SQL commands for which a rule may block some statements of a session, whatever its
    /// database and client command.
    pub fn may_block(&self, session: &Session<'_>) -> CommandSet {
        let facts = Facts { session: Some(*session), event: Event::Statement, ended: None };
        let mut blocked = CommandSet::default();
        // Commands that a rule has certainly matched: later rules do not apply to them.
        let mut decided = CommandSet::default();
        for rule in self.rules() {
            let (possible, is_certain) = rule.commands(&facts);
            if rule.block.is_some() {
                let mut new = possible;
                new.merge(&decided.0, |possible, decided| possible & !decided);
                blocked.merge(&new.0, |blocked, new| blocked | new);
            }
            if is_certain {
                decided.merge(&possible.0, |decided, matched| decided | matched);
            }
        }
        if self.default_action().block {
            blocked.merge(&decided.0, |blocked, decided| blocked | !decided);
        }
        blocked
    }

    /// Whether statements with one of these SQL commands may be left out for every account, and by
    /// which rule: its number from 1, or 0 for the default. Rules about a user, a host or a table
    /// do not count: they concern some accounts, or cannot leave such statements out.
    pub fn may_leave_out(&self, commands: &CommandSet) -> Option<usize> {
        let facts = Facts { session: None, event: Event::Statement, ended: None };
        let mut decided = CommandSet::default();
        let is_left = |decided: &CommandSet, possible: &CommandSet| {
            (0..256).any(|n| commands.has(n) && possible.has(n) && !decided.has(n))
        };
        for (index, rule) in self.rules().enumerate() {
            let (possible, is_certain) = rule.commands(&facts);
            let is_about_some = rule
                .conditions()
                .any(|it| matches!(it.field, FIELD_USER | FIELD_HOST | FIELD_TABLE));
            if rule.action.skip && !is_about_some && is_left(&decided, &possible) {
                return Some(index.saturating_add(1));
            }
            // The tables of such a statement are never all known: a rule that records by table may
            // or may not match, so no later rule skips.
            let records = !(rule.action.skip || rule.action.no_text || rule.action.literals);
            let is_by_table =
                rule.conditions().all(|it| matches!(it.field, FIELD_SQL_COMMAND | FIELD_TABLE));
            if is_certain || records && is_by_table {
                decided.merge(&possible.0, |decided, matched| decided | matched);
            }
        }
        let skips = self.default_action().skip;
        (skips && is_left(&decided, &CommandSet::ALL)).then_some(0)
    }
}

impl Rule<'_> {
    /// The SQL commands that it may match, and whether it matches them for certain.
    fn commands(&self, facts: &Facts<'_>) -> (CommandSet, bool) {
        let mut set = CommandSet::ALL;
        let mut is_certain = true;
        for condition in self.conditions() {
            match condition.field {
                FIELD_SQL_COMMAND => condition.narrow(&mut set),
                // They change from one statement to the next.
                FIELD_DB | FIELD_COMMAND | FIELD_TABLE | FIELD_ERRNO | FIELD_PROGRAM => {
                    is_certain = false;
                }
                _ => match condition.holds(facts, self.action) {
                    Truth::Yes => {}
                    Truth::No => return (CommandSet::default(), true),
                    Truth::Unknown => is_certain = false,
                },
            }
        }
        (set, is_certain)
    }
}

impl Condition<'_> {
    /// For a condition on SQL commands: removes those for which it is false.
    fn narrow(&self, set: &mut CommandSet) {
        let mut any = CommandSet::default();
        for item in self.items() {
            any.merge(item, |any, item| any | item);
        }
        let negated = self.negated;
        set.merge(&any.0, |set, any| set & if negated { !any } else { any });
    }
}
