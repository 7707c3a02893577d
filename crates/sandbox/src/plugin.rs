//! Finds plugin libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::dialect::{Dialect, Library};
use crate::installation::Installation;

/// The plugin and the component that do nothing: they show the cost of the server's interface
/// alone.
const NOTHING_C: &str = include_str!("../nothing.c");
const NOTHING_CC: &str = include_str!("../component_nothing.cc");

/// The file of a library, for a server of this installation. Libraries built for it are put into
/// `work`.
///
/// # Errors
/// There is none, or it cannot be built.
pub fn find(
    installation: &Installation,
    dialect: &Dialect,
    library: &Library,
    chosen: &[PathBuf],
    work: &Path,
) -> Result<PathBuf> {
    let name = library.file();
    if let Some(path) = chosen.iter().find(|path| path.ends_with(&name)) {
        ensure!(path.is_file(), "{} is not a file", path.display());
        return Ok(path.clone());
    }
    match library {
        Library::Component(component) if component == "component_nothing" => {
            return build_component(installation, &work.join(name));
        }
        Library::Soname(plugin) if plugin == "nothing" => return build_nothing(installation, work),
        // MySQL without components has one that does nearly nothing, with other event classes.
        Library::Plugin(plugin) if plugin == "nothing" => {
            bail!("there is no such plugin for this server")
        }
        _ => {}
    }
    let mut places = Vec::new();
    if let Some(program) = std::env::current_exe()?.parent() {
        // Beside the command, as in `build/` of the source tree.
        places.push(program.join("..").join(dialect.build_folder()));
        places.push(program.to_owned());
    }
    places.push(system_directory(installation)?);
    // Where Debian has them, as do the scripts that put a server into a folder.
    places.push(installation.usr().join("lib/mysql/plugin"));
    match places.iter().map(|place| place.join(&name)).find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => {
            let places: Vec<String> =
                places.iter().map(|place| place.display().to_string()).collect();
            bail!("no {name} in {}; name it with --plugin", places.join(", "))
        }
    }
}

/// The plugin directory of its server.
fn system_directory(installation: &Installation) -> Result<PathBuf> {
    let program = installation.product().server_name();
    let output = Command::new(installation.program(program)?)
        .arg("--no-defaults")
        .args(installation.options())
        .args(["--verbose", "--help"])
        .output()
        .with_context(|| format!("cannot ask {program} for its plugin directory"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let directory = text.lines().find_map(|line| {
        let rest = line.strip_prefix("plugin-dir")?;
        rest.starts_with(' ').then(|| PathBuf::from(rest.trim()))
    });
    directory.with_context(|| format!("{program} does not name its plugin directory"))
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
        // The server's own headers are below those of its clients.
        compiler.arg(flag).arg(format!("{flag}/server"));
    }
    compile(compiler.arg(&source), &library)
        .context("the plugin that does nothing (libmariadbd-dev has the headers)")?;
    Ok(library)
}

fn build_component(installation: &Installation, library: &Path) -> Result<PathBuf> {
    let headers = installation.component_headers().context(
        "it is compiled for a MySQL in a folder with its source (scripts/setup-mysql.sh) only",
    )?;
    let source = library.with_extension("cc");
    std::fs::write(&source, NOTHING_CC)?;
    let mut compiler = Command::new("c++");
    // Its names must not be exported: the server has some of them, too.
    compiler
        .args(["-std=c++17", "-shared", "-fPIC", "-O2", "-Wl,-Bsymbolic", "-isystem"])
        .arg(headers);
    compile(compiler.arg(&source), library).context("the component that does nothing")?;
    Ok(library.to_owned())
}

fn compile(compiler: &mut Command, library: &Path) -> Result<()> {
    let output = compiler
        .arg("-o")
        .arg(library)
        .output()
        .context("a compiler (cc, c++) is needed to compile a plugin")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it does not compile:\n{said}");
    Ok(())
}
