//! Whether the seal of a log is whole.

use std::fs;
use std::path::Path;

use tacho_chain::key::VerifierKey;
use tacho_chain::verify::{self, LogState, Options, Report};
use tacho_logdir::read::directory::RealDirectory;
use tacho_logdir::read::identities::Identities;

use crate::log::file_names;

/// The public key in the first line of a log.
///
/// # Panics
/// There is none.
#[must_use]
pub fn key_in(log: &Path) -> VerifierKey {
    let names = file_names(log, ".jsonl");
    let first = log.join(names.first().expect("a log file"));
    let text = fs::read_to_string(first).expect("the first file");
    let (_, rest) = text.split_once("\"signing_key\":\"").expect("a start line with the key");
    rest.split('"').next().expect("its end").parse().expect("a public key")
}

/// Verifies a log directory, as `tacho verify` does.
///
/// # Panics
/// It cannot be read.
#[must_use]
pub fn check(log: &Path, key: &VerifierKey) -> Report {
    let options = Options { keys: vec![key.clone()], ..Default::default() };
    let directory = RealDirectory::new(log, Identities::default()).expect("a directory");
    verify::verify(&directory, &options, &mut |_| {}).expect("a readable directory")
}

/// Asserts the result of a verification.
///
/// # Panics
/// It differs; the findings say why.
#[track_caller]
pub fn assert_state(report: &Report, state: LogState) {
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(report.state(), state, "{findings:#?}");
}
