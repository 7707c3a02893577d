//! Names in the directory that look like those of log files, but are not.

use super::report::LogState;
use super::walk::Walk;
use super::{HUB_REMOVED_FILE, LOG_ENDINGS, REMOVED_FILE, SIDECAR_ENDING};
use crate::entry::is_stem;

/// The beginning of the names of log files.
const HEAD: &str = "audit-";

impl Walk<'_> {
    /// Reports other files of the directory. A name that a careless reader or a pattern such as
    /// `audit-*.jsonl` takes for a log file is a finding: its lines are not sealed. Other files of
    /// lines, such as those that a recorder has set aside, are only mentioned.
    pub fn strays(&mut self, names: &[String]) {
        let mut strays: Vec<&String> = names.iter().filter(|name| is_stray(name)).collect();
        strays.sort();
        for name in strays {
            if name.to_ascii_lowercase().starts_with(HEAD) {
                let text = "looks like a file of the log, but no recorder makes such a name: it is \
                            not sealed and was not read";
                self.say(LogState::NotSealed, name, None, text);
            } else {
                self.report.add_note(format!("{name}: not a file of this log; it was not read"));
            }
        }
    }
}

fn is_stray(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_known = |ending: &str| {
        lower.strip_suffix(ending).is_some_and(|stem| stem.len() > 1 && stem.ends_with('.'))
    };
    let has_lines = LOG_ENDINGS.iter().any(|ending| is_known(ending)) || is_known(SIDECAR_ENDING);
    let is_ours = name.split_once('.').is_some_and(|(stem, ending)| {
        is_stem(stem) && (LOG_ENDINGS.contains(&ending) || ending == SIDECAR_ENDING)
    });
    has_lines && !is_ours && ![REMOVED_FILE, HUB_REMOVED_FILE].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_recorder_are_not_strays() {
        let stem = "audit-20261121T015944Z-000001";
        for ending in
            LOG_ENDINGS.iter().copied().chain(["chain", "jsonl.zst.new", "csv", "csv.zst"])
        {
            assert!(!is_stray(&format!("{stem}.{ending}")), "{ending}");
        }
        let hidden = [".lock", ".arenas", ".shipped", ".rewrite_rules.json"];
        for name in
            [REMOVED_FILE, HUB_REMOVED_FILE, "notes.txt", ".jsonl"].into_iter().chain(hidden)
        {
            assert!(!is_stray(name), "{name}");
        }
        for name in [
            "audit-20261121T015944Z-0000001.jsonl",
            "audit-20261121T015944Z-000001.JSONL",
            "AUDIT-20261121T015944Z-000001.jsonl.zst",
            "audit-20261121T015944Z-000001.jsonl.chain",
            "audit-20261121T015944Z-000001.old.jsonl",
            "audit-x.jsonl.age",
            "set-aside-audit-20261121T015944Z-000001.jsonl",
            "saved.jsonl",
            "removed.2.chain",
        ] {
            assert!(is_stray(name), "{name}");
        }
    }
}
