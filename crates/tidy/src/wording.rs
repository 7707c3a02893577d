//! Wordings that make English sound translated, and what to write instead.
//!
//! The list has what was removed once. Each directory has a number of places that are left, for
//! each wording (`ratchets/wording.txt`); it can only shrink.

use std::sync::LazyLock;

use regex::Regex;

use crate::Finding;
use crate::tree::{File, is_generated};

/// A wording that does not come back.
struct Wording {
    /// Its name in messages and in the ratchet file.
    name: &'static str,
    /// A regular expression; a space also stands for the end of a line. `^` is where a line begins.
    pattern: &'static str,
    /// Words that may follow after all.
    unless: &'static [&'static str],
    /// What to write instead.
    instead: &'static str,
}

const WORDINGS: &[Wording] = &[
    Wording {
        name: "told",
        pattern: r"\b(?:is|are|was|were|be|been|being) told\b|\btells? (?:of|that)\b|\btold of\b",
        unless: &[],
        instead: "say which component reports, logs, shows or warns",
    },
    Wording {
        name: "goes on",
        pattern: r"\bgo(?:es)? on\b|\bwent on\b|\bgoing on\b",
        unless: &[],
        instead: "continue, resume, run, follow",
    },
    Wording {
        name: "nobody",
        pattern: r"\b(?:[Nn]obody|[Ss]omebody|[Ee]verybody)\b",
        unless: &[],
        instead: "name the component, account or reader: no client, another process, every user",
    },
    Wording {
        name: "who as a subject",
        pattern: r"(?:^|[.;:|] )(?:Who|What) ([a-z]+)",
        unless: &[
            "is", "are", "does", "do", "was", "were", "can", "could", "should", "must", "happens",
            "happened", "to", "it", "they", "you", "a", "an", "the", "each", "this", "that",
        ],
        instead: "begin with the subject: accounts that, the session that, files that",
    },
    Wording {
        name: "for who",
        pattern: r"\b(?:for|from|of|by|to) who (?:has|is|wants|sends|reads|asks|writes)\b",
        unless: &[],
        instead: "accounts that, readers that, the session that",
    },
    Wording {
        name: "is had",
        pattern: r"\b(?:can|could|to|is|are) be had\b|\b(?:is|are) had\b|\bto be had\b",
        unless: &[],
        instead: "available, obtained, installed",
    },
    Wording {
        name: "let go",
        pattern: r"\blet(?:s|ting)? go\b|\bis let\b|\bare let\b",
        unless: &[],
        instead: "release, unlock, close, allow",
    },
    Wording { name: "but for", pattern: r"\bbut for\b", unless: &[], instead: "except" },
    Wording {
        name: "by itself",
        pattern: r"\bby (?:itself|themselves)\b",
        unless: &[],
        instead: "automatically, alone, without further settings",
    },
    Wording {
        name: "shall",
        pattern: r"\b[Ss]hall\b",
        unless: &[],
        instead: "must for a requirement, present tense for a fact",
    },
    Wording {
        name: "is of",
        pattern: r"\b(?:is|are|was|were) of (?:a|an|the|its|what|that)\b",
        unless: &[],
        instead: "belongs to, comes from, has, dates from",
    },
    Wording {
        name: "has come",
        pattern: r"\bha(?:s|ve) not come\b|\b(?:came|comes) of\b|\bcomes? to (?:the|it|this|that)\b",
        unless: &[],
        instead: "not received, results from, amounts to",
    },
    Wording {
        name: "is seen",
        pattern: r"\b(?:is|are|was|were) seen\b",
        unless: &[],
        instead: "verified by a test, observed, detected",
    },
    Wording {
        name: "what it owes",
        pattern: r"\bwhat (?:it|they|he) (?:owes?|wants?|gives?|takes?)\b",
        unless: &[],
        instead: "the obligation, the requirement, the result, by its noun",
    },
    Wording {
        name: "is waited for",
        pattern: r"\b(?:is|are|was|were) waited for\b",
        unless: &[],
        instead: "the writer waits for",
    },
    Wording {
        name: "sleep over",
        pattern: r"\bsle(?:ep|eps|pt) over\b|\brang\b|\bwho rings\b",
        unless: &[],
        instead: "miss a wakeup, wake",
    },
    Wording {
        name: "far apart",
        pattern: r"\blies? (?:further|far) apart\b",
        unless: &[],
        instead: "the interval is longer, the distance is larger",
    },
    Wording {
        name: "taker",
        pattern: r"\bone taker\b|\btakes? nothing\b|\b(?:is|are) braked\b",
        unless: &[],
        instead: "subscriber; stopped reading; is rate-limited",
    },
    Wording {
        name: "otherwise",
        pattern: r"\ba little otherwise\b|\bhad otherwise\b|\bsays yes\b|\bgot to is\b",
        unless: &[],
        instead: "differently; not possible without; permits; the position is",
    },
    Wording { name: "Mind", pattern: r"(?:^|[#|] )Mind\b", unless: &[], instead: "Caveats, Note" },
];

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let regex = |wording: &Wording| {
        let pattern = wording.pattern.replace(' ', r"[ \n]");
        Regex::new(&format!("(?m){pattern}")).expect("the patterns are valid")
    };
    WORDINGS.iter().map(regex).collect()
});

/// Files whose texts people read. The results of mtr are what a server prints.
const EXTENSIONS: &[&str] = &[
    "md", "rs", "cc", "c", "h", "py", "sh", "toml", "sql", "js", "html", "lua", "map", "Makefile",
    "service",
];

/// The wordings in a file, each as the name of its place in the ratchet file, and the finding.
pub fn check(file: &File) -> Vec<(String, Finding)> {
    // This file has the wordings, as patterns and examples.
    let is_list = file.path == "crates/tidy/src/wording.rs";
    if !file.is(EXTENSIONS) || is_generated(&file.path) || is_list {
        return Vec::new();
    }
    let (text, starts) = prose(&file.text);
    let mut findings = Vec::new();
    for (wording, regex) in WORDINGS.iter().zip(PATTERNS.iter()) {
        for found in regex.captures_iter(&text) {
            let next = found.get(1).map_or("", |word| word.as_str());
            if wording.unless.contains(&next) {
                continue;
            }
            let whole = found.get(0).expect("group 0 is the match");
            let line = starts.partition_point(|start| *start <= whole.start());
            let quoted = whole.as_str().replace('\n', " ");
            let what = format!("\"{}\"", quoted.trim());
            let why = wording.instead;
            let place = format!("{}: {}", directory(&file.path), wording.name);
            findings.push((place, Finding { path: file.path.clone(), line, what, why }));
        }
    }
    findings
}

/// The text with the marks of comments removed, so that a wording is found across lines, and where
/// each of its lines begins.
fn prose(text: &str) -> (String, Vec<usize>) {
    let mut prose = String::with_capacity(text.len());
    let mut starts = Vec::new();
    for line in text.lines() {
        starts.push(prose.len());
        let line = line.trim_start();
        let words = line.trim_start_matches(['/', '!', '*']).trim_start();
        prose.push_str(words.strip_prefix("# ").unwrap_or(words).trim_end_matches([' ', '\\']));
        prose.push('\n');
    }
    (prose, starts)
}

/// The first two folders of a path.
fn directory(path: &str) -> &str {
    let second = path.match_indices('/').take(2).last();
    second.map_or(".", |(index, _)| &path[..index])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let findings = check(&File::new("docs/guide/a.md", text));
        findings
            .into_iter()
            .map(|(place, _)| place.split_once(": ").unwrap().1.to_owned())
            .collect()
    }

    #[test]
    fn each_wording_is_found() {
        for (text, name) in [
            ("a gap is told of", "told"),
            ("it tells that", "told"),
            ("the server goes on", "goes on"),
            ("Nobody reads it", "nobody"),
            ("Who has SUPER is never blocked", "who as a subject"),
            ("Fine. What comes later is kept", "who as a subject"),
            ("for who reads it", "for who"),
            ("it cannot otherwise be found, or to be had", "is had"),
            ("the lock is let go", "let go"),
            ("all but for one", "but for"),
            ("starts by itself", "by itself"),
            ("It shall not", "shall"),
            ("is of a time", "is of"),
            ("version 3 has not come", "has come"),
            ("what was seen there", "is seen"),
            ("what it owes the reader", "what it owes"),
            ("a receiver is waited for", "is waited for"),
            ("not slept over", "sleep over"),
            ("lies further apart", "far apart"),
            ("it takes nothing", "taker"),
            ("a little otherwise", "otherwise"),
            ("## Mind", "Mind"),
        ] {
            assert_eq!(found(text), [name], "{text}");
        }
        assert_eq!(WORDINGS.len(), 20, "add an example above for each wording");
    }

    #[test]
    fn plain_english_is_fine() {
        for text in [
            "What happens: the writer continues. What it guarantees",
            "Accounts with SUPER are never blocked.",
            "Click the button, but forget the rest",
            "`is_told` and `go_on` are names",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_wording_is_found_across_the_lines_of_a_comment() {
        let text = "fn f() {\n    // The server goes\n    // on with the next.\n}\n";
        let findings = check(&File::new("crates/x/src/lib.rs", text));
        let (place, finding) = &findings[0];
        assert_eq!(place, "crates/x: goes on");
        assert_eq!(
            finding.to_string(),
            "crates/x/src/lib.rs:2: \"goes on\": continue, resume, run, follow"
        );
    }

    #[test]
    fn other_files_are_left_out() {
        assert_eq!(check(&File::new("a.result", "it goes on")), []);
        assert_eq!(directory("README.md"), ".");
        assert_eq!(directory("scripts/a.sh"), "scripts");
        assert_eq!(directory("crates/x/src/a.rs"), "crates/x");
    }
}
