//! UTC microseconds to RFC 3339 with a numeric offset, without a process-wide lock.
//!
//! glibc's `localtime_r` takes one lock for the whole process, and this code may run inside a
//! database server; so the zone is read once, into a private value, and the calendar is computed
//! here. The text of the last second is kept: within one second only the six digits of the
//! microseconds change. Nothing else needs a cache. A new second looks its offset up again (about
//! 100 ns, once a second under load), so a step of the clock or a transition of the zone never
//! meets an outdated offset.
//!
//! An offset has whole minutes in RFC 3339, but not everywhere in history (Amsterdam was at
//! +00:19:32 until 1937). The nearest whole minute is printed *and* used for the local time, so the
//! text always denotes exactly the original instant.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::digits::eight_digits;

/// Length of a formatted time, in bytes: `2026-11-21T01:02:03.123456+01:00`.
pub const TIME_BYTES: usize = 32;

/// 0000-01-02T00:00:00Z. RFC 3339 has years of four digits; one day is reserved for the offset.
const FIRST_SECOND: i64 = -719_527 * SECONDS_PER_DAY;
/// 9999-12-30T22:00:00Z, the last second that has a name in every zone.
const LAST_SECOND: i64 = 253_402_207_200;
const SECONDS_PER_DAY: i64 = 86_400;
const MINUTES_PER_DAY: i64 = 1_440;

/// Position of the microseconds in a formatted time.
const MICROSECONDS_AT: usize = 20;

/// Why a time zone cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ZoneError {
    /// Neither `TZ` nor `/etc/localtime` names or holds a time zone.
    #[error("the local time zone cannot be read: {0}")]
    System(#[source] jiff::Error),
    /// The system's time zone database does not have it.
    #[error("time zone {name:?} cannot be read: {source}")]
    Named {
        /// The name asked for.
        name: String,
        /// The error of the database.
        source: jiff::Error,
    },
}

/// Formats instants in one time zone. It is a private value, not shared between threads, and takes
/// no lock.
#[derive(Clone, Debug)]
pub struct TimeFormatter {
    zone: TimeZone,
    /// The beginning of the second of `text`, µs since 1970-01-01 UTC.
    second_us: i64,
    text: [u8; TIME_BYTES],
}

impl TimeFormatter {
    /// Times in UTC, written with the offset `+00:00`.
    pub fn utc() -> Self {
        Self::of(TimeZone::UTC)
    }

    /// Times in the zone of this process: `TZ`, otherwise `/etc/localtime`. It is read only here,
    /// as in the server itself.
    ///
    /// # Errors
    ///
    /// [`ZoneError::System`] if there is no such zone. (The C library would silently use UTC.)
    pub fn system() -> Result<Self, ZoneError> {
        Ok(Self::of(TimeZone::try_system().map_err(ZoneError::System)?))
    }

    /// Times in a zone of the system's time zone database, for example `Europe/Berlin`.
    ///
    /// # Errors
    ///
    /// [`ZoneError::Named`] if the database does not have it.
    pub fn named(name: &str) -> Result<Self, ZoneError> {
        let zone = TimeZone::get(name)
            .map_err(|source| ZoneError::Named { name: name.to_owned(), source })?;
        Ok(Self::of(zone))
    }

    /// Times with a fixed offset from UTC. `None`: RFC 3339 has no such offset.
    pub fn fixed(offset_minutes: i16) -> Option<Self> {
        if i64::from(offset_minutes).abs() >= MINUTES_PER_DAY {
            return None;
        }
        let offset = jiff::tz::Offset::from_seconds(i32::from(offset_minutes) * 60).ok()?;
        Some(Self::of(TimeZone::fixed(offset)))
    }

    fn of(zone: TimeZone) -> Self {
        let mut formatter = Self { zone, second_us: 0, text: [b'0'; TIME_BYTES] };
        formatter.set_second(0);
        formatter
    }

    /// The text of an instant, µs since 1970-01-01 UTC. Instants before 0000-01-02 and after
    /// 9999-12-30 are written as the first and the last one that RFC 3339 has in every zone.
    pub fn format(&mut self, time_us: i64) -> &[u8; TIME_BYTES] {
        // It is usually in the same second as the one before.
        let microsecond = match u32::try_from(time_us.wrapping_sub(self.second_us)) {
            Ok(microsecond @ 0..1_000_000) => microsecond,
            _ => self.go_to(time_us),
        };
        let [_, _, six @ ..] = eight_digits(microsecond);
        self.text[MICROSECONDS_AT..MICROSECONDS_AT + six.len()].copy_from_slice(&six);
        &self.text
    }

    /// Changes the second. Returns the microsecond in it.
    #[inline(never)]
    fn go_to(&mut self, time_us: i64) -> u32 {
        let (second, microsecond) = match time_us.div_euclid(1_000_000) {
            ..FIRST_SECOND => (FIRST_SECOND, 0),
            second @ FIRST_SECOND..=LAST_SECOND => (second, time_us.rem_euclid(1_000_000)),
            _ => (LAST_SECOND, 999_999),
        };
        self.set_second(second);
        microsecond as u32
    }

    fn set_second(&mut self, second: i64) {
        self.second_us = second * 1_000_000;
        let offset_minutes = self.offset_minutes(second);
        let local = second + offset_minutes * 60;
        let (year, month, day) = civil_date(local.div_euclid(SECONDS_PER_DAY));
        let of_day = local.rem_euclid(SECONDS_PER_DAY);
        let text = &mut self.text;
        put_two(text, 0, year / 100);
        put_two(text, 2, year % 100);
        text[4] = b'-';
        put_two(text, 5, month);
        text[7] = b'-';
        put_two(text, 8, day);
        text[10] = b'T';
        put_two(text, 11, of_day / 3_600);
        text[13] = b':';
        put_two(text, 14, of_day / 60 % 60);
        text[16] = b':';
        put_two(text, 17, of_day % 60);
        text[19] = b'.';
        text[26] = if offset_minutes < 0 { b'-' } else { b'+' };
        put_two(text, 27, offset_minutes.abs() / 60);
        text[29] = b':';
        put_two(text, 30, offset_minutes.abs() % 60);
    }

    /// The nearest whole minute; RFC 3339 has no offset of a day or more.
    fn offset_minutes(&self, second: i64) -> i64 {
        // The range of `format` is within the library's range: the alternative is never taken, and
        // would be right as an instant.
        let offset_seconds = Timestamp::from_second(second)
            .map_or(0, |instant| i64::from(self.zone.to_offset(instant).seconds()));
        (offset_seconds + 30).div_euclid(60).clamp(1 - MINUTES_PER_DAY, MINUTES_PER_DAY - 1)
    }
}

/// Writes a number below 100 as two digits.
fn put_two(text: &mut [u8; TIME_BYTES], at: usize, number: i64) {
    text[at] = b'0' + (number / 10) as u8;
    text[at + 1] = b'0' + (number % 10) as u8;
}

/// Year, month and day of a number of days since 1970-01-01, in the proleptic Gregorian calendar.
///
/// After Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`: years
/// begin in March, so that the leap day is the last one, and are grouped in eras of 400.
fn civil_date(days: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    // Days from 0000-03-01 to 1970-01-01.
    let days = days + 719_468;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, next_year) =
        if month_from_march < 10 { (month_from_march + 3, 0) } else { (month_from_march - 9, 1) };
    (year_of_era + era * 400 + next_year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(formatter: &mut TimeFormatter, time_us: i64) -> String {
        String::from_utf8(formatter.format(time_us).to_vec()).expect("ASCII")
    }

    #[test]
    fn microseconds_and_offset_are_always_written() {
        let mut utc = TimeFormatter::utc();
        assert_eq!(text(&mut utc, 0), "1970-01-01T00:00:00.000000+00:00");
        assert_eq!(text(&mut utc, -1), "1969-12-31T23:59:59.999999+00:00");
        assert_eq!(text(&mut utc, 1_795_222_923_123_456), "2026-11-21T01:02:03.123456+00:00");
        assert_eq!(text(&mut utc, 951_782_400_000_000), "2000-02-29T00:00:00.000000+00:00");
    }

    #[test]
    fn daylight_saving_time_steps_between_two_microseconds() {
        let mut berlin = TimeFormatter::named("Europe/Berlin").expect("tzdata is installed");
        let back = 1_792_890_000_000_000;
        assert_eq!(text(&mut berlin, back - 1), "2026-10-25T02:59:59.999999+02:00");
        assert_eq!(text(&mut berlin, back), "2026-10-25T02:00:00.000000+01:00");
        // The clock was set back over the transition.
        assert_eq!(text(&mut berlin, back - 1), "2026-10-25T02:59:59.999999+02:00");
    }

    #[test]
    fn an_offset_with_seconds_is_rounded_and_the_instant_kept() {
        // Amsterdam's local mean time as a fixed rule, so that no database is needed.
        let zone = TimeZone::posix("AMT-0:19:32").expect("a rule");
        let mut amsterdam = TimeFormatter::of(zone);
        assert_eq!(text(&mut amsterdam, 0), "1970-01-01T00:20:00.000000+00:20");
        let zone = TimeZone::posix("XXX0:00:29").expect("a rule");
        assert_eq!(text(&mut TimeFormatter::of(zone), 0), "1970-01-01T00:00:00.000000+00:00");
        let zone = TimeZone::posix("XXX0:01:31").expect("a rule");
        assert_eq!(text(&mut TimeFormatter::of(zone), 0), "1969-12-31T23:58:00.000000-00:02");
    }

    #[test]
    fn every_number_has_a_text() {
        for zone in [TimeZone::UTC, TimeZone::posix("XXX-24:59").expect("a rule")] {
            let mut formatter = TimeFormatter::of(zone);
            let first = text(&mut formatter, i64::MIN);
            let last = text(&mut formatter, i64::MAX);
            assert_eq!(&first[..8], "0000-01-");
            assert_eq!(&last[..8], "9999-12-");
            assert_eq!(first.len(), TIME_BYTES);
        }
        let mut utc = TimeFormatter::utc();
        assert_eq!(text(&mut utc, i64::MIN), "0000-01-02T00:00:00.000000+00:00");
        assert_eq!(text(&mut utc, i64::MAX), "9999-12-30T22:00:00.999999+00:00");
        let first_us = FIRST_SECOND * 1_000_000;
        assert_eq!(text(&mut utc, first_us - 1), "0000-01-02T00:00:00.000000+00:00");
        assert_eq!(text(&mut utc, first_us + 1), "0000-01-02T00:00:00.000001+00:00");
    }

    #[test]
    fn an_unknown_zone_is_an_error() {
        assert!(matches!(TimeFormatter::named("Mars/Base"), Err(ZoneError::Named { .. })));
    }
}
