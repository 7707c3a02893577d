//! The lines under a report: what it covers, and what it lacks.

use jiff::tz::TimeZone;
use serde_json::json;

use super::answer::Answer;
use super::data;
use super::gaps::Gaps;
use super::query::{Query, Subject};
use super::stats::{Measure, Stats};
use crate::say::counted;

/// A moment, to the second.
pub fn second(us: i64, zone: &TimeZone) -> String {
    const SECOND_BYTES: usize = "2026-11-27 07:00:00".len();
    let text = data::time(us, zone).unwrap_or_default();
    text.get(..SECOND_BYTES).unwrap_or_default().replace('T', " ")
}

/// The facts.
#[derive(Debug)]
pub struct Summary {
    all: Stats,
    gaps: Gaps,
    open_count: u64,
    /// Files that could not be read; each was reported.
    unread_files: u64,
    shown_count: u64,
    row_count: u64,
    folded: super::groups::Folded,
    noun: &'static str,
    row_noun: &'static str,
    sort: Measure,
}

impl Summary {
    /// The facts of an answer. `problem_count`: problems that were reported.
    pub fn new(
        query: &Query,
        answer: &Answer,
        (all, gaps, open_count): (Stats, Gaps, u64),
        problem_count: u64,
    ) -> Self {
        let noun = match query.subject {
            Subject::Logins => "login attempt",
            Subject::Errors => "error",
            _ => "statement",
        };
        let row_noun = match query.subject {
            Subject::Ddl | Subject::Grants => "row",
            Subject::Sessions => "session",
            _ => "group",
        };
        let unread_files = problem_count.saturating_sub(gaps.damaged_lines);
        let (shown_count, row_count) = (answer.rows.len() as u64, answer.row_count);
        let (folded, sort) = (answer.folded.clone(), query.sort);
        Self {
            all,
            gaps,
            open_count,
            unread_files,
            shown_count,
            row_count,
            folded,
            noun,
            row_noun,
            sort,
        }
    }

    /// Whether nothing is known to be missing.
    fn is_complete(&self) -> bool {
        self.gaps.is_none() && self.unread_files == 0
    }

    /// As sentences, one a line.
    pub fn lines(&self, zone: &TimeZone) -> Vec<String> {
        let mut lines = vec![self.covered(zone)];
        if let Some(us) = self.gaps.begins_us {
            lines.push(format!("the log begins at {}, after --since", second(us, zone)));
        }
        if self.open_count > 0 {
            lines.push(format!(
                "{} had not ended where the log ends: counted, without time and rows",
                counted(self.open_count, "statement")
            ));
        }
        if self.folded.count > 0 {
            lines.push(self.folded_line());
        }
        if !self.is_complete() {
            lines.push(format!("INCOMPLETE: {}", self.missing().join("; ")));
        }
        lines
    }

    fn covered(&self, zone: &TimeZone) -> String {
        let count = counted(self.all.count, self.noun);
        let time = |us| second(us, zone);
        let range = match self.all.count {
            0 => String::new(),
            _ => format!(" from {} to {}", time(self.all.first_us), time(self.all.last_us)),
        };
        let rows = match (self.shown_count, self.row_count) {
            (shown, all) if shown < all => {
                format!("; {shown} of {} shown", counted(all, self.row_noun))
            }
            (_, all) => format!("; {}", counted(all, self.row_noun)),
        };
        format!("{count}{range}{rows}")
    }

    /// Groups that did not fit.
    fn folded_line(&self) -> String {
        let lack = match self.sort {
            Measure::Count => format!("up to {}", counted(self.folded.lack_max, self.noun)),
            Measure::Errors => format!("up to {}", counted(self.folded.lack_max, "error")),
            Measure::Rows | Measure::Examined => {
                format!("up to {}", counted(self.folded.lack_max, "row"))
            }
            _ => format!("statements of up to {} µs", self.folded.lack_max),
        };
        format!(
            "too many groups for memory: {} in small groups {} in no row, and each row may lack {lack}",
            counted(self.folded.stats.count, self.noun),
            if self.folded.stats.count == 1 { "is" } else { "are" },
        )
    }

    /// What is missing.
    fn missing(&self) -> Vec<String> {
        let gaps = &self.gaps;
        let mut all = Vec::new();
        if gaps.lost_lines > 0 {
            let causes: Vec<&str> = gaps.causes.keys().map(String::as_str).collect();
            let records = match (gaps.lost_records, gaps.lost_uncounted) {
                (0, _) => "an unknown number of records".to_owned(),
                (records, 0) => counted(records, "record"),
                (records, _) => format!("at least {}", counted(records, "record")),
            };
            let lines = counted(gaps.lost_lines, "`lost` line");
            all.push(format!("{records} lost ({lines}, {})", causes.join(", ")));
        }
        if gaps.damaged_lines > 0 {
            all.push(format!("{} damaged", counted(gaps.damaged_lines, "line")));
        }
        if gaps.missing_lines > 0 {
            all.push(format!("{} missing in the sequence", counted(gaps.missing_lines, "line")));
        }
        if self.unread_files > 0 {
            all.push(format!("{} not read, see above", counted(self.unread_files, "file")));
        }
        all
    }

    /// As a JSON object.
    pub fn json(&self, zone: &TimeZone) -> String {
        let gaps = &self.gaps;
        let time = |us| (self.all.count > 0).then(|| data::time(us, zone)).flatten();
        let summary = json!({
            "complete": self.is_complete(),
            "count": self.all.count,
            "first": time(self.all.first_us),
            "last": time(self.all.last_us),
            "log_begins": gaps.begins_us.and_then(|us| data::time(us, zone)),
            "rows": self.row_count,
            "rows_shown": self.shown_count,
            "not_ended": self.open_count,
            "in_no_row": self.folded.stats.count,
            "lost_lines": gaps.lost_lines,
            "lost_records": gaps.lost_records,
            "lost_causes": gaps.causes,
            "damaged_lines": gaps.damaged_lines,
            "missing_lines": gaps.missing_lines,
            "unread_files": self.unread_files,
        });
        json!({ "summary": summary }).to_string()
    }
}
