//! The server's keywords, and how each is written in a digest text.

mod table;

use table::KEYWORDS;

/// A word of the server's grammar.
#[derive(Debug)]
pub(crate) struct Keyword {
    word: &'static str,
    bare: &'static str,
    call: &'static str,
    is_the_same: bool,
    /// What the word is compared by.
    key: Key,
}

impl Keyword {
    const fn new(word: &'static str, bare: &'static str, call: &'static str) -> Keyword {
        let key = Key::of(word.as_bytes());
        Keyword { word, bare, call, is_the_same: is_equal(bare, call), key }
    }

    /// What is written for it where no parenthesis follows; empty: it is a name there.
    pub(crate) fn bare(&self) -> &'static str {
        self.bare
    }

    /// What is written for it before a parenthesis.
    pub(crate) fn call(&self) -> &'static str {
        self.call
    }

    /// Whether it is, before a parenthesis, what another word is anywhere.
    pub(crate) fn is_another_in_calls(&self) -> bool {
        // SESSION_USER and SYSTEM_USER.
        self.call == "USER"
    }

    /// Whether a parenthesis after it makes no difference.
    #[inline]
    pub(crate) fn is_the_same_in_calls(&self) -> bool {
        self.is_the_same
    }

    /// Whether a sign after it belongs to the number after that, and NULL is a value there.
    pub(crate) fn starts_expression(&self) -> bool {
        matches!(
            self.bare,
            "ALL"
                | "AND"
                | "AT"
                | "BETWEEN"
                | "BY"
                | "CASE"
                | "DEFAULT"
                | "DISTINCTROW"
                | "DIV"
                | "ELSE"
                | "ELSEIF"
                | "ENDS"
                | "EVERY"
                | "FOR"
                | "FROM"
                | "HAVING"
                | "IF"
                | "INTERVAL"
                | "LIKE"
                | "LIMIT"
                | "MOD"
                | "NOT"
                | "OFFSET"
                | "ON"
                | "OR"
                | "RETURN"
                | "RLIKE"
                | "SELECT"
                | "STARTS"
                | "THEN"
                | "UNTIL"
                | "USING"
                | "WHEN"
                | "WHERE"
                | "WHILE"
                | "XOR"
        )
    }

    pub(crate) fn is(&self, word: &str) -> bool {
        self.word == word
    }
}

const fn is_equal(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

/// Slots of the hash table: more than twice the words.
const SLOTS: usize = 2048;
/// Lengths of the words.
const LENGTHS: std::ops::RangeInclusive<usize> = 2..=WORD_BYTES_MAX;
const WORD_BYTES_MAX: usize = 32;

/// For each slot the number of a word, plus one; 0: none. Words that meet take the next free one.
static SLOT: [u16; SLOTS] = {
    assert!(KEYWORDS.len() * 2 < SLOTS);
    let mut slots = [0; SLOTS];
    let mut index = 0;
    while index < KEYWORDS.len() {
        let word = KEYWORDS[index].word.as_bytes();
        assert!(word.len() >= 2 && word.len() <= WORD_BYTES_MAX);
        let mut slot = hash(Key::of(word), word.len());
        while slots[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = index as u16 + 1;
        index += 1;
    }
    slots
};

/// The beginning and the end of a word of at least two bytes, the same whatever the case of its
/// letters. Words of letters, digits and `_` up to [`KEY_BYTES`] that have the same key and length
/// are the same: without the bit of the case such bytes still differ from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    head: u64,
    tail: u64,
}

/// Bytes that a [`Key`] has all of.
const KEY_BYTES: usize = 16;

impl Key {
    #[inline]
    const fn of(word: &[u8]) -> Key {
        const CASE: u64 = 0xDFDF_DFDF_DFDF_DFDF;
        let n = word.len();
        let (head, tail) = if n >= 8 {
            (eight(word, 0), eight(word, n - 8))
        } else if n >= 4 {
            (four(word, 0), four(word, n - 4))
        } else {
            (word[0] as u64 | (word[1] as u64) << 8, word[n - 1] as u64)
        };
        Key { head: head & CASE, tail: tail & CASE }
    }
}

#[inline]
const fn hash(key: Key, bytes: usize) -> usize {
    let mixed = key.head ^ key.tail.rotate_left(29) ^ (bytes as u64) << 5;
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 53) as usize
}

#[inline]
const fn eight(word: &[u8], at: usize) -> u64 {
    four(word, at) | four(word, at + 4) << 32
}

#[inline]
const fn four(word: &[u8], at: usize) -> u64 {
    u32::from_le_bytes([word[at], word[at + 1], word[at + 2], word[at + 3]]) as u64
}

/// The keyword that `word` is.
#[inline]
pub(crate) fn find(word: &[u8]) -> Option<&'static Keyword> {
    if !LENGTHS.contains(&word.len()) {
        return None;
    }
    let key = Key::of(word);
    let mut slot = hash(key, word.len());
    loop {
        let keyword = &KEYWORDS[usize::from(SLOT[slot]).checked_sub(1)?];
        if keyword.key == key
            && keyword.word.len() == word.len()
            && (word.len() <= KEY_BYTES || keyword.word.as_bytes().eq_ignore_ascii_case(word))
        {
            return Some(keyword);
        }
        slot = (slot + 1) % SLOTS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found_in_any_case() {
        for keyword in KEYWORDS {
            for word in [keyword.word.to_owned(), keyword.word.to_ascii_lowercase()] {
                let found = find(word.as_bytes()).expect("a keyword");
                assert_eq!(found.word, keyword.word);
                let longer = format!("{word}q");
                assert!(find(longer.as_bytes()).is_none_or(|found| found.word != keyword.word));
            }
        }
        for name in ["", "a", "id2", "customer", "SELEC", "SELECT_", "\u{e9}t\u{e9}"] {
            assert!(find(name.as_bytes()).is_none(), "{name}");
        }
    }

    /// A digest text is read as itself: the text of each word is a word with that text.
    #[test]
    fn texts_are_words_of_their_own() {
        for keyword in KEYWORDS {
            let again = |text: &str| find(text.as_bytes()).expect("a keyword");
            assert_eq!(again(keyword.call).call, keyword.call, "{keyword:?}");
            if !keyword.bare.is_empty() {
                assert_eq!(again(keyword.bare).bare, keyword.bare, "{keyword:?}");
            }
            assert_eq!(keyword.is_the_same, keyword.bare == keyword.call, "{keyword:?}");
        }
    }
}
