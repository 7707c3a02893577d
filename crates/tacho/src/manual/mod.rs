//! Shell completions and manual pages, generated from the definition of the command line so that
//! they cannot differ from it. [`facts`] adds what the definition lacks: examples, files, related
//! pages.

mod facts;
mod notes;
mod page;

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use clap::{Command, CommandFactory as _};

use crate::cli::Cli;

/// Writes the completion script of `shell` to stdout.
///
/// # Errors
/// Stdout cannot be written.
pub fn write_completions(shell: clap_complete::Shell) -> io::Result<()> {
    // The generator panics if its writer fails, so it gets one that cannot.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tacho", &mut script);
    write_out(&script)
}

/// Writes one page per subcommand into `directory`, or the main page to stdout.
///
/// # Errors
/// If the directory cannot be created or a page cannot be written.
pub fn write_pages(directory: Option<&Path>) -> io::Result<()> {
    let command = built();
    let Some(directory) = directory else { return write_out(&page::render(&command)?) };
    fs::create_dir_all(directory)?;
    for command in with_subcommands(&command) {
        fs::write(directory.join(format!("{}.1", page::name(command))), page::render(command)?)?;
    }
    Ok(())
}

/// The command line with the full names of its subcommands, without `help`.
fn built() -> Command {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    command
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
