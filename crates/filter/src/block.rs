//! Which statements are not executed.
//!
//! It is asked when a statement is about to run: the server knows its SQL command by then, and when
//! it has opened the tables, those too, one at a time. The compiler makes sure that no rule before
//! one that blocks asks for what is known later. Whatever a rule that blocks matches is recorded.
//!
//! Most statements of a session can be told apart by their SQL command alone. Which of them no rule
//! blocks is found once for a session ([`Program::may_block`]).

use crate::decide::{Ended, Event, Facts, Session, Truth};
use crate::program::{
    Block, COMMAND_SET_BYTES, Condition, FIELD_COMMAND, FIELD_DB, FIELD_ERRNO, FIELD_HOST,
    FIELD_PROGRAM, FIELD_SQL_COMMAND, FIELD_TABLE, FIELD_USER, Program, Rule,
};
use crate::tables::{Coverage, Tables};

/// A set of SQL commands, by the server's number; those without a number are in it or not.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandSet([u8; COMMAND_SET_BYTES]);

impl Default for CommandSet {
    /// None.
    fn default() -> CommandSet {
        CommandSet([0; COMMAND_SET_BYTES])
    }
}

impl CommandSet {
    /// Those of a compiler's set.
    #[cfg(feature = "compile")]
    pub(crate) fn of(numbers: [u8; 32]) -> CommandSet {
        let mut set = CommandSet::default();
        set.merge(&numbers, |_, number| number);
        set
    }

    const ALL: CommandSet = CommandSet([0xff; COMMAND_SET_BYTES]);

    /// Whether a command is in it; negative: one without a number.
    #[inline]
    pub fn has(&self, sql_command: i32) -> bool {
        match usize::try_from(sql_command) {
            Ok(number @ 0..256) => {
                self.0.get(number >> 3).is_some_and(|bits| bits & (1 << (number & 7)) != 0)
            }
            _ => self.0.last().is_some_and(|bits| bits & 1 != 0),
        }
    }

    /// Puts what `combine` makes of each byte of both in its place.
    fn merge(&mut self, other: &[u8], combine: impl Fn(u8, u8) -> u8) {
        for (to, from) in self.0.iter_mut().zip(other) {
            *to = combine(*to, *from);
        }
    }
}

/// What is known of a statement that is about to run.
#[derive(Clone, Copy, Debug)]
pub struct Begun<'f> {
    /// Whose it is. Of a statement inside of a stored program: who has called that.
    pub session: Session<'f>,
    /// The server's number of its SQL command; negative: it has none.
    pub sql_command: i32,
    /// Database and name of a table that it is about to touch; `None`: none was opened yet.
    pub table: Option<(&'f [u8], &'f [u8])>,
}

impl<'p> Program<'p> {
    /// What blocks a statement; `None`: nothing, or nothing yet.
    pub fn blocks(&self, begun: &Begun<'_>) -> Option<Block<'p>> {
        // Each table is asked about by itself.
        let tables = begun.table.as_ref().map(core::slice::from_ref);
        let tables = tables.map(|reported| Tables { reported, coverage: Coverage::Complete });
        let ended = Ended { sql_command: Some(begun.sql_command), errno: 0, tables };
        let facts =
            Facts { session: Some(begun.session), event: Event::Statement, ended: Some(ended) };
        for rule in self.rules() {
            // Unknown: it blocks, and asks for a table. That comes.
            if rule.holds(&facts) == Truth::Yes {
                return rule.block;
            }
        }
        self.default_treatment().block.then_some(Block::DEFAULT)
    }

    /// The SQL commands of which a rule may block some statements of a session, whatever its
    /// database and its client command are.
    pub fn may_block(&self, session: &Session<'_>) -> CommandSet {
        let facts = Facts { session: Some(*session), event: Event::Statement, ended: None };
        let mut blocked = CommandSet::default();
        // What a rule has matched for certain, no rule behind it is asked about.
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
        if self.default_treatment().block {
            blocked.merge(&decided.0, |blocked, decided| blocked | !decided);
        }
        blocked
    }

    /// Whether statements of one of these SQL commands may be left out whoever sends them, and by
    /// which rule: its number from 1, or 0 for the default. Rules about a user, a host or a table
    /// do not count: they are about some accounts, or cannot leave such statements out.
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
            if rule.treatment.skip && !is_about_some && is_left(&decided, &possible) {
                return Some(index.saturating_add(1));
            }
            // The tables of such a statement are never all known: a rule that records by them
            // leaves open whether it matches, and so nothing behind it skips.
            let records =
                !(rule.treatment.skip || rule.treatment.no_text || rule.treatment.literals);
            let is_by_table =
                rule.conditions().all(|it| matches!(it.field, FIELD_SQL_COMMAND | FIELD_TABLE));
            if is_certain || records && is_by_table {
                decided.merge(&possible.0, |decided, matched| decided | matched);
            }
        }
        let skips = self.default_treatment().skip;
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
                _ => match condition.holds(facts, self.treatment) {
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
    /// Of one about SQL commands: takes out those that it does not hold for.
    fn narrow(&self, set: &mut CommandSet) {
        let mut any = CommandSet::default();
        for item in self.items() {
            any.merge(item, |any, item| any | item);
        }
        let negated = self.negated;
        set.merge(&any.0, |set, any| set & if negated { !any } else { any });
    }
}
