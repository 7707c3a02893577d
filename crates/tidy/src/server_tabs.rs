//! Blocks of a guide that differ between servers are in a group, which the site shows as tabs
//! (`docs/tabs.js`): before each block, a line has only the name of its server in bold.
//!
//! A statement for one server outside of a group, or of a section about that server, is one that a
//! reader with another server copies.

use std::sync::LazyLock;

use regex::Regex;

use crate::Finding;
use crate::tree::File;

/// The servers, in their order in each group.
pub const SERVERS: [&str; 3] = ["MariaDB", "MySQL 9.7", "MySQL 8.0"];

const ORDER: &str =
    "every group has the same order, MariaDB, MySQL 9.7, MySQL 8.0, and at least two of them";
const BLOCK: &str = "the site makes tabs of a name in bold and the code block right behind it";
const ALONE: &str = "it is for one server: give each server its block, under its name in bold";

/// Statements and sections that some servers do not have.
static ONE_SERVER: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?m)\b(?:UN)?INSTALL (?:SONAME|COMPONENT|PLUGIN)\b|^\[(?:mariadb|mysqld)\]|\bSET (?:GLOBAL|PERSIST|PERSIST_ONLY) tacho[_.]|\bSHOW GLOBAL STATUS\b.*\btacho|\bIDENTIFIED (?:VIA unix_socket|WITH auth_socket)\b";
    Regex::new(pattern).expect("the pattern is valid")
});

/// Languages of blocks that a reader copies. Others show what a program prints.
const COPIED: [&str; 4] = ["sql", "ini", "sh", "cnf"];

/// A part of a page.
#[derive(Clone, Copy, Debug)]
enum GuidePart<'a> {
    Heading(&'a str),
    /// A line that is only bold.
    Bold(&'a str),
    Block {
        language: &'a str,
        text: &'a str,
    },
    Text,
}

/// Checks a guide.
pub fn check(file: &File) -> Vec<Finding> {
    if !file.path.starts_with("docs/guide/") || !file.is(&["md"]) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut find = |line: usize, what: String, why: &'static str| {
        findings.push(Finding { path: file.path.clone(), line, what, why });
    };
    let pieces = pieces(&file.text);
    let mut is_of_one = false;
    // The group so far: the numbers of its servers, and the line where it begins.
    let mut group: (Vec<usize>, usize) = (Vec::new(), 0);
    let mut label = None;
    for (line, piece) in pieces.into_iter().chain([(0, GuidePart::Text)]) {
        let server = match piece {
            GuidePart::Bold(name) => SERVERS.iter().position(|server| *server == name),
            _ => None,
        };
        let is_block = matches!(piece, GuidePart::Block { .. });
        if let Some(line) = label.take()
            && !is_block
        {
            find(line, "a name of a server without a block".to_owned(), BLOCK);
        }
        match (server, piece) {
            (Some(server), _) => {
                if group.0.is_empty() {
                    group.1 = line;
                }
                group.0.push(server);
                label = Some(line);
                continue;
            }
            (None, GuidePart::Block { language, text }) if group.0.is_empty() => {
                let found = ONE_SERVER.find(text).filter(|_| COPIED.contains(&language));
                if let Some(found) = found.filter(|_| !is_of_one) {
                    let lines = text[..found.start()].matches('\n').count();
                    find(line + 1 + lines, format!("`{}`", found.as_str()), ALONE);
                }
                continue;
            }
            (None, GuidePart::Block { .. }) => continue,
            (None, GuidePart::Bold(name)) if name.starts_with("MySQL") => {
                find(line, format!("the name **{name}**"), ORDER);
            }
            (None, GuidePart::Heading(text)) => {
                is_of_one = SERVERS.iter().any(|server| text.contains(server));
            }
            (None, _) => {}
        }
        let (servers, begin) = std::mem::take(&mut group);
        if servers.len() == 1 || !servers.is_sorted_by(|one, next| one < next) {
            let names: Vec<&str> = servers.iter().map(|server| SERVERS[*server]).collect();
            find(begin, format!("the group {}", names.join(", ")), ORDER);
        }
    }
    findings
}

/// The parts of a page, each with its first line, without empty lines. Text is one part for each
/// line.
fn pieces(page: &str) -> Vec<(usize, GuidePart<'_>)> {
    let mut pieces = Vec::new();
    let mut offset = 0;
    let mut block: Option<(usize, &str, usize)> = None;
    for (index, line) in page.split_inclusive('\n').enumerate() {
        let (number, begin) = (index + 1, offset);
        offset += line.len();
        let line = line.trim_end();
        let fence = line.strip_prefix("```");
        match (block, fence) {
            (Some((first, language, start)), Some("")) => {
                pieces.push((first, GuidePart::Block { language, text: &page[start..begin] }));
                block = None;
            }
            (Some(_), _) => {}
            (None, Some(language)) => block = Some((number, language, offset)),
            (None, None) if line.is_empty() => {}
            (None, None) => pieces.push((number, piece(line))),
        }
    }
    pieces
}

fn piece(line: &str) -> GuidePart<'_> {
    if let Some(text) = line.strip_prefix('#') {
        return GuidePart::Heading(text);
    }
    let bold = line.strip_prefix("**").and_then(|rest| rest.strip_suffix("**"));
    match bold {
        Some(name) if !name.contains("**") => GuidePart::Bold(name),
        _ => GuidePart::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String)> {
        let findings = check(&File::new("docs/guide/x.md", text));
        findings.into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    fn member(server: &str, statement: &str) -> String {
        format!("**{server}**\n\n```sql\n{statement}\n```\n\n")
    }

    #[test]
    fn groups_have_the_order_of_all_groups() {
        let [one, two, three] = SERVERS.map(|server| member(server, "INSTALL PLUGIN x"));
        for good in [[&*one, &two, &three].concat(), [&*two, &three].concat()] {
            assert_eq!(found(&good), []);
            assert_eq!(found(&format!("# A\n\ntext\n\n{good}text\n")), []);
        }
        let group = |names: &str| vec![(1, format!("the group {names}"))];
        assert_eq!(found(&[&*two, &one].concat()), group("MySQL 9.7, MariaDB"));
        assert_eq!(found(&[&*one, &one].concat()), group("MariaDB, MariaDB"));
        assert_eq!(found(&one), group("MariaDB"));
        assert_eq!(found(&[&*one, "text\n\n", &two].concat()).len(), 2);
        assert_eq!(found("**MySQL**\n"), [(1, "the name **MySQL**".to_owned())]);
        let empty = found("**MariaDB**\n\ntext\n");
        assert_eq!(empty[0], (1, "a name of a server without a block".to_owned()));
        assert_eq!(found("**Nothing is lost.**\n\n**MySQL** has more\n"), []);
    }

    #[test]
    fn a_statement_for_one_server_is_under_its_name() {
        let block = |language: &str, text: &str| format!("```{language}\n{text}\n```\n");
        for statement in [
            "INSTALL SONAME 'tacho';",
            "UNINSTALL COMPONENT 'file://component_tacho';",
            "sudo mysql -e \"SET GLOBAL tacho.logging = OFF\"",
            "SHOW GLOBAL STATUS LIKE 'tacho%';",
            "[mysqld]",
        ] {
            let text = format!("SELECT 1;\n{statement}");
            let alone = found(&block("sql", &text));
            assert_eq!(alone.len(), 1, "{statement}");
            assert_eq!(alone[0].0, 3, "{statement}");
            assert_eq!(found(&format!("## MySQL 9.7\n\n{}", block("sql", &text))), []);
            assert_eq!(found(&block("console", &text)), []);
        }
        assert_eq!(found(&block("sql", "SELECT 1")), []);
        // A heading about both is not about one.
        assert_eq!(found(&format!("## Load\n\n{}", block("ini", "[mariadb]"))).len(), 1);
    }

    #[test]
    fn the_script_has_the_same_names() {
        let script = include_str!("../../../docs/tabs.js");
        assert!(script.contains(&format!("const SERVERS = {SERVERS:?};")), "docs/tabs.js");
    }
}
