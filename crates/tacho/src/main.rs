//! Zone: outside. The command `tacho`: reads what the recorder wrote.
//!
//! This file parses the command line, calls the subcommand and turns its answer into an exit
//! code: 0 all is well, 1 something is wrong with the data, 2 the command could not be carried
//! out as it was given.

mod cli;
mod manual;
mod tail;

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;

use cli::{Cli, Command};
use tail::TailError;

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(code) => code,
        // The reader of our output has gone (`tacho tail | head`): there is nobody to tell.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Names and values from the command line are shown in it, so it is made safe, but
            // keeps its lines.
            for line in format!("tacho: {error:#}").lines() {
                // A closed stderr leaves the exit code as the only answer.
                let _ = writeln!(io::stderr(), "{}", tail::visible::visible(line));
            }
            match error.downcast_ref::<TailError>() {
                Some(error) if !error.is_usage() => ExitCode::from(1),
                _ => ExitCode::from(2),
            }
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        Command::Tail(args) => {
            let verdict = tail::run(args)?;
            Ok(if verdict.problem_count == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        Command::Completions { shell } => {
            manual::write_completions(*shell).context("writing the completions")?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { out } => {
            manual::write_pages(out.as_deref()).context("writing the manual pages")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}
