//! Whether the seal of a log is whole.

use std::fs;
use std::path::{Path, PathBuf};

use tacho_chain::key::VerifierKey;
use tacho_chain::verify::{self, Directory, Options, Report, State};

struct Dir(PathBuf);

impl Directory for Dir {
    fn names(&self) -> std::io::Result<Vec<String>> {
        fs::read_dir(&self.0)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn open(&self, name: &str) -> std::io::Result<Box<dyn std::io::Read + '_>> {
        Ok(Box::new(fs::File::open(self.0.join(name))?))
    }
}

/// Verifies a log directory.
///
/// # Panics
/// It cannot be read.
#[must_use]
pub fn check(log: &Path, key: &VerifierKey) -> Report {
    let options = Options { keys: vec![key.clone()], ..Default::default() };
    verify::verify(&Dir(log.to_owned()), &options, &mut |_| {}).expect("a readable directory")
}

/// Asserts the result of a verification.
///
/// # Panics
/// It differs; the findings say why.
#[track_caller]
pub fn assert_state(report: &Report, state: State) {
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(report.state(), state, "{findings:#?}");
}
