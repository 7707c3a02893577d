//! Shell completions and manual pages, made from the command line's own definition so that
//! they cannot differ from it.

use std::io::{self, Write as _};
use std::path::Path;

use clap::CommandFactory as _;

use crate::cli::Cli;

/// Writes the completion script of `shell` to stdout.
///
/// # Errors
/// When stdout cannot be written to.
pub fn write_completions(shell: clap_complete::Shell) -> io::Result<()> {
    // The generator panics when its writer fails, so it gets one that cannot.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tacho", &mut script);
    write_out(&script)
}

/// Writes one page per subcommand into `directory`, or the main page to stdout.
///
/// # Errors
/// When the directory cannot be made or a page cannot be written.
pub fn write_pages(directory: Option<&Path>) -> io::Result<()> {
    if let Some(directory) = directory {
        std::fs::create_dir_all(directory)?;
        clap_mangen::generate_to(Cli::command(), directory)
    } else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        write_out(&page)
    }
}

fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
