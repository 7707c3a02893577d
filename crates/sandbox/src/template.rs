//! One freshly initialised data directory per server version, copied for each server.
//!
//! `mariadb-install-db`, or `mysqld --initialize`, takes seconds; copying its result takes a
//! fraction of one.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

use crate::installation::{Installation, Product};

/// Size of InnoDB's redo log in the template. Servers with another size resize it.
pub(crate) const REDO_LOG_MIB: u32 = 16;

/// Makes `data_directory` a copy of the template, and creates the template first if there is none.
pub(crate) fn fill_data_directory(
    installation: &Installation,
    templates: &Path,
    data_directory: &Path,
) -> Result<()> {
    let version = server_version(installation)?;
    let template = templates.join(format!("template-{version}"));
    fs::create_dir_all(templates)
        .with_context(|| format!("cannot create {}", templates.display()))?;

    // Several test processes start at the same time; one creates the template, all wait for it.
    let lock_path = templates.join(format!("template-{version}.lock"));
    let lock = File::create(&lock_path).with_context(|| format!("{}", lock_path.display()))?;
    flock(&lock, FlockOperation::LockExclusive).context("cannot lock the template")?;
    if !template.is_dir() {
        // Created under another name and renamed, so that an interrupted run leaves no incomplete
        // template.
        let unfinished = templates.join(format!("template-{version}.unfinished"));
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        initialise(installation, &unfinished)?;
        fs::rename(&unfinished, &template)?;
    }
    drop(lock);

    copy_directory(&template, data_directory)
        .with_context(|| format!("cannot copy {} for a new server", template.display()))
}

/// In the form of `--version`.
pub(crate) fn server_version(installation: &Installation) -> Result<String> {
    let name = installation.product().server_name();
    let output = Command::new(installation.program(name)?).arg("--version").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    // "/usr/sbin/mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on …"
    let mut words = text.split_whitespace().skip_while(|word| *word != "Ver");
    match words.nth(1) {
        Some(version) => Ok(version.to_owned()),
        None => bail!("{name} --version said: {text:?}"),
    }
}

fn initialise(installation: &Installation, data_directory: &Path) -> Result<()> {
    // Servers that start meanwhile empty the usual directory for temporary tables.
    let temporary =
        tempfile::tempdir().context("cannot create a directory for temporary tables")?;
    let (name, options) = match installation.product() {
        Product::MariaDb => (
            "mariadb-install-db",
            &["--auth-root-authentication-method=normal", "--skip-test-db"][..],
        ),
        Product::MySql => ("mysqld", &["--initialize-insecure"][..]),
    };
    let mut command = Command::new(installation.program(name)?);
    command
        .arg("--no-defaults")
        .args(installation.options())
        .arg(format!("--datadir={}", data_directory.display()))
        .arg(format!("--tmpdir={}", temporary.path().display()))
        .arg(installation.product().redo_log_option(REDO_LOG_MIB))
        .args(options)
        .stdin(Stdio::null());
    if rustix::process::geteuid().is_root() {
        command.arg("--user=root");
    }
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        bail!(
            "{name} failed:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
