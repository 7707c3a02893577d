//! How much of the log no signed checkpoint covers. Signatures are not verified: `tacho verify`
//! does that.

use tacho_chain::SIDECAR_ENDING;
use tacho_chain::entry::Checkpoint;
use tacho_logdir::read::ReadError;
use tacho_logdir::read::end;

use super::log::{Log, advice_on, age};
use super::report::{Health, Report};
use super::spec::{Check, Metric};
use crate::say;

/// Answers `unsigned`.
pub fn look(report: &mut Report, log: &Log) {
    if let Err(error) = try_look(report, log) {
        let text = format!("cannot read the seal: {error}{}", advice_on(&error));
        report.note(Check::Unsigned, Health::Unknown, text);
    }
}

fn try_look(report: &mut Report, log: &Log) -> Result<(), ReadError> {
    let checkpoint = end::newest_checkpoint(&log.path, &log.files)?;
    if checkpoint.is_none() && !has_sidecar(log) {
        let text = "the log is not sealed: tacho_signing_key_file is empty, or the server's error \
                    log has the reason; --skip unsigned if that is intended";
        report.note(Check::Unsigned, Health::Warning, text);
        return Ok(());
    }
    let signed_at = checkpoint.as_ref().map(|it| it.time_s.saturating_mul(1_000_000));
    if let Some(us) = signed_at {
        let age_s = report.age_s(us);
        report.set(Metric::CheckpointAge, age_s);
    }
    let lines = lines_behind(log, checkpoint.as_ref());
    let unsigned = match lines {
        Some(0) => end::Unsigned::default(),
        _ => end::unsigned(&log.files, checkpoint.as_ref())?,
    };
    if let Some(lines) = lines {
        report.set(Metric::UnsignedLines, lines as f64);
    }
    report.set(Metric::UnsignedBytes, unsigned.bytes as f64);
    let newest = signed_at.map_or("there is no checkpoint".to_owned(), |us| {
        format!("the newest checkpoint is {} old", age(report.age_s(us)))
    });
    if unsigned.bytes == 0 {
        report.measure(Check::Unsigned, 0.0, format!("all lines are signed; {newest}"));
        return Ok(());
    }
    // The first unsigned line may report an event that began long before it was written, and a log
    // without new lines has no new checkpoints: the later of both times counts.
    let since = unsigned.since.map(|time| time.as_microsecond()).max(signed_at);
    let count = lines.map_or(String::new(), |lines| format!("{}, ", say::counted(lines, "line")));
    let text = format!("not signed yet: {count}{}", say::bytes(unsigned.bytes));
    match since.map(|us| report.age_s(us)) {
        Some(age_s) => {
            let text = format!("{text}, the oldest for {}; {newest}", age(age_s));
            report.measure(Check::Unsigned, age_s, text);
        }
        None => {
            let text = format!("{text}, and no time can be read there; {newest}");
            report.note(Check::Unsigned, Health::Unknown, text);
        }
    }
    Ok(())
}

/// Lines behind a checkpoint, by their numbers, which have no gaps. `None`: the newest number is
/// not known.
fn lines_behind(log: &Log, checkpoint: Option<&Checkpoint>) -> Option<u64> {
    let newest = log.newest.as_ref()?.seq;
    // A checkpoint may be newer than the newest line that was read a moment before.
    Some(newest.saturating_sub(checkpoint.map_or(0, |checkpoint| checkpoint.seq)))
}

fn has_sidecar(log: &Log) -> bool {
    let sidecar = |stem: &str| log.path.join(format!("{stem}.{SIDECAR_ENDING}"));
    log.files.iter().rev().any(|file| sidecar(&file.stem).exists())
}
