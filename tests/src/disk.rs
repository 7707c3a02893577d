//! A file system that is full, and a device that fails.
//!
//! "No space left" is real: a tmpfs of a few megabytes in its own user and mount namespace, which
//! needs no privileges. A holder process keeps the namespace, so that the file system outlives a
//! killed server; the test accesses it through `/proc/<holder>/root`.
//!
//! Errors of a device come from a preloaded library (`tests/preload/write_fault.c`) that makes
//! writes to log files fail, or take long, for as long as a file says so. Where namespaces are
//! forbidden (as in some container runtimes), it also replaces the full disk.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use tacho_sandbox::server as private;

use crate::server::Builder;

/// `ENOSPC`
const NO_SPACE: i32 = 28;

/// Expected messages in the error log while the log cannot be written. Messages about the seal only
/// appear if a checkpoint became due in that time, as on a busy machine.
pub const FAILED_WRITES: &[&str] = &["tacho: cannot append to", "its seal cannot be written"];

/// A log directory that can be made unwritable.
#[derive(Debug)]
pub struct Disk {
    /// The directory by its name for the server.
    server_path: PathBuf,
    /// The same by its name for this process.
    path: PathBuf,
    holder: Option<Child>,
    fault_library: PathBuf,
    fault_file: PathBuf,
}

impl Disk {
    /// A small file system, mounted on `directory`, which is made.
    ///
    /// # Errors
    /// The library does not compile, or files cannot be made.
    pub fn small(directory: &Path, bytes: u64) -> Result<Self> {
        let mut disk = Self::plain(directory)?;
        let mut holder = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
            // "$0" is the directory. `cat` lives as long as this process keeps the pipe.
            .arg(format!("mount -t tmpfs -o size={bytes} tacho \"$0\" && echo up && exec cat"))
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting unshare")?;
        let mut answer = String::new();
        BufReader::new(holder.stdout.take().context("a pipe")?).read_line(&mut answer)?;
        if answer == "up\n" {
            let root = PathBuf::from(format!("/proc/{}/root", holder.id()));
            disk.path = root.join(disk.server_path.strip_prefix("/")?);
            disk.holder = Some(holder);
        } else {
            holder.wait()?;
            crate::without_namespaces("failing writes stand in for a full disk");
        }
        Ok(disk)
    }

    /// An ordinary directory, whose writes can be made to fail.
    ///
    /// # Errors
    /// As [`Disk::small`].
    pub fn plain(directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let directory = directory.canonicalize()?;
        let above = directory.parent().context("a directory above")?;
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            fault_library: compile_fault_library(above, &name)?,
            fault_file: above.join(format!("{name}.fault")),
            server_path: directory.clone(),
            path: directory,
            holder: None,
        })
    }

    /// Whether it is a separate file system.
    pub fn is_small(&self) -> bool {
        self.holder.is_some()
    }

    /// Where the log directory is for the server.
    pub fn log_directory(&self) -> PathBuf {
        self.server_path.join("tacho")
    }

    /// The same directory for this process.
    pub fn log_directory_here(&self) -> PathBuf {
        self.path.join("tacho")
    }

    /// Makes writes of a server fail on request.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        // After the libraries that this process was started with (scripts/test-asan.sh).
        let mut libraries = std::env::var("LD_PRELOAD").unwrap_or_default();
        if !libraries.is_empty() {
            libraries.push(':');
        }
        libraries.push_str(&self.fault_library.to_string_lossy());
        [
            ("LD_PRELOAD", libraries),
            ("TACHO_FAULT_FILE", self.fault_file.to_string_lossy().into_owned()),
        ]
    }

    /// A server that logs to this disk.
    pub fn server(&self, builder: Builder) -> Builder {
        builder
            .option(format!("loose-tacho-directory={}", self.log_directory().display()))
            .map(|builder| self.hold(builder))
    }

    /// A program with access to this disk.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let Some(holder) = &self.holder else { return Command::new(program.as_ref()) };
        let mut command = Command::new("nsenter");
        command.args(["--target", &holder.id().to_string()]);
        command.args(["--user", "--mount", "--preserve-credentials"]).arg(program.as_ref());
        command
    }

    /// A server with access to this disk.
    pub(crate) fn hold(&self, builder: private::Builder) -> private::Builder {
        let with = |builder: private::Builder, (name, value): &(&str, String)| {
            builder.environment(name, value)
        };
        let builder = self.environment().iter().fold(builder, with);
        let Some(holder) = &self.holder else { return builder };
        let target = holder.id().to_string();
        // Entering a user namespace clears the kernel's parent-death setting.
        builder.option("user=root").prefix([
            "nsenter",
            "--target",
            &target,
            "--user",
            "--mount",
            "--preserve-credentials",
            "setpriv",
            "--pdeathsig",
            "TERM",
        ])
    }

    /// Uses up all space.
    ///
    /// # Errors
    /// The ballast cannot be made.
    pub fn fill(&self) -> Result<()> {
        if self.holder.is_none() {
            return self.fail_writes(NO_SPACE, 0);
        }
        // Appended: space that is already used must not become free for a moment.
        let path = self.path.join("ballast");
        let mut ballast = OpenOptions::new().create(true).append(true).open(path)?;
        let block = [0; 4096];
        while ballast.write_all(&block).is_ok() {}
        Ok(())
    }

    /// Uses up all space of a separate disk except for this many bytes.
    ///
    /// # Errors
    /// It is not separate, or cannot be filled.
    pub fn fill_but(&self, bytes: u64) -> Result<()> {
        anyhow::ensure!(self.is_small(), "this is no disk of its own");
        self.fill()?;
        let ballast = OpenOptions::new().write(true).open(self.path.join("ballast"))?;
        let length = ballast.metadata()?.len();
        Ok(ballast.set_len(length.saturating_sub(bytes))?)
    }

    /// Frees the space.
    ///
    /// # Errors
    /// It was not used up.
    pub fn free(&self) -> Result<()> {
        if self.holder.is_none() {
            return self.mend_writes();
        }
        Ok(fs::remove_file(self.path.join("ballast"))?)
    }

    /// From now on every write to a log file fails with this error number, after `percent` of its
    /// bytes have reached the file.
    ///
    /// # Errors
    /// The control file cannot be written.
    pub fn fail_writes(&self, errno: i32, percent: u32) -> Result<()> {
        self.set_fault(errno, percent, 0, "write")
    }

    /// From now on every write to a log file takes this many milliseconds more.
    ///
    /// # Errors
    /// The control file cannot be written.
    pub fn slow_writes(&self, ms: u32) -> Result<()> {
        self.set_fault(0, 100, ms, "write")
    }

    /// From now on log files cannot be synced.
    ///
    /// # Errors
    /// The control file cannot be written.
    pub fn fail_syncs(&self, errno: i32) -> Result<()> {
        self.set_fault(errno, 0, 0, "sync")
    }

    fn set_fault(&self, errno: i32, percent: u32, ms: u32, call: &str) -> Result<()> {
        // Renamed, so that no process reads half of it.
        let new = self.fault_file.with_extension("new");
        fs::write(&new, format!("{errno} {percent} {ms} {call}\n"))?;
        Ok(fs::rename(new, &self.fault_file)?)
    }

    /// Removes the fault.
    ///
    /// # Errors
    /// There was no fault.
    pub fn mend_writes(&self) -> Result<()> {
        Ok(fs::remove_file(&self.fault_file)?)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(mut holder) = self.holder.take() {
            drop(holder.stdin.take());
            if let Err(error) = holder.wait() {
                eprintln!("the holder of a namespace: {error}");
            }
        }
    }
}

fn compile_fault_library(directory: &Path, name: &str) -> Result<PathBuf> {
    let library = directory.join(format!("{name}-write_fault.so"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("preload/write_fault.c");
    let output = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .output()
        .context("running cc")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(library)
}
