//! The digests of statements, with a cache for repeated texts.
//!
//! A cached text costs one pass of a fast hash and one comparison of the whole text, so two texts
//! never share a digest by accident or by design.

use tacho_sql::Mode;
use tacho_sql::digest::{Normaliser, TEXT_BYTES_DEFAULT, WRITTEN_BYTES, spread};

/// Number of cache entries; a text's hash selects its entry.
const KNOWN_COUNT: usize = 1024;
/// Longest text in the cache, bytes.
const KNOWN_BYTES_MAX: usize = 2048;

/// Computes digests, see the module documentation.
pub(super) struct Digests {
    known: Vec<Known>,
    normaliser: Normaliser,
    /// Digest of the last text that was too long for the cache.
    long: [u8; WRITTEN_BYTES],
}

impl Default for Digests {
    fn default() -> Digests {
        let normaliser = Normaliser::default();
        Digests { known: Vec::new(), normaliser, long: [0; WRITTEN_BYTES] }
    }
}

struct Known {
    text: Vec<u8>,
    mode: Option<Mode>,
    digest: [u8; WRITTEN_BYTES],
}

impl Digests {
    /// The digest of `text`, in its written form.
    #[inline]
    pub(super) fn of(&mut self, text: &[u8], mode: Mode) -> &[u8; WRITTEN_BYTES] {
        if text.len() > KNOWN_BYTES_MAX {
            self.long = written(&mut self.normaliser, text, mode);
            return &self.long;
        }
        if self.known.is_empty() {
            let none = || Known { text: Vec::new(), mode: None, digest: [0; WRITTEN_BYTES] };
            self.known.resize_with(KNOWN_COUNT, none);
        }
        let Digests { known, normaliser, .. } = self;
        let known = &mut known[spread(text) as usize % KNOWN_COUNT];
        if known.text != text || known.mode != Some(mode) {
            known.renew(normaliser, text, mode);
        }
        &known.digest
    }

    /// For texts without literals.
    pub(super) fn normaliser(&mut self) -> &mut Normaliser {
        &mut self.normaliser
    }

    /// Frees the memory of a huge text, beyond `bytes`.
    pub(super) fn shrink(&mut self, bytes: usize) {
        self.normaliser.shrink(bytes);
    }
}

impl Known {
    #[inline(never)]
    fn renew(&mut self, normaliser: &mut Normaliser, text: &[u8], mode: Mode) {
        self.text.clear();
        self.text.extend_from_slice(text);
        self.mode = Some(mode);
        self.digest = written(normaliser, text, mode);
    }
}

fn written(normaliser: &mut Normaliser, text: &[u8], mode: Mode) -> [u8; WRITTEN_BYTES] {
    normaliser.normalise(text, mode, TEXT_BYTES_DEFAULT).digest.written()
}

#[cfg(test)]
mod tests {
    use tacho_sql::High;
    use tacho_sql::grouping::Grouping;

    use super::*;

    #[test]
    fn digests_are_those_of_the_texts_whatever_was_kept() {
        let mut digests = Digests::default();
        let modes = [Grouping::Bytes, Grouping::Sjis].map(|set| Mode::new(set, High::LETTERS));
        for _ in 0..2 {
            for number in 0..5_000 {
                let mut text = format!("SELECT a{}, '\u{95}\\', {number}", number % 3).into_bytes();
                text.resize(text.len() + number, b' ');
                for mode in modes {
                    let expected = written(&mut Normaliser::default(), &text, mode);
                    assert_eq!(digests.of(&text, mode), &expected);
                }
            }
        }
    }
}
