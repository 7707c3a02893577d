//! `tacho verify`, `tacho checkpoint` and `tacho keygen`.

use std::path::PathBuf;

use clap::Args;

use super::log::{IdentityArgs, LogDirectory, LogOrBundle};
use super::report::ReportFormat;

/// Shown at the end of `tacho verify --help`.
const VERIFY_NOTES: &str = "\
The public key is in the server's error log and in the `start` lines of the log. Keep a copy out
of reach of anyone who can change the log. For a log whose key was replaced, repeat --key.

A bundle is what `tacho-hub export` and the hub's web UI make. Its records are checked against the
seals of their logs, with the root key of each log. With --hub-key alone, these are the keys that
the hub has signed for.

A hub's copy of a log has tombstones of the files that the hub's retention removed. Give its key as
--hub-key, too; without it, these files are a gap.

Exit code, the worst that was found:
   0  OK
  10  OK, and the log declares lost records (`lost` lines)
  11  unsigned tail: no checkpoint covers the newest lines yet. Normal while the server runs
  12  gap: a file or records are missing without a tombstone
  13  truncated: the log ends before what was sealed, or before --expect
  14  modified: the log, a sidecar or a tombstone was changed (with file, line and records)
  15  not sealed: a log file has no sidecar, or nothing is sealed
  16  wrong key: sealed under another root key
  17  broken chain: the recorder started without its key, or on another state of the directory
  18  recovered: lines were sealed at a later start, not when they were written
  19  encrypted: seals, signatures and tombstones are good; files that no --identity opens were not
      compared with them
   1  failed;  2  wrong usage

Without --expect, an older copy of the whole directory, or one cut back to an old checkpoint, is not
detected. Keep the output of `tacho checkpoint` on another machine.";

/// Arguments of `tacho verify`.
#[derive(Args, Debug)]
#[command(after_help = VERIFY_NOTES)]
pub struct VerifyArgs {
    /// The log, with its sidecars, compressed (.zst) and encrypted files (.age), or a bundle.
    #[command(flatten)]
    pub log: LogOrBundle,

    /// How to show the result.
    #[command(flatten)]
    pub format: ReportFormat,

    /// Encrypted files.
    #[command(flatten)]
    pub identity: IdentityArgs,

    /// Public root key, or a file that has it; may be repeated
    #[arg(long, value_name = "KEY|FILE", required_unless_present = "hub_key")]
    pub key: Vec<String>,

    /// Public key of the hub that signed the bundle, or the tombstones in its copy of a log, or a
    /// file that has it (hub.pub)
    #[arg(long, value_name = "KEY|FILE")]
    pub hub_key: Option<String>,

    /// Checkpoint that was kept elsewhere; the log must contain it
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,
}

/// Arguments of `tacho checkpoint`.
#[derive(Args, Debug)]
#[command(
    after_help = "The checkpoint is printed exactly as it is in the log; `tacho verify --expect` reads it."
)]
pub struct CheckpointArgs {
    /// The log.
    #[command(flatten)]
    pub log: LogDirectory,
}

/// Shown at the end of `tacho keygen --help`.
const KEYGEN_NOTES: &str = "\
The server makes a key at its first start if the file in `tacho_signing_key_file` does not exist.
Make the key with this command to know the public key before that: change the owner of FILE to the
server's user, and keep FILE.pub elsewhere.

At its first start the server replaces the root key in the file with the key of its first epoch.
After that, only a copy of the file has the secret root key. It is no longer needed.";

/// Arguments of `tacho keygen`.
#[derive(Args, Debug)]
#[command(after_help = KEYGEN_NOTES)]
pub struct KeygenArgs {
    /// File for the secret key (mode 0600); FILE.pub gets the public key. Existing files are not
    /// overwritten
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}
