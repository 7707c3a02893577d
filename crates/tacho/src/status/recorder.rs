//! Whether a recorder runs, and how far it is behind.

use tacho_logdir::{is_locked, is_recovering, last_holder};
use tacho_settings::{Setting, SettingNames};

use super::arenas::{Arenas, Living};
use super::log::{Log, age};
use super::report::{Health, Report};
use super::spec::{Check, Metric};
use crate::say;

/// Answers `recorder`, `writer`, `lag` and `arena`.
pub fn look(report: &mut Report, log: &Log, arenas: &Arenas) {
    let is_running = is_locked(&log.path);
    if let Some(is_running) = is_running {
        report.set(Metric::RecorderUp, f64::from(u8::from(is_running)));
    }
    let (state, text) = match is_running {
        None => {
            let path = log.path.join(".lock");
            let text = format!("cannot read {}; run as the server's user or root", path.display());
            (Health::Unknown, text)
        }
        Some(true) => running(log, arenas),
        Some(false) => ended(log, arenas),
    };
    report.note(Check::Recorder, state, text);
    if let Some(problem) = arenas.problems.first() {
        report.note(Check::Arena, Health::Unknown, problem.clone());
        for check in [Check::Writer, Check::Lag] {
            report.note(check, Health::Unknown, "unknown without the arena");
        }
        return;
    }
    if let Some(living) = arenas.living.first() {
        look_at_arena(report, living, is_running == Some(true));
    }
    show_lag(report, arenas);
}

/// A writer holds the lock.
fn running(log: &Log, arenas: &Arenas) -> (Health, String) {
    let process = last_holder(&log.path).map_or(String::new(), |pid| format!(", process {pid}"));
    if is_recovering(&log.path) {
        return (Health::Ok, format!("recovers the records of a dead server{process}"));
    }
    let Some(living) = arenas.living.first() else {
        let has_stopped = log.newest.as_ref().is_some_and(|newest| newest.event == "stop");
        return match has_stopped || !arenas.dead.is_empty() {
            true if arenas.problems.is_empty() => {
                let text = format!("runs{process}, and waits for a server: none records now");
                (Health::Warning, text)
            }
            _ => (Health::Ok, format!("runs{process}")),
        };
    };
    let picture = &living.picture;
    let text = format!("runs{process}; server {}, process {}", living.server, living.pid);
    if picture.logging {
        (Health::Ok, text)
    } else {
        // As bad as no recorder: what happens now will be in no log.
        let logging = SettingNames::of_server(&living.server).name(Setting::Logging);
        let text = format!(
            "{text}; nothing is recorded: {logging} is OFF; switch it on with SET GLOBAL {logging} = ON"
        );
        (Health::Critical, text)
    }
}

/// No writer holds the lock.
fn ended(log: &Log, arenas: &Arenas) -> (Health, String) {
    let text = if let Some(living) = arenas.living.first() {
        format!(
            "no recorder runs, and server {} (process {}) records into its arena: start `tacho \
             recorder`, or see the server's error log",
            living.server, living.pid
        )
    } else if !arenas.dead.is_empty() {
        format!(
            "no recorder runs: the server ended without stopping the recorder, and left {}; start \
             the server, or run `tacho recover {}`",
            say::counted(arenas.dead.len() as u64, "arena"),
            log.path.display()
        )
    } else if !arenas.gone.is_empty() {
        format!(
            "no recorder runs: the server ended without stopping the recorder, and its arena {} is \
             gone; the next start of the server reports a loss",
            arenas.gone[0].display()
        )
    } else {
        match &log.newest {
            Some(newest) if newest.event == "stop" => {
                format!("no recorder runs: it was stopped at {}", newest.time)
            }
            _ => "no recorder runs; the log does not end with a `stop` line".to_owned(),
        }
    };
    (Health::Critical, text)
}

fn look_at_arena(report: &mut Report, living: &Living, is_running: bool) {
    let picture = &living.picture;
    if is_running {
        match picture.heartbeat_age_ms {
            Some(age_ms) => {
                let age_s = age_ms.max(0) as f64 / 1e3;
                let text = format!("looked at the arena {} ago", age(age_s));
                report.measure(Check::Writer, age_s, text);
            }
            None => report.note(Check::Writer, Health::Ok, "has not run yet"),
        }
    }
    report.set(Metric::WaitingSessions, picture.waiters.into());
    report.set(Metric::LostRecords, picture.lost() as f64);
    let mut text = format!(
        "{} % of {} in use, overflow {}",
        picture.used_percent,
        say::bytes(picture.arena_bytes),
        picture.overflow
    );
    if picture.waiters > 0 {
        text +=
            &format!("; waiting for space: {}", say::counted(picture.waiters.into(), "session"));
    }
    report.measure(Check::Arena, picture.used_percent.into(), text);
}

fn show_lag(report: &mut Report, arenas: &Arenas) {
    let waiting = &arenas.waiting;
    report.set(Metric::WaitingRecords, waiting.records as f64);
    let lag_s = waiting.oldest_us.map_or(0.0, |us| report.age_s(us));
    let text = match waiting.records {
        0 => "no record waits".to_owned(),
        records => {
            let at_least = if waiting.has_more { "at least " } else { "" };
            let records = say::counted(records, "record");
            let which = match waiting.oldest_us {
                Some(_) => format!("the oldest for {}", age(lag_s)),
                None => "of statements that still run".to_owned(),
            };
            format!("not in the log yet: {at_least}{records}, {which}")
        }
    };
    report.measure(Check::Lag, lag_s, text);
}
