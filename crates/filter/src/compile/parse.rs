//! The document, its rules and their keys.

use std::collections::BTreeSet;

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};

use super::block::Words;
use super::error::{Cursor, Errors};
use super::{Checked, Error, RULES_MAX, RuleSource, Server, TEXT_BYTES_MAX};
use crate::program::{
    Action, FIELD_COMMAND, FIELD_DB, FIELD_ERRNO, FIELD_SQL_COMMAND, FIELD_TABLE, Overflow,
    USES_BLOCK, USES_COMMAND, USES_DB, USES_END, USES_ERRNO, USES_TABLE,
};

/// A document that is nested deeper is rejected before it is parsed: the parser is recursive, on a
/// thread of the server.
const DEPTH_MAX: usize = 16;

const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A filter being compiled.
pub(super) struct FilterText<'s> {
    pub(super) text: &'s str,
    pub(super) server: &'s Server,
}

/// The conditions of a rule, as bytes.
#[derive(Default)]
pub(super) struct Conditions {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u8,
    pub(super) uses: u8,
}

impl Conditions {
    /// Adds a condition; `negated`: it holds if no item matches.
    pub(super) fn add(&mut self, field: u8, negated: bool, items: &[Vec<u8>]) {
        let mut condition = vec![field, u8::from(negated)];
        for item in items {
            // Patterns are checked to be shorter, and all other items have a few bytes.
            condition.extend_from_slice(&(item.len() as u16).to_le_bytes());
            condition.extend_from_slice(item);
        }
        self.bytes.extend_from_slice(&(condition.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&condition);
        self.count = self.count.saturating_add(1);
        self.uses |= match field {
            FIELD_DB => USES_DB,
            FIELD_COMMAND => USES_COMMAND,
            FIELD_TABLE => USES_END | USES_TABLE,
            FIELD_ERRNO => USES_END | USES_ERRNO,
            FIELD_SQL_COMMAND => USES_END,
            _ => 0,
        };
    }
}

/// The facts that the rules before one use.
#[derive(Clone, Copy, Default)]
pub(super) struct Before {
    /// `USES_*` bits of all of them.
    pub(super) all: u8,
    /// Of the rules that do not block.
    pub(super) others: u8,
    /// Number of rules.
    pub(super) count: usize,
}

/// A compiled rule.
struct Rule {
    /// `USES_*` bits.
    uses: u8,
    bytes: Vec<u8>,
    name: Option<String>,
}

/// The compiled rules of a filter.
#[derive(Default)]
struct Rules {
    before: Before,
    bytes: Vec<u8>,
    sources: Vec<RuleSource>,
}

impl Rules {
    fn add(&mut self, rule: Rule, (line, column): (usize, usize)) {
        self.before.all |= rule.uses;
        if rule.uses & USES_BLOCK == 0 {
            self.before.others |= rule.uses;
        }
        self.bytes.extend_from_slice(&(rule.bytes.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&rule.bytes);
        self.sources.push(RuleSource { line, column, name: rule.name });
    }
}

/// One key of an object.
pub(super) struct Key<'v, 't> {
    pub(super) name: &'v str,
    pub(super) value: &'v Value<'t>,
    at: usize,
}

impl<'s> FilterText<'s> {
    pub(super) fn error(&self, at: usize, message: impl Into<String>) -> Error {
        Error::at(self.text, at, message)
    }

    pub(super) fn error_at(&self, value: &Value<'_>, message: impl Into<String>) -> Error {
        self.error(value.range().start, message)
    }

    fn unknown(&self, key: &Key<'_, '_>, known: &[&str]) -> Error {
        let known = known.join("`, `");
        self.error(key.at, format!("unknown key `{}`; there are `{known}`", key.name))
    }

    /// The keys of an object, each of which may occur once.
    pub(super) fn keys<'v, 't>(&self, object: &'v Object<'t>) -> Result<Vec<Key<'v, 't>>, Error> {
        let mut seen = BTreeSet::new();
        object
            .properties
            .iter()
            .map(|ObjectProp { range, name, value }| {
                let name = name.as_str();
                if !seen.insert(name) {
                    return Err(self.error(range.start, format!("key `{name}` occurs twice")));
                }
                Ok(Key { name, value, at: range.start })
            })
            .collect()
    }

    pub(super) fn text_of<'v>(&self, value: &'v Value<'_>) -> Result<&'v str, Error> {
        match value {
            Value::StringLit(text) => Ok(&text.value),
            _ => Err(self.error_at(value, "expected a string")),
        }
    }

    /// Errors in different rules are independent of each other; of a rule only the first is found.
    pub(super) fn filter(&self, errors: &mut Errors) -> Checked {
        self.document(errors).unwrap_or_else(|error| {
            errors.add(error);
            Checked::default()
        })
    }

    fn document(&self, errors: &mut Errors) -> Result<Checked, Error> {
        if self.text.len() > TEXT_BYTES_MAX {
            let message = format!("the filter has {} bytes, more than 1 MiB", self.text.len());
            return Err(self.error(0, message));
        }
        self.check_depth()?;
        let collect = CollectOptions { comments: CommentCollectionStrategy::Off, tokens: false };
        let document = parse_to_ast(self.text, &collect, &OPTIONS)
            .map_err(|error| self.error(error.range().start, error.kind().to_string()))?;
        let Some(document) = document.value else {
            return Err(self.error(0, "expected an object with `rules`"));
        };
        let Value::Object(document) = &document else {
            return Err(self.error_at(&document, "expected an object with `rules`"));
        };
        let mut default = Action::default();
        let mut default_at = None;
        let mut rules = None;
        for key in self.keys(document)? {
            match key.name {
                "default" => {
                    default = self.action(key.value)?;
                    default_at = Some(key.value);
                }
                "rules" => rules = Some(key.value),
                _ => return Err(self.unknown(&key, &["default", "rules"])),
            }
        }
        let Rules { mut before, bytes: rules, sources } = match rules {
            Some(Value::Array(rules)) => self.rules(&rules.elements, errors)?,
            Some(other) => return Err(self.error_at(other, "expected an array of rules")),
            None => Rules::default(),
        };
        if let (true, Some(value)) = (default.block, default_at) {
            self.check_block(value, 0, before)?;
            before.all |= USES_BLOCK;
        }
        let mut program = (sources.len() as u16).to_le_bytes().to_vec();
        program.extend_from_slice(&[default.to_byte(), before.all]);
        program.extend_from_slice(&rules);
        Ok(Checked { program, rules: sources })
    }

    /// Checks brackets outside strings and comments.
    fn check_depth(&self) -> Result<(), Error> {
        let mut depth = 0usize;
        let mut rest = self.text;
        while let Some(byte) = rest.bytes().next() {
            let skipped = match byte {
                b'"' => string_bytes(rest),
                b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
                b'/' if rest.starts_with("/*") => {
                    rest.find("*/").map_or(rest.len(), |end| end.saturating_add(2))
                }
                b'[' | b'{' => {
                    depth = depth.saturating_add(1);
                    1
                }
                b']' | b'}' => {
                    depth = depth.saturating_sub(1);
                    1
                }
                _ => rest.chars().next().map_or(1, char::len_utf8),
            };
            if depth > DEPTH_MAX {
                let at = self.text.len().saturating_sub(rest.len());
                return Err(self.error(at, "too many nested brackets"));
            }
            rest = rest.get(skipped..).unwrap_or("");
        }
        Ok(())
    }

    fn rules(&self, elements: &[Value<'_>], errors: &mut Errors) -> Result<Rules, Error> {
        if let Some(first_too_many) = elements.get(RULES_MAX) {
            let message = format!("more than {RULES_MAX} rules");
            return Err(self.error_at(first_too_many, message));
        }
        let mut rules = Rules::default();
        let mut cursor = Cursor::new(self.text);
        for element in elements {
            let rule = match element {
                Value::Object(object) => self.rule(object, rules.before),
                _ => Err(self.error_at(element, "expected a rule: an object")),
            };
            // A wrong rule has its number, too.
            rules.before.count = rules.before.count.saturating_add(1);
            match rule {
                Ok(rule) => rules.add(rule, cursor.place(element.range().start)),
                Err(error) => {
                    if !errors.add(error) {
                        break;
                    }
                }
            }
        }
        Ok(rules)
    }

    /// `before`: the facts that the rules before this one use.
    fn rule(&self, object: &Object<'_>, before: Before) -> Result<Rule, Error> {
        const OWN_KEYS: [&str; 7] =
            ["name", "action", "overflow", "redact", "error", "message", "not"];
        let mut action = None;
        let mut words = Words::default();
        let mut literals = false;
        let mut overflow = None;
        let mut conditions = Conditions::default();
        for key in self.keys(object)? {
            match key.name {
                // For readers, and for messages.
                "name" => words.name = Some((self.text_of(key.value)?, key.value)),
                "error" => words.errno = Some((self.block_errno(key.value)?, key.value)),
                "message" => words.message = Some((self.text_of(key.value)?, key.value)),
                "action" => action = Some((self.action(key.value)?, key.value)),
                "overflow" => overflow = Some((self.overflow(key.value)?, key.value)),
                "redact" => literals = self.redact(key.value)?,
                "not" => {
                    let Value::Object(object) = key.value else {
                        return Err(self.error_at(key.value, "expected an object of conditions"));
                    };
                    for key in self.keys(object)? {
                        if !self.condition(&mut conditions, &key, true)? {
                            return Err(self.unknown(&key, super::fields::NAMES));
                        }
                    }
                }
                _ => {
                    if !self.condition(&mut conditions, &key, false)? {
                        let known = [super::fields::NAMES, &OWN_KEYS].concat();
                        return Err(self.unknown(&key, &known));
                    }
                }
            }
        }
        let at = object.range.start;
        let (action, action_value) = action.ok_or_else(|| {
            self.error(at, "a rule needs an `action`: `record`, `skip`, `no_text` or `block`")
        })?;
        if let Some((_, value)) = overflow {
            if action.skip {
                return Err(self.error_at(value, "a rule that skips has no `overflow`"));
            }
            if (conditions.uses | before.all) & USES_END != 0 {
                let message = "`overflow` is needed before the statement runs: neither this rule \
                               nor one before it may have `sql_command`, `class`, `table` or \
                               `errno`";
                return Err(self.error_at(value, message));
            }
        }
        if literals && action.skip {
            return Err(self.error(at, "a rule that skips has no `redact`"));
        }
        let action = Action { literals, overflow: overflow.map(|(it, _)| it), ..action };
        let mut bytes = vec![action.to_byte(), conditions.count];
        let mut uses = conditions.uses;
        if action.block {
            self.check_block(action_value, uses, before)?;
            bytes.append(&mut self.block(&words, before.count)?);
            uses |= USES_BLOCK;
        } else if let Some(value) = words.of_a_block() {
            let message = "only a rule that blocks (`action`: `block`) has an `error` or `message`";
            return Err(self.error_at(value, message));
        }
        bytes.append(&mut conditions.bytes);
        Ok(Rule { uses, bytes, name: words.name.map(|(name, _)| name.to_owned()) })
    }

    fn action(&self, value: &Value<'_>) -> Result<Action, Error> {
        let recorded = Action::default();
        match self.text_of(value)? {
            "record" => Ok(recorded),
            "skip" => Ok(Action { skip: true, ..recorded }),
            "no_text" => Ok(Action { no_text: true, ..recorded }),
            "block" if self.server.blocks => Ok(Action { block: true, ..recorded }),
            "block" => {
                let message = "this server cannot block statements (MySQL can): \
                               there is no `block`";
                Err(self.error_at(value, message))
            }
            other => {
                let message = format!("`{other}` is none of `record`, `skip`, `no_text`, `block`");
                Err(self.error_at(value, message))
            }
        }
    }

    fn overflow(&self, value: &Value<'_>) -> Result<Overflow, Error> {
        match self.text_of(value)? {
            "BLOCK" => Ok(Overflow::Block),
            "TIMEOUT" => Ok(Overflow::Timeout),
            "DROP" => Ok(Overflow::Drop),
            other => {
                let message = format!("`{other}` is none of `BLOCK`, `TIMEOUT`, `DROP`");
                Err(self.error_at(value, message))
            }
        }
    }

    fn redact(&self, value: &Value<'_>) -> Result<bool, Error> {
        match self.text_of(value)? {
            "SECRETS" => Ok(false),
            "LITERALS" => Ok(true),
            other => {
                let message = format!("`{other}` is none of `SECRETS`, `LITERALS`");
                Err(self.error_at(value, message))
            }
        }
    }
}

/// Length of the string literal at the beginning of `text`, bytes; all of it if it does not end.
fn string_bytes(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at.saturating_add(1),
            _ => {}
        }
    }
    text.len()
}
