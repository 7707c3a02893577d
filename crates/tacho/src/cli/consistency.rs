//! The rules of the command line, for every subcommand and option. The reasons are in
//! `docs/decisions/2026-11-25-command-line.md`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command, CommandFactory as _, Parser as _};

use super::old::{self, New};
use super::{Cli, Criterion, duration, size};

/// Names of values. Each says what kind of value it is, so the list is closed.
const VALUE_NAMES: &[&str] = &[
    "A-B",
    "AFTER",
    "BEFORE",
    "CHECK",
    "CHECK=VALUE",
    "COLUMNS",
    "COMMAND",
    "DB",
    "DB.TABLE",
    "DIR",
    "DIR|BUNDLE",
    "DIR|FILE",
    "DURATION",
    "EVENT",
    "FIELD",
    "FILE",
    "FORMAT",
    "HEX",
    "HOST",
    "HOST:PORT",
    "INTERFACE",
    "IP:PORT",
    "KEY|FILE",
    "LINES",
    "MEASURE",
    "METHOD",
    "MODE",
    "N",
    "N|last",
    "NAME",
    "OPTION",
    "OUTCOME",
    "PERCENT",
    "PER_SECOND",
    "PLUGIN",
    "POLICY",
    "PORT",
    "PRODUCT",
    "RECEIVER",
    "REGEX",
    "SETTING=VALUE",
    "SHELL",
    "SIZE",
    "SQL",
    "URL",
    "USER",
    "WHAT",
    "WHEN",
    "WHICH",
    "WORKLOAD",
];

/// The order of the options that commands share.
const SHARED: &[&str] =
    &["output", "format", "follow", "since", "until", "identity", "max-line-size", "utc"];

/// All options of a login.
const LOGIN: &[&str] =
    &["socket", "host", "port", "user", "password", "password-file", "defaults-file"];

/// Every command with its full name.
fn commands() -> Vec<(String, Command)> {
    fn collect(command: &Command, name: &str, all: &mut Vec<(String, Command)>) {
        all.push((name.to_owned(), command.clone()));
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            collect(below, format!("{name} {}", below.get_name()).trim(), all);
        }
    }
    let mut root = Cli::command();
    root.build();
    let mut all = Vec::new();
    collect(&root, "", &mut all);
    assert!(all.len() > 15, "all subcommands were found");
    all
}

/// Every argument of every command, without those that clap adds.
fn args() -> Vec<(String, Arg)> {
    let own = |arg: &&Arg| !["help", "version"].contains(&arg.get_id().as_str());
    let args = commands().into_iter().flat_map(|(name, command)| {
        let args: Vec<Arg> = command.get_arguments().filter(own).cloned().collect();
        args.into_iter().map(move |arg| (name.clone(), arg))
    });
    args.collect()
}

fn value_name(arg: &Arg) -> Option<String> {
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    if !takes_value {
        return None;
    }
    arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string)
}

fn help(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn an_output_is_called_output() {
    for (command, arg) in args() {
        let Some(name) = arg.get_long() else { continue };
        for wrong in ["out", "out-file", "output-file", "outfile", "dest", "svg", "target"] {
            assert_ne!(name, wrong, "{command}");
        }
        if name == "output" {
            assert_eq!(arg.get_short(), Some('o'), "{command} --{name}");
        } else {
            assert_ne!(arg.get_short(), Some('o'), "{command} --{name}");
        }
    }
}

#[test]
fn a_log_is_an_argument_with_a_default_from_the_environment() {
    let mut found = Vec::new();
    for (command, arg) in args() {
        let value = value_name(&arg);
        match arg.get_long() {
            // The destination of an output is not a log.
            Some(name) => {
                for wrong in ["log", "log-dir", "log-directory", "attach", "audit-dir"] {
                    // A capture makes a log; there is no default for a new one. The argument of
                    // `filter check` is the filter, and a log is tried only on request.
                    let is_exempt = ["capture", "filter check"].contains(&&*command);
                    assert!(name != wrong || (is_exempt && name == "log"), "{command}");
                }
                assert_ne!(value.as_deref(), Some("DIR|FILE"), "{command} --{name}");
            }
            None if value.as_deref().is_some_and(|name| name.starts_with("DIR")) => {
                assert!(!arg.is_required_set(), "{command}");
                assert!(help(&arg).contains("$TACHO_LOG_DIR"), "{command}: {}", help(&arg));
                found.push(command);
            }
            None => {}
        }
    }
    let views = ["logins", "errors", "ddl", "grants", "slow", "sessions"];
    let mut expected = vec!["tail".to_owned(), "report".to_owned()];
    expected.extend(views.map(|view| format!("report {view}")));
    let others =
        "top convert ship slowlog verify checkpoint status retention recover recorder digest";
    expected.extend(others.split(' ').map(str::to_owned));
    assert_eq!(found, expected);
}

#[test]
fn values_are_of_a_known_kind() {
    for (command, arg) in args() {
        if let Some(name) = value_name(&arg) {
            assert!(VALUE_NAMES.contains(&&*name), "{command} {arg}: {name}");
        }
    }
}

#[test]
fn durations_and_sizes_have_one_parser_each() {
    let durations = ValueParser::from(duration::any).type_id();
    let mut counts = (0, 0);
    for (command, arg) in args() {
        let what = format!("{command} {arg}");
        let is_duration = arg.get_value_parser().type_id() == durations;
        assert_eq!(is_duration, old::takes_duration(&arg), "{what}: {}", duration::NAME);
        let is_size = value_name(&arg).as_deref() == Some(size::NAME);
        counts.0 += u32::from(is_duration);
        counts.1 += u32::from(is_size);
        let Some(name) = arg.get_long() else { continue };
        // The value has the unit, not the name.
        let last = name.rsplit('-').next().unwrap_or_default();
        for unit in
            ["us", "ms", "s", "sec", "secs", "seconds", "minutes", "days", "bytes", "kb", "mb"]
        {
            assert_ne!(last, unit, "{what}");
        }
        for default in arg.get_default_values().iter().filter_map(|value| value.to_str()) {
            if is_duration {
                assert_eq!(duration::seconds(default), None, "{what} has a unit");
            }
            assert!(!is_size || size::bytes(default).is_some(), "{what}");
        }
    }
    assert_eq!(counts, (23, 19), "durations and sizes");
    assert!(Cli::try_parse_from(["tacho", "pmp", "--duration", "10 parsecs"]).is_err());
    assert_eq!(duration::any("10s"), Ok(Duration::from_secs(10)));
}

#[test]
fn a_login_has_all_its_options() {
    for (command, definition) in commands() {
        let has = |name: &str| definition.get_arguments().any(|arg| arg.get_long() == Some(name));
        if has("socket") || has("password-file") || has("defaults-file") {
            for name in LOGIN {
                assert!(has(name), "{command} has no --{name}");
            }
        }
    }
}

#[test]
fn shared_options_have_one_order() {
    for name in ["tail", "report", "report slow", "convert", "slowlog", "verify", "digest"] {
        let (_, command) = commands().into_iter().find(|(found, _)| found == name).expect(name);
        let places: Vec<usize> = command
            .get_arguments()
            .filter_map(|arg| SHARED.iter().position(|shared| arg.get_long() == Some(shared)))
            .collect();
        assert!(places.len() >= 2, "{name}");
        assert!(places.is_sorted(), "{name}: {places:?} of {SHARED:?}");
    }
}

/// Every command that reads a log and shows what is in it has all filters.
#[test]
fn filters_are_the_same_everywhere() {
    let views = ["logins", "errors", "ddl", "grants", "slow", "sessions"];
    let mut names: Vec<String> =
        ["tail", "report", "convert", "slowlog", "digest"].map(str::to_owned).into();
    names.extend(views.map(|view| format!("report {view}")));
    for name in names {
        let (_, command) = commands().into_iter().find(|(found, _)| *found == name).expect(&name);
        let has = |long: &str| command.get_arguments().any(|arg| arg.get_long() == Some(long));
        let by_field = Criterion::ALL.iter().flat_map(|by| [by.option(false), by.option(true)]);
        let others = ["since", "until", "identity", "min-time", "min-rows", "seq"];
        for option in by_field.chain(others) {
            assert!(has(option), "{name} has no --{option}");
        }
    }
}

/// The value of an option has the same kind in every command.
#[test]
fn an_option_means_the_same_everywhere() {
    // `threads` is a number of connections or the choice of sampled threads; `output` is a file, a
    // directory or the beginning of two names; `tail`'s filters have options of a login.
    const DIFFERENT: &[&str] = &["threads", "output"];
    let mut known: BTreeMap<String, (String, Option<String>, Option<char>)> = BTreeMap::new();
    for (command, arg) in args() {
        let Some(name) = arg.get_long().filter(|name| !DIFFERENT.contains(name)) else { continue };
        let (first, value, short) = known
            .entry(name.to_owned())
            .or_insert_with(|| (command.clone(), value_name(&arg), arg.get_short()));
        assert_eq!(*value, value_name(&arg), "--{name} of {first} and {command}");
        assert_eq!(*short, arg.get_short(), "--{name} of {first} and {command}");
    }
}

#[test]
fn every_argument_has_a_help_text_in_one_form() {
    for (command, arg) in args() {
        let help = help(&arg);
        let first = help.chars().next().unwrap_or_default();
        assert!(first.is_uppercase(), "{command} {arg}: {help:?}");
        assert!(!help.ends_with('.'), "{command} {arg}: {help:?}");
    }
}

#[test]
fn notes_fit_a_terminal() {
    for (command, definition) in commands() {
        let notes = definition.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in notes.lines() {
            assert!(line.chars().count() <= 100, "{command}: {line}");
        }
    }
}

#[test]
fn old_options_are_gone_and_new_ones_exist() {
    let commands = commands();
    for renamed in old::RENAMED {
        let (_, command) =
            commands.iter().find(|(name, _)| name == renamed.command).expect(renamed.command);
        let has = |long: &str| {
            command.get_arguments().any(|arg| arg.get_long() == long.strip_prefix("--"))
        };
        assert!(!has(renamed.old), "{renamed:?}");
        match renamed.new {
            New::Option(new) | New::Value(new, _) | New::Unit(new, _) => {
                assert!(has(new), "{renamed:?}");
            }
            New::Argument(name) => assert!(
                command.get_positionals().any(|arg| value_name(arg).as_deref() == Some(name)),
                "{renamed:?}"
            ),
        }
    }
}
