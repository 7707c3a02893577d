//! Rules against what is known of a statement.
//!
//! Three-valued: before a statement runs, nobody knows its SQL command, its error or (with
//! MariaDB) its tables. What then cannot be decided is recorded, and decided when it has ended.

use crate::program::{
    Condition, FIELD_COMMAND, FIELD_DB, FIELD_ERRNO, FIELD_EVENT, FIELD_HOST, FIELD_SQL_COMMAND,
    FIELD_TABLE, FIELD_USER, Program, Rule, Treatment, take_short,
};
use crate::tables::{Coverage, Tables};
use crate::{glob, network};

/// What a rule's `event` can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// A statement or another client command.
    Statement = 1,
    /// A table that was touched outside of any statement.
    Table = 2,
}

/// What is known of a statement.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'f> {
    /// Whose it is; `None`: not known. A statement inside of a stored program has the names of the
    /// program's definer, not those of the session.
    pub session: Option<Session<'f>>,
    /// What it is.
    pub event: Event,
    /// `None`: it has not ended.
    pub ended: Option<Ended<'f>>,
}

/// What is known of a session.
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

/// What is known of a statement that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'f> {
    /// The server's number of its SQL command; `None`: not known, negative: it has none.
    pub sql_command: Option<i32>,
    /// Error number, 0 = none.
    pub errno: u32,
    /// The tables that it has touched; `None`: none is known.
    pub tables: Option<Tables<'f>>,
}

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This.
    Known(Treatment),
    /// It depends on what is not known (yet). It is not skipped, and where a rule that may match
    /// keeps text or literals out, so does this.
    Open(Treatment),
}

impl Decision {
    /// What to do if nothing more becomes known.
    pub fn treatment(self) -> Treatment {
        match self {
            Decision::Known(treatment) | Decision::Open(treatment) => treatment,
        }
    }
}

/// Whether a condition holds.
#[derive(Clone, Copy, PartialEq)]
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
    /// What is to be done with a statement: what the first rule says that matches.
    pub fn decide(&self, facts: &Facts<'_>) -> Decision {
        let mut maybe: Option<Treatment> = None;
        let mut open = Treatment::default();
        // Whether all that may match would do the same.
        let mut agree = true;
        let mut found = self.default_treatment();
        for rule in self.rules() {
            match rule.holds(facts) {
                Truth::No => {}
                Truth::Yes => {
                    found = rule.treatment;
                    break;
                }
                Truth::Unknown => {
                    agree &= maybe.is_none_or(|other| other == rule.treatment);
                    maybe = Some(rule.treatment);
                    open.no_text |= rule.treatment.no_text;
                    open.literals |= rule.treatment.literals;
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
}

impl Rule<'_> {
    pub(crate) fn holds(&self, facts: &Facts<'_>) -> Truth {
        let mut all = Truth::Yes;
        for condition in self.conditions() {
            match condition.holds(facts, self.treatment) {
                Truth::No => return Truth::No,
                Truth::Unknown => all = Truth::Unknown,
                Truth::Yes => {}
            }
        }
        all
    }
}

impl Condition<'_> {
    /// `treatment`: that of its rule.
    pub(crate) fn holds(&self, facts: &Facts<'_>, treatment: Treatment) -> Truth {
        match (self.matches(facts, treatment), self.negated) {
            (Truth::Yes, true) => Truth::No,
            (Truth::No, true) => Truth::Yes,
            (matches, _) => matches,
        }
    }

    fn matches(&self, facts: &Facts<'_>, treatment: Treatment) -> Truth {
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
                self.matches_tables(&tables, treatment)
            }
            _ => Truth::Unknown,
        }
    }

    /// A rule that skips has to match each table of the statement, others any of them. A table that
    /// was not reported may match, or may not.
    fn matches_tables(&self, tables: &Tables<'_>, treatment: Treatment) -> Truth {
        let is_it = |table: &(&[u8], &[u8])| self.items().any(|item| is_table(item, table));
        let keeps_out = treatment.no_text || treatment.literals;
        let is_all = match tables.coverage {
            Coverage::Complete => true,
            Coverage::Doubtful => keeps_out && !treatment.skip,
            Coverage::Unknown => false,
        };
        let decided = if treatment.skip && !self.negated {
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
