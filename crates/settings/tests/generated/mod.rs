//! Files that are written from the table.

use std::fs;
use std::path::Path;

/// Compares a file of the repository with what `make` makes of its text; with `TACHO_BLESS=1`,
/// writes that.
pub fn check(name: &str, make: impl FnOnce(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    let current = fs::read_to_string(&path).unwrap_or_default();
    let expected = make(&current);
    if std::env::var_os("TACHO_BLESS").is_some() {
        if current != expected {
            fs::write(&path, expected).expect("the file can be written");
        }
        return;
    }
    let wrong = current.lines().zip(expected.lines()).find(|(found, wanted)| found != wanted);
    assert!(
        current == expected,
        "{name} does not follow crates/settings/src/table.rs (TACHO_BLESS=1 writes it): {wrong:#?}"
    );
}
