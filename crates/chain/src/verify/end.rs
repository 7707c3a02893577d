//! The end of the directory: entries that should follow, but are missing.

use super::read_checkpoint;
use super::removed::Removed;
use super::report::{Finding, LogState, Report};
use super::walk::Walk;
use crate::entry::CheckpointReason;

impl Walk<'_> {
    /// The end of the directory.
    pub fn finish(mut self, removed: &Removed) -> Report {
        match (&self.before, self.ended) {
            (None, _) => {
                if self.report.state() < LogState::NotSealed {
                    self.say(
                        LogState::NotSealed,
                        "",
                        None,
                        "there is no sealed log in this directory",
                    );
                }
            }
            (Some(before), Some(CheckpointReason::Rotate)) => {
                self.report.add_awaited(Finding {
                    state: LogState::Truncated,
                    file: before.file.clone(),
                    line: None,
                    seqs: None,
                    text: "the file that follows it is missing".to_owned(),
                });
            }
            (Some(before), None) => {
                let file = before.file.clone();
                let lines = self.report.unsigned_lines;
                let text = format!("{lines} lines after the last checkpoint are not signed yet");
                self.say(LogState::UnsignedTail, &file, None, text);
            }
            (Some(_), Some(reason)) => self.report.is_closed = reason == CheckpointReason::Stop,
        }
        if let Some((file, seqs)) = self.locked.take() {
            let text = format!(
                "{} encrypted: the lines were not compared with the seal",
                match self.report.encrypted_files {
                    1 => "the file is".to_owned(),
                    count => format!("{count} files from here on are"),
                }
            );
            self.say_of(LogState::Encrypted, &file, seqs, text);
        }
        self.report.last_seq = self.before.as_ref().map_or(0, |before| before.seq);
        self.check_expected(removed);
        self.report
    }

    fn check_expected(&mut self, removed: &Removed) {
        let Some(expect) = self.options.expect.as_deref() else { return };
        // A caller that passes something else must not get a good result.
        let Ok(expected) = read_checkpoint(expect) else {
            return self.say(LogState::Modified, "", None, "the expected text is not a checkpoint");
        };
        let stem = expected.file.trim_end_matches(".jsonl");
        if self.expected_found || removed.get(stem).is_some_and(|gone| gone.covers(&expected)) {
            return;
        }
        let seq = self.report.last_seq;
        let newest = self.report.checkpoint.as_ref().map(|(newest, _)| newest.time_s);
        if !self.options.keys.iter().any(|key| key.origin() == expected.origin) {
            let text = format!("the expected checkpoint is from another log, {}", expected.origin);
            self.say(LogState::WrongKey, &expected.file, None, text);
        } else if expected.seq > seq {
            let text = "a checkpoint for these records was expected, and they are not here";
            self.say_of(
                LogState::Truncated,
                &expected.file,
                (seq.saturating_add(1), expected.seq),
                text,
            );
        } else if newest.is_none_or(|newest| newest < expected.time_s) {
            let text = "the expected checkpoint is newer than what is here: this is an older copy";
            self.say(LogState::Truncated, &expected.file, None, text);
        } else {
            let text = "the expected checkpoint is not in this log: its past was rewritten";
            self.say(LogState::Modified, &expected.file, None, text);
        }
    }
}
