//! The hashes of texts that repeat: a server executes few shapes of statements, however many
//! statements.
//!
//! A cached text costs one pass of a fast hash and one comparison instead of a cryptographic hash.
//! The whole text is compared, so that no two texts can share a hash by accident or by design. A
//! hash is cached when its text occurs for the second time, as with [forms](crate::digest::known).

use crate::digest::prospect::Prospect;

/// Maximum number of cached texts; those whose fast hashes have the same last bits share an entry.
const KNOWN_COUNT: usize = 128;
/// Longest cached text, bytes: all together take at most 1 MiB. An ORM's SELECT of a hundred
/// columns has 7 KiB.
const TEXT_BYTES_MAX: usize = 8 << 10;

#[derive(Clone, Default)]
struct Known {
    text: Vec<u8>,
    hash: [u8; 16],
    /// The fast hash of the last text that is not cached here.
    came_once: u64,
}

/// See the module documentation.
#[derive(Default)]
pub(crate) struct Shapes {
    known: Vec<Known>,
    prospect: Prospect,
}

impl Shapes {
    /// The hash of `text`, which `hash` computes if it is not cached.
    #[inline]
    pub(crate) fn hash_of(
        &mut self,
        text: &[u8],
        hash: impl FnOnce(&[u8]) -> [u8; 16],
    ) -> [u8; 16] {
        if text.len() > TEXT_BYTES_MAX || !self.prospect.is_good() {
            return hash(text);
        }
        if self.known.is_empty() {
            self.known.resize_with(KNOWN_COUNT, Known::default);
        }
        let spread = spread(text);
        let known = &mut self.known[spread as usize % KNOWN_COUNT];
        // The entry of a text that never occurred holds an empty one.
        if known.text == text && !text.is_empty() {
            self.prospect.found();
            return known.hash;
        }
        let hash = hash(text);
        if known.came_once == spread {
            known.hash = hash;
            known.text.clear();
            known.text.extend_from_slice(text);
        }
        known.came_once = spread;
        hash
    }
}

/// A hash that only has to distribute texts over entries: equal hashes are compared.
#[inline]
#[must_use]
pub fn spread(text: &[u8]) -> u64 {
    const SEED: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |hash: u64, [one, other]: [u64; 2]| {
        let wide = u128::from(hash ^ one) * u128::from(SEED ^ other);
        (wide as u64) ^ (wide >> 64) as u64
    };
    let words = |piece: &[u8; 16]| {
        let wide = u128::from_le_bytes(*piece);
        [wide as u64, (wide >> 64) as u64]
    };
    let (pieces, rest) = text.as_chunks::<16>();
    let hash = pieces.iter().fold(text.len() as u64, |hash, piece| mix(hash, words(piece)));
    // The rest, together with the bytes before it: a copy of a fixed size is not a call.
    let last = text.last_chunk().copied().unwrap_or_else(|| {
        let mut short = [0; 16];
        short[..rest.len()].copy_from_slice(rest);
        short
    });
    mix(mix(hash, words(&last)), [SEED, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_hashes_are_those_of_the_texts() {
        let mut shapes = Shapes::default();
        let hash = |text: &[u8]| *blake3::hash(text).as_bytes().first_chunk().unwrap();
        for _ in 0..2 {
            for number in (0..4_000_usize).map(|number| number / 2) {
                let mut text = format!("{number}").into_bytes();
                text.resize(number * 7 % 9_000, b'x');
                assert_eq!(shapes.hash_of(&text, hash), hash(&text), "{number}");
            }
        }
        let mut shapes = Shapes::default();
        let hash_again = |_: &[u8]| panic!("it was cached");
        for _ in 0..2 {
            assert_eq!(shapes.hash_of(b"SELECT ?", hash), hash(b"SELECT ?"));
        }
        assert_eq!(shapes.hash_of(b"SELECT ?", hash_again), hash(b"SELECT ?"));
    }
}
