//! Checks a bundle, offline. Trusts no byte of it: memory is bounded by the size of the file, names
//! are never used as paths, and every byte counts.
//!
//! | module | contents |
//! |---|---|
//! | `log` | the seals of one generation, and the parts of its log files |
//! | `records` | each record against the parts of the log files |

mod log;
mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};

use tacho_chain::key::VerifierKey;
use tacho_chain::verify::{Finding, LogState};

use crate::container::{self, Member, ReadError, Section, hash_of};
use crate::manifest::{
    self, FORMAT, FilePart, MANIFEST_BYTES_MAX, Manifest, SIGNATURE_BYTES_MAX, VERSION,
};
use crate::names::{LogName, Name};
use log::LogProof;

/// Findings that are kept; the others are counted.
const FINDINGS_MAX: usize = 1000;

/// What the verifier trusts.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Root keys of logs; empty: those that the hub states.
    pub keys: Vec<VerifierKey>,
    /// The key of the hub; none: the one in the bundle.
    pub hub_key: Option<VerifierKey>,
}

/// The records of one generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReport {
    /// Which.
    pub log: LogName,
    /// Its records in the bundle.
    pub records: u64,
    /// Those that a signed frame covers.
    pub proven: u64,
}

/// The result.
#[derive(Debug, Default)]
pub struct Report {
    /// What was found. [`Finding::file`] may have a directory here.
    pub findings: Vec<Finding>,
    /// Findings beyond those.
    pub more_findings: u64,
    worst: Option<LogState>,
    /// The manifest, if it can be read.
    pub manifest: Option<Manifest>,
    /// The generations that have records.
    pub logs: Vec<LogReport>,
}

impl Report {
    /// The worst that was found.
    #[must_use]
    pub fn state(&self) -> LogState {
        self.worst.unwrap_or(LogState::Ok)
    }

    /// Records in the bundle.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.logs.iter().map(|log| log.records).sum()
    }

    /// Records that a signed frame covers.
    #[must_use]
    pub fn proven(&self) -> u64 {
        self.logs.iter().map(|log| log.proven).sum()
    }

    fn add(&mut self, finding: Finding) {
        self.worst = self.worst.max(Some(finding.state));
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.more_findings += 1;
        }
    }

    fn say(&mut self, state: LogState, file: impl ToString, text: impl Into<String>) {
        let (file, text) = (file.to_string(), text.into());
        self.add(Finding { state, file, line: None, seqs: None, text });
    }

    /// The same with the name of the log in front of that of the file.
    fn add_of(&mut self, log: &LogName, finding: &Finding) {
        let file = format!("{}/{}/{}", log.server, log.generation, finding.file);
        self.add(Finding { file, ..finding.clone() });
    }
}

/// Checks a bundle. `progress` gets the number of bytes read since its last call.
///
/// # Errors
/// The file cannot be read.
pub fn check(file: &File, options: &Options, progress: &mut dyn FnMut(u64)) -> io::Result<Report> {
    let mut report = Report::default();
    let members = match container::list(file) {
        Ok(members) => members,
        Err(ReadError::Io(error)) => return Err(error),
        Err(error) => {
            report.say(LogState::Modified, "", format!("not an evidence bundle: {error}"));
            return Ok(report);
        }
    };
    let Some((manifest, members)) = read_manifest(file, &members, options, &mut report)? else {
        return Ok(report);
    };
    if !names_fit(&manifest.files, members, &mut report) {
        return Ok(report);
    }
    for (part, member) in manifest.files.iter().zip(members) {
        let hash = hash_of(Section::of(file, member), progress)?;
        if hash.to_string() != part.sha256 || member.bytes != part.bytes {
            report.say(LogState::Modified, &member.name, "not what the manifest lists");
        }
    }
    let members = members.iter().zip(&manifest.files);
    let index = members.map(|(member, part)| (&member.name, (member, part))).collect();
    let bundle = Bundle { file, manifest: &manifest, index };
    let mut logs = BTreeMap::new();
    for (name, members) in bundle.logs() {
        let roots =
            if options.keys.is_empty() { bundle.roots(&name) } else { options.keys.clone() };
        let log = LogProof::read(&bundle, &name, &members, roots, &mut report, progress)?;
        logs.insert(name, log);
    }
    records::check(&bundle, &logs, &mut report)?;
    statements(&manifest, &mut report);
    report.manifest = Some(manifest);
    Ok(report)
}

/// A bundle whose members are those of its manifest.
struct Bundle<'a> {
    file: &'a File,
    manifest: &'a Manifest,
    /// Each member, and what the manifest says about it.
    index: BTreeMap<&'a Name, (&'a Member, &'a FilePart)>,
}

impl<'a> Bundle<'a> {
    /// The generations, and their members.
    fn logs(&self) -> BTreeMap<LogName, Vec<(&'a Member, &'a FilePart)>> {
        let mut logs: BTreeMap<LogName, Vec<_>> = BTreeMap::new();
        for (name, &found) in &self.index {
            match name {
                Name::Keys(log) | Name::Sidecar(log, _) | Name::Lines(log, _) => {
                    logs.entry(log.clone()).or_default().push(found);
                }
                Name::Records | Name::Manifest | Name::Signature => {}
            }
        }
        logs
    }

    fn member(&self, name: &Name) -> Option<&'a Member> {
        self.index.get(name).map(|(member, _)| *member)
    }

    /// The root key that the hub states.
    fn roots(&self, log: &LogName) -> Vec<VerifierKey> {
        let server = self.manifest.servers.iter().find(|server| server.server == log.server);
        let root = server.and_then(|server| server.root.as_ref()?.parse::<VerifierKey>().ok());
        root.into_iter().filter(VerifierKey::is_root).collect()
    }
}

fn small(file: &File, member: &Member, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    if member.bytes > bytes_max {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    Section::of(file, member).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Reads the manifest, and checks its signature. Returns it and the other members.
fn read_manifest<'a>(
    file: &File,
    members: &'a [Member],
    options: &Options,
    report: &mut Report,
) -> io::Result<Option<(Manifest, &'a [Member])>> {
    let [others @ .., manifest, signature] = members else {
        report.say(LogState::Modified, "", "not an evidence bundle: it has no manifest");
        return Ok(None);
    };
    if manifest.name != Name::Manifest || signature.name != Name::Signature {
        report.say(
            LogState::Modified,
            "",
            "the last members are not the manifest and its signature",
        );
        return Ok(None);
    }
    let (Some(bytes), Some(signature)) =
        (small(file, manifest, MANIFEST_BYTES_MAX)?, small(file, signature, SIGNATURE_BYTES_MAX)?)
    else {
        report.say(LogState::Modified, Name::Manifest, "it or its signature is too long");
        return Ok(None);
    };
    let manifest: Manifest = match serde_json::from_slice(&bytes) {
        Ok(manifest) => manifest,
        Err(error) => {
            report.say(LogState::Modified, Name::Manifest, format!("it cannot be read: {error}"));
            return Ok(None);
        }
    };
    if manifest.format != FORMAT || manifest.version != VERSION {
        let text = format!("format {} version {}", manifest.format, manifest.version);
        report.say(LogState::Modified, Name::Manifest, format!("{text} is not known here"));
        return Ok(None);
    }
    let stated = manifest.hub.key.parse::<VerifierKey>().ok().filter(VerifierKey::is_root);
    match (&options.hub_key, stated) {
        (_, None) => report.say(LogState::Modified, Name::Manifest, "it has no key of a hub"),
        (Some(wanted), Some(stated)) if *wanted != stated => {
            let text = format!("signed by another hub, with the key {stated}");
            report.say(LogState::WrongKey, Name::Manifest, text);
        }
        (_, Some(stated)) => {
            if !manifest::is_signed(&bytes, &signature, &stated) {
                let text = "it is not the signature of this manifest by the hub's key";
                report.say(LogState::Modified, Name::Signature, text);
            }
        }
    }
    Ok(Some((manifest, others)))
}

/// Whether the members are those of the manifest, in its order, each once.
fn names_fit(files: &[FilePart], members: &[Member], report: &mut Report) -> bool {
    let names = members.iter().map(|member| member.name.to_string());
    if !files.iter().map(|part| &*part.name).eq(names.clone()) {
        report.say(
            LogState::Modified,
            Name::Manifest,
            "it does not list the members of this bundle",
        );
        return false;
    }
    let mut seen = BTreeSet::new();
    for member in members {
        let is_manifest = matches!(member.name, Name::Manifest | Name::Signature);
        if is_manifest || !seen.insert(&member.name) {
            report.say(LogState::Modified, &member.name, "the bundle has this member twice");
            return false;
        }
    }
    if !seen.contains(&Name::Records) {
        report.say(LogState::Modified, Name::Records, "it is missing");
        return false;
    }
    true
}

/// What the hub states about the logs in the time range.
fn statements(manifest: &Manifest, report: &mut Report) {
    for server in &manifest.servers {
        if server.lost_lines > 0 {
            let text = format!(
                "the hub states: {} `lost` lines in the time range declare {} lost records",
                server.lost_lines, server.lost_records
            );
            report.say(LogState::Lost, &server.server, text);
        }
        for generation in &server.generations {
            let log = LogName { server: server.server.clone(), generation: generation.generation };
            for part in &generation.findings {
                // A word of a later version: whatever it is, it is not good.
                let state = LogState::of_word(&part.state).unwrap_or(LogState::NotSealed);
                let seqs = part.first_seq.zip(part.last_seq);
                let text = format!("the hub states: {}", part.text);
                let file = part.file.clone();
                report.add_of(&log, &Finding { state, file, line: None, seqs, text });
            }
            report.more_findings += generation.more_findings;
        }
    }
}
