//! Zone: outside. `include/tacho_settings.h` is written from the table: `TACHO_BLESS=1` writes it anew.

use std::fmt::Write as _;

use tacho_settings::{Kind, Owner, Servers, Setting, Spec};

mod generated;

/// Width of a line.
const COLUMNS: usize = 100;

const TOP: &str = "\
/* Zone: cold. The settings of the recorder, for the adapters.
 *
 * Generated from crates/settings/src/table.rs by crates/settings/tests/header.rs. Do not edit:
 * TACHO_BLESS=1 cargo test -p tacho-settings
 */
#ifndef TACHO_SETTINGS_H
#define TACHO_SETTINGS_H

/* clang-format off */

/* A setting: its place in the table. */
enum tacho_setting {
";

const ROWS: &str = "
/* Calls a macro of its kind for each setting, in the order of the table:
 *
 *   NUMBER(servers, change, owner, name, NAME, default, min, max, step, help)
 *   SWITCH(servers, change, owner, name, NAME, default, help)
 *   CHOICE(servers, change, owner, name, NAME, default, (names), help)
 *   TEXT(servers, change, owner, name, NAME, default, help)
 *   COMMAND(servers, change, owner, name, NAME, help)
 *
 *   servers   ALL; MYSQL: only 9.7 and 8.0
 *   change    DYNAMIC: SET GLOBAL can change it; AT_START: it cannot
 *   owner     RECORDER: tacho_embed_set() passes it on; ADAPTER: the adapter uses it itself
 *   NAME      behind TACHO_SETTING_
 *   help      uses TACHO_VARIABLE(\"name\") for the names of other settings
 */
#define TACHO_SETTINGS(NUMBER, SWITCH, CHOICE, TEXT, COMMAND) \\
";

const BOTTOM: &str = "
/* clang-format on */

#endif /* TACHO_SETTINGS_H */
";

/// `flush_bytes` as `FLUSH_BYTES`.
fn upper(name: &str) -> String {
    name.to_ascii_uppercase()
}

/// Values of choices: what `tacho_embed_set` takes for each name.
fn choices(out: &mut String) {
    for setting in Setting::ALL {
        let Spec { name, kind: Kind::Choice { names, .. }, .. } = setting.spec() else { continue };
        writeln!(out, "\n/* Values of TACHO_SETTING_{}. */\nenum tacho_{name} {{", upper(name))
            .expect("a text");
        let value = |(index, it): (usize, &&str)| {
            let end = if index + 1 == names.len() { "" } else { "," };
            format!("    TACHO_{}_{it} = {index}{end}\n", upper(name))
        };
        out.extend(names.iter().enumerate().map(value));
        out.push_str("};\n");
    }
}

/// The parts of a help text: a literal, or the name of a setting.
fn help_parts(help: &str) -> Vec<String> {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut parts = Vec::new();
    let mut rest = help;
    while let Some((before, after)) = rest.split_once("tacho_") {
        let bytes = after.find(|it: char| !it.is_ascii_lowercase() && it != '_');
        let (name, behind) = after.split_at(bytes.unwrap_or(after.len()));
        assert!(Setting::from_name(name).is_some(), "{help:?}: there is no tacho_{name}");
        parts.extend((!before.is_empty()).then(|| quoted(before)));
        parts.push(format!("TACHO_VARIABLE(\"{name}\")"));
        rest = behind;
    }
    parts.extend((!rest.is_empty()).then(|| quoted(rest)));
    parts
}

/// A text, cut between words into literals that fit into a line.
fn wrapped(part: &str, room: usize) -> Vec<String> {
    let Some(text) = part.strip_prefix('"').and_then(|it| it.strip_suffix('"')) else {
        return vec![part.to_owned()];
    };
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let line = lines.last_mut().expect("there is one");
        if !line.is_empty() && line.len() + word.len() + 2 > room {
            lines.push(word.to_owned());
        } else {
            line.push_str(word);
        }
    }
    lines.iter().map(|line| format!("\"{line}\"")).collect()
}

fn row(setting: Setting) -> String {
    let Spec { name, help, kind, is_dynamic, owner, servers } = setting.spec();
    let (macro_name, values) = match kind {
        Kind::Number { default, min, max, step, .. } => {
            ("NUMBER", format!("{default}ULL, {min}ULL, {max}ULL, {step}ULL"))
        }
        Kind::Switch { default } => ("SWITCH", u8::from(*default).to_string()),
        Kind::Choice { names, default } => {
            ("CHOICE", format!("{default}, (\"{}\")", names.join("\", \"")))
        }
        Kind::Text { default, .. } => ("TEXT", format!("\"{default}\"")),
        Kind::Command => ("COMMAND", String::new()),
    };
    let servers = match servers {
        Servers::All => "ALL",
        Servers::MySql => "MYSQL",
    };
    let change = if *is_dynamic { "DYNAMIC" } else { "AT_START" };
    let owner = if *owner == Owner::Adapter { "ADAPTER" } else { "RECORDER" };
    let indent = " ".repeat(8);
    let first = format!("    {macro_name}({servers}, {change}, {owner}, {name}, {},", upper(name));
    let parts: Vec<String> = help_parts(help)
        .iter()
        .flat_map(|part| wrapped(part, COLUMNS - indent.len() - " \\".len() - ")".len()))
        .collect();
    let values = if values.is_empty() { values } else { format!(" \\\n{indent}{values},") };
    format!("{first}{values} \\\n{indent}{})", parts.join(&format!(" \\\n{indent}")))
}

fn header() -> String {
    let mut out = TOP.to_owned();
    for setting in Setting::ALL {
        let end = if setting.number() + 1 == Setting::COUNT as i32 { "" } else { "," };
        let (name, number) = (upper(setting.name()), setting.number());
        writeln!(out, "    TACHO_SETTING_{name} = {number}{end}").expect("a text");
    }
    out.push_str("};\n\n");
    writeln!(out, "#define TACHO_SETTING_COUNT {}", Setting::COUNT).expect("a text");
    choices(&mut out);
    out.push_str(ROWS);
    let rows: Vec<String> = Setting::ALL.map(row).into();
    out.push_str(&rows.join(" \\\n"));
    out.push('\n');
    out.push_str(BOTTOM);
    out
}

#[test]
fn the_header_follows_the_table() {
    generated::check("include/tacho_settings.h", |_| header());
}
