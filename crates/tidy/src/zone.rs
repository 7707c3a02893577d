//! Crate roots and adapter files name their zone on the first line.

use crate::Finding;
use crate::tree::File;

const WHY: &str = "the zone says which rules the code must keep (docs/SAFETY.md)";

/// A crate root or an adapter file without a zone.
pub fn check(file: &File) -> Option<Finding> {
    if !needs_zone(&file.path) {
        return None;
    }
    let first = file.text.lines().next().unwrap_or_default();
    let comment = ["//! ", "// ", "/* "].iter().find_map(|mark| first.strip_prefix(mark));
    let zone = comment.and_then(|comment| comment.strip_prefix("Zone: "));
    let is_named = zone
        .is_some_and(|zone| ["hot", "cold", "outside"].iter().any(|name| zone.starts_with(name)));
    let what = "the first line is not `Zone: hot`, `Zone: cold` or `Zone: outside`".to_owned();
    (!is_named).then(|| Finding { path: file.path.clone(), line: 1, what, why: WHY })
}

fn needs_zone(path: &str) -> bool {
    let is_c = path.ends_with(".cc") || path.ends_with(".c") || path.ends_with(".h");
    let is_adapter = (path.starts_with("adapters/") || path.starts_with("include/")) && is_c;
    let is_root = path.ends_with("/src/lib.rs")
        || path.ends_with("/src/main.rs")
        || (path.contains("/src/bin/") && (path.ends_with("/main.rs") || is_file_of_bin(path)));
    is_adapter || is_root
}

/// Whether the file is a program of its own in `src/bin`, not a module of one.
fn is_file_of_bin(path: &str) -> bool {
    path.split_once("/src/bin/")
        .is_some_and(|(_, name)| !name.contains('/') && name.ends_with(".rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_wrong(path: &str, text: &str) -> bool {
        check(&File::new(path, text)).is_some()
    }

    #[test]
    fn a_file_without_a_zone_is_found() {
        for path in ["crates/x/src/lib.rs", "tests/src/bin/run/main.rs", "adapters/x/y/z.cc"] {
            assert!(is_wrong(path, "//! What it does.\n"), "{path}");
        }
        assert!(is_wrong("include/x.h", "// Zone: lukewarm\n"));
        assert!(is_wrong("crates/x/src/main.rs", ""));
        assert!(is_wrong("crates/x/src/bin/y.rs", "\n//! Zone: hot\n"));
    }

    #[test]
    fn a_zone_or_a_file_that_needs_none_is_fine() {
        assert!(!is_wrong("crates/x/src/lib.rs", "//! Zone: cold (mostly). What it does.\n"));
        assert!(!is_wrong("adapters/x.h", "// Zone: hot\n"));
        assert!(!is_wrong("include/x.h", "/* Zone: hot */\n"));
        assert!(!is_wrong("crates/x/src/module.rs", "//! A module.\n"));
        assert!(!is_wrong("crates/x/src/bin/y/module.rs", "//! A module.\n"));
    }
}
