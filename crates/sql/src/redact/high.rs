//! Which bytes above 0x7F are letters: a letter continues a name, any other byte ends it.

use std::sync::LazyLock;

use crate::High;

use tacho_record::charset::Charset;

/// The classes of the bytes above 0x7F in a character set, by the server's name of it.
pub(super) fn of(charset: &[u8]) -> High {
    /// For each set with characters of one byte.
    static SETS: LazyLock<Vec<(&'static Charset, High)>> = LazyLock::new(|| {
        let sets = Charset::all().iter().filter(|set| set.has_one_byte_characters());
        sets.map(|set| (set, High::of(|byte| character(set, byte)))).collect()
    });
    let set = Charset::by_name(charset);
    let known = SETS.iter().find(|(known, _)| set.is_some_and(|set| std::ptr::eq(set, *known)));
    known.map_or(High::LETTERS, |(_, high)| *high)
}

fn character(set: &Charset, byte: u8) -> Option<char> {
    let mut text = Vec::new();
    // An unassigned byte becomes U+FFFD, which is neither letter nor space.
    let _ = set.decode(&[byte], &mut text);
    str::from_utf8(&text).ok()?.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_no_break_space_of_one_byte_is_not_a_letter() {
        let letters = |name: &[u8]| of(name) == High::LETTERS;
        assert!(letters(b"utf8mb4") && letters(b"gbk") && letters(b"nosuch"));
        let latin1 = High::of(|byte| Some(char::from(byte)));
        assert_ne!(of(b"latin2"), latin1);
        assert_ne!(of(b"latin1"), High::LETTERS);
    }
}
