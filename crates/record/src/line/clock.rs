//! Reads times as the recorder writes them.

use jiff::Timestamp;

use crate::time::TIME_BYTES;

/// Where the seconds begin, and where the offset does.
const SECONDS_AT: usize = 17;
const OFFSET_AT: usize = 26;

/// Reads times. Lines of one minute follow one another, so the minute is read once.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Date, hour, minute and offset of the last time.
    minute: [u8; SECONDS_AT],
    offset: [u8; TIME_BYTES - OFFSET_AT],
    /// When that minute began, µs since 1970-01-01 UTC.
    minute_us: i64,
}

impl Clock {
    /// µs since 1970-01-01 UTC; `None`: not an RFC 3339 time.
    pub(super) fn read(&mut self, text: &str) -> Option<i64> {
        let within = match <&[u8; TIME_BYTES]>::try_from(text.as_bytes()) {
            Ok(bytes) => within_minute(bytes).map(|us| (bytes, us)),
            Err(_) => None,
        };
        let Some((bytes, us)) = within else { return parse(text) };
        if bytes[..SECONDS_AT] == self.minute && bytes[OFFSET_AT..] == self.offset {
            return Some(self.minute_us + us);
        }
        let time_us = parse(text)?;
        self.minute.copy_from_slice(&bytes[..SECONDS_AT]);
        self.offset.copy_from_slice(&bytes[OFFSET_AT..]);
        self.minute_us = time_us - us;
        Some(time_us)
    }
}

fn parse(text: &str) -> Option<i64> {
    text.parse().ok().map(Timestamp::as_microsecond)
}

/// `SS.ffffff` in µs; `None`: another form, or a leap second.
fn within_minute(bytes: &[u8; TIME_BYTES]) -> Option<i64> {
    let text = &bytes[SECONDS_AT..OFFSET_AT];
    let mut us = 0;
    for (at, byte) in text.iter().enumerate() {
        match (at, byte) {
            (2, b'.') => {}
            (2, _) => return None,
            (_, b'0'..=b'9') => us = us * 10 + i64::from(byte - b'0'),
            _ => return None,
        }
    }
    (us < 60_000_000).then_some(us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_library() {
        let mut clock = Clock::default();
        for text in [
            "2026-11-21T10:00:00.000001+01:00",
            "2026-11-21T10:00:59.999999+01:00",
            "2026-11-21T10:00:59.999999+00:00",
            "2026-11-21T10:00:07.5Z",
            "2026-11-21T10:00:60.000000+00:00",
            "2026-11-21T10:00:12.000000+00:00",
            "0000-01-02T00:00:00.000000-00:30",
            "1969-12-31T23:59:59.999999+00:00",
            "2026-02-30T10:00:12.000000+00:00",
            "2026-11-21T10:0x:12.000000+00:00",
            "2026-11-21T10:00:1x.000000+00:00",
            "2026-11-21T10:00:12,000000+00:00",
            "2026-11-21T10:00:12.000000+0a:00",
            "",
        ] {
            let expected = text.parse::<Timestamp>().ok().map(Timestamp::as_microsecond);
            // The second reading is the one from memory.
            assert_eq!([clock.read(text), clock.read(text)], [expected; 2], "{text}");
        }
    }
}
