//! The conditions of a rule.

use jsonc_parser::ast::Value;

use super::Error;
use super::parse::{Conditions, FilterText, Key};
use crate::class::Class;
use crate::decide::Event;
use crate::program::{
    FIELD_COMMAND, FIELD_DB, FIELD_ERRNO, FIELD_EVENT, FIELD_HOST, FIELD_PROGRAM,
    FIELD_SQL_COMMAND, FIELD_TABLE, FIELD_USER,
};
use crate::{glob, network};

/// The keys of conditions.
pub(super) const NAMES: &[&str] = &[
    "user",
    "host",
    "db",
    "table",
    "sql_command",
    "class",
    "event",
    "errno",
    "command",
    "program",
];

/// Longest pattern, bytes: names on the server are shorter.
const PATTERN_BYTES_MAX: usize = 1024;

impl FilterText<'_> {
    /// Adds the condition of a key. `false`: there is no such key.
    pub(super) fn condition(
        &self,
        out: &mut Conditions,
        key: &Key<'_, '_>,
        negated: bool,
    ) -> Result<bool, Error> {
        let (field, items) = match key.name {
            "user" => (FIELD_USER, self.each(key.value, &|value| self.pattern(value))?),
            "host" => (FIELD_HOST, self.each(key.value, &|value| self.host(value))?),
            "db" => (FIELD_DB, self.each(key.value, &|value| self.pattern(value))?),
            "table" => (FIELD_TABLE, self.tables(key.value)?),
            "command" => (FIELD_COMMAND, self.each(key.value, &|value| self.pattern(value))?),
            "program" => (FIELD_PROGRAM, self.programs(key.value)?),
            "errno" => (FIELD_ERRNO, self.each(key.value, &|value| self.numbers(value))?),
            "event" => (FIELD_EVENT, self.each(key.value, &|value| self.event(value))?),
            "sql_command" => {
                (FIELD_SQL_COMMAND, self.each(key.value, &|value| self.sql_command(value))?)
            }
            "class" => (FIELD_SQL_COMMAND, self.each(key.value, &|value| self.class(value))?),
            _ => return Ok(false),
        };
        out.add(field, negated, &items);
        Ok(true)
    }

    /// The items of a condition: a single one, or an array.
    fn each(
        &self,
        value: &Value<'_>,
        item: &dyn Fn(&Value<'_>) -> Result<Vec<u8>, Error>,
    ) -> Result<Vec<Vec<u8>>, Error> {
        match value {
            Value::Array(array) if array.elements.is_empty() => {
                Err(self.error_at(value, "an empty list matches nothing; leave the key out"))
            }
            Value::Array(array) => array.elements.iter().map(item).collect(),
            value => Ok(vec![item(value)?]),
        }
    }

    fn pattern_text<'v>(&self, value: &'v Value<'_>) -> Result<&'v str, Error> {
        let text = self.text_of(value)?;
        if text.len() > PATTERN_BYTES_MAX {
            return Err(self.error_at(value, "this pattern is longer than 1024 bytes"));
        }
        if text.replace("\\%", "").contains('%') {
            let message = "`%` is not a wildcard here: use `*` for any characters and `?` for one \
                           (or write `\\\\%` for the character itself)";
            return Err(self.error_at(value, message));
        }
        Ok(text)
    }

    fn pattern(&self, value: &Value<'_>) -> Result<Vec<u8>, Error> {
        Ok(self.pattern_text(value)?.as_bytes().to_vec())
    }

    fn host(&self, value: &Value<'_>) -> Result<Vec<u8>, Error> {
        let text = self.pattern_text(value)?;
        if let Some((address, bits)) = network::prefix(text) {
            let mut item = vec![1, bits];
            item.extend_from_slice(&address.to_le_bytes());
            return Ok(item);
        }
        if text.contains('/') {
            let message = format!("`{text}` is not a network like 10.0.0.0/8 or fe80::/10");
            return Err(self.error_at(value, message));
        }
        Ok([&[0], text.as_bytes()].concat())
    }

    fn tables(&self, value: &Value<'_>) -> Result<Vec<Vec<u8>>, Error> {
        if !self.server.tables {
            let message = format!(
                "tables are not recorded: a rule with `table` needs {}tables=ON when the recorder \
                 is loaded",
                self.server.setting_prefix
            );
            return Err(self.error_at(value, message));
        }
        self.each(value, &|value| {
            let text = self.pattern_text(value)?;
            let Some((db, table)) = text.split_once('.') else {
                let message = format!("`{text}` needs a database: `db.table`, or `*.{text}`");
                return Err(self.error_at(value, message));
            };
            let length = (db.len() as u16).to_le_bytes();
            Ok([&length, db.as_bytes(), table.as_bytes()].concat())
        })
    }

    fn programs(&self, value: &Value<'_>) -> Result<Vec<Vec<u8>>, Error> {
        if !self.server.program {
            let message = "this server does not report the program of a connection";
            return Err(self.error_at(value, message));
        }
        self.each(value, &|value| self.pattern(value))
    }

    /// A number, `"1000-1999"`, or `"any"` for every error.
    fn numbers(&self, value: &Value<'_>) -> Result<Vec<u8>, Error> {
        let wrong = || {
            let message = "expected an error number, a range like \"1000-1999\", or \"any\"";
            self.error_at(value, message)
        };
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse::<u32>().ok()).flatten().ok_or_else(wrong)
        };
        let (first, last) = match value {
            Value::NumberLit(literal) => (number(literal.value)?, number(literal.value)?),
            Value::StringLit(text) if text.value == "any" => (1, u32::MAX),
            Value::StringLit(text) => match text.value.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(&text.value)?, number(&text.value)?),
            },
            _ => return Err(wrong()),
        };
        if first > last {
            return Err(self.error_at(value, format!("{first} is greater than {last}")));
        }
        Ok([first.to_le_bytes(), last.to_le_bytes()].concat())
    }

    fn event(&self, value: &Value<'_>) -> Result<Vec<u8>, Error> {
        match self.text_of(value)? {
            "statement" => Ok(vec![Event::Statement as u8]),
            "table" => Ok(vec![Event::Table as u8]),
            "connect" | "connect_failed" | "disconnect" | "change_user" | "config" | "start"
            | "stop" | "lost" | "notice" => Err(self.error_at(
                value,
                "connections and the recorder's own events are always recorded: rules are for \
                 `statement` and `table`",
            )),
            other => {
                let message = format!("`{other}` is none of `statement`, `table`");
                Err(self.error_at(value, message))
            }
        }
    }

    fn sql_command(&self, value: &Value<'_>) -> Result<Vec<u8>, Error> {
        let pattern = self.pattern_text(value)?;
        let is_it = |name: &str| {
            !name.is_empty() && glob::matches(pattern.as_bytes(), name.as_bytes(), true)
        };
        let set = self.server.commands(is_it);
        if set == [0; 32] && !self.server.sql_commands.is_empty() {
            let message = format!(
                "this server has no SQL command `{pattern}`; its names are those that the log has \
                 in `sql_command`"
            );
            return Err(self.error_at(value, message));
        }
        Ok([&set[..], &[0]].concat())
    }

    fn class(&self, value: &Value<'_>) -> Result<Vec<u8>, Error> {
        let text = self.text_of(value)?;
        let Some(class) = Class::ALL.into_iter().find(|class| class.name() == text) else {
            let known = Class::ALL.map(Class::name).join("`, `");
            return Err(self.error_at(value, format!("`{text}` is none of `{known}`")));
        };
        let unknown_too = u8::from(class == Class::Other);
        Ok([&self.server.class(class)[..], &[unknown_too]].concat())
    }
}
