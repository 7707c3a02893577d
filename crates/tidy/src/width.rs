//! Lines of at most 100 columns.

use crate::Finding;
use crate::tree::{File, is_generated};

/// As in `rustfmt.toml` and `.clang-format`.
const COLUMNS: usize = 100;
const WHY: &str = "two windows fit side by side, and a diff shows the sentence that changed";

/// Lines that are too long.
///
/// Of Rust and C++ only comments: rustfmt and clang-format wrap the code, and a long text in quotes
/// cannot be wrapped. Of Markdown everything but tables, code and headings.
pub fn check(file: &File) -> Vec<Finding> {
    if is_generated(&file.path) {
        return Vec::new();
    }
    let is_judged: fn(&str) -> bool = match file.extension() {
        "rs" | "cc" | "c" | "h" => |line| line.trim_start().starts_with("//"),
        "md" => |line| !line.starts_with(['|', '#']),
        "sh" | "py" | "Makefile" => |_| true,
        _ => return Vec::new(),
    };
    let mut is_code = false;
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if file.is(&["md"]) && is_fence(line) {
            is_code = !is_code;
            continue;
        }
        let columns = line.chars().count();
        if columns > COLUMNS && !is_code && is_judged(line) && !is_unbreakable(line) {
            let what = format!("{columns} columns, more than {COLUMNS}");
            findings.push(Finding { path: file.path.clone(), line: index + 1, what, why: WHY });
        }
    }
    findings
}

fn is_fence(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("```") || line.starts_with("~~~")
}

/// Whether a line cannot be shorter: it has a link, or one word that is half as long as a line, or
/// `make help` shows it.
fn is_unbreakable(line: &str) -> bool {
    let longest = line.split([' ', '\t']).map(|word| word.chars().count()).max().unwrap_or(0);
    longest > COLUMNS / 2 || line.contains("](") || is_make_target(line)
}

fn is_make_target(line: &str) -> bool {
    let is_target = |head: &str| head.contains(':') && !head.starts_with(['\t', ' ', '#']);
    line.starts_with(".PHONY:") || line.split_once(" ## ").is_some_and(|(head, _)| is_target(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&File::new(path, text)).into_iter().map(|finding| finding.line).collect()
    }

    fn long(begin: &str) -> String {
        format!("{begin}{}", " word".repeat(20))
    }

    #[test]
    fn long_prose_is_found() {
        assert_eq!(lines("a.md", &format!("fine\n{}\n", long("some"))), [2]);
        assert_eq!(lines("a.rs", &long("    //! some")), [1]);
        assert_eq!(lines("a.cc", &long("// some")), [1]);
        assert_eq!(lines("a.sh", &long("echo some")), [1]);
        assert_eq!(lines("Makefile", &long("\techo some")), [1]);
        assert_eq!(check(&File::new("a.md", &"é ".repeat(50))), []);
        assert_eq!(
            check(&File::new("a/b.md", &long("some")))[0].to_string(),
            format!("a/b.md:1: 104 columns, more than 100: {WHY}")
        );
    }

    #[test]
    fn what_cannot_be_wrapped_is_not() {
        assert_eq!(lines("a.md", &long("| a table")), [0; 0]);
        assert_eq!(lines("a.md", &format!("```\n{}\n```\n", long("code"))), [0; 0]);
        assert_eq!(lines("a.md", &long("see [it](there)")), [0; 0]);
        assert_eq!(lines("a.rs", &long("let text = \"")), [0; 0]);
        assert_eq!(lines("a.json", &long("x")), [0; 0]);
        assert_eq!(lines("Makefile", &long("target: other ## Help")), [0; 0]);
    }
}
