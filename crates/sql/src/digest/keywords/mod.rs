//! The server's keywords, and their spelling in a digest text.

mod table;

use table::KEYWORDS;

use crate::block::{BLOCK_BYTES, Block};
use crate::digest::kind::Kind;
use crate::digest::out::Padded;

/// A word of the server's grammar.
#[derive(Debug)]
pub(crate) struct Keyword {
    /// The key of comparisons.
    key: u128,
    word: &'static str,
    bare: Padded,
    call: Padded,
    usage: Usage,
    /// Its meaning for the tokens after it.
    pub(crate) kind: Kind,
}

/// When a word is a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// Always, with one text.
    Always,
    /// NULL, which is a literal or not.
    Null,
    /// Before a parenthesis it has another text, as a function.
    AlsoCall,
    /// Only before a parenthesis, where it is a function.
    Call,
    /// Only before a parenthesis, where it is another word elsewhere.
    Another,
}

impl Keyword {
    const fn new(word: &'static str, bare: &'static str, call: &'static str) -> Keyword {
        let usage = match (word.as_bytes(), bare.as_bytes(), call.as_bytes()) {
            (b"NULL", ..) => Usage::Null,
            // SESSION_USER and SYSTEM_USER.
            (_, b"", b"USER") => Usage::Another,
            (_, b"", _) => Usage::Call,
            _ if is_equal(bare, call) => Usage::Always,
            _ => Usage::AlsoCall,
        };
        Keyword {
            key: key(first_block(word.as_bytes()), word.len()),
            word,
            bare: Padded::new(bare),
            call: Padded::new(call),
            usage,
            kind: Kind::of_keyword(bare.as_bytes()),
        }
    }

    /// Its text where no parenthesis follows; empty: it is a name there.
    #[inline]
    pub(crate) fn bare(&self) -> &Padded {
        &self.bare
    }

    /// Its text before a parenthesis.
    #[inline]
    pub(crate) fn call(&self) -> &Padded {
        &self.call
    }

    #[inline]
    pub(crate) fn usage(&self) -> Usage {
        self.usage
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
/// Words with the same slot take the next free one.
static SLOT: [Option<&Keyword>; SLOTS] = {
    assert!(KEYWORDS.len() * 2 < SLOTS);
    let mut slots = [None; SLOTS];
    let mut index = 0;
    while index < KEYWORDS.len() {
        let Keyword { word, key, .. } = KEYWORDS[index];
        assert!(word.len() >= 2);
        let mut slot = hash(key);
        while slots[slot].is_some() {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = Some(&KEYWORDS[index]);
        index += 1;
    }
    slots
};

/// For each length, a mask of the bits of a block that count: without the case, and without bytes
/// after the word.
static MASKS: [u128; BLOCK_BYTES + 1] = {
    let mut masks = [0; BLOCK_BYTES + 1];
    let mut bytes = 1;
    while bytes <= BLOCK_BYTES {
        masks[bytes] = masks[bytes - 1] << 8 | 0xDF;
        bytes += 1;
    }
    masks
};

/// The beginning of a word, the same for every case of its letters. Words of letters, digits and
/// `_` that fit into one block and have the same key are equal: without the case bit such bytes
/// still differ, and none is 0.
#[inline]
const fn key(block: Block, bytes: usize) -> u128 {
    let bytes = if bytes < BLOCK_BYTES { bytes } else { BLOCK_BYTES };
    block.number() & MASKS[bytes]
}

/// The first block of a word, as [`Block::at`] returns it.
const fn first_block(word: &[u8]) -> Block {
    let mut number = 0;
    let mut index = 0;
    while index < word.len() && index < BLOCK_BYTES {
        number |= (word[index] as u128) << (8 * index);
        index += 1;
    }
    Block::of_number(number)
}

#[inline]
const fn hash(key: u128) -> usize {
    let mixed = key as u64 ^ ((key >> 64) as u64).rotate_left(29);
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 53) as usize
}

/// The keyword made of the first `bytes` of a block, fewer than the block has.
#[inline]
pub(crate) fn find(block: Block, bytes: usize) -> Option<&'static Keyword> {
    let key = key(block, bytes);
    let mut slot = hash(key);
    loop {
        let keyword = SLOT[slot]?;
        if keyword.key == key {
            return Some(keyword);
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// The keyword equal to `word`; `block` begins with the word.
pub(crate) fn find_word(block: Block, word: &[u8]) -> Option<&'static Keyword> {
    if word.len() < BLOCK_BYTES {
        return find(block, word.len());
    }
    let mut slot = hash(key(block, word.len()));
    loop {
        let keyword = SLOT[slot]?;
        if keyword.word.as_bytes().eq_ignore_ascii_case(word) {
            return Some(keyword);
        }
        slot = (slot + 1) % SLOTS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(word: &str) -> Option<&'static Keyword> {
        // Text after a word is not part of it.
        let text = format!("{word} SELECT * FROM t");
        find_word(Block::at(text.as_bytes(), 0), word.as_bytes())
    }

    fn str(text: &Padded) -> &str {
        std::str::from_utf8(&text.bytes()[..text.len()]).expect("ASCII")
    }

    #[test]
    fn every_word_is_found_in_any_case() {
        for keyword in KEYWORDS {
            for word in [keyword.word.to_owned(), keyword.word.to_ascii_lowercase()] {
                let found = find(&word).expect("a keyword");
                assert_eq!(found.word, keyword.word);
                let longer = format!("{word}q");
                assert!(find(&longer).is_none_or(|found| found.word != keyword.word));
            }
        }
        for name in ["", "a", "id2", "customer", "SELEC", "SELECT_", "\u{e9}t\u{e9}"] {
            assert!(find(name).is_none(), "{name}");
        }
        let long = "MASTER_SSL_VERIFY_SERVER_CERZ";
        assert!(find(long).is_none());
    }

    /// A digest text reads back as itself: the text of each word is a word with that text.
    #[test]
    fn texts_are_words_of_their_own() {
        for keyword in KEYWORDS {
            let again = |text: &Padded| find(str(text)).expect("a keyword");
            assert_eq!(again(&keyword.call).call, keyword.call, "{keyword:?}");
            if !keyword.bare.is_empty() {
                assert_eq!(again(&keyword.bare).bare, keyword.bare, "{keyword:?}");
            }
        }
    }

    #[test]
    fn words_are_used_as_the_table_says() {
        let usage = |word| find(word).expect("a keyword").usage;
        assert_eq!(usage("SELECT"), Usage::Always);
        assert_eq!(usage("NULL"), Usage::Null);
        assert_eq!(usage("COUNT"), Usage::Call);
        assert_eq!(usage("SYSTEM_USER"), Usage::Another);
        assert_eq!(usage("CURRENT_DATE"), Usage::AlsoCall);
        let of_expressions = |keyword: &&Keyword| keyword.kind.starts_expression();
        // 35 texts, some with several words.
        assert!(KEYWORDS.iter().filter(of_expressions).count() >= 35);
    }
}
