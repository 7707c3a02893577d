//! Lines that are not committed yet: when a count is over its limit, these are the likely cause.

use std::collections::BTreeSet;

use crate::Finding;

/// Lines of the working tree that the last commit does not have.
#[derive(Default)]
pub struct Changed(BTreeSet<(String, usize)>);

impl Changed {
    /// Asks git.
    pub fn from_git() -> Self {
        Self::from_diff(&crate::tree::git(&["diff", "--unified=0", "--no-color", "HEAD"]))
    }

    fn from_diff(diff: &str) -> Self {
        let mut lines = BTreeSet::new();
        let mut path = "";
        for line in diff.lines() {
            if let Some(name) = line.strip_prefix("+++ b/") {
                path = name;
            } else if let Some(hunk) = line.strip_prefix("@@ ") {
                let added = hunk.split(" @@").next().and_then(|hunk| hunk.split('+').nth(1));
                let mut numbers = added.unwrap_or("").split(',').map(str::parse::<usize>);
                let (Some(Ok(first)), count) = (numbers.next(), numbers.next()) else { continue };
                let count = count.and_then(Result::ok).unwrap_or(1);
                lines.extend((first..first + count).map(|number| (path.to_owned(), number)));
            }
        }
        Self(lines)
    }

    /// The findings in changed lines, or all if none is in one.
    pub fn first<'a>(&self, findings: &'a [Finding]) -> Vec<&'a Finding> {
        let is_changed =
            |finding: &&Finding| self.0.contains(&(finding.path.clone(), finding.line));
        let changed: Vec<_> = findings.iter().filter(is_changed).collect();
        if changed.is_empty() { findings.iter().collect() } else { changed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str =
        "--- a/x.md\n+++ b/x.md\n@@ -3,0 +4,2 @@ text\n+a\n+b\n@@ -9 +11 @@\n-c\n+d\n";

    fn finding(line: usize) -> Finding {
        Finding { path: "x.md".to_owned(), line, what: String::new(), why: "" }
    }

    #[test]
    fn changed_lines_come_first() {
        let changed = Changed::from_diff(DIFF);
        let findings = [finding(3), finding(5), finding(11)];
        assert_eq!(changed.first(&findings), [&findings[1], &findings[2]]);
        assert_eq!(changed.first(&findings[..1]), [&findings[0]]);
    }
}
