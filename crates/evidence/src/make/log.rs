//! One generation: the state of its log files in the time range, and the parts with records.

use std::collections::BTreeSet;
use std::io::Read as _;

use tacho_chain::hash::Hash;
use tacho_chain::key::VerifierKey;
use tacho_chain::proof::{SidecarWalk, Step};
use tacho_chain::sidecar::Entries;
use tacho_chain::verify::{Finding, LogState};
use tacho_replica::ReplicaFile;
use tacho_ship::protocol::{FileName, Stem};

use super::copy::{Copy, Lengths, Lines};
use super::extract::{Extract, merge};
use super::keys::{self, Epochs};
use super::{Log, MakeError, part};
use crate::container::Writer;
use crate::manifest::{CheckpointPart, FilePart, FindingPart, GenerationPart};
use crate::names::{LogName, Name};

/// Findings that the manifest has; the others are counted.
const FINDINGS_MAX: usize = 200;
/// The time in the name of a log file: `audit-20261121T100000Z-000001`.
const TIME: std::ops::Range<usize> = 6..22;

/// One generation.
pub(super) struct Task<'a> {
    pub(super) log: &'a Log,
    pub(super) name: LogName,
    pub(super) copy: &'a Copy,
    pub(super) times: &'a (Option<String>, Option<String>),
}

/// The end of the file before: its name, and its chain if it ended with its last checkpoint.
type End = Option<(String, Option<Hash>)>;

impl Task<'_> {
    /// Writes the members of this log, and returns what the manifest says about it.
    pub(super) fn run(
        &self,
        root: &mut Option<VerifierKey>,
        writer: &mut Writer<'_>,
        members: &mut Vec<FilePart>,
    ) -> Result<GenerationPart, MakeError> {
        let stems = self.stems();
        let records = self.log.records.values().map(|offsets| offsets.len() as u64).sum();
        let mut coverage = GenerationPart {
            generation: self.log.generation,
            records,
            log_files: stems.len() as u64,
            ..GenerationPart::default()
        };
        let (Some(first), Some(last)) = (stems.first(), stems.last()) else {
            return Ok(coverage);
        };
        let file = |stem: &Stem| FileName::Lines(stem.clone()).to_string();
        (coverage.first_file, coverage.last_file) = (Some(file(first)), Some(file(last)));
        let newest = self.log.records.keys().next_back();
        let epochs = keys::read(self.copy, last, newest, root)?;
        let range = file(first)..=file(last);
        let in_range = |finding: &&Finding| range.contains(&finding.file);
        for finding in epochs.keys.findings().iter().filter(in_range) {
            add(&mut coverage, finding);
        }
        coverage.more_findings += epochs.keys.more_findings();
        if records > 0 {
            let written = writer.member(&Name::Keys(self.name.clone()), &epochs.bytes)?;
            members.push(part(written, Vec::new()));
        }
        let mut before: End = None;
        for stem in &stems {
            self.file(stem, &epochs, &mut before, &mut coverage, writer, members)?;
        }
        Ok(coverage)
    }

    /// The log files of the time range, by their names, and those that have records.
    fn stems(&self) -> BTreeSet<Stem> {
        let (from, to) = self.times;
        let mut stems: BTreeSet<Stem> = self.log.records.keys().cloned().collect();
        let mut next: Option<&str> = None;
        for stem in self.copy.files.keys().rev() {
            let time = stem.as_str().get(TIME).unwrap_or_default();
            // A file ends when the next one begins.
            let is_late = to.as_ref().is_some_and(|to| time > to.as_str());
            let ends_early =
                next.is_some_and(|next| from.as_ref().is_some_and(|from| next < from.as_str()));
            if !is_late && !ends_early {
                stems.insert(stem.clone());
            }
            next = Some(time);
        }
        stems
    }

    fn file(
        &self,
        stem: &Stem,
        epochs: &Epochs,
        before: &mut End,
        coverage: &mut GenerationPart,
        writer: &mut Writer<'_>,
        members: &mut Vec<FilePart>,
    ) -> Result<(), MakeError> {
        let lengths = self.copy.files.get(stem).copied().unwrap_or_default();
        let name = FileName::Lines(stem.clone()).to_string();
        let offsets = self.log.records.get(stem).map_or(&[][..], Vec::as_slice);
        let say = |coverage: &mut GenerationPart, state, text: String| {
            add(coverage, &Finding { state, file: name.clone(), line: None, seqs: None, text });
        };
        let mut extract = Extract::new(offsets);
        match lengths.chain {
            None => {
                let bytes = lengths.lines.unwrap_or(0);
                say(coverage, LogState::NotSealed, format!("it has no sidecar; {bytes} bytes"));
                coverage.unsigned_bytes += bytes;
                *before = None;
                // There is nothing to write.
                extract.end();
            }
            Some(bytes) => {
                if lengths.lines.is_none() && !epochs.removed.contains(&name) {
                    let text = "the file is missing, its sidecar is here".to_owned();
                    say(coverage, LogState::Gap, text);
                }
                if !offsets.is_empty() {
                    writer.begin(&Name::Sidecar(self.name.clone(), stem.clone()))?;
                }
                self.sidecar(stem, bytes, epochs, before, coverage, &mut extract, writer)?;
                if !offsets.is_empty() {
                    members.push(part(writer.finish()?, Vec::new()));
                }
            }
        }
        if offsets.is_empty() {
            return Ok(());
        }
        let (mut ranges, lone) = extract.into_parts();
        let mut lines = Lines::open(&self.copy.directory, &FileName::Lines(stem.clone()))?;
        for offset in lone {
            ranges.push((offset, offset + lines.line(offset)?.len() as u64));
        }
        self.lines(stem, merge(ranges, lengths.lines.unwrap_or(0)), writer, members)
    }

    /// Checks a sidecar, and copies the entries that prove records.
    #[expect(clippy::too_many_arguments, reason = "the state of one log")]
    fn sidecar(
        &self,
        stem: &Stem,
        bytes: u64,
        epochs: &Epochs,
        before: &mut End,
        coverage: &mut GenerationPart,
        extract: &mut Extract<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<(), MakeError> {
        let name = FileName::Chain(stem.clone());
        let log = FileName::Lines(stem.clone()).to_string();
        let mut entries = Entries::new(self.copy.open(&name, bytes)?);
        let mut walk = SidecarWalk::new(&epochs.keys, &log, false);
        let mut signed = 0;
        let mut recovered: Option<(u64, u64)> = None;
        let has_records = self.log.records.contains_key(stem);
        let copy = |piece: Vec<u8>, writer: &mut Writer<'_>| match has_records {
            true => writer.write(&piece),
            false => writer.tick(),
        };
        while let Some(entry) =
            entries.next_entry().map_err(|error| self.copy.error(&name, error))?
        {
            match walk.next(&entry) {
                Some(Step::Frame { frame, first_seq }) => {
                    extract.frame(&frame, &entry.bytes);
                    if frame.recovered {
                        let first = recovered.map_or(first_seq, |(first, _)| first);
                        recovered = Some((first, frame.last_seq));
                    }
                }
                Some(Step::Epoch) => copy(extract.signed(&entry.bytes), writer)?,
                Some(Step::Signed { checkpoint, is_believed }) => {
                    copy(extract.signed(&entry.bytes), writer)?;
                    if is_believed {
                        signed = checkpoint.offset;
                        coverage.checkpoint = Some(CheckpointPart {
                            seq: checkpoint.seq,
                            time_s: checkpoint.time_s,
                            file: checkpoint.file,
                            offset: checkpoint.offset,
                        });
                    }
                }
                None => break,
            }
        }
        copy(extract.end(), writer)?;
        walk.findings().iter().for_each(|finding| add(coverage, finding));
        if let Some(seqs) = recovered {
            let text = "recovered: sealed at a start, not when they were written".to_owned();
            let (state, file, seqs) = (LogState::Recovered, log.clone(), Some(seqs));
            add(coverage, &Finding { state, file, line: None, seqs, text });
        }
        let is_newest = self.copy.files.keys().next_back() == Some(stem);
        if entries.is_torn() && !is_newest {
            let text = "the last entry of its sidecar is not complete".to_owned();
            let (state, file) = (LogState::Modified, log.clone());
            add(coverage, &Finding { state, file, line: None, seqs: None, text });
        }
        self.ends(stem, epochs, before, &walk, signed, coverage);
        *before = Some((log, walk.end_of_file()));
        Ok(())
    }

    /// Whether the log file has what its sidecar covers, and continues the file before.
    fn ends(
        &self,
        stem: &Stem,
        epochs: &Epochs,
        before: &End,
        walk: &SidecarWalk<'_>,
        signed: u64,
        coverage: &mut GenerationPart,
    ) {
        let log = FileName::Lines(stem.clone()).to_string();
        let mut say = |state, text: String| {
            let file = log.clone();
            add(coverage, &Finding { state, file, line: None, seqs: None, text });
        };
        if let (Some((file, end)), Some(epoch)) = (before, epochs.keys.epoch(&log))
            && epoch.previous.as_ref() == Some(file)
            && *end != Some(epoch.chain)
        {
            say(
                LogState::Modified,
                "it does not continue the end of the file before it".to_owned(),
            );
        }
        let Some((sealed, seq)) = walk.end_of_frames() else { return };
        if let Lengths { lines: Some(length), .. } =
            self.copy.files.get(stem).copied().unwrap_or_default()
        {
            if length < sealed {
                say(
                    LogState::Gap,
                    format!("{} sealed bytes at its end are missing", sealed - length),
                );
            }
            let is_newest = self.copy.files.keys().next_back() == Some(stem);
            if length > sealed && !is_newest {
                say(
                    LogState::Modified,
                    format!("{} bytes at its end are not sealed", length - sealed),
                );
            }
            coverage.unsigned_bytes += length.saturating_sub(signed);
        }
        coverage.sealed_seq = Some(seq);
    }

    /// Copies parts of a log file.
    fn lines(
        &self,
        stem: &Stem,
        ranges: Vec<(u64, u64)>,
        writer: &mut Writer<'_>,
        members: &mut Vec<FilePart>,
    ) -> Result<(), MakeError> {
        let name = FileName::Lines(stem.clone());
        let path = self.copy.directory.join(name.to_string());
        let error = |source| MakeError::Read { path: path.clone(), source };
        let file = ReplicaFile::open(&path).map_err(error)?;
        writer.begin(&Name::Lines(self.name.clone(), stem.clone()))?;
        let mut buffer = vec![0; 64 << 10];
        for &(from, to) in &ranges {
            let mut section = file.read_from(from).take(to - from);
            let mut left = to - from;
            while left > 0 {
                let count = section.read(&mut buffer).map_err(error)?;
                if count == 0 {
                    return Err(error(std::io::ErrorKind::UnexpectedEof.into()));
                }
                writer.write(&buffer[..count])?;
                left -= count as u64;
            }
        }
        members.push(part(writer.finish()?, ranges));
        Ok(())
    }
}

fn add(coverage: &mut GenerationPart, finding: &Finding) {
    if coverage.findings.len() >= FINDINGS_MAX {
        coverage.more_findings += 1;
        return;
    }
    coverage.findings.push(FindingPart {
        state: finding.state.word().to_owned(),
        file: finding.file.clone(),
        first_seq: finding.seqs.map(|seqs| seqs.0),
        last_seq: finding.seqs.map(|seqs| seqs.1),
        text: finding.text.clone(),
    });
}
