//! Parses the notes at the end of a command's `--help`, so that a manual page can put each part
//! into its usual section and layout: in a terminal, spaces align a table, and a page that reflows
//! its text would lose them.

use std::sync::LazyLock;

use regex::Regex;

/// Before an exit code in a sentence such as `0 fine, 1 broken lines; 2 wrong usage`.
static CODE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:^|[,;]\s+)(\d{1,3})\s+").expect("a constant"));

/// Before a cell of a table.
static GAP: LazyLock<Regex> = LazyLock::new(|| Regex::new(r" {2,}").expect("a constant"));

/// A term and its meaning.
pub type Item = (String, String);

/// A part of the text.
#[derive(Debug, PartialEq, Eq)]
pub enum Block {
    /// A paragraph, to be flowed.
    Text(String),
    /// A table of two columns.
    Table(Vec<Item>),
}

/// The parts of the notes, by their section.
#[derive(Debug, Default)]
pub struct Notes {
    /// The text before the exit codes.
    pub exit_intro: String,
    /// Exit codes in ascending order.
    pub exit: Vec<Item>,
    /// Commands and their effects; may be empty.
    pub examples: Vec<Item>,
    /// All other parts.
    pub rest: Vec<Block>,
}

impl Notes {
    /// Splits `text` into its parts.
    pub fn parse(text: &str) -> Self {
        let mut notes = Self::default();
        for paragraph in text.split("\n\n") {
            notes.take(paragraph);
        }
        notes.exit.sort_by_key(|(code, _)| code.parse().unwrap_or(u32::MAX));
        notes
    }

    fn take(&mut self, paragraph: &str) {
        let lines: Vec<&str> = paragraph.lines().collect();
        let lead_end = lines.iter().position(|line| line.starts_with(' ')).unwrap_or(lines.len());
        let (lead, table) = lines.split_at(lead_end);
        let lead = lead.join("\n");
        let table = items(table);
        if let Some(codes) = lead.strip_prefix("Exit code") {
            self.take_exit(codes, &table);
        } else if !table.is_empty() && table.iter().all(|(term, _)| term.starts_with("tacho ")) {
            if !lead.starts_with("For example") && !lead.is_empty() {
                self.rest.push(Block::Text(lead));
            }
            self.examples.extend(table);
        } else {
            if !lead.is_empty() {
                self.rest.push(Block::Text(lead));
            }
            if !table.is_empty() {
                self.rest.push(Block::Table(table));
            }
        }
    }

    fn take_exit(&mut self, lead: &str, table: &[Item]) {
        let lead = lead.trim_start_matches([':', ',', ' ']);
        if table.is_empty() {
            self.exit.extend(codes(lead));
        } else {
            self.exit_intro = capitalized(lead);
            for (code, meaning) in table {
                self.exit.extend(codes(&format!("{code} {meaning}")));
            }
        }
    }
}

/// The lines of a table: a term and, after two spaces or more, its meaning. A line with the same
/// indent as the meaning continues it.
fn items(lines: &[&str]) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut column = usize::MAX;
    for line in lines {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if indent >= column
            && let Some((_, meaning)) = items.last_mut()
        {
            meaning.push(' ');
            meaning.push_str(text);
        } else if let Some(gap) = GAP.find(text) {
            column = indent + gap.end();
            items.push((text[..gap.start()].to_owned(), text[gap.end()..].to_owned()));
        } else {
            column = usize::MAX;
            items.push((text.to_owned(), String::new()));
        }
    }
    items
}

/// The exit codes in a sentence.
fn codes(text: &str) -> Vec<Item> {
    let found: Vec<_> = CODE.captures_iter(text).filter_map(|found| found.get(1)).collect();
    let starts = CODE.find_iter(text).map(|found| found.start()).skip(1).chain([text.len()]);
    let meaning = |from: usize, to: usize| {
        text[from..to].trim().trim_end_matches(['.', ';', ',']).replace('\n', " ")
    };
    let item = |(code, end): (&regex::Match<'_>, usize)| {
        (code.as_str().to_owned(), meaning(code.end(), end))
    };
    found.iter().zip(starts).map(item).collect()
}

/// `text` as the beginning of a sentence.
pub fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(term: &str, meaning: &str) -> Item {
        (term.to_owned(), meaning.to_owned())
    }

    #[test]
    fn exit_codes_in_a_sentence_are_separated() {
        let notes = Notes::parse(
            "Text.\n\nExit code: 0 fine, also\nthen; 1 no, not so (3 of\n4); 2 wrong.",
        );
        assert_eq!(notes.rest, [Block::Text("Text.".to_owned())]);
        let expected =
            [item("0", "fine, also then"), item("1", "no, not so (3 of 4)"), item("2", "wrong")];
        assert_eq!(notes.exit, expected);
    }

    #[test]
    fn exit_codes_in_a_table_are_in_order() {
        let notes = Notes::parse(
            "Exit code, the worst:\n   0  OK\n  10  lost, or\n      not\n   1  failed;  2  wrong",
        );
        assert_eq!(notes.exit_intro, "The worst:");
        let expected =
            [item("0", "OK"), item("1", "failed"), item("2", "wrong"), item("10", "lost, or not")];
        assert_eq!(notes.exit, expected);
    }

    #[test]
    fn tables_stay_tables_and_commands_become_examples() {
        let notes = Notes::parse(
            "WHEN is\n  today, now   this day\n               (or moment)\n  1d           ago\n\n  \
             tacho a | b\n  tacho c    why",
        );
        let table = [item("today, now", "this day (or moment)"), item("1d", "ago")];
        let rest = [Block::Text("WHEN is".to_owned()), Block::Table(table.to_vec())];
        assert_eq!(notes.rest, rest);
        assert_eq!(notes.examples, [item("tacho a | b", ""), item("tacho c", "why")]);
    }
}
