//! `tacho verify`, `tacho keygen`, `tacho checkpoint`: tamper evidence from outside.

mod bundle;
mod keys;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use serde::Serialize;
use tacho_chain::sidecar::{Entries, Meaning};
use tacho_chain::verify::{self, Directory as _, Finding, LogState, Options, Report};
use tacho_logdir::read::directory::RealDirectory;
use tacho_logdir::read::identities::Identities;
use tacho_progress::Progress;
use tacho_ship::small_file;
use tacho_ship::words::megabytes;

use crate::cli::log::LogPath;
use crate::cli::{CheckpointArgs, VerifyArgs};
use crate::say;

pub use keys::generate;

/// A failure that is not caused by the command line.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub struct VerifyError(#[from] anyhow::Error);

/// The exit code of a state. 0, 1 and 2 have their usual meanings.
fn exit_code(state: LogState) -> u8 {
    match state {
        LogState::Ok => 0,
        LogState::Lost => 10,
        LogState::UnsignedTail => 11,
        LogState::Gap => 12,
        LogState::Truncated => 13,
        LogState::Modified => 14,
        LogState::NotSealed => 15,
        LogState::WrongKey => 16,
        LogState::BrokenChain => 17,
        LogState::Recovered => 18,
        LogState::Encrypted => 19,
    }
}

/// The displayed state.
fn verdict(state: LogState) -> &'static str {
    match state {
        LogState::Ok => "OK: everything is there, unchanged and signed",
        LogState::Lost => {
            "OK, WITH DECLARED LOSSES: unchanged; its `lost` lines report missing records"
        }
        LogState::UnsignedTail => {
            "UNSIGNED TAIL: unchanged; no checkpoint covers the newest lines yet"
        }
        LogState::Recovered => {
            "RECOVERED: unchanged; some lines were sealed later than they were written"
        }
        LogState::Encrypted => {
            "ENCRYPTED: the seals are good; some files were not decrypted and compared (see --identity)"
        }
        LogState::Gap => "GAP: files or records are missing without a tombstone",
        LogState::Truncated => "TRUNCATED: the log ends before what was sealed",
        LogState::Modified => "MODIFIED: the log is not what was recorded",
        LogState::NotSealed => "NOT SEALED: some of the log cannot be verified",
        LogState::WrongKey => "WRONG KEY: sealed under another key than that of --key",
        LogState::BrokenChain => {
            "BROKEN CHAIN: the recorder could not continue the chain of the lines before"
        }
    }
}

/// The complete result as one object, for `--json`.
#[derive(Serialize)]
struct Answer<'a> {
    state: &'static str,
    exit_code: u8,
    directory: String,
    files: u64,
    removed_files: u64,
    /// Number of those that the recorder removed, for each reason.
    removed_by: BTreeMap<String, u64>,
    /// Number of those that a hub removed from its copy.
    removed_by_hub: u64,
    encrypted_files: u64,
    records: u64,
    bytes: u64,
    last_seq: u64,
    lost_lines: u64,
    recovered_lines: u64,
    unsigned_lines: u64,
    closed: bool,
    checkpoint: Option<CheckpointAnswer<'a>>,
    findings: Vec<FindingAnswer<'a>>,
    more_findings: u64,
    notes: &'a [String],
    more_notes: u64,
}

#[derive(Serialize)]
struct CheckpointAnswer<'a> {
    seq: u64,
    file: &'a str,
    offset: u64,
    time_s: i64,
    reason: String,
}

#[derive(Serialize)]
struct FindingAnswer<'a> {
    state: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seq: Option<u64>,
    text: &'a str,
}

impl<'a> FindingAnswer<'a> {
    fn of(finding: &'a Finding) -> Self {
        Self {
            state: finding.state.word(),
            file: &finding.file,
            line: finding.line,
            first_seq: finding.seqs.map(|seqs| seqs.0),
            last_seq: finding.seqs.map(|seqs| seqs.1),
            text: &finding.text,
        }
    }
}

/// Runs `tacho verify`.
///
/// # Errors
/// The command line is wrong, or something cannot be read ([`VerifyError`]).
pub fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let keys =
        args.key.iter().map(|key| keys::read("--key", key)).collect::<Result<Vec<_>, _>>()?;
    let expect = match &args.expect {
        Some(path) => Some(read_expected(path)?),
        None => None,
    };
    let identities = args.identity.read()?;
    let log = args.log.find();
    let hub_key = args.hub_key.as_ref().map(|key| keys::read("--hub-key", key)).transpose()?;
    if std::fs::metadata(&log.path).is_ok_and(|metadata| metadata.is_file()) {
        ensure!(args.expect.is_none(), "--expect is for log directories, not for a bundle");
        return bundle::run(&log.path, keys, hub_key, args.format);
    }
    ensure!(
        !keys.is_empty(),
        "--key is needed for a log directory: --hub-key is not that of a log"
    );
    let directory = open(&log, identities)?;
    let mut progress = Verified::new(directory.total_bytes(), !args.format.is_json());
    let options = Options { keys, expect, hub_keys: hub_key.into_iter().collect() };
    let report = verify::verify(&directory, &options, &mut |bytes| progress.add(bytes))
        .with_context(|| format!("cannot verify {log}"))
        .map_err(VerifyError)?;
    progress.end();
    if args.format.is_json() {
        delivered(say::json(&answer(&report, &log.path)))?;
    } else {
        delivered(show(&report))?;
    }
    Ok(ExitCode::from(exit_code(report.state())))
}

/// The exit code is the answer, also if the reader of the text has gone (`| head`): then it must
/// not become that of success.
fn delivered(written: std::io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write the result"),
    }
}

fn open(log: &LogPath, identities: Identities) -> anyhow::Result<RealDirectory> {
    RealDirectory::new(&log.path, identities)
        .with_context(|| format!("cannot read the log directory {log}"))
}

/// A checkpoint has a few lines.
const CHECKPOINT_BYTES_MAX: u64 = 64 << 10;

fn read_expected(path: &Path) -> anyhow::Result<String> {
    let text = small_file::read_text(path, CHECKPOINT_BYTES_MAX)
        .with_context(|| format!("cannot read the checkpoint {}", path.display()))?;
    ensure!(
        verify::read_checkpoint(&text).is_ok(),
        "{} is not a checkpoint; give the unchanged output of `tacho checkpoint`",
        path.display()
    );
    Ok(text)
}

fn answer<'a>(report: &'a Report, directory: &Path) -> Answer<'a> {
    let state = report.state();
    let checkpoint = report.checkpoint.as_ref().map(|(checkpoint, _)| CheckpointAnswer {
        seq: checkpoint.seq,
        file: &checkpoint.file,
        offset: checkpoint.offset,
        time_s: checkpoint.time_s,
        reason: checkpoint.reason.to_string(),
    });
    let findings = report.findings.iter().map(FindingAnswer::of);
    let removed_by = report.removed_by.iter();
    Answer {
        state: state.word(),
        exit_code: exit_code(state),
        directory: directory.display().to_string(),
        files: report.files,
        removed_files: report.removed_files,
        removed_by_hub: report.removed_by_hub,
        removed_by: removed_by.map(|(reason, count)| (reason.to_string(), *count)).collect(),
        encrypted_files: report.encrypted_files,
        records: report.lines,
        bytes: report.bytes,
        last_seq: report.last_seq,
        lost_lines: report.lost_lines,
        recovered_lines: report.recovered_lines,
        unsigned_lines: report.unsigned_lines,
        closed: report.is_closed,
        checkpoint,
        findings: findings.collect(),
        more_findings: report.more_findings,
        notes: &report.notes,
        more_notes: report.more_notes,
    }
}

fn show_findings(findings: &[Finding], more: u64) -> std::io::Result<()> {
    for finding in findings {
        say::result(&format!("  {}: {finding}", finding.state.word()))?;
    }
    if more > 0 {
        say::result(&format!("  and {}", say::counted(more, "more finding")))?;
    }
    Ok(())
}

fn show(report: &Report) -> std::io::Result<()> {
    say::result(verdict(report.state()))?;
    show_findings(&report.findings, report.more_findings)?;
    for note in &report.notes {
        say::result(&format!("  note: {note}"))?;
    }
    if report.more_notes > 0 {
        let more = say::counted(report.more_notes, "more note");
        say::result(&format!("  and {more}"))?;
    }
    let files = say::counted(report.files, "sealed file");
    let records = say::counted(report.lines, "record");
    say::result(&format!("{files}, {records}, the last one {}", say::grouped(report.last_seq)))?;
    if report.removed_files > 0 {
        let removed = say::counted(report.removed_files, "file");
        let reasons = report.removed_by.iter();
        let mut reasons: Vec<String> = reasons
            .map(|(reason, count)| format!("{} by {reason}", say::grouped(*count)))
            .collect();
        if report.removed_by_hub > 0 {
            reasons.push(format!("{} by the hub's retention", say::grouped(report.removed_by_hub)));
        }
        let reasons = reasons.join(", ");
        say::result(&format!("{removed} removed with a tombstone ({reasons})"))?;
    }
    if report.recovered_lines > 0 {
        let lines = say::counted(report.recovered_lines, "line");
        say::result(&format!("{lines} sealed at a later start, not when written (recovered)"))?;
    }
    if report.lost_lines > 0 {
        say::result(&say::counted(report.lost_lines, "`lost` line"))?;
    }
    match &report.checkpoint {
        Some((checkpoint, _)) => {
            let time = say::time(&mut say::clock(), checkpoint.time_s.saturating_mul(1_000_000));
            let seq = say::grouped(checkpoint.seq);
            say::result(&format!("newest checkpoint: {time}, up to record {seq}"))?;
        }
        None => say::result("no checkpoint signed with this key")?,
    }
    if !report.is_closed {
        say::result("the log does not end with a clean shutdown: its recorder runs or was killed")?;
    }
    Ok(())
}

/// How much of a log or a bundle is verified.
struct Verified {
    total_bytes: u64,
    bytes: u64,
    line: Progress,
}

impl Verified {
    fn new(total_bytes: u64, is_wanted: bool) -> Self {
        Self { total_bytes, bytes: 0, line: Progress::new(is_wanted) }
    }

    fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        let (done, total) = (self.bytes, self.total_bytes);
        self.line.show(|| format!("{} verified", megabytes(done, Some(total))));
    }

    fn end(&mut self) {
        self.line.end();
    }
}

/// Runs `tacho checkpoint`: prints the newest checkpoint of a directory.
///
/// # Errors
/// There is none, or a file cannot be read.
pub fn checkpoint(args: &CheckpointArgs) -> anyhow::Result<()> {
    let newest = newest_checkpoint(&args.log.find()).map_err(VerifyError)?;
    print!("{newest}");
    Ok(())
}

fn newest_checkpoint(directory: &LogPath) -> anyhow::Result<String> {
    let log = open(directory, Identities::default())?;
    let sidecars =
        log.sidecars().with_context(|| format!("cannot read the log directory {directory}"))?;
    for path in sidecars.iter().rev() {
        let read = || -> std::io::Result<Option<Vec<u8>>> {
            let source = log.open(path)?;
            let mut entries = Entries::new(std::io::BufReader::new(source));
            let mut newest = None;
            while let Some(entry) = entries.next_entry()? {
                if let Some(Meaning::Checkpoint(..)) = entry.meaning {
                    newest = Some(entry.bytes);
                }
            }
            Ok(newest)
        };
        if let Some(bytes) = read().with_context(|| format!("cannot read {path}"))? {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    bail!(
        "{directory} has no checkpoint; name the directory of a sealed log (tacho_signing_key_file)"
    );
}
