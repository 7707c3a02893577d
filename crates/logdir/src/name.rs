//! Names of log files and their order.

use std::fmt;

/// Largest number that six digits hold.
const NUMBER_MAX: u32 = 999_999;
/// Bits for it in a code.
const NUMBER_BITS: u32 = 20;
/// 9999-12-31T23:59:59Z: the last second whose year has four digits.
const STAMP_S_MAX: i64 = 253_402_300_799;

/// `audit-<YYYYMMDDTHHMMSSZ>-<six-digit number>`, without the ending.
///
/// The order of the values is the order of the strings, and both are the order of age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName {
    /// Time in the name, seconds since 1970-01-01 UTC, never negative.
    stamp_s: i64,
    /// 1 to 999999.
    number: u32,
}

impl FileName {
    /// The name that follows `newest` at the time `now_s` (seconds since 1970-01-01 UTC).
    ///
    /// If the clock has stepped back, the stamp of `newest` is used again: a name that sorts before
    /// an existing one would put its lines in the wrong place for every reader.
    #[must_use]
    pub fn after(newest: Option<FileName>, now_s: i64) -> FileName {
        let now_s = now_s.clamp(0, STAMP_S_MAX);
        match newest {
            None => FileName { stamp_s: now_s, number: 1 },
            Some(FileName { stamp_s, number }) if number < NUMBER_MAX => {
                FileName { stamp_s: now_s.max(stamp_s), number: number + 1 }
            }
            // The number starts again, so the stamp alone must keep the order.
            Some(FileName { stamp_s, .. }) => {
                FileName { stamp_s: now_s.max(stamp_s + 1).min(STAMP_S_MAX), number: 1 }
            }
        }
    }

    /// Splits a directory entry into the name and its ending (`jsonl`, `jsonl.zst`). `None`: not a
    /// name of the recorder's.
    #[must_use]
    pub fn parse(entry: &str) -> Option<(FileName, &str)> {
        let (stem, ending) = entry.split_once('.')?;
        let (stamp, number) = stem.strip_prefix("audit-")?.split_once('-')?;
        if number.len() != 6 || !number.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let name = FileName { stamp_s: parse_stamp(stamp)?, number: number.parse().ok()? };
        // Formatting it again rejects every impossible date and every other spelling.
        (name.number > 0 && name.to_string() == stem).then_some((name, ending))
    }

    /// The name of the file that lines are written to.
    #[must_use]
    pub fn log_file(&self) -> String {
        format!("{self}.jsonl")
    }

    /// Time in the name: when the file was begun, seconds since 1970-01-01 UTC.
    #[must_use]
    pub fn stamp_s(&self) -> i64 {
        self.stamp_s
    }

    /// As a number, in the same order; never 0.
    #[must_use]
    pub fn code(&self) -> u64 {
        (self.stamp_s as u64) << NUMBER_BITS | u64::from(self.number)
    }

    /// The name with this code; `None`: there is none.
    #[must_use]
    pub fn from_code(code: u64) -> Option<FileName> {
        let stamp_s = i64::try_from(code >> NUMBER_BITS).ok().filter(|it| *it <= STAMP_S_MAX)?;
        let number = (code & ((1 << NUMBER_BITS) - 1)) as u32;
        (1..=NUMBER_MAX).contains(&number).then_some(FileName { stamp_s, number })
    }

    /// The six-digit number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.stamp_s.div_euclid(86_400));
        let second = self.stamp_s.rem_euclid(86_400);
        write!(
            f,
            "audit-{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z-{:06}",
            second / 3600,
            second / 60 % 60,
            second % 60,
            self.number
        )
    }
}

fn parse_stamp(stamp: &str) -> Option<i64> {
    let bytes = stamp.as_bytes();
    if bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let digits = |from: usize, to: usize| -> Option<i64> {
        bytes[from..to]
            .iter()
            .try_fold(0, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
    };
    let days = days_from_civil(digits(0, 4)?, digits(4, 6)?, digits(6, 8)?);
    let stamp_s = days * 86_400 + digits(9, 11)? * 3600 + digits(11, 13)? * 60 + digits(13, 15)?;
    (0..=STAMP_S_MAX).contains(&stamp_s).then_some(stamp_s)
}

// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": days since 1970-01-01 in
// the proleptic Gregorian calendar. Years begin in March here, so that the leap day is last.

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_instants() {
        let name = |s, number| FileName { stamp_s: s, number }.to_string();
        assert_eq!(name(0, 1), "audit-19700101T000000Z-000001");
        assert_eq!(name(951_827_696, 42), "audit-20000229T123456Z-000042");
        assert_eq!(name(STAMP_S_MAX, 999_999), "audit-99991231T235959Z-999999");
    }

    #[test]
    fn invalid_names_are_refused() {
        for entry in [
            "audit-20000229T123456Z-000042",
            "audit-20010229T123456Z-000042.jsonl",
            "audit-20000229T126056Z-000042.jsonl",
            "audit-20000229T123456Z-000000.jsonl",
            "audit-20000229T123456Z-+00042.jsonl",
            "audit-20000229T123456Z-0000042.jsonl",
            "audit-20000229t123456z-000042.jsonl",
            "audit-2000é229T12345Z-000042.jsonl",
            "audit.jsonl",
            ".lock",
        ] {
            assert_eq!(FileName::parse(entry), None, "{entry}");
        }
    }

    #[test]
    fn the_clock_steps_back() {
        let newest = FileName { stamp_s: 1000, number: 7 };
        assert_eq!(FileName::after(Some(newest), 10), FileName { stamp_s: 1000, number: 8 });
    }

    #[test]
    fn the_number_starts_again_and_the_order_holds() {
        let newest = FileName { stamp_s: 1000, number: NUMBER_MAX };
        let next = FileName::after(Some(newest), 10);
        assert_eq!(next, FileName { stamp_s: 1001, number: 1 });
        assert!(next.to_string() > newest.to_string());
    }

    proptest! {
        #[test]
        fn a_name_reads_back(stamp_s in 0..=STAMP_S_MAX, number in 1..=NUMBER_MAX) {
            let name = FileName { stamp_s, number };
            let entry = name.log_file();
            prop_assert_eq!(FileName::parse(&entry), Some((name, "jsonl")));
        }

        #[test]
        fn the_next_name_sorts_after(
            stamp_s in 0..STAMP_S_MAX,
            number in 1..=NUMBER_MAX,
            now_s in any::<i64>(),
        ) {
            let newest = FileName { stamp_s, number };
            let next = FileName::after(Some(newest), now_s);
            prop_assert!(next > newest);
            prop_assert!(next.log_file() > newest.log_file());
        }

        #[test]
        fn any_entry_is_read_without_a_panic(entry in "\\PC*", tail in "[0-9TZ.-]{0,30}") {
            let _ = FileName::parse(&entry);
            if let Some((name, ending)) = FileName::parse(&format!("audit-{tail}")) {
                prop_assert_eq!(format!("{name}.{ending}"), format!("audit-{tail}"));
            }
        }
    }
}
