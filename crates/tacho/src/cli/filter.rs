//! The filters of lines, the same for every command that reads a log.
//!
//! A filter by a field is one row of [`criteria`]: its option, and the opposite option with `not-`
//! before the name, follow from it.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser as _, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use regex::Regex;
use tacho_record::{EventKind, Outcome};

use super::{duration, number};
use crate::filter::{Pattern, Run, Value};

/// Where the help lists them.
const HEADING: &str = "Filters";

/// Calls a macro with all filters by a field, in the order of the help.
macro_rules! criteria {
    ($then:ident) => {
        $then! {
            User "user" "USER" "User name that the client gave, or account name of its privileges";
            Db "db" "DB" "Default database, or database of a table in the statement";
            Table "table" "DB.TABLE" "Table that the statement uses: `shop.orders`, `hr.*`";
            Host "host" "HOST" "Client host name or address";
            Conn "conn" "N" "Connection id";
            Run "run" "N|last" "Run of the server: the number in the field `run`, or `last`";
            Event "event" "EVENT" "Kind of event";
            SqlCommand "sql-command" "COMMAND"
                "Class of the statement, by the server's name: `select`, `create_*`";
            Errno "errno" "N" "Server error number";
            Outcome "outcome" "OUTCOME" "Outcome of the statement or connection";
            Grep "grep" "REGEX"
                "Statement text matches this regular expression; a leading `(?i)` ignores case";
            Digest "digest" "HEX"
                "Digest of the statement, or its first digits, with or without the version prefix";
        }
    };
}

macro_rules! criterion {
    ($($variant:ident $option:literal $value:literal $help:literal;)*) => {
        /// A filter by a field of the line.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Criterion {
            $(#[doc = $help] $variant,)*
        }

        impl Criterion {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name of its option; of the opposite if `is_not`.
            pub const fn option(self, is_not: bool) -> &'static str {
                match (self, is_not) {
                    $((Self::$variant, false) => $option,
                      (Self::$variant, true) => concat!("not-", $option),)*
                }
            }

            const fn value_name(self) -> &'static str {
                match self {
                    $(Self::$variant => $value,)*
                }
            }

            const fn help(self, is_not: bool) -> &'static str {
                match (self, is_not) {
                    $((Self::$variant, false) => $help,
                      (Self::$variant, true) => concat!("Leave out the lines that --", $option, " shows"),)*
                }
            }
        }
    };
}
criteria!(criterion);

impl Criterion {
    /// Parses a value. A fixed list where there is one: a mistyped name must not look like an empty
    /// log.
    fn parser(self) -> ValueParser {
        fn names<const N: usize>(names: [&'static str; N]) -> ValueParser {
            PossibleValuesParser::new(names).map(Value::Word).into()
        }
        match self {
            Self::User | Self::Db => ValueParser::new(|text: &str| infallible(Pattern::new(text))),
            Self::Host | Self::SqlCommand => {
                ValueParser::new(|text: &str| infallible(Pattern::folded(text)))
            }
            Self::Table => ValueParser::new(parse_table),
            Self::Conn => ValueParser::new(|text: &str| number::whole(text).map(Value::Number)),
            Self::Errno => ValueParser::new(|text: &str| {
                number::whole::<u32>(text).map(|errno| Value::Number(errno.into()))
            }),
            Self::Run => ValueParser::new(parse_run),
            Self::Event => names(EventKind::ALL.map(EventKind::name)),
            Self::Outcome => names(Outcome::ALL.map(Outcome::name)),
            Self::Grep => ValueParser::new(parse_regex),
            Self::Digest => ValueParser::new(parse_digest),
        }
    }

    fn arg(self, is_not: bool) -> Arg {
        let name = self.option(is_not);
        let arg = Arg::new(name)
            .long(name)
            .value_name(self.value_name())
            .help(self.help(is_not))
            .help_heading(HEADING)
            .action(ArgAction::Append)
            // `-h` has the list once.
            .hide_short_help(is_not)
            .hide_possible_values(is_not)
            .value_parser(self.parser());
        // A comma is usual in a regular expression.
        if self == Self::Grep { arg } else { arg.value_delimiter(',') }
    }
}

/// A filter by a field, as it was given.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The field.
    pub by: Criterion,
    /// Whether lines pass that have none of the values.
    pub is_not: bool,
    /// One of them suffices. Never empty.
    pub values: Vec<Value>,
}

/// The filters by a field.
#[derive(Clone, Debug, Default)]
pub struct FieldArgs(pub Vec<Condition>);

impl FromArgMatches for FieldArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let both = Criterion::ALL.iter().flat_map(|by| [(*by, false), (*by, true)]);
        let conditions = both.filter_map(|(by, is_not)| {
            let values = matches.get_many::<Value>(by.option(is_not))?.cloned().collect();
            Some(Condition { by, is_not, values })
        });
        Ok(Self(conditions.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for FieldArgs {
    fn augment_args(command: Command) -> Command {
        command.args(Criterion::ALL.iter().flat_map(|by| [by.arg(false), by.arg(true)]))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Filters of lines.
#[derive(Args, Clone, Debug, Default)]
pub struct FilterArgs {
    /// By a field.
    #[command(flatten)]
    pub fields: FieldArgs,

    /// Statement took at least this long
    #[arg(long, value_name = duration::NAME, help_heading = HEADING, value_parser = duration::any)]
    pub min_time: Option<Duration>,

    /// Statement sent, or changed, at least this many rows
    #[arg(long, value_name = "N", help_heading = HEADING, value_parser = number::whole::<u64>)]
    pub min_rows: Option<u64>,

    /// Number of the line, the field `seq`: from A to B, or `A-` from A on
    #[arg(long, value_name = "A-B", help_heading = HEADING, value_parser = parse_seq)]
    pub seq: Option<RangeInclusive<u64>>,
}

impl FilterArgs {
    /// Whether all lines pass.
    pub fn is_empty(&self) -> bool {
        self.fields.0.is_empty()
            && self.min_time.is_none()
            && self.min_rows.is_none()
            && self.seq.is_none()
    }
}

fn infallible(pattern: Pattern) -> Result<Value, Infallible> {
    Ok(Value::Name(pattern))
}

fn parse_table(text: &str) -> Result<Value, String> {
    // A name alone would match no table.
    if !text.contains(['.', '*']) {
        return Err(format!("expected DB.TABLE; in any database: *.{text}"));
    }
    Ok(Value::Name(Pattern::new(text)))
}

fn parse_run(text: &str) -> Result<Value, String> {
    if text == "last" {
        return Ok(Value::Run(Run::Last));
    }
    let number = text.parse().map_err(|_| "expected a number, or `last`".to_owned())?;
    Ok(Value::Run(Run::Number(number)))
}

fn parse_regex(text: &str) -> Result<Value, String> {
    let regex = Regex::new(text).map_err(|error| format!("not a regular expression: {error}"))?;
    Ok(Value::Regex(regex))
}

fn parse_digest(text: &str) -> Result<Value, String> {
    let text = text.to_ascii_lowercase();
    let hash = text.split_once(':').map_or(&*text, |(_, hash)| hash);
    if hash.is_empty() || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("expected hexadecimal digits, as in the field `digest`".to_owned());
    }
    Ok(Value::Digest(text))
}

fn parse_seq(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |text: &str| text.parse::<u64>().ok();
    let range = match text.split_once('-') {
        None => number(text).map(|seq| seq..=seq),
        Some((from, "")) => number(from).map(|from| from..=u64::MAX),
        Some((from, to)) => number(from).zip(number(to)).map(|(from, to)| from..=to),
    };
    match range {
        None => Err("expected numbers of lines such as 100-200, 100- or 100".to_owned()),
        Some(range) if range.is_empty() => Err("the second number is smaller".to_owned()),
        Some(range) => Ok(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_lines() {
        assert_eq!(parse_seq("7"), Ok(7..=7));
        assert_eq!(parse_seq("7-9"), Ok(7..=9));
        assert_eq!(parse_seq("7-"), Ok(7..=u64::MAX));
        for wrong in ["", "-", "-7", "9-7", "a-b", "1-2-3", "18446744073709551616"] {
            assert!(parse_seq(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_table_needs_its_database() {
        assert!(parse_table("shop.orders").is_ok() && parse_table("*").is_ok());
        assert_eq!(
            parse_table("orders").map(|_| ()),
            Err("expected DB.TABLE; in any database: *.orders".to_owned())
        );
    }
}
