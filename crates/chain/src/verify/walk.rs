//! From file to file along the chain.

use std::collections::HashMap;
use std::io::{self, BufReader};

use super::content::{Content, Run};
use super::removed::{Gone, Removed};
use super::report::{Finding, Report, State};
use super::{Directory, Options, Parts, read_checkpoint};
use crate::SIDECAR_ENDING;
use crate::entry::{Checkpoint, CheckpointReason, Epoch, EpochReason, Frame};
use crate::hash::Hash;
use crate::key::VerifierKey;
use crate::note::Note;
use crate::sidecar::{Entries, Entry, Meaning};

/// What the next entry must go on from.
struct Before {
    /// Log file, without its directory.
    file: String,
    /// The chain.
    hash: Hash,
    /// `seq` of the last record.
    seq: u64,
    /// Sealed bytes of the file.
    offset: u64,
}

/// The file that is being read.
struct Open<'a> {
    sidecar: String,
    log: String,
    content: Option<Content<'a>>,
    is_first_entry: bool,
    /// A frame of this file has been told of as bad: the others are only counted.
    bad_frames: u64,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// It was read.
    Read,
    /// Something of it is not there any more, and nothing was read.
    Vanished,
}

/// Numbers of a hostile file may be anything.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// A verification on its way.
pub struct Walk<'a> {
    directory: &'a dyn Directory,
    options: &'a Options,
    progress: &'a mut dyn FnMut(u64),
    report: Report,
    key: Option<VerifierKey>,
    epoch: u64,
    /// Whether `key` hangs on a key that is believed.
    is_believed: bool,
    /// All keys that do, by their id.
    known: HashMap<[u8; 4], Vec<VerifierKey>>,
    before: Option<Before>,
    /// Reason of the checkpoint, if that is the newest entry.
    ended: Option<CheckpointReason>,
    expected_found: bool,
    wrong_key_told: bool,
}

impl<'a> Walk<'a> {
    pub fn new(
        directory: &'a dyn Directory,
        options: &'a Options,
        progress: &'a mut dyn FnMut(u64),
    ) -> Walk<'a> {
        Walk {
            directory,
            options,
            progress,
            report: Report::default(),
            key: None,
            epoch: 0,
            is_believed: false,
            known: HashMap::new(),
            before: None,
            ended: None,
            expected_found: false,
            wrong_key_told: false,
        }
    }

    pub fn tell(&mut self, finding: Finding) {
        self.report.add(finding);
    }

    fn say(&mut self, state: State, file: &str, line: Option<u64>, text: impl Into<String>) {
        let file = file.to_owned();
        self.tell(Finding { state, file, line, seqs: None, text: text.into() });
    }

    fn say_of(&mut self, state: State, file: &str, seqs: (u64, u64), text: impl Into<String>) {
        let (file, seqs) = (file.to_owned(), (seqs.0 <= seqs.1).then_some(seqs));
        self.tell(Finding { state, file, line: None, seqs, text: text.into() });
    }

    /// Whether the newest entry says that another file follows.
    pub fn expects_more(&self) -> bool {
        self.ended == Some(CheckpointReason::Rotate)
    }

    pub fn is_by_known_key(&self, note: &Note) -> bool {
        self.known_key(note).is_some()
    }

    fn known_key(&self, note: &Note) -> Option<VerifierKey> {
        let keys = self.known.get(&note.key_id)?;
        keys.iter().find(|key| note.is_by(key)).cloned()
    }

    /// Verifies what there is of a log file.
    pub fn file(
        &mut self,
        stem: &str,
        parts: &Parts,
        removed: &Removed,
        is_newest: bool,
    ) -> io::Result<Walked> {
        let log = format!("{stem}.{}", if parts.plain { "jsonl" } else { "jsonl.zst" });
        let has_log = parts.plain || parts.compressed;
        let gone = removed.get(stem);
        if !parts.sidecar {
            match gone {
                Some(gone) if !has_log => self.removed(gone),
                _ => match self.directory.open(&log) {
                    Err(error) if is_missing(&error) => return Ok(Walked::Vanished),
                    source => self.unsealed(&log, source, is_newest)?,
                },
            }
            return Ok(Walked::Read);
        }
        let sidecar = format!("{stem}.{SIDECAR_ENDING}");
        let source = match self.directory.open(&sidecar) {
            Err(error) if is_missing(&error) => return Ok(Walked::Vanished),
            source => source?,
        };
        let content = match has_log.then(|| self.directory.open(&log)) {
            Some(Err(error)) if is_missing(&error) => return Ok(Walked::Vanished),
            Some(source) => self.content_of(&log, source)?,
            None => None,
        };
        let log = format!("{stem}.jsonl");
        let mut open = Open { sidecar, log, content, is_first_entry: true, bad_frames: 0 };
        let mut entries = Entries::new(BufReader::new(source));
        let first_seq = self.before.as_ref().map_or(0, |before| before.seq).saturating_add(1);
        while let Some(entry) = entries.next_entry()? {
            self.entry(&mut open, &entry)?;
            open.is_first_entry = false;
            if let Some(before) = &mut self.before {
                before.hash = before.hash.after(&entry.bytes);
            }
        }
        self.report.files += 1;
        let empty = open.is_first_entry;
        if entries.is_torn() || empty {
            let text =
                if empty { "the sidecar is empty" } else { "the last entry is not complete" };
            let state = if is_newest { State::UnsignedTail } else { State::Modified };
            self.say(state, &open.sidecar, None, text);
            self.ended = None;
        }
        if open.bad_frames > 1 {
            let text = format!("{} more frames are not what was sealed", open.bad_frames - 1);
            self.say(State::Modified, &open.log, None, text);
        }
        if !has_log {
            let last_seq = self.before.as_ref().map_or(0, |before| before.seq);
            if let Some(gone) = gone {
                self.check_end(gone);
                self.report.removed_files += 1;
            } else if self.before.as_ref().is_some_and(|before| before.offset > 0) {
                let seqs = (first_seq, last_seq);
                self.say_of(
                    State::Gap,
                    &open.log,
                    seqs,
                    "the file is missing, its sidecar is here",
                );
            }
        }
        self.tail(&mut open, is_newest)?;
        Ok(Walked::Read)
    }

    /// A log file whose content makes no sense as compressed data is told of, and not read.
    fn content_of(
        &mut self,
        log: &str,
        source: io::Result<Box<dyn io::Read + 'a>>,
    ) -> io::Result<Option<Content<'a>>> {
        match source {
            Ok(source) => Ok(Some(Content::new(source))),
            Err(error) => self.unreadable(log, error).map(|()| None),
        }
    }

    fn unreadable(&mut self, log: &str, error: io::Error) -> io::Result<()> {
        if error.raw_os_error().is_some() {
            return Err(io::Error::new(error.kind(), format!("{log}: {error}")));
        }
        self.say(State::Modified, log, None, format!("cannot be decompressed: {error}"));
        Ok(())
    }

    fn unsealed(
        &mut self,
        log: &str,
        source: io::Result<Box<dyn io::Read + 'a>>,
        is_newest: bool,
    ) -> io::Result<()> {
        let Some(mut content) = self.content_of(log, source)? else { return Ok(()) };
        let rest = content.rest();
        (self.progress)(content.bytes);
        match rest {
            Ok((0, _)) if is_newest => {
                self.say(State::UnsignedTail, log, None, "a new file without lines and sidecar");
            }
            Ok((_, lines)) => {
                self.say(State::NotSealed, log, None, format!("no sidecar; {lines} lines"));
            }
            Err(error) => self.unreadable(log, error)?,
        }
        Ok(())
    }

    fn entry(&mut self, open: &mut Open<'_>, entry: &Entry) -> io::Result<()> {
        let line = Some(entry.line);
        self.ended = None;
        match &entry.meaning {
            Some(Meaning::Epoch(epoch, note)) => {
                if epoch.file != open.log {
                    let text = format!("this is the sidecar of {}", epoch.file);
                    self.say(State::Modified, &open.sidecar, line, text);
                }
                self.epoch(&open.sidecar, line, epoch, note, open.is_first_entry);
            }
            _ if open.is_first_entry => {
                self.say(State::Modified, &open.sidecar, line, "the first entry is not an epoch");
                // Without it there is no key, no position: nothing can fit.
                self.before = Some(self.lost_position(&open.log));
            }
            Some(Meaning::Frame(frame)) => return self.frame(open, frame),
            Some(Meaning::Checkpoint(checkpoint, note)) => {
                self.checkpoint(open, line, checkpoint, note, &entry.bytes);
            }
            Some(Meaning::Tombstone(..)) | None => {
                self.say(State::Modified, &open.sidecar, line, "not an entry of a sidecar");
            }
        }
        Ok(())
    }

    /// After the first entry of a file was destroyed.
    fn lost_position(&self, log: &str) -> Before {
        let seq = self.before.as_ref().map_or(0, |before| before.seq);
        Before { file: log.to_owned(), hash: Hash::ZERO, seq, offset: 0 }
    }

    fn epoch(
        &mut self,
        sidecar: &str,
        line: Option<u64>,
        epoch: &Epoch,
        note: &Note,
        is_first: bool,
    ) {
        let root_believed = self.options.keys.contains(&epoch.root);
        let mut is_believed = root_believed;
        if !root_believed && !self.wrong_key_told {
            self.wrong_key_told = true;
            let text = format!("sealed under another root key: {}", epoch.root);
            self.say(State::WrongKey, sidecar, line, text);
        }
        let mut number = self.epoch.saturating_add(1);
        // Without the files before, nobody can know their last key.
        let mut signer = self.key.clone();
        let mut is_gap = false;
        if epoch.reason.is_by_root() {
            signer = Some(epoch.root.clone());
            number = 1;
        } else if !epoch.reason.continues() {
            // Epochs may have come and gone with what is missing.
            if !self.is_by_known_key(note) {
                is_gap = true;
                self.say(State::Gap, sidecar, line, "the key that has signed this is missing");
            } else if epoch.number <= self.epoch {
                self.say(State::Modified, sidecar, line, "an old key begins a new epoch");
            }
            number = epoch.number;
            signer = self.known_key(note);
        } else {
            is_gap = self.continues(sidecar, line, epoch, is_first);
            is_believed &= self.is_believed;
        }
        if !is_gap {
            if !signer.is_some_and(|key| note.is_by(&key)) {
                is_believed = false;
                self.say(
                    State::Modified,
                    sidecar,
                    line,
                    "the new key is not signed by the key before",
                );
            } else if epoch.number != number {
                let text =
                    format!("epoch {} follows epoch {}", epoch.number, number.saturating_sub(1));
                self.say(State::Modified, sidecar, line, text);
            }
        }
        is_believed &= !is_gap;
        self.declared(sidecar, line, epoch);
        if is_believed {
            let keys = self.known.entry(epoch.key.id()).or_default();
            keys.push(epoch.key.clone());
        }
        self.is_believed = is_believed;
        self.key = Some(epoch.key.clone());
        self.epoch = epoch.number;
        self.before = Some(Before {
            file: epoch.file.clone(),
            hash: epoch.chain,
            seq: epoch.seq,
            offset: epoch.offset,
        });
    }

    /// Whether an epoch goes on from what is before it. Returns whether files are missing.
    fn continues(
        &mut self,
        sidecar: &str,
        line: Option<u64>,
        epoch: &Epoch,
        is_first: bool,
    ) -> bool {
        let Some(before) = &self.before else {
            let text = match &epoch.previous {
                Some(file) => format!("the files before it are missing, {file} the last of them"),
                None => "what is before it is missing".to_owned(),
            };
            self.say_of(State::Gap, sidecar, (1, epoch.seq), text);
            return true;
        };
        let wanted = is_first.then(|| before.file.clone());
        if epoch.previous != wanted {
            let seqs = (before.seq.saturating_add(1), epoch.seq);
            let text = match &epoch.previous {
                Some(file) => format!("it goes on from {file}, which is not here"),
                None => "it goes on from nothing that is here".to_owned(),
            };
            self.say_of(State::Gap, sidecar, seqs, text);
            return true;
        }
        let offset = if is_first { 0 } else { before.offset };
        if epoch.chain != before.hash || epoch.seq != before.seq || epoch.offset != offset {
            let text = "the chain does not go on from what is before it";
            self.say(State::Modified, sidecar, line, text);
        }
        false
    }

    /// What the recorder itself says to be wrong.
    fn declared(&mut self, sidecar: &str, line: Option<u64>, epoch: &Epoch) {
        let text = match epoch.reason {
            EpochReason::First if self.before.is_some() => "another log begins here",
            EpochReason::First | EpochReason::Start | EpochReason::Rotate => return,
            EpochReason::NoKey => "the recorder was started without its signing key",
            EpochReason::RolledBack => {
                "the recorder did not find what it knew to be sealed: the directory was rolled back"
            }
            EpochReason::Damaged => "somebody else had changed the file before this one",
            EpochReason::GivenUp => "too many files could not be sealed: some were given up",
        };
        self.say(State::BrokenChain, sidecar, line, text);
    }

    fn frame(&mut self, open: &mut Open<'_>, frame: &Frame) -> io::Result<()> {
        // `entry` sees to it that an epoch came first.
        let Some(before) = &mut self.before else { return Ok(()) };
        let (offset, seq) = (before.offset, before.seq);
        before.offset = frame.end;
        before.seq = frame.last_seq;
        add(&mut self.report.lines, frame.lines);
        add(&mut self.report.bytes, frame.end - frame.start);
        add(&mut self.report.unsigned_lines, frame.lines);
        if frame.recovered {
            add(&mut self.report.recovered_lines, frame.lines);
        }
        let advance = frame.last_seq.checked_sub(seq);
        if advance.is_none_or(|advance| advance > frame.lines) {
            let text = "the numbers of the sealed records do not follow each other";
            self.say_of(State::Gap, &open.log, (seq.saturating_add(1), frame.last_seq), text);
        }
        if frame.start < offset {
            let text =
                format!("was cut to {} bytes by somebody; {offset} were sealed", frame.start);
            self.say(State::Truncated, &open.log, None, text);
            // What was between is gone, and the rest stands where it stood.
            open.content = None;
        }
        let Some(content) = &mut open.content else { return Ok(()) };
        let bytes = frame.end - frame.start;
        let skipped = frame.start - offset;
        let read = content.run(skipped, 0).and_then(|_| {
            let line = content.lines + 1;
            Ok((line, content.run(bytes, seq.saturating_add(1))?))
        });
        (self.progress)(skipped + bytes);
        let (line, run) = match read {
            Ok(read) => read,
            Err(error) => {
                open.content = None;
                return self.unreadable(&open.log, error);
            }
        };
        if skipped > 0 {
            let text = format!("somebody else wrote {skipped} bytes at byte {offset}");
            self.say(State::Modified, &open.log, None, text);
        }
        self.report.lost_lines += run.lost_lines;
        if !run.fits(frame) {
            self.bad_frame(open, line, (seq.saturating_add(1), frame.last_seq), &run);
        }
        Ok(())
    }

    fn bad_frame(&mut self, open: &mut Open<'_>, line: u64, seqs: (u64, u64), run: &Run) {
        if run.missing_bytes > 0 {
            let text = format!("ends {} bytes before the end of this frame", run.missing_bytes);
            self.say_of(State::Truncated, &open.log, seqs, text);
            open.content = None;
            return;
        }
        open.bad_frames += 1;
        if open.bad_frames == 1 {
            let text = match run.first_odd_line {
                Some(_) => "not what was sealed; the numbers of the records do not fit",
                None => "not what was sealed",
            };
            self.tell(Finding {
                state: State::Modified,
                file: open.log.clone(),
                line: Some(run.first_odd_line.unwrap_or(line)),
                seqs: (seqs.0 <= seqs.1).then_some(seqs),
                text: text.to_owned(),
            });
        }
    }

    fn checkpoint(
        &mut self,
        open: &Open<'_>,
        line: Option<u64>,
        checkpoint: &Checkpoint,
        note: &Note,
        bytes: &[u8],
    ) {
        let Some(before) = &self.before else { return };
        let fits = checkpoint.chain == before.hash
            && checkpoint.seq == before.seq
            && checkpoint.offset == before.offset
            && checkpoint.file == open.log;
        let is_signed = self.key.as_ref().is_some_and(|key| note.is_by(key));
        let note = String::from_utf8_lossy(bytes).into_owned();
        if self.options.expect.as_deref() == Some(&note) {
            self.expected_found |= fits && is_signed;
        }
        if !is_signed {
            let text = "the checkpoint is not signed by the key of its epoch";
            self.say(State::Modified, &open.sidecar, line, text);
        } else if !fits {
            let text = "the checkpoint was signed for something else than what stands before it";
            self.say(State::Modified, &open.sidecar, line, text);
        } else {
            self.report.unsigned_lines = 0;
            self.ended = Some(checkpoint.reason);
            if self.is_believed {
                self.report.checkpoint = Some((checkpoint.clone(), note));
            }
        }
    }

    /// What is in the log file after the last frame.
    fn tail(&mut self, open: &mut Open<'_>, is_newest: bool) -> io::Result<()> {
        let Some(content) = &mut open.content else { return Ok(()) };
        let rest = content.rest();
        match rest {
            Ok((0, _)) => {}
            Ok((bytes, lines)) => {
                (self.progress)(bytes);
                if is_newest {
                    add(&mut self.report.unsigned_lines, lines);
                    let text = format!("{lines} lines ({bytes} bytes) are in no frame yet");
                    self.say(State::UnsignedTail, &open.log, None, text);
                    self.ended = None;
                } else {
                    let text =
                        format!("{lines} lines ({bytes} bytes) at the end were never sealed");
                    self.say(State::Modified, &open.log, None, text);
                }
            }
            Err(error) => self.unreadable(&open.log, error)?,
        }
        Ok(())
    }

    /// Goes over a file that a tombstone tells of.
    fn removed(&mut self, gone: &Gone) {
        for (index, (epoch, note, line)) in gone.epochs.iter().enumerate() {
            if index > 0
                && let Some(before) = &mut self.before
            {
                // The frames between two epochs are gone with the file; who signs is what counts.
                (before.hash, before.seq, before.offset) = (epoch.chain, epoch.seq, epoch.offset);
            }
            self.epoch(crate::REMOVED_FILE, Some(*line), epoch, note, index == 0);
        }
        let tombstone = &gone.tombstone;
        let first_seq = gone.epochs.first().map_or(0, |(epoch, ..)| epoch.seq).saturating_add(1);
        if tombstone.first_seq != first_seq {
            let text = format!("the tombstone of {} does not fit to its keys", tombstone.file);
            self.say(State::Modified, crate::REMOVED_FILE, Some(gone.line()), text);
        }
        self.before = Some(Before {
            file: tombstone.file.clone(),
            hash: tombstone.chain,
            seq: tombstone.last_seq,
            offset: 0,
        });
        self.report.removed_files += 1;
        self.ended = Some(CheckpointReason::Rotate);
    }

    /// A file whose sidecar is still here beside its tombstone.
    fn check_end(&mut self, gone: &Gone) {
        if self.before.as_ref().is_some_and(|before| before.hash != gone.tombstone.chain) {
            let text = format!("the tombstone of {} is of another file", gone.tombstone.file);
            self.say(State::Modified, crate::REMOVED_FILE, Some(gone.line()), text);
        }
    }

    /// The end of the directory.
    pub fn finish(mut self, removed: &Removed) -> Report {
        match (&self.before, self.ended) {
            (None, _) => {
                if self.report.state() < State::NotSealed {
                    self.say(
                        State::NotSealed,
                        "",
                        None,
                        "there is no sealed log in this directory",
                    );
                }
            }
            (Some(before), Some(CheckpointReason::Rotate)) => {
                let (file, text) = (before.file.clone(), "the file that follows it is missing");
                self.say(State::Truncated, &file, None, text);
            }
            (Some(before), None) => {
                let file = before.file.clone();
                let lines = self.report.unsigned_lines;
                let text = format!("{lines} lines after the last checkpoint are not signed yet");
                self.say(State::UnsignedTail, &file, None, text);
            }
            (Some(_), Some(reason)) => self.report.is_closed = reason == CheckpointReason::Stop,
        }
        self.report.last_seq = self.before.as_ref().map_or(0, |before| before.seq);
        self.check_expected(removed);
        self.report
    }

    fn check_expected(&mut self, removed: &Removed) {
        let Some(expect) = self.options.expect.as_deref() else { return };
        // Who gives one that is none must not hear that all is well.
        let Ok(expected) = read_checkpoint(expect) else {
            return self.say(State::Modified, "", None, "what is expected is not a checkpoint");
        };
        let stem = expected.file.trim_end_matches(".jsonl");
        if self.expected_found || removed.get(stem).is_some_and(|gone| gone.covers(&expected)) {
            return;
        }
        let seq = self.report.last_seq;
        let newest = self.report.checkpoint.as_ref().map(|(newest, _)| newest.time_s);
        if !self.options.keys.iter().any(|key| key.origin() == expected.origin) {
            let text = format!("the expected checkpoint is of another log, {}", expected.origin);
            self.say(State::WrongKey, &expected.file, None, text);
        } else if expected.seq > seq {
            let text = "a checkpoint for these records was expected, and they are not here";
            self.say_of(
                State::Truncated,
                &expected.file,
                (seq.saturating_add(1), expected.seq),
                text,
            );
        } else if newest.is_none_or(|newest| newest < expected.time_s) {
            let text = "the expected checkpoint is newer than what is here: this is an older copy";
            self.say(State::Truncated, &expected.file, None, text);
        } else {
            let text = "the expected checkpoint is not in this log: its past was written anew";
            self.say(State::Modified, &expected.file, None, text);
        }
    }
}
