//! Where plugin libraries come from.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::installation::Installation;

/// The plugin that does nothing: what the server's interface costs by itself.
const NOTHING_C: &str = include_str!("../nothing.c");

/// The library of a plugin, for a server of this MariaDB. What
/// is built for it goes into `work`.
///
/// # Errors
/// There is none, or it cannot be built.
pub fn library(
    installation: &Installation,
    plugin: &str,
    chosen: &[PathBuf],
    work: &Path,
) -> Result<PathBuf> {
    let name = format!("{plugin}.so");
    if let Some(path) = chosen.iter().find(|path| path.ends_with(&name)) {
        ensure!(path.is_file(), "{} is not a file", path.display());
        return Ok(path.clone());
    }
    if plugin == "nothing" {
        return build_nothing(installation, work);
    }
    let mut places = Vec::new();
    if let Some(program) = std::env::current_exe()?.parent() {
        // Beside the command, as in `build/` of the source tree.
        places.push(program.join("../mariadb"));
        places.push(program.to_owned());
    }
    places.push(system_directory(installation)?);
    match places.iter().map(|place| place.join(&name)).find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => {
            let places: Vec<String> =
                places.iter().map(|place| place.display().to_string()).collect();
            bail!("found no {name} in {}; --plugin names one", places.join(", "))
        }
    }
}

/// Where its server looks for plugins.
fn system_directory(installation: &Installation) -> Result<PathBuf> {
    let output = Command::new(installation.program("mariadbd")?)
        .arg("--no-defaults")
        .args(installation.options())
        .args(["--verbose", "--help"])
        .output()
        .context("asking mariadbd for its plugin directory")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let directory = text.lines().find_map(|line| {
        let rest = line.strip_prefix("plugin-dir")?;
        rest.starts_with(' ').then(|| PathBuf::from(rest.trim()))
    });
    directory.context("mariadbd does not name its plugin directory")
}

fn build_nothing(installation: &Installation, work: &Path) -> Result<PathBuf> {
    let library = work.join("nothing.so");
    if library.exists() {
        return Ok(library);
    }
    let source = work.join("nothing.c");
    std::fs::write(&source, NOTHING_C)?;
    let includes = match installation.headers() {
        Some(folder) => format!("-I{}", folder.display()),
        None => {
            let config = Command::new("mariadb_config").arg("--include").output().context(
                "mariadb_config (package libmariadbd-dev) is needed to compile a plugin",
            )?;
            String::from_utf8_lossy(&config.stdout).into_owned()
        }
    };
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O2", "-Wno-cpp"]);
    for flag in includes.split_whitespace() {
        // The server's own headers lie below those of its clients.
        compiler.arg(flag).arg(format!("{flag}/server"));
    }
    let output = compiler
        .arg(&source)
        .arg("-o")
        .arg(&library)
        .output()
        .context("a C compiler (cc) is needed to compile a plugin")?;
    if !output.status.success() {
        bail!(
            "the plugin that does nothing does not compile (libmariadbd-dev has the headers):\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(library)
}
