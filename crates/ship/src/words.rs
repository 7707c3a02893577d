//! Numbers in messages.

/// `1234567` as `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `12 MB of 1,234 MB`; the first part alone if the whole is not known.
#[must_use]
pub fn megabytes(done: u64, total: Option<u64>) -> String {
    let text = |bytes: u64| format!("{} MB", grouped(bytes / 1_000_000));
    match total {
        Some(total) => format!("{} of {}", text(done), text(total)),
        None => text(done),
    }
}

/// `1 line`, `2 lines`.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(counted(1, "line"), "1 line");
        assert_eq!(counted(1_000, "line"), "1,000 lines");
        assert_eq!(megabytes(999_999, None), "0 MB");
        assert_eq!(megabytes(12_000_000, Some(1_234_000_000_000)), "12 MB of 1,234,000 MB");
    }
}
