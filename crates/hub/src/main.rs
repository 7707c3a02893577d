//! Zone: outside. The command `tacho-hub`. Exit codes: 0 success, 1 failure, 2 wrong usage.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser as _};
use tacho_hub::cli::{AccountCommand, AlertCommand, Cli, Command, RetentionCommand, TokenCommand};
use tacho_hub::{commands, manual};

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A closed stderr leaves the exit code as the only answer.
            let _ = writeln!(std::io::stderr(), "tacho-hub: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    match &cli.command {
        Command::Serve(args) => commands::serve::run(args),
        Command::Account(AccountCommand::Create(args)) => commands::account::create(args),
        Command::Alert(AlertCommand::Test(args)) => {
            commands::alert::test(args, &mut std::io::stdout().lock())
        }
        Command::Retention(RetentionCommand::Show(args)) => {
            commands::retention::show(args, &mut std::io::stdout().lock())
        }
        Command::Retention(RetentionCommand::Set(args)) => commands::retention::set(args),
        Command::Sql(args) => commands::sql::run(args, &mut std::io::stdout().lock()),
        Command::Convert(args) => commands::convert::run(args, &mut std::io::stdout().lock()),
        Command::Backup(args) => commands::backup::run(args, &mut std::io::stdout().lock()),
        Command::Reindex(args) => commands::reindex::run(args, &mut std::io::stdout().lock()),
        Command::Completions { shell } => {
            tacho_manual::write_completions(*shell, &mut Cli::command())
                .context("cannot write the completions")
        }
        Command::Man { output } => {
            manual::manual().write_pages(output.as_deref()).context("cannot write the manual pages")
        }
        Command::Export(args) => commands::export::run(args, &mut std::io::stdout().lock()),
        Command::QueryWorker => Ok(tacho_query::run_worker()?),
        Command::Token(TokenCommand::Create(args)) => {
            writeln!(std::io::stdout(), "{}", commands::token::create(args)?)?;
            Ok(())
        }
    }
}
