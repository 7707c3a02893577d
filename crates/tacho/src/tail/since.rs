//! Parses `--since` and `--until`.
//!
//! Times without an offset are in the reader's time zone. If a clock change makes one ambiguous or
//! skips it, the interpretation that shows more is used: the earlier for `--since`, the later for
//! `--until`.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Disambiguation, TimeZone};
use jiff::{Span, Timestamp, Zoned};
use tacho_logdir::read::Window;

use crate::cli::log::TimeRange;

/// Why a range was rejected.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhenError {
    /// It has none of the supported forms.
    #[error(
        "{option}: `{text}` is not a time; expected a form such as 10m, 2h, 1h30m, 1d, today, 09:30, \
         2026-11-21 or 2026-11-21T09:30:00+01:00"
    )]
    Unknown {
        /// The option.
        option: &'static str,
        /// Its value.
        text: String,
    },
    /// The range is empty.
    #[error("--until ({until}) is not after --since ({since}), so no line can match")]
    Empty {
        /// First moment.
        since: Timestamp,
        /// First moment after.
        until: Timestamp,
    },
}

/// Reads both ends of a range; `now` also gives the reader's time zone.
///
/// # Errors
/// When one is not a time, or the range is empty.
pub fn window(range: &TimeRange, now: &Zoned) -> Result<Window, WhenError> {
    let unknown = |option, text: &str| WhenError::Unknown { option, text: text.to_owned() };
    let since = match range.since.as_deref() {
        Some(text) => Some(parse_since(text.trim(), now).ok_or_else(|| unknown("--since", text))?),
        None => None,
    };
    let until = match range.until.as_deref() {
        Some(text) => {
            Some(parse_until(text.trim(), since, now).ok_or_else(|| unknown("--until", text))?)
        }
        None => None,
    };
    match (since, until) {
        (Some(since), Some(until)) if until <= since => Err(WhenError::Empty { since, until }),
        _ => Ok(Window { since, until }),
    }
}

fn parse_since(text: &str, now: &Zoned) -> Option<Timestamp> {
    match time_of_day(text) {
        Some(time) => last_before(time, now, Disambiguation::Earlier),
        None => parse_moment(text, now, Disambiguation::Earlier),
    }
}

fn parse_until(text: &str, since: Option<Timestamp>, now: &Zoned) -> Option<Timestamp> {
    let Some(time) = time_of_day(text) else {
        return parse_moment(text, now, Disambiguation::Later);
    };
    let Some(since) = since else { return last_before(time, now, Disambiguation::Later) };
    let zone = now.time_zone();
    let mut date = since.to_zoned(zone.clone()).date();
    // Two days are enough for any ordinary time; the third is for one that a clock change moves.
    for _ in 0..3 {
        let moment = resolve(date.to_datetime(time), zone, Disambiguation::Later)?;
        if moment > since {
            return Some(moment);
        }
        date = date.tomorrow().ok()?;
    }
    None
}

/// The most recent such time of day that is not after `now`.
fn last_before(time: Time, now: &Zoned, ambiguous: Disambiguation) -> Option<Timestamp> {
    let mut date = now.date();
    for _ in 0..3 {
        let moment = resolve(date.to_datetime(time), now.time_zone(), ambiguous)?;
        if moment <= now.timestamp() {
            return Some(moment);
        }
        date = date.yesterday().ok()?;
    }
    None
}

fn time_of_day(text: &str) -> Option<Time> {
    // `10m` and `today` have no colon, dates have a dash.
    if !text.contains(':') || text.contains(['-', 'T', ' ']) {
        return None;
    }
    let padded = if text.find(':') == Some(1) { &format!("0{text}") } else { text };
    padded.parse().ok()
}

fn parse_moment(text: &str, now: &Zoned, ambiguous: Disambiguation) -> Option<Timestamp> {
    let zone = now.time_zone();
    match text {
        "now" => return Some(now.timestamp()),
        "today" => return resolve(now.date().to_datetime(Time::midnight()), zone, ambiguous),
        "yesterday" => {
            let date = now.date().yesterday().ok()?;
            return resolve(date.to_datetime(Time::midnight()), zone, ambiguous);
        }
        _ => {}
    }
    if let Some(span) = parse_age(text) {
        return Some(now.checked_sub(span).ok()?.timestamp());
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some(moment);
    }
    // A date and time followed by text that is not an offset must not be treated as local.
    if text.len() > 10 {
        return resolve(text.parse::<DateTime>().ok()?, zone, ambiguous);
    }
    resolve(text.parse::<Date>().ok()?.to_datetime(Time::midnight()), zone, ambiguous)
}

fn resolve(civil: DateTime, zone: &TimeZone, ambiguous: Disambiguation) -> Option<Timestamp> {
    zone.to_ambiguous_timestamp(civil).disambiguate(ambiguous).ok()
}

/// `90s`, `10m`, `2h`, `1d`, `1w`, `1h30m`: how long ago. Days and weeks are calendar units: a day
/// ago is the same time yesterday, even if that was 23 or 25 hours ago.
fn parse_age(text: &str) -> Option<Span> {
    let span = text.parse().or_else(|_| in_order(text).parse::<Span>()).ok()?;
    // A later time has no lines; `10m ago` is what `10m` already means.
    (!span.is_negative()).then_some(span)
}

/// `30m1h` as `1h30m`: jiff requires the largest unit first.
fn in_order(text: &str) -> String {
    let mut parts: Vec<&str> = text.split_inclusive(char::is_alphabetic).collect();
    parts.sort_by_key(|part| "wdhms".find(|unit| part.ends_with(unit)));
    parts.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In Berlin clocks go from 02:00 to 03:00 on 2026-03-29, and from 03:00 back to 02:00 on
    /// 2026-10-25.
    fn berlin(text: &str) -> Zoned {
        format!("{text}[Europe/Berlin]").parse().unwrap()
    }

    fn range(since: Option<&str>, until: Option<&str>, now: &Zoned) -> Result<Window, WhenError> {
        let [since, until] = [since, until].map(|text| text.map(str::to_owned));
        window(&TimeRange { since, until }, now)
    }

    fn since(text: &str, now: &str) -> String {
        let window = range(Some(text), None, &berlin(now)).unwrap();
        window.since.unwrap().to_string()
    }

    fn until(text: &str, now: &str) -> String {
        let window = range(None, Some(text), &berlin(now)).unwrap();
        window.until.unwrap().to_string()
    }

    #[test]
    fn absolute_times() {
        let now = "2026-11-21T12:00:00+01:00";
        assert_eq!(since("2026-11-21T09:30:00+01:00", now), "2026-11-21T08:30:00Z");
        assert_eq!(since("2026-11-21 09:30:00.25Z", now), "2026-11-21T09:30:00.25Z");
        assert_eq!(since("2026-11-21T09:30", now), "2026-11-21T08:30:00Z");
        assert_eq!(since("2026-11-21 09:30:15", now), "2026-11-21T08:30:15Z");
        assert_eq!(since("2026-07-01", now), "2026-06-30T22:00:00Z");
    }

    #[test]
    fn ages() {
        let now = "2026-11-21T12:00:00+01:00";
        assert_eq!(since("90s", now), "2026-11-21T10:58:30Z");
        assert_eq!(since("10m", now), "2026-11-21T10:50:00Z");
        assert_eq!(since("2h", now), "2026-11-21T09:00:00Z");
        assert_eq!(since("1h30m", now), "2026-11-21T09:30:00Z");
        assert_eq!(since("30m1h", now), "2026-11-21T09:30:00Z");
        assert_eq!(since("1w", now), "2026-11-14T11:00:00Z");
    }

    #[test]
    fn a_day_ago_is_the_same_time_yesterday_and_an_hour_is_an_hour() {
        let spring = "2026-03-29T12:00:00+02:00";
        assert_eq!(since("1d", spring), "2026-03-28T11:00:00Z");
        assert_eq!(since("24h", spring), "2026-03-28T10:00:00Z");
        let autumn = "2026-10-25T12:00:00+01:00";
        assert_eq!(since("1d", autumn), "2026-10-24T10:00:00Z");
        assert_eq!(since("10h", autumn), "2026-10-25T01:00:00Z");
    }

    #[test]
    fn today_starts_at_local_midnight_before_the_clock_change() {
        assert_eq!(since("today", "2026-03-29T12:00:00+02:00"), "2026-03-28T23:00:00Z");
        assert_eq!(since("yesterday", "2026-03-30T12:00:00+02:00"), "2026-03-28T23:00:00Z");
        assert_eq!(since("today", "2026-10-25T12:00:00+01:00"), "2026-10-24T22:00:00Z");
    }

    #[test]
    fn ambiguous_and_skipped_times_widen_the_range() {
        let autumn = "2026-10-25T12:00:00+01:00";
        assert_eq!(since("02:30", autumn), "2026-10-25T00:30:00Z");
        assert_eq!(until("02:30", autumn), "2026-10-25T01:30:00Z");
        let spring = "2026-03-29T12:00:00+02:00";
        assert_eq!(since("02:30", spring), "2026-03-29T00:30:00Z");
        assert_eq!(until("02:30", spring), "2026-03-29T01:30:00Z");
    }

    #[test]
    fn time_of_day_is_the_last_one() {
        let now = "2026-11-21T01:00:00+01:00";
        assert_eq!(since("00:59", now), "2026-11-20T23:59:00Z");
        assert_eq!(since("23:00", now), "2026-11-20T22:00:00Z");
        assert_eq!(since("9:30", now), "2026-11-20T08:30:00Z");
        let both = range(Some("23:00"), Some("0:30:30"), &berlin(now)).unwrap();
        assert_eq!(both.until.unwrap().to_string(), "2026-11-20T23:30:30Z");
    }

    #[test]
    fn range_is_half_open() {
        let now = berlin("2026-11-21T12:00:00+01:00");
        let window = range(Some("10:00"), Some("11:00"), &now).unwrap();
        let contains = |text: &str| window.contains(text.parse().unwrap());
        assert!(!contains("2026-11-21T08:59:59.999999Z"));
        assert!(contains("2026-11-21T09:00:00Z"));
        assert!(contains("2026-11-21T09:59:59.999999Z"));
        assert!(!contains("2026-11-21T10:00:00Z"));
    }

    #[test]
    fn nonsense_is_refused() {
        let now = berlin("2026-11-21T12:00:00+01:00");
        for text in [
            "",
            "soon",
            "10",
            "10x",
            "m",
            "1m1m",
            "-5m",
            "5m ago",
            "25:00",
            "2026-13-01",
            "1:2:3:4",
            "2026-11-21T10:00:00+1",
            "99999999999999999999s",
            "999999999w",
        ] {
            assert!(range(Some(text), None, &now).is_err(), "{text}");
        }
        let empty = range(Some("1h"), Some("2h"), &now);
        assert!(matches!(empty, Err(WhenError::Empty { .. })));
    }
}
