//! `include/tacho_embed.h` is written by hand: every number in it is compared with the Rust side
//! here, and the C++ compiler compares it with its own layout. (`include/tacho_settings.h` is
//! generated: `crates/settings/tests/header.rs`.)

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

use tacho_recorder::control::Severity;

use crate::encryption::Mode;
use crate::faults::Fault;
use crate::rewrite_calls::RewriteRule;
use crate::{
    EmbedConfig, EmbedStatus, FILTER_APPLIES, FILTER_IS_FILE, StatusText, WhoStrings, severity_of,
};

const HEADER: &str = include_str!("../../../include/tacho_embed.h");

/// `NAME = number` and `sizeof(..) == number` / `offsetof(..) == number`, as written in the header.
fn numbers(separator: &str, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, usize> {
    let pairs = HEADER.lines().flat_map(|line| line.split([',', '{'].as_slice()));
    let whole = HEADER.lines();
    let found: Vec<&str> = if separator == " = " { pairs.collect() } else { whole.collect() };
    found
        .iter()
        .filter_map(|text| text.trim().split_once(separator))
        .filter(|(name, _)| wanted(name))
        .map(|(name, rest)| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            let name = name.trim_start_matches("TACHO_ASSERT(").to_owned();
            (name, digits.parse().expect("a number"))
        })
        .collect()
}

/// `LastError` as `LAST_ERROR`.
fn upper(name: &str) -> String {
    let mut upper = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !upper.is_empty() {
            upper.push('_');
        }
        upper.push(letter.to_ascii_uppercase());
    }
    upper
}

#[test]
fn constants_are_those_of_the_enumerations() {
    let mut expected: BTreeMap<String, usize> = BTreeMap::new();
    for text in StatusText::ALL {
        assert_eq!(StatusText::from_number(text as i32), Some(text));
        expected.insert(format!("TACHO_TEXT_{}", upper(&format!("{text:?}"))), text as usize);
    }
    for fault in [Fault::Filter, Fault::Encryption, Fault::Rewrite] {
        assert_eq!(Fault::of(fault as i32), Some(fault));
        expected.insert(format!("TACHO_FAULT_{}", upper(&format!("{fault:?}"))), fault as usize);
    }
    for mode in [Mode::Check, Mode::Apply, Mode::Begin] {
        assert_eq!(Mode::of(mode as u32), mode);
        expected.insert(format!("TACHO_ENCRYPTION_{}", upper(&format!("{mode:?}"))), mode as usize);
    }
    for severity in [Severity::Note, Severity::Warning, Severity::Error] {
        assert_eq!(severity_of(severity as i32), severity);
        let name = format!("TACHO_SEVERITY_{}", upper(&format!("{severity:?}")));
        expected.insert(name, severity as usize);
    }
    expected.insert("TACHO_FILTER_FILE".to_owned(), FILTER_IS_FILE as usize);
    expected.insert("TACHO_FILTER_APPLY".to_owned(), FILTER_APPLIES as usize);
    assert_eq!(numbers(" = ", |name| name.starts_with("TACHO_")), expected);
    assert_eq!(StatusText::from_number(StatusText::ALL.len() as i32), None);
}

/// The size of a struct and the offset of each of its fields.
macro_rules! layout {
    ($c:literal, $rust:ty, $($field:ident)*) => {{
        let size = (format!("sizeof({})", $c), size_of::<$rust>());
        let offsets = [$(
            (format!("offsetof({}, {})", $c, stringify!($field)), offset_of!($rust, $field)),
        )*];
        std::iter::once(size).chain(offsets)
    }};
}

/// The fields of the header's structs, as `offsetof` names them.
fn fields() -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    for part in HEADER.split("typedef struct ").skip(1) {
        let Some((name, rest)) = part.split_once(" {").filter(|it| !it.0.contains(' ')) else {
            // Only a declaration.
            continue;
        };
        let (body, _) = rest.split_once(&format!("}} {name};")).expect("the end of a struct");
        for line in body.lines() {
            let declaration = line.split_once(';').map(|(declaration, _)| declaration);
            if let Some(field) = declaration.and_then(|it| it.rsplit([' ', '*']).next()) {
                fields.insert(format!("offsetof({name}, {field})"));
            }
        }
    }
    fields
}

#[test]
fn layouts_are_those_of_the_structs() {
    let expected: BTreeMap<String, usize> = layout!("tacho_embed_config", EmbedConfig,
        log_directory arena_directory signing_key_file server arena_bytes ending tables program
        external blocks)
    .chain(layout!("tacho_embed_status", EmbedStatus,
        records_written bytes_written records_filtered records_lost records_lost_timeout
        records_lost_dropped records_lost_corrupt records_lost_killed blocked_count
        blocked_time_us arena_bytes_used write_errors filter_rules sync_count sync_time_us
        sync_given_up files_removed files_compressed disk_free_bytes sessions sessions_max
        files_encrypted files files_bytes files_days files_to_pack format_behind_bytes
        statements_blocked statements_rewritten rewrite_rules rewrites_failed))
    .chain(layout!("tacho_who", WhoStrings, conn user priv_user host ip))
    .chain(layout!("tacho_rewrite_rule", RewriteRule,
        id pattern pattern_database replacement))
    .collect();
    let written = numbers(" == ", |name| name.starts_with("TACHO_ASSERT("));
    assert_eq!(written, expected);
    let asserted: BTreeSet<String> =
        written.into_keys().filter(|name| name.starts_with("offsetof")).collect();
    assert_eq!(asserted, fields(), "each field has an assertion");
}
