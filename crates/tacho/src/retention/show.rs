//! The plan of retention, for people and for programs.

use std::io;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tacho_logdir::FileName;
use tacho_logdir::preview::Planned;
use tacho_logdir::shipped::{FREE_PERCENT_MIN, Unshipped, Wait};

use super::{Fate, Plan};
use crate::report;
use crate::say::{self, counted};

const DAY_S: u64 = 86_400;
const SECOND_US: i64 = 1_000_000;

/// Writes the plan to stdout.
pub fn show(plan: &Plan, is_json: bool, utc: bool) -> io::Result<()> {
    if is_json {
        return say::json(&json(plan));
    }
    let zone = if utc { TimeZone::UTC } else { TimeZone::system() };
    say::result(&limits(plan))?;
    say::result(&log(plan, &zone))?;
    say::result("")?;
    if plan.fates.is_empty() {
        say::result("no file would be removed now")?;
    } else {
        say::rows(&table(plan, &zone), &[4])?;
        say::result("")?;
    }
    let rest = [sums(plan, &zone), notes(plan), next(plan, &zone)].concat();
    rest.iter().try_for_each(|line| say::result(line))
}

fn time(s: i64, zone: &TimeZone) -> String {
    report::second(s.saturating_mul(SECOND_US), zone)
}

fn limits(plan: &Plan) -> String {
    let limits = &plan.limits;
    let unshipped = if limits.removes_unshipped { "REMOVE" } else { "KEEP" };
    format!(
        "limits: tacho_retention_days={}, _bytes={}, _files={}, _unshipped={unshipped}{}",
        limits.keep.days,
        limits.keep.bytes,
        limits.keep.files,
        if limits.is_known { "" } else { " (the defaults; see --config and --set)" }
    )
}

fn log(plan: &Plan, zone: &TimeZone) -> String {
    let preview = &plan.preview;
    format!(
        "log: {}, {} with the current one, which was begun at {}",
        counted(preview.closed_count, "closed file"),
        say::bytes(preview.bytes),
        time(preview.current.stamp_s(), zone)
    )
}

fn file(name: FileName) -> String {
    name.to_string()
}

fn reasons(planned: &Planned) -> String {
    let reasons: Vec<String> = planned.due.iter().map(|due| due.reason.to_string()).collect();
    reasons.join(", ")
}

/// The hubs that keep a file, or why it is removed although a hub does not have it.
fn hub(planned: &Planned, fate: Fate) -> String {
    let hubs = match &planned.unshipped {
        None => String::new(),
        Some(unshipped @ Unshipped::Behind(_)) => unshipped.to_string(),
        Some(unshipped @ Unshipped::Unknown(reason)) => format!("{unshipped} ({reason})"),
    };
    match fate {
        Fate::Removed(None) => "removed".to_owned(),
        Fate::Removed(Some(Wait::NearlyFull)) => {
            format!("removed, {hubs}: less than {FREE_PERCENT_MIN} % of the disk is free")
        }
        Fate::Removed(Some(_)) => format!("removed, {hubs}"),
        Fate::Waits => format!("stays, {hubs}"),
        Fate::WaitsForOlder => "stays, because an older file does".to_owned(),
    }
}

fn table(plan: &Plan, zone: &TimeZone) -> Vec<[String; 6]> {
    let mut rows = vec![["FILE", "BEGUN", "ENDED", "DUE BY", "BYTES", "FATE"].map(str::to_owned)];
    for (planned, fate) in plan.preview.planned.iter().zip(&plan.fates) {
        let Some(name) = planned.name() else { continue };
        rows.push([
            file(name),
            time(name.stamp_s(), zone),
            time(planned.ended_s, zone),
            reasons(planned),
            say::bytes(planned.bytes),
            hub(planned, *fate),
        ]);
    }
    rows
}

/// The files that go and those that stay: their number, bytes, and the time of their records.
fn sums(plan: &Plan, zone: &TimeZone) -> Vec<String> {
    let of = |is_removed: bool| {
        let planned = plan.preview.planned.iter().zip(&plan.fates);
        let chosen: Vec<&Planned> = planned
            .filter(|(_, fate)| matches!(fate, Fate::Removed(_)) == is_removed)
            .map(|(planned, _)| planned)
            .collect();
        let bytes = chosen.iter().map(|planned| planned.bytes).sum();
        let (first, last) = (chosen.first()?, chosen.last()?);
        Some(format!(
            "{}, {}, with the records from {} to {}",
            counted(chosen.len() as u64, "file"),
            say::bytes(bytes),
            time(first.name()?.stamp_s(), zone),
            time(last.ended_s, zone)
        ))
    };
    let would = of(true).map(|what| format!("would be removed now: {what}"));
    let stay = of(false).map(|what| format!("due, and stay until the hubs have them: {what}"));
    would.into_iter().chain(stay).collect()
}

fn notes(plan: &Plan) -> Vec<String> {
    let preview = &plan.preview;
    let mut notes = Vec::new();
    if let Some(name) = preview.keeps_last_line {
        notes.push(format!("{} stays, because it has the last line of the log", file(name)));
    }
    if let Some(name) = preview.skipped {
        notes.push(format!("{} is not a regular file, and is ignored", name.log_file()));
    }
    if preview.is_ahead && plan.limits.keep.days > 0 {
        notes.push(
            "the name of the current file is dated in the future: until then, files that were \
             begun since do not expire"
                .to_owned(),
        );
    }
    if let Some(reason) = &preview.shipped_ignored {
        notes.push(format!("{reason}; it is ignored, so retention does not wait for a hub"));
    }
    let is_slow = |planned: &&Planned| {
        planned.due.first().is_some_and(|due| due.reason != tacho_logdir::RemovalReason::Size)
    };
    if preview.planned.iter().filter(is_slow).count() > 1 {
        notes.push(
            "by age and by count, the recorder removes only a few files at once (1 % an hour, and \
             as the log grows)"
                .to_owned(),
        );
    }
    notes
}

/// When the oldest file that stays is due.
fn next(plan: &Plan, zone: &TimeZone) -> Vec<String> {
    let (preview, keep) = (&plan.preview, plan.limits.keep);
    let Some(next) = preview.next.filter(|_| preview.keeps_last_line.is_none()) else {
        return Vec::new();
    };
    let mut when = Vec::new();
    if let Some(at_s) = expires_s(plan) {
        when.push(format!("at {} (age)", time(at_s, zone)));
    }
    let removed_bytes: u64 = preview.planned.iter().map(|planned| planned.bytes).sum();
    if let Some(left) = keep.bytes.checked_sub(preview.bytes - removed_bytes)
        && keep.bytes > 0
    {
        when.push(format!("when the log has grown by {} (size)", say::bytes(left)));
    }
    let closed_count = preview.closed_count - preview.planned.len() as u64;
    if keep.files > 0 {
        let more = keep.files.saturating_sub(closed_count) + 1;
        let (more, have) = match more {
            1 => ("another file".to_owned(), "has"),
            more => (format!("{more} more files"), "have"),
        };
        when.push(format!("when {more} {have} ended (count)"));
    }
    let when = if when.is_empty() { "never".to_owned() } else { when.join(", or ") };
    vec![format!("next: {} is due {when}", file(next.name))]
}

/// When the next file is too old, s since 1970-01-01 UTC.
fn expires_s(plan: &Plan) -> Option<i64> {
    let days = plan.limits.keep.days;
    let age_s = i64::try_from(days.saturating_mul(DAY_S)).ok()?;
    let next = plan.preview.next.filter(|_| days > 0)?;
    next.ended_s.checked_add(age_s)
}

fn json(plan: &Plan) -> Value {
    let preview = &plan.preview;
    let time = |s: i64| Timestamp::from_second(s).ok().map(|time| time.to_string());
    let due: Vec<Value> = preview
        .planned
        .iter()
        .zip(&plan.fates)
        .map(|(planned, fate)| {
            let reasons: Vec<String> =
                planned.due.iter().map(|due| due.reason.to_string()).collect();
            json!({
                "file": planned.name().map(file),
                "reasons": reasons,
                "bytes": planned.bytes,
                "begun": planned.name().and_then(|name| time(name.stamp_s())),
                "ended": time(planned.ended_s),
                "removed": matches!(fate, Fate::Removed(_)),
                "unshipped": planned.unshipped.as_ref().map(ToString::to_string),
            })
        })
        .collect();
    let limits = &plan.limits;
    json!({
        "limits": {
            "days": limits.keep.days,
            "bytes": limits.keep.bytes,
            "files": limits.keep.files,
            "unshipped": if limits.removes_unshipped { "REMOVE" } else { "KEEP" },
            "known": limits.is_known,
        },
        "closed_files": preview.closed_count,
        "bytes": preview.bytes,
        "current": file(preview.current),
        "due": due,
        "next": preview.next.map(|next| json!({
            "file": file(next.name),
            "ended": time(next.ended_s),
            "expires": expires_s(plan).and_then(time),
        })),
        "keeps_last_line": preview.keeps_last_line.map(file),
        "dated_in_the_future": preview.is_ahead,
        "notes": notes(plan),
    })
}
