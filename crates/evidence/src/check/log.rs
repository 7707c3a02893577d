//! The seals of one generation, and the parts of its log files.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read as _};

use sha2::{Digest as _, Sha256};
use tacho_chain::entry::Frame;
use tacho_chain::hash::Hash;
use tacho_chain::key::VerifierKey;
use tacho_chain::proof::{Keys, SidecarWalk, Step};
use tacho_chain::sidecar::Entries;
use tacho_chain::verify::{Finding, LogState};
use tacho_ship::protocol::{FileName, Stem};

use super::{Bundle, Report};
use crate::container::{Member, Section};
use crate::manifest::FilePart;
use crate::names::{LogName, Name};

const BUFFER_BYTES: usize = 64 << 10;

/// What is known of one generation.
#[derive(Default)]
pub(super) struct LogProof {
    /// The log files that have parts in the bundle.
    pub(super) files: BTreeMap<Stem, FileProof>,
}

/// The parts of one log file.
#[derive(Default)]
pub(super) struct FileProof {
    /// In the order of the log file.
    pub(super) parts: Vec<Part>,
    /// Frames whose lines are in the bundle, in the order of the log file.
    pub(super) frames: Vec<Covered>,
}

/// A part of a log file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Where it begins in the log file, bytes.
    pub(super) from: u64,
    /// Where it ends.
    pub(super) to: u64,
    /// Where it begins in the bundle.
    pub(super) at: u64,
}

/// A frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Covered {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) is_recovered: bool,
    pub(super) state: FrameState,
}

/// What is known of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FrameState {
    /// The lines are what was sealed, under a signature to which a trusted root leads.
    Proven,
    /// No checkpoint follows it.
    Unsigned,
    /// No trusted root leads to the signature.
    Unknown,
    /// The lines are not what was sealed.
    Bad,
}

impl LogProof {
    /// Reads keys, sidecars and parts of log files.
    pub(super) fn read(
        bundle: &Bundle<'_>,
        name: &LogName,
        members: &[(&Member, &FilePart)],
        roots: Vec<VerifierKey>,
        report: &mut Report,
        progress: &mut dyn FnMut(u64),
    ) -> io::Result<Self> {
        let keys = read_keys(bundle, name, roots, report)?;
        keys.findings().iter().for_each(|finding| report.add_of(name, finding));
        report.more_findings += keys.more_findings();
        let mut log = Self::default();
        for (member, part) in members {
            let Name::Lines(_, stem) = &member.name else {
                if !part.ranges.is_empty() {
                    report.say(LogState::Modified, &member.name, "only log files have ranges");
                }
                continue;
            };
            let Some(parts) = parts(&part.ranges, member.offset, member.bytes) else {
                report.say(
                    LogState::Modified,
                    &member.name,
                    "its ranges are not those of its bytes",
                );
                continue;
            };
            let mut proof = FileProof { parts, frames: Vec::new() };
            let sidecar = Name::Sidecar(name.clone(), stem.clone());
            if bundle.member(&sidecar).is_some() {
                let mut reader = Reader { bundle, name, keys: &keys, report, progress };
                reader.sidecar(stem, &sidecar, &mut proof)?;
            }
            log.files.insert(stem.clone(), proof);
        }
        for (member, _) in members {
            if let Name::Sidecar(_, stem) = &member.name
                && !log.files.contains_key(stem)
            {
                report.say(LogState::Modified, &member.name, "its log file is not here");
            }
        }
        Ok(log)
    }
}

fn read_keys(
    bundle: &Bundle<'_>,
    log: &LogName,
    roots: Vec<VerifierKey>,
    report: &mut Report,
) -> io::Result<Keys> {
    let mut keys = Keys::new(roots);
    let name = Name::Keys(log.clone());
    if let Some(member) = bundle.member(&name) {
        let mut entries = Entries::new(BufReader::new(Section::of(bundle.file, member)));
        while let Some(entry) = entries.next_entry()? {
            keys.add(entry);
        }
        if entries.is_torn() {
            report.say(LogState::Modified, name, "its last entry is not complete");
        }
    }
    Ok(keys)
}

/// The parts of a log file. `None`: they are not in order, or have other bytes than the member.
fn parts(ranges: &[(u64, u64)], mut at: u64, bytes: u64) -> Option<Vec<Part>> {
    let end = at.checked_add(bytes)?;
    let mut parts: Vec<Part> = Vec::with_capacity(ranges.len());
    for &(from, to) in ranges {
        let is_behind = parts.last().is_none_or(|last| last.to < from);
        if !is_behind || from >= to {
            return None;
        }
        parts.push(Part { from, to, at });
        at = at.checked_add(to - from).filter(|at| *at <= end)?;
    }
    (at == end).then_some(parts)
}

struct Reader<'a, 'b> {
    bundle: &'a Bundle<'b>,
    name: &'a LogName,
    keys: &'a Keys,
    report: &'a mut Report,
    progress: &'a mut dyn FnMut(u64),
}

impl Reader<'_, '_> {
    /// Checks the extract of a sidecar, and the lines of its frames.
    fn sidecar(&mut self, stem: &Stem, name: &Name, proof: &mut FileProof) -> io::Result<()> {
        let Some(member) = self.bundle.member(name) else { return Ok(()) };
        let log = FileName::Lines(stem.clone()).to_string();
        let mut entries = Entries::new(BufReader::new(Section::of(self.bundle.file, member)));
        let mut walk = SidecarWalk::new(self.keys, &log, true);
        // Frames that no checkpoint has covered yet.
        let mut open = 0;
        while let Some(entry) = entries.next_entry()? {
            match walk.next(&entry) {
                Some(Step::Epoch) => {}
                Some(Step::Frame { frame, first_seq }) => {
                    self.frame(&log, &frame, first_seq, proof)?;
                }
                Some(Step::Signed { is_believed, .. }) => {
                    let state = if is_believed { FrameState::Proven } else { FrameState::Unknown };
                    for frame in &mut proof.frames[open..] {
                        if frame.state == FrameState::Unsigned {
                            frame.state = state;
                        }
                    }
                    open = proof.frames.len();
                }
                None => break,
            }
        }
        if entries.is_torn() {
            self.report.say(LogState::Modified, name, "its last entry is not complete");
        }
        walk.findings().iter().for_each(|finding| self.report.add_of(self.name, finding));
        Ok(())
    }

    /// Compares the lines of a frame with its hash, if they are here.
    fn frame(
        &mut self,
        log: &str,
        frame: &Frame,
        first_seq: u64,
        proof: &mut FileProof,
    ) -> io::Result<()> {
        let Some(part) = proof.part(frame.start, frame.end) else { return Ok(()) };
        // Each byte is read once, whatever the sidecar claims.
        if proof.frames.last().is_some_and(|last| frame.start < last.end) {
            return Ok(());
        }
        let at = part.at + (frame.start - part.from);
        let section = Section::new(self.bundle.file, at, frame.end - frame.start);
        let (hash, lines, is_whole) = digest(section, self.progress)?;
        let is_good = hash == frame.digest && lines == frame.lines && is_whole;
        if !is_good {
            let seqs = (first_seq <= frame.last_seq).then_some((first_seq, frame.last_seq));
            let (file, text) = (log.to_owned(), "not what was sealed".to_owned());
            let finding = Finding { state: LogState::Modified, file, line: None, seqs, text };
            self.report.add_of(self.name, &finding);
        }
        proof.frames.push(Covered {
            start: frame.start,
            end: frame.end,
            is_recovered: frame.recovered,
            state: if is_good { FrameState::Unsigned } else { FrameState::Bad },
        });
        Ok(())
    }
}

impl FileProof {
    /// The part that has all of these bytes of the log file.
    pub(super) fn part(&self, from: u64, to: u64) -> Option<Part> {
        let after = self.parts.partition_point(|part| part.from <= from);
        let part = self.parts.get(after.checked_sub(1)?)?;
        (to <= part.to && from < to).then_some(*part)
    }

    /// The frame that has a byte of the log file.
    pub(super) fn frame(&self, at: u64) -> Option<&Covered> {
        let after = self.frames.partition_point(|frame| frame.start <= at);
        let frame = self.frames.get(after.checked_sub(1)?)?;
        (at < frame.end).then_some(frame)
    }
}

/// Hash and number of lines, and whether the last one is whole.
fn digest(
    mut section: Section<'_>,
    progress: &mut dyn FnMut(u64),
) -> io::Result<(Hash, u64, bool)> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut lines, mut last) = (0, b'\n');
    loop {
        let count = section.read(&mut buffer)?;
        let bytes = &buffer[..count];
        let Some(end) = bytes.last() else { break };
        last = *end;
        hasher.update(bytes);
        lines += bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        progress(count as u64);
    }
    Ok((Hash(hasher.finalize().into()), lines, last == b'\n'))
}
