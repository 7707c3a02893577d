//! Memory orderings name their partner.

use std::sync::LazyLock;

use regex::Regex;

use crate::Finding;
use crate::tree::File;

/// How far above the ordering the comment may be.
const LINES: usize = 6;
const WHY: &str = "an ordering is right only together with its partner: a `// SYNC name:` comment \
                   above says which access it pairs with";

static ORDERING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\bOrdering::(?:Acquire|Release|AcqRel|SeqCst)\b").expect("the pattern is valid")
});

/// Orderings stronger than Relaxed without a comment, in crates, except in their tests and models.
pub fn check(file: &File) -> Vec<Finding> {
    let is_test = file.path.contains("/tests/")
        || ["tests.rs", "models.rs"].iter().any(|n| file.path.ends_with(n));
    let is_source = file.path.starts_with("crates/") && file.path.contains("/src/");
    if !file.is(&["rs"]) || !is_source || is_test {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().take_while(|line| *line != "mod tests {").collect();
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let above = &lines[index.saturating_sub(LINES)..=index];
        if let Some(found) = ORDERING.find(line)
            && !line.trim_start().starts_with("//")
            && !above.iter().any(|line| line.contains("// SYNC "))
        {
            let what = format!("{} without a partner", found.as_str());
            findings.push(Finding { path: file.path.clone(), line: index + 1, what, why: WHY });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&File::new(path, text)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn an_ordering_without_a_partner_is_found() {
        let text = "let x = 1;\nword.store(1, Ordering::Release);\n";
        assert_eq!(lines("crates/x/src/a.rs", text), [2]);
        let text =
            format!("// SYNC a: far away.\n{text}{}word.load(Ordering::SeqCst);\n", "\n".repeat(9));
        assert_eq!(lines("crates/x/src/a.rs", &text), [13]);
    }

    #[test]
    fn a_partner_a_test_or_a_relaxed_one_is_fine() {
        let text = "// SYNC a: pairs with b.\nword.store(1, Ordering::Release);\n";
        assert_eq!(lines("crates/x/src/a.rs", text), [0; 0]);
        assert_eq!(lines("crates/x/src/a.rs", "word.load(Ordering::Relaxed);\n"), [0; 0]);
        assert_eq!(lines("crates/x/src/a.rs", "// Ordering::Acquire\n"), [0; 0]);
        let text = "mod tests {\nword.load(Ordering::SeqCst);\n}\n";
        assert_eq!(lines("crates/x/src/a.rs", text), [0; 0]);
        assert_eq!(lines("crates/x/src/tests.rs", "word.load(Ordering::SeqCst);\n"), [0; 0]);
    }
}
