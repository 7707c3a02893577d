//! Rules that are to be put in force, and the errors of rules that will not be.

use std::collections::BTreeMap;

use tacho_rewrite::compile::{Compiler, RuleSource};

use super::file::{FILE_BYTES_MAX, NAME, Rule};

/// Most rules of a load.
pub(super) const RULES_MAX: usize = 100_000;
/// Most bytes of their texts together.
pub(super) const TEXT_BYTES_MAX: usize = 64 << 20;

// A character takes at most six bytes in JSON (`\u0000`); the rest of a rule is field names.
const _: () = assert!(TEXT_BYTES_MAX * 6 + RULES_MAX * 256 <= FILE_BYTES_MAX);

/// Most wrong rules of a list that the error log reports one by one.
pub(super) const WRONG_LOGGED_MAX: usize = 10;
/// Most wrong rules of a list whose faults are kept.
const WRONG_KEPT_MAX: usize = 100_000;

/// Rules that are to be put in force.
#[derive(Default)]
pub struct List {
    pub(super) compiler: Compiler,
    pub(super) rules: Vec<Rule>,
    /// Length of the texts of `rules`.
    bytes: usize,
    /// SHA-256 of the file that they come from. The file is then already correct, and perhaps not
    /// writable.
    pub(super) restored: Option<String>,
    /// There were more than the limit: none of them will be in force.
    pub(super) is_beyond: bool,
    /// Number of the load, if it has one: see [`Rewriting::next_turn`](super::Rewriting::next_turn).
    pub turn: Option<u64>,
    /// The first rules that are wrong, with their errors.
    wrong: Vec<(u64, String)>,
    wrong_count: usize,
}

impl List {
    /// The rules that were last in force, from the file with this hash. Wrong ones are left out.
    pub(super) fn restored(rules: Vec<Rule>, hash: String) -> List {
        let mut list = List { restored: Some(hash), ..List::default() };
        for Rule { id, pattern, pattern_database, replacement } in rules {
            let source = RuleSource {
                id,
                pattern: pattern.as_bytes(),
                database: pattern_database.as_ref().map(String::as_bytes),
                replacement: replacement.as_bytes(),
            };
            // The others are put in force; `left_out` reports this one.
            let _ = list.add(&source);
        }
        list
    }

    /// Checks that another rule of this many bytes fits; if not, empties the list.
    fn make_room(&mut self, bytes: usize) -> Result<(), String> {
        let bytes = self.bytes.saturating_add(bytes);
        if self.is_beyond || self.rules.len() >= RULES_MAX || bytes > TEXT_BYTES_MAX {
            *self = List { is_beyond: true, ..List::default() };
            return Err(too_many());
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// What is wrong with it; the list is then unchanged. If it exceeds the limit, the list can no
    /// longer be applied.
    pub fn add(&mut self, source: &RuleSource<'_>) -> Result<(), String> {
        self.try_add(source).inspect_err(|error| {
            self.wrong_count += 1;
            if self.wrong.len() < WRONG_KEPT_MAX {
                self.wrong.push((source.id, error.clone()));
            }
        })
    }

    /// The errors of the rules that are left out, by their ids: a JSON object.
    pub fn faults(&self) -> String {
        let faults: BTreeMap<u64, &str> =
            self.wrong.iter().map(|(id, error)| (*id, error.as_str())).collect();
        // Numbers and texts cannot fail to serialize.
        serde_json::to_string(&faults).unwrap_or_else(|_| "{}".to_owned())
    }

    /// The messages for the error log about the rules that are left out.
    pub fn left_out(&self) -> impl Iterator<Item = String> + use<> {
        let path = if self.restored.is_some() { NAME } else { "rewrite_rules" };
        let logged = self.wrong.iter().take(WRONG_LOGGED_MAX);
        let more = self.wrong_count - logged.len();
        let more = (more > 0).then(|| format!("{more} more rules"));
        let logged = logged.map(|(id, error)| format!("rule {id}: {error}"));
        let lines: Vec<_> = logged.chain(more).collect();
        lines.into_iter().map(move |line| format!("left out of {path}: {line}"))
    }

    fn try_add(&mut self, source: &RuleSource<'_>) -> Result<(), String> {
        // Nothing is copied before the compiler has checked the lengths: a text from a statement
        // may have a gigabyte, and the server would end if there was no memory for it.
        let text = |part: &str, bytes| {
            std::str::from_utf8(bytes).map_err(|_| format!("{part}: this is not UTF-8"))
        };
        let pattern = text("pattern", source.pattern)?;
        let database = match source.database {
            Some(database) => Some(text("pattern_database", database)?),
            None => None,
        };
        let replacement = text("replacement", source.replacement)?;
        self.compiler.add(source).map_err(|error| error.to_string())?;
        self.make_room(pattern.len() + replacement.len() + database.map_or(0, str::len))?;
        self.rules.push(Rule {
            id: source.id,
            pattern: pattern.to_owned(),
            pattern_database: database.map(str::to_owned),
            replacement: replacement.to_owned(),
        });
        Ok(())
    }
}

pub(super) fn too_many() -> String {
    let megabytes = TEXT_BYTES_MAX >> 20;
    format!("there are more than {RULES_MAX} rules, or more than {megabytes} MiB of them")
}
