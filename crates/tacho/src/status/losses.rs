//! Which losses the log and the arena declare.

use tacho_logdir::read::end::{self, LostLines};

use super::log::{Log, advice_on, age};
use super::report::{Health, Report};
use super::spec::{Check, Metric};
use crate::say;

/// Answers `lost`, from `lost` lines in the last `bytes_max` bytes of the log and from the counters
/// of the arena, which are already in the report.
pub fn look(report: &mut Report, log: &Log, bytes_max: u64) {
    let lines = match end::lost_lines(&log.files, bytes_max) {
        Ok(lines) => lines,
        Err(error) => {
            let text = format!("cannot search for losses: {error}{}", advice_on(&error));
            report.note(Check::Lost, Health::Unknown, text);
            return;
        }
    };
    report.set(Metric::LostLines, lines.lines as f64);
    report.set(Metric::EncryptedConnections, lines.encrypted as f64);
    let counted = report.values.get(&Metric::LostRecords).copied().unwrap_or(0.0);
    match &lines.newest {
        Some((time, cause)) => {
            let age_s = report.age_s(time.as_microsecond());
            let text = format!(
                "{}; the newest loss is {} old (cause: {cause}){}",
                declared(&lines),
                age(age_s),
                since_start(counted)
            );
            report.measure(Check::Lost, age_s, text);
        }
        // Its line is before the part that was searched, or not in the file yet.
        None if counted > 0.0 => {
            let since = lines.searched_since.filter(|_| lines.has_more);
            let age_s = since.map_or(0.0, |since| report.age_s(since.as_microsecond()));
            let text = match since {
                Some(since) => format!(
                    "no loss since {since}, where the search in the log began (--search){}",
                    since_start(counted)
                ),
                None => format!("no line has the loss yet{}", since_start(counted)),
            };
            report.measure(Check::Lost, age_s, text);
        }
        None => {
            let since = lines.searched_since.filter(|_| lines.has_more);
            let text = match since {
                Some(since) => format!("no loss since {since}, where the search began (--search)"),
                None if lines.has_more => "no loss; no line of the log was searched".to_owned(),
                None => "no loss in all of the log".to_owned(),
            };
            report.note(Check::Lost, Health::Ok, text);
        }
    }
}

fn declared(lines: &LostLines) -> String {
    let count = say::counted(lines.lines, "`lost` line");
    let count = match lines.records {
        0 => count,
        records => format!("{count} with {}", say::counted(records, "record")),
    };
    match lines.encrypted {
        0 => count,
        encrypted => format!("{}; {count}", say::not_seen(encrypted)),
    }
}

fn since_start(counted: f64) -> String {
    match counted as u64 {
        0 => String::new(),
        count => format!("; {} lost since the server started", say::counted(count, "record")),
    }
}
