//! One manual page: what `clap_mangen` makes of the definition, and the sections that it does not
//! know.

use std::io::{self, Write as _};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::facts::{self, Facts};
use super::notes::{Block, Item, Notes, capitalized};

/// For commands whose `--help` does not list their exit codes.
const EXIT: &[(&str, &str)] = &[("0", "fine"), ("1", "the command failed"), ("2", "wrong usage")];

/// What a line of an example has room for: 80 columns without the margins of `man`.
const LINE_MAX: usize = 64;

/// What the page of `command` is called, for example `tacho-tail`.
pub fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// The page of `command`, which is built.
///
/// # Errors
/// None that memory would not have.
pub fn render(command: &Command) -> io::Result<Vec<u8>> {
    let version = command.get_version().unwrap_or_default();
    let man =
        Man::new(command.clone()).source(format!("Tachograph {version}")).manual("Tachograph");
    let help = command.get_after_long_help().or_else(|| command.get_after_help());
    let notes = Notes::parse(&help.map(ToString::to_string).unwrap_or_default());
    let facts = facts::of(name(command));

    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    page.write_all(synopsis(command).as_bytes())?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    page.write_all(more(&notes, facts).as_bytes())?;
    Ok(page)
}

/// What `--help` shows as usage: `clap_mangen` lists every option, and those that must be given
/// without their values.
fn synopsis(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let called = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for (number, form) in usage.trim_start_matches("Usage:").lines().enumerate() {
        if number > 0 {
            roff.control("br", []);
        }
        let form = form.trim();
        match form.strip_prefix(called) {
            Some(rest) => roff.text([bold(called), roman(rest)]),
            None => roff.text([roman(form)]),
        };
    }
    roff.to_roff()
}

fn more(notes: &Notes, facts: &Facts) -> String {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    if !notes.exit_intro.is_empty() {
        roff.text([roman(notes.exit_intro.as_str())]);
    }
    if notes.exit.is_empty() {
        table(&mut roff, EXIT.iter().copied());
    } else {
        table(&mut roff, pairs(&notes.exit));
    }
    roff.control("SH", ["FILES"]);
    table(&mut roff, facts.files.iter().copied().flatten().copied());
    if !notes.rest.is_empty() {
        roff.control("SH", ["NOTES"]);
    }
    for block in &notes.rest {
        match block {
            Block::Text(text) => {
                roff.control("PP", []);
                roff.text([roman(text.as_str())]);
            }
            Block::Table(items) => table(&mut roff, pairs(items)),
        }
    }
    roff.control("SH", ["EXAMPLES"]);
    for (command, meaning) in pairs(&notes.examples).chain(facts.examples.iter().copied()) {
        example(&mut roff, command, meaning);
    }
    roff.control("SH", ["SEE ALSO"]);
    see_also(&mut roff, facts);
    roff.to_roff()
}

fn pairs(items: &[Item]) -> impl Iterator<Item = (&str, &str)> {
    items.iter().map(|(term, meaning)| (term.as_str(), meaning.as_str()))
}

fn table<'a>(roff: &mut Roff, items: impl Iterator<Item = (&'a str, &'a str)>) {
    for (term, meaning) in items {
        roff.control("TP", []);
        roff.text([bold(term)]);
        roff.text([roman(meaning)]);
    }
}

/// The command's lines stay as they are, unless they are too long for a terminal.
fn example(roff: &mut Roff, command: &str, meaning: &str) {
    roff.control("PP", []);
    if !meaning.is_empty() {
        roff.text([roman(format!("{}:", capitalized(meaning)))]);
        roff.control("PP", []);
    }
    roff.control("RS", ["4"]).control("nf", []);
    for line in command.lines().flat_map(folded) {
        roff.text([roman(line)]);
    }
    roff.control("fi", []).control("RE", []);
}

/// A line of the shell, continued where it is too long, at spaces outside of quotes.
fn folded(line: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    let mut quoted = false;
    for word in line.split(' ') {
        if !quoted && !current.is_empty() && current.len() + word.len() > LINE_MAX {
            lines.push(current + " \\");
            current = format!("    {word}");
        } else {
            if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        quoted ^= word.matches('\'').count() % 2 == 1;
    }
    lines.push(current);
    lines
}

fn see_also(roff: &mut Roff, facts: &Facts) {
    let last = facts.see_also.len().saturating_sub(1);
    let mut line = Vec::new();
    for (number, page) in facts.see_also.iter().enumerate() {
        line.push(bold(*page));
        line.push(roman(if number == last { "(1)" } else { "(1), " }));
    }
    roff.text(line);
    roff.control("PP", []);
    roff.text([roman(format!("The guide: {}/{}", facts::DOCUMENTS, facts.guide))]);
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn long_commands_are_continued_outside_of_quotes() {
        let path = "p".repeat(50);
        let text = "'two words in quotes that are long'";
        assert_eq!(folded("tacho tail | head"), ["tacho tail | head"]);
        assert_eq!(
            folded(&format!("tacho digest --identity {path} {text} | sort")),
            [
                "tacho digest --identity \\".to_owned(),
                format!("    {path} {text} \\"),
                "    | sort".to_owned()
            ]
        );
    }
}
