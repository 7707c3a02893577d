//! `tacho bench`: the overhead of auditing on this server.
//!
//! The library `tacho-bench` measures; this file turns the command line into its options, and its
//! results into text, files and an exit code.

mod args;
mod options;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use tacho_bench::again;
use tacho_bench::answer;
use tacho_bench::instructions;
use tacho_bench::lines::Line;
use tacho_bench::method::Methods;
use tacho_bench::output::Output;
use tacho_bench::report;
use tacho_bench::run::{self, Outcome};
use tacho_bench::stop::{Interrupted, Stop};
use tacho_bench::table;
use tacho_bench::workload::Workload;

pub use args::BenchArgs;
use options::options;

/// The machine was too noisy to measure.
const EXIT_TOO_NOISY: u8 = 3;

/// The exit code of shells after SIGINT.
const EXIT_INTERRUPTED: u8 = 130;

/// Why `tacho bench` failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The command line is wrong.
    #[error("{0:#}")]
    Usage(anyhow::Error),
    /// The server, the load or the machine failed.
    #[error("{0:#}")]
    Failed(anyhow::Error),
}

impl BenchError {
    /// Whether the command line, not the run, is at fault.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}

/// Runs `tacho bench`.
///
/// # Errors
/// See [`BenchError`].
pub fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    let methods = known_methods(args).map_err(BenchError::Usage)?;
    if args.list {
        return list(&methods).map(|()| ExitCode::SUCCESS);
    }
    if let Some(path) = &args.results {
        return show_again(args, path);
    }
    let login = args.server.login().map_err(BenchError::Usage)?;
    if args.restore {
        let Some(login) = login else {
            bail!(BenchError::Usage(anyhow::anyhow!(
                "--restore needs a server: add --socket, --host or --defaults-file"
            )));
        };
        let found = run::restore(&login).map_err(BenchError::Failed)?;
        crate::say::result(if found { "Restored the server." } else { "Nothing to restore." })?;
        return Ok(ExitCode::SUCCESS);
    }
    let options = options(args, &methods, login).map_err(BenchError::Usage)?;
    // From here on signals no longer end the process.
    let stop = Stop::on_signals()?;
    let partial = with_extension(&args.output, "partial.jsonl");
    let mut out = Output::new(&partial, args.quiet).map_err(BenchError::Failed)?;
    let outcome = if args.instructions {
        instructions::run(&options, &stop, &mut out)
    } else {
        run::run(&options, &stop, &mut out)
    };
    if outcome.is_ok() {
        out.finish(&with_extension(&args.output, "jsonl")).map_err(BenchError::Failed)?;
        show(&with_extension(&args.output, "html"), out.lines())?;
    } else {
        out.abandon().map_err(BenchError::Failed)?;
        // Measurements from before the failure are shown, beside the results of earlier runs.
        if !out.lines().is_empty() {
            show(&with_extension(&args.output, "partial.html"), out.lines())?;
            crate::say::problem(format!(
                "the run is incomplete; its results are in {}",
                partial.display()
            ));
        }
    }
    match outcome {
        Ok(outcome) => Ok(exit_code(outcome)),
        Err(error) if error.is::<Interrupted>() => {
            crate::say::problem("interrupted; the server was restored");
            Ok(ExitCode::from(EXIT_INTERRUPTED))
        }
        Err(error) => Err(BenchError::Failed(error).into()),
    }
}

/// The results of an earlier run, with its limit of noise or that of the command line.
fn show_again(args: &BenchArgs, path: &Path) -> anyhow::Result<ExitCode> {
    let noise_max = options::noise_max(args).map_err(BenchError::Usage)?;
    let lines = tacho_bench::lines::read(path).map_err(BenchError::Usage)?;
    let (lines, outcome) = again::judge(&lines, noise_max)
        .with_context(|| format!("cannot compute the figures of {}", path.display()))
        .map_err(BenchError::Usage)?;
    show(&with_extension(&args.output, "html"), &lines)?;
    Ok(exit_code(outcome))
}

fn exit_code(outcome: Outcome) -> ExitCode {
    if outcome.too_noisy { ExitCode::from(EXIT_TOO_NOISY) } else { ExitCode::SUCCESS }
}

fn known_methods(args: &BenchArgs) -> anyhow::Result<Methods> {
    let mut methods = Methods::built_in()?;
    for file in &args.method_file {
        methods.add_file(file)?;
    }
    Ok(methods)
}

fn list(methods: &Methods) -> anyhow::Result<()> {
    let mut text = String::from(
        "methods\n  none                      no audit; measured with every other method\n",
    );
    for method in methods.iter() {
        let how = match method.switch {
            tacho_bench::method::Switch::Live => "",
            tacho_bench::method::Switch::Reconnect => "",
            tacho_bench::method::Switch::Restart => " (a restart for each block)",
        };
        text.push_str(&format!("  {:25} {}{how}\n", method.name, method.title));
    }
    text.push_str("\nworkloads\n");
    for workload in Workload::built_in() {
        text.push_str(&format!("  {:25} {}\n", workload.name, workload.title));
    }
    text.push_str("  --command COMMAND         your own\n");
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

/// Writes the table and the answer to stdout, and the report to its file.
fn show(report: &Path, lines: &[Line]) -> anyhow::Result<()> {
    fs::write(report, report::render(lines)?)
        .with_context(|| format!("cannot write {}", report.display()))?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(table::render(lines).as_bytes())?;
    stdout.write_all(answer::text(lines).as_bytes())?;
    writeln!(stdout, "\nreport: {}", report.display())?;
    Ok(stdout.flush()?)
}

/// `NAME.jsonl`; a dot in the name is part of it.
fn with_extension(name: &Path, extension: &str) -> PathBuf {
    let mut path = name.as_os_str().to_owned();
    path.push(".");
    path.push(extension);
    path.into()
}
