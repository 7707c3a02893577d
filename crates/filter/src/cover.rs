//! Which rules can never be the first that matches, because an earlier rule matches every statement
//! that they match.
//!
//! Only what is certain counts: a rule is covered by a *single* earlier one, each of whose
//! conditions follows from a condition of the later rule about the same field. Both conditions are
//! then known at the same time, so this also holds while facts are missing. Several earlier rules
//! that cover a later one together are not found.

use crate::decide::Event;
use crate::glob;
use crate::network;
use crate::program::{
    Action, COMMAND_SET_BYTES, Condition, FIELD_COMMAND, FIELD_DB, FIELD_ERRNO, FIELD_EVENT,
    FIELD_HOST, FIELD_SQL_COMMAND, FIELD_TABLE, FIELD_USER, Program, Rule, take_short,
};

/// Most pairs of items that are compared, about a second. A filter of usual length needs thousands.
const STEPS_MAX: u64 = 10_000_000;

/// A rule that can never be the first that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// Its index.
    pub rule: usize,
    /// The index of an earlier rule that matches whatever it matches.
    pub by: usize,
}

/// The result of the search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The rules that are covered, in their order.
    pub covered: Vec<Covered>,
    /// The index of the first rule that was not compared with all earlier ones, because the filter
    /// is too long.
    pub incomplete_from: Option<usize>,
}

impl Program<'_> {
    /// Finds rules that can never be the first that matches.
    pub fn covered(&self) -> Coverage {
        self.covered_within(STEPS_MAX)
    }

    fn covered_within(&self, steps_max: u64) -> Coverage {
        let rules: Vec<Rule<'_>> = self.rules().collect();
        let mut found = Coverage::default();
        let mut steps = Steps { taken: 0, max: steps_max };
        for (index, later) in rules.iter().enumerate() {
            for (by, earlier) in rules.iter().enumerate().take(index) {
                let is_covered = covers(earlier, later, &mut steps);
                if steps.are_used_up() {
                    found.incomplete_from = Some(index);
                    return found;
                }
                if is_covered {
                    found.covered.push(Covered { rule: index, by });
                    break;
                }
            }
        }
        found
    }
}

/// How much was compared.
struct Steps {
    taken: u64,
    max: u64,
}

impl Steps {
    fn take(&mut self) {
        self.taken = self.taken.saturating_add(1);
    }

    fn are_used_up(&self) -> bool {
        self.taken > self.max
    }
}

/// Whether `earlier` matches every statement that `later` matches.
fn covers(earlier: &Rule<'_>, later: &Rule<'_>, steps: &mut Steps) -> bool {
    steps.take();
    earlier.conditions().all(|needed| {
        later.conditions().any(|given| {
            given.field == needed.field
                && Pair { needed, given, actions: (earlier.action, later.action) }.follows(steps)
        })
    })
}

/// A condition of an earlier rule, and one of a later rule about the same field.
struct Pair<'p> {
    needed: Condition<'p>,
    given: Condition<'p>,
    actions: (Action, Action),
}

impl Pair<'_> {
    /// Whether the condition of the earlier rule holds whenever that of the later one does.
    fn follows(&self, steps: &mut Steps) -> bool {
        let Pair { needed, given, actions: (earlier, later) } = self;
        match needed.field {
            FIELD_SQL_COMMAND => {
                let (needed, given) = (commands(needed), commands(given));
                given.iter().zip(needed).all(|(given, needed)| given & !needed == 0)
            }
            FIELD_EVENT => events(given) & !events(needed) == 0,
            FIELD_TABLE => {
                // The action of a rule decides how its tables are compared.
                let is_alike = match (needed.negated, given.negated) {
                    (false, false) => later.skip || !earlier.skip,
                    (true, true) => keeps_out(*earlier) == keeps_out(*later),
                    _ => false,
                };
                is_alike && self.items_follow(steps)
            }
            FIELD_USER | FIELD_DB | FIELD_COMMAND | FIELD_HOST | FIELD_ERRNO => {
                needed.negated == given.negated && self.items_follow(steps)
            }
            _ => false,
        }
    }

    /// Both are negated, or none is: whether the items of one side are within those of the other.
    fn items_follow(&self, steps: &mut Steps) -> bool {
        let Pair { needed, given, .. } = self;
        // `not a` follows from `not a, b`.
        let (wide, narrow) = if needed.negated { (given, needed) } else { (needed, given) };
        let field = needed.field;
        narrow.items().all(|narrow| {
            wide.items().any(|wide| {
                steps.take();
                !steps.are_used_up() && is_within(field, wide, narrow)
            })
        })
    }
}

/// Whether the tables that were reported count as all, in case of doubt.
fn keeps_out(action: Action) -> bool {
    (action.no_text || action.literals) && !action.skip
}

/// The SQL commands for which a condition holds.
fn commands(condition: &Condition<'_>) -> [u8; COMMAND_SET_BYTES] {
    let mut set = [0; COMMAND_SET_BYTES];
    for item in condition.items() {
        set.iter_mut().zip(item).for_each(|(set, bits)| *set |= bits);
    }
    if condition.negated {
        set.iter_mut().for_each(|bits| *bits = !*bits);
        // The last byte has one flag.
        if let Some(last) = set.last_mut() {
            *last &= 1;
        }
    }
    set
}

/// The kinds of events for which a condition holds.
fn events(condition: &Condition<'_>) -> u8 {
    const ALL: u8 = Event::Statement as u8 | Event::Table as u8;
    let events = condition.items().filter_map(|item| item.first()).fold(0, |set, bit| set | bit);
    if condition.negated { ALL & !events } else { events }
}

/// Whether the item `wide` matches whatever `narrow` matches.
fn is_within(field: u8, wide: &[u8], narrow: &[u8]) -> bool {
    match field {
        FIELD_COMMAND => is_pattern_within(wide, narrow, true),
        FIELD_HOST => match (wide, narrow) {
            ([0, wide @ ..], [0, narrow @ ..]) => is_pattern_within(wide, narrow, true),
            ([1, bits, wide @ ..], [1, narrow_bits, narrow @ ..]) => {
                match (wide.first_chunk(), narrow.first_chunk()) {
                    (Some(wide), Some(narrow)) => {
                        let (wide, narrow) =
                            (u128::from_le_bytes(*wide), u128::from_le_bytes(*narrow));
                        bits <= narrow_bits && network::same_prefix(wide, narrow, *bits)
                    }
                    _ => false,
                }
            }
            _ => false,
        },
        FIELD_TABLE => {
            let (mut wide, mut narrow) = (wide, narrow);
            match (take_short(&mut wide), take_short(&mut narrow)) {
                (Some(wide_db), Some(narrow_db)) => {
                    is_pattern_within(wide_db, narrow_db, false)
                        && is_pattern_within(wide, narrow, false)
                }
                _ => false,
            }
        }
        FIELD_ERRNO => match (range(wide), range(narrow)) {
            (Some(wide), Some(narrow)) => wide.0 <= narrow.0 && narrow.1 <= wide.1,
            _ => false,
        },
        _ => is_pattern_within(wide, narrow, false),
    }
}

fn range(item: &[u8]) -> Option<(u32, u32)> {
    let (first, last) = (item.first_chunk()?, item.last_chunk()?);
    Some((u32::from_le_bytes(*first), u32::from_le_bytes(*last)))
}

/// A part of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Byte(u8),
}

fn parts(pattern: &[u8]) -> Vec<Part> {
    let mut bytes = pattern.iter();
    let mut parts = Vec::new();
    while let Some(byte) = bytes.next() {
        parts.push(match byte {
            b'*' => Part::Any,
            b'?' => Part::One,
            // At the end it is itself, as in `glob`.
            b'\\' => Part::Byte(*bytes.next().unwrap_or(byte)),
            byte => Part::Byte(*byte),
        });
    }
    parts
}

/// Whether `wide` matches every text that `narrow` matches.
///
/// A pattern without wildcards is a text, so matching decides. Otherwise `*` stands for any parts
/// of the other pattern and each other part for the same one. (`?` does not stand for a character
/// of the other pattern: it also takes bytes of a text that are no characters.)
fn is_pattern_within(wide: &[u8], narrow: &[u8], fold: bool) -> bool {
    let narrow = parts(narrow);
    let text: Option<Vec<u8>> = narrow
        .iter()
        .map(|part| if let Part::Byte(byte) = part { Some(*byte) } else { None })
        .collect();
    if let Some(text) = text {
        return glob::matches(wide, &text, fold);
    }
    let same = |one: &Part, other: &Part| match (one, other) {
        (Part::Byte(one), Part::Byte(other)) => {
            one == other || (fold && one.eq_ignore_ascii_case(other))
        }
        _ => one == other,
    };
    let wide = parts(wide);
    // As in `glob`: the last `*` stands for as little as possible.
    let (mut wide, mut narrow) = (&wide[..], &narrow[..]);
    let mut retry: Option<(&[Part], &[Part])> = None;
    loop {
        match (wide, narrow) {
            ([Part::Any, rest @ ..], _) => {
                retry = Some((rest, narrow));
                wide = rest;
                continue;
            }
            ([], []) => return true,
            ([first, rest @ ..], [part, behind @ ..]) if same(first, part) => {
                (wide, narrow) = (rest, behind);
                continue;
            }
            _ => {}
        }
        match retry {
            Some((behind_star, [_, longer @ ..])) => {
                retry = Some((behind_star, longer));
                (wide, narrow) = (behind_star, longer);
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests;
