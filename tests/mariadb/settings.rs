//! Zone: outside. `docs/guide/settings.md` against a server that runs: every variable is there, with
//! its default, its range and whether it is dynamic; and no other is.

use std::collections::BTreeSet;
use std::fs;

use tacho_tests::client::Queryable as _;
use tacho_tests::guide::{quantity, rows};
use tacho_tests::server::TestServer;

/// The texts in backticks.
fn literals(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The default as the server shows it.
fn default_of(cell: &str) -> &str {
    match literals(cell)[..] {
        [literal] => literal,
        _ if cell == "empty" => "",
        _ => cell.split(' ').next().unwrap_or(cell),
    }
}

/// Type, default, smallest, largest, values, read-only.
type Variable = (String, Option<String>, Option<String>, Option<String>, Option<String>, String);

fn check(cells: &[String], variable: &Variable) -> Result<(), String> {
    let [default, range, dynamic, _meaning] = cells else {
        return Err(format!("{} cells", cells.len()));
    };
    let (kind, server_default, min, max, values, read_only) = variable;
    let found = default_of(default);
    if found != server_default.as_deref().unwrap_or("") {
        return Err(format!("the default is {server_default:?}, not {found:?}"));
    }
    if (dynamic == "yes") != (read_only == "NO") || !["yes", "no"].contains(&&**dynamic) {
        return Err(format!("dynamic: {dynamic:?}, read-only: {read_only:?}"));
    }
    if let Some(values) = values {
        let found: BTreeSet<&str> = literals(range).into_iter().collect();
        let values: BTreeSet<&str> = values.split(',').collect();
        // A setting that always reads OFF needs no list.
        if found != values && !(kind == "BOOLEAN" && range.is_empty()) {
            return Err(format!("the values are {values:?}, not {found:?}"));
        }
    } else if let (Some(min), Some(max)) = (min, max) {
        let (from, to) = range.split_once(" to ").ok_or_else(|| format!("{range:?}"))?;
        let found = (quantity(from).to_string(), quantity(to).to_string());
        if (&found.0, &found.1) != (min, max) {
            return Err(format!("the range is {min} to {max}, not {found:?}"));
        }
    } else if range.contains(" to ") {
        return Err(format!("a text has no range: {range:?}"));
    }
    Ok(())
}

#[test]
fn the_guide_has_every_variable_as_it_is() {
    let page = tacho_tests::source_root().join("docs/guide/settings.md");
    let page = fs::read_to_string(page).expect("docs/guide/settings.md");
    let server = TestServer::builder().option("plugin-load-add=tacho").start().expect("a server");
    let mut root = server.connect().expect("a session");

    type Row =
        (String, String, Option<String>, Option<String>, Option<String>, Option<String>, String);
    let found: Vec<Row> = root
        .query(
            "SELECT LOWER(VARIABLE_NAME), VARIABLE_TYPE, DEFAULT_VALUE, NUMERIC_MIN_VALUE, \
             NUMERIC_MAX_VALUE, ENUM_VALUE_LIST, READ_ONLY \
             FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME LIKE 'TACHO\\_%'",
        )
        .expect("the variables");
    let documented = rows(&page, "tacho_");
    let names: BTreeSet<&String> = found.iter().map(|row| &row.0).collect();
    assert!(names.len() > 15, "{names:?}");
    assert_eq!(documented.keys().collect::<BTreeSet<_>>(), names);
    let mut wrong = Vec::new();
    for (name, kind, default, min, max, values, read_only) in &found {
        let variable = (
            kind.clone(),
            default.clone(),
            min.clone(),
            max.clone(),
            values.clone(),
            read_only.clone(),
        );
        if let Err(why) = check(&documented[name], &variable) {
            wrong.push(format!("{name}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "docs/guide/settings.md:\n{}", wrong.join("\n"));

    let status: Vec<(String, String)> =
        root.query("SHOW GLOBAL STATUS LIKE 'Tacho\\_%'").expect("the status");
    let names: BTreeSet<&String> = status.iter().map(|(name, _)| name).collect();
    assert_eq!(rows(&page, "Tacho_").keys().collect::<BTreeSet<_>>(), names);
}
