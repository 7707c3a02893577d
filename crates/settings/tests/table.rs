//! Zone: outside. Rules that every row of the table obeys.

use std::collections::BTreeSet;

use tacho_settings::{Kind, Owner, Setting, Unit};

#[test]
fn names_are_those_of_the_enumeration() {
    for setting in Setting::ALL {
        let mut snake = String::new();
        for letter in format!("{setting:?}").chars() {
            if letter.is_ascii_uppercase() && !snake.is_empty() {
                snake.push('_');
            }
            snake.push(letter.to_ascii_lowercase());
        }
        assert_eq!(setting.name(), snake);
        assert_eq!(Setting::from_name(setting.name()), Some(setting));
    }
    let names: BTreeSet<&str> = Setting::ALL.into_iter().map(Setting::name).collect();
    assert_eq!(names.len(), Setting::COUNT);
}

#[test]
fn numbers_are_places() {
    for (place, setting) in Setting::ALL.into_iter().enumerate() {
        assert_eq!(usize::try_from(setting.number()), Ok(place));
        assert_eq!(Setting::from_number(setting.number()), Some(setting));
    }
    assert_eq!(Setting::from_number(-1), None);
    assert_eq!(Setting::from_number(Setting::COUNT as i32), None);
}

#[test]
fn units_are_in_the_names() {
    let units =
        [Unit::Bytes, Unit::Milliseconds, Unit::Seconds, Unit::Days, Unit::Files, Unit::Percent];
    for setting in Setting::ALL {
        let name = setting.name();
        let ends: Vec<Unit> = units.into_iter().filter(|it| name.ends_with(it.suffix())).collect();
        match setting.spec().kind {
            Kind::Number { unit, .. } => assert_eq!(ends, [unit], "{name}"),
            _ => assert_eq!(ends, [], "{name}"),
        }
    }
}

/// A text or a command has no number to give to the recorder, and what is read at the start cannot
/// be given to it later.
#[test]
fn the_recorder_owns_what_it_can_be_given() {
    for setting in Setting::ALL {
        let spec = setting.spec();
        let can_be_given =
            spec.is_dynamic && !matches!(spec.kind, Kind::Text { .. } | Kind::Command);
        assert!(can_be_given || spec.owner == Owner::Adapter, "{spec:?}");
    }
}

/// See the table: the adapters give the values in its order.
#[test]
fn the_format_is_known_before_files_move() {
    let before = [Setting::Timestamps, Setting::Format];
    let after = [
        Setting::RotateBytes,
        Setting::RotateIntervalS,
        Setting::RetentionDays,
        Setting::RetentionBytes,
        Setting::RetentionFiles,
        Setting::RetentionUnshipped,
        Setting::Compression,
        Setting::EncryptionRecipientsFile,
    ];
    assert!(before.is_sorted() && after.iter().all(|it| *it > Setting::Format));
}
