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
