//! Compares rules with the known facts about a statement.
//!
//! Three-valued: before a statement runs, its SQL command, its error and (with MariaDB) its tables
//! are unknown. A statement that cannot be decided then is recorded, and decided when it has ended.

use crate::program::{
    Action, Condition, FIELD_COMMAND, FIELD_DB, FIELD_ERRNO, FIELD_EVENT, FIELD_HOST,
    FIELD_SQL_COMMAND, FIELD_TABLE, FIELD_USER, Program, Rule, take_short,
};
use crate::tables::{Coverage, Tables};
use crate::{glob, network};

/// What a rule's `event` can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// A statement or another client command.
    Statement = 1,
    /// A table that was used outside any statement.
    Table = 2,
}

/// Known facts about a statement.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'f> {
    /// Its session; `None`: unknown. A statement inside a stored program has the names of the
    /// program's definer, not those of the session.
    pub session: Option<Session<'f>>,
    /// Its kind.
    pub event: Event,
    /// `None`: it has not ended.
    pub ended: Option<Ended<'f>>,
}

/// Known facts about a session.
#[derive(Clone, Copy, Debug)]
pub struct Session<'f> {
    /// User name the client gave.
    pub user: &'f [u8],
    /// Client host name.
    pub host: &'f [u8],
    /// Client address.
    pub ip: &'f [u8],
    /// Default database.
    pub db: &'f [u8],
    /// Client command ("Query", "Execute" …).
    pub command: &'f [u8],
}

/// Known facts about a statement that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'f> {
    /// The server's number of its SQL command; `None`: unknown, negative: none.
    pub sql_command: Option<i32>,
    /// Error number, 0 = none.
    pub errno: u32,
    /// The tables that it has used; `None`: none is known.
    pub tables: Option<Tables<'f>>,
}

/// The decision about a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Decided.
    Known(Action),
    /// It depends on facts that are unknown (yet). The statement is not skipped, and if a rule that
    /// may match removes text or literals, so does this.
    Open(Action),
}

impl Decision {
    /// The action if nothing more becomes known.
    pub fn action(self) -> Action {
        match self {
            Decision::Known(action) | Decision::Open(action) => action,
        }
    }
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Truth {
    Yes,
    No,
    Unknown,
}

impl From<bool> for Truth {
    fn from(is_true: bool) -> Truth {
        if is_true { Truth::Yes } else { Truth::No }
    }
}

impl Program<'_> {
    /// The action for a statement: that of the first rule that matches.
    pub fn decide(&self, facts: &Facts<'_>) -> Decision {
        let mut maybe: Option<Action> = None;
        let mut open = Action::default();
        // Whether all rules that may match have the same action.
        let mut agree = true;
        let mut found = self.default_action();
        for rule in self.rules() {
            match rule.holds(facts) {
                Truth::No => {}
                Truth::Yes => {
                    found = rule.action;
                    break;
                }
                Truth::Unknown => {
                    agree &= maybe.is_none_or(|other| other == rule.action);
                    maybe = Some(rule.action);
                    open.no_text |= rule.action.no_text;
                    open.literals |= rule.action.literals;
                }
            }
        }
        open.no_text |= found.no_text;
        open.literals |= found.literals;
        if agree && maybe.is_none_or(|other| other == found) {
            Decision::Known(found)
        } else {
            Decision::Open(open)
        }
    }

    /// The index of the rule that a decided action is due to, for people: the first rule that
    /// matches, or that may match and has the same action. `None`: the default.
    #[cfg(feature = "compile")]
    pub fn decider(&self, facts: &Facts<'_>) -> Option<usize> {
        self.rules().position(|rule| rule.holds(facts) != Truth::No)
    }
}

impl Rule<'_> {
    pub(crate) fn holds(&self, facts: &Facts<'_>) -> Truth {
        let mut all = Truth::Yes;
        for condition in self.conditions() {
            match condition.holds(facts, self.action) {
                Truth::No => return Truth::No,
                Truth::Unknown => all = Truth::Unknown,
                Truth::Yes => {}
            }
        }
        all
    }
}

impl Condition<'_> {
    /// `action`: that of its rule.
    pub(crate) fn holds(&self, facts: &Facts<'_>, action: Action) -> Truth {
        match (self.matches(facts, action), self.negated) {
            (Truth::Yes, true) => Truth::No,
            (Truth::No, true) => Truth::Yes,
            (matches, _) => matches,
        }
    }

    fn matches(&self, facts: &Facts<'_>, action: Action) -> Truth {
        let any = |is_it: &dyn Fn(&[u8]) -> bool| Truth::from(self.items().any(is_it));
        match (self.field, facts.session, facts.ended) {
            (FIELD_USER, Some(who), _) => any(&|item| glob::matches(item, who.user, false)),
            (FIELD_DB, Some(who), _) => any(&|item| glob::matches(item, who.db, false)),
            (FIELD_COMMAND, Some(who), _) => any(&|item| glob::matches(item, who.command, true)),
            (FIELD_HOST, Some(who), _) => {
                let address = network::address(who.ip);
                any(&|item| is_host(item, &who, address))
            }
            (FIELD_EVENT, _, _) => {
                let bit = facts.event as u8;
                any(&|item| item.first().is_some_and(|events| events & bit != 0))
            }
            (FIELD_SQL_COMMAND, _, Some(Ended { sql_command: Some(number), .. })) => {
                any(&|item| has_command(item, number))
            }
            (FIELD_ERRNO, _, Some(ended)) => any(&|item| has_number(item, ended.errno)),
            (FIELD_TABLE, _, Some(Ended { tables: Some(tables), .. })) => {
                self.matches_tables(&tables, action)
            }
            _ => Truth::Unknown,
        }
    }

    /// A rule that skips must match each table of the statement, other rules any of them. A table
    /// that was not reported may or may not match.
    fn matches_tables(&self, tables: &Tables<'_>, action: Action) -> Truth {
        let is_it = |table: &(&[u8], &[u8])| self.items().any(|item| is_table(item, table));
        let keeps_out = action.no_text || action.literals;
        let is_all = match tables.coverage {
            Coverage::Complete => true,
            Coverage::Doubtful => keeps_out && !action.skip,
            Coverage::Unknown => false,
        };
        let decided = if action.skip && !self.negated {
            let each = tables.reported.iter().all(is_it);
            (!each).then_some(false).or(is_all.then_some(!tables.reported.is_empty()))
        } else {
            let any = tables.reported.iter().any(is_it);
            any.then_some(true).or(is_all.then_some(false))
        };
        decided.map_or(Truth::Unknown, Truth::from)
    }
}

fn is_host(item: &[u8], who: &Session<'_>, address: Option<u128>) -> bool {
    match item {
        [0, pattern @ ..] => {
            glob::matches(pattern, who.host, true) || glob::matches(pattern, who.ip, true)
        }
        [1, bits, network @ ..] => match (address, network.first_chunk()) {
            (Some(address), Some(network)) => {
                network::same_prefix(address, u128::from_le_bytes(*network), *bits)
            }
            _ => false,
        },
        _ => false,
    }
}

fn has_command(item: &[u8], sql_command: i32) -> bool {
    match usize::try_from(sql_command) {
        Ok(number @ 0..256) => {
            item.get(number >> 3).is_some_and(|bits| bits & (1 << (number & 7)) != 0)
        }
        _ => item.get(32) == Some(&1),
    }
}

fn has_number(item: &[u8], number: u32) -> bool {
    let (Some(first), Some(last)) = (item.first_chunk(), item.last_chunk()) else { return false };
    (u32::from_le_bytes(*first)..=u32::from_le_bytes(*last)).contains(&number)
}

fn is_table(item: &[u8], table: &(&[u8], &[u8])) -> bool {
    let mut rest = item;
    let Some(db) = take_short(&mut rest) else { return false };
    glob::matches(db, table.0, false) && glob::matches(rest, table.1, false)
}
