//! Paths that a document or a script names exist.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::Finding;
use crate::tree::File;

const WHY: &str = "a reader looks for the file in vain, and a script that opens it fails";

/// A path from the root of the repository, in backticks.
static IN_DOCUMENT: LazyLock<Regex> = LazyLock::new(|| after("`"));

/// A path that a Python script appends to the root of the repository.
static IN_SCRIPT: LazyLock<Regex> = LazyLock::new(|| after(r#"\bROOT / ""#));

fn after(start: &str) -> Regex {
    const DIRECTORIES: &str = "adapters|bench|crates|docs|fuzz|include|packaging|scripts|tests";
    let pattern = format!("{start}((?:{DIRECTORIES})/[A-Za-z0-9_./-]*)");
    Regex::new(&pattern).expect("the pattern is valid")
}

/// The paths of a repository.
pub struct Paths(BTreeSet<String>);

impl Paths {
    /// All files and directories of `files`, which are relative to the root.
    pub fn new<'a>(files: impl IntoIterator<Item = &'a str>) -> Self {
        let mut paths = BTreeSet::new();
        for file in files {
            paths.insert(file.to_owned());
            let directories = file.match_indices('/').map(|(index, _)| file[..index].to_owned());
            paths.extend(directories);
        }
        Self(paths)
    }

    /// Paths that a document or a Python script names and that do not exist.
    ///
    /// The change log names what was there at the time. A pattern such as `docs/*.md` is cut at its
    /// star, and what is left is the beginning of a name. `NAME` in a path stands for any name.
    pub fn check(&self, file: &File) -> Vec<Finding> {
        let pattern = match file {
            file if file.path == "CHANGELOG.md" => return Vec::new(),
            file if file.is(&["md"]) => &IN_DOCUMENT,
            file if file.is(&["py"]) => &IN_SCRIPT,
            _ => return Vec::new(),
        };
        let mut findings = Vec::new();
        for (index, line) in file.text.lines().enumerate() {
            for found in pattern.captures_iter(line) {
                let (whole, path) = (found.get(0).expect("a match has a group 0"), &found[1]);
                let is_cut = !line[whole.end()..].starts_with(['`', '"', ' ', ':', ',', '#']);
                let is_template = path.contains("NAME");
                if !is_template && !self.contains(path.trim_end_matches(['/', '.']), is_cut) {
                    let what = format!("there is no {path}");
                    findings.push(Finding {
                        path: file.path.clone(),
                        line: index + 1,
                        what,
                        why: WHY,
                    });
                }
            }
        }
        findings
    }

    fn contains(&self, path: &str, is_cut: bool) -> bool {
        let begins =
            || self.0.range(path.to_owned()..).next().is_some_and(|next| next.starts_with(path));
        self.0.contains(path) || (is_cut && begins())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> Vec<String> {
        let paths = Paths::new(["crates/x/src/lib.rs", "docs/a.md"]);
        let findings = paths.check(&File::new("docs/a.md", text));
        findings.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        assert_eq!(wrong("see `crates/x/src/gone.rs`"), ["there is no crates/x/src/gone.rs"]);
        assert_eq!(wrong("run `scripts/gone.sh now`"), ["there is no scripts/gone.sh"]);
        assert_eq!(wrong("all of `crates/y/*.rs`"), ["there is no crates/y/"]);
        assert_eq!(wrong("no file `crates/x/src/lib`"), ["there is no crates/x/src/lib"]);
    }

    #[test]
    fn a_script_is_held_to_the_paths_it_opens() {
        let paths = Paths::new(["bench/a.c"]);
        let text = "gone, there = ROOT / \"bench/gone.c\", ROOT / \"bench/a.c\"";
        let findings = paths.check(&File::new("bench/measure.py", text));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].what, "there is no bench/gone.c");
    }

    #[test]
    fn a_path_that_exists_is_fine() {
        for text in ["`crates/x/src/lib.rs`", "`crates/x/`", "`docs/*.md`", "`docs/NAME.md`"] {
            assert_eq!(wrong(text), [""; 0], "{text}");
        }
    }
}
