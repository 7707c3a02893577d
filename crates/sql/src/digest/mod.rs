//! A statement without its literals, and its hash: the same for all executions of one shape of
//! statement, whatever the values, the white space, the comments and the case of the keywords. The
//! rules are those of MariaDB's and MySQL's own statement digests; the normative text, with the
//! differences, is `docs/specs/digest.md`.
//!
//! | module | contents |
//! |---|---|
//! | `known` | cached results of texts that differ only in their literals |
//! | `form` | such a text without its plain literals |
//! | `lexer` | bytes to tokens, in one pass |
//! | `fold` | tokens to the text, lists folded |
//! | `block` | classes of sixteen bytes |
//! | `kind` | the meaning of a token for those after it |
//! | `out` | the text, hashed in pieces |
//! | `keywords` | the server's words |
//! | `charsets` | the names of introducers |
//! | `shapes` | cached hashes of texts that repeat |
//! | `prospect` | whether a lookup in the cache is worthwhile |
//!
//! Texts of many megabytes are read in pieces: beside the requested text this takes 16 KiB,
//! whatever the length, and up to 5 MiB for the caches.

pub(crate) mod block;
mod charsets;
mod fold;
mod form;
pub(crate) mod keywords;
pub(crate) mod kind;
mod known;
mod lexer;
mod out;
mod prospect;
mod shapes;

use std::fmt;

use crate::Mode;
use fold::Fold;
use known::KnownForms;
use lexer::Lexer;
use out::Finished;
pub use shapes::spread;

/// The version of the rules and the hash. Digests of different versions are never equal.
pub const VERSION: u32 = 1;

/// Bytes of text that are kept by default: the servers' default `max_digest_length`.
pub const TEXT_BYTES_DEFAULT: usize = 1024;

/// Replaces the rest of a text if its literals cannot be determined.
pub const REDACTED: &[u8] = b"<redacted>";

/// The hash of a normalised statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest([u8; 16]);

/// Bytes of a written digest.
pub const WRITTEN_BYTES: usize = tacho_record::DIGEST_BYTES;

impl Digest {
    /// Its written form: version, a colon, 32 lower-case hexadecimal digits.
    pub fn written(self) -> [u8; WRITTEN_BYTES] {
        const { assert!(VERSION < 10) };
        let mut text = [b':'; WRITTEN_BYTES];
        text[0] = b'0' + VERSION as u8;
        for (pair, byte) in text[2..].as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [byte >> 4, byte & 15];
        }
        // Computed, not looked up: the compiler makes vector code of it.
        for digit in &mut text[2..] {
            *digit += if *digit < 10 { b'0' } else { b'a' - 10 };
        }
        text
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.written()))
    }
}

/// A normalised statement.
#[derive(Clone, Copy, Debug)]
pub struct Normalised<'n> {
    /// The text, or its beginning. In the character set of the statement.
    pub text: &'n [u8],
    /// `text` is incomplete.
    pub is_cut: bool,
    /// The hash of all of it.
    pub digest: Digest,
    /// The server cannot have parsed the statement as it was read here: something is not closed, or
    /// there is a backslash outside quotes.
    pub is_broken: bool,
    /// The text ends with [`REDACTED`]: the meaning of the rest is unknown.
    pub is_given_up: bool,
    /// There was not enough memory: text and hash are wrong.
    pub out_of_memory: bool,
}

/// Reusable buffers for normalising.
pub struct Normaliser {
    fold: Fold,
    known: KnownForms,
}

impl Default for Normaliser {
    fn default() -> Normaliser {
        Normaliser { fold: Fold::new(), known: KnownForms::new() }
    }
}

impl Normaliser {
    /// Normalises a statement: all of it is hashed, and the first `text_bytes_max` bytes of its
    /// text are kept.
    pub fn normalise(&mut self, sql: &[u8], mode: Mode, text_bytes_max: usize) -> Normalised<'_> {
        let Normaliser { fold, known } = self;
        let Some(mut place) = known.find(sql, &mode) else {
            return read(fold, sql, mode, text_bytes_max);
        };
        if !place.is_known(&mode) {
            if !place.comes_again() {
                return read(fold, sql, mode, text_bytes_max);
            }
            let normalised = read(fold, sql, mode, usize::MAX);
            if normalised.out_of_memory {
                return normalised;
            }
            place.renew(mode, normalised);
        }
        place.normalised(text_bytes_max)
    }

    /// Releases the memory of a large text, beyond `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        self.fold.shrink(bytes);
    }
}

/// Reads a statement token by token.
fn read<'f>(fold: &'f mut Fold, sql: &[u8], mode: Mode, text_bytes_max: usize) -> Normalised<'f> {
    fold.begin(text_bytes_max);
    let mut lexer = Lexer::new(sql, mode);
    lexer.read(fold);
    let Finished { hash, is_cut, out_of_memory } = fold.finish();
    Normalised {
        text: fold.text(),
        is_cut,
        digest: Digest(hash),
        is_broken: lexer.is_broken(),
        is_given_up: lexer.is_given_up(),
        out_of_memory,
    }
}
