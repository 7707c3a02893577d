//! Zone: outside. Manual pages and shell completions of the project's commands, generated from the
//! definition of the command line so that they cannot differ from it. [`Facts`] are what the
//! definition lacks: examples, files, related pages.

mod facts;
mod notes;
mod page;

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use clap::Command;
pub use clap_complete::Shell;

pub use facts::{Fact, Facts};
pub use page::name;

/// The manual of one command line.
#[derive(Clone, Debug)]
pub struct Manual {
    command: Command,
    pages: &'static [Facts],
}

impl Manual {
    /// Of a command whose pages have these facts; the first ones are for pages without their own.
    #[must_use]
    pub fn new(command: Command, pages: &'static [Facts]) -> Self {
        let mut command = command.disable_help_subcommand(true);
        command.build();
        Self { command, pages }
    }

    /// The command and all below it that are not hidden.
    #[must_use]
    pub fn commands(&self) -> Vec<&Command> {
        with_subcommands(&self.command)
    }

    /// What is wrong with the facts: commands without them, facts of no command, and pages of this
    /// command line that are named and do not exist.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let names: Vec<&str> = self.commands().into_iter().map(page::name).collect();
        let main = self.command.get_name();
        let mut faults = Vec::new();
        for name in &names {
            let count = self.pages.iter().filter(|page| page.name == *name).count();
            if count != 1 {
                faults.push(format!("{name} has facts {count} times"));
            }
        }
        for page in self.pages {
            if !names.contains(&page.name) {
                faults.push(format!("{} is no command", page.name));
            }
            for other in page.see_also {
                let is_ours = *other == main || other.starts_with(&format!("{main}-"));
                if *other == page.name || is_ours && !names.contains(other) {
                    faults.push(format!("{} names {other}", page.name));
                }
            }
        }
        faults
    }

    /// Writes one page per subcommand into `directory`, or the main page to stdout.
    ///
    /// # Errors
    /// The directory cannot be created, or a page cannot be written.
    pub fn write_pages(&self, directory: Option<&Path>) -> io::Result<()> {
        let render = |command| page::render(command, facts::of(self.pages, page::name(command)));
        let Some(directory) = directory else { return write_out(&render(&self.command)?) };
        fs::create_dir_all(directory)?;
        for command in self.commands() {
            fs::write(directory.join(format!("{}.1", page::name(command))), render(command)?)?;
        }
        Ok(())
    }
}

/// Writes the completion script of a shell to stdout.
///
/// # Errors
/// Stdout cannot be written.
pub fn write_completions(shell: Shell, command: &mut Command) -> io::Result<()> {
    let name = command.get_name().to_owned();
    // The generator panics if its writer fails, so it gets one that cannot.
    let mut script = Vec::new();
    clap_complete::generate(shell, command, name, &mut script);
    write_out(&script)
}

fn with_subcommands(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    std::iter::once(command).chain(below.flat_map(with_subcommands)).collect()
}

fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_other_commands_are_faults() {
        const NONE: Facts =
            Facts { name: "x", examples: &[], files: &[], see_also: &[], guide: "" };
        const PAGES: &[Facts] = &[
            Facts { see_also: &["x-sub", "x-gone", "other", "x"], ..NONE },
            Facts { name: "x-old", ..NONE },
        ];
        let command = Command::new("x").subcommand(Command::new("sub"));
        assert_eq!(
            Manual::new(command, PAGES).faults(),
            ["x-sub has facts 0 times", "x names x-gone", "x names x", "x-old is no command"]
        );
    }
}
