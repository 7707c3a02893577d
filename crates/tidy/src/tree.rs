//! The files of the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A text file of the repository.
#[derive(Clone, Debug)]
pub struct File {
    /// Relative to the root of the repository, with `/`.
    pub path: String,
    /// The content.
    pub text: String,
}

impl File {
    /// A file that exists only in a test.
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// The part after the last dot of the name, or the whole name if it has none.
    pub fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.rsplit('.').next().unwrap_or(name)
    }

    /// Whether the name ends in one of `extensions`.
    pub fn is(&self, extensions: &[&str]) -> bool {
        extensions.contains(&self.extension())
    }
}

/// Files that a program wrote: their lines and lengths are not ours to choose.
const GENERATED: &[(&str, &str)] = &[
    ("crates/sql/src/digest/keywords/table.rs", "scripts/digest-keywords.py writes it"),
    ("crates/record/src/charset/tables/", "scripts/charset-tables.py writes them"),
    ("docs/specs/commands.md", "a test writes it, with TACHO_BLESS=1"),
    ("docs/specs/commands-", "a test writes them, with TACHO_BLESS=1"),
];

/// Directories and files whose text is not ours.
const DATA: &[(&str, &str)] = &[
    ("fuzz/corpus/", "bytes for the fuzzers"),
    ("LICENSE", "not ours to reword"),
    ("packaging/copyright", "not ours to reword"),
];

fn is_among(path: &str, list: &[(&str, &str)]) -> bool {
    list.iter().any(|(prefix, _)| path.starts_with(prefix))
}

/// Whether a program wrote the file.
pub fn is_generated(path: &str) -> bool {
    is_among(path, GENERATED)
}

/// The root of the repository.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("crates/tidy is two folders below the root").to_path_buf()
}

/// The output of a git command in the repository. In a container the files may belong to another
/// user, which git refuses unless told otherwise.
pub fn git(arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "-C"])
        .arg(root())
        .args(arguments)
        .output()
        .expect("cannot run git: the checks need a clone of the repository, not an archive");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The names of all files of the repository, also of those that are not added yet.
pub fn names() -> Vec<String> {
    let names = git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// All text files of the repository, without [`DATA`].
pub fn files() -> Vec<File> {
    let names = names();
    let names = names.iter().filter(|name| !is_among(name, DATA));
    // Not there: deleted and not committed yet. Not UTF-8: no text.
    let file = |path: &String| {
        let text = std::fs::read_to_string(root().join(path)).ok()?;
        Some(File { path: path.clone(), text })
    };
    let files: Vec<File> = names.filter_map(file).collect();
    assert!(files.len() > 100, "git ls-files names {} files only", files.len());
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_of_a_name_without_a_dot_is_the_name() {
        assert_eq!(File::new("a.b/Makefile", "").extension(), "Makefile");
        assert_eq!(File::new("a/b.test.rs", "").extension(), "rs");
    }

    #[test]
    fn files_are_those_of_the_repository() {
        let files = files();
        assert!(files.iter().any(|file| file.path == "ARCHITECTURE.md"));
        assert!(!files.iter().any(|file| file.path.starts_with("fuzz/corpus/")));
    }

    #[test]
    fn lists_name_what_exists() {
        let names = names();
        for (prefix, reason) in GENERATED.iter().chain(DATA) {
            assert!(names.iter().any(|name| name.starts_with(prefix)), "{prefix}: {reason}");
        }
    }
}
