//! Each crate inherits the lints of the workspace.

use crate::Finding;
use crate::tree::File;

const WHY: &str = "the lints of the workspace hold only in crates that inherit them, and cargo does \
                   not warn about one that does not";

/// A manifest of a member of the workspace that does not inherit its lints.
pub fn check(file: &File) -> Option<Finding> {
    let is_member = file.path != "Cargo.toml"
        && file.path != "fuzz/Cargo.toml"
        && file.path.ends_with("Cargo.toml");
    let inherits = file.text.contains("[lints]\nworkspace = true\n");
    let what = "no `[lints]` with `workspace = true`".to_owned();
    (is_member && !inherits).then(|| Finding { path: file.path.clone(), line: 1, what, why: WHY })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_without_lints_is_found() {
        let path = "crates/x/Cargo.toml";
        assert!(check(&File::new(path, "[package]\n")).is_some());
        assert!(check(&File::new(path, "[lints]\nworkspace = false\n")).is_some());
        assert_eq!(check(&File::new(path, "[lints]\nworkspace = true\n")), None);
        assert_eq!(check(&File::new("Cargo.toml", "[workspace]\n")), None);
    }
}
