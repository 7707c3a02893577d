//! The quick look that lets ordinary statements through.
//!
//! A statement that holds a secret holds one of these words, in one piece and outside of any
//! encoding: the server's tokens cannot be cut by comments, and client character sets all
//! contain ASCII. The look is at bytes alone, so no quote or comment can mislead it.
//!
//! The text is folded to one case in small pieces on the stack, where a vectorised search for
//! all words at once runs over it.

use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, packed};

/// Parts of the words that the rules of [`super::scan`] and [`super::words`] start from. The
/// search first looks for the first three bytes of each, all at once; where each part begins
/// was chosen by measuring how often ordinary statements make it look twice.
const WORDS: &[&str] = &[
    "identified",
    "passw", // PASSWORD, PASSWD
    "passphrase",
    "crypt", // ENCRYPT, DECRYPT
    "ncode", // ENCODE
    "ecode", // DECODE
    "connection",
    "n_list",   // OPTION_LIST
    "mmediate", // IMMEDIATE
    "prepare",
    "execute",
    "mysql",              // the schema
    "hentication_string", // AUTHENTICATION_STRING
    "global_priv",
    "sst_auth", // WSREP_SST_AUTH
    "filekey",
    "management_token",
    "secret",
    "tacho_",
    "challenge_response",
    "keyring",
    "asymmetric",
    "kdf",
];

/// Bytes looked at in one piece.
const PIECE_BYTES: usize = 256;
/// A shorter piece is searched together with the zeros behind it: the vectorised search has
/// a slow way for what is shorter than its vectors.
const SEARCHED_BYTES_MIN: usize = 64;
/// Bytes of a piece seen again at the start of the next: the longest word less one.
const OVERLAP_BYTES: usize = "challenge_response".len() - 1;

enum Search {
    Packed(packed::Searcher),
    Automaton(AhoCorasick),
}

/// Lower case for letters; what it does to other bytes does not matter, as long as it is the
/// same for words and texts.
fn fold(byte: u8) -> u8 {
    byte | 0x20
}

fn search() -> &'static Search {
    static SEARCH: OnceLock<Search> = OnceLock::new();
    SEARCH.get_or_init(|| {
        let words: Vec<Vec<u8>> =
            WORDS.iter().map(|word| word.bytes().map(fold).collect()).collect();
        let packed =
            packed::Config::new().heuristic_pattern_limits(false).builder().extend(&words).build();
        match packed {
            Some(searcher) => Search::Packed(searcher),
            // Processors without the vector instructions.
            None => Search::Automaton(
                AhoCorasick::new(&words).expect("two dozen short words fit an automaton"),
            ),
        }
    })
}

/// True when `text` may hold a secret.
pub(super) fn suspects(text: &[u8]) -> bool {
    let search = search();
    let mut piece = [0; PIECE_BYTES];
    let mut rest = text;
    loop {
        let bytes = rest.len().min(PIECE_BYTES);
        for (folded, byte) in piece.iter_mut().zip(rest) {
            *folded = fold(*byte);
        }
        let piece = &piece[..bytes.max(SEARCHED_BYTES_MIN)];
        let found = match search {
            Search::Packed(searcher) => searcher.find(piece).is_some(),
            Search::Automaton(automaton) => automaton.is_match(piece),
        };
        if found || bytes == rest.len() {
            return found;
        }
        rest = &rest[PIECE_BYTES - OVERLAP_BYTES..];
    }
}
