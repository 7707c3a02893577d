//! Whole numbers on the command line.

/// A whole number that `T` can hold.
///
/// # Errors
/// The message lists the permitted values: clap's own message only mentions digits.
pub fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = text.parse::<u64>().ok().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("expected a whole number from 0 to {}", max::<T>()))
}

/// A parser of whole numbers from `min` to `max`.
pub fn between(min: u32, max: u32) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| format!("expected a whole number from {min} to {max}"))
    }
}

/// The largest number that `T` can hold.
fn max<T: TryFrom<u64>>() -> u64 {
    let largest = |bits: u32| u64::MAX >> (u64::BITS - bits);
    let mut bits = (1..=u64::BITS).rev().map(largest);
    bits.find(|number| T::try_from(*number).is_ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{between, whole};

    #[test]
    fn the_message_names_what_is_permitted() {
        assert_eq!(whole::<u16>("65535"), Ok(65_535));
        assert_eq!(whole::<u64>("18446744073709551615"), Ok(u64::MAX));
        let wrong = |text: &str| whole::<u16>(text).unwrap_err();
        for text in ["65536", "-1", "x", "", "1.5"] {
            assert_eq!(wrong(text), "expected a whole number from 0 to 65535", "{text}");
        }
        assert_eq!(between(1, 9)("9"), Ok(9));
        assert_eq!(between(1, 9)("0").unwrap_err(), "expected a whole number from 1 to 9");
        let wrong = whole::<i32>("2147483648").unwrap_err();
        assert_eq!(wrong, "expected a whole number from 0 to 2147483647");
    }
}
