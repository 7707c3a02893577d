//! Each record against the parts of the log files.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _};

use tacho_chain::verify::LogState;

use super::log::{FileProof, FrameState, LogProof};
use super::{Bundle, LogReport, Report};
use crate::container::Section;
use crate::names::{LogName, Name};
use crate::record::{LINE_BYTES_MAX, Position, RECORD_BYTES_MAX};

/// Why a record is not proven, or not fully.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    NoFrame,
    Unsigned,
    Unknown,
    Bad,
    Recovered,
}

impl Doubt {
    fn state(self) -> LogState {
        match self {
            Self::NoFrame => LogState::NotSealed,
            Self::Unsigned => LogState::UnsignedTail,
            Self::Unknown => LogState::Gap,
            Self::Bad => LogState::Modified,
            Self::Recovered => LogState::Recovered,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::NoFrame => "no frame covers them: nothing proves them",
            Self::Unsigned => "no checkpoint covered them yet when the bundle was made",
            Self::Unknown => "no trusted root key leads to the key that has signed them",
            Self::Bad => "they are in frames that are not what was sealed",
            Self::Recovered => "they were sealed at a start, not when they were written",
        }
    }
}

/// Checks `records.jsonl`.
pub(super) fn check(
    bundle: &Bundle<'_>,
    logs: &BTreeMap<LogName, LogProof>,
    report: &mut Report,
) -> io::Result<()> {
    let Some(member) = bundle.member(&Name::Records) else { return Ok(()) };
    let mut source = BufReader::new(Section::of(bundle.file, member));
    let mut counts: BTreeMap<LogName, LogReport> = BTreeMap::new();
    let mut doubts: BTreeMap<(LogName, Doubt), u64> = BTreeMap::new();
    let mut last: Option<Position> = None;
    let mut number = 0;
    let mut text = Vec::new();
    loop {
        text.clear();
        if source.by_ref().take(RECORD_BYTES_MAX).read_until(b'\n', &mut text)? == 0 {
            break;
        }
        number += 1;
        let fault = |text: &str| format!("line {number}: {text}");
        let Some(position) = Position::read(&text) else {
            report.say(LogState::Modified, Name::Records, fault("it is not a record"));
            break;
        };
        if !follows(last.as_ref(), &position) {
            report.say(LogState::Modified, Name::Records, fault("it is not in order"));
            break;
        }
        let log = LogName { server: position.server.clone(), generation: position.generation };
        let file = position.stem().and_then(|stem| logs.get(&log)?.files.get(stem));
        let line = match file {
            Some(file) => line_of(bundle, file, &position)?,
            None => None,
        };
        let (Some(file), Some(line)) = (file, line) else {
            report.say(LogState::Modified, Name::Records, fault("no part of a log has this line"));
            break;
        };
        if position.to_line(&line) != text {
            report.say(LogState::Modified, Name::Records, fault("it is not the line of the log"));
            break;
        }
        let doubt = doubt(file, &position);
        let count = counts.entry(log.clone()).or_insert_with(|| LogReport {
            log: log.clone(),
            records: 0,
            proven: 0,
        });
        count.records += 1;
        count.proven += u64::from(matches!(doubt, None | Some(Doubt::Recovered)));
        if let Some(doubt) = doubt {
            *doubts.entry((log, doubt)).or_default() += 1;
        }
        last = Some(position);
    }
    for ((log, doubt), count) in doubts {
        let records = if count == 1 { "1 record".to_owned() } else { format!("{count} records") };
        report.say(doubt.state(), log, format!("{records}: {}", doubt.text()));
    }
    report.logs = counts.into_values().collect();
    compare_counts(bundle, report);
    Ok(())
}

/// Whether a record is behind the one before.
fn follows(last: Option<&Position>, position: &Position) -> bool {
    let Some(last) = last else { return true };
    let key = |it: &Position| (it.server.clone(), it.generation, it.file.clone());
    if key(last) == key(position) {
        last.offset.checked_add(last.bytes).is_some_and(|end| end <= position.offset)
    } else {
        last < position
    }
}

/// The line at a position, if it is exactly one line.
fn line_of(
    bundle: &Bundle<'_>,
    file: &FileProof,
    position: &Position,
) -> io::Result<Option<Vec<u8>>> {
    let Some(end) = position.offset.checked_add(position.bytes) else { return Ok(None) };
    let Some(part) = file.part(position.offset, end) else { return Ok(None) };
    if position.bytes > LINE_BYTES_MAX {
        return Ok(None);
    }
    // With the byte before it, if that is here.
    let before = u64::from(position.offset > part.from);
    let at = part.at + (position.offset - part.from) - before;
    let mut bytes = Vec::new();
    Section::new(bundle.file, at, position.bytes + before).read_to_end(&mut bytes)?;
    let line = bytes.split_off(before as usize);
    let begins = bytes.last().is_none_or(|&byte| byte == b'\n');
    let ends = line.iter().position(|&byte| byte == b'\n') == line.len().checked_sub(1);
    Ok((begins && ends).then_some(line))
}

fn doubt(file: &FileProof, position: &Position) -> Option<Doubt> {
    let Some(frame) = file.frame(position.offset) else { return Some(Doubt::NoFrame) };
    if position.offset + position.bytes > frame.end {
        return Some(Doubt::NoFrame);
    }
    match frame.state {
        FrameState::Proven if frame.is_recovered => Some(Doubt::Recovered),
        FrameState::Proven => None,
        FrameState::Unsigned => Some(Doubt::Unsigned),
        FrameState::Unknown => Some(Doubt::Unknown),
        FrameState::Bad => Some(Doubt::Bad),
    }
}

/// The numbers of the manifest are those of the records.
fn compare_counts(bundle: &Bundle<'_>, report: &mut Report) {
    let servers = &bundle.manifest.servers;
    let stated = servers.iter().flat_map(|server| {
        server.generations.iter().filter(|part| part.records > 0).map(|part| {
            let log = LogName { server: server.server.clone(), generation: part.generation };
            (log, part.records)
        })
    });
    let stated: BTreeMap<LogName, u64> = stated.collect();
    let found: BTreeMap<LogName, u64> =
        report.logs.iter().map(|log| (log.log.clone(), log.records)).collect();
    if stated != found || bundle.manifest.records != report.records() {
        let text = "its records are not as many as the manifest states";
        report.say(LogState::Modified, Name::Records, text);
    }
}
