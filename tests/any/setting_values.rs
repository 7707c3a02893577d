//! Zone: outside. Wrong values of settings: which are rejected in a statement, how the server
//! treats them in an option, and where it is reported that the recorder works without something. On
//! each release: `scripts/test-release.sh`.

use std::fs;
use std::path::{Path, PathBuf};

use tacho_settings::{Setting, SettingNames};
use tacho_tests::client::{self, Conn, Queryable as _};
use tacho_tests::guide::{Number, numbers};
use tacho_tests::recorded::{self, Line, text};
use tacho_tests::recording::Recording;
use tacho_tests::wait;

/// `ER_WRONG_VALUE_FOR_VAR`, `ER_WRONG_TYPE_FOR_VAR`.
const REFUSALS: [u16; 2] = [1231, 1232];

/// Invalid values for all of the numbers: too small, too large, and not a number.
const WRONG: &[&str] = &[
    "-1",
    "-9223372036854775808",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "(SELECT -1)",
    "@nothing",
    "NULL",
    "'-1'",
    "''",
    "1.5",
];

/// Choices and switches.
const WRONG_NAMES: &[(&str, &[&str])] = &[
    ("tacho_overflow", &["-1", "3", "'NOTHING'", "''", "NULL", "18446744073709551615"]),
    ("tacho_format", &["-1", "5", "'XML'", "''"]),
    ("tacho_durability", &["-1", "3", "'NEVER'"]),
    ("tacho_writer", &["-1", "2", "'NOBODY'"]),
    ("tacho_redact", &["-1", "2", "'NOTHING'"]),
    ("tacho_timestamps", &["-1", "2", "'LOCAL'"]),
    ("tacho_compression", &["-1", "2", "'GZIP'"]),
    ("tacho_logging", &["-1", "2", "'MAYBE'", "NULL"]),
    ("tacho_digest", &["-1", "2", "''"]),
];

fn value(server: &Recording, conn: &mut Conn, name: &str) -> String {
    client::variable(conn, &server.product.named(name)).expect("a variable")
}

/// Why a statement was refused.
fn refusal(conn: &mut Conn, sql: &str) -> Option<u16> {
    match conn.query_drop(sql) {
        Ok(()) => None,
        Err(mysql::Error::MySqlError(error)) => Some(error.code),
        Err(error) => panic!("{sql}: {error}"),
    }
}

#[test]
fn values_out_of_range_are_refused_and_change_nothing() {
    let server = Recording::builder().start().expect("a server");
    let mut root = server.connect().expect("a session");
    let kinds: &[&str] = match server.product.is_mariadb() {
        true => &["GLOBAL"],
        false => &["GLOBAL", "PERSIST"],
    };
    let mut taken = Vec::new();
    for mode in ["", "STRICT_ALL_TABLES"] {
        root.query_drop(format!("SET sql_mode = '{mode}', @nothing = CAST(NULL AS SIGNED)"))
            .expect("an answer");
        let mut check = |name: &str, wrong: &str| {
            for kind in kinds {
                let before = value(&server, &mut root, name);
                let sql = server.product.named(&format!("SET {kind} {name} = {wrong}"));
                let code = refusal(&mut root, &sql);
                let after = value(&server, &mut root, name);
                if !code.is_some_and(|code| REFUSALS.contains(&code)) || after != before {
                    taken.push(format!("{sql} ({mode}): {code:?}, {before} -> {after}"));
                }
            }
        };
        for Number { name, min, max, .. } in numbers().iter().filter(|it| it.is_dynamic) {
            WRONG.iter().for_each(|wrong| check(name, wrong));
            check(name, &max.saturating_add(1).to_string());
            if let Some(less) = min.checked_sub(1) {
                check(name, &less.to_string());
            }
        }
        for (name, all) in WRONG_NAMES {
            all.iter().for_each(|wrong| check(name, wrong));
        }
    }
    assert!(taken.is_empty(), "{}", taken.join("\n"));
    if !server.product.is_mariadb() {
        let persisted = "SELECT COUNT(*) FROM performance_schema.persisted_variables \
             WHERE VARIABLE_NAME LIKE 'tacho%'";
        assert_eq!(root.query_first(persisted).expect("an answer"), Some(0_u64));
    }
    // The ends of each range are values.
    for Number { name, min, max, .. } in numbers().iter().filter(|it| it.is_dynamic) {
        let before = value(&server, &mut root, name);
        for right in [max.to_string(), min.to_string(), before] {
            let sql = server.product.named(&format!("SET GLOBAL {name} = {right}"));
            root.query_drop(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(value(&server, &mut root, name), right, "{name}");
        }
    }
}

/// Starts the server with an option for each number, `--tacho-x=value`.
fn restart_with(server: &mut Recording, options: &[(&Number, String)]) -> String {
    let dashed = |(number, value): &(&Number, String)| {
        let option = format!("{}={value}", number.name.replacen('_', "-", 1));
        server.product.option(&option)
    };
    let options: Vec<String> = options.iter().map(dashed).collect();
    server.stop().expect("stopping");
    let before = server.error_log().len();
    server.set_extra_options(&options);
    server.restart().expect("starting");
    server.error_log()[before..].to_owned()
}

#[test]
fn options_out_of_range_are_clamped_and_reported() {
    let mut server = Recording::builder().start().expect("a server");
    let numbers = numbers();
    // An arena of the largest size does not fit into this machine.
    let changed: Vec<&Number> = numbers.iter().filter(|it| it.is_dynamic).collect();
    let too_large: Vec<(&Number, String)> =
        changed.iter().map(|it| (*it, u64::MAX.to_string())).collect();
    let said = restart_with(&mut server, &too_large);
    let mut root = server.connect().expect("a session");
    for (number, _) in &too_large {
        assert_eq!(value(&server, &mut root, &number.name), number.max.to_string(), "{number:?}");
        let told = format!("{} adjusted to {}", u64::MAX, number.max);
        assert!(said.contains(&told), "{number:?}: {said}");
    }
    let too_small: Vec<(&Number, String)> =
        numbers.iter().filter(|it| it.min > 0).map(|it| (it, "0".to_owned())).collect();
    drop(root);
    let said = restart_with(&mut server, &too_small);
    let mut root = server.connect().expect("a session");
    for (number, _) in &too_small {
        assert_eq!(value(&server, &mut root, &number.name), number.min.to_string(), "{number:?}");
        assert!(said.contains(&format!("0 adjusted to {}", number.min)), "{number:?}: {said}");
    }
    drop(root);
    let negative: Vec<(&Number, String)> =
        changed.iter().map(|it| (*it, "-1".to_owned())).collect();
    let said = restart_with(&mut server, &negative);
    let mut root = server.connect().expect("a session");
    if server.product.is_mariadb() {
        // The server starts without a plugin whose options it does not understand.
        assert!(said.contains("Parsing options for plugin 'tacho' failed"), "{said}");
        let found = client::status(&mut root, "Tacho\\_%").expect("the status");
        assert!(found.is_empty(), "{found:?}");
        drop(root);
        // Unless this is forbidden.
        server.stop().expect("stopping");
        server.set_extra_options(&["tacho=FORCE", "tacho-flush-bytes=-1"].map(str::to_owned));
        server.restart().expect_err("it does not start without its plugin");
        server.set_extra_options(&[]);
        return server.restart().expect("starting");
    }
    for (number, _) in &negative {
        assert_eq!(value(&server, &mut root, &number.name), number.min.to_string(), "{number:?}");
        assert!(said.contains(&format!("-1 adjusted to {}", number.min)), "{number:?}: {said}");
    }
}

/// The `config` lines about this variable: old value, new value, user.
fn changes<'l>(lines: &'l [Line], variable: &str) -> Vec<[&'l str; 3]> {
    let found = lines.iter().filter(|line| text(line, "variable") == Some(variable));
    found
        .map(|line| {
            ["old_value", "new_value", "user"].map(|field| text(line, field).unwrap_or_default())
        })
        .collect()
}

#[test]
fn errors_at_the_start_are_in_the_status_and_in_the_log() {
    let mut server = Recording::builder()
        .option(r#"tacho-filter={"rules": [{"table": "app.*", "action": "skip"}]}"#)
        .option("tacho-encryption-recipients-file=/nonexistent/recipients")
        .start()
        .expect("a server");
    let named = |server: &Recording, text: &str| server.product.named(text);
    // Its position, the error, and what to do, with the names of this server.
    let filter_error = server.status("Tacho_filter_error");
    let begin = named(&server, "tacho_filter: line 1, column ");
    assert!(filter_error.starts_with(&begin), "{filter_error}");
    assert!(filter_error.contains(&named(&server, "tacho_tables=ON")), "{filter_error}");
    let encryption_error = server.status("Tacho_encryption_error");
    let begin = named(&server, "tacho_encryption_recipients_file: /nonexistent/recipients: ");
    assert!(encryption_error.starts_with(&begin), "{encryption_error}");
    if !server.product.is_mariadb() {
        // The file for this start cannot be read.
        assert_eq!(server.status("Tacho_rewrite_error"), "");
        server.stop().expect("stopping");
        fs::write(server.log_directory().join(".rewrite_rules.json"), "{").expect("written");
        server.restart().expect("starting");
        let error = server.status("Tacho_rewrite_error");
        assert!(error.contains(".rewrite_rules.json: "), "{error}");
        assert_eq!(server.status("Tacho_filter_error"), filter_error);
    }
    server.set("tacho_filter = ''");
    assert_eq!(server.status("Tacho_filter_error"), "");
    server.set("tacho_encryption_recipients_file = ''");
    assert_eq!(server.status("Tacho_encryption_error"), "");
    // A file is no better, and two of them are an error, whatever they contain.
    server.add_option(r#"tacho-filter={"rules": []}"#);
    server.add_option("tacho-filter-file=/nonexistent/filter");
    server.restart().expect("starting");
    let both = server.status("Tacho_filter_error");
    assert!(both.contains("cannot both be set"), "{both}");
    server.set("tacho_filter_file = ''");
    assert_eq!(server.status("Tacho_filter_error"), "");
    server.add_option("tacho-filter=");
    server.restart().expect("starting");
    let missing = server.status("Tacho_filter_error");
    let begin = named(&server, "tacho_filter_file: /nonexistent/filter: ");
    assert!(missing.starts_with(&begin), "{missing}");
    server.stop().expect("stopping");

    let lines = recorded::read(&server.log_directory()).expect("a readable log");
    let filter_errors = changes(&lines, "filter_error");
    let wrong = ["", &*filter_error, ""];
    let mut expected = vec![wrong, [&*filter_error, "", "root"]];
    if !server.product.is_mariadb() {
        // It was started once more.
        expected.insert(0, wrong);
        let rewrite_errors = changes(&lines, "rewrite_error");
        assert!(matches!(rewrite_errors[..], [["", _, ""], ..]), "{rewrite_errors:?}");
    }
    expected.extend([["", &*both, ""], [&*both, "", "root"], ["", &*missing, ""]]);
    assert_eq!(filter_errors, expected);
    let encryption_errors = changes(&lines, "encryption_error");
    assert!(encryption_errors.contains(&["", &*encryption_error, ""]), "{encryption_errors:?}");
    assert!(encryption_errors.contains(&[&*encryption_error, "", "root"]), "{encryption_errors:?}");
}

/// A reader of the error log copies the name in the message.
#[test]
fn messages_have_the_names_that_settings_have_here() {
    let server = Recording::builder()
        .option("tacho-retention-bytes=1")
        .option("tacho-disk-warn-percent=100")
        .option("tacho-rotate-bytes=0")
        .start()
        .expect("a server");
    server.set("tacho_rotate_now = 1");
    for expected in [
        "(tacho_retention_bytes)",
        "less than tacho_disk_warn_percent. When it is full, tacho_overflow decides",
        "keep less (tacho_retention_days, tacho_retention_bytes, tacho_retention_files)",
    ] {
        let expected = server.product.named(expected);
        wait::until(&expected, || server.error_log().contains(&expected));
    }
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Code that is compiled once for all servers does not know the names of settings.
#[test]
fn no_message_of_the_recorder_has_the_name_of_a_setting_of_one_server() {
    let names = Setting::ALL.map(|setting| SettingNames::Plugin.name(setting));
    let mut files = Vec::new();
    for part in ["recorder", "embed", "filter"] {
        sources(&tacho_tests::source_root().join("crates").join(part).join("src"), &mut files);
    }
    assert!(files.len() > 50, "{files:?}");
    let mut found = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("a source file");
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        // Unit tests check the messages on each server.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code.lines().filter(is_code) {
            // Some settings are called as crates.
            let line = names
                .iter()
                .fold(line.to_owned(), |line, name| line.replace(&format!("{name}::"), ""));
            if names.iter().any(|name| line.contains(&**name)) {
                found.push(format!("{}: {line}", file.display()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
