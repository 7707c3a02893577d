//! From file to file along the chain: the existing parts of each, and its entries one by one.

use std::io::{self, BufReader};

use super::content::Content;
use super::forms::{Chosen, Forms};
use super::missing::Missing;
use super::removed::{Gone, Removed};
use super::report::{Finding, LogState, Report};
use super::{Directory, Locked, Options, Parts};
use crate::SIDECAR_ENDING;
use crate::entry::CheckpointReason;
use crate::hash::Hash;
use crate::key::VerifierKey;
use crate::known::KnownKeys;
use crate::sidecar::{Entries, Entry, Meaning};

/// The state that the next entry must continue.
#[derive(Clone)]
pub(super) struct Before {
    /// Log file, without its directory.
    pub(super) file: String,
    /// The chain.
    pub(super) hash: Hash,
    /// `seq` of the last record.
    pub(super) seq: u64,
    /// Sealed bytes of the file.
    pub(super) offset: u64,
}

/// The file that is being read.
pub(super) struct Open<'a> {
    pub(super) sidecar: String,
    pub(super) log: String,
    pub(super) content: Option<Content<'a>>,
    pub(super) is_first_entry: bool,
    /// A frame of this file was reported as bad: the others are only counted.
    pub(super) bad_frames: u64,
    /// Reason of the last checkpoint in it.
    pub(super) signed: Option<CheckpointReason>,
    /// Recovered records that were not reported yet.
    pub(super) recovered: Option<(u64, u64)>,
}

/// The position of a file among the others.
#[derive(Clone, Copy, Debug)]
pub struct FileRank {
    /// No file is newer.
    pub is_newest: bool,
    /// No newer file has a sidecar: the recorder may not have got further.
    pub is_last_sealed: bool,
}

/// The result of reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// It was read.
    Read,
    /// A part of it was removed meanwhile, and nothing was read.
    Vanished,
}

/// Numbers of a hostile file may be anything.
pub(super) fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

type SidecarEntries<'a> = Entries<BufReader<Box<dyn io::Read + 'a>>>;

/// A file of the directory.
pub(super) type Source<'a> = io::Result<Box<dyn io::Read + 'a>>;

pub(super) fn is_locked(source: Option<&Source<'_>>) -> bool {
    matches!(source, Some(Err(error)) if Locked::is(error))
}

pub(super) fn is_missing(source: Option<&Source<'_>>) -> bool {
    matches!(source, Some(Err(error)) if error.kind() == io::ErrorKind::NotFound)
}

/// A verification in progress.
pub struct Walk<'a> {
    pub(super) directory: &'a dyn Directory,
    pub(super) options: &'a Options,
    pub(super) progress: &'a mut dyn FnMut(u64),
    pub(super) report: Report,
    /// The key that must sign the next epoch.
    pub(super) key: Option<VerifierKey>,
    pub(super) epoch: u64,
    /// Whether `key` depends on a trusted key.
    pub(super) is_believed: bool,
    /// The key that must sign the next checkpoint.
    pub(super) signer: Option<VerifierKey>,
    /// Whether `signer` depends on a trusted key.
    pub(super) is_signer_believed: bool,
    /// The keys of all trusted epochs, by their id.
    pub(super) known: KnownKeys,
    pub(super) before: Option<Before>,
    /// The last log file without a sidecar.
    pub(super) unsealed: Option<String>,
    /// Reason of the checkpoint, if that is the newest entry.
    pub(super) ended: Option<CheckpointReason>,
    pub(super) expected_found: bool,
    pub(super) wrong_key_told: bool,
    /// The first of the files that could not be decrypted, and the records from there to the last
    /// of them.
    pub(super) locked: Option<(String, (u64, u64))>,
    /// The newest file that was read, and had no tombstone then.
    pub(super) newest_kept: Option<String>,
    /// `Some`: tombstones may come later, so what depends on them is reported at the end.
    pub(super) missing: Option<Vec<Missing>>,
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
            signer: None,
            is_signer_believed: false,
            known: KnownKeys::default(),
            before: None,
            unsealed: None,
            ended: None,
            expected_found: false,
            wrong_key_told: false,
            locked: None,
            newest_kept: None,
            missing: None,
        }
    }

    pub fn tell(&mut self, finding: Finding) {
        self.report.add(finding);
    }

    pub(super) fn say(
        &mut self,
        state: LogState,
        file: &str,
        line: Option<u64>,
        text: impl Into<String>,
    ) {
        let file = file.to_owned();
        self.tell(Finding { state, file, line, seqs: None, text: text.into() });
    }

    pub(super) fn say_of(
        &mut self,
        state: LogState,
        file: &str,
        seqs: (u64, u64),
        text: impl Into<String>,
    ) {
        let (file, seqs) = (file.to_owned(), (seqs.0 <= seqs.1).then_some(seqs));
        self.tell(Finding { state, file, line: None, seqs, text: text.into() });
    }

    /// Whether the newest entry announces another file.
    pub fn expects_more(&self) -> bool {
        self.ended == Some(CheckpointReason::Rotate)
    }

    /// Verifies the existing parts of a log file.
    ///
    /// # Errors
    /// If something cannot be read.
    pub fn file(
        &mut self,
        stem: &str,
        parts: &Parts,
        removed: &Removed,
        place: FileRank,
    ) -> io::Result<Walked> {
        let has_log = parts.has_log();
        let gone = removed.get(stem);
        let sidecar = format!("{stem}.{SIDECAR_ENDING}");
        let has_sidecar = parts.sidecar
            // Created while the directory was being read.
            || place.is_newest && has_log && self.directory.names()?.contains(&sidecar);
        let source = has_sidecar.then(|| self.directory.open(&sidecar));
        let Forms::Here(chosen, others) = self.open_forms(stem, parts) else {
            return Ok(Walked::Vanished);
        };
        let (log, content) = match chosen {
            Some(Chosen { name, source }) => (name, Some(source)),
            None => (format!("{stem}.jsonl"), None),
        };
        if is_missing(source.as_ref()) || self.compare_forms(&log, &others)? == Walked::Vanished {
            return Ok(Walked::Vanished);
        }
        if self.missing.is_none() {
            self.check_order(stem, has_log, removed);
        }
        let entries = match source {
            Some(source) => self.entries_of(&sidecar, source, place)?,
            None => None,
        };
        let Some((mut entries, mut entry)) = entries else {
            match (content, gone) {
                (Some(content), _) => self.unsealed(&log, content)?,
                (None, Some(gone)) if !has_sidecar => self.removed(gone),
                _ => {}
            }
            return Ok(Walked::Read);
        };
        let is_locked = is_locked(content.as_ref());
        let content = match content {
            Some(content) if !is_locked => self.content_of(&log, content)?,
            _ => None,
        };
        let mut open = Open {
            sidecar,
            log: format!("{stem}.jsonl"),
            content,
            is_first_entry: true,
            bad_frames: 0,
            signed: None,
            recovered: None,
        };
        let first_seq = self.last_seq().saturating_add(1);
        loop {
            self.next_entry(&mut open, &entry)?;
            let Some(next) = entries.next_entry()? else { break };
            entry = next;
        }
        if is_locked {
            self.note_locked(&log, first_seq);
        }
        self.close(&mut open, entries.is_torn(), place);
        match gone {
            _ if !has_log && self.missing.is_some() => self.note_missing(stem, first_seq),
            _ if has_log => {}
            Some(gone) => {
                let hash = self.before.as_ref().map(|before| before.hash);
                self.removed_but_sidecar(gone, hash);
            }
            None => self.missing_but_sidecar(&open.log, (first_seq, self.last_seq())),
        }
        self.tail(&mut open, place.is_last_sealed, None)?;
        Ok(Walked::Read)
    }

    /// `seq` of the last sealed record so far; 0: there is none.
    pub(super) fn last_seq(&self) -> u64 {
        self.before.as_ref().map_or(0, |before| before.seq)
    }

    /// Processes the next entry of a sidecar.
    pub(super) fn next_entry(&mut self, open: &mut Open<'_>, entry: &Entry) -> io::Result<()> {
        self.entry(open, entry)?;
        open.is_first_entry = false;
        if let Some(before) = &mut self.before {
            before.hash = before.hash.after(&entry.bytes);
        }
        Ok(())
    }

    /// The end of a sidecar.
    pub(super) fn close(&mut self, open: &mut Open<'_>, is_torn: bool, place: FileRank) {
        self.report.files += 1;
        self.report_entries(open, is_torn, place);
    }

    /// Reports what was counted over all entries of a file.
    fn report_entries(&mut self, open: &mut Open<'_>, is_torn: bool, place: FileRank) {
        if is_torn {
            let state =
                if place.is_last_sealed { LogState::UnsignedTail } else { LogState::Modified };
            self.say(state, &open.sidecar, None, "the last entry is not complete");
            self.ended = None;
        }
        self.tell_recovered(open);
        if open.bad_frames > 1 {
            let text = format!("{} more frames are not what was sealed", open.bad_frames - 1);
            self.say(LogState::Modified, &open.log, None, text);
        }
    }

    /// Retention begins with the oldest file: the files it has removed are older than those that
    /// remain.
    pub(super) fn check_order(&mut self, stem: &str, has_log: bool, removed: &Removed) {
        let is_gone = removed.get(stem).is_some();
        if is_gone && !has_log {
            // A file that existed may have got a tombstone since.
            let is_kept = |older: &String| removed.get(older).is_none();
            if self.newest_kept.as_ref().is_some_and(is_kept) {
                let text = "was removed while older files were kept, which no retention does";
                self.say(LogState::Gap, &format!("{stem}.jsonl"), None, text);
            }
        } else if has_log && !is_gone {
            self.newest_kept = Some(stem.to_owned());
        }
    }

    /// The entries of a sidecar, and the first of them. `None`: there is none, which was reported.
    fn entries_of(
        &mut self,
        sidecar: &str,
        source: Source<'a>,
        place: FileRank,
    ) -> io::Result<Option<(SidecarEntries<'a>, Entry)>> {
        let source = match source {
            Err(error) if error.raw_os_error().is_none() => {
                self.say(LogState::Modified, sidecar, None, format!("cannot be read: {error}"));
                return Ok(None);
            }
            source => source?,
        };
        let mut entries = Entries::new(BufReader::new(source));
        if let Some(entry) = entries.next_entry()? {
            return Ok(Some((entries, entry)));
        }
        self.no_entry(sidecar, place);
        Ok(None)
    }

    pub(super) fn no_entry(&mut self, sidecar: &str, place: FileRank) {
        let text = "there is no complete entry in the sidecar";
        let state = if place.is_last_sealed { LogState::NotSealed } else { LogState::Modified };
        self.say(state, sidecar, None, text);
    }

    /// Reports a log file that cannot be decompressed, and does not read it.
    fn content_of(&mut self, log: &str, source: Source<'a>) -> io::Result<Option<Content<'a>>> {
        match source {
            Ok(source) => Ok(Some(Content::new(source))),
            Err(error) => self.unreadable(log, error).map(|()| None),
        }
    }

    pub(super) fn unreadable(&mut self, log: &str, error: io::Error) -> io::Result<()> {
        if error.raw_os_error().is_some() {
            return Err(io::Error::new(error.kind(), format!("{log}: {error}")));
        }
        self.say(LogState::Modified, log, None, format!("cannot be read: {error}"));
        Ok(())
    }

    /// Remembers a file whose lines cannot be compared with its seal without a key.
    fn note_locked(&mut self, log: &str, first_seq: u64) {
        let last_seq = self.before.as_ref().map_or(0, |before| before.seq);
        self.report.encrypted_files += 1;
        let first =
            self.locked.take().map_or((log.to_owned(), first_seq), |(log, seqs)| (log, seqs.0));
        self.locked = Some((first.0, (first.1, last_seq)));
    }

    fn unsealed(&mut self, log: &str, source: Source<'a>) -> io::Result<()> {
        self.without_sidecar(log);
        if is_locked(Some(&source)) {
            self.report.encrypted_files += 1;
            self.say(LogState::NotSealed, log, None, "no sidecar; it is encrypted");
            return Ok(());
        }
        let Some(mut content) = self.content_of(log, source)? else { return Ok(()) };
        let rest = content.rest();
        (self.progress)(content.bytes);
        match rest {
            Ok((_, lines)) => self.unsealed_lines(log, lines),
            Err(error) => self.unreadable(log, error)?,
        }
        Ok(())
    }

    fn entry(&mut self, open: &mut Open<'_>, entry: &Entry) -> io::Result<()> {
        let line = Some(entry.line);
        let ended = self.ended.take();
        if open.signed == Some(CheckpointReason::Rotate) {
            open.signed = None;
            let text = "there is an entry after the last checkpoint of the file";
            self.say(LogState::Modified, &open.sidecar, line, text);
        }
        match &entry.meaning {
            Some(Meaning::Epoch(epoch, note)) if open.is_first_entry => {
                if epoch.file != open.log {
                    let text = format!("this is the sidecar of {}", epoch.file);
                    self.say(LogState::Modified, &open.sidecar, line, text);
                }
                let is_closed = ended == Some(CheckpointReason::Rotate);
                self.epoch(&open.sidecar, line, epoch, note, is_closed);
            }
            _ if open.is_first_entry => {
                self.say(
                    LogState::Modified,
                    &open.sidecar,
                    line,
                    "the first entry is not an epoch",
                );
                // Without it there is no key and no position: nothing can match.
                self.before = Some(self.lost_position(&open.log));
            }
            Some(Meaning::Frame(frame)) => return self.frame(open, frame),
            Some(Meaning::Checkpoint(checkpoint, note)) => {
                self.checkpoint(open, line, checkpoint, note, &entry.bytes);
            }
            Some(Meaning::Epoch(..)) => {
                let text = "an epoch begins in the middle of a file";
                self.say(LogState::Modified, &open.sidecar, line, text);
            }
            Some(Meaning::Tombstone(..) | Meaning::HubTombstone(..)) | None => {
                self.say(LogState::Modified, &open.sidecar, line, "not an entry of a sidecar");
            }
        }
        Ok(())
    }

    /// After the first entry of a file was destroyed.
    fn lost_position(&self, log: &str) -> Before {
        let seq = self.before.as_ref().map_or(0, |before| before.seq);
        Before { file: log.to_owned(), hash: Hash::ZERO, seq, offset: 0 }
    }

    /// Processes a file that has a tombstone.
    fn removed(&mut self, gone: &Gone) {
        let is_closed = self.ended.take() == Some(CheckpointReason::Rotate);
        if let Some((epoch, note, line)) = gone.epochs.first() {
            self.epoch(gone.list(), Some(*line), epoch, note, is_closed);
        }
        let first_seq = gone.epochs.first().map_or(0, |(epoch, ..)| epoch.seq).saturating_add(1);
        if gone.first_seq != first_seq {
            let text = format!("the tombstone of {} does not match its keys", gone.file);
            self.say(LogState::Modified, gone.list(), Some(gone.line()), text);
        }
        self.before = Some(Before {
            file: gone.file.clone(),
            hash: gone.chain,
            seq: gone.last_seq,
            offset: 0,
        });
        self.report.add_removed(gone);
        self.ended = Some(CheckpointReason::Rotate);
    }
}
