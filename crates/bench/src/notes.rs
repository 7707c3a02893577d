//! Notes for the reader about results that need an explanation.

use crate::figures::CPU_PER_QUERY;
use crate::lines::{ResultLine, Settings};
use crate::method::{NONE_AGAIN, Switch};
use crate::signed_rank::VALUES_MIN;

/// All notes about a result.
pub(crate) fn of(result: &ResultLine, settings: &Settings) -> Vec<String> {
    let limit = settings.side_by_side.as_ref().map(|wanted| wanted.interval);
    [
        silent(result),
        behind(result),
        long_events(result, settings.block_s),
        limit.and_then(|limit| wide(result, limit)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A method that wrote nearly nothing was not active, and its figures would be too good.
fn silent(result: &ResultLine) -> Option<String> {
    let bytes = result.log_bytes_per_query.filter(|bytes| *bytes < 1.0)?;
    // A binary log has no reads, and recording may be off on purpose.
    (!result.method.ends_with(":off") && result.switch != Switch::Restart).then(|| {
        format!(
            "{} wrote {bytes:.3} bytes per query under {}: was it recording?",
            result.method, result.load.workload
        )
    })
}

/// If a method writes later than its statements run, a part of its cost is outside the blocks.
fn behind(result: &ResultLine) -> Option<String> {
    let written = result.records_per_query.filter(|written| (0.01..0.9).contains(written))?;
    Some(format!(
        "{} wrote only {written:.2} records per query under {}, {} connections: what it writes \
         later is not in these figures. Its writer had no processor (docs/guide/operations.md, \
         \"The writer's priority\"), or not all is recorded",
        result.method, result.load.workload, result.load.threads
    ))
}

/// Events that are longer than blocks belong to several blocks.
fn long_events(result: &ResultLine, block_s: f64) -> Option<String> {
    // Once for each load: the first method is the A/A pair.
    let p99_s = result.figures.get("p99_us").filter(|_| result.method == NONE_AGAIN)?.off / 1e6;
    (p99_s > block_s).then(|| {
        format!(
            "{}, {} connections: events take up to {p99_s:.1} s (p99), longer than a block; \
             use --block {:.0}s",
            result.load.workload,
            result.load.threads,
            (p99_s * 5.0).ceil()
        )
    })
}

/// A figure that is less exact than was wanted.
fn wide(result: &ResultLine, limit: f64) -> Option<String> {
    let known = inexact(result, limit)?;
    Some(format!(
        "{}, {} connections: the CPU per query of {} is not known to ±{:.1} % (--interval-max), but \
         {known}",
        result.load.workload,
        result.load.threads,
        result.method,
        limit * 100.0
    ))
}

/// How exact the CPU per query is, if that is less than `limit`, a share on either side.
pub(crate) fn inexact(result: &ResultLine, limit: f64) -> Option<String> {
    let figure = result.figures.get(CPU_PER_QUERY)?;
    let (ratio, low, high) = (figure.ratio?, figure.low?, figure.high?);
    let rounds = match result.pairs {
        1 => "1 round".to_owned(),
        rounds => format!("{rounds} rounds"),
    };
    if (result.pairs as usize) < VALUES_MIN {
        return Some(format!("{rounds}, too few for an interval"));
    }
    let width = (high / ratio).max(ratio / low) - 1.0;
    (width > limit).then(|| format!("±{:.1} % after {rounds}", width * 100.0))
}
