//! The quick check that lets ordinary statements through.
//!
//! A statement with a secret contains one of these words in one piece, or a URL with a password,
//! outside any encoding: the server's tokens cannot be split by comments, and client character sets
//! all contain ASCII. The check only uses bytes, so no quote or comment can mislead it.
//!
//! The text is read two bytes at a time, at even offsets only. Each word has two pairs of letters
//! that are rare in ordinary statements, one at an even offset of the word and one at an odd
//! offset: wherever the word begins in the text, one of the two is at an even offset of the text.
//! At such a pair, the words that contain it are compared.

use super::url;

/// Parts of the words that the rules of [`super::scan`] and [`super::words`] start from, and the
/// offsets of the two pairs in them. Which part of a word is searched, and which of its pairs, was
/// chosen by their frequency in ordinary statements.
const WORDS: &[(&str, [usize; 2])] = &[
    ("identified", [6, 5]),
    ("passw", [2, 3]), // PASSWORD, PASSWD
    ("passphrase", [4, 5]),
    ("pwd", [0, 1]),
    ("crypt", [2, 1]), // ENCRYPT, DECRYPT
    ("ncode", [2, 1]), // ENCODE
    ("ecode", [2, 1]), // DECODE
    ("connection", [2, 3]),
    ("n_list", [0, 1]),   // OPTION_LIST
    ("mmediate", [0, 3]), // IMMEDIATE
    ("prepare", [2, 3]),
    ("execute", [0, 1]),
    ("mysql", [0, 3]),               // the schema
    ("hentication_string", [10, 5]), // AUTHENTICATION_STRING
    ("global_priv", [2, 1]),
    ("sst_auth", [4, 5]), // WSREP_SST_AUTH
    ("filekey", [0, 3]),
    ("management_token", [12, 5]),
    ("secret", [2, 1]),
    ("tacho_", [2, 3]),
    ("challenge_response", [0, 9]),
    ("keyring", [0, 1]),
    ("asymmetric", [2, 3]),
    ("kdf", [0, 1]),
];

/// Numbers of pairs: five bits of each byte suffice to distinguish letters, whatever their case.
const PAIR_COUNT: usize = 0x1F1F + 1;

/// Bytes looked at together.
const BLOCK_BYTES: usize = 8;

/// The number of a pair.
const fn pair_number(pair: [u8; 2]) -> usize {
    (u16::from_le_bytes(pair) & 0x1F1F) as usize
}

/// For each pair of some word: the number of its set of words, which is not 0.
static SET_OF_PAIR: [u8; PAIR_COUNT] = SETS.0;
/// The sets: one bit for each word.
static WORDS_OF_SET: [u32; 2 * WORDS.len() + 1] = SETS.1;

const SETS: ([u8; PAIR_COUNT], [u32; 2 * WORDS.len() + 1]) = {
    assert!(WORDS.len() <= u32::BITS as usize);
    let mut set_of_pair = [0; PAIR_COUNT];
    let mut words_of_set = [0; 2 * WORDS.len() + 1];
    let mut set_count = 0;
    let mut index = 0;
    while index < WORDS.len() {
        let (word, [even, odd]) = WORDS[index];
        assert!(even % 2 == 0 && odd % 2 == 1);
        let word = word.as_bytes();
        let pairs = [[word[even], word[even + 1]], [word[odd], word[odd + 1]]];
        let mut which = 0;
        while which < pairs.len() {
            let set = &mut set_of_pair[pair_number(pairs[which])];
            if *set == 0 {
                set_count += 1;
                *set = set_count;
            }
            words_of_set[*set as usize] |= 1 << index;
            which += 1;
        }
        index += 1;
    }
    (set_of_pair, words_of_set)
};

/// True when `text` may hold a secret.
pub(super) fn suspects(text: &[u8]) -> bool {
    let (blocks, rest) = text.as_chunks::<BLOCK_BYTES>();
    let has_pair = |block: &[u8; BLOCK_BYTES]| {
        // One check for all pairs of a block: hardly any block has one.
        pairs_of(block).fold(0, |sets, pair| sets | SET_OF_PAIR[pair_number(pair)]) != 0
    };
    let has_word = |at: usize, block: &[u8]| {
        pairs_of(block).enumerate().any(|(index, pair)| {
            let set = SET_OF_PAIR[pair_number(pair)];
            set != 0 && has_word_at(text, at + 2 * index, set)
        })
    };
    let mut blocks_at =
        blocks.iter().enumerate().map(|(index, block)| (BLOCK_BYTES * index, block));
    blocks_at.any(|(at, block)| has_pair(block) && has_word(at, block))
        || has_word(text.len() - rest.len(), rest)
        || url::suspects(text)
}

/// The pairs of bytes of a text; a last byte without a neighbour is left out.
fn pairs_of(text: &[u8]) -> impl Iterator<Item = [u8; 2]> {
    text.as_chunks::<2>().0.iter().copied()
}

/// Whether one of the words of `set` is in `text`, with its pair at `at`.
#[inline(never)]
fn has_word_at(text: &[u8], at: usize, set: u8) -> bool {
    let mut words = WORDS_OF_SET[usize::from(set)];
    while words != 0 {
        let (word, places) = WORDS[words.trailing_zeros() as usize];
        for place in places {
            let start = at.checked_sub(place);
            let there = start.and_then(|start| text.get(start..)?.get(..word.len()));
            if there.is_some_and(|there| is_same(there, word.as_bytes())) {
                return true;
            }
        }
        // Clears the lowest one.
        words &= words - 1;
    }
    false
}

/// Whether two texts are equal, ignoring the case of letters. One bit of other bytes is ignored,
/// too: that can only find a word too many.
fn is_same(text: &[u8], word: &[u8]) -> bool {
    text.iter().zip(word).all(|(a, b)| (a ^ b) & !0x20 == 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same result, by checking everything.
    fn has_some_word(text: &[u8]) -> bool {
        let has = |word: &str| text.windows(word.len()).any(|w| is_same(w, word.as_bytes()));
        WORDS.iter().any(|(word, _)| has(word)) || url::suspects(text)
    }

    /// Words and pieces of words, in any case, with anything between them.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        let piece = (prop::sample::select(WORDS), any::<(u8, u8, u32)>()).prop_map(
            |((word, _), (from, to, capitals))| {
                let from = usize::from(from) % 3;
                let to = if to % 2 == 0 { word.len() } else { usize::from(to) % word.len() };
                let mut piece = word.as_bytes()[from.min(to)..to].to_vec();
                for (index, byte) in piece.iter_mut().enumerate() {
                    if capitals & (1 << index) != 0 {
                        byte.make_ascii_uppercase();
                    }
                }
                piece
            },
        );
        let any_bytes = prop::collection::vec(any::<u8>(), 0..12);
        let password = Just(b"u:p@".to_vec());
        prop::collection::vec(prop_oneof![4 => piece, 2 => any_bytes, 1 => password], 0..6)
            .prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 20_000,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn no_word_is_missed(text in text()) {
            prop_assert_eq!(suspects(&text), has_some_word(&text));
        }
    }

    #[test]
    fn every_word_is_found_at_every_offset() {
        let words = WORDS.iter().map(|(word, _)| *word);
        for word in words.chain(["://u:p@"]) {
            for before in 0..20 {
                for after in 0..4 {
                    let text = [vec![b' '; before], word.as_bytes().to_vec(), vec![b'('; after]];
                    let text = text.concat();
                    assert!(suspects(&text), "{:?}", String::from_utf8_lossy(&text));
                    assert!(suspects(&text.to_ascii_uppercase()), "{word} in capitals");
                    // One byte less is not the word.
                    let short = &text[..before + word.len() - 1];
                    assert!(!suspects(short), "{:?}", String::from_utf8_lossy(short));
                }
            }
        }
    }

    #[test]
    fn ordinary_statements_are_let_through() {
        for text in [
            "",
            "S",
            "SELECT c FROM bench.sbtest1 WHERE id=4711",
            "UPDATE sbtest1 SET k=k+1 WHERE id=5031",
            "INSERT INTO orders (id, description, country) VALUES (1, 'mode', 'codec')",
            "COMMIT",
        ] {
            assert!(!suspects(text.as_bytes()), "{text}");
        }
    }
}
