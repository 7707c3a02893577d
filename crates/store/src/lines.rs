//! Lines of a log file into columns.

use std::borrow::Cow;

use tacho_record::Field;
use tacho_record::line::{Line, LineValue, write_values};
use tacho_record::time::TimeFormatter;

use crate::columns::{LinePosition, Rows};
use crate::digests::Digests;

/// A batch of rows, with the key of each that orders them.
pub struct Batch {
    /// The rows in the order of the lines.
    pub rows: Rows,
    /// (µs since 1970, `seq`) of each row.
    pub keys: Vec<(i64, u64)>,
    clock: Option<(i16, TimeFormatter)>,
    again: Vec<u8>,
}

/// What a line was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// Its number; 0 if it cannot be read.
    pub seq: u64,
    /// Its time, µs since 1970.
    pub ts_us: i64,
}

impl Batch {
    /// Without rows.
    pub fn new() -> Self {
        Self { rows: Rows::new(), keys: Vec::new(), clock: None, again: Vec::new() }
    }

    /// Appends the row of a line without its newline. A line that is not a record is kept
    /// verbatim; `last_us` is its time, because it has none of its own.
    pub fn add(
        &mut self,
        place: LinePosition,
        line: &[u8],
        last_us: i64,
        digests: &mut Digests,
    ) -> Added {
        let added = match Line::parse(line) {
            Ok(parsed) if parsed.seq > 0 => {
                digests.note(&parsed);
                self.add_line(place, line, &parsed)
            }
            _ => {
                let text = String::from_utf8_lossy(line);
                self.rows.append(place, None, Some(&text), |field| match field {
                    Field::ts => LineValue::Time(last_us),
                    _ => LineValue::Missing,
                });
                Added { seq: 0, ts_us: last_us }
            }
        };
        self.keys.push((added.ts_us, added.seq));
        added
    }

    fn add_line(&mut self, place: LinePosition, bytes: &[u8], line: &Line) -> Added {
        let offset_minutes = offset_minutes(bytes);
        let exact = offset_minutes.is_some_and(|minutes| self.is_exact(minutes, bytes, line));
        let raw: Option<Cow<str>> = (!exact).then(|| String::from_utf8_lossy(bytes));
        self.rows.append(place, offset_minutes, raw.as_deref(), |field| line.value(field));
        Added { seq: line.seq, ts_us: line.ts.as_microsecond() }
    }

    /// Whether the values give the line back.
    fn is_exact(&mut self, minutes: i16, bytes: &[u8], line: &Line) -> bool {
        let clock = match &mut self.clock {
            Some((of, clock)) if *of == minutes => clock,
            other => {
                let Some(clock) = TimeFormatter::fixed(minutes) else { return false };
                &mut other.insert((minutes, clock)).1
            }
        };
        self.again.clear();
        write_values(&mut self.again, clock, |field| line.value(field));
        self.again == bytes
    }
}

/// The offset from UTC of the time at the beginning of a line, if it is where the recorder writes
/// it: `{"v":1,"seq":7,"ts":"2026-11-21T01:02:03.123456+01:00"`.
fn offset_minutes(line: &[u8]) -> Option<i16> {
    const TS: &[u8] = b",\"ts\":\"";
    const OFFSET_AT: usize = 26;
    let head = line.get(..line.len().min(64))?;
    let at = head.windows(TS.len()).position(|window| window == TS)? + TS.len() + OFFSET_AT;
    let offset = std::str::from_utf8(line.get(at..at + 6)?).ok()?;
    let hours: i16 = offset.get(1..3)?.parse().ok()?;
    let minutes: i16 = offset.get(4..6)?.parse().ok()?;
    match offset.as_bytes()[0] {
        b'+' => Some(hours * 60 + minutes),
        b'-' => Some(-(hours * 60 + minutes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_found_where_the_recorder_writes_it() {
        let line = |ts: &str| format!("{{\"v\":1,\"seq\":123,\"ts\":\"{ts}\",\"event\":\"stop\"}}");
        let of = |ts: &str| offset_minutes(line(ts).as_bytes());
        assert_eq!(of("2026-11-21T01:02:03.123456+01:00"), Some(60));
        assert_eq!(of("2026-11-21T01:02:03.123456-09:30"), Some(-570));
        assert_eq!(of("2026-11-21T01:02:03Z"), None);
        assert_eq!(offset_minutes(b""), None);
    }
}
