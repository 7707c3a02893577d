//! Sizes on the command line and in option files: `64MiB`, `64M`, `67108864`.

/// Value name of every option that takes a size.
pub const NAME: &str = "SIZE";

/// Units are powers of 1024 with or without `iB`, as in the server's own settings.
const UNITS: &str = "kmgtpe";

/// The number of bytes. `None`: the text is not a size, or the size does not fit.
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.strip_suffix("ib").unwrap_or(unit);
    let power = match unit {
        "" if text.ends_with("ib") => return None,
        "" => 0,
        _ if unit.len() == 1 => UNITS.find(unit)? + 1,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1024_u64.checked_pow(u32::try_from(power).ok()?)?)
}

/// A size that `T` can hold.
///
/// # Errors
/// The text is not a size.
pub fn any<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    bytes(text).and_then(|bytes| T::try_from(bytes).ok()).ok_or_else(expected)
}

/// A parser of sizes from `min` to `max` bytes.
pub fn between(min: u64, max: u64) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| match bytes(text) {
        None => Err(expected()),
        Some(bytes) if !(min..=max).contains(&bytes) => {
            Err(format!("expected {} to {}", shown(min), shown(max)))
        }
        Some(bytes) => Ok(bytes),
    }
}

fn expected() -> String {
    "expected a size such as 4096, 64KiB or 1GiB".to_owned()
}

/// In the largest unit without loss.
fn shown(bytes: u64) -> String {
    let mut bytes = bytes;
    let mut unit = "";
    for larger in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        if bytes == 0 || !bytes.is_multiple_of(1024) {
            break;
        }
        (bytes, unit) = (bytes / 1024, larger);
    }
    format!("{bytes}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("0", 0),
            ("1000000", 1_000_000),
            ("64M", 64 << 20),
            ("64MiB", 64 << 20),
            (" 1g ", 1 << 30),
            ("3kib", 3 << 10),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        for wrong in ["", "M", "1.5M", "-1", "64MB", "64 M", "20E", "1iB", "1x", "many", "mk"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn messages_name_what_is_permitted() {
        let parse = between(1024, 1 << 40);
        assert_eq!(parse("1KiB"), Ok(1024));
        assert_eq!(parse("1").unwrap_err(), "expected 1KiB to 1TiB");
        assert_eq!(parse("x").unwrap_err(), "expected a size such as 4096, 64KiB or 1GiB");
        assert!(any::<u16>("64KiB").is_err());
    }
}
