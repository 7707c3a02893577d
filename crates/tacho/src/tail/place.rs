//! Where the log is.

use std::path::Path;

use tacho_logdir::read::files::{Input, STDIN};

use super::TailError;

/// The environment variable that names the log directory.
const VARIABLE: &str = "TACHO_LOG_DIR";

/// Where a server with Debian's data directory writes by default.
const DEFAULT_DIRECTORY: &str = "/var/lib/mysql/tacho";

/// Finds the place: what was given, else the environment, else the default.
///
/// # Errors
/// When it is not there or may not be looked at.
pub fn find(given: Option<&Path>) -> Result<Input, TailError> {
    let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let (path, source_of_path) = match (given, &variable) {
        (Some(path), _) if path == Path::new(STDIN) => return Ok(Input::Stream(path.to_owned())),
        (Some(path), _) => (path, ""),
        (None, Some(value)) => (Path::new(value), " (from TACHO_LOG_DIR)"),
        (None, None) => (
            Path::new(DEFAULT_DIRECTORY),
            " (the default; give another as argument or in TACHO_LOG_DIR)",
        ),
    };
    Input::of(path).map_err(|error| TailError::Input {
        path: path.to_owned(),
        source_of_path,
        error,
    })
}
