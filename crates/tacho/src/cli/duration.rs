//! Durations on the command line: `10s`, `500ms`, `1h30m`.

use std::time::Duration;

use jiff::SignedDuration;

/// Value name of every option that takes a duration.
pub const NAME: &str = "DURATION";

/// Longest duration, about a thousand years: adding it to the present cannot overflow.
const MAX: Duration = Duration::from_secs(10_000_000 * 3600);

/// Longest duration of [`up_to_an_hour`].
const HOUR: Duration = Duration::from_secs(3600);

/// Any duration.
///
/// # Errors
/// The text is not a duration, or is negative.
pub fn any(text: &str) -> Result<Duration, String> {
    let duration = match seconds(text) {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        None => text.parse::<SignedDuration>().ok().and_then(|it| Duration::try_from(it).ok()),
    };
    duration.filter(|duration| *duration <= MAX).ok_or_else(|| {
        "expected a duration such as 10s, 500ms, 2m or 1h30m, largest unit first".to_owned()
    })
}

/// A duration of more than zero.
///
/// # Errors
/// As [`any`], and for zero.
pub fn positive(text: &str) -> Result<Duration, String> {
    match any(text)? {
        Duration::ZERO => Err("expected more than 0s".to_owned()),
        duration => Ok(duration),
    }
}

/// A duration of no more than an hour.
///
/// # Errors
/// As [`any`], and for a longer one.
pub fn up_to_an_hour(text: &str) -> Result<Duration, String> {
    let duration = any(text)?;
    if duration > HOUR { Err("expected 1h at most".to_owned()) } else { Ok(duration) }
}

/// Seconds without a unit: the form that some options took before all of them took units.
pub fn seconds(text: &str) -> Option<f64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, ms) in [
            ("500ms", 500),
            ("10s", 10_000),
            ("1.5s", 1_500),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("0s", 0),
        ] {
            assert_eq!(any(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(any("250us"), Ok(Duration::from_micros(250)));
        for wrong in ["", "s", "-1s", "10 parsecs", "99999999999999999999h", "1d", "soon", "."] {
            assert!(any(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn seconds_without_a_unit_are_still_accepted() {
        assert_eq!(any("10"), Ok(Duration::from_secs(10)));
        assert_eq!(any("0.3"), Ok(Duration::from_millis(300)));
        assert_eq!(any("4294967295"), Ok(Duration::from_secs(4_294_967_295)));
    }

    #[test]
    fn some_durations_have_bounds() {
        assert!(positive("0s").is_err() && positive("1ms").is_ok());
        assert!(up_to_an_hour("3600").is_ok() && up_to_an_hour("61m").is_err());
    }
}
