//! Zone: outside. The tables of settings in `docs/guide/settings.md` are written from the table:
//! `TACHO_BLESS=1` writes them anew.

use std::fmt::Write as _;

use tacho_settings::{Content, Kind, Servers, Setting, SettingNames, Unit};

mod generated;

const GUIDE: &str = "docs/guide/settings.md";
const DAY_S: u64 = 86_400;

/// 262144 as `256 KiB`, if that is shorter.
fn bytes(number: u64) -> String {
    let units = ["", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"];
    let mut rest = number;
    let mut power = 0;
    while rest != 0 && rest.is_multiple_of(1024) && power + 1 < units.len() {
        rest /= 1024;
        power += 1;
    }
    format!("{rest}{}", units[power])
}

/// A bound, in the unit that is easiest to read.
fn bound(unit: Unit, number: u64) -> String {
    match unit {
        Unit::Bytes => bytes(number),
        Unit::Seconds if number > DAY_S && number.is_multiple_of(DAY_S) => {
            format!("{} days", number / DAY_S)
        }
        _ => number.to_string(),
    }
}

/// Default and range.
fn cells(kind: Kind) -> (String, String) {
    match kind {
        Kind::Switch { default } => {
            ((if default { "`ON`" } else { "`OFF`" }).to_owned(), "`ON`, `OFF`".to_owned())
        }
        Kind::Command => ("`OFF`".to_owned(), String::new()),
        Kind::Number { unit, default, min, max, .. } => {
            let short = bound(unit, default);
            let default = default.to_string();
            let shown = if short == default { default } else { format!("{default} ({short})") };
            (shown, format!("{} to {}", bound(unit, min), bound(unit, max)))
        }
        Kind::Choice { names, default } => {
            (format!("`{}`", names[default]), format!("`{}`", names.join("`, `")))
        }
        Kind::Text { content, default } => {
            let range = match content {
                Content::Path => "path",
                Content::Json => "JSON",
                Content::List => "list",
            };
            let shown =
                if default.is_empty() { "empty".to_owned() } else { format!("`{default}`") };
            (shown, range.to_owned())
        }
    }
}

/// The names of a choice.
fn choices(setting: Setting) -> &'static [&'static str] {
    match setting.spec().kind {
        Kind::Choice { names, .. } => names,
        _ => &[],
    }
}

/// The help text, with the names of settings, and of choices, as code.
fn meaning(setting: Setting, names: SettingNames) -> String {
    let mut words = choices(setting).to_vec();
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let mut out = String::new();
    let mut rest = setting.spec().help;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|it: char| is_word(it) != is_word(first)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let other = word.strip_prefix("tacho_").and_then(Setting::from_name);
        match other {
            // With its value, as it is written: `tacho_overflow=TIMEOUT`.
            Some(other) => {
                words.extend(choices(other));
                let value = behind.strip_prefix('=').map_or("", |value| {
                    &value[..value.find(|it: char| !is_word(it)).unwrap_or(value.len())]
                });
                let assigned = if value.is_empty() { String::new() } else { format!("={value}") };
                write!(out, "`{}{assigned}`", names.name(other)).expect("a text");
                rest = &behind[assigned.len()..];
            }
            None => {
                let is_choice = words.contains(&word);
                out.push_str(&if is_choice { format!("`{word}`") } else { word.to_owned() });
                rest = behind;
            }
        }
    }
    out
}

fn table(servers: Servers, names: SettingNames) -> String {
    let mut out =
        "| variable | default | range | dynamic | meaning |\n|---|---|---|---|---|\n".to_owned();
    for setting in Setting::ALL.into_iter().filter(|it| it.spec().servers == servers) {
        let (default, range) = cells(setting.spec().kind);
        let dynamic = if setting.spec().is_dynamic { "yes" } else { "no" };
        let (name, meaning) = (names.name(setting), meaning(setting, names));
        writeln!(out, "| `{name}` | {default} | {range} | {dynamic} | {meaning} |")
            .expect("a text");
    }
    out
}

/// The page with this table behind its mark.
fn replaced(page: &str, mark: &str, table: &str) -> String {
    let begin = format!("<!-- {mark}: generated from crates/settings/src/table.rs -->\n\n");
    let end = "\n<!-- end of generated -->";
    let (before, rest) = page.split_once(&begin).expect("the mark of the table");
    let (_, after) = rest.split_once(end).expect("the end of the table");
    format!("{before}{begin}{table}{end}{after}")
}

#[test]
fn the_guide_follows_the_table() {
    generated::check(GUIDE, |page| {
        let page = replaced(page, "all", &table(Servers::All, SettingNames::Plugin));
        replaced(&page, "mysql", &table(Servers::MySql, SettingNames::Component))
    });
}

#[test]
fn numbers_are_shown_with_the_largest_unit() {
    for (number, expected) in [
        (0, "0"),
        (1, "1"),
        (1000, "1000"),
        (4096, "4 KiB"),
        (64 << 30, "64 GiB"),
        (1 << 60, "1 EiB"),
    ] {
        assert_eq!(bytes(number), expected);
    }
    assert_eq!(bound(Unit::Seconds, 86_400), "86400");
    assert_eq!(bound(Unit::Seconds, 366 * 86_400), "366 days");
    assert_eq!(bound(Unit::Milliseconds, 3_600_000), "3600000");
}
