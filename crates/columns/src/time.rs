//! Times as a log has them, `2026-11-21T01:02:03.123456`, as microseconds. The offset behind them
//! is not part of it.

/// Length of such a time, bytes.
pub(crate) const TIME_BYTES: usize = 26;

const SECONDS_PER_DAY: u64 = 86_400;
const MICROSECONDS: u64 = 1_000_000;
/// Behind the last day of the year 9999, days since 0000-01-01.
const DAYS: u64 = 3_652_425;

/// Bytes between the digits, and where they are.
const MARKS: [(usize, u8); 6] =
    [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.')];

fn digits(text: &[u8]) -> Option<u64> {
    text.iter()
        .try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 0000-01-01 to a day in the Gregorian calendar. After Howard Hinnant's
/// `days_from_civil`: years begin in March.
fn days(year: u64, month: u64, day: u64) -> u64 {
    // A year earlier, and 306 days to its March, so that nothing is negative: era 0 begins at
    // -0400-03-01.
    let from_march = (month + 9) % 12;
    let year = year + 400 - u64::from(month <= 2);
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    // 0000-01-01 is 146_097 - 60 days after that.
    days - (146_097 - 60)
}

/// Year, month and day.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 146_097 - 60;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2) - 400, month, day)
}

/// Microseconds since the beginning of the year 0. `None`: it is not such a time, or not one that
/// [`Clock::put`] writes in the same way.
pub(crate) fn parse(text: &[u8; TIME_BYTES]) -> Option<u64> {
    if MARKS.iter().any(|(at, mark)| text[*at] != *mark) {
        return None;
    }
    let year = digits(&text[..4])?;
    let [month, day, hour, minute, second] = [5, 8, 11, 14, 17].map(|at| digits(&text[at..at + 2]));
    let (month, day) = (month?, day?);
    let (hour, minute, second) = (hour?, minute?, second?);
    let is_date = (1..=12).contains(&month) && day >= 1 && day <= days_of_month(year, month);
    if !is_date || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = (hour * 60 + minute) * 60 + second + days(year, month, day) * SECONDS_PER_DAY;
    Some(seconds * MICROSECONDS + digits(&text[20..])?)
}

/// Writes times. Those of the same second are frequent.
pub(crate) struct Clock {
    second: u64,
    text: [u8; TIME_BYTES],
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { second: 0, text: *b"0000-01-01T00:00:00.000000" }
    }

    /// The text of a time. `None`: it is after the year 9999.
    pub(crate) fn text(&mut self, time: u64) -> Option<&[u8; TIME_BYTES]> {
        let (second, microsecond) = (time / MICROSECONDS, time % MICROSECONDS);
        if second != self.second {
            self.go_to(second)?;
        }
        put_digits(&mut self.text[20..], microsecond);
        Some(&self.text)
    }

    fn go_to(&mut self, second: u64) -> Option<()> {
        let (day_number, of_day) = (second / SECONDS_PER_DAY, second % SECONDS_PER_DAY);
        if day_number >= DAYS {
            return None;
        }
        let (year, month, day) = civil(day_number);
        put_digits(&mut self.text[..4], year);
        let parts = [month, day, of_day / 3_600, of_day / 60 % 60, of_day % 60];
        for (at, part) in [5, 8, 11, 14, 17].into_iter().zip(parts) {
            put_digits(&mut self.text[at..at + 2], part);
        }
        self.second = second;
        Some(())
    }
}

/// Fills a text with the last digits of a number.
fn put_digits(text: &mut [u8], mut number: u64) {
    for byte in text.iter_mut().rev() {
        *byte = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_written_as_they_were_read() {
        let mut clock = Clock::new();
        // Each month and day of leap years and others.
        for day in (0..DAYS).step_by(5) {
            let time =
                (day * SECONDS_PER_DAY + day % SECONDS_PER_DAY) * MICROSECONDS + day % 999_983;
            let text = *clock.text(time).unwrap();
            assert_eq!(parse(&text), Some(time), "{}", String::from_utf8_lossy(&text));
        }
        assert!(clock.text(DAYS * SECONDS_PER_DAY * MICROSECONDS).is_none());
        assert!(clock.text(u64::MAX).is_none());
    }

    #[test]
    fn known_times() {
        assert_eq!(parse(b"0000-01-01T00:00:00.000001"), Some(1));
        let [first, last] = [b"1970-01-01T00:00:00.000000", b"2026-10-19T00:00:00.000000"];
        assert_eq!(parse(last).unwrap() - parse(first).unwrap(), 1_792_368_000_000_000);
    }

    #[test]
    fn what_is_not_a_time_is_refused() {
        for text in [
            b"2026-02-29T00:00:00.000000",
            b"2026-00-10T00:00:00.000000",
            b"2026-13-10T00:00:00.000000",
            b"2026-10-00T00:00:00.000000",
            b"2026-10-10T24:00:00.000000",
            b"2026-10-10T00:60:00.000000",
            b"2026-10-10T00:00:60.000000",
            b"2026-10-10 00:00:00.000000",
            b"2026-10-10T00:00:00.00000x",
            b"20x6-10-10T00:00:00.000000",
        ] {
            assert_eq!(parse(text), None, "{}", String::from_utf8_lossy(text));
        }
    }
}
