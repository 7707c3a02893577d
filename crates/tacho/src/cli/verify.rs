//! `tacho verify`, `tacho checkpoint` and `tacho keygen`.

use std::path::PathBuf;

use clap::Args;

use super::IdentityArgs;

/// Shown at the end of `tacho verify --help`.
const VERIFY_NOTES: &str = "\
The public key is in the server's error log and in the `start` lines of the log; take it from a
place where nobody who can change the log can change it. Several --key may be given, for a log
whose key was lost once.

Exit code, the worst of what was found:
   0  OK
  10  OK, and the log itself says that records were lost (`lost` lines)
  11  unsigned tail: the newest lines are under no checkpoint yet. Normal while the server runs
  12  gap: a file or records are missing, and no tombstone covers them
  13  truncated: there is less than what was sealed, or than --expect knows of
  14  modified: the log, a sidecar or a tombstone was changed (named with file, line and records)
  15  not sealed: a log file has no sidecar, or nothing is sealed
  16  wrong key: sealed under another root key
  17  broken chain: the recorder was started without its key, or on another state of the directory
  18  recovered: lines were sealed at a start, and not when they were written
  19  encrypted: seals, signatures and tombstones are good; files that no --identity opens were not
      compared with them
   1  it could not be carried out;  2  wrong usage

What cannot be seen without --expect: that the whole directory is an older copy of itself, or was
cut back to an old checkpoint. Keep what `tacho checkpoint` prints on another machine.";

/// Arguments of `tacho verify`.
#[derive(Args, Debug)]
#[command(after_help = VERIFY_NOTES)]
pub struct VerifyArgs {
    /// Log directory; sidecars, compressed (.zst) and encrypted files (.age) with it
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Public root key, or a file that has it; may be repeated
    #[arg(long, value_name = "KEY|FILE", required = true)]
    pub key: Vec<String>,

    /// A checkpoint that was kept elsewhere: the log must contain it
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,

    /// Encrypted files.
    #[command(flatten)]
    pub identity: IdentityArgs,

    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tacho checkpoint`.
#[derive(Args, Debug)]
#[command(
    after_help = "The checkpoint is printed as it stands in the log; `tacho verify` checks it."
)]
pub struct CheckpointArgs {
    /// Log directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Shown at the end of `tacho keygen --help`.
const KEYGEN_NOTES: &str = "\
The server makes its key itself when `tacho_signing_key_file` does not exist. Make it here to know
the public key before the first start: give the file to the server's user, and keep PATH.pub.

The first start replaces the root key in the file by the key of its first epoch: only who has kept
a copy has the root's secret half then. Nothing needs it any more.";

/// Arguments of `tacho keygen`.
#[derive(Args, Debug)]
#[command(after_help = KEYGEN_NOTES)]
pub struct KeygenArgs {
    /// Where the secret key goes (mode 0600); the public one goes to PATH.pub. Neither may exist
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
}
