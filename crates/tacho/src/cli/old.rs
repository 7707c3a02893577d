//! Spellings of earlier releases. They work for one release and print a warning.
//!
//! An old option is rewritten before the command line is parsed, so that help, completions and
//! the rules between options know the new one only.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use clap::{ArgMatches, Command};

use super::duration;

/// The replacement of an old option.
#[derive(Clone, Copy, Debug)]
pub enum New {
    /// An option of another name with the same value.
    Option(&'static str),
    /// The value is a separate argument.
    Argument(&'static str),
    /// A switch became an option with this value.
    Value(&'static str, &'static str),
    /// An option of another name; the old one's values have this unit.
    Unit(&'static str, &'static str),
}

/// An option that was renamed.
#[derive(Clone, Copy, Debug)]
pub struct Renamed {
    /// The subcommand.
    pub command: &'static str,
    /// The old name.
    pub old: &'static str,
    /// Its replacement.
    pub new: New,
}

const fn renamed(command: &'static str, old: &'static str, new: New) -> Renamed {
    Renamed { command, old, new }
}

/// All old options.
pub const RENAMED: &[Renamed] = &[
    renamed("tail", "--max-line-bytes", New::Option("--max-line-size")),
    renamed("convert", "--out", New::Option("--output")),
    renamed("convert", "--to", New::Option("--format")),
    renamed("convert", "--max-line-bytes", New::Option("--max-line-size")),
    renamed("slowlog", "--out", New::Option("--output")),
    renamed("slowlog", "--max-line-bytes", New::Option("--max-line-size")),
    renamed("slowlog", "--min-query-time", New::Option("--min-time")),
    renamed("slowlog", "--min-query-time-us", New::Unit("--min-time", "us")),
    renamed("verify", "--json", New::Value("--format", "json")),
    renamed("keygen", "--out", New::Option("--output")),
    renamed("recorder", "--attach", New::Argument("DIR")),
    renamed("arena", "--directory", New::Option("--arena-directory")),
    renamed("arena", "--json", New::Value("--format", "json")),
    renamed("bench", "--out", New::Option("--output")),
    renamed("bench", "--from", New::Option("--results")),
    renamed("bench", "--server-folder", New::Option("--server-directory")),
    renamed("pmp diff", "--svg", New::Option("--output")),
    renamed("digest", "--log", New::Argument("DIR|FILE")),
    renamed("digest", "--max-line-bytes", New::Option("--max-line-size")),
    renamed("digest", "--text-bytes", New::Option("--text-size")),
    renamed("man", "--out", New::Option("--output")),
];

/// Replaces old options in a command line. Returns the new one, and the warnings.
pub fn rewrite(args: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let mut args = args.into_iter().collect::<Vec<_>>();
    let command = command(&args);
    let mut warnings = Vec::new();
    let mut rewritten = args.drain(..args.len().min(2)).collect::<Vec<_>>();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        if arg == "--" {
            rewritten.push(arg);
            break;
        }
        let (name, value) = split(&arg);
        let found = RENAMED.iter().find(|it| it.command == command && name == it.old);
        let Some(Renamed { old, new, .. }) = found else {
            rewritten.push(arg);
            continue;
        };
        let value = value.map(OsStr::to_owned);
        let warning = match *new {
            New::Option(name) => {
                rewritten.push(with_value(name, value.as_deref()));
                format!("{old} is now {name}")
            }
            New::Argument(name) => {
                rewritten.extend(value);
                format!("{old} {name} is now the argument {name}")
            }
            New::Value(name, value) => {
                rewritten.push(with_value(name, Some(OsStr::new(value))));
                format!("{old} is now {name} {value}")
            }
            New::Unit(name, unit) => {
                let mut value = value.or_else(|| args.next()).unwrap_or_default();
                value.push(unit);
                rewritten.push(with_value(name, Some(&value)));
                format!("{old} is now {name}, with a unit: {name} {}", value.to_string_lossy())
            }
        };
        warnings.push(warning);
    }
    rewritten.extend(args);
    (rewritten, warnings)
}

/// The subcommand that a command line calls.
fn command(args: &[OsString]) -> String {
    let word = |index: usize| args.get(index).map(|arg| arg.to_string_lossy().into_owned());
    match (word(1).unwrap_or_default(), word(2)) {
        (first, Some(second)) if first == "pmp" && second == "diff" => format!("{first} {second}"),
        (first, _) => first,
    }
}

/// `--name=value`, split.
fn split(arg: &OsStr) -> (&OsStr, Option<&OsStr>) {
    let bytes = arg.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) => (OsStr::from_bytes(&bytes[..at]), Some(OsStr::from_bytes(&bytes[at + 1..]))),
        None => (arg, None),
    }
}

fn with_value(name: &str, value: Option<&OsStr>) -> OsString {
    let mut bytes = name.as_bytes().to_vec();
    if let Some(value) = value {
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
    }
    OsString::from_vec(bytes)
}

/// Durations without a unit, which earlier releases took as seconds.
pub fn without_unit(command: &Command, matches: &ArgMatches) -> Vec<String> {
    let mut warnings = Vec::new();
    for arg in command.get_arguments().filter(|arg| takes_duration(arg)) {
        let is_given = matches.value_source(arg.get_id().as_str())
            == Some(clap::parser::ValueSource::CommandLine);
        let values = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
        for value in values.filter(|_| is_given).filter_map(OsStr::to_str) {
            if duration::seconds(value).is_some()
                && let Some(name) = arg.get_long()
            {
                warnings.push(format!("--{name} {value} is now --{name} {value}s"));
            }
        }
    }
    if let Some((name, matches)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        warnings.extend(without_unit(command, matches));
    }
    warnings
}

/// Whether the value of `arg` is a duration.
pub fn takes_duration(arg: &clap::Arg) -> bool {
    arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == duration::NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(args: &str) -> (String, String) {
        let (args, warnings) = rewrite(args.split(' ').map(OsString::from));
        let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
        (args.join(" "), warnings.join("; "))
    }

    #[test]
    fn old_options_become_new_ones_with_a_warning() {
        for (old, new, warning) in [
            ("tacho man --out d", "tacho man --output d", "--out is now --output"),
            ("tacho man --out=d", "tacho man --output=d", "--out is now --output"),
            (
                "tacho verify d --json",
                "tacho verify d --format=json",
                "--json is now --format json",
            ),
            (
                "tacho recorder --attach=d",
                "tacho recorder d",
                "--attach DIR is now the argument DIR",
            ),
            (
                "tacho slowlog --min-query-time-us 5",
                "tacho slowlog --min-time=5us",
                "--min-query-time-us is now --min-time, with a unit: --min-time 5us",
            ),
            (
                "tacho pmp diff a b --svg c",
                "tacho pmp diff a b --output c",
                "--svg is now --output",
            ),
        ] {
            assert_eq!(rewritten(old), (new.to_owned(), warning.to_owned()));
        }
    }

    #[test]
    fn other_words_are_kept() {
        for args in [
            "tacho",
            "tacho tail --out x",
            "tacho man -- --out d",
            "tacho pmp --svg c",
            "tacho keygen --output=--out",
        ] {
            assert_eq!(rewritten(args), (args.to_owned(), String::new()));
        }
    }
}
