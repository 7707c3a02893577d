//! Lines against their frames.

use std::io;

use super::content::Run;
use super::report::{Finding, LogState};
use super::walk::{Open, Walk, add};
use crate::entry::Frame;

impl Walk<'_> {
    pub(super) fn frame(&mut self, open: &mut Open<'_>, frame: &Frame) -> io::Result<()> {
        // `entry` makes sure that an epoch came first.
        let Some(before) = &mut self.before else { return Ok(()) };
        let (offset, seq) = (before.offset, before.seq);
        before.offset = frame.end;
        before.seq = frame.last_seq;
        add(&mut self.report.lines, frame.lines);
        add(&mut self.report.bytes, frame.end - frame.start);
        add(&mut self.report.unsigned_lines, frame.lines);
        let seqs = (seq.saturating_add(1), frame.last_seq);
        if Self::is_behind_stop(open) {
            // A recorder that stopped has written nothing more, and one that starts writes a
            // checkpoint first.
            open.signed = None;
            let text = "these lines were added after the recorder had stopped";
            self.say_of(LogState::Modified, &open.log, seqs, text);
        }
        if frame.recovered {
            add(&mut self.report.recovered_lines, frame.lines);
            let first = open.recovered.map_or(seqs.0, |(first, _)| first);
            open.recovered = Some((first, seqs.1));
        } else {
            self.tell_recovered(open);
        }
        let advance = frame.last_seq.checked_sub(seq);
        if advance.is_none_or(|advance| advance > frame.lines) {
            let text = "the numbers of the sealed records do not follow each other";
            self.say_of(LogState::Gap, &open.log, seqs, text);
        }
        if frame.start < offset {
            let text = format!("was truncated to {} bytes; {offset} were sealed", frame.start);
            self.say(LogState::Truncated, &open.log, None, text);
            // The bytes between are missing, and the rest is at its old offset.
            open.content = None;
        }
        let Some(content) = &mut open.content else { return Ok(()) };
        let bytes = frame.end - frame.start;
        let skipped = frame.start - offset;
        let read = content.run(skipped, 0).and_then(|_| {
            let line = content.lines + 1;
            Ok((line, content.run(bytes, seqs.0)?))
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
            let text = format!("another process wrote {skipped} bytes at byte {offset}");
            self.say(LogState::Modified, &open.log, None, text);
        }
        self.report.lost_lines += run.lost_lines;
        if !run.fits(frame) {
            self.bad_frame(open, line, seqs, frame, &run);
        } else if frame.recovered
            && let Some(odd) = run.first_odd_line
        {
            // They were not sealed when they were written: at least their numbers must be those of
            // a recorder.
            self.tell(Finding {
                state: LogState::Modified,
                file: open.log.clone(),
                line: Some(odd),
                seqs: (seqs.0 <= seqs.1).then_some(seqs),
                text: "the numbers of recovered records do not follow each other".to_owned(),
            });
        }
        Ok(())
    }

    /// Reports the consecutive recovered records that were read.
    pub(super) fn tell_recovered(&mut self, open: &mut Open<'_>) {
        if let Some(seqs) = open.recovered.take() {
            let text = "recovered: sealed at a start, not when they were written";
            self.say_of(LogState::Recovered, &open.log, seqs, text);
        }
    }

    fn bad_frame(
        &mut self,
        open: &mut Open<'_>,
        line: u64,
        seqs: (u64, u64),
        frame: &Frame,
        run: &Run,
    ) {
        if run.missing_bytes > 0 {
            open.content = None;
            let missing = run.missing_bytes;
            if open.bad_frames > 0 {
                // Not the beginning of what was sealed, and therefore not only cut.
                let text = format!("the file is {missing} bytes too short for this frame");
                self.say_of(LogState::Modified, &open.log, seqs, text);
            } else if run.may_be_cut(frame) {
                let text = format!("ends {missing} bytes before the end of this frame");
                self.say_of(LogState::Truncated, &open.log, seqs, text);
            } else {
                let text = format!("not what was sealed, and {missing} bytes shorter");
                self.tell(Finding {
                    state: LogState::Modified,
                    file: open.log.clone(),
                    line: Some(run.first_odd_line.unwrap_or(line)),
                    seqs: (seqs.0 <= seqs.1).then_some(seqs),
                    text,
                });
            }
            return;
        }
        open.bad_frames += 1;
        if open.bad_frames == 1 {
            let text = match run.first_odd_line {
                Some(_) => "not what was sealed; the numbers of the records do not fit",
                None => "not what was sealed",
            };
            self.tell(Finding {
                state: LogState::Modified,
                file: open.log.clone(),
                line: Some(run.first_odd_line.unwrap_or(line)),
                seqs: (seqs.0 <= seqs.1).then_some(seqs),
                text: text.to_owned(),
            });
        }
    }

    /// The part of the log file after the last frame. `may_grow`: the recorder has not left the
    /// file, as far as the sidecars show. `counted`: its bytes and lines, if they are known.
    pub(super) fn tail(
        &mut self,
        open: &mut Open<'_>,
        may_grow: bool,
        counted: Option<(u64, u64)>,
    ) -> io::Result<()> {
        let Some(content) = &mut open.content else { return Ok(()) };
        let rest = counted.map_or_else(|| content.rest(), Ok);
        match rest {
            Ok((0, _)) => {}
            Ok((bytes, lines)) => {
                (self.progress)(bytes);
                if Self::is_behind_stop(open) {
                    let text = format!(
                        "{lines} lines ({bytes} bytes) were added after the recorder had stopped"
                    );
                    self.say(LogState::Modified, &open.log, None, text);
                } else if may_grow {
                    add(&mut self.report.unsigned_lines, lines);
                    let text = format!("{lines} lines ({bytes} bytes) are in no frame yet");
                    self.say(LogState::UnsignedTail, &open.log, None, text);
                    self.ended = None;
                } else {
                    let text =
                        format!("{lines} lines ({bytes} bytes) at the end were never sealed");
                    self.say(LogState::Modified, &open.log, None, text);
                }
            }
            Err(error) => self.unreadable(&open.log, error)?,
        }
        Ok(())
    }
}
