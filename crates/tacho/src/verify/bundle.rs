//! `tacho verify BUNDLE`: an evidence bundle of a hub.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Serialize;
use tacho_chain::key::VerifierKey;
use tacho_chain::verify::LogState;
use tacho_evidence::check::{self, Options, Report};
use tacho_evidence::manifest::{GenerationPart, Manifest, ServerPart};

use super::{FindingAnswer, Verified, VerifyError, delivered, exit_code, show_findings};
use crate::cli::ReportFormat;
use crate::say;

/// The displayed state.
fn verdict(state: LogState) -> &'static str {
    match state {
        LogState::Ok => "OK: every record is what was recorded, and signed",
        LogState::Lost => {
            "OK, WITH DECLARED LOSSES: every record is signed; others in the time range were lost"
        }
        LogState::UnsignedTail => "UNSIGNED: no checkpoint covered some of the records yet",
        LogState::Recovered => {
            "RECOVERED: unchanged; something was sealed later than it was written"
        }
        LogState::NotSealed => "NOT SEALED: nothing proves some of the records, or of the log",
        LogState::Gap => "GAP: files, records or keys are missing",
        LogState::BrokenChain => "BROKEN CHAIN: the recorder could not continue a chain",
        LogState::Truncated => "TRUNCATED: a log ends before what was sealed",
        LogState::Encrypted => "ENCRYPTED: something could not be compared",
        LogState::Modified => "MODIFIED: the bundle, or what it has of a log, was changed",
        LogState::WrongKey => "WRONG KEY: sealed or signed under another key than the given one",
    }
}

/// The result as one object.
#[derive(Serialize)]
struct Answer<'a> {
    state: &'static str,
    exit_code: u8,
    bundle: String,
    records: u64,
    proven: u64,
    /// The key that has signed the manifest.
    hub_key: Option<&'a str>,
    /// It is the one in the bundle: no `--hub-key` was given.
    hub_key_is_from_bundle: bool,
    /// The root keys are those that the hub states: no `--key` was given.
    root_keys_are_from_bundle: bool,
    manifest: Option<Summary<'a>>,
    findings: Vec<FindingAnswer<'a>>,
    more_findings: u64,
}

/// What the hub states.
#[derive(Serialize)]
struct Summary<'a> {
    hub: &'a str,
    created: &'a str,
    by: &'a str,
    query: &'a tacho_evidence::manifest::QueryPart,
    servers: &'a [ServerPart],
}

/// Checks a bundle, and shows the result.
///
/// # Errors
/// It cannot be read.
pub fn run(
    path: &Path,
    keys: Vec<VerifierKey>,
    hub_key: Option<VerifierKey>,
    format: ReportFormat,
) -> anyhow::Result<ExitCode> {
    let file = File::open(path)
        .with_context(|| format!("cannot open {}", path.display()))
        .map_err(VerifyError)?;
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    let mut progress = Verified::new(bytes, !format.is_json());
    let options = Options { keys, hub_key };
    let report = check::check(&file, &options, &mut |bytes| progress.add(bytes))
        .with_context(|| format!("cannot read {}", path.display()))
        .map_err(VerifyError)?;
    progress.end();
    if format.is_json() {
        delivered(say::json(&answer(&report, path, &options)))?;
    } else {
        delivered(show(&report, &options))?;
    }
    Ok(ExitCode::from(exit_code(report.state())))
}

fn answer<'a>(report: &'a Report, path: &Path, options: &Options) -> Answer<'a> {
    let state = report.state();
    let manifest = report.manifest.as_ref();
    Answer {
        state: state.word(),
        exit_code: exit_code(state),
        bundle: path.display().to_string(),
        records: report.records(),
        proven: report.proven(),
        hub_key: manifest.map(|manifest| &*manifest.hub.key),
        hub_key_is_from_bundle: options.hub_key.is_none(),
        root_keys_are_from_bundle: options.keys.is_empty(),
        manifest: manifest.map(|manifest| Summary {
            hub: &manifest.hub.name,
            created: &manifest.created,
            by: &manifest.by.name,
            query: &manifest.query,
            servers: &manifest.servers,
        }),
        findings: report.findings.iter().map(FindingAnswer::of).collect(),
        more_findings: report.more_findings,
    }
}

fn show(report: &Report, options: &Options) -> std::io::Result<()> {
    say::result(verdict(report.state()))?;
    show_findings(&report.findings, report.more_findings)?;
    let records = say::counted(report.records(), "record");
    say::result(&format!("{records}, {} of them proven", say::grouped(report.proven())))?;
    let Some(manifest) = &report.manifest else { return Ok(()) };
    show_statements(manifest)?;
    let key = &manifest.hub.key;
    if options.hub_key.is_some() {
        say::result(&format!("signed with the key of the hub: {key}"))?;
    } else {
        say::result(&format!("signed with a key that is in the bundle itself: {key}"))?;
        say::result("  compare it with the file hub.pub of the hub, or give that as --hub-key")?;
    }
    if options.keys.is_empty() {
        say::result("the root keys of the logs are those that the hub states, not given by --key")?;
    }
    Ok(())
}

/// What the hub states, and nothing here can prove.
fn show_statements(manifest: &Manifest) -> std::io::Result<()> {
    let hub = &manifest.hub;
    say::result(&format!(
        "the hub {} ({}) states, on {}, for {}:",
        hub.name, hub.version, manifest.created, manifest.by.name
    ))?;
    let query = &manifest.query;
    let from = query.from.as_deref().unwrap_or("the first record");
    let to = query.to.as_deref().unwrap_or("the last record");
    let q = if query.q.is_empty() { "everything".to_owned() } else { format!("`{}`", query.q) };
    say::result(&format!("  these are all records that match {q}, from {from} to {to}"))?;
    for server in &manifest.servers {
        for generation in &server.generations {
            say::result(&format!("  {}", coverage(server, generation)))?;
        }
        for fork in &server.forks {
            say::result(&format!(
                "  {}: generation {} began on {}: the log on the host contradicted the copy ({}: {})",
                server.server, fork.generation, fork.time, fork.file, fork.reason
            ))?;
        }
        for alert in &server.alerts {
            say::result(&format!(
                "  {}: alert {} ({}), {} to {}, {} times",
                server.server, alert.rule, alert.severity, alert.first, alert.last, alert.count
            ))?;
        }
    }
    Ok(())
}

fn coverage(server: &ServerPart, part: &GenerationPart) -> String {
    let name = format!("{}, generation {}", server.server, part.generation);
    let records = say::counted(part.records, "record");
    let files = say::counted(part.log_files, "log file");
    let signed = match &part.checkpoint {
        Some(checkpoint) => {
            let time_us = checkpoint.time_s.saturating_mul(1_000_000);
            let time = say::time(&mut say::clock(), time_us);
            format!("signed up to record {} at {time}", say::grouped(checkpoint.seq))
        }
        None => "without a checkpoint".to_owned(),
    };
    let tail = match part.unsigned_bytes {
        0 => String::new(),
        bytes => format!("; {} behind that, not signed", say::counted(bytes, "byte")),
    };
    format!("{name}: {records}; the time range is in {files}, {signed}{tail}")
}
