//! Numbers as decimal digits.

/// Numbers below this have at most eight digits.
pub(crate) const EIGHT_DIGITS: u64 = 100_000_000;

/// The eight digits of a number below 10^8 as text, with leading zeros.
pub(crate) fn eight_digits(number: u32) -> [u8; 8] {
    (digit_values(number) + ZEROS).to_le_bytes()
}

/// The digits of a number below 10^8 as text, without leading zeros, and their number. The bytes
/// after them are unspecified.
pub(crate) fn short_number(number: u32) -> ([u8; 8], usize) {
    let digits = digit_values(number);
    // The last digit stays, even if it is a zero.
    let leading_zeros = (digits | 1 << 56).trailing_zeros() / 8;
    (((digits + ZEROS) >> (8 * leading_zeros)).to_le_bytes(), 8 - leading_zeros as usize)
}

/// The two digits of a number below 100, as text. The bytes after them are unspecified.
pub(crate) fn two_digits(number: u32) -> [u8; 8] {
    debug_assert!(number < 100);
    (u64::from((number / 10) | ((number % 10) << 8)) + ZEROS).to_le_bytes()
}

const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);

/// The values of the eight digits, the first one in the lowest byte.
///
/// A word is split three times: into two numbers below 10,000, four below 100 and eight digits.
/// Each step acts on all parts at once; the multiplications with a shift are divisions, exact for
/// such small numbers.
fn digit_values(number: u32) -> u64 {
    debug_assert!(u64::from(number) < EIGHT_DIGITS);
    let number = u64::from(number);
    let fours = (number / 10_000) | (number % 10_000) << 32;
    // By 100.
    let quotients = ((fours * 10_486) >> 20) & 0x0000_007F_0000_007F;
    let twos = quotients | (fours - quotients * 100) << 16;
    // By 10.
    let quotients = ((twos * 103) >> 10) & 0x000F_000F_000F_000F;
    quotients | (twos - quotients * 10) << 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_standard_library() {
        // Both halves take every value, including those where the number of digits changes.
        let halves = (0..10_000).flat_map(|half| [half, half * 10_000, half * 10_001]);
        let powers = (0..8).map(|power| 10_u32.pow(power));
        let borders = powers.flat_map(|power| [power - 1, power, power + 1]);
        for number in halves.chain(borders).chain([99_999_999]) {
            let (text, count) = short_number(number);
            assert_eq!(text[..count], *number.to_string().as_bytes());
            assert_eq!(eight_digits(number), *format!("{number:08}").as_bytes());
            if number < 100 {
                assert_eq!(two_digits(number)[..2], *format!("{number:02}").as_bytes());
            }
        }
    }
}
