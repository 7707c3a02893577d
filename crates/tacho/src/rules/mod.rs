//! `tacho filter check`: errors and warnings of a filter, and what it would skip of a log.
//!
//! The compiler and the decisions are those of the recorder (`tacho_filter`). A dry run gives them
//! what a line of a log says about a statement (`facts.rs`) and counts the decisions on several
//! threads (`dry_run.rs`).

mod args;
mod dry_run;
mod facts;
mod show;
mod tally;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tacho_filter::Program;
use tacho_filter::compile::{Checked, Error, Server, TEXT_BYTES_MAX, check};
use tacho_filter::program::USES_TABLE;

use crate::tail::TailError;
use args::FilterCommand;
pub use args::FilterCommandArgs;
use dry_run::DryRun;

/// Most errors that are shown.
const ERRORS_MAX: usize = 100;

/// Why `tacho filter` failed.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The filter cannot be read.
    #[error("cannot read the filter {path}: {error}")]
    Filter {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The log cannot be read, or the result not written.
    #[error(transparent)]
    Log(#[from] TailError),
}

impl RulesError {
    /// Whether the command line, not the data, is at fault.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Filter { .. } => true,
            Self::Log(error) => error.is_usage(),
        }
    }
}

/// A warning about a valid filter.
#[derive(Debug)]
struct Warning {
    /// Index of the rule that it is about.
    rule: Option<usize>,
    text: String,
}

/// The result for a filter.
struct Verdict<'a> {
    path: &'a Path,
    checked: Result<Checked, Vec<Error>>,
    warnings: Vec<Warning>,
    dry_run: Option<DryRun>,
}

/// Runs `tacho filter`.
///
/// # Errors
/// See [`RulesError`].
pub fn run(args: &FilterCommandArgs) -> Result<ExitCode, RulesError> {
    let FilterCommand::Check(args) = &args.command;
    args.limit.apply();
    let server = args.product().server();
    let text =
        read(&args.file).map_err(|error| RulesError::Filter { path: args.file.clone(), error })?;
    let checked = match String::from_utf8(text) {
        Ok(text) => check(&text, &server, ERRORS_MAX),
        Err(error) => Err(vec![not_utf8(&error)]),
    };
    let mut verdict = Verdict { path: &args.file, checked, warnings: Vec::new(), dry_run: None };
    if let Ok(checked) = &verdict.checked {
        verdict.warnings = warnings(checked, &server);
        if let Some(log) = &args.log {
            verdict.dry_run = Some(dry_run::run(args, log, checked, &server)?);
        }
    }
    show::show(&verdict, args.format.is_json()).map_err(TailError::Output)?;
    let problem_count = verdict.dry_run.as_ref().map_or(0, |run| run.problem_count);
    let is_fine = verdict.checked.is_ok() && problem_count == 0;
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Reads a filter. One byte more than is accepted: a longer one is refused, not truncated.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

fn not_utf8(error: &std::string::FromUtf8Error) -> Error {
    let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    let before = String::from_utf8_lossy(before);
    let in_line = before.rsplit('\n').next().unwrap_or_default();
    Error {
        line: before.matches('\n').count() + 1,
        column: in_line.chars().count() + 1,
        message: "not UTF-8".to_owned(),
    }
}

fn warnings(checked: &Checked, server: &Server) -> Vec<Warning> {
    let program = Program::new(&checked.program);
    let coverage = program.covered();
    let mut warnings = Vec::new();
    for found in &coverage.covered {
        let text = format!(
            "it can never be the first rule that matches: {} matches everything that it matches",
            show::rule(checked, found.by)
        );
        warnings.push(Warning { rule: Some(found.rule), text });
    }
    if let Some(rule) = coverage.incomplete_from {
        let text = format!(
            "the filter is too long to compare all of its rules: rule {} and later ones may never \
             match",
            rule + 1
        );
        warnings.push(Warning { rule: None, text });
    }
    if let Some(text) = server.warning(&program) {
        warnings.push(Warning { rule: None, text });
    }
    if program.uses() & USES_TABLE != 0 {
        let text = "a server refuses rules with `table` unless tacho_tables=ON (MySQL 9.7: \
                    tacho.tables) when the recorder is loaded";
        warnings.push(Warning { rule: None, text: text.to_owned() });
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_byte_that_is_no_character() {
        let error = String::from_utf8(b"{\n \"\xc3\xa9\xff\"".to_vec()).unwrap_err();
        assert_eq!(not_utf8(&error).to_string(), "line 2, column 4: not UTF-8");
    }
}
