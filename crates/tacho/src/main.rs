//! Zone: outside. The command `tacho`: reads, converts, verifies and recovers the audit log, writes
//! it instead of the server, shows arenas, measures the overhead of auditing, profiles a server,
//! converts the settings of other audit plugins.
//!
//! This file parses the command line, calls the subcommand and turns its result into an exit
//! code: 0 success, 1 something is wrong with the data, 2 wrong usage. `tacho status` has those of
//! monitoring plugins.

mod arena;
mod bench;
mod capture;
mod cli;
mod convert;
mod digest;
mod filter;
mod joined;
mod limits;
mod line_limit;
mod login;
mod manual;
mod migrate;
mod option_file;
mod parallel;
mod pmp;
mod problem;
mod recorder;
mod recover;
mod report;
mod retention;
mod rules;
mod say;
mod scan;
mod ship;
mod signals;
mod status;
mod tail;
mod top;
mod verify;
mod view;

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory as _;

use arena::ArenaCommandError;
use bench::BenchError;
use capture::CaptureError;
use cli::{Cli, Command};
use convert::ConvertError;
use migrate::MigrateError;
use pmp::PmpError;
use recorder::RecorderError;
use recover::RecoverCommandError;
use retention::RetentionError;
use rules::RulesError;
use ship::ShipError;
use status::StatusError;
use tail::TailError;
use verify::VerifyError;

fn main() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&problem::of_usage(error)),
    };
    match run(&cli) {
        Ok(code) => code,
        // The reader of the output has ended (`tacho tail | head`): that is not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // It contains names and values from the command line, so each line is sanitized.
            for line in format!("tacho: {}", problem::text(&error)).lines() {
                // A closed stderr leaves the exit code as the only answer.
                let _ = writeln!(io::stderr(), "{}", tail::sanitize::sanitize(line));
            }
            ExitCode::from(if error.is::<StatusError>() {
                status::exit_code_of_failure()
            } else if is_usage(&error) {
                2
            } else {
                1
            })
        }
    }
}

/// Prints help, or what is wrong with the command line. The exit code of wrong usage is 2, except
/// for `tacho status`: there, 2 is a critical state of the log.
fn refuse(error: &clap::Error) -> ExitCode {
    // A closed stderr leaves the exit code as the only answer.
    let _ = error.print();
    let is_status = std::env::args_os().nth(1).is_some_and(|name| name == "status");
    match u8::try_from(error.exit_code()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(code) if !is_status => ExitCode::from(code),
        _ => ExitCode::from(status::exit_code_of_failure()),
    }
}

/// Whether the error is wrong usage rather than a problem of the data.
fn is_usage(error: &anyhow::Error) -> bool {
    if let Some(error) = error.downcast_ref::<TailError>() {
        error.is_usage()
    } else if let Some(error) = error.downcast_ref::<ConvertError>() {
        error.is_usage()
    } else if let Some(error) = error.downcast_ref::<ShipError>() {
        error.is_usage()
    } else if let Some(error) = error.downcast_ref::<RecoverCommandError>() {
        error.is_usage()
    } else if let Some(error) = error.downcast_ref::<RecorderError>() {
        error.is_usage()
    } else if let Some(error) = error.downcast_ref::<CaptureError>() {
        error.is_usage()
    } else if let Some(error) = error.downcast_ref::<ArenaCommandError>() {
        error.is_usage()
    } else if let Some(error) = error.downcast_ref::<BenchError>() {
        error.is_usage()
    } else if let Some(error) = error.downcast_ref::<MigrateError>() {
        error.is_usage()
    } else if let Some(error) = error.downcast_ref::<PmpError>() {
        error.is_usage()
    } else if let Some(error) = error.downcast_ref::<RulesError>() {
        error.is_usage()
    } else if let Some(error) = error.downcast_ref::<RetentionError>() {
        error.is_usage()
    } else {
        !error.is::<VerifyError>()
    }
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        Command::Tail(args) => {
            let verdict = tail::run(args)?;
            Ok(if verdict.problem_count == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        Command::Report(args) => {
            let verdict = report::run(args)?;
            Ok(if verdict.problem_count == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        Command::Top(args) => {
            top::run(args)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Convert(args) => {
            let verdict = convert::run(args)?;
            Ok(if verdict.problem_count == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        Command::Ship(args) => {
            let verdict = ship::run(args)?;
            Ok(if verdict.problem_count == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        Command::Slowlog(args) => {
            let verdict = convert::slowlog(args)?;
            Ok(if verdict.problem_count == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        Command::Verify(args) => verify::run(args),
        Command::Checkpoint(args) => {
            verify::checkpoint(args)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Keygen(args) => {
            verify::generate(args)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Filter(args) => Ok(rules::run(args)?),
        Command::Status(args) => Ok(status::run(args)?),
        Command::Retention(args) => {
            retention::run(args)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Recover(args) => {
            let problem_count = recover::run(args)?;
            Ok(if problem_count == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        Command::Recorder(args) => {
            recorder::run(args)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Capture(args) => capture::run(args),
        Command::Arena(args) => {
            let problem_count = arena::run(args)?;
            Ok(if problem_count == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        Command::Bench(args) => bench::run(args),
        Command::Pmp(args) => {
            pmp::run(args)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Digest(args) => {
            let problem_count = digest::run(args)?;
            Ok(if problem_count == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        Command::Migrate(args) => {
            migrate::run(args)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            tacho_manual::write_completions(*shell, &mut Cli::command())
                .context("cannot write the completions")?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { output } => {
            manual::manual()
                .write_pages(output.as_deref())
                .context("cannot write the manual pages")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}
