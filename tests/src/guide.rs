//! Tables of the guides, and the settings that are numbers.

use std::collections::BTreeMap;

use tacho_settings::{Kind, Setting, SettingNames};

/// Rows of the tables of a page whose first cell is a name in backticks: the other cells by name.
///
/// # Panics
/// A name has no end, or is there twice.
#[must_use]
pub fn rows(page: &str, begin: &str) -> BTreeMap<String, Vec<String>> {
    let mut rows = BTreeMap::new();
    for line in page.lines() {
        let Some(line) = line.strip_prefix("| `").and_then(|line| line.strip_suffix('|')) else {
            continue;
        };
        let (name, rest) = line.split_once('`').expect("a closing backtick");
        if name.starts_with(begin) {
            let cells = rest.split('|').skip(1).map(|cell| cell.trim().to_owned()).collect();
            let before = rows.insert(name.to_owned(), cells);
            assert!(before.is_none(), "{name} is there twice");
        }
    }
    rows
}

/// `64 MiB`, `366 days`, `1000`.
///
/// # Panics
/// It is not a number with a known unit.
#[must_use]
pub fn quantity(text: &str) -> u64 {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let factor = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "EiB" => 1 << 60,
        "days" => 86_400,
        other => panic!("{text:?}: the unit {other:?} is not known"),
    };
    number.parse::<u64>().unwrap_or_else(|_| panic!("{text:?} is no number")) * factor
}

/// A setting that is a number, with its name on MariaDB.
#[derive(Clone, Debug)]
pub struct Number {
    /// `tacho_rotate_bytes`.
    pub name: String,
    /// The smallest value.
    pub min: u64,
    /// The largest one.
    pub max: u64,
    /// `SET GLOBAL` can change it.
    pub is_dynamic: bool,
}

/// Those of the table of settings.
#[must_use]
pub fn numbers() -> Vec<Number> {
    let number = |setting: Setting| {
        let spec = setting.spec();
        let Kind::Number { min, max, .. } = spec.kind else { return None };
        let name = SettingNames::Plugin.name(setting);
        Some(Number { name, min, max, is_dynamic: spec.is_dynamic })
    };
    Setting::ALL.into_iter().filter_map(number).collect()
}
