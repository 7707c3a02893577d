//! From JSON to a [`Program`](crate::Program), with the position of errors.
//!
//! ```
//! use tacho_filter::compile::{Server, compile};
//!
//! let text = r#"{"rules": [{"user": "monitor", "host": "10.0.0.0/8", "action": "skip"}]}"#;
//! assert!(compile(text, &Server::default()).is_ok());
//! let wrong = compile(r#"{"rules": [{"usr": "monitor", "action": "skip"}]}"#, &Server::default());
//! assert!(wrong.unwrap_err().to_string().starts_with("line 1, column 13: unknown key `usr`"));
//! ```

mod block;
mod error;
mod fields;
mod parse;

pub use error::Error;
use error::Errors;
use parse::FilterText;

use crate::block::CommandSet;
use crate::class::Class;
use crate::program::Program;

/// Longest filter that is accepted, bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Largest number of rules.
pub const RULES_MAX: usize = 10_000;

/// What the server supports in a filter.
#[derive(Clone, Debug)]
pub struct Server {
    /// Names of its SQL commands, by number; empty where there is none.
    pub sql_commands: Vec<String>,
    /// Prefix of the names of settings, for error messages.
    pub setting_prefix: &'static str,
    /// Whether it reports which tables a statement has used.
    pub tables: bool,
    /// Whether it reports the program name of a connection.
    pub program: bool,
    /// Whether it can block statements.
    pub blocks: bool,
}

impl Default for Server {
    /// An unknown server: SQL commands are not checked.
    fn default() -> Server {
        Server {
            sql_commands: Vec::new(),
            setting_prefix: "tacho_",
            tables: true,
            program: true,
            blocks: true,
        }
    }
}

impl Server {
    /// The numbers of the commands whose name fulfils `is_it`.
    fn commands(&self, is_it: impl Fn(&str) -> bool) -> [u8; 32] {
        let mut set = [0; 32];
        for number in 0..=255u8 {
            // A number without a name belongs to no statement: parse errors, commands that are not
            // SQL.
            let name = self.sql_commands.get(usize::from(number)).map_or("", String::as_str);
            if let Some(bits) = set.get_mut(usize::from(number / 8))
                && is_it(name)
            {
                *bits |= 1 << (number % 8);
            }
        }
        set
    }

    /// A warning if the filter leaves out statements that an audit should have: names the rule.
    pub fn warning(&self, program: &Program<'_>) -> Option<String> {
        let vital = CommandSet::of(self.commands(Class::is_vital));
        let rule = match program.may_leave_out(&vital)? {
            0 => "the default".to_owned(),
            number => format!("rule {number}"),
        };
        Some(format!(
            "the filter can leave out statements about accounts, privileges, settings or plugins \
             ({rule} skips them); put a rule before it that records the classes `dcl`, `admin` and \
             `session`"
        ))
    }

    fn class(&self, class: Class) -> [u8; 32] {
        self.commands(|name| Class::of(name) == class)
    }
}

/// A filter without errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The compiled filter; no bytes: it records everything.
    pub program: Vec<u8>,
    /// Where each rule is in the text.
    pub rules: Vec<RuleSource>,
}

/// A rule in the text of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSource {
    /// The line where it begins, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// Its `name`.
    pub name: Option<String>,
}

/// Compiles a filter. Text that is only white space is a filter that records everything: no bytes.
///
/// # Errors
/// The first error: no part of a wrong filter takes effect.
pub fn compile(text: &str, server: &Server) -> Result<Vec<u8>, Error> {
    let mut errors = Errors::up_to(1);
    let checked = compile_with(text, server, &mut errors);
    errors.found.into_iter().next().map_or(Ok(checked.program), Err)
}

/// Compiles a filter for people who correct it: with the place of each rule, or with one error for
/// each rule that is wrong.
///
/// # Errors
/// The errors, `errors_max` at most. The first one is that of [`compile`].
pub fn check(text: &str, server: &Server, errors_max: usize) -> Result<Checked, Vec<Error>> {
    let mut errors = Errors::up_to(errors_max);
    let checked = compile_with(text, server, &mut errors);
    if errors.found.is_empty() { Ok(checked) } else { Err(errors.found) }
}

fn compile_with(text: &str, server: &Server, errors: &mut Errors) -> Checked {
    if text.trim().is_empty() {
        return Checked::default();
    }
    FilterText { text, server }.filter(errors)
}

#[cfg(test)]
mod tests;
